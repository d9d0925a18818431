//! Runs: three witnesses, one completion (rules F3, D6).

use super::*;
use crate::id::PromptId;
use crate::router::{Pending, Restored};
use crate::run::{Ending, Fault, Sight, Status, files_of};

const COMFY: &str = "http://127.0.0.1:8188";

/// A tab that came from a ComfyUI, and a turn in which runs were queued.
fn queued(ids: &[&str]) -> Bench {
    let mut bench = Bench::new();
    bench.tell(Input::SocketOpened { socket: SocketId(1), viewer: false, comfyui: Some(COMFY.to_owned()) });
    bench.hello(1, "tab-1", "w1", &json!({}));
    bench.begin(1, "m1");
    if !ids.is_empty() {
        bench.call("run", json!({"batch_count": ids.len()}));
        bench.reply(1, json!({"prompt_ids": ids}), None);
    }
    bench
}

fn seen(bench: &mut Bench, id: &str, sight: Sight) {
    bench.tell(Input::RunsSeen { comfyui: COMFY.to_owned(), runs: vec![(id.into(), sight)], call: None });
}

fn success(names: &[&str]) -> Sight {
    let images: Vec<Value> = names.iter().map(|name| json!({"filename": name, "type": "output"})).collect();
    Sight::Ended(Ending::new(Status::Success, files_of(&json!({"images": images})), None))
}

fn panel(bench: &mut Bench, id: &str, name: &str) {
    bench.frame(
        1,
        &json!({"type": "agent_event", "kind": "executed", "prompt_id": id, "run_status": "success",
        "images": [{"filename": name, "subfolder": "", "type": "output"}]}),
    );
}

fn events(bench: &Bench) -> Vec<String> {
    let rows = bench.rows.get(&ConversationKey::of(&"claude".into()));
    let events = rows.into_iter().flatten().filter(|row| row.kind == "event");
    events.map(|row| row.body["text"].as_str().unwrap().to_owned()).collect()
}

fn watched(bench: &Bench) -> Vec<PromptId> {
    let mut open = Vec::new();
    for output in &bench.outputs {
        match output {
            Output::WatchRun { prompt_id, comfyui, .. } if comfyui == COMFY => open.push(prompt_id.clone()),
            Output::UnwatchRun { prompt_id, .. } => open.retain(|id| id != prompt_id),
            _ => {}
        }
    }
    open
}

fn wakes(bench: &Bench) -> usize {
    bench.count(|output| matches!(output, Output::Wake { .. }))
}

#[test]
fn report_046_comfyui_alone_completes_a_run_and_a_late_panel_is_absorbed() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    assert_eq!(watched(&bench), ["p1".into()]);
    seen(&mut bench, "p1", Sight::Running { progress: None });
    assert!(events(&bench).is_empty());
    seen(&mut bench, "p1", success(&["a.png"]));
    assert!(events(&bench)[0].contains("p1") && events(&bench)[0].contains("a.png"));
    assert!(watched(&bench).is_empty(), "nothing is watched any more");
    bench.ready("claude");
    bench.end("claude");
    panel(&mut bench, "p1", "a.png");
    seen(&mut bench, "p1", success(&["a.png"]));
    assert_eq!((events(&bench).len(), bench.prompts().len()), (1, 2));
    assert_eq!(bench.of_type(1, "ack").pop().unwrap()["ours"], true, "known, and not told twice");
    assert!(bench.unsettled("claude").is_empty());
}

#[test]
fn report_046_the_panels_word_waits_shortly_for_the_history_and_is_told_with_all_outputs() {
    let mut bench = queued(&["p1", "p2"]);
    bench.end("claude");
    panel(&mut bench, "p1", "a.png");
    assert!(events(&bench).is_empty(), "ComfyUI may know more");
    seen(&mut bench, "p1", success(&["b.png", "a.png"]));
    assert_eq!(events(&bench).len(), 1);
    assert!(events(&bench)[0].contains("Outputs: b.png (output), a.png (output)."), "{}", events(&bench)[0]);
    panel(&mut bench, "p2", "c.png");
    bench.wait(2_000);
    assert!(events(&bench)[1].contains("c.png"), "without ComfyUI it is told all the same");
}

