//! Rules G1 to G12.

use super::*;
use crate::command::{TABLE, by_cmd};
use crate::refusal::Refusal;

fn begun() -> Bench {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench
}

fn pinned(bench: &mut Bench, name: &str, open: &[&str]) -> CallId {
    let call = bench.call("set_workflow_target", json!({"mode": "pinned", "path": name}));
    bench.reply(1, listed(open), open.first().copied());
    call
}

#[test]
fn g1_a_newer_request_supersedes_and_both_are_answered() {
    let mut bench = begun();
    let older = bench.call("set_workflow_target", json!({"mode": "pinned", "path": "w1"}));
    let rid = bench.command(1)["rid"].clone();
    bench.frame(1, &json!({"type": "set_workflow_target", "mode": "pinned", "path": "w1"}));
    bench.reply(1, listed(&["w1"]), Some("w1"));
    bench.frame(1, &json!({"rid": rid, "ok": true, "result": listed(&["w1"])}));
    assert_eq!(*bench.refusal(older), Refusal::Superseded);
    let ack = bench.of_type(1, "ack").into_iter().rfind(|ack| ack["kind"] == "workflow_target").unwrap();
    assert_eq!(ack["target"]["path"], "workflows/w1.json");
}

#[test]
fn g1_a_picker_whose_request_a_boundary_ends_is_answered_too() {
    let mut bench = begun();
    bench.frame(1, &json!({"type": "set_workflow_target", "mode": "pinned", "path": "w1"}));
    bench.frame(1, &json!({"type": "new_session"}));
    let ack = bench.of_type(1, "ack").into_iter().rfind(|ack| ack["kind"] == "workflow_target").unwrap();
    assert_eq!((&ack["ok"], &ack["code"]), (&json!(false), &json!("superseded")));
}

#[test]
fn g1_the_target_is_the_conversations() {
    let mut bench = begun();
    bench.join(2, "tab-2", "w2");
    bench.open(3);
    bench.hello(3, "tab-3", "w3", &json!({"backend": "codex"}));
    bench.forget();
    let call = pinned(&mut bench, "w1", &["w1"]);
    bench.ok(call);
    assert_eq!(bench.of_type(2, "workflow_target")[0]["target"]["mode"], "pinned");
    assert!(bench.of_type(3, "workflow_target").is_empty());
}

#[test]
fn g2_four_answers_and_only_one_pins() {
    let mut bench = begun();
    for (name, code) in [("w7", "target_not_open"), ("w2", "target_not_active")] {
        let call = pinned(&mut bench, name, &["w1", "w2"]);
        assert_eq!(bench.refusal(call).code(), code);
    }
    let dark = bench.call("set_workflow_target", json!({"mode": "pinned", "path": "w1"}));
    bench.reply(1, json!({"loading": true}), None);
    assert_eq!(*bench.refusal(dark), Refusal::TargetUndetermined);
    let silent = bench.call("set_workflow_target", json!({"mode": "current"}));
    bench.wait(60_000);
    assert_eq!(*bench.refusal(silent), Refusal::TargetUndetermined);
    assert!(bench.of_type(1, "workflow_target").iter().all(|frame| frame["target"]["mode"] == "current"));
    let call = pinned(&mut bench, "w1.json", &["w1", "w2"]);
    assert_eq!(bench.ok(call)["path"], "workflows/w1.json");
}

#[test]
fn g3_the_pin_goes_with_what_the_table_says() {
    let mut bench = begun();
    let call = pinned(&mut bench, "w1", &["w1"]);
    bench.ok(call);
    for (tool, arguments, pin) in [
        ("graph_outline", json!({}), true),
        ("add_node", json!({"class_type": "VAE"}), true),
        ("run", json!({}), true),
        ("save_workflow", json!({}), true),
        ("rename_workflow", json!({"name": "x"}), true),
        ("rename_workflow", json!({"name": "x", "path": "w2"}), false),
        ("close_workflow", json!({}), true),
        ("close_workflow", json!({"path": "w2"}), false),
        ("new_workflow", json!({}), false),
        ("open_workflow", json!({"path": "w2"}), false),
        ("search_nodes", json!({"query": "VAE"}), false),
        ("set_todo", json!({"items": []}), false),
    ] {
        bench.call(tool, arguments);
        let told = bench.command(1).get("workflow_path").cloned();
        assert_eq!(told, pin.then(|| json!("workflows/w1.json")), "{tool}");
    }
}

