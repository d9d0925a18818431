//! Runs that ended at ComfyUI: each is told once, kept while there is no connection, and told again when the connection
//! was lost right after it (rules F3, D6: the daemon takes each once, by its key).

use super::{Panel, UiChange};
use crate::frame::{FromPanel, PanelEvent, PanelFrame};
use crate::id::PromptId;
use serde_json::Value;

/// Most runs that are remembered or kept.
const MOST: usize = 256;
/// What was sent so shortly before the end of a connection may not have arrived.
const DOUBTFUL_MS: u64 = 10_000;

/// Ends of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Runs {
    ended: Vec<PromptId>,
    kept: Vec<PanelEvent>,
    sent: Vec<(u64, PanelEvent)>,
}

impl Runs {
    pub(super) fn has_ended(&self, prompt_id: &PromptId) -> bool {
        self.ended.contains(prompt_id)
    }

    /// The socket is gone.
    pub(super) fn lost(&mut self, now: u64) {
        let doubtful = self.sent.drain(..).filter(|(at, _)| at + DOUBTFUL_MS > now).map(|(_, event)| event);
        self.kept = doubtful.chain(std::mem::take(&mut self.kept)).collect();
    }
}

impl Panel {
    pub(super) fn run_finished(
        &mut self,
        prompt_id: PromptId,
        status: String,
        images: Vec<Value>,
        error: Option<String>,
    ) {
        if self.runs.has_ended(&prompt_id) {
            return;
        }
        push(&mut self.runs.ended, prompt_id.clone());
        self.show(UiChange::Run { prompt_id: prompt_id.clone(), status: status.clone(), error: error.clone() });
        let event = PanelEvent {
            kind: "executed".to_owned(),
            prompt_id: Some(prompt_id),
            run_status: Some(status),
            error,
            images,
            extra: Default::default(),
        };
        push(&mut self.runs.kept, event);
    }

    /// Tells what is kept.
    pub(super) fn flush_runs(&mut self, now: u64) {
        if !self.connection.is_up() {
            return;
        }
        for event in std::mem::take(&mut self.runs.kept) {
            self.transmit(&FromPanel::Typed(PanelFrame::AgentEvent(event.clone())));
            push(&mut self.runs.sent, (now, event));
        }
    }
}

fn push<T>(queue: &mut Vec<T>, item: T) {
    if queue.len() == MOST {
        queue.remove(0);
    }
    queue.push(item);
}
