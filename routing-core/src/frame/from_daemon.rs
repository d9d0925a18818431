//! Frames that the daemon sends.

use super::{Extra, FrameError, HistoryExport, HistoryFound, HistoryList, HistoryTranscript, Span, Transcript, object};
use crate::id::{AgentSessionId, ConversationKey, MessageId, Rid, Seq, TabKey, TurnId, WorkflowUuid};
use crate::target::Target;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A frame from the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum FromDaemon {
    /// A frame with a known `type`.
    Typed(DaemonFrame),
    /// Something to do on the canvas.
    Command(CommandFrame),
    /// A `type` that this version does not know: ignored, kept as it came.
    Unknown(Map<String, Value>),
}

impl From<DaemonFrame> for FromDaemon {
    fn from(frame: DaemonFrame) -> Self {
        Self::Typed(frame)
    }
}

impl FromDaemon {
    /// Reads a text frame.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn parse(text: &str) -> Result<Self, FrameError> {
        let map = object(text)?;
        let kind = map.get("type").and_then(Value::as_str).map(str::to_owned);
        let bad = |kind: &str, error: serde_json::Error| FrameError::BadField {
            kind: kind.to_owned(),
            problem: error.to_string(),
        };
        match kind {
            None if map.contains_key("cmd") && map.contains_key("rid") => {
                serde_json::from_value(Value::Object(map)).map(Self::Command).map_err(|error| bad("command", error))
            }
            None => Err(FrameError::NoType),
            Some(kind) => match DaemonFrame::read(&kind, map) {
                Ok(frame) => Ok(Self::Typed(frame)),
                Err(Unread::Unknown(map)) => Ok(Self::Unknown(map)),
                Err(Unread::Bad(error)) => Err(bad(&kind, error)),
            },
        }
    }

    /// The text that goes on the wire.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether a viewer may see it (rule F5): an allow-list, so that a new type is closed by default.
    pub fn is_for_viewers(&self) -> bool {
        const ALLOWED: &[&str] = &[
            "say",
            "stream",
            "thinking",
            "echo",
            "turn",
            "turn_anchor",
            "session",
            "agent_status",
            "action",
            "download_progress",
        ];
        match self {
            Self::Typed(frame) => ALLOWED.contains(&frame.kind()),
            Self::Command(_) | Self::Unknown(_) => false,
        }
    }
}

/// Something to do on the canvas of one tab.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct CommandFrame {
    /// This dispatch. A retry has another.
    pub rid: Rid,
    /// The command, a row of the table.
    pub cmd: String,
    /// How long the daemon waits, in milliseconds.
    pub timeout_ms: u64,
    /// The stamp: the instance that the call was issued for (rule G5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_uuid: Option<WorkflowUuid>,
    /// The pin (rules G3, G4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_path: Option<String>,
    /// An earlier dispatch with unknown outcome: answer from the ledger if it was carried out (rule G11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<Rid>,
    /// The command's own arguments, beside these.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub args: Map<String, Value>,
}

/// Why a map is no [`DaemonFrame`].
enum Unread {
    Unknown(Map<String, Value>),
    Bad(serde_json::Error),
}

