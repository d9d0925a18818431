//! What reaches the agent without the person saying it: ended runs, errors (rules T3, F3, D6).

use super::commits::Then;
use super::{NewRow, Router};
use crate::frame::PanelEvent;
use crate::id::{Backend, Seq, SocketId, TabKey};
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
                self.inject(&backend, text, None, json!({"event": "run_error"}), None, now);
            }
            _ => self.nack(socket, "unknown_event", format!("`{}` is no event that is known here.", event.kind)),
        }
    }

    /// Puts an event in the log and in the queue, and settles the row that it answers.
    pub(super) fn inject(
        &mut self,
        backend: &Backend,
        text: String,
        key: Option<String>,
        about: Value,
        ticket: Option<Seq>,
        now: u64,
    ) {
        let mut row = self.event_row(backend, &text, key, about, now);
        row.settles = ticket.into_iter().collect();
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
}
