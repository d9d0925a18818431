//! Malformed, unknown, out of order: refused by name, and nothing else happens.

use super::*;

#[test]
fn what_is_no_frame_is_refused_by_name() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.forget();
    let deep = format!("{{\"type\":\"title\",\"title\":\"x\",\"y\":{}1{}}}", "[".repeat(80), "]".repeat(80));
    for text in ["", "{", "null", "[]", "\u{0}", "{}", "{\"type\":3}", "{\"type\":\"user_message\"}", &deep] {
        bench.text(1, text);
    }
    assert_eq!(
        bench.nacks(1),
        ["not_json", "not_json", "not_json", "not_json", "not_json", "no_type", "no_type", "bad_field", "too_deep"]
    );
    bench.frame(1, &json!({"type": "from_the_future"}));
    assert_eq!(bench.nacks(1).len(), 9, "an unknown type is ignored");
    assert_eq!(bench.count(|output| !matches!(output, Output::Send { .. })), 0);
}

#[test]
fn nothing_before_the_hello() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.say(1, "m1");
    bench.frame(1, &json!({"rid": "x", "ok": true}));
    bench.frame(1, &json!({"type": "new_session"}));
    assert_eq!(bench.nacks(1), ["no_hello", "no_hello", "no_hello"]);
    for hello in [json!({"type": "hello"}), json!({"type": "hello", "protocol": 1, "tab_id": "  "})] {
        bench.frame(1, &hello);
    }
    bench.frame(1, &json!({"type": "hello", "protocol": 2, "tab_id": "tab-1"}));
    assert_eq!(bench.nacks(1)[3..], ["no_tab_id", "no_tab_id", "protocol"]);
    assert!(bench.router.tabs.is_empty());
    bench.wait(2_000);
    assert_eq!(bench.count(|output| matches!(output, Output::Close { code: 4008, .. })), 1);
}

#[test]
fn a_socket_speaks_for_one_tab() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.hello(2, "tab-1", "w1", &json!({}));
    assert_eq!(bench.nacks(2), ["identity_fixed"]);
    assert_eq!(bench.router.tabs.len(), 2);
    bench.say(2, "m1");
    bench.ready("claude");
    bench.outline();
    assert_eq!(bench.command(2)["workflow_uuid"], "w2");
}

#[test]
fn a_probe_makes_nothing() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.frame(1, &json!({"type": "hello", "tab_id": "launcher-probe-7"}));
    assert_eq!(bench.of_type(1, "session_epoch").len(), 1);
    assert_eq!(bench.of_type(1, "models")[0]["epoch"], "e1");
    assert!(bench.router.tabs.is_empty());
    bench.wait(60_000);
    assert_eq!(bench.count(|output| matches!(output, Output::Close { .. })), 0);
}

#[test]
fn a_viewer_only_looks_on() {
    let mut bench = Bench::new();
    bench.tell(Input::SocketOpened { socket: SocketId(1), viewer: true, comfyui: None });
    bench.hello(1, "tab-1", "w1", &json!({}));
    bench.say(1, "m1");
    assert_eq!(bench.nacks(1), ["role", "role"]);
    assert!(bench.router.tabs.is_empty());
}

#[test]
fn answers_that_nobody_asked_for() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.begin(1, "m1");
    let call = bench.outline();
    let rid = bench.command(1)["rid"].clone();
    bench.frame(1, &json!({"rid": "nobody", "ok": true}));
    bench.frame(1, &json!({"ask_id": "nobody", "ok": true, "result": 1}));
    bench.frame(2, &json!({"rid": rid, "ok": true, "result": {"text": "a lie"}}));
    assert_eq!(
        (bench.nacks(1), bench.nacks(2)),
        (vec!["unknown_rid".into(), "ask_closed".into()], vec!["not_yours".into()])
    );
    assert!(bench.answer(call).is_none());
    bench.reply(1, json!({"text": "right"}), None);
    bench.frame(1, &json!({"rid": rid, "ok": true, "result": {"text": "again"}}));
    assert_eq!(bench.ok(call)["text"], "right");
    assert_eq!(bench.nacks(1)[2..], ["unknown_rid"]);
}

