//! What reaches the agent without the person saying it: ended runs, errors, late answers (rules T3, F3, D6).

use super::Router;
use super::commits::Then;
use super::conversation::Phase;
use crate::frame::{Ack, AskClosed, PanelEvent, Reply};
use crate::id::{AskId, Backend, CallId, PromptId, Seq, SocketId, TabKey};
use crate::ledger::{Ask, Purpose, Run};
use crate::turn::{Item, Source};
use serde_json::{Value, json};

/// Ended runs that no ticket was opened for yet.
const EARLY: usize = 64;

impl Router {
    pub(super) fn panel_event(&mut self, socket: SocketId, key: &TabKey, event: PanelEvent, now: u64) {
        match (event.kind.as_str(), event.prompt_id.clone()) {
            ("executed", Some(id)) => {
                let ticket = self.runs.get(&id).map(|run| (run.tab.clone(), run.backend.clone()));
                let here = self.tabs.get(key).map(|tab| tab.backend.clone());
                // Only the tab that queued it, or one of the same conversation, is believed.
                let known = ticket.as_ref().is_some_and(|(tab, backend)| tab == key || Some(backend) == here.as_ref());
                if known {
                    self.run_ended(&id, &event, now);
                } else if ticket.is_none() {
                    // The person's own run, or one whose ticket is still on its way.
                    self.early_runs.push_back((id.clone(), event));
                    if self.early_runs.len() > EARLY {
                        self.early_runs.pop_front();
                    }
                }
                self.to(socket, Ack::new(true, "completion").with("prompt_id", id.as_str()).with("ours", known));
            }
            ("run_error", _) => {
                let Some(tab) = self.tabs.get(key) else { return };
                let (backend, title) = (tab.backend.clone(), tab.title.clone());
                if self.backlog_is_full(&backend) {
                    return self.nack(socket, "backlog_full", super::messages::BACKLOG_FULL);
                }
                let why = event.error.unwrap_or_else(|| "ComfyUI did not say why".to_owned());
                let text = format!("[event] A run of workflow “{title}” could not be queued or failed: {why}");
                self.inject(&backend, text, None, json!({"event": "run_error"}), None, now);
            }
            _ => self.nack(socket, "unknown_event", format!("`{}` is no event that is known here.", event.kind)),
        }
    }

    pub(super) fn run_ended(&mut self, id: &PromptId, event: &PanelEvent, now: u64) {
        let Some(run) = self.runs.remove(id) else { return };
        let status = event.run_status.as_deref().unwrap_or(if event.error.is_some() { "error" } else { "success" });
        let mut text = format!("[event] Run {id} of workflow “{}” ended: {status}.", run.title);
        if let Some(error) = &event.error {
            text.push_str(&format!(" {error}"));
        }
        let outputs: Vec<String> = event.images.iter().filter_map(output_name).collect();
        if !outputs.is_empty() {
            text.push_str(&format!(" Outputs: {}.", outputs.join(", ")));
        }
        let about = json!({"event": "run", "prompt_id": id, "status": status, "images": event.images, "tab": run.tab, "title": run.title});
        self.inject(&run.backend, text, Some(format!("run:{id}")), about, run.seq, now);
    }

    /// The ticket of a run is on disk, or cannot be. A run that ended before is delivered at once.
    pub(super) fn run_ticket(&mut self, id: &PromptId, run: Run, now: u64) {
        self.runs.insert(id.clone(), run);
        if let Some(at) = self.early_runs.iter().position(|(early, _)| early == id)
            && let Some((_, event)) = self.early_runs.remove(at)
        {
            self.run_ended(id, &event, now);
        }
    }

    /// Puts an event in the log and in the queue, and settles the ticket that it ends.
    fn inject(
        &mut self,
        backend: &Backend,
        text: String,
        key: Option<String>,
        about: Value,
        ticket: Option<Seq>,
        now: u64,
    ) {
        let mut body = about;
        body["text"] = json!(text);
        let mut row = self.row(backend, "event", body, now);
        row.key = key;
        row.inbound = true;
        row.settles = ticket.into_iter().collect();
        let item = Item { seq: Seq::default(), mid: None, text, context: None, source: Source::Event, requeued: false };
        self.commit(backend, vec![row], Then::Inject { item, dropped: false });
    }

