//! ComfyUI's own words, read: its queue, an entry of its history, a frame of its socket. It asks nothing and remembers
//! nothing.

use routing_core::id::PromptId;
use routing_core::run::{Ending, Fault, Progress, Sight, Status, files_of};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What a frame of the socket says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The queue changed: something was queued, began or ended.
    QueueChanged,
    /// A run is over. What it made is in the history a moment later.
    Ended(PromptId, Ending),
    /// A node made something: the run goes on.
    NodeDone(PromptId, Value),
    /// A run is at work.
    Running(PromptId, Option<Progress>),
    /// Nothing that matters here.
    Other,
}

/// `GET /queue`: how each prompt stands. `None`: this is no queue.
pub(super) fn queue(answer: &Value) -> Option<BTreeMap<PromptId, Sight>> {
    let running = answer.get("queue_running")?.as_array()?;
    let pending = answer.get("queue_pending")?.as_array()?;
    let id = |item: &Value| item.get(1).and_then(Value::as_str).map(PromptId::from);
    let mut queue: BTreeMap<PromptId, Sight> =
        running.iter().filter_map(id).map(|id| (id, Sight::Running { progress: None })).collect();
    let at_work = queue.len();
    // ComfyUI keeps them as a heap; the number says which comes first.
    let number = |item: &&Value| item.get(0).and_then(Value::as_f64).unwrap_or(f64::MAX);
    let mut waiting: Vec<&Value> = pending.iter().collect();
    waiting.sort_by(|one, other| number(one).partial_cmp(&number(other)).unwrap_or(Ordering::Equal));
    for (place, id) in waiting.into_iter().filter_map(id).enumerate() {
        queue.insert(id, Sight::Queued { ahead: u64::try_from(at_work + place).unwrap_or(u64::MAX) });
    }
    Some(queue)
}

/// An entry of the history: how the run ended.
pub(super) fn ending(entry: &Value) -> Ending {
    let messages = entry.pointer("/status/messages").and_then(Value::as_array);
    let message = |kind: &str| {
        let of_kind = |message: &&Value| message.get(0).and_then(Value::as_str) == Some(kind);
        messages.into_iter().flatten().find(of_kind).and_then(|message| message.get(1))
    };
    let word = entry.pointer("/status/status_str").and_then(Value::as_str);
    let (status, fault) = match (message("execution_interrupted"), message("execution_error"), word) {
        (Some(where_), _, _) => (Status::Interrupted, fault(where_)),
        (None, Some(what), _) => (Status::Error, fault(what)),
        (None, None, Some("error")) => (Status::Error, None),
        // Old servers keep no status: what is in their history was carried out.
        (None, None, _) => (Status::Success, None),
    };
    let outputs = entry.get("outputs").and_then(Value::as_object);
    Ending::new(status, outputs.into_iter().flat_map(|nodes| nodes.values()).flat_map(files_of), fault)
}

/// A text frame of `/ws`.
pub(super) fn frame(text: &str) -> Frame {
    let Ok(frame) = serde_json::from_str::<Value>(text) else { return Frame::Other };
    let kind = frame.get("type").and_then(Value::as_str).unwrap_or_default();
    let Some(data) = frame.get("data") else { return Frame::Other };
    if matches!(kind, "status" | "cm-task-started" | "cm-task-completed" | "cm-queue-status") {
        return Frame::QueueChanged;
    }
    let Some(id) = data.get("prompt_id").and_then(Value::as_str).map(PromptId::from) else { return Frame::Other };
    match kind {
        "execution_start" | "execution_cached" => Frame::Running(id, None),
        "executing" if data.get("node").is_some_and(Value::is_string) => Frame::Running(id, None),
        "progress" => {
            let number = |field: &str| data.get(field).and_then(Value::as_f64);
            let steps = number("value").zip(number("max"));
            let node = data.get("node").and_then(Value::as_str).map(str::to_owned);
            Frame::Running(id, steps.map(|(value, max)| Progress { value: whole(value), max: whole(max), node }))
        }
        "executed" => Frame::NodeDone(id, data.get("output").cloned().unwrap_or_default()),
        "execution_success" => Frame::Ended(id, Ending::new(Status::Success, [], None)),
        "execution_error" => Frame::Ended(id, Ending::new(Status::Error, [], fault(data))),
        "execution_interrupted" => Frame::Ended(id, Ending::new(Status::Interrupted, [], fault(data))),
        _ => Frame::Other,
    }
}

