//! What hostile or careless clients and agents try, one hazard each.

use super::*;

#[test]
fn g11_a_token_that_is_not_known_is_no_leave_to_write() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let sent = bench.commands(1).len();
    let widget = json!({"node_id": 5, "widget": "steps", "value": 1, "retry_of": "e0-r7"});
    let call = bench.call("set_widget", widget);
    assert_eq!(bench.refusal(call).code(), "bad_arguments");
    assert_eq!(bench.commands(1).len(), sent, "nothing was sent");
}

#[test]
fn g11_a_token_of_a_call_that_still_runs_is_told_so() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    bench.widget();
    let rid = bench.command(1)["rid"].clone();
    let call = bench.call("set_widget", json!({"node_id": 5, "widget": "steps", "value": 1, "retry_of": rid}));
    assert_eq!(bench.refusal(call).code(), "still_running");
    assert_eq!(bench.commands(1).len(), 1);
}

#[test]
fn a_stop_while_the_agent_wakes_ends_nothing_that_comes_after_it() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.say(1, "z1");
    bench.frame(1, &json!({"type": "interrupt"}));
    bench.frame(1, &json!({"type": "cancel_message", "mid": "z1"}));
    bench.say(1, "z2");
    bench.ready("claude");
    let ends = |mid: &str, bench: &Bench| {
        let ended = |frame: &&Value| frame["kind"] == "turn_end" && frame["mids"] == json!([mid]);
        bench.of_type(1, "entry").iter().find(ended).map(|frame| frame["outcome"].clone())
    };
    assert_eq!(ends("z1", &bench), Some(json!("interrupted")));
    assert_eq!(ends("z2", &bench), None, "it runs");
    assert!(bench.count(|output| matches!(output, Output::Prompt { text, .. } if text.contains("text of z2"))) == 1);
}

#[test]
fn a_stop_right_after_a_message_takes_it_back() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.slow_log = true;
    bench.say(1, "m1");
    bench.frame(1, &json!({"type": "interrupt"}));
    bench.catch_up();
    assert!(bench.waking.is_empty(), "no turn begins");
    assert!(bench.of_type(1, "ack").iter().any(|ack| ack["kind"] == "interrupt" && ack["interrupted"] == true));
    bench.begin(1, "m2");
    assert!(bench.count(|output| matches!(output, Output::Prompt { .. })) == 1, "the next one runs");
}

#[test]
fn what_is_attached_reaches_the_agent_by_name() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    let image = json!([{"filename": "cat.png", "subfolder": "in", "type": "input"}]);
    bench.frame(1, &json!({"type": "user_message", "mid": "m1", "text": "", "images": image}));
    bench.ready("claude");
    let told = |output: &Output| matches!(output, Output::Prompt { text, .. } if text.contains("in/cat.png (input)"));
    assert_eq!(bench.count(told), 1);
}

#[test]
fn errors_of_runs_meet_the_bound_of_messages() {
    let mut bench = Bench::new();
    bench.router.config.limits.backlog = 3;
    bench.join(1, "tab-1", "w1");
    for _ in 0..5 {
        bench.frame(1, &json!({"type": "agent_event", "kind": "run_error", "error": "no"}));
    }
    assert_eq!(bench.nacks(1), ["backlog_full", "backlog_full"]);
}

#[test]
fn what_comes_before_the_hello_is_refused_by_its_own_name() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.say(1, "m1");
    bench.frame(1, &json!({"rid": "r1", "ok": true}));
    let nacks = bench.of_type(1, "nack");
    assert_eq!((&nacks[0]["mid"], &nacks[1]["rid"]), (&json!("m1"), &json!("r1")));
}
