//! Turns: woken, recorded, begun, ended (rules T1 to T3, T8, T11), and what the agent says meanwhile (rule F1).

use super::commits::Then;
use super::conversation::{Phase, Turn};
use super::{Output, Router};
use crate::agent::{AgentEvent, TurnOutcome};
use crate::frame::{Ack, Action, AgentStatus, Session, Stream, StreamPhase, TurnState};
use crate::id::{Backend, MessageId, Seq, TurnId};
use crate::refusal::NoTarget;
use crate::turn::{Aim, Item, Origin, Source, aim, put_back, take_batch};
use serde_json::json;

/// Pauses between attempts to start an agent, in milliseconds; after the last one what waits is reported. After turns that
/// failed, one after the other, what waits pauses as long.
const PAUSES: [u64; 3] = [500, 2_000, 8_000];

/// How long what waits is held back after so many failed turns, in milliseconds.
pub(super) fn pause_after(failed_turns: usize) -> Option<u64> {
    let at = failed_turns.checked_sub(1)?;
    PAUSES.get(at).or(PAUSES.last()).copied()
}

impl Router {
    /// Ends a pause, because it is over or the person said something: a turn whose agent did not start is tried again, or
    /// the next one starts.
    pub(super) fn pump_now(&mut self, backend: &Backend) {
        let one = self.conversation(backend);
        let paused = one.retry_at.take().is_some();
        match one.turn.as_ref().filter(|turn| paused && turn.phase == Phase::Waking) {
            Some(turn) => {
                let turn = turn.id;
                self.push(Output::Wake { backend: backend.clone(), turn });
            }
            None => self.pump(backend),
        }
    }

    /// Starts the next turn if none is on its way, something waits, and no pause is kept.
    pub(super) fn pump(&mut self, backend: &Backend) {
        let clearing = self.boundaries.contains_key(backend);
        let one = self.conversation(backend);
        if clearing || one.turn.is_some() || one.retry_at.is_some() || !one.has_work() {
            return;
        }
        one.last_turn = one.last_turn.next();
        let id = one.last_turn;
        one.turn =
            Some(Turn { id, phase: Phase::Waking, batch: Vec::new(), aim: Aim::none(NoTarget::NeverSet), stop: false });
        self.push(Output::Wake { backend: backend.clone(), turn: id });
    }

    /// The agent is up: the batch leaves the queue, and the turn's start is written down before the prompt is given.
    pub(super) fn agent_ready(&mut self, backend: &Backend, turn: TurnId, now: u64) {
        let one = self.conversation(backend);
        let has_work = one.has_work();
        let Some(waking) = one.turn.as_mut().filter(|one| one.id == turn && one.phase == Phase::Waking) else { return };
        one.failed_starts = 0;
        let batch = if has_work { take_batch(&mut one.queue) } else { Vec::new() };
        if batch.is_empty() {
            // Everything that waited was taken back.
            one.turn = None;
            return;
        }
        waking.batch = batch;
        if waking.stop {
            return self.end_turn(backend, &TurnOutcome::Interrupted, None, now);
        }
        waking.phase = Phase::Recording;
        let mids: Vec<&MessageId> = waking.batch.iter().filter_map(|item| item.mid.as_ref()).collect();
        let takes: Vec<u64> = waking.batch.iter().map(|item| item.seq.0).collect();
        let body = json!({"turn": turn, "mids": mids, "takes": takes});
        let row = self.row(backend, "turn_start", body, now);
        self.commit(backend, vec![row], Then::Begin(turn));
    }

    /// The true start of the turn: pin and stamp are set, the agent gets its prompt.
    pub(super) fn begin(&mut self, backend: &Backend, turn: TurnId, now: u64) {
        let facts = self.facts();
        let one = self.conversation(backend);
        let last = one.last.clone();
        let Some(running) = one.turn.as_mut().filter(|one| one.id == turn && one.phase == Phase::Recording) else {
            return;
        };
        if running.stop {
            return self.end_turn(backend, &TurnOutcome::Interrupted, None, now);
        }
        let (target, established) = aim(&running.batch, backend, last.as_ref(), &facts);
        running.aim = target.clone();
        running.phase = Phase::Running;
        let batch = running.batch.clone();
        let before = one.last_origin.clone();
        // What an earlier turn asked to be targeted when a tab comes is not this one's (rule T4).
        one.armed = one.armed && target.pin.is_err();
        let by_person = batch.iter().any(|item| matches!(item.source, Source::Person { .. }));
        if target.pin.is_ok() || by_person {
            one.last = Some(target.clone());
        }
        if established.is_some() {
            one.last_origin.clone_from(&established);
        }
        let note = turn_note(&target, established.as_ref(), before.as_ref());
        let blind = self.is_blind(backend);
        let members = self.members(backend);
        for mid in batch.iter().filter_map(|item| item.mid.as_ref()) {
            self.send(members.clone(), Ack::new(true, "seen").mid(mid));
        }
        self.send(members, crate::frame::Turn { state: TurnState::Working });
        self.push(Output::Prompt { backend: backend.clone(), turn, text: prompt(note, blind, &batch) });
    }

