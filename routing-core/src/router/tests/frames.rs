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
fn f3_an_answer_to_a_call_of_a_stopped_turn_reaches_the_agent_as_an_event() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let ask = bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]}));
    bench.frame(1, &json!({"type": "interrupt"}));
    // The card is still there, and the agent listens to its call no more.
    bench.reply(1, json!("a"), Some("w1"));
    assert_eq!(bench.refusal(ask).code(), "conversation_closed");
    bench.end_as("claude", TurnOutcome::Interrupted);
    bench.ready("claude");
    let prompt = bench.prompts().pop().unwrap().to_owned();
    assert!(prompt.contains("“Which?”: a"), "{prompt}");
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

/// The question that a daemon left behind, and a fresh one that takes it up.
fn question_over_a_restart() -> (Bench, Value) {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]}));
    let id = bench.command(1)["ask_id"].clone();
    let rows = &bench.rows[&ConversationKey::of(&"claude".into())];
    let pending = |(at, row): (usize, &NewRow)| crate::router::Pending {
        seq: Seq(at as u64 + 1),
        kind: row.kind.to_owned(),
        body: row.body.clone(),
        turns: 0,
    };
    let waiting = bench.unsettled("claude");
    let restored = crate::router::Restored {
        newest: Seq(rows.len() as u64),
        last_turn: TurnId(1),
        taken: vec![Seq(1)],
        pending: rows.iter().enumerate().map(pending).filter(|row| waiting.contains(&row.seq.0)).collect(),
        ..Default::default()
    };
    let mut again = Bench::new();
    again.router.config.epoch = "e2".to_owned();
    again.rows = bench.rows;
    again.tell(Input::Restore { backend: "claude".into(), restored });
    (again, id)
}

#[test]
fn f3_a_question_survives_the_daemon_and_its_answer_is_taken_once() {
    let (mut bench, id) = question_over_a_restart();
    bench.join(1, "tab-2", "w2");
    assert!(bench.commands(1).is_empty(), "another tab is not asked");
    bench.join(2, "tab-1", "w1");
    assert_eq!(bench.command(2)["ask_id"], id);
    let answer = json!({"ask_id": id, "rid": bench.command(2)["rid"], "ok": true, "result": "b"});
    bench.frame(2, &answer);
    bench.frame(2, &answer);
    bench.ready("claude");
    let told = bench.prompts().iter().filter(|prompt| prompt.contains("“Which?”: b")).count();
    assert_eq!((told, bench.nacks(2)), (1, vec!["ask_closed".to_owned()]));
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty());
}

#[test]
fn b1_a_question_of_before_the_restart_closes_with_its_conversation() {
    let (mut bench, id) = question_over_a_restart();
    bench.join(1, "tab-1", "w1");
    bench.frame(1, &json!({"type": "new_session"}));
    bench.tell(Input::Forgotten { backend: "claude".into(), durable: true });
    assert_eq!(bench.of_type(1, "ask_closed")[0]["ask_id"], id);
    assert!(bench.unsettled("claude").is_empty());
}

#[test]
fn report_059_the_same_question_again_replaces_its_card() {
    let (mut bench, id) = question_over_a_restart();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m2");
    let first = bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]}));
    assert_eq!(bench.command(1)["ask_id"], id, "the card that is there");
    let second = bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]}));
    assert_eq!(bench.refusal(first), &Refusal::Superseded);
    let other = bench.call("ask", json!({"question": "Which?", "options": ["a", "c"]}));
    assert_ne!(bench.command(1)["ask_id"], id, "another question has a card of its own");
    let of = |ask_id: &Value, bench: &Bench| {
        let asked: Vec<Value> = bench.commands(1).into_iter().filter(|frame| frame["ask_id"] == *ask_id).collect();
        asked.last().unwrap()["rid"].clone()
    };
    bench.frame(1, &json!({"rid": of(&id, &bench), "ask_id": id, "ok": true, "result": "a"}));
    assert_eq!(bench.ok(second)["answer"], "a");
    assert!(bench.answer(other).is_none());
}

#[test]
fn d6_a_question_is_in_the_log_before_its_card_and_its_answer_before_its_call() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.slow_log = true;
    let ask = bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]}));
    assert!(bench.commands(1).is_empty());
    bench.catch_up();
    let card = bench.command(1);
    bench.slow_log = true;
    bench.frame(1, &json!({"rid": card["rid"], "ask_id": card["ask_id"], "ok": true, "result": "a"}));
    assert!(bench.answer(ask).is_none());
    bench.catch_up();
    assert_eq!(bench.ok(ask)["answer"], "a");
    assert_eq!(bench.kinds("claude"), ["user", "turn_start", "ask", "answer"]);
}

#[test]
fn f3_a_question_that_is_dismissed_or_left_waits_no_longer() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let ask = bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]}));
    bench.frame(1, &json!({"rid": bench.command(1)["rid"], "ok": false, "error": "no"}));
    assert_eq!(bench.refusal(ask).code(), "failed");
    let ask = bench.call("ask", json!({"question": "Why?", "options": ["a", "b"]}));
    bench.frame(1, &json!({"type": "set_backend", "backend": "codex"}));
    assert_eq!(*bench.refusal(ask), Refusal::ConversationClosed);
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty());
}
