//! What hostile or careless clients and agents try, one hazard each.

use super::*;

#[test]
fn g11_a_token_that_is_not_known_is_no_leave_to_write() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let sent = bench.commands(1).len();
    let widget = json!({"node_id": 5, "widget": "steps", "value": 1, "retry_of": "e0-r7"});
    let call = bench.call("set_widget", widget);
    assert_eq!(bench.refusal(call).code(), "bad_arguments");
    assert_eq!(bench.commands(1).len(), sent, "nothing was sent");
}

#[test]
fn g11_a_token_of_a_call_that_still_runs_is_told_so() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.widget();
    let rid = bench.command(1)["rid"].clone();
    let call = bench.call("set_widget", json!({"node_id": 5, "widget": "steps", "value": 1, "retry_of": rid}));
    assert_eq!(bench.refusal(call).code(), "still_running");
    assert_eq!(bench.commands(1).len(), 1);
}

#[test]
fn a_stop_while_the_agent_wakes_ends_nothing_that_comes_after_it() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "z1");
    bench.frame(1, &json!({"type": "interrupt"}));
    bench.frame(1, &json!({"type": "cancel_message", "mid": "z1"}));
    bench.say(1, "z2");
    bench.ready("claude");
    let ends = |mid: &str, bench: &Bench| {
        let ended = |frame: &&Value| frame["kind"] == "turn_end" && frame["mids"] == json!([mid]);
        bench.of_type(1, "entry").iter().find(ended).map(|frame| frame["outcome"].clone())
    };
    assert_eq!(ends("z1", &bench), Some(json!("interrupted")));
    assert_eq!(ends("z2", &bench), None, "it runs");
    assert!(bench.count(|output| matches!(output, Output::Prompt { text, .. } if text.contains("text of z2"))) == 1);
}

#[test]
fn a_stop_right_after_a_message_takes_it_back() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.slow_log = true;
    bench.say(1, "m1");
    bench.frame(1, &json!({"type": "interrupt"}));
    bench.catch_up();
    assert!(bench.waking.is_empty(), "no turn begins");
    assert!(bench.of_type(1, "ack").iter().any(|ack| ack["kind"] == "interrupt" && ack["interrupted"] == true));
    bench.begin(1, "m2");
    assert!(bench.count(|output| matches!(output, Output::Prompt { .. })) == 1, "the next one runs");
}

#[test]
fn what_is_attached_reaches_the_agent_by_name() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    let image = json!([{"filename": "cat.png", "subfolder": "in", "type": "input"}]);
    bench.frame(1, &json!({"type": "user_message", "mid": "m1", "text": "", "images": image}));
    bench.ready("claude");
    let told = |output: &Output| matches!(output, Output::Prompt { text, .. } if text.contains("in/cat.png (input)"));
    assert_eq!(bench.count(told), 1);
}

#[test]
fn errors_of_runs_meet_the_bound_of_messages() {
    let mut bench = Bench::new();
    bench.router.config.limits.backlog = 3;
    bench.join(1, "tab-1", "w1");
    for _ in 0..5 {
        bench.frame(1, &json!({"type": "agent_event", "kind": "run_error", "error": "no"}));
    }
    assert_eq!(bench.nacks(1), ["backlog_full", "backlog_full"]);
}

#[test]
fn what_comes_before_the_hello_is_refused_by_its_own_name() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.say(1, "m1");
    bench.frame(1, &json!({"rid": "r1", "ok": true}));
    let nacks = bench.of_type(1, "nack");
    assert_eq!((&nacks[0]["mid"], &nacks[1]["rid"]), (&json!("m1"), &json!("r1")));
}

#[test]
fn s7_an_id_that_another_text_has_is_refused_at_every_stage() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    let other = json!({"type": "user_message", "mid": "m1", "text": "something else"});
    bench.slow_log = true;
    bench.say(1, "m1");
    bench.frame(2, &other);
    bench.say(2, "m1");
    assert_eq!(bench.nacks(2), ["mid_taken"], "while it is being written");
    bench.catch_up();
    let working = |socket: u64| bench.of_type(socket, "ack").iter().filter(|ack| ack["kind"] == "working").count();
    assert_eq!((working(1), working(2)), (1, 1), "who repeats it is acknowledged like who said it");
    bench.frame(2, &other);
    assert_eq!(bench.nacks(2).len(), 2, "while it waits");
    bench.ready("claude");
    bench.frame(2, &other);
    assert_eq!(bench.nacks(2).len(), 3, "while it is being answered");
    bench.end("claude");
    bench.frame(2, &other);
    assert_eq!(bench.nacks(2).len(), 4, "when only the log has it");
    bench.say(2, "m1");
    assert_eq!(bench.nacks(2).len(), 4, "its own repetition is not refused");
    assert_eq!(bench.prompts().len(), 1);
}

#[test]
fn b1_a_cut_turn_ends_in_the_log_and_panels_hear_it_last() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.frame(1, &json!({"type": "new_session"}));
    bench.tell(Input::Agent {
        backend: "claude".into(),
        event: AgentEvent::Text { id: "1".to_owned(), text: "last words".to_owned() },
    });
    let done = |bench: &Bench| bench.of_type(1, "turn").iter().filter(|turn| turn["state"] == "done").count();
    assert_eq!(done(&bench), 0, "it may still speak");
    bench.tell(Input::Forgotten { backend: "claude".into(), durable: true });
    let frames = bench.frames(1);
    let last = |kind: &str| frames.iter().rposition(|frame| frame["type"] == kind);
    assert_eq!(done(&bench), 1);
    assert!(last("entry") < last("turn"), "no entry follows the end");
    assert_eq!(bench.kinds("claude"), ["user", "turn_start", "say", "turn_end", "boundary"]);
    assert!(bench.unsettled("claude").is_empty());
}

