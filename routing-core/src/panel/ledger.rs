//! The command ledger (rule G11): which commands with an effect were begun, and what came of them, so that a retry is
//! answered without a second effect.

use super::pairs::Pairs;
use crate::frame::Reply;
use crate::id::Rid;

/// Most commands that are remembered.
const MOST: usize = 256;
/// Most commands that are remembered over a reload of the page.
const MOST_BEGUN: usize = 64;
/// What the ledger knows of a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Known {
    /// Nothing, or that it was not applied: it may run.
    MayRun,
    /// It is being carried out, or waits for its turn.
    Running,
    /// It has ended so.
    Ended(Box<Reply>),
    /// It was begun, and how it ended is not known.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Running,
    NotApplied(Box<Reply>),
    Ended(Box<Reply>),
    Lost,
    SameAs(Rid),
}

/// Commands with an effect, newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ledger {
    entries: Pairs<Rid, (u32, State)>,
    begun: Vec<Rid>,
    /// Counts the runs of the daemon: two of them may use one id.
    run: u32,
}

impl Ledger {
    /// `begun`: what an earlier page in this browser tab remembered.
    pub(super) fn new(begun: Vec<Rid>) -> Self {
        Self { begun, ..Self::default() }
    }

    /// Another run of the daemon: its ids are no repetitions of the earlier one's.
    pub(super) fn new_run(&mut self) {
        self.run += 1;
    }

    /// What is known of a dispatch that has come again under its own id.
    pub(super) fn repeated(&self, rid: &Rid) -> Known {
        match self.entries.get(rid) {
            Some((run, _)) if *run == self.run => match self.state(rid) {
                // A refusal is repeated, too: the same dispatch has the same answer.
                Some(State::NotApplied(reply) | State::Ended(reply)) => Known::Ended(reply.clone()),
                Some(State::Running) => Known::Running,
                Some(State::Lost) => Known::Unknown,
                Some(State::SameAs(_)) | None => Known::MayRun,
            },
            Some(_) | None => Known::MayRun,
        }
    }

    /// What is known of the dispatch that a retry names.
    pub(super) fn retried(&self, rid: &Rid) -> Known {
        match self.state(rid) {
            Some(State::Running) => Known::Running,
            Some(State::Ended(reply)) => Known::Ended(reply.clone()),
            Some(State::NotApplied(_)) => Known::MayRun,
            Some(State::Lost | State::SameAs(_)) => Known::Unknown,
            None if self.begun.contains(rid) => Known::Unknown,
            None => Known::MayRun,
        }
    }

    /// A dispatch was taken. A retry stands for what it retries from here on.
    pub(super) fn taken(&mut self, rid: &Rid, retry_of: Option<&Rid>) {
        self.insert(rid, State::Running);
        if let Some(first) = retry_of.filter(|first| *first != rid) {
            self.insert(first, State::SameAs(rid.clone()));
        }
    }

    /// Its effect begins. Returns what is to be remembered over a reload.
    pub(super) fn begins(&mut self, rid: &Rid) -> Vec<Rid> {
        let surplus = (self.begun.len() + 1).saturating_sub(MOST_BEGUN);
        self.begun.drain(..surplus);
        self.begun.push(rid.clone());
        self.begun.clone()
    }

    /// It has ended. `applied`: something may have changed. Does nothing for a dispatch that was not taken.
    pub(super) fn ended(&mut self, rid: &Rid, reply: &Reply, applied: bool) {
        if !self.entries.contains(rid) {
            return;
        }
        let reply = Box::new(reply.clone());
        self.insert(rid, if applied { State::Ended(reply) } else { State::NotApplied(reply) });
    }

    /// It is waited for no longer.
    pub(super) fn lost(&mut self, rid: &Rid) {
        self.insert(rid, State::Lost);
    }

    fn state(&self, rid: &Rid) -> Option<&State> {
        let mut at = rid;
        // What is taken runs, so that no two retries can stand for each other; the bound only says so to the reader.
        for _ in 0..=MOST {
            match self.entries.get(at) {
                Some((_, State::SameAs(next))) => at = next,
                Some((_, state)) => return Some(state),
                None => return None,
            }
        }
        Some(&State::Lost)
    }

    fn insert(&mut self, rid: &Rid, state: State) {
        self.entries.insert(rid.clone(), (self.run, state));
        if self.entries.len() > MOST {
            self.entries.remove_oldest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panel::admission::answer;

    fn reply(rid: &str) -> Reply {
        answer(&rid.into(), true)
    }

    #[test]
    fn g11_what_is_remembered_is_bounded() {
        let mut ledger = Ledger::default();
        for number in 0..600 {
            let rid = Rid::new(format!("r{number}"));
            ledger.taken(&rid, None);
            assert!(ledger.begins(&rid).len() <= MOST_BEGUN);
            ledger.ended(&rid, &reply(rid.as_str()), true);
        }
        assert_eq!(ledger.entries.len(), MOST);
        assert_eq!(ledger.retried(&"r599".into()), Known::Ended(Box::new(reply("r599"))));
        assert_eq!(ledger.retried(&"r1".into()), Known::MayRun);
    }

    #[test]
    fn g11_a_retry_of_a_retry_leads_to_what_ran() {
        let mut ledger = Ledger::default();
        ledger.taken(&"r2".into(), Some(&"r1".into()));
        assert_eq!(ledger.retried(&"r1".into()), Known::Running);
        ledger.ended(&"r2".into(), &reply("r2"), false);
        ledger.taken(&"r3".into(), Some(&"r2".into()));
        ledger.ended(&"r3".into(), &reply("r3"), true);
        for rid in ["r1", "r2", "r3"] {
            assert_eq!(ledger.retried(&rid.into()), Known::Ended(Box::new(reply("r3"))), "{rid}");
        }
    }

    #[test]
    fn g11_another_run_of_the_daemon_may_use_an_id_again() {
        let mut ledger = Ledger::default();
        ledger.taken(&"r1".into(), None);
        ledger.ended(&"r1".into(), &reply("r1"), true);
        assert_eq!(ledger.repeated(&"r1".into()), Known::Ended(Box::new(reply("r1"))));
        ledger.new_run();
        assert_eq!(ledger.repeated(&"r1".into()), Known::MayRun);
        assert_eq!(ledger.retried(&"r1".into()), Known::Ended(Box::new(reply("r1"))));
    }
}
