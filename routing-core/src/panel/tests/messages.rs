//! The person's messages, from the composer to the end of their turn.

use super::*;
use MessageState::{Accepted, Cancelled, Done, Failed, Seen, Sent, Waiting};

impl Bench {
    fn message_states(&mut self) -> Vec<(String, MessageState)> {
        self.shown()
            .into_iter()
            .filter_map(|change| match change {
                UiChange::Message { mid, state, .. } => Some((mid.to_string(), state)),
                _ => None,
            })
            .collect()
    }

    fn ack(&mut self, kind: &str, mid: &str) {
        self.daemon(json!({"type": "ack", "ok": true, "kind": kind, "mid": mid}));
    }

    fn row(&mut self, seq: u64, kind: &str, more: Value) {
        let mut frame = json!({"type": "entry", "seq": seq, "kind": kind});
        for (name, value) in more.as_object().unwrap() {
            frame[name] = value.clone();
        }
        self.daemon(frame);
    }
}

fn of(mid: &str, states: &[MessageState]) -> Vec<(String, MessageState)> {
    states.iter().map(|state| (mid.to_owned(), *state)).collect()
}

#[test]
fn d6_a_message_is_kept_until_it_is_in_the_log_and_sent_again_under_its_id() {
    let mut bench = Bench::new(config());
    bench.front(Some(saved("w1", "a")));
    bench.send("m1");
    assert_eq!(bench.message_states(), of("m1", &[Waiting]));
    bench.input(PanelInput::Start);
    bench.shake(0);
    assert_eq!(bench.kinds(), ["hello", "user_message"]);
    bench.reconnect(0);
    let again = bench.sent().pop().unwrap();
    assert_eq!((&again["mid"], &again["text"]), (&json!("m1"), &json!("text of m1")));
    bench.ack("working", "m1");
    bench.reconnect(0);
    assert_eq!(bench.kinds(), ["hello"]);
    assert_eq!(bench.message_states(), of("m1", &[Sent, Sent, Accepted]));
}

#[test]
fn t1_a_message_acts_on_what_was_in_front_when_it_was_composed() {
    let mut bench = Bench::connected();
    bench.close(1006);
    bench.send("m1");
    bench.front(Some(saved("w2", "b")));
    bench.input(PanelInput::Reconnect);
    bench.shake(0);
    let message = bench.sent().pop().unwrap();
    assert_eq!((&message["mid"], &message["workflow_uuid"]), (&json!("m1"), &json!("w1")));
    let labels: Vec<Option<String>> = bench
        .shown()
        .into_iter()
        .filter_map(|change| match change {
            UiChange::Message { acts_on, .. } => Some(acts_on),
            _ => None,
        })
        .collect();
    assert_eq!(labels, [Some("a".to_owned()), Some("a".to_owned())]);
}

#[test]
fn t1_a_message_sent_while_the_canvas_loads_waits_to_know_what_it_acts_on() {
    let mut bench = Bench::connected();
    bench.front(None);
    bench.send("m1");
    bench.send("m2");
    assert!(bench.sent().is_empty());
    bench.front(Some(saved("w2", "b")));
    let frames = bench.sent();
    assert_eq!(frames[0]["type"], "hello");
    assert_eq!(frames[1]["workflow_uuid"], "w2");
    assert_eq!(frames[2]["mid"], "m2");
}

#[test]
fn t1_a_message_that_waited_in_vain_goes_without_a_stamp_and_claims_no_workflow() {
    let mut bench = Bench::connected();
    bench.front(None);
    bench.send("m1");
    assert_eq!(bench.tick(), "unstamped message");
    let frames = bench.sent();
    assert_eq!(frames[0]["type"], "hello");
    assert_eq!(frames[0].get("workflow"), None);
    assert_eq!((&frames[1]["mid"], frames[1].get("workflow_uuid")), (&json!("m1"), None));
    assert_eq!(bench.panel.poll_timeout(), None);
}