#[test]
fn b1_a_turn_that_nobody_saw_begin_is_not_said_to_end() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "m1");
    bench.frame(1, &json!({"type": "new_session"}));
    bench.tell(Input::Forgotten { backend: "claude".into(), durable: true });
    assert!(bench.of_type(1, "turn").is_empty());
    assert_eq!(bench.kinds("claude"), ["user", "boundary"]);
}

#[test]
fn f3_a_run_that_answers_too_late_has_its_ticket() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let call = bench.call("run", json!({}));
    let rid = bench.command(1)["rid"].clone();
    bench.wait(10 * 60_000);
    bench.wait(10 * 60_000);
    assert_eq!(bench.refusal(call).code(), "unknown_outcome");
    bench.frame(1, &json!({"rid": rid, "ok": true, "result": {"prompt_id": "p1"}, "workflow": workflow("w1")}));
    bench.end("claude");
    bench.frame(1, &json!({"type": "agent_event", "kind": "executed", "prompt_id": "p1"}));
    bench.ready("claude");
    assert_eq!(bench.prompts().len(), 2, "its end is reported");
}

#[test]
fn b1_a_run_of_a_cleared_conversation_has_none() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.call("run", json!({}));
    let rid = bench.command(1)["rid"].clone();
    bench.frame(1, &json!({"type": "new_session"}));
    bench.tell(Input::Forgotten { backend: "claude".into(), durable: true });
    bench.frame(1, &json!({"rid": rid, "ok": true, "result": {"prompt_id": "p1"}, "workflow": workflow("w1")}));
    assert!(!bench.kinds("claude").contains(&"run"));
}

#[test]
fn t12_a_plain_save_does_not_follow_the_person_to_another_workflow() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let save = bench.call("save_workflow", json!({}));
    bench.reply(1, json!({"saved": true}), Some("w2"));
    assert_eq!(bench.ok(save)["in_front_now"]["title"], "title of w2");
    let next = bench.widget();
    assert_eq!(bench.refusal(next).code(), "workflow_instance_mismatch");
}

#[test]
fn t12_a_save_under_a_name_moves_the_target() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let save = bench.call("save_workflow", json!({"name": "w2"}));
    bench.reply(1, json!({"saved": true}), Some("w2"));
    assert!(bench.ok(save).get("in_front_now").is_none());
    let next = bench.widget();
    assert_eq!(bench.answer(next), None, "it goes out");
    assert_eq!(bench.command(1)["workflow_uuid"], "w2");
}

#[test]
fn g5_a_write_says_when_the_person_has_moved_on() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let write = bench.widget();
    bench.reply(1, json!({"value": 1}), Some("w2"));
    assert_eq!(bench.ok(write)["in_front_now"]["title"], "title of w2");
    let write = bench.widget();
    assert_eq!(bench.refusal(write).code(), "workflow_instance_mismatch");
}

#[test]
fn names_without_end_are_not_kept() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.hello(1, &"x".repeat(1_025), "w1", &json!({}));
    assert_eq!(bench.nacks(1), ["too_long"]);
    bench.hello(1, "tab-1", &"w".repeat(1_025), &json!({}));
    assert_eq!(bench.nacks(1).len(), 2);
    bench.hello(1, "tab-1", "w1", &json!({"title": "t".repeat(5_000)}));
    assert_eq!(bench.of_type(1, "welcome").len(), 1);
    bench.begin(1, "m1");
    let note = bench.prompts()[0];
    assert!(note.len() < 1_000, "{} bytes", note.len());
}

#[test]
fn a_legacy_panel_does_not_pass_for_a_tab_of_ours() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.hello(1, "tab-1", "w1", &json!({"tab_session_id": "s1"}));
    bench.open(2);
    bench.frame(2, &json!({"type": "hello", "tab_id": "wf:workflows/w2.json", "tab_session_id": "s1"}));
    assert_eq!(bench.count(|output| matches!(output, Output::Close { .. })), 0, "nobody is taken over");
    bench.begin(1, "m1");
    bench.widget();
    assert_eq!((bench.commands(1).len(), bench.commands(2).len()), (1, 0));
}

#[test]
fn b2_what_is_said_right_after_new_chat_is_part_of_the_new_one() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.frame(1, &json!({"type": "new_session"}));
    bench.say(1, "m1");
    bench.say(1, "m2");
    bench.frame(1, &json!({"type": "cancel_message", "mid": "m2"}));
    assert!(bench.kinds("claude").is_empty(), "nothing of the new one stands before the boundary");
    bench.tell(Input::Forgotten { backend: "claude".into(), durable: true });
    assert_eq!(bench.kinds("claude")[..2], ["boundary", "user"]);
    bench.ready("claude");
    assert!(bench.prompts()[0].contains("text of m1") && !bench.prompts()[0].contains("text of m2"));
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty() && !bench.waking.contains_key(&Backend::from("claude")));
}

#[test]
fn b2_what_was_dropped_in_mid_write_does_not_come_back_with_a_restart() {
    let mut bench = Bench::new();
    let row = |seq: u64, mid: &str| crate::router::Pending {
        seq: Seq(seq),
        kind: "user".into(),
        body: json!({"mid": mid, "text": format!("text of {mid}")}),
        turns: 0,
    };
    let pending = vec![row(3, "old"), row(5, "new")];
    let restored = crate::router::Restored { newest: Seq(5), start: Seq(4), pending, ..Default::default() };
    bench.tell(Input::Restore { backend: "claude".into(), restored });
    bench.ready("claude");
    assert!(bench.prompts()[0].contains("text of new") && !bench.prompts()[0].contains("text of old"));
    assert_eq!(bench.kinds("claude"), ["cancelled", "turn_start"]);
}
