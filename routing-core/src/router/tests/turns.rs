//! Rules T1 to T12.

use super::*;
use crate::refusal::NoTarget;
use crate::router::{Pending, Restored};

fn ambiguous(bench: &Bench, call: CallId) -> NoTarget {
    match bench.refusal(call) {
        Refusal::TargetAmbiguous { reason, .. } => *reason,
        other => panic!("another refusal: {other:?}"),
    }
}

fn two_tabs() -> Bench {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench
}

#[test]
fn t1_the_origin_is_that_of_the_moment_of_receipt() {
    let mut bench = two_tabs();
    bench.say(1, "m1");
    bench.hello(1, "tab-1", "w9", &json!({}));
    bench.ready("claude");
    let told = bench.call("get_workflow_target", json!({}));
    assert_eq!(bench.ok(told)["stamp"], "w1");
    bench.end("claude");
    // A message says itself what it was composed for.
    bench.frame(1, &json!({"type": "user_message", "mid": "m2", "text": "x", "workflow_uuid": "w5"}));
    bench.ready("claude");
    let told = bench.call("get_workflow_target", json!({}));
    assert_eq!((&bench.ok(told)["stamp"], &bench.ok(told)["tab"]), (&json!("w5"), &json!("t1")));
}

#[test]
fn t1_the_turn_begins_when_the_agent_takes_the_message() {
    let mut bench = two_tabs();
    bench.say(1, "m1");
    assert_eq!(bench.count(|output| matches!(output, Output::Prompt { .. })), 0);
    assert!(bench.of_type(1, "ack").iter().any(|ack| ack["kind"] == "working" && ack["mid"] == "m1"));
    assert!(!bench.of_type(1, "ack").iter().any(|ack| ack["kind"] == "seen"));
    let early = bench.outline();
    assert_eq!(bench.refusal(early).code(), "workflow_instance_mismatch", "nothing is targeted yet");
    bench.ready("claude");
    assert!(bench.of_type(2, "ack").iter().any(|ack| ack["kind"] == "seen" && ack["mid"] == "m1"));
    bench.outline();
    assert_eq!(bench.command(1)["workflow_uuid"], "w1");
}

#[test]
fn t2_the_scheduler_makes_no_mixed_batch() {
    let mut bench = two_tabs();
    bench.begin(1, "m1");
    bench.say(2, "m2");
    bench.say(1, "m3");
    for (prompt, socket) in [("m2", 2), ("m3", 1)] {
        bench.end("claude");
        bench.ready("claude");
        let text = bench.prompts().last().unwrap().to_string();
        assert!(text.contains(&format!("text of {prompt}")) && !text.contains("text of m1"), "{text}");
        bench.forget();
        bench.outline();
        assert_eq!(bench.commands(socket).len(), 1);
    }
}

#[test]
fn t2_a_turn_that_merged_origins_fails_closed_until_someone_says_where() {
    let mut bench = two_tabs();
    bench.begin(1, "m1");
    bench.say(2, "m2");
    bench.tell(Input::Merged { backend: "claude".into(), mids: vec!["m2".into()] });
    for tool in ["graph_outline", "new_workflow", "get_errors"] {
        let call = bench.call(tool, json!({}));
        assert_eq!(ambiguous(&bench, call), NoTarget::MixedOrigins, "{tool}");
    }
    assert!(bench.commands(1).is_empty() && bench.commands(2).is_empty());
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty(), "both were answered by the turn");
    // Neither time nor an event ends that.
    bench.frame(1, &json!({"type": "agent_event", "kind": "run_error", "error": "no"}));
    bench.ready("claude");
    let call = bench.outline();
    assert_eq!(ambiguous(&bench, call), NoTarget::MixedOrigins);
    bench.end("claude");
    bench.begin(2, "m3");
    bench.outline();
    assert_eq!(bench.command(2)["workflow_uuid"], "w2");
}

