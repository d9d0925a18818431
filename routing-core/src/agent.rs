//! What an agent tells the router, whatever program it is.

use crate::id::AgentSessionId;
use serde::{Deserialize, Serialize};

/// One thing that an agent did. The order is the agent's order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The agent named its session; sent whenever the name is learnt or changes.
    Session {
        /// The agent's own name for its session.
        id: AgentSessionId,
    },
    /// A piece of text that is still being written. `id` names the block within the conversation.
    Delta {
        /// The block that grows.
        id: String,
        /// What was added.
        text: String,
    },
    /// A piece of visible reasoning.
    Thought {
        /// The block that grows.
        id: String,
        /// What was added.
        text: String,
    },
    /// A finished block of text. `id` equals that of its deltas, if there were any.
    Text {
        /// The block that is complete.
        id: String,
        /// The whole text.
        text: String,
    },
    /// A tool call began.
    Tool {
        /// The tool's plain name, without the agent's prefix for our server (`panel_run`, `Bash`).
        name: String,
        /// What it is about in a few words, for people; may be empty.
        detail: String,
    },
    /// Usage figures, where the agent tells them.
    Usage {
        /// Tokens in the context.
        used: Option<u64>,
        /// Size of the context in tokens.
        window: Option<u64>,
        /// Model that answered.
        model: Option<String>,
        /// Cost so far in millionths of a dollar.
        cost_micros: Option<u64>,
    },
    /// Something that the person should read, which ends no turn.
    Notice {
        /// The text.
        text: String,
    },
    /// The turn is over. Exactly one for each prompt that was taken, also when the process died.
    TurnEnd {
        /// How it ended.
        outcome: TurnOutcome,
        /// A point to rewind to, where the agent has such.
        anchor: Option<String>,
    },
    /// The process is gone while no turn was running.
    Exited {
        /// What is known of the cause.
        reason: String,
    },
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The agent finished.
    Completed,
    /// It was interrupted on request.
    Interrupted,
    /// It failed.
    Failed {
        /// A stable code: `not_found`, `not_signed_in`, `start_timeout`, `exited`, `stalled`, `model_error`, `protocol`.
        code: String,
        /// What happened and what to do, for people.
        message: String,
    },
}
