//! Tool calls: checked, aimed, stamped, sent (rules T4 to T7, T10, G3, G5, G11).

use super::{Look, Output, Reader, Router};
use crate::command::{self, Deadline, Effect, Site, Spec};
use crate::frame::CommandFrame;
use crate::id::{Backend, CallId, Rid, TabKey};
use crate::ledger::{Call, CallState, Purpose, Sent};
use crate::refusal::{NoTarget, Refusal};
use crate::{fence, guard};
use serde_json::{Map, Value};

/// Where a call goes.
pub(super) enum Aimed {
    /// To this tab now.
    Tab(TabKey),
    /// To this tab when it is back (rule T6).
    Wait(TabKey),
    /// Nowhere.
    Refused(Refusal),
}

impl Router {
    pub(super) fn tool_call(
        &mut self,
        backend: Backend,
        call: CallId,
        tool: &str,
        arguments: Map<String, Value>,
        now: u64,
    ) {
        let Some(spec) = command::by_tool(tool) else {
            return self.answer(call, Err(Refusal::UnknownCommand { name: tool.to_owned() }));
        };
        if let Err(problems) = command::check_arguments(spec, &arguments) {
            return self.answer(call, Err(Refusal::BadArguments { problems }));
        }
        let mut args: Map<String, Value> = arguments.into_iter().filter(|(_, value)| !value.is_null()).collect();
        let tab = args.remove("tab").and_then(|tab| tab.as_str().map(TabKey::from));
        let retry_of = args.remove("retry_of").and_then(|rid| rid.as_str().map(Rid::from));
        if self.boundaries.contains_key(&backend) || self.conversation(&backend).is_stopping() {
            // The agent that calls is being stopped (rule B2), or the person pressed Stop and it has not noticed yet.
            return self.answer(call, Err(Refusal::ConversationClosed));
        }
        if let Some(token) = &retry_of
            && let Err(refusal) = self.check_retry(token, spec)
        {
            return self.answer(call, Err(refusal));
        }
        match spec.site {
            Site::EveryPanel => self.gather(&backend, call, spec, tab.as_ref(), now),
            Site::Daemon => match spec.cmd {
                "workflow_target_get" => {
                    let told = self.tell_target(&backend);
                    self.answer(call, Ok(told));
                }
                "run_status" | "job_status" => self.run_status(backend, call, spec.cmd, args, now),
                "nodes_install" | "model_install" => self.begin_job(backend, call, spec.cmd, args, now),
                "conversation_search" => {
                    let words = args.get("words").and_then(Value::as_str).unwrap_or_default().to_owned();
                    self.push(Output::Look { by: Reader::Call(call), backend, look: Look::Search(words) });
                }
                _ => self.retarget_by_agent(&backend, call, &args, tab.as_ref(), now),
            },
            Site::Panel => {
                let turn = self.conversation(&backend).turn_at_work();
                let record = Call { backend, turn, cmd: spec.cmd, args, retry_of, frame: None, state: CallState::Sent };
                self.place(call, record, spec, tab.as_ref(), now);
            }
        }
    }

    /// Whether a token is that of a call whose outcome is unknown (rule G11). Any other would make a retry a fresh write.
    fn check_retry(&self, token: &Rid, spec: &Spec) -> Result<(), Refusal> {
        if self.sent.contains_key(token) {
            return Err(Refusal::StillRunning { token: token.clone(), busy: None });
        }
        let problem = match self.lost.iter().find(|(rid, _)| rid == token) {
            Some((_, lost)) if lost.cmd == spec.cmd => return Ok(()),
            // Its answer would be taken for that of another command.
            Some((_, lost)) => format!("`retry_of` names {token}, which was a {}: repeat that call.", lost.cmd),
            None => format!(
                "`retry_of` names {token}, which is not known any more, so whether it was applied cannot be told: look with \
                 panel_graph_outline, and call without retry_of only if it was not."
            ),
        };
        Err(Refusal::BadArguments { problems: vec![problem] })
    }

    /// Finds the call's tab and sends it there, or lets it wait, or refuses it.
    fn place(&mut self, call: CallId, mut record: Call, spec: &'static Spec, tab: Option<&TabKey>, now: u64) {
        // A retry asks the panel that was asked first: only its ledger knows.
        let first = record.retry_of.as_ref().and_then(|rid| self.lost.iter().find(|(lost, _)| lost == rid));
        let first = first.map(|(_, lost)| lost.tab.clone());
        let aimed = match first.as_ref().or(tab) {
            Some(named) => self.named_tab(&record.backend, named),
            None => self.aim_call(&record.backend, spec.effect),
        };
        match aimed {
            Aimed::Refused(refusal) => {
                self.calls.insert(call, record);
                self.not_sent(call, refusal);
            }
            Aimed::Wait(tab) => {
                record.state = CallState::Parked { tab, until: now + self.config.limits.reconnect };
                self.calls.insert(call, record);
            }
            Aimed::Tab(tab) => self.dispatch(call, record, spec, &tab, now),
        }
    }

