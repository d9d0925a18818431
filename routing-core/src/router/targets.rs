//! Which workflow a conversation acts on: asked, listed, set (rules G1, G2, G10, G12, T12).

use super::Router;
use super::calls::Aimed;
use crate::command::{self, Effect, Spec};
use crate::frame::{Ack, Reply, SetWorkflowTarget, WorkflowIdentity, WorkflowTargetFrame};
use crate::id::{Backend, CallId, Rid, SocketId, TabKey};
use crate::ledger::{Asker, Call, CallState, Purpose, Sent};
use crate::refusal::{NoTarget, Refusal};
use crate::target::{Target, open_workflows, resolve_pin};
use serde_json::{Map, Value, json};

impl Router {
    /// `panel_get_workflow_target`.
    pub(super) fn tell_target(&mut self, backend: &Backend) -> Value {
        let one = self.conversation(backend);
        let aim = one.running().map(|turn| turn.aim.clone()).or_else(|| one.last.clone());
        let mut told = json!(one.target);
        let pin = aim.as_ref().and_then(|aim| aim.pin.as_ref().ok().cloned());
        let stamp = aim.as_ref().and_then(|aim| aim.stamp.clone());
        told["tab"] = json!(pin);
        told["stamp"] = json!(stamp);
        if let Some(Err(reason)) = aim.as_ref().map(|aim| &aim.pin) {
            told["no_target"] = json!(reason);
        }
        if let Some(tab) = pin.and_then(|pin| self.tabs.get(&pin)) {
            told["connected"] = json!(tab.socket.is_some());
            told["in_front"] = json!(tab.workflow.as_ref().map(label));
            told["in_front_is_target"] = json!(tab.workflow.as_ref().map(|front| Some(&front.uuid) == stamp.as_ref()));
        }
        told
    }

    /// `panel_list_workflows`: every tab of the conversation, or one (rule G12).
    pub(super) fn gather(
        &mut self,
        backend: &Backend,
        call: CallId,
        spec: &'static Spec,
        tab: Option<&TabKey>,
        now: u64,
    ) {
        let tabs = match tab {
            None => self.eligible(backend),
            Some(named) => match self.named_tab(backend, named) {
                Aimed::Tab(tab) => vec![tab],
                Aimed::Wait(_) => Vec::new(),
                Aimed::Refused(refusal) => return self.answer(call, Err(refusal)),
            },
        };
        let open: Vec<Rid> = tabs
            .iter()
            .filter_map(|tab| self.send_command(backend, spec, tab, Map::new(), None, Purpose::Gather(call), now))
            .collect();
        let nobody = open.is_empty();
        let state = CallState::Gathering { open, found: Vec::new() };
        let turn = self.conversation(backend).turn_at_work();
        let record = Call {
            backend: backend.clone(),
            turn,
            cmd: spec.cmd,
            args: Map::new(),
            retry_of: None,
            frame: None,
            state,
        };
        self.calls.insert(call, record);
        if nobody {
            self.tell_workflows(call, now);
        }
    }

    pub(super) fn gathered(&mut self, call: CallId, rid: &Rid, tab: &TabKey, result: Option<Value>, now: u64) {
        let Some(CallState::Gathering { open, found }) = self.calls.get_mut(&call).map(|call| &mut call.state) else {
            return;
        };
        open.retain(|one| one != rid);
        found.push((tab.clone(), result));
        if open.is_empty() {
            self.tell_workflows(call, now);
        }
    }

    fn tell_workflows(&mut self, call: CallId, now: u64) {
        let Some(record) = self.calls.get(&call).cloned() else { return };
        let CallState::Gathering { mut found, .. } = record.state else { return };
        let pin = match self.conversation(&record.backend).running() {
            Some(turn) => turn.aim.pin.clone().ok(),
            None => match self.aim_call(&record.backend, Effect::Query) {
                Aimed::Tab(tab) | Aimed::Wait(tab) => Some(tab),
                Aimed::Refused(_) => None,
            },
        };
        let stamp = self.conversation(&record.backend).stamp();
        found.sort_by(|(left, _), (right, _)| left.cmp(right));
        let tabs: Vec<Value> = found
            .into_iter()
            .map(|(key, result)| {
                let title = self.tabs.get(&key).map(|tab| tab.title.clone());
                let open = result.as_ref().and_then(open_workflows);
                let mut told = json!({"tab": key, "title": title, "target": Some(&key) == pin.as_ref()});
                match open {
                    Some(open) => {
                        let list: Vec<Value> = open
                            .iter()
                            .map(|one| {
                                let mut entry = label(&one.identity);
                                entry["active"] = json!(one.active);
                                entry["modified"] = json!(one.modified);
                                let target = Some(&key) == pin.as_ref() && Some(&one.identity.uuid) == stamp.as_ref();
                                if target {
                                    entry["target"] = json!(true);
                                }
                                entry
                            })
                            .collect();
                        told["workflows"] = json!(list);
                    }
                    None => told["workflows"] = json!("unknown: the tab did not answer"),
                }
                if let Some(busy) = self.busy(&key, now) {
                    told["busy"] = json!(busy);
                }
                told
            })
            .collect();
        let target = self.conversation(&record.backend).target.clone();
        self.answer(call, Ok(json!({"tabs": tabs, "pin": target})));
    }

