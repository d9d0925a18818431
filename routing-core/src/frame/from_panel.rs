//! Frames that panels send.

use super::{Extra, FrameError, WorkflowIdentity, object};
use crate::id::{AgentSessionId, AskId, MessageId, PromptId, Rid, Seq, WorkflowUuid};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A frame from a panel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum FromPanel {
    /// A frame with a known `type`.
    Typed(PanelFrame),
    /// An answer to a command or to a question.
    Reply(Reply),
    /// A `type` that this version does not know: ignored, kept as it came.
    Unknown(Map<String, Value>),
}

impl FromPanel {
    /// Reads a text frame.
    ///
    /// # Errors
    /// See [`FrameError`]. A wrong field names itself.
    pub fn parse(text: &str) -> Result<Self, FrameError> {
        let map = object(text)?;
        let Some(kind) = map.get("type") else {
            if map.contains_key("rid") || map.contains_key("ask_id") {
                return field("reply", map).map(Self::Reply);
            }
            return Err(FrameError::NoType);
        };
        let Some(kind) = kind.as_str().map(str::to_owned) else {
            return Err(FrameError::NoType);
        };
        if PanelFrame::TYPES.contains(&kind.as_str()) {
            field(&kind, map).map(Self::Typed)
        } else {
            Ok(Self::Unknown(map))
        }
    }
}

fn field<T: serde::de::DeserializeOwned>(kind: &str, map: Map<String, Value>) -> Result<T, FrameError> {
    serde_json::from_value(Value::Object(map))
        .map_err(|error| FrameError::BadField { kind: kind.to_owned(), problem: error.to_string() })
}