macro_rules! daemon_frames {
    ($($(#[$doc:meta])* $variant:ident($body:ty) = $name:literal,)*) => {
        /// The frames that are told by `type`.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
        #[serde(tag = "type")]
        pub enum DaemonFrame {
            $($(#[$doc])* #[serde(rename = $name)] $variant($body),)*
        }

        impl DaemonFrame {
            /// Every `type` of this list.
            pub const TYPES: &[&str] = &[$($name),*];

            /// The frame's `type`.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* }
            }

            /// Reads a frame whose `type` is known already. What serde derives for a tagged enum does the same in three
            /// times the code, and the panel loads it over the network.
            fn read(kind: &str, mut map: Map<String, Value>) -> Result<Self, Unread> {
                match kind {
                    $($name => {
                        map.remove("type");
                        serde_json::from_value(Value::Object(map)).map(Self::$variant).map_err(Unread::Bad)
                    })*
                    _ => Err(Unread::Unknown(map)),
                }
            }
        }
        $(impl From<$body> for FromDaemon {
            fn from(body: $body) -> Self {
                Self::Typed(DaemonFrame::$variant(body))
            }
        })*
    };
}

daemon_frames! {
    /// The answer to a hello of dialect 1.
    Welcome(Welcome) = "welcome",
    /// Which run of the daemon this is. First of all.
    SessionEpoch(SessionEpoch) = "session_epoch",
    /// Models of the conversation's agent; the handshake that a legacy panel waits for.
    Models(Models) = "models",
    /// Agents to choose from.
    Backends(Backends) = "backends",
    /// What the conversation is pinned to.
    WorkflowTarget(WorkflowTargetFrame) = "workflow_target",
    /// Which ComfyUI the tab's tools use.
    ComfyuiTarget(ComfyuiTarget) = "comfyui_target",
    /// A request was taken.
    Ack(Ack) = "ack",
    /// A frame was refused.
    Nack(Nack) = "nack",
    /// Legacy: what the person said, as committed.
    Echo(Echo) = "echo",
    /// Legacy: what the agent or the daemon said, as committed.
    Say(Say) = "say",
    /// Text as it is written.
    Stream(Stream) = "stream",
    /// A tool call began.
    Action(Action) = "action",
    /// Whether the agent works.
    Turn(Turn) = "turn",
    /// The agent's session.
    Session(Session) = "session",
    /// A point to rewind to.
    TurnAnchor(TurnAnchor) = "turn_anchor",
    /// Usage figures.
    AgentStatus(AgentStatus) = "agent_status",
    /// Dialect 1: one committed row of the log.
    Entry(Entry) = "entry",
    /// Dialect 1: what the transcript consists of from now on; its rows follow.
    Transcript(Transcript) = "transcript",
    /// The sessions of the conversation.
    HistoryList(HistoryList) = "history_list",
    /// What was said in a session.
    HistoryTranscript(HistoryTranscript) = "history_transcript",
    /// Where some words stand.
    HistoryFound(HistoryFound) = "history_found",
    /// A part of a document.
    HistoryExport(HistoryExport) = "history_export",
    /// A question was closed elsewhere: take its card away.
    AskClosed(AskClosed) = "ask_closed",
    /// Which installations go on.
    DownloadProgress(DownloadProgress) = "download_progress",
    /// A bounded queue is full.
    Overloaded(Overloaded) = "overloaded",
}

/// The answer to a hello of dialect 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct Welcome {
    /// The dialect that is spoken.
    pub protocol: u32,
    /// Which run of the daemon this is.
    pub epoch: String,
    /// The conversation that the tab takes part in.
    pub conversation: ConversationKey,
    /// Entries follow from the one after this.
    pub after: Seq,
    /// Earlier rows that belong to the transcript and come before those: it is read from its beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Span>>"))]
    pub kept: Vec<Span>,
    /// The daemon's name for the tab: what `tab` means in tools.
    pub tab: TabKey,
    /// What the daemon can do beyond the dialect.
    pub capabilities: Vec<String>,
    /// Bounds, in milliseconds and counts, by the names of `[limits]`.
    #[cfg_attr(feature = "schema", ts(type = "Record<string, number>"))]
    pub limits: Map<String, Value>,
}

/// Which run of the daemon this is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct SessionEpoch {
    /// New with every start.
    pub epoch: String,
}

/// Models of the conversation's agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Models {
    /// Which run of the daemon this is, again.
    pub epoch: String,
    /// To choose from; may be empty.
    pub models: Vec<Model>,
    /// The chosen one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Whose models.
    pub backend: String,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// What `set_options.model` takes.
    pub value: String,
    /// What a person reads.
    pub display_name: String,
}

/// Agents to choose from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Backends {
    /// In the order of preference.
    pub backends: Vec<BackendInfo>,
    /// Whether any can be used now.
    pub any_ready: bool,
    /// Whether all were looked at.
    pub discovery_complete: bool,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct BackendInfo {
    /// Its name in the configuration.
    pub backend: String,
    /// The program was found.
    pub cli: bool,
    /// Signed in; `null`: cannot be told.
    #[cfg_attr(feature = "schema", ts(optional = false))]
    pub auth: Option<bool>,
    /// Can be used now.
    pub ready: bool,
    /// Is configured.
    pub available: bool,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What mends it when it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// What the conversation is pinned to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct WorkflowTargetFrame {
    /// The target.
    pub target: Target,
}