#[test]
fn report_046_a_silent_comfyui_holds_no_panel_up() {
    let mut bench = queued(&["p1", "p2"]);
    bench.end("claude");
    panel(&mut bench, "p1", "a.png");
    bench.tell(Input::ComfyuiDown { comfyui: COMFY.to_owned(), why: "refused".to_owned(), call: None });
    assert_eq!(events(&bench).len(), 1);
    panel(&mut bench, "p2", "b.png");
    assert_eq!(events(&bench).len(), 2, "it is known to be down");
}

#[test]
fn report_045_a_completion_in_mid_turn_goes_before_whatever_else_waits() {
    let mut bench = queued(&["p1"]);
    for mid in ["m2", "m3"] {
        bench.say(1, mid);
    }
    seen(&mut bench, "p1", success(&["a.png"]));
    bench.end("claude");
    bench.ready("claude");
    let prompt = bench.prompts().pop().unwrap().to_owned();
    assert!(prompt.contains("a.png") && prompt.contains("text of m2") && !prompt.contains("text of m3"), "{prompt}");
    bench.end("claude");
    bench.ready("claude");
    assert!(!bench.prompts().pop().unwrap().contains("a.png"), "once");
}

#[test]
fn report_047_the_run_is_told_under_the_workflow_that_it_was_queued_from() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    bench.hello(1, "tab-1", "w2", &json!({}));
    seen(&mut bench, "p1", success(&[]));
    assert!(events(&bench)[0].contains("title of w1"), "{}", events(&bench)[0]);
}

#[test]
fn report_050_a_completion_of_a_stopped_turn_is_told_once_more_and_starts_no_turn() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    seen(&mut bench, "p1", success(&["a.png"]));
    bench.ready("claude");
    for round in 0..2 {
        let before = wakes(&bench);
        bench.frame(1, &json!({"type": "interrupt"}));
        bench.end_as("claude", TurnOutcome::Interrupted);
        panel(&mut bench, "p1", "a.png");
        seen(&mut bench, "p1", success(&["a.png"]));
        assert_eq!(wakes(&bench), before, "round {round}: stopped is stopped");
        bench.begin(1, &format!("next{round}"));
        let prompt = bench.prompts().pop().unwrap().to_owned();
        let repeated = prompt.contains("[Repeated") && prompt.contains("p1");
        assert_eq!(repeated, round == 0, "round {round}: {prompt}");
    }
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty());
}

#[test]
fn f3_an_agent_that_cannot_start_costs_no_completion() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    seen(&mut bench, "p1", success(&["a.png"]));
    for _ in 0..3 {
        let turn = bench.waking.remove(&Backend::from("claude")).unwrap();
        let (code, message) = ("not_found".to_owned(), "no such program".to_owned());
        bench.tell(Input::AgentFailed { backend: "claude".into(), turn, may_pass: false, code, message });
        assert!(!bench.waking.contains_key(&Backend::from("claude")), "it is not tried over and over");
        bench.say(1, &format!("m{}", bench.outputs.len()));
    }
    bench.ready("claude");
    let prompt = bench.prompts().pop().unwrap().to_owned();
    assert!(prompt.contains("a.png") && !prompt.contains("[Repeated"), "{prompt}");
}

#[test]
fn f3_an_agent_that_fails_in_its_turn_is_told_again_with_the_next_message() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    seen(&mut bench, "p1", success(&["a.png"]));
    bench.ready("claude");
    let before = wakes(&bench);
    bench.end_as("claude", TurnOutcome::Failed { code: "exited".to_owned(), message: "it ended".to_owned() });
    assert_eq!(wakes(&bench), before);
    bench.begin(1, "m2");
    assert!(bench.prompts().pop().unwrap().contains("[Repeated"));
}

/// What the log of a bench holds of its only conversation.
fn restored(bench: &Bench, taken: &[u64], again: &[u64], turns: u32) -> Restored {
    let rows = &bench.rows[&ConversationKey::of(&"claude".into())];
    let pending = bench.unsettled("claude");
    Restored {
        newest: Seq(rows.len() as u64),
        last_turn: TurnId(2),
        pending: pending
            .iter()
            .map(|seq| (Seq(*seq), &rows[*seq as usize - 1]))
            .map(|(seq, row)| Pending { seq, kind: row.kind.to_owned(), body: row.body.clone(), turns })
            .collect(),
        taken: taken.iter().copied().map(Seq).collect(),
        again: again.iter().copied().map(Seq).collect(),
        ..Restored::default()
    }
}

