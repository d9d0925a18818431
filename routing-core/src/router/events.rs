//! What reaches the agent without the person saying it: ended runs, errors, late answers (rules T3, F3, D6).

use super::commits::Then;
use super::{NewRow, Router};
use crate::frame::{AskClosed, PanelEvent, Reply};
use crate::id::{AskId, Backend, SocketId, TabKey};
use crate::ledger::{Ask, Purpose};
use crate::turn::Item;
use serde_json::{Value, json};

impl Router {
    pub(super) fn panel_event(&mut self, socket: SocketId, key: &TabKey, event: PanelEvent, now: u64) {
        match (event.kind.as_str(), event.prompt_id.clone()) {
            ("executed", Some(id)) => self.run_reported(socket, key, id, event, now),
            ("run_error", _) => {
                let Some(tab) = self.tabs.get(key) else { return };
                let (backend, title) = (tab.backend.clone(), tab.title.clone());
                if self.backlog_is_full(&backend) {
                    return self.nack(socket, "backlog_full", super::messages::BACKLOG_FULL);
                }
                let why = event.error.unwrap_or_else(|| "ComfyUI did not say why".to_owned());
                let text = format!("[event] A run of workflow “{title}” could not be queued or failed: {why}");
                self.inject(&backend, text, None, json!({"event": "run_error"}), now);
            }
            _ => self.nack(socket, "unknown_event", format!("`{}` is no event that is known here.", event.kind)),
        }
    }

    /// Puts an event in the log and in the queue.
    fn inject(&mut self, backend: &Backend, text: String, key: Option<String>, about: Value, now: u64) {
        let row = self.event_row(backend, &text, key, about, now);
        let then = Then::Inject { item: Item::event(text, None), dropped: false, told_in: None, run: None };
        self.commit(backend, vec![row], then);
    }

    pub(super) fn event_row(
        &self,
        backend: &Backend,
        text: &str,
        key: Option<String>,
        about: Value,
        now: u64,
    ) -> NewRow {
        let mut body = about;
        body["text"] = json!(text);
        let mut row = self.row(backend, "event", body, now);
        row.key = key;
        row.inbound = true;
        row
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
        match ask.call.filter(|call| self.calls.contains_key(call)) {
            Some(call) => self.answer(call, Ok(json!({"answered": true, "answer": result, "ask_id": id}))),
            None => {
                let question = ask.args.get("question").and_then(Value::as_str).unwrap_or_default();
                let words = match &result {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let text =
                    format!("[event] The person answered your question “{question}”: {words}. Do not ask it again.");
                let about = json!({"event": "answer", "ask_id": id, "answer": result});
                self.inject(&ask.backend, text, Some(format!("ask:{id}")), about, now);
            }
        }
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
