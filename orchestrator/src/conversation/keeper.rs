//! The keeper of one conversation's agent (rule S2): starts it when it is wanted, resumes its session, passes on what it
//! does, and notices when it goes silent. It knows no tab and no workflow.

use super::journal::Journal;
use super::{Clock, seed};
use crate::agent::{AgentBackend, AgentSession, Launch, McpEndpoint, Prompt, StartError};
use crate::config::Limits;
use crate::fault;
use crate::store::sessions::{SessionStore, Stored};
use crate::tools::Handles;
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::id::{AgentSessionId, Backend, ConversationKey, TurnId};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// How a fresh agent is introduced to its work.
const INSTRUCTIONS: &str = include_str!("instructions.md");
/// After a silent turn was interrupted, how long it may take to end.
const SETTLE: Duration = Duration::from_secs(10);

/// What the person is told when the agent's own memory does not reach where the conversation went.
const RETOLD: &str = "This agent cannot go there by itself. It begins a new session and is told what is shown here.";

/// What a keeper is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Have the agent up for a turn.
    Wake(TurnId),
    /// Begin the turn.
    Prompt(String),
    /// End the turn early.
    Interrupt,
    /// Stop the agent, keep its session.
    Retire,
    /// Stop the agent; resume another session, or none, from now on.
    Forget {
        /// Which.
        session: Option<AgentSessionId>,
        /// What stays of the conversation the agent only knows from being told.
        retold: bool,
    },
    /// Use this session if the store has none.
    Hint(AgentSessionId),
    /// Use this model from the next start on.
    Model(String),
    /// Stop the agent for good and answer.
    Stop(oneshot::Sender<()>),
}

/// What a keeper tells.
#[derive(Debug)]
pub(super) enum Report {
    /// The agent is up.
    Ready(TurnId),
    /// It could not be started.
    Failed {
        /// For which turn.
        turn: TurnId,
        /// Another attempt may go better.
        may_pass: bool,
        /// Stable.
        code: String,
        /// What happened and what to do.
        message: String,
    },
    /// It did something.
    Event(AgentEvent),
    /// A [`Order::Forget`] is carried out; whether it is on disk.
    Forgotten(bool),
    /// Something to tell the person.
    Notice(String),
}

/// What every keeper is made from.
#[derive(Clone)]
pub struct KeeperParts {
    /// Session ids on disk.
    pub sessions: Arc<SessionStore>,
    /// Handles for tools.
    pub handles: Arc<Handles>,
    /// The record, for a session that starts anew.
    pub journal: Journal,
    /// Deadlines.
    pub limits: Limits,
    /// Below it each agent has its working folder.
    pub folder: PathBuf,
    /// The time.
    pub clock: Clock,
}

/// An agent that is up.
struct Up {
    session: Box<dyn AgentSession>,
    events: mpsc::UnboundedReceiver<AgentEvent>,
    endpoint: McpEndpoint,
    resumed: Option<AgentSessionId>,
    /// It went back within the session that it resumed, and has it under another name from then on.
    rewound: bool,
    /// The model that it was started with.
    model: Option<String>,
}

pub(super) struct Keeper {
    name: Backend,
    key: ConversationKey,
    backend: Arc<dyn AgentBackend>,
    parts: KeeperParts,
    orders: mpsc::UnboundedReceiver<Order>,
    /// Orders that came while the agent was starting.
    later: VecDeque<Order>,
    reports: mpsc::UnboundedSender<(Backend, Report)>,
    up: Option<Up>,
    hint: Option<AgentSessionId>,
    model: Option<String>,
    /// Told with the next prompt.
    seed: Option<String>,
    /// The running turn's silence ends here.
    silence: Option<Instant>,
    in_tool: bool,
    interrupted_for_silence: bool,
}

impl Keeper {
    /// Starts the keeper's task.
    pub(super) fn spawn(
        name: Backend,
        backend: Arc<dyn AgentBackend>,
        parts: KeeperParts,
        reports: mpsc::UnboundedSender<(Backend, Report)>,
    ) -> mpsc::UnboundedSender<Order> {
        let (sender, orders) = mpsc::unbounded_channel();
        let keeper = Self {
            key: ConversationKey::of(&name),
            name,
            backend,
            parts,
            orders,
            later: VecDeque::new(),
            reports,
            up: None,
            hint: None,
            model: None,
            seed: None,
            silence: None,
            in_tool: false,
            interrupted_for_silence: false,
        };
        tokio::spawn(keeper.run());
        sender
    }

