//! What happens when nothing happens: each deadline, and the name of the next one.

use super::Router;
use super::sockets::NO_HELLO;
use crate::id::{Backend, CallId, PromptId, Rid, SocketId};
use crate::ledger::{CallState, Purpose};
use crate::refusal::Refusal;

impl Router {
    /// When [`super::Input::Tick`] is due next, and why.
    pub fn poll_timeout(&self) -> Option<(u64, &'static str)> {
        let hello = self.sockets.values().filter_map(|socket| socket.hello_by).map(|at| (at, "hello"));
        let sent = self
            .sent
            .values()
            .filter(|sent| !matches!(sent.purpose, Purpose::Ask(_)))
            .map(|sent| (sent.deadline, "command"));
        let parked = self.calls.values().filter_map(|call| match call.state {
            CallState::Parked { until, .. } => Some((until, "reconnect")),
            CallState::Sent
            | CallState::Beginning
            | CallState::Gathering { .. }
            | CallState::Asking(_)
            | CallState::Looking { .. } => None,
        });
        let asks = self.asks.values().filter(|ask| ask.call.is_some()).map(|ask| (ask.deadline, "ask"));
        let retries = self.conversations.values().filter_map(|one| one.retry_at).map(|at| (at, "retry"));
        let runs = self.runs.values().filter_map(|run| run.due).map(|at| (at, "run"));
        hello
            .chain(sent)
            .chain(parked)
            .chain(asks)
            .chain(retries)
            .chain(runs)
            .chain(self.blind_timeout().map(|at| (at, "blind")))
            .min()
    }

    pub(super) fn tick(&mut self, now: u64) {
        let late: Vec<SocketId> = self
            .sockets
            .iter()
            .filter(|(_, socket)| socket.hello_by.is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for socket in late {
            if let Some(one) = self.sockets.get_mut(&socket) {
                one.hello_by = None;
            }
            self.close(socket, NO_HELLO, "no hello in time");
        }
        let silent: Vec<Rid> = self
            .sent
            .iter()
            .filter(|(_, sent)| sent.deadline <= now && !matches!(sent.purpose, Purpose::Ask(_)))
            .map(|(rid, _)| rid.clone())
            .collect();
        for rid in silent {
            if let Some(sent) = self.sent.remove(&rid) {
                self.silent(&rid, sent, now);
            }
        }
        let gone: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(_, call)| matches!(call.state, CallState::Parked { until, .. } if until <= now))
            .map(|(id, _)| *id)
            .collect();
        for call in gone {
            let candidates = self.calls.get(&call).map(|call| self.candidates(&call.backend)).unwrap_or_default();
            self.not_sent(call, Refusal::TargetGone { candidates });
        }
        let due: Vec<PromptId> =
            self.runs.iter().filter(|(_, run)| run.due.is_some_and(|at| at <= now)).map(|(id, _)| id.clone()).collect();
        for id in due {
            self.run_due(&id, now);
        }
        let again: Vec<Backend> = self
            .conversations
            .iter()
            .filter(|(_, one)| one.retry_at.is_some_and(|at| at <= now))
            .map(|(backend, _)| backend.clone())
            .collect();
        for backend in again {
            self.pump_now(&backend);
        }
        self.blind_tick(now);
        self.questions_without_answer(now);
    }
}
