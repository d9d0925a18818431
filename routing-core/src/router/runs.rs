//! Runs that agents queued: whose they are, and what became of each (rules F3, D6).

use super::Router;
use crate::frame::{Ack, PanelEvent};
use crate::id::{PromptId, SocketId, TabKey};
use crate::ledger::Run;
use serde_json::{Value, json};

/// Ended runs that no ticket was opened for yet.
const EARLY: usize = 64;

impl Router {
    /// A panel says that a run ended.
    pub(super) fn run_reported(&mut self, socket: SocketId, key: &TabKey, id: PromptId, event: PanelEvent, now: u64) {
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