fn restart(restored: Restored) -> Bench {
    let mut bench = Bench::new();
    bench.tell(Input::Restore { backend: "claude".into(), restored });
    bench
}

#[test]
fn d6_a_completion_that_a_crash_cut_off_is_told_once_more() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    seen(&mut bench, "p1", success(&["a.png"]));
    bench.ready("claude");
    let [event] = bench.unsettled("claude")[..] else { panic!("one event is not settled") };
    let mut once = restart(restored(&bench, &[event], &[], 1));
    assert!(once.kinds("claude").ends_with(&["turn_end"]), "{:?}", once.kinds("claude"));
    once.ready("claude");
    let prompt = once.prompts().pop().unwrap().to_owned();
    assert!(prompt.contains("[Repeated") && prompt.contains("a.png"), "{prompt}");
    let twice = restart(restored(&bench, &[event], &[], 2));
    assert_eq!(wakes(&twice), 0, "not turn after turn");
}

#[test]
fn d6_a_completion_that_the_stop_of_the_daemon_cut_off_goes_on_and_a_stopped_one_waits() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    seen(&mut bench, "p1", success(&["a.png"]));
    bench.ready("claude");
    let [event] = bench.unsettled("claude")[..] else { panic!("one event is not settled") };
    bench.end_as("claude", TurnOutcome::Interrupted);
    let rows = &bench.rows[&ConversationKey::of(&"claude".into())];
    assert_eq!(rows.iter().rfind(|row| row.kind == "turn_end").unwrap().body["again"], json!([event]));
    assert_eq!(wakes(&restart(restored(&bench, &[], &[event], 1))), 1);
    let mut stopped = restart(restored(&bench, &[], &[], 1));
    assert_eq!(wakes(&stopped), 0, "the person stopped it");
    stopped.join(1, "tab-1", "w1");
    stopped.begin(1, "m2");
    assert!(stopped.prompts()[0].contains("[Repeated"));
}

#[test]
fn report_052_a_ticket_outlives_the_daemon_and_asks_the_comfyui_that_has_it() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    let mut bench = restart(restored(&bench, &[], &[], 0));
    assert_eq!(watched(&bench), ["p1".into()]);
    bench.join(1, "another-tab", "w9");
    assert_eq!(bench.of_type(1, "welcome")[0]["tab"], "t2", "the ticket's tab is not given away");
    seen(&mut bench, "p1", success(&["a.png"]));
    assert_eq!(events(&bench).len(), 1);
}

#[test]
fn a_run_that_comfyui_forgot_is_told_as_unknown_once_and_corrected_by_its_panel() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    seen(&mut bench, "p1", Sight::Queued { ahead: 0 });
    seen(&mut bench, "p1", Sight::Absent);
    assert!(events(&bench).is_empty(), "its panel may still know");
    bench.wait(3_000);
    assert!(events(&bench)[0].contains("is not known"));
    seen(&mut bench, "p1", Sight::Absent);
    bench.wait(100_000);
    assert_eq!(events(&bench).len(), 1);
    panel(&mut bench, "p1", "a.png");
    assert!(events(&bench)[1].contains("a.png"), "what is known now is told");
    panel(&mut bench, "p1", "a.png");
    assert_eq!(events(&bench).len(), 2);
    bench.ready("claude");
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty());
}

#[test]
fn a_comfyui_that_never_knew_the_run_is_not_believed_at_once() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    seen(&mut bench, "p1", Sight::Absent);
    bench.wait(30_000);
    assert!(events(&bench).is_empty());
    panel(&mut bench, "p1", "a.png");
    assert!(events(&bench)[0].contains("a.png"));
}

