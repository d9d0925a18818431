//! Hello, handshake, back-off, and when not to come back.

use super::*;
use crate::id::Seq;

#[test]
fn a_hello_says_who_is_there_and_what_is_in_front() {
    let mut bench = Bench::new(PanelConfig { backend: Some("codex".into()), ..config() });
    bench.front(Some(saved("w1", "a")));
    bench.input(PanelInput::Start);
    assert!(bench.sent().is_empty(), "nothing goes out before the socket is open");
    bench.input(PanelInput::Opened { socket: 1 });
    let hello = bench.hello();
    assert_eq!(hello.protocol, Some(1));
    assert_eq!(hello.tab_id.as_deref(), Some("tab-1"));
    assert_eq!(hello.panel_version.as_deref(), Some("1.2.3"));
    assert_eq!(hello.backend.as_deref(), Some("codex"));
    assert_eq!(hello.after, None);
    assert_eq!(hello.workflow, Some(saved("w1", "a")));
    assert_eq!(hello.title.as_deref(), Some("a"));
}

#[test]
fn connected_means_welcome_and_models_in_any_order() {
    let mut bench = Bench::new(config());
    bench.input(PanelInput::Start);
    bench.input(PanelInput::Opened { socket: 1 });
    assert_eq!(bench.states(), [ConnectionState::Connecting]);
    bench.daemon(json!({"type": "models", "epoch": "e1", "models": [], "backend": "claude"}));
    assert!(bench.states().is_empty());
    bench.welcome("e1", "orchestrator::claude", 0);
    assert_eq!(bench.states(), [ConnectionState::Connected]);
}

#[test]
fn s3_every_change_in_front_is_told_at_once_and_before_any_message() {
    let mut bench = Bench::connected();
    bench.front(Some(saved("w2", "b")));
    bench.send("m1");
    let frames = bench.sent();
    assert_eq!(frames[0]["type"], "hello");
    assert_eq!(frames[0]["workflow"]["uuid"], "w2");
    assert_eq!(frames[1]["type"], "user_message");
    assert_eq!(frames[1]["workflow_uuid"], "w2");
    // A save keeps the instance and changes its name.
    bench.front(Some(saved("w2", "renamed")));
    assert_eq!(bench.hello().workflow, Some(saved("w2", "renamed")));
    bench.front(Some(saved("w2", "renamed")));
    bench.front(None);
    assert!(bench.sent().is_empty(), "nothing new to tell");
}

#[test]
fn a_change_during_the_handshake_is_told_too() {
    let mut bench = Bench::new(config());
    bench.input(PanelInput::Start);
    bench.input(PanelInput::Opened { socket: 1 });
    bench.front(Some(saved("w1", "a")));
    assert_eq!(bench.kinds(), ["hello", "hello"]);
    bench.welcome("e1", "orchestrator::claude", 0);
    bench.welcome("e1", "orchestrator::claude", 0);
    assert!(!bench.shown().contains(&UiChange::Cleared));
}

#[test]
fn pauses_grow_to_fifteen_seconds_and_a_welcome_resets_them() {
    let mut bench = Bench::new(config());
    bench.input(PanelInput::Start);
    let mut pauses = Vec::new();
    for _ in 0..6 {
        bench.close(1006);
        let (when, why) = bench.panel.poll_timeout().unwrap();
        assert_eq!(why, "reconnect");
        pauses.push(when - bench.now);
        assert_eq!(bench.tick(), "reconnect");
    }
    assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
    bench.shake(0);
    bench.close(1006);
    assert_eq!(bench.panel.poll_timeout(), Some((bench.now + 1_000, "reconnect")));
}

#[test]
fn final_closes_stay_down_until_the_person_asks() {
    for code in [1008, 4000, 4001] {
        let mut bench = Bench::connected();
        bench.close(code);
        assert_eq!(bench.panel.poll_timeout(), None, "{code}");
        let down = bench.shown().pop().unwrap();
        let wanted = UiChange::Connection {
            state: ConnectionState::Down,
            reason: Some("bye".into()),
            code: Some(code),
            retry_at: None,
        };
        assert_eq!(down, wanted);
        bench.input(PanelInput::Reconnect);
        bench.shake(0);
        assert!(bench.states().contains(&ConnectionState::Connected));
    }
    let mut bench = Bench::connected();
    bench.close(1013);
    assert!(bench.panel.poll_timeout().is_some(), "try again later is not final");
}