/// Which ComfyUI the tab's tools use (one authority, report 25).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct ComfyuiTarget {
    /// Its address.
    pub url: String,
    /// Whether it is on this machine.
    pub is_local: bool,
}

/// A request was taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Ack {
    /// Whether it was.
    pub ok: bool,
    /// Which: `working`, `seen`, `ready`, `degraded`, `interrupt`, `cancel_message`, `reorder`, `new_session`, …
    pub kind: String,
    /// The message, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mid: Option<MessageId>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Further fields of the kind: `removed`, `interrupted`, `durable_cleared`, `durable`, `backend`, `agent`, `target`, …
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

impl Ack {
    /// An acknowledgement of a kind.
    pub fn new(ok: bool, kind: &str) -> Self {
        Self { ok, kind: kind.to_owned(), mid: None, message: None, extra: Extra::new() }
    }

    /// With the message that it is about.
    #[must_use]
    pub fn mid(mut self, mid: &MessageId) -> Self {
        self.mid = Some(mid.clone());
        self
    }

    /// With words for people.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// With a further field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }
}

/// A frame was refused: never dropped in silence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Nack {
    /// The message that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mid: Option<MessageId>,
    /// The command whose reply was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rid: Option<Rid>,
    /// Stable.
    pub code: String,
    /// What happened and what to do.
    pub message: String,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Legacy: what the person said.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Echo {
    /// The text.
    pub text: String,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mid: Option<MessageId>,
}

/// Legacy: what the agent or the daemon said.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Say {
    /// The text.
    pub text: String,
    /// The block, when it was streamed. Absent: the daemon speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// It was streamed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamed: Option<bool>,
}

/// Text as it is written; `end` closes the block.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Stream {
    /// `text`, `think` or `end`.
    pub phase: StreamPhase,
    /// The block.
    pub id: String,
    /// What was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<String>,
}

/// What a [`Stream`] frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StreamPhase {
    /// Text of the answer.
    Text,
    /// Visible reasoning.
    Think,
    /// The block is complete.
    End,
}

/// A tool call began.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Action {
    /// The tool.
    pub name: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Whether the agent works.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Turn {
    /// `working` or `done`.
    pub state: TurnState,
}

/// The state in a [`Turn`] frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// A turn runs.
    Working,
    /// It is over.
    Done,
}

/// The agent's session; `null` after a clear.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Session {
    /// The agent's name for it.
    pub session_id: Option<AgentSessionId>,
}

/// A point to rewind to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct TurnAnchor {
    /// The agent's name for the point.
    pub uuid: String,
}

/// Usage figures.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
#[serde(default)]
pub struct AgentStatus {
    /// Tokens in the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Size of the context in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Cost so far, in millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

/// One committed row of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Entry {
    /// Its place: gapless in a conversation.
    pub seq: Seq,
    /// `user`, `say`, `notice`, `action`, `event`, `run`, `turn_start`, `turn_end`, `boundary`, `cancelled`.
    pub kind: String,
    /// The message, for `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mid: Option<MessageId>,
    /// The turn that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Where a message came from: `tab`, `title`, `workflow_uuid`, `handle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Value>,
    /// The text, where the row has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// When it was committed, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub at_ms: Option<i64>,
    /// Further fields of the kind: `id`, `name`, `detail`, `outcome`, `anchor`, …
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// A question was closed elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct AskClosed {
    /// Which.
    pub ask_id: crate::id::AskId,
}

/// The installations of a conversation that go on, and those that ended just now: all of them, each time one changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct DownloadProgress {
    /// In the order in which they were asked for.
    pub downloads: Vec<Download>,
}

/// An installation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Download {
    /// Its job.
    pub id: crate::id::PromptId,
    /// What is installed, for people.
    pub name: String,
    /// `downloading`, `done`, `error` or `unknown`.
    pub status: String,
}

/// A bounded queue is full; the socket is closed after it and the panel reads again from `after`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Overloaded {
    /// How many frames were not sent.
    pub dropped: u32,
    /// When to come back.
    pub retry_after_ms: u64,
}
