//! Clients without the panel's machine, behind the same inputs and outputs: one of the older dialect, which checks the
//! stamp itself, and one that says hello in dialect 1 and leaves the rest to the script.

use super::format::{Dialect, PanelSpec};
use crate::command;
use crate::frame::WorkflowIdentity;
use crate::id::{AskId, Rid};
use crate::panel::{Outcome, PanelInput, PanelOutput, Question, UiChange};
use crate::refusal::Refusal;
use crate::target::Target;
use crate::{fence, guard};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};

/// A client that speaks frame by frame.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    legacy: bool,
    identity: String,
    backend: Option<String>,
    fences: bool,
    headless: bool,
    front: Option<WorkflowIdentity>,
    socket: u32,
    open: bool,
    running: BTreeMap<Rid, Map<String, Value>>,
    questions: BTreeMap<AskId, Rid>,
    out: VecDeque<PanelOutput>,
}

impl Plain {
    pub(super) fn new(identity: &str, backend: Option<String>, spec: &PanelSpec) -> Self {
        Self {
            legacy: spec.dialect == Dialect::Legacy,
            identity: identity.to_owned(),
            backend,
            fences: !spec.unfenced,
            headless: spec.headless,
            front: None,
            socket: 0,
            open: false,
            running: BTreeMap::new(),
            questions: BTreeMap::new(),
            out: VecDeque::new(),
        }
    }

    pub(super) fn handle(&mut self, input: PanelInput) {
        match input {
            PanelInput::Start | PanelInput::Reconnect => {
                self.socket += 1;
                self.out.push_back(PanelOutput::Connect { socket: self.socket });
            }
            PanelInput::Opened { .. } => {
                self.open = true;
                self.hello();
            }
            PanelInput::Closed { .. } => self.open = false,
            PanelInput::Frame { text, .. } => self.frame(&text),
            PanelInput::Canvas { workflow } => {
                let changed = self.front != workflow;
                self.front = workflow;
                if changed && self.open && self.legacy {
                    self.hello();
                }
            }
            PanelInput::Done { rid, outcome, workflow } => self.done(&rid, outcome, workflow),
            PanelInput::RunFinished { prompt_id, status, .. } => {
                let event = json!({"type": "agent_event", "kind": "executed", "prompt_id": prompt_id});
                self.transmit(with(event, "run_status", json!(status)));
            }
            PanelInput::Send { mid, text, .. } => {
                let uuid = self.front.as_ref().map(|front| front.uuid.clone());
                let frame = json!({"type": "user_message", "text": text, "mid": mid});
                self.transmit(with(frame, "workflow_uuid", json!(uuid)));
            }
            PanelInput::SendNow => self.transmit(json!({"type": "interrupt", "requeue": true})),
            PanelInput::Stop => self.transmit(json!({"type": "interrupt"})),
            PanelInput::Cancel { mid } => self.transmit(json!({"type": "cancel_message", "mid": mid})),
            PanelInput::NewChat => self.transmit(json!({"type": "new_session"})),
            PanelInput::Rewind { mid } => self.transmit(json!({"type": "rewind", "anchor": null, "mid": mid})),
            PanelInput::Resume { session_id } => {
                self.transmit(json!({"type": "resume_session", "session_id": session_id}));
            }
            PanelInput::ListSessions => self.transmit(json!({"type": "list_history", "cid": "list"})),
            PanelInput::Search { words } => {
                self.transmit(json!({"type": "search_history", "cid": "search", "words": words}));
            }
            PanelInput::Export { format, session_id } => {
                let frame = json!({"type": "export_history", "cid": "export", "format": format});
                self.transmit(with(frame, "session_id", json!(session_id)));
            }
            PanelInput::SetBackend { backend } => self.transmit(json!({"type": "set_backend", "backend": backend})),
            PanelInput::SetTarget { target } => {
                let (mode, path) = match target {
                    Target::Current => ("current", None),
                    Target::Pinned { path, .. } => ("pinned", Some(path)),
                };
                self.transmit(json!({"type": "set_workflow_target", "mode": mode, "path": path}));
            }
            PanelInput::Answer { ask_id, result } => {
                if let Some(rid) = self.questions.remove(&ask_id) {
                    self.transmit(json!({"rid": rid, "ask_id": ask_id, "ok": true, "result": result}));
                }
            }
            PanelInput::SetBlind { on } => self.transmit(json!({"type": "set_content_mode", "blind": on})),
            PanelInput::Tick | PanelInput::Resend { .. } | PanelInput::Reorder { .. } | PanelInput::SetModel { .. } => {
            }
        }
    }

    pub(super) fn poll_output(&mut self) -> Option<PanelOutput> {
        self.out.pop_front()
    }

    /// The stamp and the pin again, with what is in front now.
    pub(super) fn recheck(&self, rid: &Rid) -> Result<(), Refusal> {
        match self.running.get(rid) {
            Some(frame) => self.admits(frame),
            None => Err(Refusal::ConversationClosed),
        }
    }