    /// An answer while the call still waits for it, or the panel's refusal to show the card.
    pub(super) fn answered(&mut self, id: &AskId, reply: Reply, now: u64) {
        if reply.ok {
            return self.take_answer(id, reply.result, now);
        }
        let Some(ask) = self.asks.remove(id) else { return };
        if let Some(call) = ask.call {
            let refusal = match &reply.refusal {
                Some(wire) => crate::refusal::Refusal::from_wire(wire),
                None => crate::refusal::Refusal::Failed {
                    failure: "dismissed".to_owned(),
                    message: reply.error.unwrap_or_else(|| "The person closed the question.".to_owned()),
                },
            };
            self.answer(call, Err(refusal));
        }
    }

    /// An answer outside its dispatch: taken once, and only from the tab that was asked.
    pub(super) fn late_answer(&mut self, socket: SocketId, tab: &TabKey, id: &AskId, reply: Reply, now: u64) {
        match self.asks.get(id) {
            Some(ask) if ask.tab == *tab => {
                self.sent.retain(|_, sent| sent.purpose != Purpose::Ask(id.clone()));
                self.answered(id, reply, now);
            }
            Some(_) => {
                self.nack_about(socket, None, reply.rid, "not_yours", "Another tab was asked that question.");
            }
            None => {
                self.nack_about(
                    socket,
                    None,
                    reply.rid,
                    "ask_closed",
                    "That question is closed; its answer was not taken.",
                );
            }
        }
    }

    fn take_answer(&mut self, id: &AskId, result: Option<Value>, now: u64) {
        let Some(ask) = self.asks.remove(id) else { return };
        let result = result.unwrap_or(Value::Null);
        let call = ask.call.filter(|call| self.calls.contains_key(call));
        match call.filter(|call| self.is_heard(*call)) {
            Some(call) => self.answer(call, Ok(json!({"answered": true, "answer": result, "ask_id": id}))),
            None => {
                if let Some(call) = call {
                    self.answer(call, Err(crate::refusal::Refusal::ConversationClosed));
                }
                let question = ask.args.get("question").and_then(Value::as_str).unwrap_or_default();
                let words = match &result {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let text =
                    format!("[event] The person answered your question “{question}”: {words}. Do not ask it again.");
                let about = json!({"event": "answer", "ask_id": id, "answer": result});
                self.inject(&ask.backend, text, Some(format!("ask:{id}")), about, None, now);
            }
        }
    }

    /// Whether the agent still listens to a call: not when the turn that made it was stopped or is over.
    fn is_heard(&self, call: CallId) -> bool {
        let Some(record) = self.calls.get(&call) else { return false };
        let running = self.conversations.get(&record.backend).and_then(|one| one.running());
        running.map(|turn| turn.id) == record.turn && running.is_none_or(|turn| turn.phase == Phase::Running)
    }

    /// Closes questions: their cards go, their calls are answered.
    pub(super) fn close_asks(&mut self, which: impl Fn(&Ask) -> bool) {
        let closing: Vec<AskId> = self.asks.iter().filter(|(_, ask)| which(ask)).map(|(id, _)| id.clone()).collect();
        for id in closing {
            let Some(ask) = self.asks.remove(&id) else { continue };
            self.sent.retain(|_, sent| sent.purpose != Purpose::Ask(id.clone()));
            if let Some(socket) = self.live_socket(&ask.tab) {
                self.to(socket, AskClosed { ask_id: id });
            }
            // A boundary has answered its calls before it closes the questions.
            if let Some(call) = ask.call.filter(|call| self.calls.contains_key(call)) {
                self.answer(call, Err(crate::refusal::Refusal::ConversationClosed));
            }
        }
    }
}

pub(super) fn output_name(image: &Value) -> Option<String> {
    let name = image.get("filename")?.as_str()?;
    let folder = image.get("subfolder").and_then(Value::as_str).filter(|folder| !folder.is_empty());
    let kind = image.get("type").and_then(Value::as_str).unwrap_or("output");
    Some(match folder {
        Some(folder) => format!("{folder}/{name} ({kind})"),
        None => format!("{name} ({kind})"),
    })
}
