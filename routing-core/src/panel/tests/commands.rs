//! Guard and fence at the moment of the write, the order of writes, and what a reply says.

use super::*;

#[test]
fn g5_a_command_for_another_instance_is_refused_and_nothing_is_carried_out() {
    let mut bench = Bench::connected();
    for (rid, stamp) in [("r1", json!("w2")), ("r2", json!(null)), ("r3", json!(" "))] {
        bench.command(rid, "graph_set_widget", json!({"workflow_uuid": stamp}));
        let reply = bench.only_reply();
        assert_eq!(reply["ok"], false);
        assert_eq!(reply["refusal"]["code"], "workflow_instance_mismatch");
        assert_eq!(reply["refusal"]["remedy"]["tool"], "panel_set_workflow_target");
        assert_eq!(reply["workflow"]["uuid"], "w1", "a refusal says what is in front");
    }
    assert!(bench.executes().is_empty());
}

#[test]
fn g5_while_the_canvas_loads_no_fenced_command_passes() {
    let mut bench = Bench::connected();
    bench.front(None);
    bench.command("r1", "graph_outline", json!({}));
    assert_eq!(bench.only_reply()["refusal"]["code"], "workflow_instance_mismatch");
    bench.command("r2", "workflow_list", json!({}));
    assert_eq!(bench.executes(), ["r2"]);
}

#[test]
fn g4_the_pin_is_compared_before_the_stamp() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_outline", json!({"workflow_path": "workflows/b.json"}));
    assert_eq!(bench.only_reply()["refusal"]["code"], "workflow_mismatch");
    bench.command("r2", "graph_outline", json!({"workflow_path": "a"}));
    assert_eq!(bench.executes(), ["r2"]);
    bench.front(Some(unsaved("w3")));
    bench.command(
        "r3",
        "graph_outline",
        json!({"workflow_uuid": "w3", "workflow_path": "workflows/Unsaved Workflow.json"}),
    );
    let replies: Vec<Value> = bench.sent().into_iter().filter(|frame| frame["rid"] == "r3").collect();
    assert_eq!(replies[0]["refusal"]["code"], "workflow_mismatch", "an unsaved workflow answers to its handle only");
}

#[test]
fn report_039_the_stamp_is_compared_at_the_moment_of_the_write() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_edit_node", json!({"node_id": 5, "title": "x"}));
    assert_eq!(bench.executes(), ["r1"]);
    assert_eq!(bench.recheck("r1"), Ok(()));
    // The person flips the tabs while the executor awaits something; node 5 exists there, too.
    bench.front(Some(saved("w2", "b")));
    assert_eq!(bench.recheck("r1"), Err("workflow_instance_mismatch"));
    let refusal = bench.panel.recheck(&"r1".into()).unwrap_err();
    bench.input(PanelInput::Done {
        rid: "r1".into(),
        outcome: Outcome::Refused { refusal: refusal.to_wire() },
        workflow: Some(saved("w2", "b")),
    });
    let reply = bench.only_reply();
    assert_eq!(reply["refusal"]["code"], "workflow_instance_mismatch");
    assert_eq!((&reply["refusal"]["issued"], &reply["refusal"]["active"]), (&json!("w1"), &json!("w2")));
}

#[test]
fn report_039_a_recheck_fails_while_the_canvas_loads_and_passes_again_after_it() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_connect", json!({"workflow_path": "workflows/a.json"}));
    bench.front(None);
    assert_eq!(bench.recheck("r1"), Err("workflow_mismatch"));
    bench.front(Some(saved("w1", "a")));
    assert_eq!(bench.recheck("r1"), Ok(()));
    assert_eq!(bench.recheck("never heard of"), Err("conversation_closed"));
}

#[test]
fn report_028_what_asks_or_repairs_is_never_fenced() {
    let mut bench = Bench::connected();
    let commands = [
        ("workflow_list", json!({})),
        ("workflow_open", json!({"path": "b"})),
        ("nodes_search", json!({"query": "k"})),
    ];
    for (rid, (cmd, args)) in commands.into_iter().enumerate() {
        let mut more = args;
        more["workflow_uuid"] = json!("stale");
        bench.command(&format!("r{rid}"), cmd, more);
    }
    assert_eq!(bench.executes(), ["r0", "r1", "r2"]);
    bench.command("r4", "set_todo", json!({"items": [], "workflow_uuid": "stale"}));
    assert_eq!(bench.only_reply()["ok"], true);
}

#[test]
fn report_031_the_reply_carries_the_instance_that_is_in_front_afterwards() {
    let mut bench = Bench::connected();
    bench.command("r1", "workflow_new", json!({}));
    bench.input(PanelInput::Done {
        rid: "r1".into(),
        outcome: Outcome::Ok { result: json!({"created": true}) },
        workflow: Some(unsaved("w9")),
    });
    let frames = bench.sent();
    assert_eq!(frames.len(), 2);
    assert_eq!((&frames[0]["type"], &frames[0]["workflow"]["uuid"]), (&json!("hello"), &json!("w9")));
    assert_eq!(frames[1]["rid"], "r1");
    assert_eq!(
        frames[1]["workflow"],
        json!({"uuid": "w9", "handle": "tmp:w9", "title": "Unsaved Workflow", "canvas": "c1"})
    );
    // The host may have told of it before: the reply says the same.
    bench.command("r2", "workflow_open", json!({"path": "a"}));
    bench.front(Some(saved("w1", "a")));
    bench.input(PanelInput::Done { rid: "r2".into(), outcome: Outcome::Ok { result: json!({}) }, workflow: None });
    let frames = bench.sent();
    assert_eq!(frames[0]["type"], "hello");
    assert_eq!(frames[1]["workflow"]["uuid"], "w1");
}

