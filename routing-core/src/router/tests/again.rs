//! What became of commands whose answer did not come (rule G11; reports 62 to 65, 68).

use super::*;

/// A turn that runs in `tab-1` on `w1`.
fn begun() -> Bench {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench
}

fn still_running(rid: &Value) -> Value {
    Refusal::StillRunning { token: rid.as_str().unwrap().into(), busy: None }.to_wire()
}

#[test]
fn report_068_a_write_of_a_lost_connection_is_settled_by_the_ledger_of_its_tab() {
    let mut bench = begun();
    let (write, read) = (bench.widget(), bench.outline());
    let first = bench.commands(1)[0].clone();
    bench.close(1);
    assert!(bench.answer(write).is_none() && bench.answer(read).is_none());
    bench.forget();
    bench.join(2, "tab-1", "w1");
    let sent = bench.commands(2);
    assert_eq!(sent.len(), 2, "each once");
    let again = sent.iter().find(|command| command["cmd"] == "graph_set_widget").unwrap();
    assert_eq!(again["retry_of"], first["rid"]);
    assert_eq!((&again["workflow_uuid"], &again["value"]), (&json!("w1"), &json!(1)));
    bench.frame(2, &json!({"rid": again["rid"], "ok": true, "result": {"previous": 0}, "workflow": workflow("w1")}));
    assert_eq!(bench.ok(write)["previous"], 0);
}

#[test]
fn g11_what_waits_for_its_tab_keeps_the_stamp_it_was_issued_with() {
    let mut bench = begun();
    bench.call("new_workflow", json!({}));
    let write = bench.widget();
    bench.close(1);
    bench.join(2, "tab-1", "w1");
    // The first of the two is answered, and moves the turn to another instance.
    let opened = bench.commands(2).into_iter().find(|command| command["cmd"] == "workflow_new").unwrap();
    bench.frame(2, &json!({"rid": opened["rid"], "ok": true, "result": {}, "workflow": workflow("w2")}));
    bench.close(2);
    bench.forget();
    bench.join(3, "tab-1", "w2");
    assert_eq!(bench.command(3)["workflow_uuid"], "w1", "issued for w1, whatever the turn acts on now");
    assert!(bench.answer(write).is_none());
}

#[test]
fn g11_a_write_whose_tab_does_not_come_back_is_of_unknown_outcome() {
    let mut bench = begun();
    let write = bench.widget();
    let rid = bench.command(1)["rid"].clone();
    bench.close(1);
    bench.wait(10 * 60_000);
    let Refusal::UnknownOutcome { token } = bench.refusal(write).clone() else { panic!("another refusal") };
    assert_eq!(json!(token), rid);
    bench.join(2, "tab-1", "w1");
    let again = bench.call("set_widget", json!({"node_id": 5, "widget": "steps", "value": 1, "retry_of": token}));
    assert_eq!(bench.command(2)["retry_of"], rid);
    // Whether the retry arrived is not known. Only the first token leads to what may have run.
    bench.close(2);
    bench.wait(10 * 60_000);
    assert_eq!(*bench.refusal(again), Refusal::UnknownOutcome { token: token.clone() });
    // The token of one command is none for another.
    bench.join(3, "tab-1", "w1");
    let other = bench.call("add_node", json!({"class_type": "VAE", "retry_of": token}));
    assert_eq!(bench.refusal(other).code(), "bad_arguments");
}

#[test]
fn g11_a_client_without_a_proof_of_its_tab_leaves_a_lost_write_unknown() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.frame(
        1,
        &json!({"type": "hello", "tab_id": "s:a.json", "workflow_uuid": "w1", "enforces_workflow_uuid": true}),
    );
    bench.frame(1, &json!({"type": "user_message", "text": "go"}));
    bench.ready("claude");
    let opened = bench.call("new_workflow", json!({}));
    bench.close(1);
    assert_eq!(bench.refusal(opened).code(), "unknown_outcome");
}

#[test]
fn report_064_a_write_without_an_answer_in_time_is_asked_of_the_ledger_and_told_as_done() {
    let mut bench = begun();
    let write = bench.widget();
    let first = bench.command(1);
    bench.wait(first["timeout_ms"].as_u64().unwrap());
    assert!(bench.answer(write).is_none());
    let check = bench.command(1);
    assert_eq!(check["retry_of"], first["rid"]);
    bench.reply(1, json!({"previous": 0}), Some("w1"));
    assert_eq!(bench.ok(write)["previous"], 0);
    // Its own answer that comes after all is no error of the panel.
    bench.frame(1, &json!({"rid": first["rid"], "ok": true, "result": {"previous": 0}, "workflow": workflow("w1")}));
    assert!(bench.nacks(1).is_empty());
    assert_eq!(bench.commands(1).len(), 2, "asked once");
}

