//! Answers of panels: matched by their dispatch, checked for what they prove, and given to whoever waits (rules G7 to
//! G10, T12). What happens when none comes stands in `again`.

use super::{Output, Router};
use crate::command;
use crate::fence;
use crate::frame::{Reply, WorkflowIdentity};
use crate::id::{CallId, Rid, SocketId, TabKey};
use crate::ledger::{Purpose, Sent};
use crate::refusal::Refusal;
use serde_json::{Value, json};

impl Router {
    pub(super) fn reply(&mut self, socket: SocketId, reply: Reply, now: u64) {
        let Some(tab) = self.sockets.get(&socket).and_then(|one| one.tab.clone()) else { return };
        let sent = reply.rid.as_ref().and_then(|rid| self.sent.get(rid)).cloned();
        match (sent, reply.rid.clone()) {
            (Some(sent), Some(rid)) if sent.tab == tab => {
                self.sent.remove(&rid);
                self.matched(&rid, &sent, reply, now);
            }
            (Some(_), rid) => {
                self.nack_about(socket, None, rid, "not_yours", "That command was sent to another tab.");
            }
            (None, rid) => {
                if let Some(ask) = reply.ask_id.clone() {
                    return self.late_answer(socket, &tab, &ask, reply, now);
                }
                match rid {
                    Some(rid) if self.late_reply(&tab, &rid, &reply, now) => {}
                    rid => self.nack_about(socket, None, rid, "unknown_rid", "No command of that name is waiting."),
                }
            }
        }
    }

    pub(super) fn matched(&mut self, rid: &Rid, sent: &Sent, reply: Reply, now: u64) {
        if let Some(first) = &sent.first {
            self.settled(first);
        }
        let identity = self.proven(&sent.tab, sent, &reply);
        match &sent.purpose {
            Purpose::Ask(ask) => self.answered(ask, reply, now),
            Purpose::Gather(call) => {
                let found = if reply.ok { reply.result } else { None };
                if let Ok(Some(identity)) = identity {
                    self.bind(&sent.tab, identity);
                }
                self.gathered(*call, rid, &sent.tab, found, now);
            }
            Purpose::Retarget { .. } => {
                if let Ok(Some(identity)) = &identity {
                    self.bind(&sent.tab, identity.clone());
                }
                self.retarget_answered(sent, &reply, identity.ok().flatten(), now);
            }
            Purpose::Call(call) => self.call_answered(*call, rid, sent, reply, identity, now),
        }
    }

    /// The identity that a reply proves (rule G7: never that of a refused command). `Err`: it contradicts the bound one
    /// (rule G9).
    fn proven(&mut self, tab: &TabKey, sent: &Sent, reply: &Reply) -> Result<Option<WorkflowIdentity>, Refusal> {
        if !reply.ok {
            return Ok(None);
        }
        let Some(bound) = self.tabs.get(tab) else { return Ok(None) };
        let modern = self.sockets.get(&sent.socket).is_some_and(|one| one.modern);
        let reported = match (&reply.workflow, modern) {
            (Some(reported), _) => Some(reported.clone()),
            (None, true) => None,
            (None, false) => legacy_identity(reply, bound.workflow.as_ref()),
        };
        let Some(reported) = reported else { return Ok(None) };
        if fence::contradicts(bound.workflow.as_ref(), &reported) {
            let detail =
                format!("{tab}: {} reports {} on a canvas that shows another instance", sent.cmd, reported.uuid);
            self.push(Output::Log { event: "identity_contradiction", detail });
            let problem = "it names another workflow instance on the same canvas".to_owned();
            return Err(Refusal::BadReply { problem });
        }
        Ok(Some(reported))
    }

    /// Binds an identity to a tab: what the panel proved last.
    fn bind(&mut self, key: &TabKey, identity: WorkflowIdentity) {
        let Some(tab) = self.tabs.get_mut(key) else { return };
        if !identity.title.is_empty() {
            tab.title.clone_from(&identity.title);
        }
        let before = tab.workflow.replace(identity.clone());
        let backend = tab.backend.clone();
        if let Some(before) = before {
            let one = self.conversation(&backend);
            let target = one.target.clone();
            one.target.renamed(&before, &identity);
            if one.target != target {
                self.show_target(&backend);
            }
        }
    }

