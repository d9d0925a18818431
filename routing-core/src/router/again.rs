//! Commands whose answer did not come: what became of them is asked of the panel's ledger, once, and told as it is, done,
//! not done, still at work or unknown (rule G11). Must not know how an answer is read.

use super::Router;
use crate::command::{self, Effect, Retry, Spec};
use crate::frame::{CommandFrame, FromDaemon, Reply};
use crate::id::{Backend, CallId, Rid, SocketId, TabKey};
use crate::ledger::{Call, CallState, Lost, Purpose, Sent};
use crate::refusal::{Busy, Refusal};

/// Dispatches of unknown outcome that are remembered.
const REMEMBERED: usize = 256;
/// How long the panel's ledger may take for its answer: it looks up, and does nothing else unless it proves that the
/// command never ran.
const LEDGER_MS: u64 = 5_000;
/// A panel gives up what it is at work on this long after the command's time, [`Sent::allowed`].
const PANEL_GRACE_MS: u64 = 5_000;

impl Router {
    /// An answer to a dispatch that is waited for no longer under its own id. False: to none that is known.
    pub(super) fn late_reply(&mut self, tab: &TabKey, rid: &Rid, reply: &Reply, now: u64) -> bool {
        let repeated = self.sent.iter().find(|(_, sent)| sent.first.as_ref() == Some(rid) && sent.tab == *tab);
        if let Some((again, sent)) = repeated.map(|(again, sent)| (again.clone(), sent.clone())) {
            self.sent.remove(&again);
            // The panel answers the repetition, too.
            self.remember_lost(again, &sent, None);
            self.matched(rid, &sent, reply.clone(), now);
            return true;
        }
        let Some((_, lost)) = self.lost.iter_mut().find(|(lost, _)| lost == rid) else { return false };
        if lost.tab != *tab {
            return true;
        }
        lost.at_work = None;
        // Too late for the call; a run that was queued is ours all the same (rule F3).
        if let (true, "graph_run", Some(backend)) = (reply.ok, lost.cmd, lost.backend.clone()) {
            let _ = self.run_queued(&backend, tab, reply.result.as_ref(), now);
        }
        true
    }

    /// A connection went: calls wait for the same proven tab and are sent again, what changes something with its token, so
    /// that the panel's ledger tells whether it ran (report 68). Without a proof what changes something is of unknown
    /// outcome. Questions stay.
    pub(super) fn commands_lost(&mut self, key: &TabKey, socket: SocketId, now: u64) {
        let gone: Vec<Rid> =
            self.sent.iter().filter(|(_, sent)| sent.socket == socket).map(|(rid, _)| rid.clone()).collect();
        let proven = self.tabs.get(key).is_some_and(|tab| tab.identity.is_some());
        for rid in gone {
            let Some(sent) = self.sent.remove(&rid) else { continue };
            match (&sent.purpose, is_repeatable(&sent)) {
                (Purpose::Ask(_), _) => {}
                (Purpose::Call(call), Retry::Resend) if proven => {
                    let until = now + self.config.limits.reconnect;
                    if let Some(record) = self.calls.get_mut(call) {
                        record.state = CallState::Parked { tab: key.clone(), until };
                    }
                }
                (Purpose::Call(call), Retry::Token) if proven => {
                    let until = now + self.config.limits.reconnect;
                    let token = self.first_of(*call, &rid);
                    let backend = self.calls.get(call).map(|record| record.backend.clone());
                    self.remember_lost(token.clone(), &sent, backend);
                    if let Some(record) = self.calls.get_mut(call) {
                        record.retry_of = Some(token);
                        record.state = CallState::Parked { tab: key.clone(), until };
                    }
                }
                _ => self.gave_up(&rid, sent, now),
            }
        }
    }

