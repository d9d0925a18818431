//! Rules B1 to B5.

use super::*;

fn forgotten(bench: &mut Bench, durable: bool) {
    bench.tell(Input::Forgotten { backend: "claude".into(), durable });
}

#[test]
fn b1_everything_of_every_tab_closes_and_every_tab_is_told() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.begin(2, "m1");
    let run = bench.call("run", json!({}));
    bench.reply(2, json!({"prompt_id": "p1"}), None);
    bench.ok(run);
    let (ask, write) = (bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]})), bench.widget());
    bench.say(1, "m2");
    bench.forget();
    bench.frame(1, &json!({"type": "new_session"}));
    assert_eq!(*bench.refusal(ask), Refusal::ConversationClosed);
    assert_eq!(*bench.refusal(write), Refusal::ConversationClosed);
    assert_eq!(bench.of_type(2, "ask_closed").len(), 1);
    assert_eq!(bench.of_type(1, "ack").len(), 0, "the clear is acknowledged when it is done, not before");
    forgotten(&mut bench, false);
    let ack = bench.of_type(1, "ack").pop().unwrap();
    assert_eq!((&ack["kind"], &ack["ok"]), (&json!("new_session"), &json!(true)));
    assert_eq!(ack["durable_cleared"], false, "that it is not on disk is said");
    for socket in [1, 2] {
        assert_eq!(bench.of_type(socket, "session")[0]["session_id"], Value::Null);
        assert_eq!(bench.of_type(socket, "turn").last().unwrap()["state"], "done");
        assert!(bench.of_type(socket, "entry").iter().any(|entry| entry["kind"] == "boundary"));
    }
    assert!(bench.unsettled("claude").is_empty(), "messages, events and tickets of the old conversation are settled");
    bench.frame(2, &json!({"type": "agent_event", "kind": "executed", "prompt_id": "p1"}));
    assert!(!bench.kinds("claude").contains(&"event"), "a run of the old conversation is told to nobody");
}

#[test]
fn b1_what_was_being_written_belongs_to_the_old_conversation() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.call("run", json!({}));
    bench.reply(1, json!({"prompt_id": "p1"}), None);
    bench.call("run", json!({}));
    bench.slow_log = true;
    bench.reply(1, json!({"prompt_id": "p2"}), None);
    bench.say(1, "m2");
    bench.frame(1, &json!({"type": "agent_event", "kind": "executed", "prompt_id": "p1"}));
    bench.frame(1, &json!({"type": "new_session"}));
    bench.catch_up();
    forgotten(&mut bench, true);
    assert!(bench.unsettled("claude").is_empty());
    assert_eq!(bench.prompts().len(), 1, "nothing of it starts a turn");
    bench.frame(1, &json!({"type": "agent_event", "kind": "executed", "prompt_id": "p2"}));
    assert_eq!(bench.count(|output| matches!(output, Output::Wake { .. })), 1);
}

#[test]
fn b1_two_clears_at_once_are_one() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.frame(1, &json!({"type": "new_session"}));
    bench.frame(2, &json!({"type": "new_session"}));
    assert_eq!(bench.of_type(2, "ack").last().unwrap()["ok"], false);
    assert_eq!(bench.count(|output| matches!(output, Output::Forget { .. })), 1);
    forgotten(&mut bench, true);
    assert_eq!(bench.kinds("claude"), ["boundary"]);
}

#[test]
fn b1_a_clear_that_cannot_be_written_is_answered_so() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.slow_log = true;
    bench.frame(1, &json!({"type": "new_session"}));
    forgotten(&mut bench, true);
    bench.refuse_write();
    let ack = bench.of_type(1, "ack").pop().unwrap();
    assert_eq!((&ack["kind"], &ack["ok"]), (&json!("new_session"), &json!(false)));
    bench.frame(1, &json!({"type": "new_session"}));
    forgotten(&mut bench, true);
    assert_eq!(bench.of_type(1, "ack").last().unwrap()["ok"], true, "it can be tried again");
}