    fn call_answered(
        &mut self,
        call: CallId,
        rid: &Rid,
        sent: &Sent,
        reply: Reply,
        identity: Result<Option<WorkflowIdentity>, Refusal>,
        now: u64,
    ) {
        let Some(spec) = command::by_cmd(sent.cmd) else { return };
        if !reply.ok {
            let refusal = match &reply.refusal {
                Some(wire) => match self.about_the_tab(call, sent, Refusal::from_wire(wire), now) {
                    Some(refusal) => refusal,
                    // It is waited for again.
                    None => return,
                },
                None => Refusal::Failed {
                    failure: "failed".to_owned(),
                    message: reply.error.unwrap_or_else(|| "The panel could not do it and did not say why.".to_owned()),
                },
            };
            return self.answer(call, Err(refusal));
        }
        let identity = match identity {
            Ok(identity) => identity,
            Err(refusal) => return self.answer(call, Err(refusal)),
        };
        if spec.reports_identity && identity.is_none() {
            let problem = format!("{} changed the workflow and does not say to which instance", sent.cmd);
            return self.answer(call, Err(Refusal::BadReply { problem }));
        }
        if let Some(identity) = &identity {
            self.bind(&sent.tab, identity.clone());
        }
        let Some((backend, turn)) = self.calls.get(&call).map(|call| (call.backend.clone(), call.turn)) else { return };
        let owned = self.tabs.get(&sent.tab).is_some_and(|tab| tab.backend == backend);
        let named = self.calls.get(&call).is_some_and(|call| call.args.contains_key("name"));
        let same = identity.as_ref().is_some_and(|identity| Some(&identity.uuid) == sent.stamp.as_ref());
        // It ran on its own workflow, which it does not replace (a plain save keeps the instance): another one in front
        // is the person's own switch, and the target stays (rule T12).
        let keeps_instance = if spec.moves_target { !named } else { !spec.reports_identity };
        let strayed = spec.is_fenced(false) && keeps_instance && !same;
        let moves = spec.moves_target && !strayed && owned && self.conversation(&backend).may_move(turn);
        if let (Some(identity), true) = (&identity, moves) {
            self.conversation(&backend).retarget(sent.tab.clone(), Some(identity.uuid.clone()));
        }
        if sent.cmd == "graph_run" {
            match self.run_queued(&backend, &sent.tab, reply.result.as_ref(), now) {
                Ok(true) => {}
                Ok(false) => return self.outcome_unknown(rid, sent, Some(backend), call),
                Err(refusal) => return self.answer(call, Err(refusal)),
            }
        }
        let mut result = reply.result.unwrap_or_else(|| json!({}));
        if let (Some(identity), Some(map)) = (&identity, result.as_object_mut()) {
            let front = json!({"handle": identity.handle, "title": identity.title, "uuid": identity.uuid});
            if strayed {
                map.insert("in_front_now".to_owned(), front);
            } else if spec.reports_identity {
                map.insert("workflow".to_owned(), front);
                map.insert("tab".to_owned(), json!(sent.tab));
            }
        }
        self.answer(call, Ok(result));
    }
}

/// A legacy reply tells the instance inside its result.
fn legacy_identity(reply: &Reply, bound: Option<&WorkflowIdentity>) -> Option<WorkflowIdentity> {
    let result = reply.result.as_ref()?;
    let uuid = result.get("workflow_uuid").or_else(|| result.get("active")?.get("workflow_uuid"))?.as_str()?;
    let text = |field: &str| result.get(field).and_then(Value::as_str).map(str::to_owned);
    if let Some(bound) = bound.filter(|bound| bound.uuid.as_str() == uuid) {
        return Some(bound.clone());
    }
    Some(WorkflowIdentity {
        uuid: uuid.into(),
        path: text("path").and_then(|path| crate::path::WorkflowPath::parse(&path).ok()),
        handle: text("routing_key").unwrap_or_default(),
        title: text("title").unwrap_or_default(),
        canvas: None,
    })
}