#[test]
fn report_051_each_run_of_a_batch_has_an_end_of_its_own() {
    let mut bench = queued(&["p1", "p2", "p3"]);
    bench.end("claude");
    seen(&mut bench, "p1", success(&["a.png"]));
    let fault = Fault::new(Some("out of memory"), Some("5".to_owned()), Some("KSampler".to_owned()));
    seen(&mut bench, "p2", Sight::Ended(Ending::new(Status::Error, [], fault)));
    seen(&mut bench, "p3", Sight::Ended(Ending::new(Status::Interrupted, [], None)));
    let told = events(&bench);
    assert!(told[0].contains("success") && told[1].contains("node #5 (KSampler): out of memory"), "{told:?}");
    assert!(told[2].contains("interrupted"));
}

#[test]
fn report_053_a_run_without_a_prompt_id_is_of_unknown_outcome() {
    for (result, code) in [
        (json!({"queued": true}), "unknown_outcome"),
        (json!({"queued": true, "prompt_id": ""}), "unknown_outcome"),
        (json!({"queued_unknown": true}), "unknown_outcome"),
        (json!({"queued": false}), "failed"),
        (json!({"error": "nothing to run"}), "failed"),
        (json!({"node_errors": {"5": {"errors": []}}}), "failed"),
    ] {
        let mut bench = Bench::new();
        bench.join(1, "tab-1", "w1");
        bench.begin(1, "m1");
        let call = bench.call("run", json!({}));
        bench.reply(1, result.clone(), None);
        assert_eq!(bench.refusal(call).code(), code, "{result}");
        let words = bench.refusal(call).message();
        assert!(!words.contains("You are told"), "report 54: {words}");
        if code == "unknown_outcome" {
            let token = bench.refusal(call).to_wire()["token"].clone();
            let again = bench.call("run", json!({"retry_of": token}));
            assert_eq!(bench.command(1)["retry_of"], token, "the panel's ledger can be asked");
            bench.reply(1, json!({"prompt_id": "p1"}), None);
            assert_eq!(bench.ok(again)["prompt_id"], "p1");
        }
    }
}

#[test]
fn d6_a_completion_that_cannot_be_written_down_is_tried_again() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    bench.slow_log = true;
    seen(&mut bench, "p1", success(&["a.png"]));
    let (append, _) = bench.waiting.pop().unwrap();
    bench.slow_log = false;
    bench.tell(Input::AppendFailed { append, code: "disk_full".to_owned(), message: "no room".to_owned() });
    assert!(events(&bench).is_empty());
    bench.wait(10_000);
    assert_eq!(events(&bench).len(), 1);
    bench.ready("claude");
    bench.end("claude");
    assert!(bench.unsettled("claude").is_empty());
}

#[test]
fn b1_a_cleared_conversation_watches_no_run() {
    let mut bench = queued(&["p1"]);
    bench.frame(1, &json!({"type": "new_session"}));
    assert!(watched(&bench).is_empty());
    seen(&mut bench, "p1", success(&[]));
    assert!(events(&bench).is_empty());
}

/// The look that a call ordered.
fn look(bench: &Bench) -> (Vec<PromptId>, CallId) {
    let look = bench.outputs.iter().rev().find_map(|output| match output {
        Output::LookAtRuns { comfyui, prompt_ids, call, .. } if comfyui == COMFY => Some((prompt_ids.clone(), *call)),
        _ => None,
    });
    look.expect("ComfyUI is asked")
}

#[test]
fn run_status_asks_comfyui_and_tells_each_state() {
    let mut bench = queued(&["p1", "p2", "p3"]);
    let call = bench.call("run_status", json!({}));
    let (ids, of) = look(&bench);
    assert_eq!((ids.len(), of), (3, call));
    assert!(bench.answer(call).is_none());
    let runs = vec![
        ("p1".into(), success(&["a.png"])),
        ("p2".into(), Sight::Running { progress: None }),
        ("p3".into(), Sight::Queued { ahead: 1 }),
    ];
    bench.tell(Input::RunsSeen { comfyui: COMFY.to_owned(), runs, call: Some(call) });
    let told = bench.ok(call).clone();
    let states: Vec<&str> = told["runs"].as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "running", "queued"], "{told}");
    assert_eq!(told["runs"][0]["outputs"][0]["filename"], "a.png");
    assert_eq!((&told["runs"][2]["ahead"], &told["runs"][2]["workflow"]), (&json!(1), &json!("title of w1")));
}