    /// No answer came in time.
    pub(super) fn silent(&mut self, rid: &Rid, sent: Sent, now: u64) {
        let here = self.live_socket(&sent.tab) == Some(sent.socket);
        match &sent.purpose {
            Purpose::Call(call)
                if here
                    && self.is_timely(*call, &sent.tab)
                    && !sent.checked
                    && is_repeatable(&sent) == Retry::Token =>
            {
                let (call, token) = (*call, self.first_of(*call, rid));
                if let Some(record) = self.calls.get_mut(&call) {
                    record.retry_of = Some(token.clone());
                }
                self.remember_lost(rid.clone(), &sent, None);
                self.remember_lost(token.clone(), &sent, None);
                self.send_again(call, Some(token), &sent.tab, Some(&sent), now);
            }
            _ => self.gave_up(rid, sent, now),
        }
    }

    /// Sends a call as it was sent first, under an id of its own. `unanswered`: the dispatch that had no answer in time.
    pub(super) fn send_again(
        &mut self,
        call: CallId,
        token: Option<Rid>,
        tab: &TabKey,
        unanswered: Option<&Sent>,
        now: u64,
    ) {
        let Some(socket) = self.live_socket(tab) else { return };
        let rid = self.fresh_rid();
        let Some(record) = self.calls.get_mut(&call) else { return };
        let Some(first) = record.frame.clone() else { return };
        record.state = CallState::Sent;
        let sent = Sent {
            purpose: Purpose::Call(call),
            tab: tab.clone(),
            socket,
            cmd: record.cmd,
            deadline: now + if unanswered.is_some() { first.timeout_ms.min(LEDGER_MS) } else { first.timeout_ms },
            allowed: first.timeout_ms,
            since: unanswered.map_or(now, |sent| sent.since),
            first: token.clone(),
            checked: unanswered.is_some(),
            stamp: first.workflow_uuid.clone(),
        };
        self.sent.insert(rid.clone(), sent);
        let frame = CommandFrame { rid, retry_of: token, ..first };
        self.push(super::Output::Send { sockets: vec![socket], frame: FromDaemon::Command(frame) });
    }

    /// No answer will come.
    fn gave_up(&mut self, rid: &Rid, sent: Sent, now: u64) {
        match &sent.purpose {
            Purpose::Ask(_) => {}
            Purpose::Gather(call) => self.gathered(*call, rid, &sent.tab, None, now),
            Purpose::Retarget { .. } => self.retarget_failed(&sent, Refusal::TargetUndetermined, now),
            Purpose::Call(call) => {
                let call = *call;
                if is_repeatable(&sent) == Retry::Resend {
                    let busy = self.busy(&sent.tab, now);
                    return self.answer(call, Err(Refusal::NoReply { after_ms: sent.allowed, busy }));
                }
                let backend = self.calls.get(&call).map(|call| call.backend.clone());
                self.outcome_unknown(rid, &sent, backend, call);
            }
        }
    }

    /// It may have been done: whoever called gets the token by which the panel's ledger tells.
    pub(super) fn outcome_unknown(&mut self, rid: &Rid, sent: &Sent, backend: Option<Backend>, call: CallId) {
        let token = self.first_of(call, rid);
        self.remember_lost(token.clone(), sent, backend);
        self.answer(call, Err(Refusal::UnknownOutcome { token }));
    }

    /// Answers a call that is not sent. What was sent before may have been done all the same.
    pub(super) fn not_sent(&mut self, call: CallId, refusal: Refusal) {
        let token = self.calls.get(&call).and_then(|record| record.retry_of.clone());
        self.answer(call, Err(token.map_or(refusal, |token| Refusal::UnknownOutcome { token })));
    }