#[test]
fn a_message_is_followed_to_the_end_of_its_turn() {
    let mut bench = Bench::connected();
    bench.send("m1");
    bench.ack("working", "m1");
    bench.row(1, "user", json!({"mid": "m1", "text": "text of m1"}));
    bench.ack("seen", "m1");
    bench.row(2, "turn_start", json!({"mids": ["m1"]}));
    bench.row(3, "turn_end", json!({"outcome": "completed", "mids": ["m1"]}));
    assert_eq!(bench.message_states(), of("m1", &[Waiting, Sent, Accepted, Seen, Done]));
}

#[test]
fn b1_a_boundary_ends_what_waited_in_every_panel() {
    let mut bench = Bench::connected();
    bench.send("m1");
    bench.ack("working", "m1");
    bench.row(1, "user", json!({"mid": "m1"}));
    bench.send("m2");
    bench.row(2, "boundary", json!({"reason": "new_session"}));
    let mut states = of("m1", &[Waiting, Sent, Accepted]);
    states.extend(of("m2", &[Waiting, Sent]));
    states.extend(of("m1", &[Done]));
    // What was not acknowledged is in the log after the boundary, if at all.
    assert_eq!(bench.message_states(), states);
}

#[test]
fn b1_a_boundary_that_was_missed_ends_what_waited_before_it() {
    let mut bench = Bench::connected();
    bench.send("m1");
    bench.ack("working", "m1");
    bench.row(1, "user", json!({"mid": "m1"}));
    bench.send("m2");
    bench.reconnect(5);
    bench.message_states();
    // The acknowledgement of the second was lost with the first connection, and so was all that became of it.
    bench.daemon(json!({"type": "ack", "ok": true, "kind": "working", "mid": "m2", "settled": true}));
    assert_eq!(bench.message_states(), of("m2", &[Done]));
    bench.reconnect(5);
    assert_eq!(bench.kinds().iter().filter(|kind| *kind == "user_message").count(), 3, "m1 once, m2 twice");
}

#[test]
fn f2_rows_tell_what_acknowledgements_on_a_lost_socket_would_have() {
    let mut bench = Bench::connected();
    bench.send("m1");
    bench.close(1006);
    bench.input(PanelInput::Reconnect);
    bench.input(PanelInput::Opened { socket: bench.socket });
    bench.welcome("e1", "orchestrator::claude", 0);
    bench.message_states();
    bench.row(1, "user", json!({"mid": "m1"}));
    bench.row(2, "turn_start", json!({"mids": ["m1"]}));
    bench.row(3, "turn_end", json!({"outcome": "completed", "mids": ["m1"]}));
    assert_eq!(bench.message_states(), of("m1", &[Accepted, Seen, Done]));
    bench.sent();
    bench.daemon(json!({"type": "models", "epoch": "e1", "models": [], "backend": "claude"}));
    assert!(bench.sent().is_empty(), "nothing is left to send");
}

#[test]
fn t8_a_message_that_was_put_back_waits_again() {
    let mut bench = Bench::connected();
    bench.send("m1");
    bench.ack("seen", "m1");
    bench.message_states();
    bench.row(1, "turn_end", json!({"outcome": "put_back", "mids": ["m1"]}));
    assert_eq!(bench.message_states(), of("m1", &[Accepted]));
}

#[test]
fn a_refused_message_says_why_and_can_be_sent_again() {
    let mut bench = Bench::connected();
    bench.send("m1");
    bench.daemon(json!({"type": "nack", "mid": "m1", "code": "backlog_full", "message": "Wait."}));
    let failed = bench.shown().pop().unwrap();
    assert!(matches!(
        failed,
        UiChange::Message { state: Failed, code: Some(code), message: Some(words), .. }
            if code == "backlog_full" && words == "Wait."
    ));
    bench.sent();
    bench.input(PanelInput::Resend { mid: "m1".into() });
    assert_eq!(bench.sent()[0]["mid"], "m1");
    bench.daemon(json!({"type": "nack", "code": "protocol", "message": "About no message."}));
    assert!(bench.shown().contains(&UiChange::Notice { code: "protocol".into(), text: "About no message.".into() }));
}

