//! One conversation as the router keeps it: one per backend (rules S1, S2).

use crate::frame::{AgentStatus, Span};
use crate::id::{AgentSessionId, Backend, ConversationKey, MessageId, Seq, TabKey, TurnId, WorkflowUuid};
use crate::refusal::NoTarget;
use crate::target::Target;
use crate::turn::{Aim, Item, Origin, Source};
use std::collections::VecDeque;

/// Whose memory, and what is going on in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Conversation {
    pub(super) key: ConversationKey,
    /// Committed messages that no turn has taken.
    pub(super) queue: VecDeque<Item>,
    /// The turn that is being made ready or runs.
    pub(super) turn: Option<Turn>,
    /// The last turn's number.
    pub(super) last_turn: TurnId,
    /// The target of the last turn that had an origin: what events inherit, and the stamp between turns (rules T3, T10).
    /// A failure stays one until a target is set or a message of one origin is taken (rules T2, T7, T9).
    pub(super) last: Option<Aim>,
    /// Origin of the last message that a turn took (rule T11).
    pub(super) last_origin: Option<Origin>,
    /// Tab of the last message of the person (rule T10).
    pub(super) last_speaker: Option<TabKey>,
    /// The pin of the picker.
    pub(super) target: Target,
    /// Counts requests for a target: the newest wins (rule G1).
    pub(super) target_request: u64,
    /// A re-target that waits for a tab (report 13).
    pub(super) armed: bool,
    /// The agent's session.
    pub(super) session: Option<AgentSessionId>,
    /// The last usage figures.
    pub(super) status: Option<AgentStatus>,
    /// The chosen model.
    pub(super) model: Option<String>,
    /// Last committed row.
    pub(super) newest: Seq,
    /// Last boundary.
    pub(super) start: Seq,
    /// Earlier rows that it keeps in the transcript.
    pub(super) kept: Vec<Span>,
    /// When to try again, after a turn's start could not be written down or its agent could not be started.
    pub(super) retry_at: Option<u64>,
    /// Starts of the agent that failed, since one went well.
    pub(super) failed_starts: usize,
    /// Turns that failed, since one did not.
    pub(super) failed_turns: usize,
    /// Rows that are done with although that could not be written down: the next end of a turn says so.
    pub(super) owed: Vec<Seq>,
    /// It was blind before the restart, and counts as blind until then (rule F6).
    pub(super) blind_until: Option<u64>,
    /// What panels were told of it.
    pub(super) told_blind: bool,
    /// The last tab left; the agent is retired once it is idle (rule B3).
    pub(super) retire_when_idle: bool,
}

/// A turn on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Turn {
    pub(super) id: TurnId,
    pub(super) phase: Phase,
    /// What it answers; empty until the agent takes it.
    pub(super) batch: Vec<Item>,
    /// What it acts on. Void until the agent takes it.
    pub(super) aim: Aim,
    /// The person pressed Stop before the agent took it.
    pub(super) stop: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// The agent is made ready.
    Waking,
    /// Its start is being committed.
    Recording,
    /// The agent works.
    Running,
    /// It was told to stop.
    Stopping {
        /// Its messages go back to the queue (rule T8).
        requeue: bool,
    },
    /// Its end is being committed.
    Ending,
}

impl Phase {
    /// The agent was given the prompt.
    pub(super) fn is_with_agent(self) -> bool {
        matches!(self, Self::Running | Self::Stopping { .. } | Self::Ending)
    }
}

impl Conversation {
    pub(super) fn new(backend: Backend) -> Self {
        Self {
            key: ConversationKey::of(&backend),
            queue: VecDeque::new(),
            turn: None,
            last_turn: TurnId::default(),
            last: None,
            last_origin: None,
            last_speaker: None,
            target: Target::Current,
            target_request: 0,
            armed: false,
            session: None,
            status: None,
            model: None,
            newest: Seq::default(),
            start: Seq::default(),
            kept: Vec::new(),
            retry_at: None,
            failed_starts: 0,
            failed_turns: 0,
            owed: Vec::new(),
            blind_until: None,
            told_blind: false,
            retire_when_idle: false,
        }
    }

    /// Something waits that starts a turn.
    pub(super) fn has_work(&self) -> bool {
        self.queue.iter().any(|item| !item.quiet)
    }

    /// The agent is at work: its calls belong to the turn.
    pub(super) fn running(&self) -> Option<&Turn> {
        self.turn.as_ref().filter(|turn| turn.phase.is_with_agent())
    }

    /// The running turn's number.
    pub(super) fn turn_at_work(&self) -> Option<TurnId> {
        self.running().map(|turn| turn.id)
    }

    /// Whether a call of this turn may still move pin and stamp: not those of another turn that runs now (rule T4).
    pub(super) fn may_move(&self, turn: Option<TurnId>) -> bool {
        self.turn_at_work().is_none_or(|now| turn == Some(now))
    }

    /// Whether a call of this turn may still be sent to a panel: no other runs (rule T4), and the person did not stop it.
    pub(super) fn is_timely(&self, turn: Option<TurnId>) -> bool {
        self.turn_at_work() == turn && !self.is_stopping()
    }

    /// The person pressed Stop, and the agent has not ended the turn yet.
    pub(super) fn is_stopping(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| matches!(turn.phase, Phase::Stopping { .. }))
    }

    pub(super) fn running_mut(&mut self) -> Option<&mut Turn> {
        self.turn.as_mut().filter(|turn| matches!(turn.phase, Phase::Running | Phase::Stopping { .. } | Phase::Ending))
    }

    /// What a call acts on now: the turn's aim, else the last one.
    pub(super) fn stamp(&self) -> Option<WorkflowUuid> {
        match self.running() {
            Some(turn) => turn.aim.stamp.clone(),
            None => self.last.as_ref().and_then(|aim| aim.stamp.clone()),
        }
    }

    /// Moves pin and stamp together (rule T12).
    pub(super) fn retarget(&mut self, tab: TabKey, stamp: Option<WorkflowUuid>) {
        let aim = Aim::at(tab.clone(), stamp);
        if let Some(turn) = self.running_mut() {
            turn.aim = aim.clone();
        } else {
            self.last_speaker = Some(tab);
        }
        self.last = Some(aim);
    }

    /// The target is lost (rules T2, T7): for good, until the agent targets again or a message of one origin is taken.
    pub(super) fn void(&mut self, reason: NoTarget) {
        if let Some(turn) = self.running_mut() {
            turn.aim = Aim::none(reason);
        }
        self.last = Some(Aim::none(reason));
    }

    /// Drops what a boundary drops (rule B2).
    pub(super) fn forget_target(&mut self) {
        self.last = None;
        self.last_origin = None;
        self.last_speaker = None;
        self.armed = false;
    }

    /// A message that waits or is being answered.
    pub(super) fn held(&self, mid: &MessageId) -> Option<&Item> {
        let in_batch = self.turn.iter().flat_map(|turn| &turn.batch);
        in_batch.chain(&self.queue).find(|item| item.mid.as_ref() == Some(mid))
    }

    pub(super) fn refers_to(&self, tab: &TabKey) -> bool {
        let pinned = |aim: &Aim| aim.pin.as_ref() == Ok(tab);
        let from = |item: &Item| matches!(&item.source, Source::Person { origin: Some(origin) } if origin.tab == *tab);
        self.last.as_ref().is_some_and(pinned)
            || self.last_speaker.as_ref() == Some(tab)
            || self.turn.as_ref().is_some_and(|turn| pinned(&turn.aim) || turn.batch.iter().any(from))
            || self.queue.iter().any(from)
    }
}
