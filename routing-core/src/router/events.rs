//! What reaches the agent without the person saying it: ended runs, errors (rules T3, F3, D6).

use super::Router;
use super::commits::Then;
use crate::frame::{Ack, PanelEvent};
use crate::id::{Backend, PromptId, Seq, SocketId, TabKey};
use crate::ledger::Run;
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
    pub(super) fn inject(
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
