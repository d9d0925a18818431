//! One driver under test: how it is configured, started and listened to.

use super::tools::Tools;
use orchestrator::agent::{AgentBackend, AgentConfig, AgentSession, Launch, Prompt, StartError, build};
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::id::{AgentSessionId, Backend};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// No single wait of a test is longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A configured driver with its home and tools.
pub(crate) struct Bench {
    /// Settings of the driver.
    pub(crate) config: AgentConfig,
    /// The tools endpoint.
    pub(crate) tools: Tools,
    /// Holds `home` and `work`.
    pub(crate) scratch: TempDir,
}

impl Bench {
    /// A bench for these settings, with a scratch home of its own.
    pub(crate) async fn new(mut config: AgentConfig) -> Self {
        let scratch = TempDir::new().unwrap();
        for folder in ["home", "work"] {
            std::fs::create_dir(scratch.path().join(folder)).unwrap();
        }
        let home = scratch.path().join("home");
        config.env.insert("HOME".into(), home.to_str().unwrap().into());
        config.env.insert("XDG_CONFIG_HOME".into(), home.join("config").to_str().unwrap().into());
        Self { config, tools: Tools::start().await, scratch }
    }

    /// The driver.
    pub(crate) fn backend(&self) -> Arc<dyn AgentBackend> {
        build("tested", &self.config)
    }

    /// Starts a session, or fails the test.
    pub(crate) async fn start(&self, resume: Option<AgentSessionId>) -> Running {
        match self.try_start(resume).await {
            Ok(running) => running,
            Err(error) => panic!("the agent did not start: {error}"),
        }
    }

    /// Starts a session.
    pub(crate) async fn try_start(&self, resume: Option<AgentSessionId>) -> Result<Running, StartError> {
        self.start_within(resume, Duration::from_secs(30)).await
    }

    /// Starts a session with this deadline.
    pub(crate) async fn start_within(
        &self,
        resume: Option<AgentSessionId>,
        deadline: Duration,
    ) -> Result<Running, StartError> {
        self.start_backend(&*self.backend(), resume, deadline).await
    }

    /// Starts a session of a driver that the caller keeps.
    pub(crate) async fn start_backend(
        &self,
        backend: &dyn AgentBackend,
        resume: Option<AgentSessionId>,
        deadline: Duration,
    ) -> Result<Running, StartError> {
        self.launch(backend, resume, None, deadline).await
    }

    /// Goes back within a session.
    pub(crate) async fn start_at(&self, session: AgentSessionId, anchor: &str) -> Result<Running, StartError> {
        self.launch(&*self.backend(), Some(session), Some(anchor.to_owned()), Duration::from_secs(30)).await
    }

    async fn launch(
        &self,
        backend: &dyn AgentBackend,
        resume: Option<AgentSessionId>,
        resume_at: Option<String>,
        deadline: Duration,
    ) -> Result<Running, StartError> {
        let (sender, events) = mpsc::unbounded_channel();
        let launch = Launch {
            name: Backend::from("tested"),
            resume,
            resume_at,
            mcp: self.tools.endpoint.clone(),
            cwd: self.scratch.path().join("work"),
            model: None,
            instructions: "You help with a canvas.".into(),
            deadline,
            events: sender,
        };
        let session = timeout(PATIENCE, backend.start(launch)).await.expect("a start has a deadline")?;
        Ok(Running { session, events, open_turns: 0 })
    }
}

/// A session and what it reports.
pub(crate) struct Running {
    /// The session.
    pub(crate) session: Box<dyn AgentSession>,
    events: mpsc::UnboundedReceiver<AgentEvent>,
    open_turns: usize,
}

/// Everything that was reported for one prompt.
#[derive(Debug)]
pub(crate) struct Turn {
    /// All events, the end included.
    pub(crate) events: Vec<AgentEvent>,
    /// How it ended.
    pub(crate) outcome: TurnOutcome,
    /// The point to rewind to.
    pub(crate) anchor: Option<String>,
}

impl Running {
    /// The next event.
    pub(crate) async fn next(&mut self) -> AgentEvent {
        let event = timeout(PATIENCE, self.events.recv()).await.expect("an event in time");
        let event = event.expect("the session still reports");
        self.count(&event);
        event
    }

