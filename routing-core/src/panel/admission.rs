//! Admission of commands: the ledger, then the guard, then the fence, with what is in front at that moment; what changes
//! something runs one at a time, in the order of arrival, and is admitted when its turn comes. Must not know how a
//! command is carried out.

use super::ledger::Known;
use super::pairs::Pairs;
use super::{Outcome, Panel, PanelOutput, UiChange};
use crate::command::{self, Effect, Retry, Site, Spec};
use crate::frame::{CommandFrame, Reply, WorkflowIdentity};
use crate::id::Rid;
use crate::refusal::Refusal;
use crate::{fence, guard};
use serde_json::Value;

/// How long after the daemon's own deadline a command still holds its place.
const GRACE_MS: u64 = 5_000;
/// Most commands that wait for their turn.
const MOST_WAITING: usize = 256;

/// Commands that run, and those that wait for their turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Admission {
    running: Pairs<Rid, Running>,
    turn: Option<Rid>,
    waiting: Vec<Waiting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    frame: CommandFrame,
    give_up_at: u64,
    /// Nobody waits for it any more: it may change nothing.
    overdue: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    frame: CommandFrame,
    useless_at: u64,
}

impl Admission {
    pub(super) fn deadline(&self) -> Option<u64> {
        let running = self.running.iter().filter(|(_, one)| !one.overdue).map(|(_, one)| one.give_up_at);
        running.chain(self.waiting.iter().map(|one| one.useless_at)).min()
    }
}

/// Whether it waits for the one before it.
fn takes_turns(spec: &Spec) -> bool {
    match spec.effect {
        Effect::Write | Effect::Navigate => true,
        Effect::Query | Effect::View | Effect::Server | Effect::Ask => false,
    }
}

fn has_effect(spec: &Spec) -> bool {
    spec.retry == Retry::Token
}

/// A `path` of its own: then the command does not mean the workflow in front.
fn has_path(frame: &CommandFrame) -> bool {
    frame.args.get("path").and_then(Value::as_str).is_some_and(|path| !path.trim().is_empty())
}

impl Panel {
    /// Whether a command that runs may still change something: its stamp and its pin are compared again with what is in
    /// front now. Asked immediately before each write and after each await (rules G4, G5).
    ///
    /// # Errors
    /// The refusal to end the command with, as [`Outcome::Refused`].
    pub fn recheck(&self, rid: &Rid) -> Result<(), Refusal> {
        match self.admission.running.get(rid) {
            Some(running) if !running.overdue => self.admits(&running.frame),
            Some(running) => Err(Refusal::NoReply { after_ms: running.frame.timeout_ms, busy: None }),
            None => Err(Refusal::ConversationClosed),
        }
    }

    fn admits(&self, frame: &CommandFrame) -> Result<(), Refusal> {
        guard::check(frame.workflow_path.as_deref(), self.front.as_ref())?;
        let front = self.front.as_ref().map(|front| &front.uuid);
        fence::check(&frame.cmd, has_path(frame), frame.workflow_uuid.as_ref(), front)
    }

    pub(super) fn command(&mut self, frame: CommandFrame, now: u64) {
        let Some(spec) = command::by_cmd(&frame.cmd).filter(|spec| spec.site != Site::Daemon) else {
            let refusal = Refusal::UnknownCommand { name: frame.cmd.clone() };
            return self.refuse(&frame.rid, &refusal);
        };
        // A tab in the background has late timers: what is overdue is found by the next command, too (report 64).
        self.admission_due(now);
        if has_effect(spec) && self.answered_by_ledger(&frame) {
            return;
        }
        if spec.effect == Effect::Ask {
            return self.ask(&frame);
        }
        if has_effect(spec) {
            self.ledger.taken(&frame.rid, frame.retry_of.as_ref());
        }
        if !takes_turns(spec) {
            return self.admit(spec, frame, now);
        }
        if self.admission.waiting.len() >= MOST_WAITING {
            return self.refuse(&frame.rid, &Refusal::Overloaded { retry_after_ms: 1_000 });
        }
        let useless_at = now + frame.timeout_ms;
        self.admission.waiting.push(Waiting { frame, useless_at });
        self.next_turn(now);
    }

    /// Whether the ledger has the answer. A dispatch that came twice is answered once, when it ends.
    fn answered_by_ledger(&mut self, frame: &CommandFrame) -> bool {
        match self.ledger.repeated(&frame.rid) {
            Known::Ended(reply) => {
                self.reply(*reply);
                return true;
            }
            Known::Running => return true,
            Known::Unknown => {
                self.refuse_again(&frame.rid, &Refusal::UnknownOutcome { token: frame.rid.clone() });
                return true;
            }
            Known::MayRun => {}
        }
        let Some(first) = &frame.retry_of else { return false };
        match self.ledger.retried(first) {
            Known::MayRun => false,
            Known::Running => {
                self.refuse_again(&frame.rid, &Refusal::StillRunning { token: first.clone(), busy: None });
                true
            }
            Known::Ended(reply) => {
                self.reply(Reply { rid: Some(frame.rid.clone()), ..*reply });
                true
            }
            Known::Unknown => {
                self.refuse_again(&frame.rid, &Refusal::UnknownOutcome { token: first.clone() });
                true
            }
        }
    }

