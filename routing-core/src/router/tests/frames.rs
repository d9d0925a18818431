//! Rules F1 to F3.

use super::*;

fn event(bench: &mut Bench, event: AgentEvent) {
    bench.tell(Input::Agent { backend: "claude".into(), event });
}

#[test]
fn f1_every_tab_of_the_conversation_and_no_other() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.open(2);
    bench.frame(2, &json!({"type": "hello", "tab_id": "tmp:2", "workflow_uuid": "w2"}));
    bench.open(3);
    bench.hello(3, "tab-3", "w3", &json!({"backend": "codex"}));
    bench.begin(1, "m1");
    bench.forget();
    event(&mut bench, AgentEvent::Session { id: "s".into() });
    event(&mut bench, AgentEvent::Thought { id: "b1".into(), text: "hm".into() });
    event(&mut bench, AgentEvent::Delta { id: "b2".into(), text: "He".into() });
    event(&mut bench, AgentEvent::Text { id: "b2".into(), text: "Hello".into() });
    event(&mut bench, AgentEvent::Tool { name: "Bash".into(), detail: "ls".into() });
    let usage = AgentEvent::Usage { used: Some(1), window: Some(2), model: None, cost_micros: None };
    event(&mut bench, usage);
    bench.end("claude");
    for kind in ["session", "stream", "action", "agent_status", "turn"] {
        assert!(!bench.of_type(1, kind).is_empty(), "{kind}");
        assert_eq!(bench.of_type(1, kind), bench.of_type(2, kind), "{kind}");
    }
    assert_eq!(bench.of_type(2, "say")[0]["text"], "Hello");
    assert!(bench.of_type(1, "say").is_empty() && bench.of_type(2, "entry").is_empty(), "each its own form");
    assert!(bench.of_type(1, "entry").iter().any(|entry| entry["text"] == "Hello"));
    assert!(bench.frames(3).is_empty());
}

#[test]
fn f1_a_turn_ends_once_after_everything_of_it() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.slow_log = true;
    event(&mut bench, AgentEvent::Text { id: "b".into(), text: "Last words".into() });
    bench.end("claude");
    bench.end("claude");
    bench.catch_up();
    let frames = bench.frames(1);
    let done: Vec<usize> =
        (0..frames.len()).filter(|at| frames[*at]["type"] == "turn" && frames[*at]["state"] == "done").collect();
    assert_eq!(done, [frames.len() - 1]);
    assert!(frames.iter().any(|frame| frame["text"] == "Last words"));
}

#[test]
fn f2_what_is_said_without_a_tab_is_in_the_log() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.close(1);
    event(&mut bench, AgentEvent::Text { id: "b".into(), text: "Nobody hears".into() });
    bench.end("claude");
    assert_eq!(bench.kinds("claude"), ["user", "turn_start", "say", "turn_end"]);
    bench.open(2);
    bench.hello(2, "tab-1", "w1", &json!({"after": 2}));
    assert_eq!(
        bench.count(|output| matches!(output, Output::Replay { after: Seq(2), upto: Seq(4), .. })),
        1,
        "once, in order, from where the panel was"
    );
}

#[test]
fn f3_a_question_is_the_asked_tabs_and_its_card_outlives_the_call() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.begin(1, "m1");
    let ask = bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]}));
    let card = bench.command(1);
    assert_eq!(card["options"], json!([{"label": "a"}, {"label": "b"}]));
    bench.frame(2, &json!({"ask_id": card["ask_id"], "ok": true, "result": "a"}));
    assert_eq!(bench.nacks(2), ["not_yours"]);
    bench.wait(240_000);
    assert_eq!(bench.ok(ask)["answered"], false);
    bench.end("claude");
    bench.close(1);
    bench.join(3, "tab-1", "w1");
    assert_eq!(bench.command(3)["ask_id"], card["ask_id"], "shown again");
    bench.frame(3, &json!({"ask_id": card["ask_id"], "rid": bench.command(3)["rid"], "ok": true, "result": "b"}));
    bench.ready("claude");
    assert!(bench.prompts().last().unwrap().contains("“Which?”: b"));
    bench.frame(3, &json!({"ask_id": card["ask_id"], "ok": true, "result": "a"}));
    assert_eq!(bench.nacks(3), ["ask_closed"]);
    assert_eq!(bench.kinds("claude").iter().filter(|kind| **kind == "event").count(), 1);
}

#[test]
fn f3_a_run_reaches_the_conversation_that_queued_it_once() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.call("run", json!({"batch_count": 2}));
    bench.reply(1, json!({"prompt_ids": ["p1", "p2"]}), None);
    bench.end("claude");
    bench.frame(1, &json!({"type": "set_backend", "backend": "codex"}));
    let ended = |id: &str| json!({"type": "agent_event", "kind": "executed", "prompt_id": id, "run_status": "success"});
    for id in ["p1", "p1", "p2", "the-persons-own"] {
        bench.frame(1, &ended(id));
    }
    assert_eq!(bench.kinds("claude").iter().filter(|kind| **kind == "event").count(), 2);
    assert!(bench.kinds("codex").is_empty());
    let ours: Vec<Value> = bench.of_type(1, "ack").into_iter().filter_map(|ack| ack.get("ours").cloned()).collect();
    assert_eq!(ours, [json!(true), json!(true), json!(true), json!(false)]);
    bench.ready("claude");
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty(), "tickets and events are settled");
}

#[test]
fn f3_a_run_that_ends_before_its_ticket_is_on_disk_is_told_once() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let run = bench.call("run", json!({}));
    bench.slow_log = true;
    bench.reply(1, json!({"prompt_id": "p1"}), None);
    bench.ok(run);
    bench.frame(1, &json!({"type": "agent_event", "kind": "executed", "prompt_id": "p1"}));
    bench.catch_up();
    bench.end("claude");
    bench.ready("claude");
    bench.end("claude");
    assert_eq!(bench.kinds("claude").iter().filter(|kind| **kind == "event").count(), 1);
    assert!(bench.unsettled("claude").is_empty());
}