#[test]
fn report_064_its_own_answer_counts_although_the_ledger_was_asked() {
    let mut bench = begun();
    let write = bench.call("open_workflow", json!({"path": "other.json"}));
    let first = bench.command(1);
    bench.wait(first["timeout_ms"].as_u64().unwrap());
    let check = bench.command(1);
    bench.frame(1, &json!({"rid": first["rid"], "ok": true, "result": {}, "workflow": workflow("w2")}));
    assert_eq!(bench.ok(write)["workflow"]["uuid"], "w2");
    bench.frame(1, &json!({"rid": check["rid"], "ok": true, "result": {}, "workflow": workflow("w2")}));
    assert!(bench.nacks(1).is_empty());
    bench.widget();
    assert_eq!(bench.command(1)["workflow_uuid"], "w2", "the turn has moved, once");
}

#[test]
fn report_064_a_tab_that_is_silent_twice_leaves_the_outcome_unknown() {
    let mut bench = begun();
    let write = bench.widget();
    let rid = bench.command(1)["rid"].clone();
    bench.wait(10 * 60_000);
    bench.wait(10 * 60_000);
    assert_eq!(*bench.refusal(write), Refusal::UnknownOutcome { token: rid.as_str().unwrap().into() });
    bench.frame(1, &json!({"rid": rid, "ok": true, "result": {}}));
    assert!(bench.nacks(1).is_empty(), "an answer that comes too late is no error of the panel");
}

#[test]
fn report_064_a_read_without_an_answer_is_not_asked_again() {
    let mut bench = begun();
    let read = bench.outline();
    bench.wait(10 * 60_000);
    assert_eq!(bench.refusal(read).code(), "no_reply");
    assert_eq!(bench.commands(1).len(), 1);
}

#[test]
fn report_065_what_still_runs_is_said_to_and_can_be_asked_for_later() {
    let mut bench = begun();
    let write = bench.widget();
    let first = bench.command(1);
    let allowed = first["timeout_ms"].as_u64().unwrap();
    bench.wait(allowed);
    let check = bench.command(1);
    bench.frame(1, &json!({"rid": check["rid"], "ok": false, "refusal": still_running(&first["rid"])}));
    let Refusal::StillRunning { token, busy } = bench.refusal(write).clone() else { panic!("another refusal") };
    assert_eq!(json!(token), first["rid"]);
    let busy = busy.unwrap();
    assert_eq!((busy.cmd.as_str(), busy.for_ms), ("graph_set_widget", allowed));
    let again = bench.call("set_widget", json!({"node_id": 5, "widget": "steps", "value": 1, "retry_of": token}));
    bench.reply(1, json!({"previous": 0}), Some("w1"));
    bench.ok(again);
}

#[test]
fn report_065_what_still_runs_over_a_reconnect_is_waited_for() {
    let mut bench = begun();
    let write = bench.widget();
    let first = bench.command(1);
    bench.close(1);
    bench.join(2, "tab-1", "w1");
    let check = bench.command(2);
    bench.frame(2, &json!({"rid": check["rid"], "ok": false, "refusal": still_running(&first["rid"])}));
    assert!(bench.answer(write).is_none());
    bench.frame(2, &json!({"rid": first["rid"], "ok": true, "result": {"previous": 0}, "workflow": workflow("w1")}));
    bench.ok(write);
}

#[test]
fn report_065_others_are_told_what_the_tab_is_at_work_on() {
    let mut bench = begun();
    let hanging = bench.widget();
    let allowed = bench.command(1)["timeout_ms"].as_u64().unwrap();
    bench.wait(1_000);
    let (read, list) = (bench.outline(), bench.call("list_workflows", json!({})));
    bench.wait(allowed);
    let Refusal::NoReply { busy: Some(busy), .. } = bench.refusal(read).clone() else { panic!("another refusal") };
    assert_eq!(busy.cmd, "graph_set_widget");
    assert!(bench.refusal(read).message().contains("graph_set_widget"));
    let told = bench.ok(list).clone();
    assert_eq!(told["tabs"][0]["busy"]["cmd"], "graph_set_widget");
    // The panel gives it up at last, and so is it forgotten here.
    bench.wait(allowed);
    assert_eq!(bench.refusal(hanging).code(), "unknown_outcome");
    let list = bench.call("list_workflows", json!({}));
    bench.reply(1, json!({"workflows": []}), Some("w1"));
    assert!(bench.ok(list)["tabs"][0].get("busy").is_none());
}
