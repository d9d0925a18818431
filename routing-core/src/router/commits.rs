//! What is written to the log, and what follows once it is on disk. Nothing is acknowledged or shown as committed before.

use super::conversation::Phase;
use super::messages::MID_TAKEN;
use super::turns::pause_after;
use super::{NewRow, Output, Placed, Router, row_frame};
use crate::frame::{Ack, Say, Span, TurnAnchor, TurnState};
use crate::id::{AskId, Backend, CallId, PromptId, Seq, SocketId, TurnId};
use crate::job::Job;
use crate::ledger::{Run, Told};
use crate::refusal::Refusal;
use crate::turn::Item;
use serde_json::Value;

/// How long after a failed write a turn is tried again, in milliseconds.
const RETRY: u64 = 5_000;

/// A transaction on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Commit {
    pub(super) backend: Backend,
    pub(super) rows: Vec<NewRow>,
    pub(super) then: Then,
}

impl Commit {
    /// The ticket that it opens.
    pub(super) fn ticket(&self) -> Option<(&PromptId, &Run)> {
        match &self.then {
            Then::Ticket { id, run, dropped: false } | Then::Job { id, run, .. } => Some((id, run)),
            _ => None,
        }
    }
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Then {
    /// A message of the person: acknowledge and queue it.
    Accept {
        /// Who gets the acknowledgement: every socket that sent it meanwhile.
        sockets: Vec<SocketId>,
        /// The message; `seq` is filled in.
        item: Item,
        /// It was taken back while it was being written.
        cancelled: bool,
    },
    /// An event for the agent: queue it.
    Inject {
        /// The event; `seq` is filled in.
        item: Item,
        /// Its conversation was cleared while it was being written (rule B2).
        dropped: bool,
        /// The turn that was told the same by a tool meanwhile: it carries the event.
        told_in: Option<TurnId>,
        /// The ended run that it tells of: its ticket is open again if the row cannot be written.
        run: Option<Box<Told>>,
    },
    /// The ticket of a run: from here on its end is waited for (rule F3).
    Ticket {
        /// The run.
        id: PromptId,
        /// Its ticket; `seq` is filled in.
        run: Run,
        /// Its conversation was cleared while it was being written (rule B1).
        dropped: bool,
    },
    /// The ticket of a job: from here on it may be begun, and its end is waited for (rule F4).
    Job {
        /// The job's id.
        id: PromptId,
        /// Its ticket; `seq` is filled in.
        run: Run,
        /// What is to be done.
        job: Job,
        /// The call that asked.
        call: CallId,
    },
    /// A question: show its card (rule F3).
    Question(AskId),
    /// The answer to a question: give it to the call that waits.
    Answered {
        /// Which call.
        call: CallId,
        /// Its result.
        result: Value,
        /// What the agent is told where no call listens any more.
        told: String,
    },
    /// Only show it.
    Show,
    /// A turn's start: give the agent its prompt.
    Begin(TurnId),
    /// A turn's end: say so, go on.
    End {
        /// Which turn.
        turn: TurnId,
        /// A point to rewind to.
        anchor: Option<String>,
    },
    /// A boundary: show the cleared conversation.
    Boundary {
        /// Who asked.
        socket: SocketId,
        /// The acknowledgement, ready to send.
        ack: Ack,
        /// Earlier rows that stay.
        kept: Vec<Span>,
    },
}

impl Then {
    /// Whether nobody would say it again. The person can send again and press New chat again, and a turn's start is
    /// tried again from here, where its messages can still be taken back.
    fn is_kept(&self) -> bool {
        match self {
            Self::Inject { .. }
            | Self::Ticket { .. }
            | Self::Question(_)
            | Self::Answered { .. }
            | Self::Show
            | Self::End { .. } => true,
            // The agent can ask again; nothing was begun.
            Self::Job { .. } | Self::Accept { .. } | Self::Begin(_) | Self::Boundary { .. } => false,
        }
    }
}

impl Router {
    pub(super) fn commit(&mut self, backend: &Backend, rows: Vec<NewRow>, then: Then) {
        self.counters.commits += 1;
        let append = self.counters.commits;
        let keep = then.is_kept();
        self.commits.insert(append, Commit { backend: backend.clone(), rows: rows.clone(), then });
        self.push(Output::Append { append, rows, keep });
    }

