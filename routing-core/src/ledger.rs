//! Tickets: what was sent and is waited for, what was asked, what was queued at ComfyUI. Each is settled once, by key
//! (rules F3, G11, D6).

use crate::frame::CommandFrame;
use crate::id::{AskId, Backend, CallId, PromptId, Rid, Seq, SocketId, TabKey, TurnId, WorkflowUuid};
use crate::run::{Ending, Sight};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A tool call that has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Whose agent called.
    pub backend: Backend,
    /// The turn that it belongs to (rule T4); `None`: between turns.
    pub turn: Option<TurnId>,
    /// The command.
    pub cmd: &'static str,
    /// Its checked arguments, without `tab` and `retry_of`.
    pub args: Map<String, Value>,
    /// An earlier dispatch that this repeats.
    pub retry_of: Option<Rid>,
    /// As it was first sent: it is never sent again with another stamp or pin.
    pub frame: Option<CommandFrame>,
    /// Where it stands.
    pub state: CallState,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallState {
    /// It waits for its tab to come back (rule T6), until then.
    Parked {
        /// The tab.
        tab: TabKey,
        /// Milliseconds.
        until: u64,
    },
    /// It was sent; see [`Sent`].
    Sent,
    /// It is answered by several tabs (rule G12).
    Gathering {
        /// Dispatches without an answer.
        open: Vec<Rid>,
        /// Answers, by tab; `None`: not known.
        found: Vec<(TabKey, Option<Value>)>,
    },
    /// A question that waits for the person.
    Asking(AskId),
    /// A job's ticket is written, then the Manager is asked to begin.
    Beginning,
    /// ComfyUI is asked how runs stand.
    Looking {
        /// The runs, in the order in which they are told.
        wanted: Vec<PromptId>,
        /// The ComfyUIs that have not answered.
        open: BTreeSet<String>,
        /// What was seen, or why nothing was.
        found: BTreeMap<PromptId, Result<Sight, String>>,
    },
}

/// A command that was sent to a panel and is not answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    /// Why.
    pub purpose: Purpose,
    /// To which tab.
    pub tab: TabKey,
    /// Over which socket.
    pub socket: SocketId,
    /// The command.
    pub cmd: &'static str,
    /// When it is given up.
    pub deadline: u64,
    /// How long that was, for the message.
    pub allowed: u64,
    /// When the panel got it first.
    pub since: u64,
    /// The dispatch that it repeats: an answer to that one answers this one, too.
    pub first: Option<Rid>,
    /// The panel's ledger was asked what became of it, because no answer came in time (report 64).
    pub checked: bool,
    /// The instance that it was stamped with.
    pub stamp: Option<WorkflowUuid>,
}

/// Why a command was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A tool call.
    Call(CallId),
    /// One of several for a call.
    Gather(CallId),
    /// A question.
    Ask(AskId),
    /// To learn what is in front, for a new target (rules G1, G2).
    Retarget {
        /// Whose target.
        backend: Backend,
        /// Who asked.
        by: Asker,
        /// The request's number.
        request: u64,
        /// What to pin; `None`: take what is in front.
        pin: Option<String>,
    },
}

/// Who asked for a target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Asker {
    /// The agent: pin and stamp move (rule T12).
    Agent(CallId),
    /// The person, in the picker.
    Person(SocketId),
}

/// A dispatch whose outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lost {
    /// Where it was sent.
    pub tab: TabKey,
    /// The command.
    pub cmd: &'static str,
    /// Whose call it was; `None` once that conversation was cleared.
    pub backend: Option<Backend>,
    /// The connection that may still be at work on it, and when it began; `None` once that cannot be.
    pub at_work: Option<(SocketId, u64)>,
}

/// A question card (rule F3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// Whose question.
    pub backend: Backend,
    /// The tab that was asked.
    pub tab: TabKey,
    /// The call that still waits for it.
    pub call: Option<CallId>,
    /// When that call is answered without it.
    pub deadline: u64,
    /// The question and its choices, as they are sent.
    pub args: Map<String, Value>,
    /// Its row in the log; `None` while it is being written, or where it could not be.
    pub seq: Option<Seq>,
}

/// A prompt that an agent queued (rule F3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Whose run.
    pub backend: Backend,
    /// Where it was queued.
    pub tab: TabKey,
    /// The workflow, for people.
    pub title: String,
    /// Its row in the log, by which a restart finds it; `None` where it could not be written.
    pub seq: Option<Seq>,
    /// The ComfyUI that has it: the one that the tab's socket came from, else the configured one.
    pub comfyui: Option<String>,
    /// How that one last said it stands; `None`: it never knew it.
    pub sight: Option<Sight>,
    /// How it ended, while that waits to be told.
    pub ending: Option<Ending>,
    /// When it is told all the same, or given up.
    pub due: Option<u64>,
    /// It is no run but a job of ComfyUI's Manager, and `title` says which: it belongs to the conversation and not to a
    /// tab, and outlives a New chat (rule F4).
    pub job: bool,
}

impl Run {
    /// A ticket that nothing is known of yet.
    pub fn new(backend: Backend, tab: TabKey, title: String, seq: Option<Seq>, comfyui: Option<String>) -> Self {
        Self { backend, tab, title, seq, comfyui, sight: None, ending: None, due: None, job: false }
    }

    /// A job's ticket. `what` it installs.
    pub fn of_job(backend: Backend, what: String, seq: Option<Seq>, comfyui: Option<String>) -> Self {
        Self { job: true, ..Self::new(backend, TabKey::new(String::new()), what, seq, comfyui) }
    }
}

/// A run that was told of, for whoever asks or tells again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// Which.
    pub id: PromptId,
    /// Its ticket.
    pub run: Run,
    /// How it ended.
    pub ending: Ending,
}
