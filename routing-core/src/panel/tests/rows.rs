//! The transcript: in order, gapless, once; and the text that is still being written.

use super::*;
use crate::id::Seq;

fn entry(seq: u64, kind: &str, more: Value) -> Value {
    let mut frame = json!({"type": "entry", "seq": seq, "kind": kind});
    for (name, value) in more.as_object().unwrap() {
        frame[name] = value.clone();
    }
    frame
}

fn seqs(shown: &[UiChange]) -> Vec<u64> {
    shown
        .iter()
        .filter_map(|change| match change {
            UiChange::Row { row } => row.seq.map(|seq| seq.0),
            _ => None,
        })
        .collect()
}

#[test]
fn f2_rows_come_once_and_in_order() {
    let mut bench = Bench::connected();
    for seq in [1, 2, 2, 1, 3] {
        bench.daemon(entry(seq, "say", json!({"text": "x"})));
    }
    assert_eq!(seqs(&bench.shown()), [1, 2, 3]);
    bench.close(1006);
    bench.input(PanelInput::Reconnect);
    bench.input(PanelInput::Opened { socket: bench.socket });
    assert_eq!(bench.hello().after, Some(Seq(3)));
    bench.welcome("e1", "orchestrator::claude", 3);
    bench.daemon(entry(3, "say", json!({})));
    bench.daemon(entry(4, "say", json!({})));
    let shown = bench.shown();
    assert_eq!(seqs(&shown), [4]);
    assert!(!shown.contains(&UiChange::Cleared));
}

#[test]
fn b1_a_rewound_transcript_is_read_anew_and_has_no_gap() {
    let mut bench = Bench::connected();
    for seq in 1..=6 {
        bench.daemon(entry(seq, "say", json!({"text": "x"})));
    }
    bench.shown();
    let kept = json!([{"after": 0, "upto": 1}, {"after": 2, "upto": 3}]);
    bench.daemon(json!({"type": "transcript", "kept": kept, "after": 6}));
    for seq in [1, 3] {
        bench.daemon(entry(seq, "say", json!({"text": "x"})));
    }
    bench.daemon(entry(7, "boundary", json!({"reason": "rewind", "kept": kept})));
    bench.daemon(entry(8, "say", json!({"text": "y"})));
    let shown = bench.shown();
    assert_eq!(seqs(&shown), [1, 3, 7, 8]);
    assert_eq!(shown.iter().filter(|change| **change == UiChange::Cleared).count(), 1, "the boundary clears nothing");
    assert_eq!(bench.socket, 1, "nothing was missing");
    // A tab that comes back before it saw the boundary reads all of it, in place of what it shows.
    bench.close(1006);
    bench.input(PanelInput::Reconnect);
    bench.input(PanelInput::Opened { socket: bench.socket });
    bench.daemon(json!({
        "type": "welcome", "protocol": 1, "epoch": "e1", "conversation": "orchestrator::claude", "after": 9,
        "kept": [{"after": 4, "upto": 5}], "tab": "t1", "capabilities": [], "limits": {},
    }));
    bench.daemon(entry(5, "say", json!({"text": "z"})));
    bench.daemon(entry(10, "boundary", json!({"reason": "resume_session", "kept": [{"after": 4, "upto": 5}]})));
    let shown = bench.shown();
    assert_eq!(seqs(&shown), [5, 10]);
    assert!(shown.contains(&UiChange::Cleared));
}

#[test]
fn b1_a_hole_within_what_is_kept_is_read_again() {
    let mut bench = Bench::connected();
    bench.daemon(json!({"type": "transcript", "kept": [{"after": 0, "upto": 3}], "after": 6}));
    bench.daemon(entry(1, "say", json!({})));
    bench.daemon(entry(7, "say", json!({})));
    assert!(bench.out.contains(&PanelOutput::Disconnect { socket: 1 }));
}

#[test]
fn b1_answers_about_the_past_belong_to_the_newest_request() {
    let mut bench = Bench::connected();
    bench.input(PanelInput::Search { words: "a".into() });
    bench.input(PanelInput::Search { words: "b".into() });
    bench.shown();
    bench.daemon(json!({"type": "history_found", "cid": "h1", "hits": []}));
    assert_eq!(bench.shown(), []);
    bench.daemon(json!({"type": "history_found", "cid": "h2", "hits": [], "more": true}));
    assert_eq!(bench.shown(), [UiChange::Found { hits: Vec::new(), more: true, error: None }]);
    bench.input(PanelInput::Export { format: crate::frame::ExportFormat::Md, session_id: None });
    for (text, last) in [("a", false), ("b", true), ("c", true)] {
        bench.daemon(json!({"type": "history_export", "cid": "h3", "name": "n.md", "text": text, "last": last}));
    }
    assert_eq!(bench.shown(), [UiChange::Exported { name: "n.md".into(), text: "ab".into() }]);
}