#[test]
fn g4_the_daemon_predicts_the_guard() {
    let mut bench = begun();
    let call = pinned(&mut bench, "w1", &["w1"]);
    bench.ok(call);
    let open = bench.call("open_workflow", json!({"path": "w2"}));
    bench.reply(1, json!({}), Some("w2"));
    bench.ok(open);
    bench.forget();
    let call = bench.widget();
    assert_eq!(
        *bench.refusal(call),
        Refusal::WorkflowMismatch { wanted: "workflows/w1.json".into(), active: Some("wf:workflows/w2.json".into()) }
    );
    assert!(bench.commands(1).is_empty());
}

#[test]
fn g5_every_graph_command_carries_the_turns_stamp() {
    let mut bench = begun();
    for (tool, arguments) in [
        ("graph_outline", json!({})),
        ("query_graph", json!({})),
        ("get_errors", json!({})),
        ("screenshot", json!({})),
        ("add_node", json!({"class_type": "VAE"})),
        ("remove_node", json!({"node_id": 1})),
        ("connect", json!({"from_node_id": 1, "from_output": 0, "to_node_id": 2, "to_input": 0})),
        ("disconnect", json!({"node_id": 1})),
        ("set_widget", json!({"node_id": 1, "widget": "steps", "value": 1})),
        ("edit_node", json!({"node_id": 1, "title": "x"})),
        ("run", json!({})),
        ("save_workflow", json!({})),
    ] {
        bench.call(tool, arguments);
        assert_eq!(bench.command(1)["workflow_uuid"], "w1", "{tool}");
    }
    bench.hello(1, "tab-1", "w2", &json!({}));
    bench.forget();
    let call = bench.widget();
    assert_eq!(
        *bench.refusal(call),
        Refusal::WorkflowInstanceMismatch { issued: Some("w1".into()), active: Some("w2".into()) }
    );
    assert!(bench.commands(1).is_empty(), "what will be refused is not sent");
}

#[test]
fn g5_an_old_panel_that_cannot_check_at_the_write_gets_no_writes() {
    let mut bench = Bench::new();
    bench.open(1);
    bench
        .frame(1, &json!({"type": "hello", "tab_id": "tmp:1", "workflow_uuid": "w1", "enforces_workflow_stamp": true}));
    bench.begin(1, "m1");
    let write = bench.widget();
    assert_eq!(*bench.refusal(write), Refusal::PanelTooOld);
    bench.outline();
    assert_eq!(bench.commands(1).len(), 1, "reading is allowed");
}

#[test]
fn g6_what_is_not_fenced_goes_out_with_a_stale_stamp() {
    let mut bench = begun();
    bench.hello(1, "tab-1", "w2", &json!({}));
    for (tool, arguments) in [
        ("list_workflows", json!({})),
        ("open_workflow", json!({"path": "w1"})),
        ("new_workflow", json!({})),
        ("search_nodes", json!({"query": "VAE"})),
        ("set_todo", json!({"items": []})),
        ("ask", json!({"question": "Which?", "options": ["a", "b"]})),
        ("close_workflow", json!({"path": "w1"})),
        ("set_workflow_target", json!({"mode": "current"})),
    ] {
        bench.forget();
        let call = bench.call(tool, arguments);
        assert!(bench.answer(call).is_none(), "{tool}");
        assert_eq!(bench.commands(1).len(), 1, "{tool}");
    }
    let unfenced = |name: &str| !by_cmd(name).unwrap().is_fenced(false);
    assert!(TABLE.iter().filter(|spec| unfenced(spec.cmd)).count() >= 8);
}

