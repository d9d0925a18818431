//! What the router is told.

use crate::agent::AgentEvent;
use crate::frame::{BackendInfo, Model, Span};
use crate::id::{Backend, CallId, MessageId, PromptId, Seq, SocketId, TurnId};
use crate::past::{Found, NotFound, Point};
use crate::run::Sight;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A socket passed every check.
    SocketOpened {
        /// Its id, never used before.
        socket: SocketId,
        /// It may only look on (rule F5).
        viewer: bool,
        /// The ComfyUI that its tools use.
        comfyui: Option<String>,
    },
    /// A text frame came.
    Frame {
        /// From which socket.
        socket: SocketId,
        /// As it came.
        text: String,
    },
    /// A socket is gone.
    SocketClosed {
        /// Which.
        socket: SocketId,
    },
    /// An [`super::Output::Append`] is on disk.
    Appended {
        /// Which.
        append: u64,
        /// Where each row stands, in their order.
        placed: Vec<Placed>,
    },
    /// An [`super::Output::Append`] could not be written. Nothing of it is on disk.
    AppendFailed {
        /// Which.
        append: u64,
        /// Stable.
        code: String,
        /// What happened and what to do.
        message: String,
    },
    /// The log cannot be written for now, or can be again.
    LogTrouble {
        /// What happened and what to do; `None` when it is over.
        trouble: Option<String>,
    },
    /// The agent is up and takes the turn's prompt: the true start of the turn (rule T1).
    AgentReady {
        /// Whose.
        backend: Backend,
        /// From [`super::Output::Wake`].
        turn: TurnId,
    },
    /// The agent could not be started for the turn.
    AgentFailed {
        /// Whose.
        backend: Backend,
        /// From [`super::Output::Wake`].
        turn: TurnId,
        /// Another attempt may go better: it ended or hung, rather than being absent or not signed in.
        may_pass: bool,
        /// Stable.
        code: String,
        /// What happened and what to do.
        message: String,
    },
    /// The agent did something. Events of a process that was retired or forgotten must not be passed on.
    Agent {
        /// Whose.
        backend: Backend,
        /// What.
        event: AgentEvent,
    },
    /// An agent that merges by itself took these messages into its running turn (rule T2).
    Merged {
        /// Whose.
        backend: Backend,
        /// Which.
        mids: Vec<MessageId>,
    },
    /// An agent called a tool.
    ToolCall {
        /// The conversation that its handle belongs to.
        backend: Backend,
        /// A fresh id.
        call: CallId,
        /// A tool of the command table.
        tool: String,
        /// Not yet checked.
        arguments: Map<String, Value>,
    },
    /// An [`super::Output::Forget`] was carried out.
    Forgotten {
        /// Whose.
        backend: Backend,
        /// The change is on disk.
        durable: bool,
    },
    /// An [`super::Output::Recall`] was looked up.
    Recalled {
        /// Who asked.
        socket: SocketId,
        /// Whose conversation.
        backend: Backend,
        /// What was asked for.
        point: Point,
        /// What is there.
        found: Result<Found, NotFound>,
    },
    /// What the log holds of a conversation. Before any socket.
    Restore {
        /// Whose.
        backend: Backend,
        /// What.
        restored: Restored,
    },
    /// The daemon has something to say in a conversation.
    Notice {
        /// Whose.
        backend: Backend,
        /// What.
        text: String,
    },
    /// A ComfyUI said how runs stand: as it changes for the watched ones, and for an [`super::Output::LookAtRuns`].
    RunsSeen {
        /// Which one.
        comfyui: String,
        /// What it says of each.
        runs: Vec<(PromptId, Sight)>,
        /// The call that asked.
        call: Option<CallId>,
    },
    /// What became of an [`super::Output::BeginJob`].
    JobBegun {
        /// Which.
        id: PromptId,
        /// The call that asked.
        call: CallId,
        /// Whether the Manager took it.
        outcome: JobBegun,
    },
    /// A ComfyUI that was asked does not answer.
    ComfyuiDown {
        /// Which one.
        comfyui: String,
        /// For people.
        why: String,
        /// The call that asked.
        call: Option<CallId>,
    },
    /// Agents were looked at again.
    Backends {
        /// In order of preference.
        backends: Vec<BackendInfo>,
        /// Their models.
        models: BTreeMap<Backend, Vec<Model>>,
    },
    /// The wall clock was set, or went on while the computer slept. Rows bear its time; deadlines do not follow it.
    WallClock {
        /// How far it is ahead of the time that inputs carry, in milliseconds.
        ahead: i64,
    },
    /// Time has passed.
    Tick,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placed {
    /// Its place.
    pub seq: Seq,
    /// A row with its key was there already: nothing was written (rule D6).
    pub duplicate: bool,
    /// That row says something else: the key was not free.
    pub differs: bool,
}

/// What the log holds of a conversation at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Restored {
    /// Its last row.
    pub newest: Seq,
    /// Its last boundary, or 0: a tab sees what is after it.
    pub start: Seq,
    /// Earlier rows that the boundary keeps: they come before those.
    pub kept: Vec<Span>,
    /// The last turn that was started.
    pub last_turn: TurnId,
    /// Blind mode was on (rule F6).
    pub blind: bool,
    /// Inbound rows that no turn has settled, in order.
    pub pending: Vec<Pending>,
    /// Rows that a started turn had taken when the daemon stopped: their outcome is unknown.
    pub taken: Vec<Seq>,
    /// Rows that the last turn, ended by the stop of the daemon, was not done with.
    pub again: Vec<Seq>,
}

/// An inbound row that still waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    /// Its place.
    pub seq: Seq,
    /// Its kind: `user`, `event` or `run`.
    pub kind: String,
    /// Its body as it was appended.
    pub body: Value,
    /// How many turns had taken it.
    pub turns: u32,
}

/// What a Manager said to a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobBegun {
    /// It waits there.
    Yes,
    /// It was not taken, for certain.
    No {
        /// Stable: `no_manager`, `not_allowed`, `rejected`, `comfyui_down`.
        code: &'static str,
        /// What happened and what to do.
        message: String,
    },
    /// The connection broke: it may have been taken.
    Unknown {
        /// For people.
        why: String,
    },
}