#[test]
fn a_late_hello_of_its_own_earlier_socket_keeps_no_panel_away() {
    let mut bench = Bench::connected();
    bench.reconnect(0);
    // The hello of the first socket was held up on the way and comes after the second's.
    bench.close(4001);
    assert_eq!(bench.tick(), "reconnect");
    bench.shake(0);
    assert_eq!(bench.states().last(), Some(&ConnectionState::Connected));
    bench.close(4001);
    assert_eq!(bench.states(), [ConnectionState::Down], "another page of this browser tab");
}

#[test]
fn a_silent_daemon_is_given_up_and_tried_again() {
    let mut bench = Bench::new(config());
    bench.input(PanelInput::Start);
    bench.input(PanelInput::Opened { socket: 1 });
    assert_eq!(bench.tick(), "handshake");
    assert!(bench.out.contains(&PanelOutput::Disconnect { socket: 1 }));
    assert_eq!(bench.tick(), "reconnect");
    assert_eq!(bench.socket, 2);
    assert_eq!(bench.tick(), "connect");
}

#[test]
fn what_an_old_socket_still_says_is_ignored() {
    let mut bench = Bench::connected();
    bench.close(1006);
    bench.input(PanelInput::Reconnect);
    bench.out.clear();
    bench.input(PanelInput::Frame { socket: 1, text: r#"{"type":"turn","state":"working"}"#.into() });
    bench.input(PanelInput::Closed { socket: 1, code: 4000, reason: String::new() });
    bench.input(PanelInput::Opened { socket: 1 });
    assert!(bench.out.is_empty(), "{:?}", bench.out);
}

#[test]
fn an_overloaded_daemon_names_the_pause() {
    let mut bench = Bench::connected();
    bench.daemon(json!({"type": "overloaded", "dropped": 3, "retry_after_ms": 5_000}));
    bench.close(1013);
    assert_eq!(bench.panel.poll_timeout(), Some((bench.now + 5_000, "reconnect")));
}

#[test]
fn b4_a_switch_of_the_backend_shows_the_other_conversation_from_its_start() {
    let mut bench = Bench::connected();
    bench.daemon(json!({"type": "entry", "seq": 1, "kind": "say", "text": "old"}));
    bench.daemon(json!({"type": "workflow_target", "target": {"mode": "pinned", "path": "workflows/z.json"}}));
    bench.out.clear();
    bench.input(PanelInput::SetBackend { backend: " codex ".into() });
    assert_eq!(bench.sent()[0]["backend"], "codex");
    bench.daemon(json!({"type": "ack", "ok": true, "kind": "set_backend", "backend": "codex"}));
    bench.welcome("e1", "orchestrator::codex", 0);
    bench.daemon(json!({"type": "entry", "seq": 1, "kind": "say", "text": "new"}));
    let shown = bench.shown();
    assert_eq!(shown.iter().filter(|change| **change == UiChange::Cleared).count(), 1);
    assert!(shown.iter().any(|change| matches!(change, UiChange::Row { row } if row.text == "new")));
    let acts_on = shown.iter().rev().find(|change| matches!(change, UiChange::ActsOn { .. })).unwrap();
    assert!(matches!(acts_on, UiChange::ActsOn { pinned: false, .. }), "a pin belongs to its conversation");
    // The choice holds over a reconnect.
    bench.close(1006);
    bench.input(PanelInput::Reconnect);
    bench.input(PanelInput::Opened { socket: bench.socket });
    let hello = bench.hello();
    assert_eq!((hello.backend.as_deref(), hello.after), (Some("codex"), Some(Seq(1))));
}

#[test]
fn b5_a_name_that_fell_to_the_default_is_told() {
    let mut bench = Bench::connected();
    let message = "`cdx` is not configured; claude is used.";
    bench.daemon(json!({"type": "ack", "ok": true, "kind": "set_backend", "backend": "claude", "message": message}));
    assert_eq!(bench.shown(), [UiChange::Notice { code: "set_backend".into(), text: message.into() }]);
}

#[test]
fn b4_a_refused_switch_changes_nothing() {
    let mut bench = Bench::connected();
    bench.daemon(json!({"type": "ack", "ok": false, "kind": "set_backend", "message": "no such agent"}));
    let shown = bench.shown();
    let told = UiChange::Notice { code: "set_backend_refused".into(), text: "no such agent".into() };
    assert_eq!(shown, [told]);
}