#[test]
fn what_would_not_fit_a_frame_is_refused_before_it_is_sent() {
    let mut bench = Bench::connected();
    bench.input(PanelInput::Send { mid: "m1".into(), text: "x".repeat(500_000), context: None, now: false });
    assert!(bench.sent().is_empty());
    assert_eq!(bench.message_states(), of("m1", &[Failed]));
}

#[test]
fn taking_back_what_never_left_needs_nobody() {
    let mut bench = Bench::connected();
    bench.close(1006);
    bench.send("m1");
    bench.input(PanelInput::Cancel { mid: "m1".into() });
    assert_eq!(bench.message_states(), of("m1", &[Waiting, Cancelled]));
    bench.input(PanelInput::Reconnect);
    bench.shake(0);
    assert_eq!(bench.kinds(), ["hello"]);
}

#[test]
fn taking_back_what_waits_at_the_daemon_asks_it() {
    let mut bench = Bench::connected();
    bench.send("m1");
    bench.ack("working", "m1");
    bench.out.clear();
    bench.input(PanelInput::Cancel { mid: "m1".into() });
    assert_eq!(bench.sent()[0], json!({"type": "cancel_message", "mid": "m1"}));
    assert!(bench.message_states().is_empty(), "not before the daemon says so");
    bench.daemon(json!({"type": "ack", "ok": true, "kind": "cancel_message", "mid": "m1", "removed": true}));
    assert_eq!(bench.message_states(), of("m1", &[Cancelled]));
    bench.row(1, "cancelled", json!({"mid": "m1", "of": 1}));
    assert!(bench.message_states().is_empty());
}

#[test]
fn taking_back_too_late_is_said() {
    let mut bench = Bench::connected();
    bench.send("m1");
    bench.ack("working", "m1");
    bench.input(PanelInput::Cancel { mid: "m1".into() });
    bench.ack("seen", "m1");
    bench.out.clear();
    bench.daemon(json!({"type": "ack", "ok": true, "kind": "cancel_message", "mid": "m1", "removed": false}));
    assert_eq!(bench.shown(), [UiChange::Notice { code: "cancel_too_late".into(), text: String::new() }]);
}

#[test]
fn taking_back_what_may_have_arrived_is_asked_instead_of_sent_again() {
    let mut bench = Bench::connected();
    bench.send("m1");
    bench.close(1006);
    bench.input(PanelInput::Cancel { mid: "m1".into() });
    bench.input(PanelInput::Reconnect);
    bench.out.clear();
    bench.shake(0);
    assert_eq!(bench.kinds(), ["hello", "cancel_message"]);
    bench.daemon(json!({"type": "ack", "ok": true, "kind": "cancel_message", "mid": "m1", "removed": false}));
    assert_eq!(bench.message_states().last(), Some(&("m1".to_owned(), Cancelled)));
}

#[test]
fn the_order_of_what_waits_can_be_changed() {
    let mut bench = Bench::connected();
    for mid in ["m1", "m2", "m3"] {
        bench.send(mid);
        bench.ack("working", mid);
    }
    bench.out.clear();
    bench.input(PanelInput::Reorder { order: vec!["m3".into(), "m1".into()] });
    assert_eq!(bench.sent(), [json!({"type": "reorder", "order": ["m3", "m1", "m2"]})]);
    assert_eq!(bench.shown(), [UiChange::Queue { order: vec!["m3".into(), "m1".into(), "m2".into()] }]);
}

#[test]
fn t8_send_now_interrupts_first_and_only_what_works() {
    let mut bench = Bench::connected();
    let send = |mid: &str| PanelInput::Send { mid: mid.into(), text: "x".into(), context: None, now: true };
    bench.input(send("m1"));
    assert_eq!(bench.kinds(), ["user_message"]);
    bench.daemon(json!({"type": "turn", "state": "working"}));
    bench.input(send("m2"));
    let frames = bench.sent();
    assert_eq!(frames[0], json!({"type": "interrupt", "requeue": true}));
    assert_eq!(frames[1]["mid"], "m2");
    bench.input(PanelInput::Stop);
    assert_eq!(bench.sent(), [json!({"type": "interrupt", "requeue": false})]);
}
