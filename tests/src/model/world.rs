//! One state of the model: the router and everything around it.

use super::agent::{Agent, Call};
use super::panel::Tab;
use super::watch::{Broke, Invariant, Sights};
use routing_core::id::{Backend, MessageId, Seq, WorkflowUuid};
use routing_core::refusal::Refusal;
use routing_core::router::{Config, NewRow, Router};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The two conversations.
pub(super) const BACKENDS: [&str; 2] = ["a", "b"];

/// How often each thing may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Messages of the person.
    pub messages: u8,
    /// Tool calls in turns.
    pub calls: u8,
    /// Tool calls between turns.
    pub late_calls: u8,
    /// Calls that may be open at once.
    pub at_once: u8,
    /// Workflow switches by hand.
    pub switches: u8,
    /// Lost connections.
    pub cuts: u8,
    /// Reloads of a page.
    pub reloads: u8,
    /// A tab goes over to the other conversation.
    pub moves: u8,
    /// Stop and Send now.
    pub stops: u8,
    /// New chat.
    pub chats: u8,
    /// Pins set in the picker.
    pub picks: u8,
    /// An agent takes messages into its running turn.
    pub merges: u8,
    /// Agents that do not start.
    pub fails: u8,
    /// Texts of agents.
    pub says: u8,
    /// Times that the log is slow.
    pub holds: u8,
    /// Deadlines that pass.
    pub ticks: u8,
    /// Also check in every state that messages are settled in the end.
    pub fair: bool,
    /// The agent uses explicit tabs and pins.
    pub named: bool,
    /// The second tab starts in the second conversation.
    pub apart: bool,
}

/// A tab and an instance that a turn is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aim {
    /// Index of the tab.
    pub tab: usize,
    /// The instance.
    pub uuid: WorkflowUuid,
}

/// A message of the person as the model keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Message {
    pub(super) mid: MessageId,
    pub(super) origin: Aim,
    pub(super) backend: usize,
    pub(super) seq: Option<Seq>,
    pub(super) stands: Stands,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stands {
    /// No turn has it.
    Waiting,
    /// A turn has it.
    Taken,
    /// It is over, on disk.
    Settled,
    /// A boundary dropped it.
    Dropped,
}

impl Message {
    pub(super) fn marker(&self) -> String {
        format!("«{}»", self.mid)
    }
}

/// Transactions that a slow log has not answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Log {
    pub(super) slow: bool,
    pub(super) open: VecDeque<(u64, Vec<NewRow>)>,
    pub(super) newest: [u64; 2],
    /// Whose transaction is being answered.
    pub(super) answering: Option<usize>,
}

/// One state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub(super) router: Router,
    pub(super) now: u64,
    pub(super) tabs: [Tab; 2],
    pub(super) agents: [Agent; 2],
    pub(super) log: Log,
    pub(super) messages: Vec<Message>,
    /// Calls without an answer.
    pub(super) calls: BTreeMap<u64, Call>,
    /// Writes of unknown outcome: what was called, and the token.
    pub(super) doubtful: Option<(u64, String)>,
    /// How often each write was applied.
    pub(super) applied: BTreeMap<u64, u8>,
    pub(super) left: Budget,
    pub(super) next_socket: u64,
    pub(super) next_call: u64,
    pub(super) next_flow: u64,
    pub(super) broken: BTreeSet<&'static str>,
    /// The first thing that went wrong.
    pub broke: Option<Broke>,
    /// What happened in the step that led here; no part of the state.
    pub(super) sights: Sights,
    /// Outcomes, in a simulation inside a check.
    pub(super) heard: BTreeMap<u64, Result<(), Refusal>>,
    /// In a simulation inside a check: remedies are not followed further.
    pub(super) inside: bool,
}

impl World {
    /// Both tabs connected, nothing said.
    pub fn new(budget: Budget, broken: BTreeSet<&'static str>) -> Self {
        let mut config = Config::new("e", &BACKENDS);
        config.broken.clone_from(&broken);
        let second = usize::from(budget.apart);
        let mut world = Self {
            router: Router::new(config),
            now: 0,
            tabs: [Tab::new(0, 0), Tab::new(1, second)],
            agents: [Agent::default(), Agent::default()],
            log: Log::default(),
            messages: Vec::new(),
            calls: BTreeMap::new(),
            doubtful: None,
            applied: BTreeMap::new(),
            left: budget,
            next_socket: 0,
            next_call: 0,
            next_flow: 0,
            broken,
            broke: None,
            sights: Sights::default(),
            heard: BTreeMap::new(),
            inside: false,
        };
        world.join(0, false);
        world.join(1, false);
        world
    }

    pub(super) fn breaks(&mut self, invariant: Invariant, how: impl Into<String>) {
        if self.broke.is_none() {
            self.broke = Some(Broke { invariant, how: how.into() });
        }
    }

    /// Connected tabs of a conversation.
    pub(super) fn connected(&self, backend: usize) -> Vec<usize> {
        let here = |tab: &usize| self.tabs[*tab].backend == backend && self.tabs[*tab].socket.is_some();
        (0..self.tabs.len()).filter(here).collect()
    }
}

/// The router's name of a conversation.
pub(super) fn name(backend: usize) -> Backend {
    BACKENDS[backend].into()
}

/// The model's number of a conversation.
pub(super) fn number(backend: &Backend) -> usize {
    usize::from(backend.as_str() == BACKENDS[1])
}