fn fault(data: &Value) -> Option<Fault> {
    let text = |field: &str| data.get(field).and_then(Value::as_str);
    let node = match data.get("node_id") {
        Some(Value::String(id)) => Some(id.clone()),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    };
    Fault::new(text("exception_message"), node, text("node_type").map(str::to_owned))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is whole and within bounds")]
fn whole(number: f64) -> u64 {
    if number.is_finite() { number.round().clamp(0.0, 9e15) as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use serde_json::json;

    #[test]
    fn places_in_the_queue_follow_the_number() {
        let item = |number: i64, id: &str| json!([number, id, {}, {}, []]);
        let answer = json!({
            "queue_running": [item(3, "now")],
            "queue_pending": [item(4, "second"), item(9, "third"), item(-5, "front")],
        });
        let queue = queue(&answer).unwrap();
        let place = |id: &str| match &queue[&PromptId::from(id)] {
            Sight::Queued { ahead } => Some(*ahead),
            _ => None,
        };
        assert_eq!(["now", "front", "second", "third"].map(place), [None, Some(1), Some(2), Some(3)]);
        assert_eq!(super::queue(&json!({"error": "not found"})), None);
    }

    #[test]
    fn a_history_entry_tells_how_a_run_ended() {
        let at = json!({"node_id": "5", "node_type": "KSampler", "exception_message": "out of memory"});
        let entry =
            |word: &str, messages: Value| json!({"outputs": {}, "status": {"status_str": word, "messages": messages}});
        let status = |entry: Value| ending(&entry).status;
        assert_eq!(status(entry("success", json!([["execution_success", {}]]))), Status::Success);
        assert_eq!(status(json!({"outputs": {}, "status": null})), Status::Success);
        assert_eq!(status(entry("error", json!([]))), Status::Error);
        assert_eq!(status(entry("error", json!([["execution_interrupted", at]]))), Status::Interrupted);
        let failed = ending(&entry("error", json!([["execution_start", {}], ["execution_error", at]])));
        let fault = failed.fault.unwrap();
        assert_eq!((fault.node_id.as_deref(), fault.message.as_deref()), (Some("5"), Some("out of memory")));
    }

    #[test]
    fn outputs_of_every_node_count_also_of_cached_ones() {
        let file = |name: &str| json!({"filename": name, "subfolder": "", "type": "output"});
        let entry =
            json!({"outputs": {"9": {"images": [file("a.png")]}, "12": {"audio": [file("b.flac")]}, "3": null}});
        assert_eq!(ending(&entry).files.len(), 2);
    }

    #[test]
    fn report_048_only_the_prompts_own_end_is_one() {
        let frame = |kind: &str, data: Value| frame(&json!({"type": kind, "data": data}).to_string());
        assert_eq!(frame("status", json!({"status": {}})), Frame::QueueChanged);
        assert!(matches!(frame("executed", json!({"prompt_id": "p", "node": "3", "output": {}})), Frame::NodeDone(..)));
        assert_eq!(frame("executing", json!({"prompt_id": "p", "node": null})), Frame::Other);
        assert!(matches!(frame("execution_success", json!({"prompt_id": "p"})), Frame::Ended(..)));
        assert_eq!(frame("execution_success", json!({})), Frame::Other);
        let progress = frame("progress", json!({"prompt_id": "p", "node": "3", "value": 2, "max": 20.0}));
        let wanted = Progress { value: 2, max: 20, node: Some("3".to_owned()) };
        assert_eq!(progress, Frame::Running("p".into(), Some(wanted)));
    }
}