    // One end for each prompt, and none without.
    fn count(&mut self, event: &AgentEvent) {
        if matches!(event, AgentEvent::TurnEnd { .. }) {
            self.open_turns = self.open_turns.checked_sub(1).expect("a turn ended twice");
        }
    }

    /// Sends a prompt and waits for its end.
    pub(crate) async fn turn(&mut self, text: &str) -> Turn {
        self.prompt(text).await;
        self.finish(Vec::new()).await
    }

    /// Sends a prompt.
    pub(crate) async fn prompt(&mut self, text: &str) {
        self.open_turns += 1;
        self.session.prompt(Prompt { text: text.into() }).await;
    }

    /// Waits until text streams, and returns what was reported up to there.
    pub(crate) async fn until_text(&mut self) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            let is_text = matches!(event, AgentEvent::Delta { .. });
            assert!(!matches!(event, AgentEvent::TurnEnd { .. }), "ended before any text: {events:?} {event:?}");
            events.push(event);
            if is_text {
                return events;
            }
        }
    }

    /// Waits for the end of the turn whose first events are known.
    pub(crate) async fn finish(&mut self, mut events: Vec<AgentEvent>) -> Turn {
        loop {
            let event = self.next().await;
            events.push(event.clone());
            if let AgentEvent::TurnEnd { outcome, anchor } = event {
                return Turn { events, outcome, anchor };
            }
        }
    }

    /// Closes the session, and checks that every turn has ended, once.
    pub(crate) async fn close(self) {
        let Self { session, mut events, mut open_turns } = self;
        timeout(PATIENCE, session.close()).await.expect("close is bounded");
        while let Some(event) = timeout(PATIENCE, events.recv()).await.expect("reports end") {
            if matches!(event, AgentEvent::TurnEnd { .. }) {
                open_turns = open_turns.checked_sub(1).expect("a turn ended twice");
            }
        }
        assert_eq!(open_turns, 0, "a turn never ended");
    }
}

impl Turn {
    /// The finished texts.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let texts = self.events.iter().filter_map(|event| match event {
            AgentEvent::Text { text, .. } => Some(text.trim()),
            _ => None,
        });
        texts.collect()
    }

    /// Names of the tools called.
    pub(crate) fn tools(&self) -> Vec<&str> {
        let tools = self.events.iter().filter_map(|event| match event {
            AgentEvent::Tool { name, .. } => Some(name.as_str()),
            _ => None,
        });
        tools.collect()
    }

    /// The session's name, when it was told.
    pub(crate) fn session(&self) -> Option<AgentSessionId> {
        self.events.iter().find_map(|event| match event {
            AgentEvent::Session { id } => Some(id.clone()),
            _ => None,
        })
    }

    /// The code of a failure.
    pub(crate) fn failure(&self) -> Option<(&str, &str)> {
        match &self.outcome {
            TurnOutcome::Failed { code, message } => Some((code, message)),
            TurnOutcome::Completed | TurnOutcome::Interrupted => None,
        }
    }

    /// Every text is the sum of its deltas, and no id is used for two texts.
    pub(crate) fn check_blocks(&self) {
        let mut finished = Vec::new();
        for event in &self.events {
            let AgentEvent::Text { id, text } = event else { continue };
            assert!(!finished.contains(&id), "block {id} finished twice");
            finished.push(id);
            let grown: String = self
                .events
                .iter()
                .filter_map(|event| match event {
                    AgentEvent::Delta { id: of, text } if of == id => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            assert_eq!(&grown, text, "block {id}");
        }
        for event in &self.events {
            if let AgentEvent::Delta { id, .. } = event {
                assert!(finished.contains(&id), "block {id} never finished: {:#?}", self.events);
            }
        }
    }
}

/// Whether a process is there and no zombie.
pub(crate) fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z')))
}

/// Every process of a group, zombies excluded.
pub(crate) fn group(leader: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let ids = processes.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()));
    ids.filter(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            fields.first() != Some(&"Z") && fields.get(2) == Some(&leader.to_string().as_str())
        })
    })
    .collect()
}

/// Kills one process with SIGKILL.
pub(crate) fn kill(pid: u32) {
    let status = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}