#[test]
fn f2_a_missing_row_is_read_again_over_a_new_socket() {
    let mut bench = Bench::connected();
    bench.daemon(entry(1, "say", json!({})));
    bench.daemon(entry(3, "say", json!({})));
    assert!(bench.out.contains(&PanelOutput::Disconnect { socket: 1 }));
    assert_eq!(bench.socket, 2);
    bench.input(PanelInput::Opened { socket: 2 });
    assert_eq!(bench.hello().after, Some(Seq(1)));
    bench.welcome("e1", "orchestrator::claude", 1);
    bench.daemon(entry(2, "say", json!({})));
    bench.daemon(entry(3, "say", json!({})));
    assert_eq!(seqs(&bench.shown()), [1, 2, 3]);
}

#[test]
fn a_row_that_nobody_has_is_told_and_does_not_end_the_conversation() {
    let mut bench = Bench::connected();
    for _ in 0..3 {
        bench.daemon(entry(2, "say", json!({})));
        bench.shake(0);
    }
    let shown = bench.shown();
    assert_eq!(seqs(&shown), [2]);
    assert!(shown.contains(&UiChange::Notice { code: "log_gap".into(), text: String::new() }));
}

#[test]
fn a_welcome_that_begins_later_or_of_another_log_starts_over() {
    let mut bench = Bench::connected();
    bench.daemon(entry(1, "say", json!({})));
    bench.shown();
    // New chat elsewhere while this tab was away: the log goes on from the boundary.
    bench.reconnect(7);
    bench.daemon(entry(8, "say", json!({})));
    let shown = bench.shown();
    assert!(shown.contains(&UiChange::Cleared));
    assert_eq!(seqs(&shown), [8]);
    // The daemon's log is shorter than what is shown: it is another one.
    bench.close(1006);
    bench.input(PanelInput::Reconnect);
    bench.input(PanelInput::Opened { socket: bench.socket });
    bench.sent();
    bench.welcome("e1", "orchestrator::claude", 2);
    assert!(bench.shown().contains(&UiChange::Cleared));
    bench.input(PanelInput::Opened { socket: bench.socket });
    assert_eq!(bench.hello().after, None);
}

#[test]
fn rows_in_flight_during_a_second_hello_are_no_reason_to_start_over() {
    let mut bench = Bench::connected();
    bench.daemon(entry(1, "say", json!({})));
    bench.front(Some(saved("w2", "b")));
    assert_eq!(bench.hello().after, Some(Seq(1)));
    bench.daemon(entry(2, "say", json!({})));
    bench.welcome("e1", "orchestrator::claude", 1);
    bench.daemon(entry(3, "say", json!({})));
    let shown = bench.shown();
    assert_eq!(seqs(&shown), [1, 2, 3]);
    assert!(!shown.contains(&UiChange::Cleared));
}

#[test]
fn b1_a_boundary_clears_the_view() {
    let mut bench = Bench::connected();
    bench.daemon(entry(1, "say", json!({"text": "before"})));
    bench.daemon(json!({"type": "stream", "phase": "text", "id": "b1", "delta": "x"}));
    bench.daemon(entry(2, "boundary", json!({})));
    let shown = bench.shown();
    let cleared = shown.iter().position(|change| *change == UiChange::Cleared).unwrap();
    assert!(matches!(&shown[cleared + 2], UiChange::Row { row } if row.kind == RowKind::Boundary));
    // A block of before is no block of after.
    bench.daemon(json!({"type": "stream", "phase": "end", "id": "b1"}));
    assert!(bench.shown().is_empty());
}

#[test]
fn streamed_text_gives_way_to_its_committed_row() {
    let mut bench = Bench::connected();
    bench.daemon(json!({"type": "stream", "phase": "text", "id": "b1", "delta": "Hel"}));
    bench.daemon(json!({"type": "stream", "phase": "text", "id": "b1", "delta": "lo"}));
    bench.daemon(json!({"type": "stream", "phase": "end", "id": "b1"}));
    bench.daemon(entry(1, "say", json!({"text": "Hello", "id": "b1"})));
    let shown = bench.shown();
    let delta = |text: &str| UiChange::Delta { id: "b1".into(), thought: false, text: text.into(), gap: false };
    assert_eq!(shown[..2], [delta("Hel"), delta("lo")]);
    assert_eq!(shown[2..4], [UiChange::BlockEnd { id: "b1".into() }, UiChange::BlockGone { id: "b1".into() }]);
    assert!(matches!(&shown[4], UiChange::Row { row } if row.text == "Hello" && row.block.as_deref() == Some("b1")));
    assert_eq!(shown.len(), 5);
}