#[test]
fn g7_neither_the_agent_nor_a_refused_command_sets_the_stamp() {
    let mut bench = begun();
    let smuggled = bench.call("graph_outline", json!({"workflow_uuid": "w9"}));
    assert_eq!(bench.refusal(smuggled).code(), "bad_arguments");
    let open = bench.call("open_workflow", json!({"path": "w2"}));
    let rid = bench.command(1)["rid"].clone();
    bench.frame(1, &json!({"rid": rid, "ok": false, "error": "no", "workflow": workflow("w2")}));
    assert_eq!(bench.refusal(open).code(), "failed");
    bench.outline();
    assert_eq!(bench.command(1)["workflow_uuid"], "w1");
}

#[test]
fn g8_a_reply_without_the_resulting_identity_is_a_protocol_error() {
    for (tool, arguments) in [
        ("open_workflow", json!({"path": "w2"})),
        ("new_workflow", json!({})),
        ("save_workflow", json!({"name": "x"})),
        ("rename_workflow", json!({"name": "x"})),
        ("close_workflow", json!({"force": true})),
    ] {
        let mut bench = begun();
        let call = bench.call(tool, arguments);
        bench.reply(1, json!({}), None);
        assert_eq!(bench.refusal(call).code(), "bad_reply", "{tool}");
        bench.outline();
        assert_eq!(bench.command(1)["workflow_uuid"], "w1", "{tool}: what was bound stays");
    }
}

#[test]
fn g9_a_contradicting_identity_is_rejected_and_logged() {
    let mut bench = begun();
    let call = bench.call("save_workflow", json!({}));
    let rid = bench.command(1)["rid"].clone();
    let mut lie = workflow("w2");
    lie["canvas"] = workflow("w1")["canvas"].clone();
    bench.frame(1, &json!({"rid": rid, "ok": true, "result": {}, "workflow": lie}));
    assert_eq!(bench.refusal(call).code(), "bad_reply");
    assert_eq!(bench.count(|output| matches!(output, Output::Log { event: "identity_contradiction", .. })), 1);
    bench.outline();
    assert_eq!(bench.command(1)["workflow_uuid"], "w1");
}

#[test]
fn g10_a_retarget_without_a_tab_is_kept_and_said_to_be() {
    let mut bench = begun();
    bench.close(1);
    let call = bench.call("set_workflow_target", json!({"mode": "current"}));
    assert_eq!(*bench.refusal(call), Refusal::NoTab { deferred: true });
    bench.join(2, "tab-2", "w2");
    bench.outline();
    assert_eq!(bench.command(2)["workflow_uuid"], "w2");
}

#[test]
fn g12_the_list_covers_every_tab_and_a_silent_one_is_unknown() {
    let mut bench = begun();
    bench.join(2, "tab-2", "w2");
    let call = bench.call("list_workflows", json!({}));
    bench.reply(1, listed(&["w1", "w3"]), Some("w1"));
    assert!(bench.answer(call).is_none());
    bench.wait(20_000);
    let told = bench.ok(call);
    assert_eq!(told["tabs"][0]["workflows"][0]["target"], true);
    assert_eq!(told["tabs"][0]["workflows"][0]["active"], true);
    assert!(told["tabs"][1]["workflows"].as_str().unwrap().starts_with("unknown"));
}

#[test]
fn g12_a_named_tab_narrows_and_must_be_of_the_conversation() {
    let mut bench = begun();
    bench.join(2, "tab-2", "w2");
    bench.open(3);
    bench.hello(3, "tab-3", "w3", &json!({"backend": "codex"}));
    bench.call("new_workflow", json!({"tab": "t2"}));
    assert_eq!(bench.commands(2).len(), 1);
    let foreign = bench.call("open_workflow", json!({"path": "w3", "tab": "t3"}));
    assert_eq!(bench.refusal(foreign).code(), "not_owner");
    let nobody = bench.call("open_workflow", json!({"path": "w3", "tab": "t99"}));
    assert_eq!(bench.refusal(nobody).code(), "target_gone");
}