    pub(super) fn row(&self, backend: &Backend, kind: &'static str, body: Value, now: u64) -> NewRow {
        NewRow {
            conversation: crate::id::ConversationKey::of(backend),
            kind,
            key: None,
            at_ms: now.saturating_add_signed(self.ahead),
            body,
            inbound: false,
            settles: Vec::new(),
        }
    }

    pub(super) fn appended(&mut self, append: u64, placed: &[Placed], now: u64) {
        let Some(commit) = self.commits.remove(&append) else { return };
        let backend = commit.backend.clone();
        // A boundary that keeps something comes after that.
        let keeps = matches!(&commit.then, Then::Boundary { kept, .. } if !kept.is_empty());
        for (row, place) in commit.rows.iter().zip(placed) {
            if !place.duplicate {
                let one = self.conversation(&backend);
                one.newest = one.newest.max(place.seq);
                if !(keeps && row.kind == "boundary") {
                    self.show(&backend, row, place.seq);
                }
            }
        }
        let Some(last) = placed.last().copied() else { return };
        match commit.then {
            Then::Accept { sockets, item, cancelled } => self.accepted(&backend, sockets, item, cancelled, last, now),
            Then::Inject { mut item, dropped, told_in, .. } => {
                if last.duplicate {
                    return;
                }
                item.seq = last.seq;
                if dropped {
                    return self.settle_unused(&backend, None, last.seq, now);
                }
                self.conversation(&backend).queue.push_back(item);
                if told_in.is_none_or(|turn| !self.carry(&backend, turn, |item| item.seq == last.seq, now)) {
                    self.pump(&backend);
                }
            }
            Then::Ticket { id, run, dropped } => {
                if last.duplicate {
                    return;
                }
                if dropped {
                    return self.settle_unused(&backend, None, last.seq, now);
                }
                self.run_ticket(&id, Run { seq: Some(last.seq), ..run }, now);
            }
            Then::Job { id, run, job, call } => {
                self.job_written(id, Run { seq: Some(last.seq), ..run }, job, call, now);
            }
            Then::Question(id) => self.question_written(&backend, &id, Some(last.seq), now),
            Then::Answered { call, result, told } => self.answer_written(&backend, call, result, told, now),
            Then::Show => {}
            Then::Begin(turn) => self.begin(&backend, turn, now),
            Then::End { turn, anchor } => self.ended(&backend, turn, anchor, now),
            Then::Boundary { socket, ack, kept } => {
                let one = self.conversation(&backend);
                one.start = last.seq;
                one.kept = kept;
                if keeps {
                    self.show_kept(&backend);
                }
                self.boundary_done(&backend, socket, ack, now);
            }
        }
    }

    fn accepted(
        &mut self,
        backend: &Backend,
        mut sockets: Vec<SocketId>,
        mut item: Item,
        cancelled: bool,
        at: Placed,
        now: u64,
    ) {
        sockets.retain(|socket| self.sockets.contains_key(socket));
        if at.differs {
            for socket in sockets {
                self.nack_about(socket, item.mid.clone(), None, "mid_taken", MID_TAKEN);
            }
            return;
        }
        let ack = Ack::new(true, "working");
        let ack = match &item.mid {
            Some(mid) => ack.mid(mid),
            None => ack,
        };
        // In the log already and waiting no more: the panel may never be sent the row that says how it ended.
        let settled =
            at.duplicate && item.mid.as_ref().is_some_and(|mid| self.conversation(backend).held(mid).is_none());
        let ack = if settled { ack.with("settled", true) } else { ack };
        self.send(sockets, ack);
        if at.duplicate {
            return;
        }
        item.seq = at.seq;
        if cancelled {
            return self.settle_unused(backend, item.mid, item.seq, now);
        }
        self.conversation(backend).queue.push_back(item);
        self.pump_now(backend);
    }