    /// A tab that the caller named.
    pub(super) fn named_tab(&self, backend: &Backend, named: &TabKey) -> Aimed {
        let candidates = self.candidates(backend);
        match self.tabs.get(named) {
            Some(tab) if tab.backend != *backend => {
                Aimed::Refused(Refusal::NotOwner { tab: named.clone(), candidates })
            }
            Some(tab) if tab.socket.is_some() => Aimed::Tab(named.clone()),
            Some(_) => Aimed::Wait(named.clone()),
            None => Aimed::Refused(Refusal::TargetGone { candidates }),
        }
    }

    /// The tab that a call of this kind goes to when none is named. Reads and writes take the same way (report 19).
    pub(super) fn aim_call(&mut self, backend: &Backend, effect: Effect) -> Aimed {
        let pin = match self.conversation(backend).running() {
            Some(turn) => turn.aim.pin.clone(),
            None => return self.aim_idle(backend),
        };
        match pin {
            // A defect that the model checker must find: the newest speaker re-aims the running turn.
            Ok(_) if self.broken("t4") => self.aim_idle(backend),
            Ok(tab) => self.aim_at_pin(backend, tab),
            Err(reason) => match effect {
                Effect::View | Effect::Write => Aimed::Refused(self.ambiguous(backend, reason)),
                Effect::Navigate => match self.eligible(backend).as_slice() {
                    [only] => Aimed::Tab(only.clone()),
                    [] => Aimed::Refused(Refusal::NoTab { deferred: false }),
                    _ => Aimed::Refused(self.ambiguous(backend, reason)),
                },
                Effect::Query | Effect::Server | Effect::Ask => self.aim_idle(backend),
            },
        }
    }

    /// The turn's tab, whose ownership is checked at every use (rule T7).
    fn aim_at_pin(&mut self, backend: &Backend, tab: TabKey) -> Aimed {
        let owner = self.tabs.get(&tab).map(|tab| tab.backend.clone());
        match owner {
            Some(owner) if owner == *backend || self.broken("t7") => match self.live_socket(&tab) {
                Some(_) => Aimed::Tab(tab),
                None => Aimed::Wait(tab),
            },
            Some(_) => {
                self.pin_lost(backend, &tab);
                let candidates = self.candidates(backend);
                Aimed::Refused(Refusal::NotOwner { tab, candidates })
            }
            None => Aimed::Refused(Refusal::TargetGone { candidates: self.candidates(backend) }),
        }
    }

    /// The pinned tab takes part in another conversation (rule T7): one warning, and no pin from here on.
    fn pin_lost(&mut self, backend: &Backend, tab: &TabKey) {
        self.conversation(backend).void(NoTarget::OwnershipLost);
        let detail = format!("{tab} left {backend}; the turn's target is void");
        self.push(Output::Log { event: "pin_void", detail });
    }

    /// Between turns (rule T10): the tab of the person's last message, else the newest interactive one.
    fn aim_idle(&mut self, backend: &Backend) -> Aimed {
        let eligible = self.eligible(backend);
        let last = self.conversation(backend).last_speaker.clone();
        match last.filter(|tab| eligible.contains(tab)).or_else(|| eligible.last().cloned()) {
            Some(tab) => Aimed::Tab(tab),
            None => Aimed::Refused(Refusal::NoTab { deferred: false }),
        }
    }

    pub(super) fn ambiguous(&self, backend: &Backend, reason: NoTarget) -> Refusal {
        Refusal::TargetAmbiguous { reason, candidates: self.candidates(backend) }
    }

    /// Sends a call to a connected tab, stamped and pinned.
    pub(super) fn dispatch(&mut self, call: CallId, mut record: Call, spec: &'static Spec, tab: &TabKey, now: u64) {
        if spec.cmd == "ask_user" {
            return self.ask(call, record, tab, now);
        }
        let backend = record.backend.clone();
        let mut args = record.args.clone();
        self.conversation(&backend).target.inject(spec, &mut args);
        // Whether a retry ran before, only the ledger of the panel that was asked first knows; what did not run meets that
        // panel's fence.
        let known_there = record.retry_of.is_some() && self.tabs.get(tab).is_some_and(|tab| tab.fences);
        if !known_there && let Err(refusal) = self.predict(&backend, spec, tab, &args) {
            return self.answer(call, Err(refusal));
        }
        record.state = CallState::Sent;
        let retry_of = record.retry_of.clone();
        self.calls.insert(call, record);
        self.send_command(&backend, spec, tab, args, retry_of, Purpose::Call(call), now);
    }

