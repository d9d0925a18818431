//! Agents of every kind behind one trait. A backend starts and speaks to one program; it knows nothing of tabs,
//! workflows or routing, and never sees a second prompt before the first one's turn has ended.

mod acp;
mod claude;
mod config;
mod demo;
mod drive;
mod handle;
mod process;
mod tool;

pub use config::{AgentConfig, AgentKind, ConfigError};
pub(crate) use process::find as find_program;

use async_trait::async_trait;
use routing_core::agent::AgentEvent;
use routing_core::id::{AgentSessionId, Backend};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Where an agent finds its tools: our MCP endpoint with a handle of its own.
#[derive(Clone)]
pub struct McpEndpoint {
    /// `http://127.0.0.1:<port>/mcp/<handle>`.
    pub url: String,
    /// Sent as `Authorization: Bearer …` with every call.
    pub bearer: String,
}

/// The driver of one configured agent. `name` is `NAME` of `[agents.NAME]`.
pub fn build(name: &str, config: &AgentConfig) -> Arc<dyn AgentBackend> {
    match config.kind {
        AgentKind::Claude => Arc::new(claude::Claude::new(config.clone())),
        AgentKind::Acp => Arc::new(acp::Acp::new(name, config.clone())),
        AgentKind::Demo => Arc::new(demo::Demo::new(config.clone())),
    }
}

/// All that a start needs.
#[derive(Clone)]
pub struct Launch {
    /// The conversation's backend name.
    pub name: Backend,
    /// The session to go on with, if one is known.
    pub resume: Option<AgentSessionId>,
    /// Go back to this point of that session first: an anchor that the agent named itself. What came after it is not in
    /// its memory, and the session goes on under another name.
    pub resume_at: Option<String>,
    /// Our tools.
    pub mcp: McpEndpoint,
    /// Working folder; exists, below the daemon's home.
    pub cwd: PathBuf,
    /// The model to use, if one was chosen.
    pub model: Option<String>,
    /// How the agent is introduced to its work (persona and rules).
    pub instructions: String,
    /// Deadline for the whole start, session creation included.
    pub deadline: Duration,
    /// Where the session reports, in order. The sender is dropped with the session.
    pub events: mpsc::UnboundedSender<AgentEvent>,
}

/// One prompt: one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The text for the agent, composed when the message is taken.
    pub text: String,
}

/// Whether a backend can be used now, for the picker.
#[derive(Clone, Debug, Serialize)]
pub struct Readiness {
    /// The program was found.
    pub found: bool,
    /// Signed in, if that can be told.
    pub signed_in: Option<bool>,
    /// Version, if known.
    pub version: Option<String>,
    /// The one command or step that mends it, when something is missing.
    pub mend: Option<String>,
}

/// Why a start failed. [`StartError::code`] is stable.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program is not there.
    #[error("{program} was not found: {mend}")]
    NotFound {
        /// What was looked for.
        program: String,
        /// What to do.
        mend: String,
    },
    /// It ended before it was ready.
    #[error("{program} ended while starting: {reason}")]
    Exited {
        /// The program.
        program: String,
        /// Exit status and the last lines of its error output.
        reason: String,
    },
    /// It did not get ready in time.
    #[error("{program} was not ready after {} s, while {stage}", .after.as_secs())]
    Timeout {
        /// The program.
        program: String,
        /// What it was doing.
        stage: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// It does not know the session that it was to go on with (rule S6).
    #[error("the agent no longer knows session {0}")]
    UnknownSession(AgentSessionId),
    /// It needs the person to sign in.
    #[error("{program} is not signed in: {mend}")]
    NotSignedIn {
        /// The program.
        program: String,
        /// What to do.
        mend: String,
    },
    /// It said something that the protocol does not allow.
    #[error("{program} broke its protocol: {reason}")]
    Protocol {
        /// The program.
        program: String,
        /// What was wrong.
        reason: String,
    },
}

impl StartError {
    /// Whether another attempt may go better without anybody doing something.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Exited { .. } | Self::Timeout { .. } => true,
            Self::NotFound { .. } | Self::UnknownSession(_) | Self::NotSignedIn { .. } | Self::Protocol { .. } => false,
        }
    }

    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::Exited { .. } => "exited",
            Self::Timeout { .. } => "start_timeout",
            Self::UnknownSession(_) => "unknown_session",
            Self::NotSignedIn { .. } => "not_signed_in",
            Self::Protocol { .. } => "protocol",
        }
    }
}

/// A kind of agent, configured.
#[async_trait]
pub trait AgentBackend: Send + Sync {
    /// Can it be used now? Cheap; starts no session.
    async fn probe(&self) -> Readiness;

    /// Models to offer; empty when the agent does not tell.
    fn models(&self) -> Vec<String>;

    /// Starts a process and a session, and returns once the agent is ready for a prompt.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is left running after an error.
    async fn start(&self, launch: Launch) -> Result<Box<dyn AgentSession>, StartError>;
}

/// A running agent.
#[async_trait]
pub trait AgentSession: Send {
    /// Begins a turn. Returns once the agent has it; the outcome comes as [`AgentEvent::TurnEnd`], exactly once.
    async fn prompt(&mut self, prompt: Prompt);

    /// Ends the running turn early; no effect without one. [`AgentEvent::TurnEnd`] still comes.
    async fn interrupt(&mut self);

    /// Stops the process and waits until it and its children are gone (at most 3 s, then they are killed).
    async fn close(self: Box<Self>);

    /// The process's id, for tests and the status page.
    fn pid(&self) -> Option<u32>;
}
