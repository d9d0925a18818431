//! Frames: what survives, what is refused, and a snapshot of each.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use super::*;
use serde_json::json;

#[test]
fn unknown_types_and_fields_survive_a_round_trip() {
    for text in [
        json!({"type": "from_the_future", "x": {"y": [1, 2]}}),
        json!({"type": "hello", "tab_id": "t", "protocol": 1, "later": {"deep": true}}),
        json!({"rid": "r1", "ok": true, "result": {"a": 1}, "later": 3}),
        json!({"type": "user_message", "text": "hi", "mid": "m1", "images": [{"filename": "a.png"}]}),
    ] {
        let frame = FromPanel::parse(&text.to_string()).unwrap();
        assert_eq!(serde_json::to_value(&frame).unwrap(), text);
    }
    let command =
        json!({"rid": "r", "cmd": "graph_add_node", "timeout_ms": 5, "class_type": "KSampler", "workflow_uuid": "u"});
    let frame = FromDaemon::parse(&command.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&frame).unwrap(), command);
}

#[test]
fn bad_frames_say_what_is_wrong() {
    let code = |text: &str| FromPanel::parse(text).unwrap_err().code();
    assert_eq!(code("nonsense"), "not_json");
    assert_eq!(code("[1]"), "not_json");
    assert_eq!(code("{}"), "no_type");
    assert_eq!(code(r#"{"type":7}"#), "no_type");
    assert_eq!(code(r#"{"type":"user_message"}"#), "bad_field");
    assert_eq!(
        code(&format!("{}1{}", r#"{"type":"x","a":"#.to_owned() + &"[".repeat(70), "]".repeat(70) + "}")),
        "too_deep"
    );
    let error = FromPanel::parse(r#"{"type":"user_message","text":5}"#).unwrap_err();
    assert!(error.to_string().contains("string"), "{error}");
}

#[test]
fn f5_viewers_get_an_allow_list() {
    let stream = FromDaemon::from(Stream { phase: StreamPhase::Text, id: "b".into(), delta: Some("x".into()) });
    assert!(stream.is_for_viewers());
    assert!(!FromDaemon::from(Ack::new(true, "seen")).is_for_viewers());
    assert!(!FromDaemon::parse(r#"{"type":"pair_url","url":"x"}"#).unwrap().is_for_viewers());
}

#[test]
fn every_frame_has_a_snapshot() {
    // One example of each type, as it goes over the wire: a change of the protocol shows here first.
    let mut lines: Vec<String> = Vec::new();
    for text in include_str!("../../../web-fixtures/frames.jsonl").lines().filter(|line| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(text).unwrap();
        let (way, frame) = (value["from"].as_str().unwrap(), &value["frame"]);
        let back = match way {
            "panel" => serde_json::to_value(FromPanel::parse(&frame.to_string()).unwrap()).unwrap(),
            _ => serde_json::to_value(FromDaemon::parse(&frame.to_string()).unwrap()).unwrap(),
        };
        assert_eq!(&back, frame);
        lines.push(format!("{way}: {back}"));
    }
    let kinds = |way: &str| -> std::collections::BTreeSet<String> {
        lines
            .iter()
            .filter_map(|line| line.strip_prefix(&format!("{way}: ")))
            .filter_map(|json| serde_json::from_str::<Value>(json).unwrap()["type"].as_str().map(str::to_owned))
            .collect()
    };
    let all = |types: &[&str]| types.iter().map(|&kind| kind.to_owned()).collect();
    assert_eq!(kinds("panel"), all(PanelFrame::TYPES));
    assert_eq!(kinds("daemon"), all(DaemonFrame::TYPES));
    insta::assert_snapshot!(lines.join("\n"));
}