#[test]
fn b2_nothing_later_inherits_what_a_boundary_dropped() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.begin(1, "m1");
    bench.frame(1, &json!({"type": "new_session"}));
    let late = bench.call("new_workflow", json!({}));
    assert_eq!(*bench.refusal(late), Refusal::ConversationClosed, "the agent that calls is being stopped");
    forgotten(&mut bench, true);
    let idle = bench.outline();
    assert_eq!(bench.refusal(idle).code(), "workflow_instance_mismatch", "no stamp is left");
    // An event alone finds no origin, and two tabs.
    bench.frame(2, &json!({"type": "agent_event", "kind": "run_error", "error": "no"}));
    bench.ready("claude");
    let call = bench.outline();
    assert!(matches!(
        bench.refusal(call),
        Refusal::TargetAmbiguous { reason: crate::refusal::NoTarget::NothingToInherit, .. }
    ));
    bench.end("claude");
    // The line about the workflow is said anew.
    bench.begin(1, "m2");
    assert!(bench.prompts().last().unwrap().contains("You are now on workflow"));
}

#[test]
fn b2_an_earlier_session_is_put_in_place() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.frame(1, &json!({"type": "resume_session", "session_id": "earlier"}));
    let session = Some("earlier".into());
    assert_eq!(bench.count(|output| matches!(output, Output::Forget { session: of, .. } if *of == session)), 1);
    forgotten(&mut bench, true);
    let ack = bench.of_type(1, "ack").pop().unwrap();
    assert_eq!((&ack["kind"], &ack["durable"]), (&json!("resume_session"), &json!(true)));
    assert_eq!(bench.of_type(1, "session").last().unwrap()["session_id"], "earlier");
}

#[test]
fn b1_a_rewind_closes_everything_and_every_tab_reads_what_is_kept() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.tell(Input::Agent { backend: "claude".into(), event: AgentEvent::Session { id: "s1".into() } });
    bench.begin(1, "m1");
    let outcome = TurnOutcome::Completed;
    let event = AgentEvent::TurnEnd { outcome, anchor: Some("a1".into()) };
    bench.tell(Input::Agent { backend: "claude".into(), event });
    assert_eq!(bench.kinds("claude"), ["user", "turn_start", "turn_end"]);
    bench.begin(1, "m2");
    let write = bench.widget();
    bench.forget();
    bench.frame(2, &json!({"type": "rewind", "anchor": null, "mid": "m2"}));
    assert_eq!(*bench.refusal(write), Refusal::ConversationClosed);
    let session: Option<crate::id::AgentSessionId> = Some("s1".into());
    let forgets =
        |output: &Output| matches!(output, Output::Forget { session: of, retold: false, .. } if *of == session);
    assert_eq!(bench.count(forgets), 1, "the agent goes back in its own session");
    forgotten(&mut bench, true);
    let boundary = bench.rows[&ConversationKey::new("orchestrator::claude")].last().unwrap().clone();
    assert_eq!(boundary.body["reason"], "rewind");
    assert_eq!((&boundary.body["session_id"], &boundary.body["anchor"]), (&json!("s1"), &json!("a1")));
    assert_eq!(boundary.body["kept"], json!([{"after": 0, "upto": 3}]));
    let ack = bench.of_type(2, "ack").pop().unwrap();
    assert_eq!((&ack["kind"], &ack["ok"]), (&json!("rewind"), &json!(true)));
    for socket in [1, 2] {
        let told = bench.of_type(socket, "transcript").pop().unwrap();
        assert_eq!((&told["kept"], &told["after"]), (&json!([{"after": 0, "upto": 3}]), &json!(6)));
        assert_eq!(spans(&bench, socket), [(0, 3), (6, 7)], "what is kept, then the boundary");
        assert!(bench.of_type(socket, "entry").iter().all(|entry| entry["kind"] != "boundary"), "not twice");
    }
    assert!(bench.unsettled("claude").is_empty());
}

fn spans(bench: &Bench, of: u64) -> Vec<(u64, u64)> {
    let span = |output: &Output| match output {
        Output::Replay { socket, after, upto, .. } if socket.0 == of => Some((after.0, upto.0)),
        _ => None,
    };
    bench.outputs.iter().filter_map(span).collect()
}