    /// A refusal that tells how the tab stands, with what it is at work on. `None`: the command is at work since before the
    /// connection was lost, its own answer will come, and it is waited for again.
    pub(super) fn about_the_tab(&mut self, call: CallId, sent: &Sent, refusal: Refusal, now: u64) -> Option<Refusal> {
        match refusal {
            Refusal::NoReply { after_ms, .. } => Some(Refusal::NoReply { after_ms, busy: self.busy(&sent.tab, now) }),
            Refusal::StillRunning { token, .. } if sent.first.as_ref() == Some(&token) => {
                let asked_by_the_agent =
                    self.calls.get(&call)?.frame.as_ref().is_some_and(|frame| frame.retry_of.is_some());
                if !sent.checked && !asked_by_the_agent {
                    let again = Sent { deadline: now + sent.allowed, first: None, ..sent.clone() };
                    self.sent.insert(token, again);
                    return None;
                }
                let backend = self.calls.get(&call).map(|call| call.backend.clone());
                self.remember_lost(token.clone(), sent, backend);
                let busy = Some(Busy { cmd: sent.cmd.to_owned(), for_ms: now.saturating_sub(sent.since) });
                Some(Refusal::StillRunning { token, busy })
            }
            other => Some(other),
        }
    }

    /// What a tab is at work on, because of which others may wait (report 65).
    pub(super) fn busy(&self, tab: &TabKey, now: u64) -> Option<Busy> {
        let socket = self.live_socket(tab)?;
        let sent = self.sent.values().filter(|sent| sent.socket == socket).map(|sent| (sent.cmd, sent.since));
        let lost = self.lost.iter().filter_map(|(_, lost)| {
            let (at, since) = lost.at_work?;
            (at == socket).then_some((lost.cmd, since))
        });
        let holds_others_up = |spec: &'static Spec| matches!(spec.effect, Effect::Write | Effect::Navigate);
        sent.chain(lost)
            .filter(|(cmd, since)| {
                command::by_cmd(cmd).is_some_and(|spec| {
                    holds_others_up(spec) && now < since + self.allowed(spec) + PANEL_GRACE_MS && *since < now
                })
            })
            .min_by_key(|(_, since)| *since)
            .map(|(cmd, since)| Busy { cmd: cmd.to_owned(), for_ms: now - since })
    }

    /// Whether a call still belongs to what runs, in a tab of its conversation: only then may it be carried out now
    /// (rules T4, T7).
    fn is_timely(&mut self, call: CallId, tab: &TabKey) -> bool {
        let Some((backend, turn)) = self.calls.get(&call).map(|call| (call.backend.clone(), call.turn)) else {
            return false;
        };
        self.tabs.get(tab).is_some_and(|tab| tab.backend == backend) && self.conversation(&backend).is_timely(turn)
    }

    /// What a call repeats, if it repeats one: a lost repetition may never have reached the panel, and its ledger knows the
    /// first.
    fn first_of(&self, call: CallId, rid: &Rid) -> Rid {
        self.calls.get(&call).and_then(|call| call.retry_of.clone()).unwrap_or_else(|| rid.clone())
    }

    /// A dispatch has its answer: its tab is at work on it no longer.
    pub(super) fn settled(&mut self, first: &Rid) {
        for (_, lost) in self.lost.iter_mut().filter(|(lost, _)| lost == first) {
            lost.at_work = None;
        }
    }

    pub(super) fn remember_lost(&mut self, rid: Rid, sent: &Sent, backend: Option<Backend>) {
        self.lost.retain(|(known, _)| *known != rid);
        let at_work = Some((sent.socket, sent.since));
        self.lost.push_back((rid, Lost { tab: sent.tab.clone(), cmd: sent.cmd, backend, at_work }));
        if self.lost.len() > REMEMBERED {
            self.lost.pop_front();
        }
    }

    /// A call goes to its tab, which is back: as it was sent before, if it was.
    pub(super) fn place_again(&mut self, call: CallId, record: Call, spec: &'static Spec, tab: &TabKey, now: u64) {
        if record.frame.is_none() {
            return self.dispatch(call, record, spec, tab, now);
        }
        let token = record.retry_of.clone();
        self.calls.insert(call, record);
        self.send_again(call, token, tab, None, now);
    }
}

fn is_repeatable(sent: &Sent) -> Retry {
    command::by_cmd(sent.cmd).map_or(Retry::Token, |spec| spec.retry)
}