#[test]
fn t2_what_was_merged_is_found_as_taken_after_a_restart() {
    let mut bench = two_tabs();
    bench.begin(1, "m1");
    bench.say(1, "m2");
    bench.tell(Input::Merged { backend: "claude".into(), mids: vec!["m2".into()] });
    let rows = &bench.rows[&ConversationKey::of(&"claude".into())];
    let last = rows.iter().rfind(|row| row.kind == "turn_start").unwrap();
    assert_eq!(last.body["takes"], json!([1, 3]));
    bench.outline();
    assert_eq!(bench.command(1)["workflow_uuid"], "w1", "one origin stays one");
}

#[test]
fn t3_events_ride_along_and_inherit() {
    let mut bench = two_tabs();
    bench.begin(1, "m1");
    bench.frame(1, &json!({"type": "agent_event", "kind": "run_error", "error": "first"}));
    bench.say(2, "m2");
    bench.end("claude");
    bench.ready("claude");
    assert!(bench.prompts().last().unwrap().contains("first"), "it rides along with a message");
    bench.outline();
    assert_eq!(bench.command(2)["workflow_uuid"], "w2");
    bench.end("claude");
    bench.frame(1, &json!({"type": "agent_event", "kind": "run_error", "error": "second"}));
    bench.ready("claude");
    bench.forget();
    bench.outline();
    assert_eq!(
        bench.command(2)["workflow_uuid"],
        "w2",
        "alone it inherits the last origin, not the tab that told of it"
    );
    bench.end("claude");
    // That tab is gone, one is left: the only live one.
    bench.close(2);
    bench.frame(1, &json!({"type": "agent_event", "kind": "run_error", "error": "third"}));
    bench.ready("claude");
    bench.outline();
    assert_eq!(bench.command(1)["workflow_uuid"], "w1");
}

#[test]
fn t4_a_message_of_another_tab_changes_nothing_of_the_running_turn() {
    let mut bench = two_tabs();
    bench.begin(1, "m1");
    bench.say(2, "m2");
    bench.hello(2, "tab-2", "w8", &json!({}));
    for tool in ["graph_outline", "new_workflow", "get_errors", "screenshot"] {
        bench.call(tool, json!({}));
    }
    bench.call("search_nodes", json!({"query": "VAE"}));
    bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]}));
    assert!(bench.commands(2).is_empty());
    let stamps: Vec<Value> = bench.commands(1).into_iter().map(|command| command["workflow_uuid"].clone()).collect();
    assert_eq!(stamps, vec![json!("w1"); 6]);
}

#[test]
fn t5_the_pin_follows_its_tab_and_no_other() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.hello(1, "tab-1", "w2", &json!({}));
    bench.hello(1, "tab-1", "w1", &json!({}));
    bench.close(1);
    bench.join(2, "tab-2", "w1");
    let call = bench.widget();
    assert!(bench.commands(2).is_empty() && bench.answer(call).is_none());
    bench.join(3, "tab-1", "w1");
    assert_eq!(bench.command(3)["workflow_uuid"], "w1");
    bench.reply(3, json!({}), None);
    bench.ok(call);
}

#[test]
fn t5_a_connection_that_took_over_is_the_tab_now() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.join(2, "tab-1", "w1");
    assert_eq!(bench.count(|output| matches!(output, Output::Close { socket: SocketId(1), code: 4001, .. })), 1);
    bench.outline();
    assert_eq!((bench.commands(1).len(), bench.commands(2).len()), (0, 1));
}

#[test]
fn t6_a_call_waits_and_is_refused_by_name_of_the_live_tabs() {
    let mut bench = two_tabs();
    bench.begin(1, "m1");
    bench.close(1);
    let (read, write) = (bench.outline(), bench.widget());
    bench.wait(19_999);
    assert!(bench.answer(read).is_none() && bench.answer(write).is_none());
    assert_eq!(bench.router.poll_timeout(), Some((21_000, "reconnect")));
    bench.wait(1);
    for call in [read, write] {
        let Refusal::TargetGone { candidates } = bench.refusal(call) else { panic!("another refusal") };
        assert_eq!(candidates[0].tab.as_str(), "t2");
        assert_eq!(candidates[0].title, "title of w2");
    }
    assert!(bench.commands(2).is_empty());
}