#[test]
fn b1_a_tab_that_comes_back_reads_what_the_boundary_keeps_unless_it_saw_it() {
    let mut bench = Bench::new();
    let kept = vec![crate::frame::Span { after: Seq(0), upto: Seq(5) }];
    let restored = crate::router::Restored { newest: Seq(12), start: Seq(10), kept, ..Default::default() };
    bench.tell(Input::Restore { backend: "claude".into(), restored });
    for (socket, after) in [(1, None), (2, Some(3)), (3, Some(9)), (4, Some(10)), (5, Some(12))] {
        bench.open(socket);
        bench.hello(socket, &format!("tab-{socket}"), "w1", &json!({"after": after}));
    }
    for socket in [1, 2, 3] {
        assert_eq!(spans(&bench, socket), [(0, 5), (9, 12)], "{socket} reads it anew");
        let welcome = bench.of_type(socket, "welcome").pop().unwrap();
        assert_eq!((&welcome["after"], &welcome["kept"]), (&json!(9), &json!([{"after": 0, "upto": 5}])));
    }
    assert_eq!(spans(&bench, 4), [(10, 12)]);
    assert_eq!(spans(&bench, 5), []);
    assert_eq!(bench.of_type(4, "welcome")[0].get("kept"), None);
    // A switch of the workflow while it still reads repeats nothing and clears nothing.
    bench.hello(1, "tab-1", "w2", &json!({"after": 3}));
    let welcome = bench.of_type(1, "welcome").pop().unwrap();
    assert_eq!((&welcome["after"], welcome.get("kept")), (&json!(3), None));
    assert_eq!(spans(&bench, 1).len(), 2);
}

#[test]
fn b1_what_is_no_point_changes_nothing() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    for frame in [json!({"type": "rewind", "anchor": "gone"}), json!({"type": "rewind", "anchor": null, "mid": "m9"})] {
        bench.frame(1, &frame);
        let ack = bench.of_type(1, "ack").pop().unwrap();
        assert_eq!((&ack["kind"], &ack["ok"]), (&json!("rewind"), &json!(false)), "{ack}");
    }
    assert_eq!(bench.count(|output| matches!(output, Output::Forget { .. })), 0);
    bench.end("claude");
    assert_eq!(bench.kinds("claude").last(), Some(&"turn_end"), "the turn went on");
}

#[test]
fn b4_a_tab_that_left_meanwhile_cuts_no_conversation() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.frame(1, &json!({"type": "set_backend", "backend": "codex"}));
    let (point, found) = (crate::past::Point::Anchor(None), Ok(Default::default()));
    bench.tell(Input::Recalled { socket: SocketId(1), backend: "claude".into(), point, found });
    assert_eq!(bench.count(|output| matches!(output, Output::Forget { .. })), 0);
    assert_eq!(bench.of_type(1, "ack").last().unwrap()["ok"], false);
}

#[test]
fn b2_without_an_anchor_of_the_agent_a_new_session_is_told_what_is_kept() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.tell(Input::Agent { backend: "claude".into(), event: AgentEvent::Session { id: "s1".into() } });
    for mid in ["m1", "m2"] {
        bench.begin(1, mid);
        bench.end("claude");
    }
    let anchors = bench.of_type(1, "turn_anchor");
    assert_eq!(anchors.iter().map(|frame| &frame["uuid"]).collect::<Vec<_>>(), ["turn:1", "turn:2"]);
    bench.frame(1, &json!({"type": "rewind", "anchor": "turn:1"}));
    assert_eq!(bench.count(|output| matches!(output, Output::Forget { session: None, retold: true, .. })), 1);
    forgotten(&mut bench, true);
    assert_eq!(bench.of_type(1, "session").last().unwrap()["session_id"], Value::Null);
    bench.frame(1, &json!({"type": "rewind", "anchor": null}));
    assert_eq!(bench.count(|output| matches!(output, Output::Forget { session: None, retold: false, .. })), 1);
    forgotten(&mut bench, true);
    assert_eq!(bench.of_type(1, "entry").last().unwrap()["reason"], "rewind", "nothing is kept: it is shown at once");
}

