//! The built-in helper: no program, no model, no network but our own tools endpoint. It understands a few plain
//! requests, so that everything around an agent can be tried before one is installed. Knows no routing: like any
//! agent it calls tools and is told when it may not.

mod act;
mod graph;
mod request;
mod tools;
mod voice;

use super::config::AgentConfig;
use super::handle::{Handle, Order, Reporter};
use super::{AgentBackend, AgentSession, Launch, Readiness, StartError};
use act::Helper;
use async_trait::async_trait;
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::id::AgentSessionId;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tools::Tools;
use uuid::Uuid;
use voice::Voice;

const PROGRAM: &str = "The built-in helper";

/// The built-in helper, configured.
pub(super) struct Demo {
    config: AgentConfig,
}

impl Demo {
    /// A driver with these settings.
    pub(super) fn new(config: AgentConfig) -> Self {
        Self { config }
    }
}

#[async_trait]
impl AgentBackend for Demo {
    async fn probe(&self) -> Readiness {
        Readiness {
            found: true,
            signed_in: Some(true),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            mend: None,
        }
    }

    fn models(&self) -> Vec<String> {
        self.config.models.clone()
    }

    async fn start(&self, launch: Launch) -> Result<Box<dyn AgentSession>, StartError> {
        // It remembers nothing of a talk but its name, so every name of its own making can be gone on with.
        let session = match launch.resume {
            Some(known) if Uuid::parse_str(known.as_str()).is_ok() => known,
            Some(unknown) => return Err(StartError::UnknownSession(unknown)),
            None => AgentSessionId(Uuid::new_v4().to_string()),
        };
        let tools =
            Tools::new(launch.mcp).map_err(|reason| StartError::Protocol { program: PROGRAM.into(), reason })?;
        let (handle, orders) = Handle::new(None);
        let reporter = Reporter::new(launch.events);
        reporter.say(AgentEvent::Session { id: session });
        let pause = Duration::from_millis(self.config.word_delay_ms);
        let voice = Voice::new(reporter, Uuid::new_v4().to_string(), pause);
        tokio::spawn(run(Helper::new(tools), voice, orders));
        Ok(Box::new(handle))
    }
}

async fn run(mut helper: Helper, mut voice: Voice, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut prompts = VecDeque::new();
    let done = loop {
        let text = match prompts.pop_front() {
            Some(text) => text,
            None => match orders.recv().await {
                Some(Order::Prompt(text)) => text,
                Some(Order::Interrupt) => continue,
                Some(Order::Close(done)) => break Some(done),
                None => break None,
            },
        };
        voice.reporter().begin();
        let ending = turn(&mut helper, &mut voice, &text, &mut orders, &mut prompts).await;
        voice.stop();
        match ending {
            Ending::Turn(outcome) => voice.reporter().end(outcome, None),
            Ending::Closed(done) => {
                voice.reporter().end(TurnOutcome::Interrupted, None);
                break done;
            }
        }
    };
    drop(voice);
    if let Some(done) = done {
        // The caller may have stopped waiting.
        let _ = done.send(());
    }
}

enum Ending {
    Turn(TurnOutcome),
    Closed(Option<oneshot::Sender<()>>),
}

async fn turn(
    helper: &mut Helper,
    voice: &mut Voice,
    text: &str,
    orders: &mut mpsc::UnboundedReceiver<Order>,
    prompts: &mut VecDeque<String>,
) -> Ending {
    let work = helper.turn(text, voice);
    tokio::pin!(work);
    loop {
        tokio::select! {
            outcome = &mut work => return Ending::Turn(outcome),
            order = orders.recv() => match order {
                Some(Order::Prompt(text)) => prompts.push_back(text),
                Some(Order::Interrupt) => return Ending::Turn(TurnOutcome::Interrupted),
                Some(Order::Close(done)) => return Ending::Closed(done.into()),
                None => return Ending::Closed(None),
            },
        }
    }
}