#[test]
fn t7_ownership_is_checked_at_the_use_and_the_loss_is_for_good() {
    let mut bench = two_tabs();
    bench.begin(1, "m1");
    bench.frame(1, &json!({"type": "set_backend", "backend": "codex"}));
    let first = bench.outline();
    assert_eq!(bench.refusal(first).code(), "not_owner");
    let second = bench.outline();
    assert_eq!(ambiguous(&bench, second), NoTarget::OwnershipLost);
    bench.frame(1, &json!({"type": "set_backend", "backend": "claude"}));
    let third = bench.outline();
    assert_eq!(ambiguous(&bench, third), NoTarget::OwnershipLost);
    assert_eq!(bench.count(|output| matches!(output, Output::Log { event: "pin_void", .. })), 1, "one warning");
    bench.end("claude");
    let idle = bench.outline();
    assert_eq!(bench.refusal(idle).code(), "workflow_instance_mismatch", "the stamp is void, too");
}

#[test]
fn t7_a_tab_that_comes_back_as_another_agents_gets_no_waiting_call() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.close(1);
    let waiting = bench.widget();
    bench.open(2);
    bench.hello(2, "tab-1", "w1", &json!({"backend": "codex"}));
    assert_eq!(bench.refusal(waiting).code(), "not_owner");
    assert!(bench.commands(2).is_empty());
    bench.frame(2, &json!({"type": "set_backend", "backend": "claude"}));
    let later = bench.widget();
    assert_eq!(ambiguous(&bench, later), NoTarget::OwnershipLost);
}

#[test]
fn t8_what_is_put_back_keeps_its_origin_each_time() {
    let mut bench = two_tabs();
    bench.begin(1, "m1");
    bench.say(2, "m2");
    for _ in 0..3 {
        bench.frame(2, &json!({"type": "interrupt", "requeue": true}));
        bench.end_as("claude", TurnOutcome::Interrupted);
        bench.ready("claude");
        assert!(bench.prompts().last().unwrap().contains("text of m1"));
        bench.forget();
        bench.outline();
        assert_eq!((bench.commands(1).len(), bench.commands(2).len()), (1, 0));
    }
    assert_eq!(bench.unsettled("claude").len(), 2);
    bench.frame(1, &json!({"type": "interrupt"}));
    bench.end_as("claude", TurnOutcome::Interrupted);
    assert_eq!(bench.unsettled("claude").len(), 1, "a plain stop settles it");
}

#[test]
fn t8_a_turn_that_ended_in_spite_of_the_interrupt_is_not_repeated() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.frame(1, &json!({"type": "interrupt", "requeue": true}));
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty());
    assert_eq!(bench.count(|output| matches!(output, Output::Wake { .. })), 1);
}

#[test]
fn t8_after_a_stop_nothing_is_written_while_the_agent_has_not_noticed() {
    for requeue in [false, true] {
        let mut bench = Bench::new();
        bench.join(1, "tab-1", "w1");
        bench.begin(1, "m1");
        bench.close(1);
        let parked = bench.widget();
        bench.join(2, "tab-2", "w2");
        bench.frame(2, &json!({"type": "interrupt", "requeue": requeue}));
        assert_eq!(*bench.refusal(parked), Refusal::ConversationClosed);
        bench.join(3, "tab-1", "w1");
        let late = bench.widget();
        assert_eq!(*bench.refusal(late), Refusal::ConversationClosed);
        assert!(bench.commands(3).is_empty());
        bench.end_as("claude", TurnOutcome::Interrupted);
        bench.begin(3, "m2");
        bench.widget();
        assert_eq!(bench.commands(3).len(), 1, "the next turn's calls are carried out");
    }
}

#[test]
fn t8_a_write_that_was_lost_before_a_stop_is_of_unknown_outcome_and_not_repeated() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let lost = bench.widget();
    bench.close(1);
    bench.join(2, "tab-2", "w2");
    bench.frame(2, &json!({"type": "interrupt"}));
    assert_eq!(bench.refusal(lost).code(), "unknown_outcome");
    bench.forget();
    bench.join(3, "tab-1", "w1");
    assert!(bench.commands(3).is_empty());
}