macro_rules! panel_frames {
    ($($(#[$doc:meta])* $variant:ident($body:ty) = $name:literal,)*) => {
        /// The frames that are told by `type`.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
        #[serde(tag = "type")]
        pub enum PanelFrame {
            $($(#[$doc])* #[serde(rename = $name)] $variant($body),)*
        }

        impl PanelFrame {
            /// Every `type` of this list.
            pub const TYPES: &[&str] = &[$($name),*];

            /// The frame's `type`.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* }
            }
        }
    };
}

panel_frames! {
    /// Who is there; again after every workflow switch (rule S3).
    Hello(Box<Hello>) = "hello",
    /// A new title.
    Title(Title) = "title",
    /// The person said something.
    UserMessage(UserMessage) = "user_message",
    /// Stop the turn.
    Interrupt(Interrupt) = "interrupt",
    /// Take back a message that still waits.
    CancelMessage(CancelMessage) = "cancel_message",
    /// Order of the messages that wait.
    Reorder(Reorder) = "reorder",
    /// New chat (rule B1).
    NewSession(NewSession) = "new_session",
    /// Go on with an earlier session of the agent (rule B1).
    ResumeSession(ResumeSession) = "resume_session",
    /// Go back to a point (rule B1).
    Rewind(Rewind) = "rewind",
    /// Which sessions there are.
    ListHistory(ListHistory) = "list_history",
    /// What was said in a session.
    LoadHistory(LoadHistory) = "load_history",
    /// Where in this conversation's log some words stand.
    SearchHistory(SearchHistory) = "search_history",
    /// A session as a document.
    ExportHistory(ExportHistory) = "export_history",
    /// Take part in another conversation (rules B3 to B5).
    SetBackend(SetBackend) = "set_backend",
    /// Model and effort.
    SetOptions(SetOptions) = "set_options",
    /// The target picker (rules G1, G2).
    SetWorkflowTarget(SetWorkflowTarget) = "set_workflow_target",
    /// Blind mode (rule F6).
    SetContentMode(SetContentMode) = "set_content_mode",
    /// Settings of the panel.
    SetConfig(SetConfig) = "set_config",
    /// Something happened at ComfyUI: a run ended, an error.
    AgentEvent(PanelEvent) = "agent_event",
}

/// Who is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
#[serde(default)]
pub struct Hello {
    /// Dialect 1: the browser tab's own id. Legacy: the route, which changes with the workflow. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tab_id: Option<String>,
    /// Absent in the legacy dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u32>,
    /// Last `seq` that the panel shows; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Seq>,
    /// The workflow in front.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowIdentity>,
    /// Legacy form of `workflow.uuid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_uuid: Option<WorkflowUuid>,
    /// Title of the workflow in front.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The panel's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panel_version: Option<String>,
    /// Which conversation to take part in. Absent: as before, else the default; never an implicit change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The browser tab's own id in the legacy dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tab_session_id: Option<String>,
    /// A client without a canvas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headless: Option<bool>,
    /// The agent gets no pixels (rule F6). Absent is not off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blind: Option<bool>,
    /// The agent session that the panel last knew: a last resort (rule S5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<AgentSessionId>,
    /// Shown, never called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comfyui_url: Option<String>,
    /// Legacy: the stamp is compared at dispatch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforces_workflow_stamp: Option<bool>,
    /// Legacy: the stamp is compared again at the write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforces_workflow_stamp_at_write: Option<bool>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// A new title.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Title {
    /// The title.
    pub title: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// What the person said.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct UserMessage {
    /// The text.
    pub text: String,
    /// Idempotent. Required in dialect 1; the daemon makes one for a legacy panel that sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mid: Option<MessageId>,
    /// The instance that it was composed for. Absent: the one in front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_uuid: Option<WorkflowUuid>,
    /// For the agent only: put before the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Stop the turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(default)]
pub struct Interrupt {
    /// Send now: what was interrupted goes back to the front of the queue (rule T8).
    pub requeue: bool,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Take back a message that still waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct CancelMessage {
    /// Which.
    pub mid: MessageId,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Order of the messages that wait; those that are not named go last, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Reorder {
    /// The order.
    pub order: Vec<MessageId>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// New chat.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(default)]
pub struct NewSession {
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Go on with an earlier session of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct ResumeSession {
    /// The agent's id of it.
    pub session_id: AgentSessionId,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Go back to a point.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Rewind {
    /// From `turn_anchor`; `null`: to the beginning.
    pub anchor: Option<String>,
    /// Dialect 1: to where this message was asked, instead of an anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub mid: Option<MessageId>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Which sessions there are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct ListHistory {
    /// Names the request.
    pub cid: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// What was said in a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct LoadHistory {
    /// Names the request.
    pub cid: String,
    /// From `history_list`.
    pub session_id: AgentSessionId,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Where in this conversation's log some words stand.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct SearchHistory {
    /// Names the request.
    pub cid: String,
    /// Each of them is looked for, wherever it stands in a row. They are words and never an expression.
    pub words: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// A session as a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct ExportHistory {
    /// Names the request.
    pub cid: String,
    /// `md` or `json`.
    pub format: ExportFormat,
    /// From `history_list`. Absent: what is shown now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<AgentSessionId>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// The form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// Markdown, to read.
    Md,
    /// JSON, to work with.
    Json,
}

/// Take part in another conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct SetBackend {
    /// Its agent's name in the configuration.
    pub backend: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Model and effort of the conversation's agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
#[serde(default)]
pub struct SetOptions {
    /// The model's value from `models`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Correlates the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cid: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// The target picker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct SetWorkflowTarget {
    /// `current` or `pinned`.
    pub mode: String,
    /// What to pin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A label for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Blind mode of this tab.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct SetContentMode {
    /// On or off.
    pub blind: bool,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Settings of the panel. Acknowledged; no field of it is used yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(default)]
pub struct SetConfig {
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// Something happened at ComfyUI.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct PanelEvent {
    /// `executed` (a run ended) or `run_error`.
    pub kind: String,
    /// The run, for `executed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<PromptId>,
    /// `success`, `error` or `interrupted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_status: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Outputs: objects with `filename`, `subfolder`, `type`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Value>>"))]
    pub images: Vec<Value>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}

/// An answer to a command, or a late one to a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
pub struct Reply {
    /// The command. May be absent in a late answer to a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rid: Option<Rid>,
    /// Whether it was carried out.
    pub ok: bool,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What went wrong, in words. Never read to decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What went wrong, typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Value>,
    /// The workflow that is now in front (rule G8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowIdentity>,
    /// The question that this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_id: Option<AskId>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", ts(skip), schemars(skip))]
    pub extra: Extra,
}