#[test]
fn a_failure_keeps_the_canvas_own_code() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_remove_node", json!({"node_id": 99}));
    let outcome = Outcome::Failed { code: "unknown_node".into(), message: "There is no node 99.".into() };
    bench.input(PanelInput::Done { rid: "r1".into(), outcome, workflow: None });
    let reply = bench.only_reply();
    assert_eq!(reply["refusal"]["code"], "failed");
    assert_eq!(reply["refusal"]["failure"], "unknown_node");
    assert_eq!(reply["error"], "There is no node 99.");
}

#[test]
fn unknown_commands_and_the_daemons_own_are_refused() {
    let mut bench = Bench::connected();
    for cmd in ["graph_from_the_future", "workflow_target_get", "delete_everything"] {
        bench.command(cmd, cmd, json!({}));
        assert_eq!(bench.only_reply()["refusal"]["code"], "unknown_command", "{cmd}");
    }
    assert!(bench.executes().is_empty());
}

#[test]
fn writes_run_one_at_a_time_in_their_order_and_reads_beside_them() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_add_node", json!({}));
    bench.command("r2", "graph_connect", json!({}));
    bench.command("r3", "graph_outline", json!({}));
    bench.command("r4", "graph_run", json!({}));
    assert_eq!(bench.executes(), ["r1", "r3"]);
    bench.done("r3", json!({}));
    assert!(bench.executes().is_empty());
    bench.done("r1", json!({}));
    assert_eq!(bench.executes(), ["r2"]);
    bench.done("r2", json!({}));
    assert_eq!(bench.executes(), ["r4"]);
}

#[test]
fn g5_a_write_that_waited_is_admitted_anew_when_its_turn_comes() {
    let mut bench = Bench::connected();
    bench.command("r1", "workflow_open", json!({"path": "b"}));
    bench.command("r2", "graph_add_node", json!({}));
    bench.command("r3", "graph_add_node", json!({"workflow_uuid": "w2"}));
    assert_eq!(bench.executes(), ["r1"]);
    bench.input(PanelInput::Done {
        rid: "r1".into(),
        outcome: Outcome::Ok { result: json!({}) },
        workflow: Some(saved("w2", "b")),
    });
    assert_eq!(bench.executes(), ["r3"], "the one for w2 runs, the one for w1 does not");
    let refused: Vec<Value> = bench.sent().into_iter().filter(|frame| frame["rid"] == "r2").collect();
    assert_eq!(refused[0]["refusal"]["code"], "workflow_instance_mismatch");
}

#[test]
fn report_065_a_command_that_hangs_neither_blocks_nor_writes_for_ever() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_add_node", json!({"timeout_ms": 1_000}));
    bench.command("r2", "graph_add_node", json!({"timeout_ms": 60_000}));
    assert_eq!(bench.executes(), ["r1"]);
    assert_eq!(bench.tick(), "command overdue");
    assert_eq!(bench.executes(), ["r2"]);
    assert_eq!(bench.recheck("r1"), Err("no_reply"), "it may change nothing any more");
    assert!(bench.sent().is_empty(), "the daemon has given it up already");
    // It ends after all: the ledger learns it, the turn of r2 goes on.
    bench.done("r1", json!({"id": 7}));
    assert!(bench.sent().is_empty());
    bench.command("r3", "graph_add_node", json!({"retry_of": "r1"}));
    assert_eq!(bench.only_reply()["result"]["id"], 7);
}

#[test]
fn a_write_whose_time_ran_out_before_its_turn_is_not_begun() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_run", json!({"timeout_ms": 60_000}));
    bench.command("r2", "graph_add_node", json!({"timeout_ms": 1_000}));
    assert_eq!(bench.tick(), "command overdue");
    assert_eq!(bench.only_reply()["refusal"]["code"], "no_reply");
    bench.done("r1", json!({}));
    assert_eq!(bench.executes(), ["r1"]);
}

#[test]
fn replies_are_kept_while_there_is_no_connection() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_add_node", json!({}));
    bench.close(1006);
    bench.done("r1", json!({"id": 3}));
    assert!(bench.sent().is_empty());
    bench.input(PanelInput::Reconnect);
    bench.shake(0);
    let frames = bench.sent();
    assert_eq!(frames[0]["type"], "hello");
    assert_eq!((&frames[1]["rid"], &frames[1]["result"]["id"]), (&json!("r1"), &json!(3)));
    bench.reconnect(0);
    assert_eq!(bench.kinds(), ["hello"], "once");
}

#[test]
fn kept_replies_are_bounded() {
    let mut bench = Bench::connected();
    for number in 0..300 {
        bench.command(&format!("r{number}"), "graph_outline", json!({}));
    }
    bench.close(1006);
    for number in 0..300 {
        bench.done(&format!("r{number}"), json!({}));
    }
    bench.input(PanelInput::Reconnect);
    bench.shake(0);
    let rids: Vec<Value> = bench.sent().into_iter().skip(1).map(|frame| frame["rid"].clone()).collect();
    assert_eq!(rids.len(), 256);
    assert_eq!(rids.last(), Some(&json!("r299")));
}