#[test]
fn b1_a_resumed_session_is_shown_again() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.tell(Input::Agent { backend: "claude".into(), event: AgentEvent::Session { id: "s1".into() } });
    bench.begin(1, "m1");
    bench.end("claude");
    bench.frame(1, &json!({"type": "new_session"}));
    forgotten(&mut bench, true);
    bench.forget();
    bench.frame(1, &json!({"type": "resume_session", "session_id": "s1"}));
    forgotten(&mut bench, true);
    assert_eq!(bench.of_type(1, "transcript")[0]["kept"], json!([{"after": 0, "upto": 3}]));
    assert_eq!(bench.of_type(1, "session").last().unwrap()["session_id"], "s1");
    bench.forget();
    bench.frame(1, &json!({"type": "resume_session", "session_id": "log:99"}));
    assert_eq!(bench.of_type(1, "ack").last().unwrap()["code"], "no_such_session");
}

#[test]
fn b3_an_agent_is_retired_when_nobody_uses_it_and_its_turn_is_done() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.begin(1, "m1");
    let retired = |bench: &Bench| bench.count(|output| matches!(output, Output::Retire { .. }));
    bench.frame(1, &json!({"type": "set_backend", "backend": "codex"}));
    assert_eq!(retired(&bench), 0, "the other tab still uses it");
    bench.frame(2, &json!({"type": "set_backend", "backend": "codex"}));
    assert_eq!(retired(&bench), 0, "its turn still runs");
    bench.end("claude");
    assert_eq!(retired(&bench), 1);
    assert_eq!(bench.count(|output| matches!(output, Output::Forget { .. })), 0, "its session is kept");
}

#[test]
fn b3_who_comes_back_in_time_keeps_the_agent() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.frame(1, &json!({"type": "set_backend", "backend": "codex"}));
    bench.frame(1, &json!({"type": "set_backend", "backend": "claude"}));
    bench.end("claude");
    assert_eq!(bench.count(|output| matches!(output, Output::Retire { backend } if backend.as_str() == "claude")), 0);
}

#[test]
fn b3_a_connection_that_goes_retires_nothing() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.end("claude");
    bench.close(1);
    assert_eq!(bench.count(|output| matches!(output, Output::Retire { .. })), 0);
}

#[test]
fn b4_a_switch_moves_no_other_tab_and_closes_its_own_questions_only() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.begin(2, "m1");
    let ask = bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]}));
    bench.forget();
    bench.frame(1, &json!({"type": "set_backend", "backend": "codex"}));
    assert_eq!(bench.frames(2).len(), 0, "nobody else hears of it");
    assert_eq!(bench.of_type(1, "welcome")[0]["conversation"], "orchestrator::codex");
    assert!(bench.answer(ask).is_none());
    bench.frame(2, &json!({"type": "set_backend", "backend": "codex"}));
    assert_eq!(*bench.refusal(ask), Refusal::ConversationClosed);
}

#[test]
fn b5_one_mapping_for_names_in_hellos_and_switches() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.hello(1, "tab-1", "w1", &json!({"backend": " CODEX "}));
    bench.open(2);
    bench.hello(2, "tab-2", "w2", &json!({"backend": "nobody"}));
    assert_eq!(bench.of_type(1, "welcome")[0]["conversation"], "orchestrator::codex");
    assert_eq!(bench.of_type(2, "welcome")[0]["conversation"], "orchestrator::claude");
    bench.frame(1, &json!({"type": "set_backend", "backend": "nobody"}));
    let ack = bench.of_type(1, "ack").into_iter().find(|ack| ack["kind"] == "set_backend").unwrap();
    assert_eq!(ack["backend"], "claude");
    assert!(ack["message"].as_str().unwrap().contains("nobody"));
    // A hello without a wish never changes anything (report 4).
    bench.frame(1, &json!({"type": "set_backend", "backend": "codex"}));
    bench.close(1);
    bench.join(3, "tab-1", "w1");
    assert_eq!(bench.of_type(3, "welcome")[0]["conversation"], "orchestrator::codex");
}
