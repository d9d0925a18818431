//! What the router wants done, and how a row of the log looks on the wire.

use crate::frame::{Echo, Entry, ExportFormat, Extra, FromDaemon, Say};
use crate::id::{AgentSessionId, Backend, CallId, ConversationKey, MessageId, PromptId, Seq, SocketId, TurnId};
use crate::job::Job;
use crate::past::Point;
use crate::refusal::Refusal;
use serde_json::Value;

/// One thing to do. In order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send a frame: encoded once, shared by these sockets.
    Send {
        /// To whom.
        sockets: Vec<SocketId>,
        /// What.
        frame: FromDaemon,
    },
    /// Send rows of the log, as [`row_frame`] makes them, before anything that follows for this socket.
    Replay {
        /// To whom.
        socket: SocketId,
        /// Whose log.
        conversation: ConversationKey,
        /// After this row.
        after: Seq,
        /// Up to this one.
        upto: Seq,
        /// The socket speaks the legacy dialect.
        legacy: bool,
    },
    /// Close a socket with a code and a reason.
    Close {
        /// Which.
        socket: SocketId,
        /// 1008, or 4000 and above: do not come back.
        code: u16,
        /// For people.
        reason: String,
    },
    /// Write rows in one transaction; answer with [`super::Input::Appended`] or [`super::Input::AppendFailed`].
    Append {
        /// Names the transaction.
        append: u64,
        /// In order.
        rows: Vec<NewRow>,
        /// Nobody could say it again: while the disk refuses, it is kept and written before anything later. Otherwise
        /// whoever asked is told at once.
        keep: bool,
    },
    /// Have the agent up for a turn; answer with [`super::Input::AgentReady`] or [`super::Input::AgentFailed`].
    Wake {
        /// Whose.
        backend: Backend,
        /// For which turn.
        turn: TurnId,
    },
    /// Give the agent its prompt.
    Prompt {
        /// Whose.
        backend: Backend,
        /// Which turn.
        turn: TurnId,
        /// The text.
        text: String,
    },
    /// Stop the running turn; its end still comes as an event.
    Interrupt {
        /// Whose.
        backend: Backend,
    },
    /// Stop the agent and keep its session (rule B3).
    Retire {
        /// Whose.
        backend: Backend,
    },
    /// Stop the agent and put another session, or none, in the store (rule B1); answer with [`super::Input::Forgotten`].
    Forget {
        /// Whose.
        backend: Backend,
        /// What to resume next.
        session: Option<AgentSessionId>,
        /// Something of the transcript stays that the agent will only know from being told: the person should know.
        retold: bool,
    },
    /// Look up what is kept when the conversation goes to a point; answer with [`super::Input::Recalled`].
    Recall {
        /// Who asked.
        socket: SocketId,
        /// Whose.
        backend: Backend,
        /// Where to.
        point: Point,
    },
    /// Read the log for someone and answer them; nothing comes back here.
    Look {
        /// For whom.
        by: Reader,
        /// Whose log.
        backend: Backend,
        /// What for.
        look: Look,
    },
    /// A last-resort session to resume, if the store has none (rule S5).
    ResumeHint {
        /// Whose.
        backend: Backend,
        /// The session.
        session: AgentSessionId,
    },
    /// Use another model from the next start on.
    SetModel {
        /// Whose.
        backend: Backend,
        /// Its value.
        model: String,
    },
    /// Watch a run at its ComfyUI until [`Output::UnwatchRun`]; tell with [`super::Input::RunsSeen`] and
    /// [`super::Input::ComfyuiDown`]. The address is that of a socket's own ComfyUI or the configured one.
    WatchRun {
        /// Where.
        comfyui: String,
        /// Which.
        prompt_id: PromptId,
        /// It is a job of its Manager.
        job: bool,
    },
    /// Have a job begun by the Manager of a ComfyUI; answer with [`super::Input::JobBegun`].
    BeginJob {
        /// Where.
        comfyui: String,
        /// Its id there.
        id: PromptId,
        /// What.
        job: Job,
        /// For which call.
        call: CallId,
    },
    /// Watch it no longer.
    UnwatchRun {
        /// Where.
        comfyui: String,
        /// Which.
        prompt_id: PromptId,
    },
    /// Ask a ComfyUI once how runs stand; answer with [`super::Input::RunsSeen`] or [`super::Input::ComfyuiDown`].
    LookAtRuns {
        /// Where.
        comfyui: String,
        /// Which.
        prompt_ids: Vec<PromptId>,
        /// They are jobs of its Manager.
        jobs: bool,
        /// For which call.
        call: CallId,
    },
    /// Answer a tool call.
    Answer {
        /// Which.
        call: CallId,
        /// With what.
        outcome: Result<Value, Refusal>,
    },
    /// Something that an operator should see.
    Log {
        /// A stable word.
        event: &'static str,
        /// What about.
        detail: String,
    },
}

/// Who reads the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// A panel: answered with a frame.
    Panel {
        /// Which.
        socket: SocketId,
        /// Its name for the request.
        cid: String,
    },
    /// An agent's tool call.
    Call(CallId),
}

/// What the log is read for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// The sessions: a `history_list`.
    Sessions,
    /// What was said in one: a `history_transcript`.
    Transcript(AgentSessionId),
    /// Some words: a `history_found`, or the call's result.
    Search(String),
    /// A session as a document, in parts: each a `history_export`.
    Export {
        /// Its form.
        format: ExportFormat,
        /// Absent: what is shown now.
        session: Option<AgentSessionId>,
    },
}

/// A row for the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewRow {
    /// Whose log.
    pub conversation: ConversationKey,
    /// What it is: see [`Entry::kind`].
    pub kind: &'static str,
    /// Durable and unique in the conversation (rule D6).
    pub key: Option<String>,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its content.
    pub body: Value,
    /// The agent must take it.
    pub inbound: bool,
    /// Rows that are settled with it, in the same transaction.
    pub settles: Vec<Seq>,
}

/// A row as it goes over the wire; in the legacy dialect, most rows are no frame.
pub fn row_frame(seq: Seq, kind: &str, at_ms: u64, body: &Value, legacy: bool) -> Option<FromDaemon> {
    if !legacy {
        return Some(entry_of(seq, kind, at_ms, body).into());
    }
    let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
    match kind {
        "user" => Some(Echo { text: text("text")?, mid: text("mid").map(MessageId::new) }.into()),
        "say" => Some(Say { text: text("text")?, id: text("id"), streamed: Some(true) }.into()),
        "notice" => Some(Say { text: text("text")?, id: None, streamed: None }.into()),
        _ => None,
    }
}

/// A row as a panel of dialect 1 sees it.
fn entry_of(seq: Seq, kind: &str, at_ms: u64, body: &Value) -> Entry {
    let mut extra: Extra = body.as_object().cloned().unwrap_or_default();
    let text = extra.remove("text").and_then(|text| text.as_str().map(str::to_owned));
    let mid = extra.remove("mid").and_then(|mid| mid.as_str().map(MessageId::from));
    let turn = extra.remove("turn").and_then(|turn| turn.as_u64()).map(TurnId);
    let origin = extra.remove("origin").filter(|origin| !origin.is_null());
    // For the agent only.
    extra.remove("context");
    // The panel's own names never hide the row's.
    for reserved in ["seq", "kind", "type", "at_ms"] {
        extra.remove(reserved);
    }
    Entry { seq, kind: kind.to_owned(), mid, turn, origin, text, at_ms: i64::try_from(at_ms).ok(), extra }
}
