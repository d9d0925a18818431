//! What is shown: rows of the transcript, questions, the agent's plan. Plain values, which cross the WASM border as JSON.

use crate::id::{AskId, MessageId, Seq, TurnId};
use serde::{Deserialize, Serialize};

/// One row of the transcript.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Row {
    /// Its place in the log. Absent: it is in no log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// What it is.
    pub kind: RowKind,
    /// Its text; may be empty.
    pub text: String,
    /// The message, for [`RowKind::User`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mid: Option<MessageId>,
    /// The turn that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// When it was committed, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub at_ms: Option<i64>,
    /// The workflow that a message came from, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// A message came from another browser tab.
    #[serde(default)]
    pub elsewhere: bool,
    /// The block whose place it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// The tool, for [`RowKind::Action`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the tool call is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How a turn ended: `completed`, `interrupted`, `put_back`, `failed`, or `unknown` after a restart; why a boundary was
    /// drawn: `new_session`, `resume_session` or `rewind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A person said it.
    User,
    /// The agent said it.
    Say,
    /// The daemon tells the person something.
    Notice,
    /// A tool call.
    Action,
    /// Something that the agent was told: a run ended, a mail came.
    Event,
    /// The agent asked the person.
    Ask,
    /// The person answered.
    Answer,
    /// A turn began.
    TurnStart,
    /// A turn ended.
    TurnEnd,
    /// A new chat began.
    Boundary,
    /// A message was taken back: its row stays, this one has its `mid`.
    Cancelled,
    /// A kind that this version does not know.
    Other,
}

impl RowKind {
    /// The kind of an `entry`.
    pub fn of(kind: &str) -> Self {
        match kind {
            "user" => Self::User,
            "say" => Self::Say,
            "notice" | "blind" => Self::Notice,
            "action" => Self::Action,
            "event" => Self::Event,
            "ask" => Self::Ask,
            "answer" => Self::Answer,
            "turn_start" => Self::TurnStart,
            "turn_end" => Self::TurnEnd,
            "boundary" => Self::Boundary,
            "cancelled" => Self::Cancelled,
            _ => Self::Other,
        }
    }
}

/// A question with choices.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Question {
    /// Which.
    pub ask_id: AskId,
    /// A short heading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The question.
    pub question: String,
    /// Two or more choices.
    pub options: Vec<Choice>,
    /// Several may be chosen.
    pub multi_select: bool,
}

/// One choice of a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Choice {
    /// What is chosen and answered.
    pub label: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// One item of the agent's plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct TodoItem {
    /// What is to be done.
    pub text: String,
    /// `pending`, `active` or `done`.
    #[serde(default = "pending")]
    pub status: String,
}

fn pending() -> String {
    "pending".to_owned()
}