    /// The agent could not be started. What may pass is tried again after a pause, or with the next message, and nothing
    /// leaves the queue (rule T8). Else what the turn would have taken is reported, and the next message is tried anew.
    pub(super) fn agent_failed(
        &mut self,
        backend: &Backend,
        turn: TurnId,
        may_pass: bool,
        (code, message): (&str, &str),
        now: u64,
    ) {
        let one = self.conversation(backend);
        let has_work = one.has_work();
        let Some(waking) = one.turn.as_mut().filter(|one| one.id == turn && one.phase == Phase::Waking) else { return };
        if !has_work {
            // Everything that waited was taken back.
            one.turn = None;
            return;
        }
        let pause = PAUSES.get(one.failed_starts).copied().filter(|_| may_pass);
        one.failed_starts = one.failed_starts.saturating_add(1);
        if let Some(pause) = pause {
            one.retry_at = Some(now + pause);
            if one.failed_starts == 1 {
                let text = format!("⚠️ {message} It is tried again; what you said waits.");
                let row = self.row(backend, "notice", json!({"text": text, "turn": turn, "code": code}), now);
                self.commit(backend, vec![row], Then::Show);
            }
            return;
        }
        waking.batch = take_batch(&mut one.queue);
        let outcome = TurnOutcome::Failed { code: code.to_owned(), message: message.to_owned() };
        self.end_turn(backend, &outcome, None, now);
    }

    /// An agent that merges by itself took more messages into its turn: if their origin differs, the turn fails closed
    /// (rule T2) until the agent targets a workflow explicitly.
    pub(super) fn merged(&mut self, backend: &Backend, mids: &[MessageId], now: u64) {
        let facts = self.facts();
        let one = self.conversation(backend);
        if one.running().is_none() {
            return;
        }
        let (taken, waiting) = one
            .queue
            .drain(..)
            .partition::<Vec<Item>, _>(|item| item.mid.as_ref().is_some_and(|mid| mids.contains(mid)));
        one.queue = waiting.into();
        let last = one.last.clone();
        let Some(running) = one.running_mut().filter(|_| !taken.is_empty()) else { return };
        running.batch.extend(taken.iter().cloned());
        let turn = running.id;
        let takes: Vec<u64> = running.batch.iter().map(|item| item.seq.0).collect();
        let mids: Vec<&MessageId> = taken.iter().filter_map(|item| item.mid.as_ref()).collect();
        let body = json!({"turn": turn, "mids": mids, "takes": takes});
        let (target, _) = aim(&running.batch, backend, last.as_ref(), &facts);
        if let Err(reason) = target.pin {
            one.void(reason);
        }
        // A restart must find that these were taken, too.
        let row = self.row(backend, "turn_start", body, now);
        self.commit(backend, vec![row], Then::Show);
        let members = self.members(backend);
        for mid in taken.iter().filter_map(|item| item.mid.as_ref()) {
            self.send(members.clone(), Ack::new(true, "seen").mid(mid));
        }
    }

    pub(super) fn agent_event(&mut self, backend: &Backend, event: AgentEvent, now: u64) {
        let members = self.members(backend);
        let turn = self.conversation(backend).running().map(|turn| turn.id);
        match event {
            AgentEvent::Session { id } => {
                self.conversation(backend).session = Some(id.clone());
                self.send(members, Session { session_id: Some(id) });
            }
            AgentEvent::Delta { id, text } => {
                self.send(members, Stream { phase: StreamPhase::Text, id, delta: Some(text) });
            }
            AgentEvent::Thought { id, text } => {
                self.send(members, Stream { phase: StreamPhase::Think, id, delta: Some(text) });
            }
            AgentEvent::Text { id, text } => {
                self.send(members, Stream { phase: StreamPhase::End, id: id.clone(), delta: None });
                let row = self.row(backend, "say", json!({"text": text, "id": id, "turn": turn}), now);
                self.commit(backend, vec![row], Then::Show);
            }
            AgentEvent::Tool { name, detail } => {
                let shown = Some(detail.clone()).filter(|detail| !detail.is_empty());
                self.send(members, Action { name: name.clone(), detail: shown });
                let row = self.row(backend, "action", json!({"name": name, "detail": detail, "turn": turn}), now);
                self.commit(backend, vec![row], Then::Show);
            }
            AgentEvent::Usage { used, window, model, cost_micros } => {
                let status = AgentStatus { used, context_window: window, model, cost_micros };
                self.conversation(backend).status = Some(status.clone());
                self.send(members, status);
            }
            AgentEvent::Notice { text } => self.notice(backend, &text, now),
            AgentEvent::TurnEnd { outcome, anchor } => {
                if turn.is_some() {
                    self.end_turn(backend, &outcome, anchor, now);
                }
            }
            AgentEvent::Exited { reason } => self.push(Output::Log { event: "agent_exited", detail: reason }),
        }
    }