#[test]
fn t8_cancelling_drops_a_message_wherever_it_waits() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.say(1, "m2");
    bench.slow_log = true;
    bench.say(1, "m3");
    for mid in ["m2", "m3"] {
        bench.frame(1, &json!({"type": "cancel_message", "mid": mid}));
    }
    bench.catch_up();
    let removed: Vec<Value> =
        bench.of_type(1, "ack").into_iter().filter_map(|ack| ack.get("removed").cloned()).collect();
    assert_eq!(removed, [json!(true), json!(true)]);
    bench.frame(1, &json!({"type": "cancel_message", "mid": "m1"}));
    assert_eq!(bench.of_type(1, "ack").last().unwrap()["removed"], false, "the agent has it");
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty());
    assert_eq!(bench.prompts().len(), 1);
}

#[test]
fn t8_stop_before_the_agent_took_it_gives_no_prompt() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "m1");
    bench.frame(1, &json!({"type": "interrupt"}));
    bench.ready("claude");
    assert!(bench.prompts().is_empty());
    assert!(bench.unsettled("claude").is_empty());
    bench.begin(1, "m2");
    assert_eq!(bench.prompts().len(), 1);
}

#[test]
fn t8_a_start_that_fails_is_reported_and_the_next_message_is_tried() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "m1");
    bench.say(1, "m2");
    let turn = bench.waking.remove(&Backend::from("claude")).unwrap();
    let (code, message) = ("not_found".to_owned(), "The agent is not installed.".to_owned());
    bench.tell(Input::AgentFailed { backend: "claude".into(), turn, may_pass: false, code, message });
    let notices = bench.of_type(1, "entry").into_iter().filter(|entry| entry["kind"] == "notice");
    assert_eq!(notices.filter(|notice| notice["code"] == "not_found").count(), 1);
    assert_eq!(bench.of_type(1, "turn").last().unwrap()["state"], "done");
    bench.wait(500);
    bench.ready("claude");
    assert!(bench.prompts()[0].contains("text of m2"));
}

#[test]
fn t8_after_each_turn_in_which_the_agent_dies_what_waits_is_held_back_for_longer() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    for mid in ["m1", "m2", "m3", "m4", "m5"] {
        bench.say(1, mid);
    }
    let dies = || TurnOutcome::Failed { code: "exited".to_owned(), message: "It ended.".to_owned() };
    for pause in [500, 2_000, 8_000] {
        bench.ready("claude");
        bench.end_as("claude", dies());
        bench.wait(pause - 1);
        assert!(!is_waking(&bench), "after {pause}");
        bench.wait(1);
        assert!(is_waking(&bench), "after {pause}");
    }
    bench.ready("claude");
    bench.end("claude");
    assert!(is_waking(&bench), "after a turn that went well nothing is held back");
    bench.ready("claude");
    bench.end_as("claude", dies());
    bench.say(1, "m6");
    assert!(is_waking(&bench), "nor what the person says then");
}

/// The agent ended while it was starting.
fn start_fails(bench: &mut Bench) {
    let turn = bench.waking.remove(&Backend::from("claude")).expect("a turn waits for its agent");
    let (code, message) = ("exited".to_owned(), "The agent did not start.".to_owned());
    bench.tell(Input::AgentFailed { backend: "claude".into(), turn, may_pass: true, code, message });
}

fn is_waking(bench: &Bench) -> bool {
    bench.waking.contains_key(&Backend::from("claude"))
}

#[test]
fn t8_a_start_that_may_go_better_is_tried_again_and_nothing_leaves_the_queue() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "m1");
    start_fails(&mut bench);
    assert!(!is_waking(&bench), "not at once");
    bench.wait(499);
    assert!(!is_waking(&bench));
    bench.wait(1);
    start_fails(&mut bench);
    bench.wait(2_000);
    bench.ready("claude");
    assert!(bench.prompts()[0].contains("text of m1"));
    let notices = bench.of_type(1, "entry").into_iter().filter(|entry| entry["kind"] == "notice").count();
    assert_eq!(notices, 1, "the person is told once");
    assert_eq!(bench.router.poll_timeout(), None);
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty());
}

