//! Exactly once (rule G11).

use super::*;

#[test]
fn report_062_a_retry_is_answered_from_the_ledger_without_a_second_effect() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_add_node", json!({"class_type": "KSampler"}));
    assert_eq!(bench.executes(), ["r1"]);
    bench.close(1006);
    bench.done("r1", json!({"id": 12}));
    bench.out.clear();
    bench.input(PanelInput::Reconnect);
    bench.shake(0);
    bench.sent();
    // Another workflow is in front by now: an answer needs no fence.
    bench.front(Some(saved("w2", "b")));
    bench.sent();
    bench.command("r2", "graph_add_node", json!({"class_type": "KSampler", "retry_of": "r1"}));
    let reply = bench.only_reply();
    assert_eq!((&reply["rid"], &reply["ok"], &reply["result"]["id"]), (&json!("r2"), &json!(true), &json!(12)));
    assert!(bench.executes().is_empty());
}

#[test]
fn g11_a_retry_of_what_was_refused_runs() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_add_node", json!({"workflow_uuid": "w2"}));
    assert_eq!(bench.only_reply()["ok"], false);
    bench.command("r2", "graph_add_node", json!({"retry_of": "r1"}));
    assert_eq!(bench.executes(), ["r2"]);
    bench.done("r2", json!({"id": 4}));
    bench.sent();
    // A further retry may name the first dispatch or the second.
    for (rid, first) in [("r3", "r1"), ("r4", "r2")] {
        bench.command(rid, "graph_add_node", json!({"retry_of": first}));
        assert_eq!(bench.only_reply()["result"]["id"], 4, "{rid}");
    }
    assert!(bench.executes().is_empty());
}

#[test]
fn g11_a_retry_of_what_never_arrived_runs() {
    let mut bench = Bench::connected();
    bench.command("r2", "graph_add_node", json!({"retry_of": "r1"}));
    assert_eq!(bench.executes(), ["r2"]);
}

#[test]
fn g11_a_failure_may_have_left_something_behind_and_is_answered_again() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_add_node", json!({}));
    let outcome = Outcome::Failed { code: "boom".into(), message: "It broke.".into() };
    bench.input(PanelInput::Done { rid: "r1".into(), outcome, workflow: None });
    bench.out.clear();
    bench.command("r2", "graph_add_node", json!({"retry_of": "r1"}));
    assert_eq!(bench.only_reply()["refusal"]["failure"], "boom");
    assert!(bench.executes().is_empty());
}

#[test]
fn report_063_a_retry_of_what_still_runs_is_told_so_at_once() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_run", json!({}));
    bench.command("r2", "graph_add_node", json!({}));
    bench.executes();
    for (rid, first) in [("r3", "r1"), ("r4", "r2")] {
        bench.command(rid, "graph_run", json!({"retry_of": first}));
        let reply = bench.only_reply();
        assert_eq!((&reply["rid"], &reply["refusal"]["code"]), (&json!(rid), &json!("still_running")));
    }
    // The first ones are answered once, as they end.
    bench.done("r1", json!({}));
    assert_eq!(bench.only_reply()["rid"], "r1");
}

#[test]
fn g11_a_frame_that_came_twice_has_one_effect_and_the_same_answer() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_add_node", json!({}));
    bench.command("r1", "graph_add_node", json!({}));
    assert_eq!(bench.executes(), ["r1"]);
    bench.done("r1", json!({"id": 1}));
    let first = bench.only_reply();
    bench.command("r1", "graph_add_node", json!({}));
    assert_eq!(bench.only_reply(), first);
    assert!(bench.executes().is_empty());
}

#[test]
fn g11_what_was_begun_before_a_reload_is_not_done_twice() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_add_node", json!({}));
    let remember = bench.out.iter().position(|output| matches!(output, PanelOutput::Remember { .. })).unwrap();
    let execute = bench.out.iter().position(|output| matches!(output, PanelOutput::Execute { .. })).unwrap();
    assert!(remember < execute, "remembered before its effect");
    let PanelOutput::Remember { begun } = bench.out[remember].clone() else { panic!() };
    // The page reloads; nobody knows how r1 ended.
    let mut bench = Bench::new(PanelConfig { begun, ..config() });
    bench.front(Some(saved("w1", "a")));
    bench.input(PanelInput::Start);
    bench.shake(0);
    bench.out.clear();
    bench.command("r2", "graph_add_node", json!({"retry_of": "r1"}));
    let reply = bench.only_reply();
    assert_eq!((&reply["refusal"]["code"], &reply["refusal"]["token"]), (&json!("unknown_outcome"), &json!("r1")));
    assert!(bench.executes().is_empty());
}

#[test]
fn reads_are_neither_remembered_nor_answered_from_the_ledger() {
    let mut bench = Bench::connected();
    for _ in 0..2 {
        bench.command("r1", "graph_outline", json!({}));
        assert_eq!(bench.executes(), ["r1"]);
        bench.done("r1", json!({}));
    }
    assert!(!bench.out.iter().any(|output| matches!(output, PanelOutput::Remember { .. })));
}