#[test]
fn tools_and_arguments_are_checked_before_anything_is_sent() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let unknown = bench.call("no_such_tool", json!({}));
    assert_eq!(bench.refusal(unknown).code(), "unknown_command");
    for (tool, arguments) in [
        ("set_widget", json!({"node_id": "five", "widget": "steps", "value": 1})),
        ("set_widget", json!({"widget": "steps", "value": 1})),
        ("add_node", json!({"class_type": 5})),
        ("add_node", json!({"class_type": "VAE", "extra": 1})),
        ("run", json!({"batch_count": 0})),
        ("ask", json!({"question": "Which?", "options": ["only one"]})),
        ("set_workflow_target", json!({"mode": "elsewhere"})),
        ("set_workflow_target", json!({"mode": "pinned"})),
        ("list_workflows", json!({"tab": ""})),
    ] {
        let call = bench.call(tool, arguments.clone());
        assert_eq!(bench.refusal(call).code(), "bad_arguments", "{tool} {arguments}");
    }
    assert!(bench.commands(1).is_empty());
}

#[test]
fn messages_are_idempotent_bounded_and_not_empty() {
    let mut bench = Bench::new();
    bench.router.config.limits.backlog = 2;
    bench.join(1, "tab-1", "w1");
    bench.frame(1, &json!({"type": "user_message", "text": "without a mid"}));
    bench.frame(1, &json!({"type": "user_message", "text": " ", "mid": "m0"}));
    bench.begin(1, "m1");
    for _ in 0..3 {
        bench.say(1, "m1");
    }
    bench.end("claude");
    bench.say(1, "m1");
    assert_eq!(bench.kinds("claude"), ["user", "turn_start", "turn_end"], "one message, whatever comes again");
    bench.begin(1, "m2");
    for mid in ["m3", "m4", "m5"] {
        bench.say(1, mid);
    }
    assert_eq!(bench.nacks(1), ["mid_required", "empty", "backlog_full"]);
    assert_eq!(bench.of_type(1, "nack")[2]["mid"], "m5");
}

#[test]
fn a_message_that_cannot_be_written_is_not_accepted() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.slow_log = true;
    bench.say(1, "m1");
    assert!(!bench.of_type(1, "ack").iter().any(|ack| ack["kind"] == "working"), "not before it is on disk");
    bench.refuse_write();
    assert_eq!(bench.nacks(1), ["disk_full"]);
    assert_eq!(bench.of_type(1, "nack")[0]["mid"], "m1");
    bench.begin(1, "m1");
    assert_eq!(bench.prompts().len(), 1, "the same message can be sent again");
}

#[test]
fn a_start_that_cannot_be_written_leaves_the_messages_waiting() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "m1");
    bench.slow_log = true;
    bench.ready("claude");
    bench.refuse_write();
    assert!(bench.prompts().is_empty());
    assert_eq!(bench.unsettled("claude"), [1]);
    assert_eq!(bench.router.poll_timeout().map(|(_, why)| why), Some("retry"));
    bench.wait(5_000);
    bench.ready("claude");
    assert!(bench.prompts()[0].contains("text of m1"), "tried again by itself");
}

#[test]
fn an_end_that_cannot_be_written_is_made_up_for_by_the_next() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.slow_log = true;
    bench.end("claude");
    bench.refuse_write();
    assert_eq!(bench.of_type(1, "turn").last().unwrap()["state"], "done");
    assert_eq!(bench.unsettled("claude"), [1]);
    bench.begin(1, "m2");
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty(), "else a restart would answer it again");
}

#[test]
fn trouble_of_the_log_is_told_once_and_its_end_starts_what_could_not_start() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "m1");
    bench.slow_log = true;
    bench.ready("claude");
    let (append, _) = bench.waiting.pop().unwrap();
    bench.slow_log = false;
    bench.tell(Input::LogTrouble { trouble: Some("the disk is full: free some space".into()) });
    bench.tell(Input::AppendFailed { append, code: "disk_full".into(), message: "The disk is full.".into() });
    let told = |bench: &Bench| bench.of_type(1, "say").len();
    assert_eq!(told(&bench), 1, "{:?}", bench.of_type(1, "say"));
    bench.join(2, "tab-2", "w2");
    assert_eq!(bench.of_type(2, "say").len(), 1, "who comes later is told as well");
    bench.tell(Input::LogTrouble { trouble: None });
    assert_eq!(told(&bench), 2);
    bench.ready("claude");
    assert!(bench.prompts()[0].contains("text of m1"), "without waiting for the next try");
    bench.tell(Input::LogTrouble { trouble: None });
    assert_eq!(told(&bench), 2, "an end without trouble is no news");
}

