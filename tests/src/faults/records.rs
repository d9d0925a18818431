//! What was seen from outside: at the panels, at the agents. Only facts; what they must add up to is the checks' matter.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A row as a tab showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) seq: u64,
    pub(super) text: String,
    /// The transcript was emptied immediately before.
    pub(super) after_clear: bool,
}

/// What one tab has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct TabRecord {
    pub(super) backend: String,
    pub(super) rows: Vec<Shown>,
    /// Messages of this tab and their last state, in the words of the panel.
    pub(super) messages: BTreeMap<String, String>,
    /// Those that the panel ever took for written down.
    pub(super) acknowledged: BTreeSet<String>,
    /// Notices in no log, by code.
    pub(super) notices: Vec<String>,
    /// Nodes that were added, by their class: each call has a class of its own.
    pub(super) added: BTreeMap<String, usize>,
    /// Runs that were queued at ComfyUI, and whether the panel was told of their end.
    pub(super) runs: BTreeMap<String, bool>,
    /// Questions that the person answered.
    pub(super) answered: BTreeSet<String>,
    /// Questions that the person sees.
    pub(super) asked: BTreeSet<String>,
    /// Every frame, with the socket's number and which way it went.
    pub(super) frames: Vec<String>,
    pub(super) connected: bool,
    /// The panel was told to stay away, and why.
    pub(super) down: Option<String>,
    /// Whether the panel was connected ever, and how often.
    pub(super) connections: usize,
}

/// A prompt that an agent's process read.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) backend: String,
    /// Without what was told of the conversation before the session.
    pub(super) text: String,
}

/// A tool call and its outcome.
#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) backend: String,
    pub(super) mid: String,
    pub(super) tool: &'static str,
    pub(super) retries: usize,
    /// Absent: the process ended before it came.
    pub(super) outcome: Option<Result<Value, Value>>,
}

/// What was seen at the agents.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentRecord {
    pub(super) given: Vec<Given>,
    pub(super) calls: Vec<Called>,
    /// Processes that are connected.
    pub(super) running: BTreeSet<usize>,
}

impl AgentRecord {
    /// How often a part of a prompt was given to a conversation's agent: without a mark before it, and with it.
    pub(super) fn times_given(&self, backend: &str, mark: &str, is_it: impl Fn(&str) -> bool) -> (usize, usize) {
        let (mut plain, mut marked) = (0, 0);
        for given in self.given.iter().filter(|given| given.backend == backend) {
            let mut before = "";
            for part in given.text.split("\n\n") {
                if is_it(part) {
                    *(if before == mark { &mut marked } else { &mut plain }) += 1;
                }
                before = part;
            }
        }
        (plain, marked)
    }
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    pub(super) tabs: BTreeMap<String, TabRecord>,
    pub(super) agents: AgentRecord,
}

/// The records, shared by whoever sees something.
#[derive(Clone, Debug, Default)]
pub(super) struct Book(Arc<Mutex<Records>>);

impl Book {
    pub(super) fn open(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tab<T>(&self, name: &str, write: impl FnOnce(&mut TabRecord) -> T) -> T {
        write(self.open().tabs.entry(name.to_owned()).or_default())
    }

    pub(super) fn agents<T>(&self, write: impl FnOnce(&mut AgentRecord) -> T) -> T {
        write(&mut self.open().agents)
    }
}