    /// What the panel's admission will say, from what is known here: the same guard, the same fence.
    fn predict(
        &mut self,
        backend: &Backend,
        spec: &Spec,
        tab: &TabKey,
        args: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        let has_path = args.contains_key("path");
        if !spec.is_fenced(has_path) || self.broken("g5") {
            return Ok(());
        }
        let stamp = self.conversation(backend).stamp();
        let Some(tab) = self.tabs.get(tab) else { return Ok(()) };
        if spec.effect == Effect::Write && !tab.fences {
            return Err(Refusal::PanelTooOld);
        }
        let front = tab.workflow.as_ref();
        if stamp.is_none() || front.is_some() {
            fence::check(spec.cmd, has_path, stamp.as_ref(), front.map(|front| &front.uuid))?;
        }
        match front {
            Some(_) => guard::check(args.get("workflow_path").and_then(Value::as_str), front),
            None => Ok(()),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one place that builds every command frame")]
    pub(super) fn send_command(
        &mut self,
        backend: &Backend,
        spec: &'static Spec,
        tab: &TabKey,
        mut args: Map<String, Value>,
        retry_of: Option<Rid>,
        purpose: Purpose,
        now: u64,
    ) -> Option<Rid> {
        let socket = self.live_socket(tab)?;
        let rid = self.fresh_rid();
        let allowed = self.allowed(spec);
        let stamp = self.conversation(backend).stamp();
        let workflow_path = args.remove("workflow_path").and_then(|path| path.as_str().map(str::to_owned));
        let frame = CommandFrame {
            rid: rid.clone(),
            cmd: spec.cmd.to_owned(),
            timeout_ms: allowed,
            workflow_uuid: stamp.clone(),
            workflow_path,
            retry_of,
            args,
        };
        if let Purpose::Call(call) = &purpose
            && let Some(record) = self.calls.get_mut(call)
        {
            record.frame = Some(frame.clone());
        }
        let sent = Sent {
            purpose,
            tab: tab.clone(),
            socket,
            cmd: spec.cmd,
            deadline: now + allowed,
            allowed,
            since: now,
            first: frame.retry_of.clone(),
            checked: false,
            stamp,
        };
        self.sent.insert(rid.clone(), sent);
        self.push(Output::Send { sockets: vec![socket], frame: crate::frame::FromDaemon::Command(frame) });
        Some(rid)
    }

    /// How long the answer to a command may take.
    pub(super) fn allowed(&self, spec: &Spec) -> u64 {
        let limits = &self.config.limits;
        match spec.deadline {
            Deadline::Usual => limits.command,
            Deadline::Times(times) => limits.command * times,
            Deadline::Person => limits.ask,
        }
    }

    pub(super) fn answer(&mut self, call: CallId, outcome: Result<Value, Refusal>) {
        let outcome = match self.calls.remove(&call) {
            Some(record) => self.withheld(&record.backend, outcome),
            None => outcome,
        };
        self.push(Output::Answer { call, outcome });
    }

    /// Calls that waited for their tab are carried out no more.
    pub(super) fn refuse_parked(&mut self, backend: &Backend) {
        let parked = |call: &Call| call.backend == *backend && matches!(call.state, CallState::Parked { .. });
        let parked: Vec<CallId> = self.calls.iter().filter(|(_, call)| parked(call)).map(|(id, _)| *id).collect();
        for id in parked {
            self.not_sent(id, Refusal::ConversationClosed);
        }
    }

    /// A tab is back (rules T5, T6): calls that waited for it go out, questions are shown again, a kept re-target is
    /// applied.
    pub(super) fn tab_is_back(&mut self, key: &TabKey, first: bool, now: u64) {
        if !first {
            return;
        }
        self.apply_armed_target(key);
        let waiting: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(_, call)| matches!(&call.state, CallState::Parked { tab, .. } if tab == key))
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let Some(record) = self.calls.get(&id).cloned() else { continue };
            let owned = self.tabs.get(key).is_some_and(|tab| tab.backend == record.backend);
            // What it would act on now is another turn's (rule T4).
            let timely = self.conversation(&record.backend).is_timely(record.turn);
            match command::by_cmd(record.cmd) {
                Some(spec) if owned && timely => self.place_again(id, record, spec, key, now),
                _ if owned => self.not_sent(id, Refusal::ConversationClosed),
                _ => {
                    let pinned = self.conversation(&record.backend).running().map(|turn| turn.aim.pin.clone());
                    if pinned == Some(Ok(key.clone())) {
                        self.pin_lost(&record.backend, key);
                    }
                    let candidates = self.candidates(&record.backend);
                    self.not_sent(id, Refusal::NotOwner { tab: key.clone(), candidates });
                }
            }
        }
        self.show_questions(key, now);
    }
}