/// What the person can repeat is refused at once; what nobody could say again is kept.
#[test]
fn d6_what_nobody_could_say_again_is_kept() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.tell(Input::Agent {
        backend: "claude".into(),
        event: AgentEvent::Text { id: "t".into(), text: "an answer".into() },
    });
    bench.end("claude");
    let kept =
        |kind: &str| bench.kept.iter().filter(|(one, _)| *one == kind).map(|(_, keep)| *keep).collect::<Vec<_>>();
    assert_eq!(kept("user"), [false]);
    assert_eq!(kept("turn_start"), [false]);
    assert_eq!(kept("say"), [true]);
    assert_eq!(kept("turn_end"), [true]);
}

/// The clock is set back by a day, and later forward by two: rows bear its time and stand in their order; deadlines do
/// not move.
#[test]
fn report_011_a_clock_that_jumps_moves_times_and_neither_order_nor_deadlines() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.now = 1_000_000_000;
    bench.begin(1, "m1");
    bench.call("panel_graph_outline", json!({}));
    let due = bench.router.poll_timeout();
    let day = 86_400_000;
    for ahead in [-day, day] {
        bench.tell(Input::WallClock { ahead });
        assert_eq!(bench.router.poll_timeout(), due);
        bench.tell(Input::Agent {
            backend: "claude".into(),
            event: AgentEvent::Text { id: "t".into(), text: format!("{ahead} ahead") },
        });
    }
    let said: Vec<(u64, u64)> = bench
        .of_type(1, "entry")
        .iter()
        .filter(|entry| entry["kind"] == "say")
        .map(|entry| (entry["seq"].as_u64().unwrap(), entry["at_ms"].as_u64().unwrap()))
        .collect();
    assert_eq!(said, [(3, 1_000_000_000 - 86_400_000), (4, 1_000_000_000 + 86_400_000)]);
}

#[test]
fn inputs_that_do_not_fit_the_moment_change_nothing() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "m1");
    let before = bench.router.clone();
    bench.forget();
    for input in [
        Input::Appended { append: 999, placed: Vec::new() },
        Input::AppendFailed { append: 999, code: "x".into(), message: "x".into() },
        Input::AgentReady { backend: "claude".into(), turn: TurnId(99) },
        Input::AgentReady { backend: "nobody".into(), turn: TurnId(1) },
        Input::AgentFailed {
            backend: "claude".into(),
            turn: TurnId(99),
            may_pass: true,
            code: "x".into(),
            message: "x".into(),
        },
        Input::Agent {
            backend: "claude".into(),
            event: AgentEvent::TurnEnd { outcome: TurnOutcome::Completed, anchor: None },
        },
        Input::Forgotten { backend: "claude".into(), durable: true },
        Input::SocketClosed { socket: SocketId(77) },
        Input::Frame { socket: SocketId(77), text: "{}".into() },
        Input::Merged { backend: "claude".into(), mids: vec!["m1".into()] },
        Input::Tick,
    ] {
        bench.tell(input.clone());
        assert!(bench.outputs.is_empty(), "{input:?}");
    }
    let mut after = bench.router.clone();
    after.conversations.retain(|backend, _| backend.as_str() != "nobody");
    assert_eq!(after, before);
}

#[test]
fn a_burst_that_is_faster_than_the_disk_meets_the_same_bound() {
    let mut bench = Bench::new();
    bench.router.config.limits.backlog = 3;
    bench.join(1, "tab-1", "w1");
    bench.slow_log = true;
    for mid in ["m1", "m2", "m3", "m4", "m5"] {
        bench.say(1, mid);
    }
    assert_eq!(bench.nacks(1), ["backlog_full", "backlog_full"]);
    bench.catch_up();
    let accepted = bench.of_type(1, "ack").into_iter().filter(|ack| ack["kind"] == "working").count();
    assert_eq!(accepted, 3);
}

#[test]
fn f3_a_tab_of_another_conversation_ends_no_run() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.open(2);
    bench.hello(2, "tab-2", "w2", &json!({"backend": "codex"}));
    bench.begin(1, "m1");
    bench.call("run", json!({}));
    let rid = bench.command(1)["rid"].clone();
    let reply =
        json!({"rid": rid, "ok": true, "result": {"queued": true, "prompt_id": "p1"}, "workflow": workflow("w1")});
    bench.frame(1, &reply);
    bench.end("claude");
    let ended = json!({"type": "agent_event", "kind": "executed", "prompt_id": "p1", "run_status": "success"});
    bench.frame(2, &ended);
    assert!(bench.waking.is_empty(), "another conversation's tab is not believed");
    bench.frame(1, &ended);
    assert!(bench.waking.contains_key(&Backend::from("claude")));
}