#[test]
fn t8_after_the_last_attempt_what_waits_is_reported_and_each_new_message_is_tried_once() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "m1");
    for pause in [500, 2_000, 8_000] {
        start_fails(&mut bench);
        bench.wait(pause);
    }
    start_fails(&mut bench);
    let failed = |mid: &str, bench: &Bench| {
        let end = |entry: &Value| {
            entry["kind"] == "turn_end" && entry["outcome"] == "failed" && entry["mids"] == json!([mid])
        };
        bench.of_type(1, "entry").iter().filter(|entry| end(entry)).count()
    };
    assert_eq!((failed("m1", &bench), is_waking(&bench)), (1, false));
    bench.say(1, "m2");
    start_fails(&mut bench);
    assert_eq!(failed("m2", &bench), 1);
    bench.begin(1, "m3");
    assert!(bench.prompts()[0].contains("text of m3"));
    bench.end("claude");
    bench.say(1, "m4");
    start_fails(&mut bench);
    assert_eq!(failed("m4", &bench), 0, "after a start that went well there are attempts again");
}

#[test]
fn t8_the_next_message_does_not_wait_for_the_pause_and_keeps_the_order() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "m1");
    start_fails(&mut bench);
    bench.say(1, "m2");
    bench.ready("claude");
    assert!(bench.prompts()[0].contains("text of m1"));
    bench.end("claude");
    bench.ready("claude");
    assert!(bench.prompts()[1].contains("text of m2"));
}

#[test]
fn t8_stop_and_taking_back_end_the_attempts() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "m1");
    start_fails(&mut bench);
    bench.frame(1, &json!({"type": "interrupt"}));
    bench.wait(60_000);
    assert!(!is_waking(&bench), "stopped");
    bench.say(1, "m2");
    start_fails(&mut bench);
    bench.frame(1, &json!({"type": "cancel_message", "mid": "m2"}));
    bench.wait(60_000);
    if is_waking(&bench) {
        start_fails(&mut bench);
    }
    assert_eq!(bench.router.poll_timeout(), None, "nothing is waited for");
    bench.say(1, "m3");
    start_fails(&mut bench);
    bench.frame(1, &json!({"type": "new_session"}));
    bench.tell(Input::Forgotten { backend: "claude".into(), durable: true });
    bench.wait(60_000);
    assert!(!is_waking(&bench) && bench.prompts().is_empty());
    assert!(bench.unsettled("claude").is_empty());
}

#[test]
fn t9_an_unknown_or_lost_origin_fails_its_turn_closed() {
    let mut bench = Bench::new();
    let row = |seq: u64, body: Value| Pending { seq: Seq(seq), kind: "user".into(), body, turns: 0 };
    let pending = vec![row(1, json!({"mid": "m1", "text": "no origin"}))];
    let restored = Restored { newest: Seq(1), pending, ..Restored::default() };
    bench.tell(Input::Restore { backend: "claude".into(), restored });
    bench.join(1, "tab-1", "w1");
    bench.ready("claude");
    let call = bench.outline();
    assert_eq!(ambiguous(&bench, call), NoTarget::UnknownOrigin);
    bench.end("claude");
    bench.begin(1, "m2");
    bench.say(1, "m3");
    bench.frame(1, &json!({"type": "set_backend", "backend": "codex"}));
    bench.end("claude");
    bench.ready("claude");
    let call = bench.outline();
    assert_eq!(ambiguous(&bench, call), NoTarget::OwnershipLost);
}

#[test]
fn t9_a_stored_message_finds_its_tab_again() {
    let mut bench = Bench::new();
    let origin = json!({"tab": "t7", "identity": "tab-1", "backend": "claude", "workflow": workflow("w1")});
    let body = json!({"mid": "m1", "text": "waited", "origin": origin});
    let pending = vec![Pending { seq: Seq(1), kind: "user".into(), body, turns: 0 }];
    let restored = Restored { newest: Seq(1), pending, ..Restored::default() };
    bench.tell(Input::Restore { backend: "claude".into(), restored });
    bench.ready("claude");
    let call = bench.outline();
    bench.join(1, "tab-2", "w2");
    assert!(bench.answer(call).is_none() && bench.commands(1).is_empty());
    bench.join(2, "tab-1", "w1");
    assert_eq!(bench.command(2)["workflow_uuid"], "w1");
    assert_eq!(bench.of_type(1, "welcome")[0]["tab"], "t8", "no name of an earlier run is given twice");
}

