//! Frames about what is past: what a transcript keeps, the sessions, what was found, documents.

use crate::id::{AgentSessionId, Seq};
use serde::{Deserialize, Serialize};

/// Rows of the log from after one place up to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Span {
    /// After this row.
    pub after: Seq,
    /// Up to and with this one.
    pub upto: Seq,
}

/// What the transcript consists of from now on: what was shown goes, and is read anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Transcript {
    /// These rows come first, in this order.
    pub kept: Vec<Span>,
    /// Then those after this.
    pub after: Seq,
}

/// The sessions of the conversation, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct HistoryList {
    /// Names the request.
    pub cid: String,
    /// At most 50.
    pub sessions: Vec<PastSession>,
    /// Why there is no list; then `sessions` says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One session of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PastSession {
    /// What `resume_session` takes: the agent's name for it, else `log:` and where it begins.
    pub session_id: AgentSessionId,
    /// The first words of the person.
    pub title: String,
    /// When its last row was written, in milliseconds since 1970.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub updated_at: i64,
    /// How many messages it has, of both sides.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub message_count: u64,
    /// It is the one that is going on.
    #[serde(default)]
    pub current: bool,
}

/// What was said in a session, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct HistoryTranscript {
    /// Names the request.
    pub cid: String,
    /// Of which session.
    pub session_id: AgentSessionId,
    /// At most the newest 500.
    pub messages: Vec<PastMessage>,
    /// Why there is none; then `messages` says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One message of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct PastMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub text: String,
}

/// Where some words stand, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct HistoryFound {
    /// Names the request.
    pub cid: String,
    /// The rows that have every word.
    pub hits: Vec<Hit>,
    /// There are more.
    #[serde(default)]
    pub more: bool,
    /// Why nothing was looked for; then `hits` says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A row that has every word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Hit {
    /// Its place.
    pub seq: Seq,
    /// Its kind, as in `entry`.
    pub kind: String,
    /// When it was written, in milliseconds since 1970.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub at_ms: i64,
    /// The text around the first word.
    pub text: String,
    /// In which session; what `resume_session` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<AgentSessionId>,
}

/// A part of a document; parts come in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct HistoryExport {
    /// Names the request.
    pub cid: String,
    /// A name for the file.
    pub name: String,
    /// The next part of its text.
    pub text: String,
    /// Nothing follows.
    pub last: bool,
    /// Why there is no document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