    pub(super) fn notice(&mut self, backend: &Backend, text: &str, now: u64) {
        let row = self.row(backend, "notice", json!({"text": text}), now);
        self.commit(backend, vec![row], Then::Show);
    }

    /// Ends the turn: its outcome and what it settles go to the log in one transaction.
    pub(super) fn end_turn(&mut self, backend: &Backend, outcome: &TurnOutcome, anchor: Option<String>, now: u64) {
        let one = self.conversation(backend);
        let Some(turn) = one.turn.as_mut().filter(|turn| turn.phase != Phase::Ending) else { return };
        let phase = std::mem::replace(&mut turn.phase, Phase::Ending);
        let back = phase == Phase::Stopping { requeue: true } && *outcome == TurnOutcome::Interrupted;
        let id = turn.id;
        let batch = std::mem::take(&mut turn.batch);
        one.failed_turns = match outcome {
            TurnOutcome::Failed { .. } => one.failed_turns.saturating_add(1),
            TurnOutcome::Completed | TurnOutcome::Interrupted => 0,
        };
        let (keeps, done): (Vec<Item>, Vec<Item>) = batch.iter().cloned().partition(|item| match outcome {
            TurnOutcome::Completed => false,
            // What was told twice is told.
            TurnOutcome::Interrupted if item.is_event() => !(item.requeued && phase.is_with_agent()),
            TurnOutcome::Interrupted => back,
            TurnOutcome::Failed { .. } => item.is_event(),
        });
        // After the person's Stop, and after a failure, an event waits for the next turn and starts none.
        let quiet = !back && (phase != Phase::Running || *outcome != TurnOutcome::Interrupted);
        let again: Vec<Seq> = keeps.iter().filter(|_| !back && !quiet).map(|item| item.seq).collect();
        let mut settles: Vec<Seq> = done.iter().map(|item| item.seq).collect();
        let mids: Vec<&MessageId> = batch.iter().filter_map(|item| item.mid.as_ref()).collect();
        let word = match outcome {
            TurnOutcome::Completed => "completed",
            TurnOutcome::Interrupted if back => "put_back",
            TurnOutcome::Interrupted => "interrupted",
            TurnOutcome::Failed { .. } => "failed",
        };
        let session = one.session.clone();
        let mut body = json!({"turn": id, "outcome": word, "mids": mids, "anchor": anchor, "session": session});
        if !again.is_empty() {
            body["again"] = json!(again);
        }
        let mut rows = Vec::new();
        if let TurnOutcome::Failed { code, message } = outcome {
            body["code"] = json!(code);
            body["message"] = json!(message);
            rows.push(self.row(
                backend,
                "notice",
                json!({"text": format!("⚠️ {message}"), "turn": id, "code": code}),
                now,
            ));
        }
        let mut end = self.row(backend, "turn_end", body, now);
        settles.append(&mut self.conversation(backend).owed);
        end.settles = settles;
        rows.push(end);
        let queue = &mut self.conversation(backend).queue;
        put_back(queue, keeps, quiet, phase.is_with_agent());
        // Where the agent names no point, ours stands for it.
        let anchor = anchor.or_else(|| (*outcome == TurnOutcome::Completed).then(|| crate::past::anchor_of(id)));
        self.commit(backend, rows, Then::End { turn: id, anchor });
    }
}

/// One line that tells the agent where it is, when that differs from the turn before (rule T11).
fn turn_note(target: &Aim, now: Option<&Origin>, before: Option<&Origin>) -> Option<String> {
    if let Err(reason) = target.pin {
        let why = crate::refusal::Refusal::TargetAmbiguous { reason, candidates: Vec::new() };
        return Some(format!("[{}]", why.message()));
    }
    let now = now?;
    if before.is_some_and(|before| before.same(now)) {
        return None;
    }
    let title = now.workflow.as_ref().map_or("untitled", |workflow| workflow.title.as_str());
    Some(format!(
        "[You are now on workflow “{title}” in browser tab {}. Canvas tools act on it. The conversation goes on.]",
        now.tab
    ))
}

fn prompt(note: Option<String>, blind: bool, batch: &[Item]) -> String {
    let mut parts: Vec<String> = note.into_iter().collect();
    parts.extend(blind.then(|| super::blind::NOTE.to_owned()));
    for item in batch {
        if let Some(context) = item.context.as_deref().map(str::trim).filter(|context| !context.is_empty()) {
            parts.push(context.to_owned());
        }
        match (item.requeued, &item.source) {
            (false, _) => {}
            (true, Source::Person { .. }) => {
                parts.push("[This message was interrupted before and is sent again.]".to_owned());
            }
            (true, Source::Event) => {
                parts.push("[Repeated: a turn that did not come to its end was told this before.]".to_owned());
            }
        }
        parts.push(item.text.clone());
    }
    parts.join("\n\n")
}