#[test]
fn t8_what_was_put_back_is_marked_also_after_a_restart() {
    let mut bench = Bench::new();
    let row = |seq: u64, text: &str, turns: u32| {
        let body = json!({"text": text});
        Pending { seq: Seq(seq), kind: "user".into(), body, turns }
    };
    let pending = vec![row(1, "given before", 1), row(4, "new", 0)];
    let restored = Restored { newest: Seq(4), pending, ..Restored::default() };
    bench.tell(Input::Restore { backend: "claude".into(), restored });
    bench.ready("claude");
    let again = "[This message was interrupted before and is sent again.]";
    let prompt = bench.prompts()[0];
    assert!(prompt.contains(&format!("{again}\n\ngiven before")), "{prompt}");
    assert_eq!(prompt.matches(again).count(), 1, "{prompt}");
}

#[test]
fn t10_between_turns_the_last_speaker_else_the_newest() {
    let mut bench = Bench::new();
    let none = bench.call("search_nodes", json!({"query": "VAE"}));
    assert_eq!(*bench.refusal(none), Refusal::NoTab { deferred: false });
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.open(3);
    bench.hello(3, "tab-3", "w3", &json!({"headless": true}));
    bench.call("search_nodes", json!({"query": "VAE"}));
    assert_eq!((bench.commands(2).len(), bench.commands(3).len()), (1, 0), "the newest with a canvas");
    bench.begin(1, "m1");
    bench.end("claude");
    bench.forget();
    bench.outline();
    assert_eq!(bench.command(1)["workflow_uuid"], "w1");
    bench.frame(3, &json!({"type": "user_message", "mid": "m2", "text": "from a client without a canvas"}));
    bench.ready("claude");
    bench.end("claude");
    bench.forget();
    bench.call("search_nodes", json!({"query": "VAE"}));
    assert_eq!(bench.commands(3).len(), 0, "it attracts nothing, though it spoke last");
}

#[test]
fn t11_one_line_when_the_origin_differs_composed_when_it_is_taken() {
    let mut bench = two_tabs();
    bench.begin(1, "m1");
    bench.say(1, "m2");
    bench.say(2, "m3");
    bench.end("claude");
    bench.ready("claude");
    assert!(!bench.prompts().last().unwrap().contains("You are now"), "the same as before");
    bench.end("claude");
    bench.ready("claude");
    let text = *bench.prompts().last().unwrap();
    assert_eq!(text.matches("You are now on workflow “title of w2” in browser tab t2").count(), 1, "{text}");
    assert!(text.contains("conversation goes on"));
}

#[test]
fn t12_only_the_agents_own_navigation_moves_pin_and_stamp() {
    let mut bench = two_tabs();
    bench.begin(1, "m1");
    let open = bench.call("open_workflow", json!({"path": "w3"}));
    let before = bench.call("get_workflow_target", json!({}));
    assert_eq!(bench.ok(before)["stamp"], "w1", "not before the reply");
    bench.reply(1, json!({}), Some("w3"));
    bench.ok(open);
    bench.outline();
    assert_eq!(bench.command(1)["workflow_uuid"], "w3", "on the reply, before any hello");
    // A save under the same name and a rename keep the instance; the person's own doings move nothing.
    let rename = bench.call("rename_workflow", json!({"name": "x", "path": "w3"}));
    bench.reply(1, json!({}), Some("w4"));
    bench.ok(rename);
    bench.hello(1, "tab-1", "w5", &json!({}));
    bench.frame(1, &json!({"type": "set_workflow_target", "mode": "current"}));
    let after = bench.call("get_workflow_target", json!({}));
    assert_eq!(bench.ok(after)["stamp"], "w3");
    // A re-target moves both, also to another tab.
    let target = bench.call("set_workflow_target", json!({"mode": "current", "tab": "t2"}));
    bench.reply(2, listed(&["w2"]), Some("w2"));
    assert_eq!(bench.ok(target)["tab"], "t2");
    bench.widget();
    assert_eq!(bench.command(2)["workflow_uuid"], "w2");
}