    /// `panel_set_workflow_target`: what is in front is asked first, so that only what the panel proves is taken.
    pub(super) fn retarget_by_agent(
        &mut self,
        backend: &Backend,
        call: CallId,
        args: &Map<String, Value>,
        tab: Option<&TabKey>,
        now: u64,
    ) {
        let text = |name: &str| args.get(name).and_then(Value::as_str);
        let pin = match (text("mode"), text("path")) {
            (Some("pinned"), Some(path)) => Some(path.to_owned()),
            (Some("pinned"), None) => {
                let problems = vec!["`path` is missing: say which workflow to pin.".to_owned()];
                return self.answer(call, Err(Refusal::BadArguments { problems }));
            }
            _ => None,
        };
        let aimed = match tab {
            Some(named) => self.named_tab(backend, named),
            None => self.aim_retarget(backend),
        };
        let key = match aimed {
            Aimed::Tab(key) => key,
            Aimed::Wait(_) | Aimed::Refused(Refusal::NoTab { .. })
                if pin.is_none() && self.eligible(backend).is_empty() =>
            {
                // Not yet is another answer than no (reports 13, 34).
                self.conversation(backend).armed = true;
                return self.answer(call, Err(Refusal::NoTab { deferred: true }));
            }
            Aimed::Wait(_) => {
                let candidates = self.candidates(backend);
                return self.answer(call, Err(Refusal::TargetGone { candidates }));
            }
            Aimed::Refused(refusal) => return self.answer(call, Err(refusal)),
        };
        let record = Call {
            backend: backend.clone(),
            turn: self.conversation(backend).turn_at_work(),
            cmd: "workflow_target_set",
            args: Map::new(),
            retry_of: None,
            frame: None,
            state: CallState::Sent,
        };
        self.calls.insert(call, record);
        self.ask_front(backend, &key, Asker::Agent(call), pin, now);
    }

    /// The tab of a re-target that names none: the turn's, else the only one (rule G12).
    fn aim_retarget(&mut self, backend: &Backend) -> Aimed {
        let eligible = self.eligible(backend);
        let turn = self.conversation(backend).running().map(|turn| turn.aim.pin.clone());
        match (turn, eligible.as_slice()) {
            (Some(Ok(tab)), _) if eligible.contains(&tab) => Aimed::Tab(tab),
            (None, [_, _, ..]) => self.aim_call(backend, Effect::Navigate),
            (_, [only]) => Aimed::Tab(only.clone()),
            (_, []) => Aimed::Refused(Refusal::NoTab { deferred: false }),
            (Some(Err(reason)), _) => Aimed::Refused(self.ambiguous(backend, reason)),
            (Some(Ok(_)), _) => Aimed::Refused(self.ambiguous(backend, NoTarget::SeveralTabs)),
        }
    }

    fn ask_front(&mut self, backend: &Backend, key: &TabKey, by: Asker, pin: Option<String>, now: u64) {
        let one = self.conversation(backend);
        one.target_request += 1;
        let request = one.target_request;
        let purpose = Purpose::Retarget { backend: backend.clone(), by, request, pin };
        if let Some(spec) = command::by_cmd("workflow_list") {
            self.send_command(backend, spec, key, Map::new(), None, purpose, now);
        }
    }

