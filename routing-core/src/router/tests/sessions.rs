//! Rules S1 to S3, S5 and S7. S4 and S6 are about the disk and the agent's process: the daemon's.

use super::*;
use crate::router::Restored;

fn touches_agent(output: &Output) -> bool {
    matches!(
        output,
        Output::Wake { .. }
            | Output::Prompt { .. }
            | Output::Interrupt { .. }
            | Output::Retire { .. }
            | Output::Forget { .. }
            | Output::SetModel { .. }
    )
}

#[test]
fn s1_no_tab_workflow_or_title_is_part_of_the_key() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.hello(2, "tab-2", "w3", &json!({"title": "another"}));
    for socket in [1, 2] {
        for welcome in bench.of_type(socket, "welcome") {
            assert_eq!(welcome["conversation"], "orchestrator::claude");
        }
    }
    assert_eq!(bench.of_type(2, "welcome").len(), 2);
}

#[test]
fn s2_one_agent_started_by_the_first_message() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    assert_eq!(bench.count(touches_agent), 0, "a hello starts nothing");
    bench.say(1, "m1");
    bench.say(2, "m2");
    assert_eq!(bench.count(|output| matches!(output, Output::Wake { .. })), 1);
    bench.ready("claude");
    bench.say(1, "m3");
    assert_eq!(bench.count(|output| matches!(output, Output::Wake { .. })), 1);
    assert_eq!(bench.prompts().len(), 1);
}

#[test]
fn s3_a_hello_again_updates_the_tab_and_touches_no_agent() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    let ask = bench.call("ask", json!({"question": "Which?", "options": ["a", "b"]}));
    let run = bench.call("run", json!({}));
    bench.reply(1, json!({"prompt_id": "p1"}), None);
    assert_eq!(bench.ok(run)["prompt_id"], "p1");
    bench.forget();
    bench.hello(1, "tab-1", "w2", &json!({"title": "renamed"}));
    bench.hello(1, "tab-1", "w3", &json!({}));
    assert_eq!(bench.count(touches_agent), 0);
    assert_eq!(bench.of_type(1, "turn").last().unwrap()["state"], "working", "told anew that the turn runs");
    // The tickets are still the tab's: the question is answered and the run's end is told.
    let asks: Vec<Value> = bench.router.asks.keys().map(|id| json!(id)).collect();
    bench.frame(1, &json!({"ask_id": asks[0], "ok": true, "result": "a"}));
    assert_eq!(bench.ok(ask)["answer"], "a");
    bench.frame(1, &json!({"type": "agent_event", "kind": "executed", "prompt_id": "p1"}));
    bench.end("claude");
    bench.ready("claude");
    assert!(bench.prompts()[0].contains("Run p1 of workflow"));
}

#[test]
fn s3_a_legacy_tab_that_changes_its_route_is_still_the_same_tab() {
    let mut bench = Bench::new();
    bench.open(1);
    let hello = |route: &str, uuid: &str| {
        json!({"type": "hello", "tab_id": route, "workflow_uuid": uuid, "title": route,
               "enforces_workflow_stamp_at_write": true})
    };
    bench.frame(1, &hello("wf:workflows/a.json", "w1"));
    bench.begin(1, "m1");
    bench.frame(1, &hello("tmp:7", "w2"));
    bench.frame(1, &hello("wf:workflows/a.json", "w1"));
    assert_eq!(bench.router.tabs.len(), 1);
    bench.outline();
    assert_eq!(bench.command(1)["workflow_uuid"], "w1");
}

#[test]
fn s5_the_panels_hint_counts_only_where_nothing_is_known() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.hello(1, "tab-1", "w1", &json!({"resume": "old-session"}));
    assert_eq!(bench.count(|output| matches!(output, Output::ResumeHint { .. })), 1);
    bench.tell(Input::Agent { backend: "claude".into(), event: AgentEvent::Session { id: "now".into() } });
    bench.hello(1, "tab-1", "w1", &json!({"resume": "old-session"}));
    assert_eq!(bench.count(|output| matches!(output, Output::ResumeHint { .. })), 1);
}

#[test]
fn s7_a_new_tab_is_sent_the_log_from_its_start() {
    let mut bench = Bench::new();
    let restored = Restored { newest: Seq(40), start: Seq(10), ..Restored::default() };
    bench.tell(Input::Restore { backend: "claude".into(), restored });
    bench.join(1, "tab-1", "w1");
    let replays = |bench: &Bench| {
        let span = |output: &Output| match output {
            Output::Replay { socket, after, upto, .. } => Some((socket.0, after.0, upto.0)),
            _ => None,
        };
        bench.outputs.iter().filter_map(span).collect::<Vec<_>>()
    };
    assert_eq!(replays(&bench), [(1, 10, 40)]);
    assert_eq!(bench.of_type(1, "welcome")[0]["after"], 10);
    bench.open(2);
    bench.hello(2, "tab-2", "w2", &json!({"after": 35}));
    assert_eq!(replays(&bench)[1], (2, 35, 40));
    bench.open(3);
    bench.hello(3, "tab-3", "w3", &json!({"after": 99}));
    assert_eq!(replays(&bench).len(), 2, "what is newer than the log is another log's");
    bench.hello(2, "tab-2", "w4", &json!({"after": 35}));
    assert_eq!(replays(&bench).len(), 2, "a switch of the workflow repeats nothing");
}