#[test]
fn thoughts_and_unfinished_blocks_go_with_their_turn() {
    let mut bench = Bench::connected();
    bench.daemon(json!({"type": "turn", "state": "working"}));
    bench.daemon(json!({"type": "stream", "phase": "think", "id": "t1", "delta": "hm"}));
    bench.daemon(json!({"type": "turn", "state": "done"}));
    let shown = bench.shown();
    assert!(shown.contains(&UiChange::BlockGone { id: "t1".into() }));
    assert_eq!(shown.last(), Some(&UiChange::BlockGone { id: "t1".into() }));
    assert!(shown.contains(&UiChange::Working { working: false }));
}

#[test]
fn text_that_was_missed_is_marked() {
    let mut bench = Bench::connected();
    bench.daemon(json!({"type": "stream", "phase": "text", "id": "b1", "delta": "one"}));
    bench.reconnect(0);
    bench.shown();
    bench.daemon(json!({"type": "stream", "phase": "text", "id": "b1", "delta": "three"}));
    bench.daemon(json!({"type": "stream", "phase": "text", "id": "b1", "delta": "four"}));
    let gaps: Vec<bool> = bench
        .shown()
        .into_iter()
        .filter_map(|change| match change {
            UiChange::Delta { gap, .. } => Some(gap),
            _ => None,
        })
        .collect();
    assert_eq!(gaps, [true, false]);
}

#[test]
fn whether_the_agent_works_is_told_anew_to_each_socket() {
    let mut bench = Bench::connected();
    bench.daemon(json!({"type": "turn", "state": "working"}));
    assert_eq!(bench.shown(), [UiChange::Working { working: true }]);
    // The turn ended while the tab was away, and its row says so to nobody who asks after it.
    bench.reconnect(0);
    assert!(bench.shown().contains(&UiChange::Working { working: false }));
    // Turns of long ago that are read again do not work now.
    bench.daemon(entry(1, "turn_start", json!({"turn": 1, "mids": []})));
    assert!(!bench.shown().contains(&UiChange::Working { working: true }));
}

#[test]
fn rows_say_where_a_message_came_from() {
    let mut bench = Bench::connected();
    bench.daemon(entry(1, "user", json!({"text": "a", "mid": "m1", "origin": {"tab": "t1", "title": "mine"}})));
    bench.daemon(entry(
        2,
        "user",
        json!({"text": "b", "origin": {"tab": "t2", "workflow": {"uuid": "w", "title": "theirs"}}}),
    ));
    bench.daemon(entry(3, "action", json!({"name": "panel_run", "detail": "batch 2"})));
    bench.daemon(entry(4, "turn_end", json!({"outcome": "interrupted"})));
    bench.daemon(entry(5, "from_the_future", json!({"text": "?"})));
    let rows: Vec<Row> = bench
        .shown()
        .into_iter()
        .filter_map(|change| match change {
            UiChange::Row { row } => Some(row),
            _ => None,
        })
        .collect();
    assert_eq!((rows[0].workflow.as_deref(), rows[0].elsewhere), (Some("mine"), false));
    assert_eq!((rows[1].workflow.as_deref(), rows[1].elsewhere), (Some("theirs"), true));
    assert_eq!((rows[2].name.as_deref(), rows[2].detail.as_deref()), (Some("panel_run"), Some("batch 2")));
    assert_eq!(rows[3].outcome.as_deref(), Some("interrupted"));
    assert_eq!(rows[4].kind, RowKind::Other);
}

#[test]
fn the_daemons_own_words_are_shown_and_in_no_log() {
    let mut bench = Bench::connected();
    bench.daemon(json!({"type": "say", "text": "The disk is full."}));
    let shown = bench.shown();
    assert!(matches!(&shown[..], [UiChange::Row { row }] if row.seq.is_none() && row.kind == RowKind::Notice));
    bench.daemon(json!({"type": "echo", "text": "committed rows come as entries here"}));
    bench.daemon(json!({"type": "from_the_future"}));
    assert!(bench.shown().is_empty());
    bench.input(PanelInput::Frame { socket: bench.socket, text: "{".into() });
    assert!(matches!(&bench.shown()[..], [UiChange::Notice { code, .. }] if code == "not_json"));
}
