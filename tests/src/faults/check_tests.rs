//! That the checks find what they are there for: a history in which all is well, and one change each that is not.

use super::*;
use crate::faults::records::{Called, Given, Shown};
use serde_json::{Value, json};

fn row(seq: u64, kind: &str, body: Value, settled_by: Option<u64>) -> LogRow {
    let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
    let key = match kind {
        "user" => text("mid").map(|mid| format!("mid:{mid}")),
        "run" => text("prompt_id").map(|id| format!("ticket:{id}")),
        "event" => text("prompt_id").map(|id| format!("run:{id}")),
        _ => None,
    };
    let inbound = ["user", "run", "event"].contains(&kind);
    LogRow { backend: "one".into(), seq, kind: kind.into(), key, body, inbound, settled_by }
}

/// A message that queues a run, and the turn of the run's end.
fn well() -> (Vec<LogRow>, Records) {
    let log = vec![
        row(1, "user", json!({"mid": "a-1", "text": "«a-1» run"}), Some(5)),
        row(2, "turn_start", json!({"turn": 1, "mids": ["a-1"], "takes": [1]}), None),
        row(3, "run", json!({"prompt_id": "run-a-1"}), Some(6)),
        row(4, "say", json!({"turn": 1, "text": "answer to «a-1» by 0."}), None),
        row(5, "turn_end", json!({"turn": 1, "mids": ["a-1"], "outcome": "completed"}), None),
        row(6, "event", json!({"prompt_id": "run-a-1", "text": "[event] Run run-a-1 ended."}), Some(8)),
        row(7, "turn_start", json!({"turn": 2, "mids": [], "takes": [6]}), None),
        row(8, "turn_end", json!({"turn": 2, "mids": [], "outcome": "completed"}), None),
    ];
    let mut records = Records::default();
    let tab = records.tabs.entry("a".into()).or_default();
    tab.backend = "one".into();
    tab.connected = true;
    tab.messages.insert("a-1".into(), "Done".into());
    tab.acknowledged.insert("a-1".into());
    tab.runs.insert("run-a-1".into(), true);
    tab.added.insert("Node".into(), 1);
    tab.rows =
        log.iter().map(|row| Shown { seq: row.seq, text: row.text("text").to_owned(), after_clear: false }).collect();
    let given = |text: &str| Given { backend: "one".into(), text: text.into() };
    records.agents.given = vec![given("[note]\n\n«a-1» run"), given("[event] Run run-a-1 ended.")];
    records.agents.calls.push(Called {
        backend: "one".into(),
        mid: "a-1".into(),
        tool: "panel_run",
        retries: 0,
        outcome: Some(Ok(json!({"prompt_id": "run-a-1"}))),
    });
    (log, records)
}

/// What is found after a change.
#[track_caller]
fn finds<T>(change: impl FnOnce(&mut Vec<LogRow>, &mut Records) -> T, expected: &str) {
    let (mut log, mut records) = well();
    change(&mut log, &mut records);
    let found = at_end(&log, &records, false).0;
    assert!(found.iter().any(|words| words.contains(expected)), "{expected}: {found:?}");
}

#[test]
fn nothing_is_found_where_all_is_well() {
    let (log, records) = well();
    assert_eq!(at_end(&log, &records, false).0, Vec::<String>::new());
    assert_eq!(unsettled(&log, &records), Vec::<String>::new());
}

#[test]
fn what_is_lost_is_found() {
    finds(|_, records| tab(records).acknowledged.insert("a-2".into()), "not in the log");
    finds(|log, _| log.pop(), "was shown in tab a and is not in the log");
    finds(|log, _| log.remove(3), "has row 5 at place 4");
    finds(|log, _| log[0].settled_by = None, "neither answered nor reported");
    finds(|log, _| log[4].body["mids"] = json!([]), "named by 0 ends");
    finds(|log, _| log[3].body["text"] = json!(""), "the answer to a-1 is not in the log");
    finds(|log, _| log[5].kind = "notice".into(), "was delivered 0 times");
    finds(|log, _| log[4].body["outcome"] = json!("unknown"), "nobody is told");
    finds(|_, records| records.agents.given.remove(0), "was never given");
    finds(|_, records| tab(records).rows.pop(), "has seen row 7 of 8");
    finds(|_, records| tab(records).rows.remove(2), "showed row 4 after row 2");
    finds(|_, records| tab(records).messages.insert("a-1".into(), "Accepted".into()), "is `Accepted`");
    finds(|_, records| tab(records).answered.insert("q".into()), "question q was not taken");
    finds(|log, _| log[2].key = None, "its end is not waited for");
}

#[test]
fn what_is_done_twice_is_found() {
    let again = |records: &mut Records, at: usize| records.agents.given.push(records.agents.given[at].clone());
    finds(|_, records| again(records, 0), "without the mark");
    finds(|_, records| again(records, 1), "was given 2 times without the mark");
    finds(|_, records| records.agents.given[0].text = format!("{AGAIN}\n\n«a-1» run"), "given again 1 times");
    finds(|log, _| log[7].body["mids"] = json!(["a-1"]), "named by 2 ends");
    finds(|log, _| log[7].body["turn"] = json!(1), "has 2 ends");
    finds(|_, records| tab(records).added.insert("Node".into(), 2), "added 2 times");
    finds(|_, records| tab(records).runs.insert("run-a-2".into(), true), "queued 2 runs for 1 calls");
    finds(
        |_, records| tab(records).rows.push(Shown { seq: 8, text: String::new(), after_clear: false }),
        "after row 8",
    );
    finds(|log, _| log[3].body["text"] = json!("answer to «a-1» answer to «a-1»"), "in the log 2 times");
    finds(
        |log, records| {
            tab(records).answered.insert("q".into());
            log[5].body["ask_id"] = json!("q");
            records.agents.calls[0].outcome = Some(Ok(json!({"ask_id": "q", "answered": true})));
        },
        "heard the answer to question q 2 times",
    );
}

fn tab(records: &mut Records) -> &mut TabRecord {
    records.tabs.entry("a".into()).or_default()
}