    pub(super) fn append_failed(&mut self, append: u64, code: &str, message: &str, now: u64) {
        let Some(commit) = self.commits.remove(&append) else { return };
        let backend = commit.backend;
        self.push(Output::Log { event: "append_failed", detail: format!("{code}: {message}") });
        let then = match commit.then {
            Then::Inject { dropped: false, run: Some(told), .. } => {
                self.warn(&backend, message);
                return self.tell_later(*told, now + RETRY);
            }
            then => then,
        };
        let owed: Vec<Seq> = commit.rows.into_iter().flat_map(|row| row.settles).collect();
        self.conversation(&backend).owed.extend(owed);
        match then {
            Then::Accept { mut sockets, item, .. } => {
                sockets.retain(|socket| self.sockets.contains_key(socket));
                for socket in sockets {
                    self.nack_about(socket, item.mid.clone(), None, code, message);
                }
            }
            Then::Inject { .. } | Then::Show => self.warn(&backend, message),
            Then::Ticket { dropped: true, .. } => {}
            Then::Ticket { id, run, dropped: false } => {
                self.warn(&backend, message);
                self.run_ticket(&id, run, now);
            }
            Then::Job { call, .. } => {
                let message = format!("Nothing was begun: {message}");
                self.answer(call, Err(Refusal::Failed { failure: code.to_owned(), message }));
            }
            Then::Question(id) => {
                self.warn(&backend, message);
                self.question_written(&backend, &id, None, now);
            }
            Then::Answered { call, result, told } => {
                self.warn(&backend, message);
                self.answer_written(&backend, call, result, told, now);
            }
            Then::Begin(_) => {
                // Nothing was given to the agent: the messages wait on, in their order.
                let one = self.conversation(&backend);
                one.retry_at = Some(now + RETRY);
                if let Some(turn) = one.turn.take() {
                    crate::turn::put_back(&mut one.queue, turn.batch, false, false);
                }
                if self.log_trouble.is_none() {
                    self.warn(&backend, message);
                }
            }
            Then::End { turn, anchor } => {
                self.warn(&backend, message);
                self.ended(&backend, turn, anchor, now);
            }
            Then::Boundary { socket, ack, .. } => {
                let ack = Ack { ok: false, ..ack }.message(message);
                let (_, held) = self.boundary_over(&backend);
                if self.sockets.contains_key(&socket) {
                    self.to(socket, ack);
                }
                self.take_held(held, now);
                self.pump(&backend);
            }
        }
    }

    /// Every tab is told once that the log cannot be written, and once that it can be again. Turns that could not begin
    /// begin then.
    pub(super) fn log_trouble(&mut self, trouble: Option<String>) {
        let before = self.log_trouble.take();
        self.log_trouble = trouble.map(|why| {
            format!(
                "⚠️ Nothing can be recorded now: {why}. New messages are not taken until then. What the agent does \
                 meanwhile is kept and recorded afterwards."
            )
        });
        let over = before.is_some() && self.log_trouble.is_none();
        let text = match &self.log_trouble {
            Some(text) => text.clone(),
            None if over => "The conversation is recorded again.".to_owned(),
            None => return,
        };
        let backends: Vec<Backend> = self.conversations.keys().cloned().collect();
        for backend in backends {
            let members = self.members(&backend);
            self.send(members, Say { text: text.clone(), id: None, streamed: None });
            if over {
                self.pump_now(&backend);
            }
        }
    }

    /// Tells every tab something that could not be written down.
    fn warn(&mut self, backend: &Backend, message: &str) {
        let members = self.members(backend);
        self.send(members, Say { text: format!("⚠️ {message}"), id: None, streamed: None });
    }

    /// Shows a committed row: an `entry` in dialect 1, its older form in the legacy one.
    fn show(&mut self, backend: &Backend, row: &NewRow, seq: Seq) {
        for legacy in [false, true] {
            let members = self.members_of_dialect(backend, !legacy);
            if let Some(frame) = row_frame(seq, row.kind, row.at_ms, &row.body, legacy) {
                self.send(members, frame);
            }
        }
    }

    fn ended(&mut self, backend: &Backend, turn: TurnId, anchor: Option<String>, now: u64) {
        let one = self.conversation(backend);
        if one.turn.as_ref().is_none_or(|running| running.id != turn || running.phase != Phase::Ending) {
            return;
        }
        one.turn = None;
        one.retry_at = pause_after(one.failed_turns).filter(|_| one.has_work()).map(|pause| now + pause);
        let status = one.status.clone();
        let members = self.members(backend);
        if let Some(uuid) = anchor {
            self.send(members.clone(), TurnAnchor { uuid });
        }
        if let Some(status) = status {
            self.send(members.clone(), status);
        }
        self.send(members, crate::frame::Turn { state: TurnState::Done });
        self.pump(backend);
        self.retire_when_done(backend);
    }

    fn retire_when_done(&mut self, backend: &Backend) {
        if self.conversations.get(backend).is_some_and(|one| one.retire_when_idle) {
            self.retire_if_unused(backend);
        }
    }
}