#[test]
fn run_status_knows_a_run_whose_ticket_is_being_written() {
    let mut bench = queued(&[]);
    bench.slow_log = true;
    bench.call("run", json!({}));
    bench.reply(1, json!({"prompt_id": "p1"}), None);
    bench.call("run_status", json!({}));
    assert_eq!(look(&bench).0, ["p1".into()]);
}

#[test]
fn run_status_says_unknown_when_nobody_knows() {
    let mut bench = queued(&["p1"]);
    let call = bench.call("run_status", json!({"prompt_id": "somebody's"}));
    bench.tell(Input::ComfyuiDown { comfyui: COMFY.to_owned(), why: "refused".to_owned(), call: Some(call) });
    assert_eq!(bench.ok(call)["runs"][0]["state"], "unknown");
    let mut alone = Bench::new();
    alone.join(1, "tab-1", "w1");
    let call = alone.call("run_status", json!({"prompt_id": "p1"}));
    assert_eq!(alone.ok(call)["runs"][0]["state"], "unknown", "no ComfyUI is known");
}

#[test]
fn report_050_an_end_that_the_agent_asked_for_starts_no_turn_of_its_own() {
    for written_late in [false, true] {
        let mut bench = queued(&["p1"]);
        let call = bench.call("run_status", json!({}));
        bench.slow_log = written_late;
        bench.tell(Input::RunsSeen {
            comfyui: COMFY.to_owned(),
            runs: vec![("p1".into(), success(&["a.png"]))],
            call: Some(call),
        });
        assert_eq!(bench.ok(call)["runs"][0]["state"], "done");
        bench.catch_up();
        let before = wakes(&bench);
        bench.end("claude");
        assert_eq!(wakes(&bench), before, "late {written_late}");
        assert!(bench.unsettled("claude").is_empty());
    }
}

#[test]
fn t8_a_completion_does_not_cut_short_the_pause_of_an_agent_that_does_not_start() {
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    bench.say(1, "m2");
    let turn = bench.waking.remove(&Backend::from("claude")).unwrap();
    let (code, message) = ("exited".to_owned(), "It ended.".to_owned());
    bench.tell(Input::AgentFailed { backend: "claude".into(), turn, may_pass: true, code, message });
    let before = wakes(&bench);
    seen(&mut bench, "p1", success(&["a.png"]));
    assert_eq!((events(&bench).len(), wakes(&bench)), (1, before));
    bench.wait(500);
    assert_eq!(wakes(&bench), before + 1);
}

#[test]
fn f3_a_comfyui_that_stays_away_is_given_up_after_a_day_and_not_while_it_comes_back() {
    let down = |bench: &mut Bench| {
        bench.tell(Input::ComfyuiDown { comfyui: COMFY.to_owned(), why: "refused".to_owned(), call: None });
    };
    let day = 24 * 60 * 60 * 1_000;
    let mut bench = queued(&["p1"]);
    bench.end("claude");
    seen(&mut bench, "p1", Sight::Running { progress: None });
    down(&mut bench);
    bench.wait(day - 1_000);
    // It answers again, and has nothing new to say of the run.
    bench.tell(Input::RunsSeen { comfyui: COMFY.to_owned(), runs: Vec::new(), call: None });
    bench.wait(2 * day);
    assert!(events(&bench).is_empty());
    down(&mut bench);
    bench.wait(day);
    assert_eq!(events(&bench).len(), 1);
    assert!(events(&bench)[0].contains("is not known"));
    assert!(watched(&bench).is_empty(), "nobody asks any more");
}

#[test]
fn f4_a_job_is_begun_only_when_its_ticket_is_on_disk() {
    let begun = |bench: &Bench| bench.count(|output| matches!(output, Output::BeginJob { .. }));
    let mut bench = queued(&[]);
    bench.slow_log = true;
    let call = bench.call("install_node", json!({"id": "x"}));
    assert_eq!(begun(&bench), 0);
    bench.refuse_write();
    assert_eq!((begun(&bench), bench.refusal(call).code()), (0, "failed"));
    bench.slow_log = true;
    bench.call("install_node", json!({"id": "x"}));
    bench.frame(1, &json!({"type": "new_session"}));
    bench.catch_up();
    assert_eq!(begun(&bench), 0, "nobody waits for it any more");
}
