//! What goes into the panel's machine and what comes out of it: plain values, which cross the WASM border as JSON.

use super::{Question, Row, TodoItem};
use crate::frame::{AgentStatus, BackendInfo, Download, ExportFormat, Hit, Model, PastSession, WorkflowIdentity};
use crate::id::{AgentSessionId, AskId, ConversationKey, MessageId, PromptId, Rid, TabKey, WorkflowUuid};
use crate::target::Target;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a panel is made with. It never changes afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
#[serde(try_from = "Map<String, Value>")]
pub struct PanelConfig {
    /// The browser tab's own id: proves a reconnect, addresses nothing.
    pub tab_id: String,
    /// The panel's version, told in every hello.
    pub version: String,
    /// Which conversation to ask for. Absent: as before, else the daemon's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Shown by the daemon, never called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comfyui_url: Option<String>,
    /// What the last [`PanelOutput::Remember`] of an earlier page in this browser tab said (rule G11).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Rid>>"))]
    pub begun: Vec<Rid>,
}

/// Something happened: at the socket, at the canvas, or by the person's hand.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
#[serde(tag = "input", rename_all = "snake_case", try_from = "Map<String, Value>")]
pub enum PanelInput {
    /// Connect for the first time.
    Start,
    /// Connect now: the person asked, or the network came back.
    Reconnect,
    /// The time that [`super::Panel::poll_timeout`] named has come.
    Tick,
    /// A socket opened.
    Opened {
        /// Which, from [`PanelOutput::Connect`].
        socket: u32,
    },
    /// A text frame came.
    Frame {
        /// On which socket.
        socket: u32,
        /// As it came.
        text: String,
    },
    /// A socket closed, or never opened.
    Closed {
        /// Which.
        socket: u32,
        /// The close code; 1006 when there was none.
        code: u16,
        /// The reason given.
        #[serde(default)]
        reason: String,
    },
    /// What is in front. Absent: it is loading, or cannot be read, and then no fenced command passes.
    Canvas {
        /// The workflow in front.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workflow: Option<WorkflowIdentity>,
    },
    /// An [`PanelOutput::Execute`] came to its end.
    Done {
        /// Which.
        rid: Rid,
        /// How.
        outcome: Outcome,
        /// The workflow that is now in front (rule G8).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workflow: Option<WorkflowIdentity>,
    },
    /// A run ended at ComfyUI.
    RunFinished {
        /// The run.
        prompt_id: PromptId,
        /// `success`, `error` or `interrupted`.
        status: String,
        /// Outputs: objects with `filename`, `subfolder`, `type`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Value>>"))]
        images: Vec<Value>,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The person sends a message. It acts on the workflow that is in front now (rule T1).
    Send {
        /// Fresh: it makes the message idempotent (rule D6).
        mid: MessageId,
        /// The text.
        text: String,
        /// For the agent only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// Interrupt the running turn for it (rule T8).
        #[serde(default)]
        #[cfg_attr(feature = "schema", ts(as = "Option<bool>"))]
        now: bool,
    },
    /// Interrupt the running turn so that what waits is taken next (rule T8).
    SendNow,
    /// Try a refused message again, under the same id.
    Resend {
        /// Which.
        mid: MessageId,
    },
    /// Take back a message that still waits.
    Cancel {
        /// Which.
        mid: MessageId,
    },
    /// Order of the messages that wait.
    Reorder {
        /// Those that are not named go last.
        order: Vec<MessageId>,
    },
    /// Stop the running turn.
    Stop,
    /// New chat (rule B1).
    NewChat,
    /// Back to where a message was asked (rule B1).
    Rewind {
        /// Which; its text comes back as [`UiChange::Recalled`].
        mid: MessageId,
    },
    /// Go on with an earlier session (rule B1).
    Resume {
        /// From [`UiChange::Sessions`].
        session_id: AgentSessionId,
    },
    /// Which sessions there are.
    ListSessions,
    /// Look for words in everything that was said.
    Search {
        /// Words, not an expression.
        words: String,
    },
    /// A session as a document.
    Export {
        /// Its form.
        format: ExportFormat,
        /// Absent: what is shown now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<AgentSessionId>,
    },
    /// Take part in another conversation (rule B4).
    SetBackend {
        /// Its agent's name.
        backend: String,
    },
    /// The target picker (rule G1).
    SetTarget {
        /// The wish; what holds is told by [`UiChange::Target`].
        target: Target,
    },
    /// Another model for the conversation.
    SetModel {
        /// A value from [`UiChange::Models`].
        model: String,
    },
    /// Blind mode of this tab (rule F6).
    SetBlind {
        /// On or off.
        on: bool,
    },
    /// The person answered a question.
    Answer {
        /// Which.
        ask_id: AskId,
        /// The chosen label, or a list of them.
        result: Value,
    },
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case", try_from = "Map<String, Value>")]
pub enum Outcome {
    /// It was carried out.
    Ok {
        /// What came of it.
        result: Value,
    },
    /// [`super::Panel::recheck`] refused it before the write: nothing was applied.
    Refused {
        /// The refusal, as it was given.
        refusal: Value,
    },
    /// The canvas could not do it.
    Failed {
        /// Stable, such as `unknown_node`.
        code: String,
        /// What happened and what would be valid.
        message: String,
    },
}

/// Something to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(tag = "output", rename_all = "snake_case")]
pub enum PanelOutput {
    /// Open a socket.
    Connect {
        /// Its number, for the inputs about it.
        socket: u32,
    },
    /// Close a socket. Nothing more is heard of it.
    Disconnect {
        /// Which.
        socket: u32,
    },
    /// Send a text frame.
    Transmit {
        /// On which socket.
        socket: u32,
        /// The frame.
        text: String,
    },
    /// Keep this over a reload of the page, in the browser tab's own storage, before anything after it is done
    /// (rule G11).
    Remember {
        /// The newest commands with an effect, oldest first: at most 64.
        begun: Vec<Rid>,
    },
    /// Carry out a command that passed guard and fence; ask [`super::Panel::recheck`] before every write.
    Execute {
        /// This dispatch.
        rid: Rid,
        /// A row of the table.
        cmd: String,
        /// Its own arguments.
        #[cfg_attr(feature = "schema", ts(type = "Record<string, unknown>"))]
        args: Map<String, Value>,
        /// How long the daemon waits, in milliseconds.
        timeout_ms: u64,
    },
    /// Something to show.
    Ui {
        /// What changed.
        change: UiChange,
    },
}

/// One change of what the person sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(optional_fields))]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum UiChange {
    /// The connection.
    Connection {
        /// Its state.
        state: ConnectionState,
        /// Why it is down, in the other side's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The close code of the last socket.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<u16>,
        /// When the next attempt is made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<u64>,
    },
    /// The conversation that the tab takes part in.
    Conversation {
        /// Whose.
        conversation: ConversationKey,
        /// Its agent's name.
        backend: String,
        /// The daemon's name for the tab.
        tab: TabKey,
    },
    /// The transcript is empty from here on.
    Cleared,
    /// The conversation went back to where this was asked: the person may want to say it otherwise.
    Recalled {
        /// The text.
        text: String,
    },
    /// The sessions, the newest first.
    Sessions {
        /// The list.
        sessions: Vec<PastSession>,
        /// Why there is no list; then `sessions` says nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Where the words stand, the newest first.
    Found {
        /// Rows that have every word.
        hits: Vec<Hit>,
        /// There are more.
        more: bool,
        /// Why nothing was looked for; then `hits` says nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Whether the conversation is blind: no pictures reach its agent.
    Blind {
        /// It is.
        on: bool,
    },
    /// Installations that go on, and those that ended just now.
    Downloads {
        /// All of them.
        downloads: Vec<Download>,
    },
    /// A document is complete.
    Exported {
        /// A name for the file.
        name: String,
        /// All of it.
        text: String,
    },
    /// A row for the end of the transcript.
    Row {
        /// The row.
        row: Row,
    },
    /// Text of a block that is still being written.
    Delta {
        /// The block.
        id: String,
        /// Visible reasoning rather than text.
        thought: bool,
        /// What was added.
        text: String,
        /// Text before it was missed: the connection was lost meanwhile.
        gap: bool,
    },
    /// A block gets no more text; it stays until its row comes.
    BlockEnd {
        /// The block.
        id: String,
    },
    /// A block is gone: its row came, or there is none.
    BlockGone {
        /// The block.
        id: String,
    },
    /// Whether the agent works.
    Working {
        /// It does.
        working: bool,
    },
    /// A tool call began.
    Activity {
        /// The tool.
        name: String,
        /// What it is about.
        detail: String,
    },
    /// Whether the agent can work.
    Agent {
        /// It can.
        ready: bool,
        /// What the daemon says of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Usage figures.
    Usage {
        /// The figures.
        usage: AgentStatus,
    },
    /// The agent's session.
    Session {
        /// Absent after a clear.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<AgentSessionId>,
    },
    /// Models to choose from.
    Models {
        /// May be empty.
        models: Vec<Model>,
        /// The chosen one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        current: Option<String>,
    },
    /// Another model was chosen.
    Model {
        /// A value from [`UiChange::Models`].
        current: String,
    },
    /// Agents to choose from.
    Backends {
        /// In the order of preference.
        backends: Vec<BackendInfo>,
        /// Whether any can be used now.
        any_ready: bool,
    },
    /// What the conversation is pinned to.
    Target {
        /// The target.
        target: Target,
    },
    /// Which ComfyUI the tab's tools use.
    Comfyui {
        /// Its address.
        url: String,
        /// Whether it is on this machine.
        is_local: bool,
    },
    /// What a message that is sent now will act on.
    ActsOn {
        /// Its name for people. Absent: not known yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// It is pinned.
        pinned: bool,
        /// It is the workflow in front.
        in_front: bool,
        /// What a pin of the workflow in front would name. Absent: nothing to pin.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pin: Option<String>,
    },
    /// A message of this panel changed its state. A new `mid` is a new message, at the end of the queue.
    Message {
        /// Which.
        mid: MessageId,
        /// The text.
        text: String,
        /// Its state.
        state: MessageState,
        /// What it acts on, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        acts_on: Option<String>,
        /// Why it failed: stable.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// Why it failed, and what to do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The order of the queue.
    Queue {
        /// All messages that are in it.
        order: Vec<MessageId>,
    },
    /// A question; one with the same `ask_id` takes its place.
    Question {
        /// The card.
        question: Question,
    },
    /// A question needs no answer any more.
    QuestionClosed {
        /// Which.
        ask_id: AskId,
        /// This person answered it here.
        answered: bool,
    },
    /// The agent's plan.
    Todo {
        /// The whole list; may be empty.
        items: Vec<TodoItem>,
    },
    /// A run that the agent queued here, or its end.
    Run {
        /// The run.
        prompt_id: PromptId,
        /// `queued`, `success`, `error` or `interrupted`.
        status: String,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Something to tell the person that is in no log.
    Notice {
        /// Stable.
        code: String,
        /// The daemon's words; may be empty.
        text: String,
    },
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ConnectionState {
    /// Not asked for yet.
    Idle,
    /// A socket is opening, or the handshake runs.
    Connecting,
    /// Handshake done.
    Connected,
    /// Lost; tried again at `retry_at`.
    Waiting,
    /// Refused for good: the person must do something.
    Down,
}

/// State of a message of this panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Not sent yet.
    Waiting,
    /// Sent, not acknowledged.
    Sent,
    /// In the log; the agent has not taken it.
    Accepted,
    /// The agent took it.
    Seen,
    /// Its turn is over.
    Done,
    /// Taken back.
    Cancelled,
    /// Refused: see `code` and `message`.
    Failed,
}

/// The stamp and label that a message was composed with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Composed {
    pub(super) workflow_uuid: Option<WorkflowUuid>,
    pub(super) acts_on: Option<String>,
}