    fn admits(&self, frame: &Map<String, Value>) -> Result<(), Refusal> {
        if !self.fences {
            return Ok(());
        }
        let text = |name: &str| frame.get(name).and_then(Value::as_str);
        guard::check(text("workflow_path"), self.front.as_ref())?;
        let stamp = text("workflow_uuid").map(Into::into);
        let front = self.front.as_ref().map(|front| &front.uuid);
        fence::check(text("cmd").unwrap_or_default(), frame.contains_key("path"), stamp.as_ref(), front)
    }

    fn hello(&mut self) {
        let front = self.front.clone();
        let hello = if self.legacy {
            json!({
                "type": "hello",
                "tab_id": front.as_ref().map_or("none", |front| front.handle.as_str()),
                "tab_session_id": (!self.identity.is_empty()).then_some(&self.identity),
                "workflow_uuid": front.as_ref().map(|front| &front.uuid),
                "title": front.as_ref().map(|front| &front.title),
                "panel_version": "0.15.46",
                "enforces_workflow_stamp": true,
                "enforces_workflow_stamp_at_write": self.fences,
                "backend": self.backend,
                "headless": self.headless,
            })
        } else {
            json!({
                "type": "hello", "protocol": 1, "tab_id": self.identity, "workflow": front,
                "backend": self.backend, "headless": self.headless,
            })
        };
        self.transmit(hello);
    }

    fn frame(&mut self, text: &str) {
        let Ok(Value::Object(frame)) = serde_json::from_str(text) else { return };
        let named = |name: &str| frame.get(name).and_then(Value::as_str);
        if named("type") == Some("ask_closed") {
            self.questions.remove(&AskId::from(named("ask_id").unwrap_or_default()));
        }
        let (Some(rid), Some(cmd), true) = (named("rid"), named("cmd"), self.legacy) else { return };
        let rid = Rid::from(rid);
        if cmd == "ask_user" {
            let ask_id = AskId::from(named("ask_id").unwrap_or(rid.as_str()));
            let question = Question {
                ask_id: ask_id.clone(),
                header: None,
                question: named("question").unwrap_or_default().to_owned(),
                options: Vec::new(),
                multi_select: false,
            };
            self.questions.insert(ask_id, rid);
            return self.out.push_back(PanelOutput::Ui { change: UiChange::Question { question } });
        }
        if cmd == "set_todo" {
            return self.transmit(json!({"rid": rid, "ok": true, "result": {}}));
        }
        if let Err(refusal) = self.admits(&frame) {
            return self.transmit(json!({"rid": rid, "ok": false, "error": refusal.message()}));
        }
        let own = ["rid", "cmd", "timeout_ms", "workflow_uuid", "workflow_path", "retry_of"];
        let args = frame.iter().filter(|(name, _)| !own.contains(&name.as_str()));
        let args = args.map(|(name, value)| (name.clone(), value.clone())).collect();
        let timeout_ms = frame.get("timeout_ms").and_then(Value::as_u64).unwrap_or_default();
        self.out.push_back(PanelOutput::Execute { rid: rid.clone(), cmd: cmd.to_owned(), args, timeout_ms });
        self.running.insert(rid, frame);
    }

    /// The older dialect tells the resulting instance inside the result.
    fn done(&mut self, rid: &Rid, outcome: Outcome, workflow: Option<WorkflowIdentity>) {
        let Some(frame) = self.running.remove(rid) else { return };
        if self.front != workflow {
            self.front = workflow;
            self.hello();
        }
        match outcome {
            Outcome::Ok { mut result } => {
                let cmd = frame.get("cmd").and_then(Value::as_str).unwrap_or_default();
                let reports = command::by_cmd(cmd).is_some_and(|spec| spec.reports_identity);
                if let (true, Some(front), Some(map)) = (reports, &self.front, result.as_object_mut()) {
                    map.insert("workflow_uuid".to_owned(), json!(front.uuid));
                    map.insert("routing_key".to_owned(), json!(front.handle));
                    map.insert("path".to_owned(), json!(front.path));
                    map.insert("title".to_owned(), json!(front.title));
                }
                self.transmit(json!({"rid": rid, "ok": true, "result": result}));
            }
            Outcome::Refused { refusal } => {
                self.transmit(json!({"rid": rid, "ok": false, "error": refusal["message"]}));
            }
            Outcome::Failed { message, .. } => self.transmit(json!({"rid": rid, "ok": false, "error": message})),
        }
    }

    fn transmit(&mut self, frame: Value) {
        let frame = match frame {
            // A client of JavaScript leaves out what it does not have.
            Value::Object(map) => Value::Object(map.into_iter().filter(|(_, value)| !value.is_null()).collect()),
            other => other,
        };
        if self.open {
            self.out.push_back(PanelOutput::Transmit { socket: self.socket, text: frame.to_string() });
        }
    }
}

fn with(mut frame: Value, name: &str, value: Value) -> Value {
    frame[name] = value;
    frame
}