    fn next_turn(&mut self, now: u64) {
        while self.admission.turn.is_none() && !self.admission.waiting.is_empty() {
            let Waiting { frame, useless_at } = self.admission.waiting.remove(0);
            let Some(spec) = command::by_cmd(&frame.cmd) else { continue };
            if now >= useless_at {
                self.refuse(&frame.rid, &Refusal::NoReply { after_ms: frame.timeout_ms, busy: None });
                continue;
            }
            self.admit(spec, frame, now);
        }
    }

    fn admit(&mut self, spec: &Spec, frame: CommandFrame, now: u64) {
        if let Err(refusal) = self.admits(&frame) {
            return self.refuse(&frame.rid, &refusal);
        }
        if has_effect(spec) {
            let begun = self.ledger.begins(&frame.rid);
            self.out.push_back(PanelOutput::Remember { begun });
        }
        if takes_turns(spec) {
            self.admission.turn = Some(frame.rid.clone());
        }
        self.out.push_back(PanelOutput::Execute {
            rid: frame.rid.clone(),
            cmd: frame.cmd.clone(),
            args: frame.args.clone(),
            timeout_ms: frame.timeout_ms,
        });
        let give_up_at = now + frame.timeout_ms + GRACE_MS;
        self.admission.running.insert(frame.rid.clone(), Running { frame, give_up_at, overdue: false });
    }

    pub(super) fn done(&mut self, rid: &Rid, outcome: Outcome, workflow: Option<WorkflowIdentity>, now: u64) {
        // The reply must not overtake the hello that tells of the same change.
        if workflow.is_some() {
            self.canvas(workflow);
        }
        let Some(running) = self.admission.running.remove(rid) else { return };
        if self.admission.turn.as_ref() == Some(rid) {
            self.admission.turn = None;
        }
        let (reply, applied) = match outcome {
            Outcome::Ok { result } => {
                self.run_queued(&running.frame.cmd, &result);
                let workflow = self.front.clone();
                (Reply { result: Some(result), workflow, ..answer(rid, true) }, true)
            }
            Outcome::Refused { refusal } => {
                let error = refusal.get("message").and_then(Value::as_str).map(str::to_owned);
                let workflow = self.front.clone();
                (Reply { error, refusal: Some(refusal), workflow, ..answer(rid, false) }, false)
            }
            Outcome::Failed { code, message } => (self.refusal(rid, &Refusal::Failed { failure: code, message }), true),
        };
        if command::by_cmd(&running.frame.cmd).is_some_and(has_effect) {
            self.ledger.ended(rid, &reply, applied);
        }
        if !running.overdue {
            self.reply(reply);
        }
        self.next_turn(now);
    }

    /// What nobody waits for any more makes room for what comes after it.
    pub(super) fn admission_due(&mut self, now: u64) {
        let overdue: Vec<Rid> = self
            .admission
            .running
            .iter()
            .filter(|(_, one)| !one.overdue && now >= one.give_up_at)
            .map(|(rid, _)| rid.clone())
            .collect();
        for rid in overdue {
            if let Some(running) = self.admission.running.get_mut(&rid) {
                running.overdue = true;
                if command::by_cmd(&running.frame.cmd).is_some_and(has_effect) {
                    self.ledger.lost(&rid);
                }
            }
            if self.admission.turn.as_ref() == Some(&rid) {
                self.admission.turn = None;
            }
        }
        let (late, timely): (Vec<Waiting>, Vec<Waiting>) =
            self.admission.waiting.drain(..).partition(|one| now >= one.useless_at);
        self.admission.waiting = timely;
        for Waiting { frame, .. } in late {
            self.refuse(&frame.rid, &Refusal::NoReply { after_ms: frame.timeout_ms, busy: None });
        }
        self.next_turn(now);
    }

    /// Refuses a dispatch of which nothing was applied.
    pub(super) fn refuse(&mut self, rid: &Rid, refusal: &Refusal) {
        let reply = self.refusal(rid, refusal);
        self.ledger.ended(rid, &reply, false);
        self.reply(reply);
    }

    /// Refuses a dispatch for the sake of another one, whose state in the ledger stays.
    fn refuse_again(&mut self, rid: &Rid, refusal: &Refusal) {
        let reply = self.refusal(rid, refusal);
        self.reply(reply);
    }

    fn refusal(&self, rid: &Rid, refusal: &Refusal) -> Reply {
        Reply {
            error: Some(refusal.message()),
            refusal: Some(refusal.to_wire()),
            workflow: self.front.clone(),
            ..answer(rid, false)
        }
    }

    fn run_queued(&mut self, cmd: &str, result: &Value) {
        if cmd != "graph_run" {
            return;
        }
        let one = result.get("prompt_id").into_iter();
        let several = result.get("prompt_ids").and_then(Value::as_array).into_iter().flatten();
        let mut ids: Vec<&str> = one.chain(several).filter_map(Value::as_str).collect();
        ids.dedup();
        for id in ids {
            if !self.runs.has_ended(&id.into()) {
                self.show(UiChange::Run { prompt_id: id.into(), status: "queued".to_owned(), error: None });
            }
        }
    }
}

/// An answer without content.
pub(super) fn answer(rid: &Rid, ok: bool) -> Reply {
    Reply {
        rid: Some(rid.clone()),
        ok,
        result: None,
        error: None,
        refusal: None,
        workflow: None,
        ask_id: None,
        extra: Default::default(),
    }
}