    async fn run(mut self) {
        loop {
            let order = match self.later.pop_front() {
                Some(order) => order,
                None => match self.next().await {
                    Some(order) => order,
                    None => break,
                },
            };
            match order {
                Order::Wake(turn) => self.wake(turn).await,
                Order::Prompt(text) => self.prompt(text).await,
                Order::Interrupt => {
                    if let Some(up) = &mut self.up {
                        up.session.interrupt().await;
                    }
                }
                Order::Retire => self.down().await,
                Order::Forget { session, retold } => self.forget(session, retold).await,
                Order::Hint(session) => self.hint = Some(session),
                // The next turn starts with it, in the same session. Until then the agent may be about to get a prompt.
                Order::Model(model) => self.model = Some(model),
                Order::Stop(done) => {
                    self.down().await;
                    let _ = done.send(());
                    return;
                }
            }
        }
        self.down().await;
    }

    /// The next order; meanwhile the agent's events are passed on and its silence is timed.
    async fn next(&mut self) -> Option<Order> {
        loop {
            let silence = self.silence;
            let events = self.up.as_mut().map(|up| &mut up.events);
            let event = async {
                match events {
                    Some(events) => events.recv().await,
                    None => std::future::pending().await,
                }
            };
            let silent = async {
                match silence {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = event => match event {
                    Some(event) => self.event(event).await,
                    None => self.down().await,
                },
                order = self.orders.recv() => return order,
                () = silent => self.fell_silent().await,
            }
        }
    }

    async fn event(&mut self, event: AgentEvent) {
        if self.silence.is_some() {
            self.in_tool = in_tool_after(self.in_tool, &event);
            self.listen();
        }
        let mut gone = false;
        match &event {
            AgentEvent::Session { id } => self.learnt_session(id).await,
            AgentEvent::TurnEnd { outcome, .. } => {
                fault::at("turn-ended");
                self.silence = None;
                gone = matches!(outcome, TurnOutcome::Failed { code, .. } if code == "exited");
            }
            AgentEvent::Exited { .. } => gone = true,
            AgentEvent::Delta { .. }
            | AgentEvent::Thought { .. }
            | AgentEvent::Text { .. }
            | AgentEvent::Tool { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::Notice { .. } => {}
        }
        let event = match event {
            AgentEvent::TurnEnd { outcome: TurnOutcome::Interrupted, anchor } if self.interrupted_for_silence => {
                AgentEvent::TurnEnd { outcome: self.stalled(), anchor }
            }
            event => event,
        };
        self.report(Report::Event(event));
        if gone {
            self.down().await;
        }
    }

    /// Times the turn's silence anew.
    fn listen(&mut self) {
        let allowed = if self.in_tool { self.parts.limits.stall_in_tool } else { self.parts.limits.stall };
        self.silence = Some(Instant::now() + allowed);
    }

    /// The agent has said nothing for too long: the turn is interrupted, and ended with the process if that does not help.
    async fn fell_silent(&mut self) {
        let Some(up) = &mut self.up else {
            self.silence = None;
            return;
        };
        if self.interrupted_for_silence {
            let outcome = self.stalled();
            self.silence = None;
            self.report(Report::Event(AgentEvent::TurnEnd { outcome, anchor: None }));
            self.down().await;
            return;
        }
        self.interrupted_for_silence = true;
        up.session.interrupt().await;
        self.silence = Some(Instant::now() + SETTLE);
    }

    fn stalled(&self) -> TurnOutcome {
        let allowed = if self.in_tool { self.parts.limits.stall_in_tool } else { self.parts.limits.stall };
        TurnOutcome::Failed {
            code: "stalled".to_owned(),
            message: format!(
                "{} gave no sign of life for {} s and was stopped. Say it again, or look at the agent's own log.",
                self.name,
                allowed.as_secs()
            ),
        }
    }

    async fn wake(&mut self, turn: TurnId) {
        if self.up.as_ref().is_some_and(|up| up.model != self.model) {
            self.down().await;
        }
        if self.up.is_some() {
            return self.report(Report::Ready(turn));
        }
        fault::at("agent-starting");
        match self.start().await {
            Some(Ok(())) => {
                fault::at("agent-started");
                self.report(Report::Ready(turn));
            }
            Some(Err(error)) => {
                let (may_pass, code) = (error.may_pass(), error.code().to_owned());
                let message = format!("The agent did not start: {error}.");
                self.report(Report::Failed { turn, may_pass, code, message });
            }
            // Told to stop meanwhile: nobody waits for the turn any more.
            None => {}
        }
    }

    /// Starts the agent, going on with its session if there is one. `None`: an order to stop came first.
    async fn start(&mut self) -> Option<Result<(), StartError>> {
        let stored = self.parts.sessions.get(&self.key, self.parts.clock.now_ms());
        let hint = self.hint.take().filter(|hint| !self.parts.sessions.is_dead(&self.key, hint));
        let resume = stored.or(hint);
        match self.launch(resume.clone()).await? {
            Err(StartError::UnknownSession(dead)) => {
                // Tried once (rule S6).
                self.mark_dead(&dead).await;
                self.report(Report::Notice(
                    "The agent no longer has this conversation's session. It goes on with a new one, from the record."
                        .to_owned(),
                ));
                self.launch(None).await
            }
            other => Some(other),
        }
    }

    async fn launch(&mut self, resume: Option<AgentSessionId>) -> Option<Result<(), StartError>> {
        let program = self.name.to_string();
        let protocol = |reason: String| StartError::Protocol { program: program.clone(), reason };
        let resume_at = match &resume {
            Some(session) => match self.rewound_to(session).await {
                Ok(point) => point,
                // Better no start than an agent that remembers what was gone back from.
                Err(reason) => return Some(Err(protocol(reason))),
            },
            None => None,
        };
        let cwd = self.parts.folder.join(self.name.as_str());
        if let Err(error) = tokio::fs::create_dir_all(&cwd).await {
            return Some(Err(protocol(format!("its folder {} cannot be made: {error}", cwd.display()))));
        }
        let endpoint = match self.parts.handles.issue(self.name.clone()) {
            Ok(endpoint) => endpoint,
            Err(error) => return Some(Err(protocol(format!("no handle for its tools could be made: {error}")))),
        };
        let (sender, events) = mpsc::unbounded_channel();
        let model = self.model.clone();
        let launch = Launch {
            name: self.name.clone(),
            resume: resume.clone(),
            resume_at: resume_at.clone(),
            mcp: endpoint.clone(),
            cwd,
            model: model.clone(),
            instructions: INSTRUCTIONS.to_owned(),
            deadline: self.parts.limits.start,
            events: sender,
        };
        let backend = self.backend.clone();
        let started = {
            let mut starting = backend.start(launch);
            loop {
                tokio::select! {
                    started = &mut starting => break Some(started),
                    order = self.orders.recv() => match order {
                        None => break None,
                        Some(order @ (Order::Retire | Order::Forget { .. } | Order::Stop(_))) => {
                            // Nobody waits for a turn any more.
                            self.later.retain(|order| !matches!(order, Order::Wake(_)));
                            self.later.push_back(order);
                            break None;
                        }
                        Some(order) => self.later.push_back(order),
                    },
                }
            }
        };
        match started {
            Some(Ok(session)) => {
                if resume.is_none() {
                    self.plant_seed().await;
                }
                self.up = Some(Up { session, events, endpoint, resumed: resume, rewound: resume_at.is_some(), model });
                Some(Ok(()))
            }
            Some(Err(error)) => {
                self.parts.handles.revoke(&endpoint);
                Some(Err(error))
            }
            None => {
                self.parts.handles.revoke(&endpoint);
                None
            }
        }
    }

    async fn rewound_to(&mut self, session: &AgentSessionId) -> Result<Option<String>, String> {
        let (journal, key, session) = (self.parts.journal.clone(), self.key.clone(), session.clone());
        let read = tokio::task::spawn_blocking(move || journal.rewound_to(&key, &session)).await;
        let read = read.map_err(|error| error.to_string())?;
        read.map_err(|error| format!("where the conversation was rewound to cannot be read: {error}"))
    }

    /// A session without memory is told the record with its first prompt.
    async fn plant_seed(&mut self) {
        let (journal, key) = (self.parts.journal.clone(), self.key.clone());
        let recent = tokio::task::spawn_blocking(move || journal.recent(&key, seed::ROWS)).await;
        match recent {
            Ok(Ok(mut rows)) => {
                // What is pending is the prompt itself.
                rows.retain(|row| !row.inbound || row.settled);
                self.seed = seed::seed(&rows);
            }
            Ok(Err(error)) => tracing::warn!(%error, "the record could not be read for a new session"),
            Err(error) => tracing::warn!(%error, "the record could not be read for a new session"),
        }
    }

    async fn prompt(&mut self, text: String) {
        let text = match self.seed.take() {
            Some(seed) => format!("{seed}\n\n{text}"),
            None => text,
        };
        self.in_tool = false;
        self.interrupted_for_silence = false;
        self.listen();
        match &mut self.up {
            Some(up) => {
                fault::at("prompt-due");
                up.session.prompt(Prompt { text }).await;
                fault::at("prompt-given");
            }
            None => {
                // It went down between its start and the prompt.
                self.silence = None;
                let message = format!("{} ended before it took the message. Say it again.", self.name);
                let outcome = TurnOutcome::Failed { code: "exited".to_owned(), message };
                self.report(Report::Event(AgentEvent::TurnEnd { outcome, anchor: None }));
            }
        }
    }

    async fn learnt_session(&mut self, id: &AgentSessionId) {
        if let Some(up) = &self.up
            && !up.rewound
            && up.resumed.as_ref().is_some_and(|resumed| resumed != id)
        {
            // It was to go on with another one and did not: its memory is empty.
            self.plant_seed().await;
        }
        let (sessions, key, id, now) =
            (self.parts.sessions.clone(), self.key.clone(), id.clone(), self.parts.clock.now_ms());
        fault::at("session-learnt");
        let stored = tokio::task::spawn_blocking(move || sessions.set(&key, &id, now)).await;
        fault::at("session-stored");
        if let Ok(Stored::Volatile(error)) = stored {
            tracing::warn!(%error, "the agent's session is not on disk");
        }
    }

    async fn mark_dead(&mut self, dead: &AgentSessionId) {
        let (sessions, key, dead, now) =
            (self.parts.sessions.clone(), self.key.clone(), dead.clone(), self.parts.clock.now_ms());
        let marked = tokio::task::spawn_blocking(move || sessions.mark_dead(&key, &dead, now)).await;
        if let Ok(Stored::Volatile(error)) = marked {
            tracing::warn!(%error, "a dead session could not be marked on disk");
        }
    }

    async fn forget(&mut self, session: Option<AgentSessionId>, mut retold: bool) {
        fault::at("forget-begun");
        self.down().await;
        fault::at("forget-agent-down");
        let known = session.is_some();
        let session = session.filter(|id| !self.parts.sessions.is_dead(&self.key, id));
        retold |= known && session.is_none();
        self.hint = None;
        self.seed = None;
        let (sessions, key, now) = (self.parts.sessions.clone(), self.key.clone(), self.parts.clock.now_ms());
        let stored = tokio::task::spawn_blocking(move || match session {
            Some(id) => sessions.set(&key, &id, now),
            None => sessions.clear(&key, now),
        })
        .await;
        fault::at("forget-stored");
        self.report(Report::Forgotten(stored.is_ok_and(|stored| stored.is_durable())));
        if retold {
            self.report(Report::Notice(RETOLD.to_owned()));
        }
    }

    /// Stops the agent. What it still says is not passed on.
    async fn down(&mut self) {
        self.silence = None;
        if let Some(up) = self.up.take() {
            self.parts.handles.revoke(&up.endpoint);
            up.session.close().await;
        }
    }

    fn report(&self, report: Report) {
        let _ = self.reports.send((self.name.clone(), report));
    }
}

/// Whether a tool may be at work after an event: it is until the agent says something again. Figures and notices come at
/// any time.
fn in_tool_after(before: bool, event: &AgentEvent) -> bool {
    match event {
        AgentEvent::Tool { .. } => true,
        AgentEvent::Delta { .. }
        | AgentEvent::Thought { .. }
        | AgentEvent::Text { .. }
        | AgentEvent::TurnEnd { .. }
        | AgentEvent::Exited { .. } => false,
        AgentEvent::Session { .. } | AgentEvent::Usage { .. } | AgentEvent::Notice { .. } => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_at_work_until_the_agent_speaks_again() {
        let tool = AgentEvent::Tool { name: "panel_run".to_owned(), detail: String::new() };
        let notice = AgentEvent::Notice { text: "x".to_owned() };
        let text = AgentEvent::Delta { id: "1".to_owned(), text: "x".to_owned() };
        assert!(in_tool_after(false, &tool));
        assert!(in_tool_after(true, &notice) && !in_tool_after(false, &notice));
        assert!(!in_tool_after(true, &text));
    }
}