    /// The panel told what is in front.
    pub(super) fn retarget_answered(&mut self, sent: &Sent, reply: &Reply, front: Option<WorkflowIdentity>, now: u64) {
        let Purpose::Retarget { backend, by, request, pin } = &sent.purpose else { return };
        if self.conversation(backend).target_request != *request {
            return self.retarget_failed(sent, Refusal::Superseded, now);
        }
        if self.tabs.get(&sent.tab).is_none_or(|tab| tab.backend != *backend) {
            let candidates = self.candidates(backend);
            return self.retarget_failed(sent, Refusal::NotOwner { tab: sent.tab.clone(), candidates }, now);
        }
        if let Asker::Agent(call) = by {
            let turn = self.calls.get(call).and_then(|call| call.turn);
            if !self.conversation(backend).may_move(turn) {
                return self.retarget_failed(sent, Refusal::Superseded, now);
            }
        }
        let open = reply.result.as_ref().filter(|_| reply.ok).and_then(open_workflows);
        let resolved = match pin {
            Some(name) => resolve_pin(name, open.as_deref()).map_err(|refusal| refusal.in_tab(&sent.tab)),
            None => front
                .or_else(|| open.as_ref()?.iter().find(|one| one.active).map(|one| one.identity.clone()))
                .ok_or(Refusal::TargetUndetermined),
        };
        let identity = match resolved {
            Ok(identity) => identity,
            Err(refusal) => return self.retarget_failed(sent, refusal, now),
        };
        let target = match pin {
            Some(_) => Target::Pinned {
                path: identity.key(),
                filename: identity.path.as_ref().map(|path| path.filename().to_owned()),
            },
            None => Target::Current,
        };
        self.put_target(backend, target.clone());
        match by {
            Asker::Person(socket) => {
                if self.sockets.contains_key(socket) {
                    self.to(*socket, Ack::new(true, "workflow_target").with("target", json!(target)));
                }
            }
            Asker::Agent(call) => {
                if let Some(tab) = self.tabs.get_mut(&sent.tab) {
                    tab.workflow = Some(identity.clone());
                }
                self.conversation(backend).retarget(sent.tab.clone(), Some(identity.uuid.clone()));
                let mut told = json!(target);
                told["tab"] = json!(sent.tab);
                told["workflow"] = label(&identity);
                self.answer(*call, Ok(told));
            }
        }
    }

    pub(super) fn retarget_failed(&mut self, sent: &Sent, refusal: Refusal, _now: u64) {
        let Purpose::Retarget { by, .. } = &sent.purpose else { return };
        match by {
            Asker::Agent(call) => self.answer(*call, Err(refusal)),
            Asker::Person(socket) => {
                if self.sockets.contains_key(socket) {
                    let ack = Ack::new(false, "workflow_target").message(refusal.message());
                    self.to(*socket, ack.with("code", refusal.code()));
                }
            }
        }
    }

    /// The picker in the panel. It moves no running turn's pin (rule T12).
    pub(super) fn pick_target(&mut self, socket: SocketId, key: &TabKey, frame: SetWorkflowTarget, now: u64) {
        let Some(backend) = self.tabs.get(key).map(|tab| tab.backend.clone()) else { return };
        let refuse = |words: &str| Ack::new(false, "workflow_target").message(words);
        match (frame.mode.as_str(), frame.path.filter(|path| !path.trim().is_empty())) {
            ("current", _) => {
                self.conversation(&backend).target_request += 1;
                self.put_target(&backend, Target::Current);
                self.to(socket, Ack::new(true, "workflow_target").with("target", json!(Target::Current)));
            }
            ("pinned", Some(path)) => self.ask_front(&backend, key, Asker::Person(socket), Some(path), now),
            ("pinned", None) => self.to(socket, refuse("Say in `path` which workflow to pin.")),
            _ => self.to(socket, refuse("`mode` is `current` or `pinned`.")),
        }
    }

    fn put_target(&mut self, backend: &Backend, target: Target) {
        let one = self.conversation(backend);
        if one.target != target {
            one.target = target;
            self.show_target(backend);
        }
    }

    pub(super) fn show_target(&mut self, backend: &Backend) {
        let target = self.conversation(backend).target.clone();
        let members = self.members(backend);
        self.send(members, WorkflowTargetFrame { target });
    }

    /// A re-target that waited for a tab is applied to the first one that comes (report 13).
    pub(super) fn apply_armed_target(&mut self, key: &TabKey) {
        let Some(tab) = self.tabs.get(key).filter(|tab| !tab.headless) else { return };
        let (backend, front) = (tab.backend.clone(), tab.workflow.clone());
        let Some(front) = front else { return };
        let one = self.conversation(&backend);
        if std::mem::take(&mut one.armed) {
            one.retarget(key.clone(), Some(front.uuid));
            self.put_target(&backend, Target::Current);
        }
    }
}

/// A workflow as an agent sees it.
fn label(identity: &WorkflowIdentity) -> Value {
    let mut told = json!({"handle": identity.handle, "title": identity.title});
    if let Some(path) = &identity.path {
        told["path"] = json!(path);
    }
    told["uuid"] = json!(identity.uuid);
    told
}
