//! Questions, the plan, the target, runs, and requests without a connection.

use super::*;

fn ask(bench: &mut Bench, rid: &str, ask_id: &str) {
    bench.command(rid, "ask_user", json!({"question": "Which?", "options": ["a", {"label": "b"}], "ask_id": ask_id}));
}

#[test]
fn report_059_the_same_question_again_replaces_its_card_and_is_answered_once() {
    let mut bench = Bench::connected();
    ask(&mut bench, "r1", "q1");
    bench.reconnect(0);
    ask(&mut bench, "r2", "q1");
    let cards: Vec<Question> = bench
        .shown()
        .into_iter()
        .filter_map(|change| match change {
            UiChange::Question { question } => Some(question),
            _ => None,
        })
        .collect();
    assert_eq!(cards.len(), 2);
    assert_eq!(cards[0].ask_id, cards[1].ask_id);
    assert_eq!(cards[0].options[1].label, "b");
    bench.sent();
    bench.input(PanelInput::Answer { ask_id: "q1".into(), result: json!("b") });
    let reply = bench.only_reply();
    assert_eq!(
        (&reply["rid"], &reply["ask_id"], &reply["ok"], &reply["result"]),
        (&json!("r2"), &json!("q1"), &json!(true), &json!("b"))
    );
    assert!(bench.shown().contains(&UiChange::QuestionClosed { ask_id: "q1".into(), answered: true }));
    bench.input(PanelInput::Answer { ask_id: "q1".into(), result: json!("a") });
    assert!(bench.sent().is_empty());
    // Asked once more because the answer was lost: answered without a card.
    ask(&mut bench, "r3", "q1");
    assert_eq!(bench.only_reply()["result"], "b");
    assert!(bench.shown().is_empty());
}

#[test]
fn f3_an_answer_given_without_a_connection_is_told_later() {
    let mut bench = Bench::connected();
    ask(&mut bench, "r1", "q1");
    bench.close(1006);
    bench.input(PanelInput::Answer { ask_id: "q1".into(), result: json!(["a", "b"]) });
    assert!(bench.sent().is_empty());
    bench.input(PanelInput::Reconnect);
    bench.shake(0);
    let reply = bench.only_reply();
    assert_eq!((&reply["ask_id"], &reply["result"]), (&json!("q1"), &json!(["a", "b"])));
}

#[test]
fn b1_a_question_that_was_closed_elsewhere_takes_no_answer() {
    let mut bench = Bench::connected();
    ask(&mut bench, "r1", "q1");
    bench.daemon(json!({"type": "ask_closed", "ask_id": "q1"}));
    assert!(bench.shown().contains(&UiChange::QuestionClosed { ask_id: "q1".into(), answered: false }));
    bench.input(PanelInput::Answer { ask_id: "q1".into(), result: json!("a") });
    assert!(bench.sent().is_empty());
}

#[test]
fn a_question_without_choices_is_refused() {
    let mut bench = Bench::connected();
    bench.command("r1", "ask_user", json!({"question": "Which?", "options": ["only one"]}));
    assert_eq!(bench.only_reply()["refusal"]["code"], "bad_arguments");
    assert!(bench.shown().is_empty());
}

#[test]
fn the_plan_is_shown_whole_and_counted() {
    let mut bench = Bench::connected();
    bench.command(
        "r1",
        "set_todo",
        json!({"items": [{"text": "load", "status": "done"}, {"text": "run", "status": "active"}]}),
    );
    assert_eq!(bench.only_reply()["result"], json!({"count": 2}));
    let items = match bench.shown().pop() {
        Some(UiChange::Todo { items }) => items,
        other => panic!("{other:?}"),
    };
    assert_eq!((items[1].text.as_str(), items[1].status.as_str()), ("run", "active"));
}

#[test]
fn what_a_message_acts_on_is_always_told() {
    let mut bench = Bench::new(config());
    bench.front(Some(saved("w1", "a")));
    let acts_on = |label: &str, pinned: bool, in_front: bool, pin: &str| UiChange::ActsOn {
        label: Some(label.into()),
        pinned,
        in_front,
        pin: Some(pin.into()),
    };
    assert_eq!(bench.shown(), [acts_on("a", false, true, "workflows/a.json")]);
    bench.input(PanelInput::Start);
    bench.shake(0);
    bench.out.clear();
    bench.daemon(json!({"type": "workflow_target", "target": {"mode": "pinned", "path": "workflows/b.json"}}));
    assert_eq!(bench.shown().pop(), Some(acts_on("workflows/b.json", true, false, "workflows/a.json")));
    bench.front(Some(saved("w2", "b")));
    assert_eq!(bench.shown().pop(), Some(acts_on("b", true, true, "workflows/b.json")));
    bench.daemon(json!({"type": "workflow_target", "target": {"mode": "current"}}));
    bench.out.clear();
    bench.front(None);
    let unknown = UiChange::ActsOn { label: None, pinned: false, in_front: false, pin: None };
    assert_eq!(bench.shown(), [unknown]);
}

#[test]
fn g1_the_picker_asks_and_the_daemon_decides() {
    let mut bench = Bench::connected();
    let target = Target::Pinned { path: "workflows/a.json".into(), filename: Some("a.json".into()) };
    bench.input(PanelInput::SetTarget { target });
    let frame =
        json!({"type": "set_workflow_target", "mode": "pinned", "path": "workflows/a.json", "filename": "a.json"});
    assert_eq!(bench.sent(), [frame]);
    assert!(bench.shown().is_empty(), "nothing is pinned before the daemon says so");
    bench.input(PanelInput::SetTarget { target: Target::Current });
    assert_eq!(bench.sent(), [json!({"type": "set_workflow_target", "mode": "current"})]);
}

#[test]
fn f3_the_end_of_a_run_is_told_once_and_kept_without_a_connection() {
    let mut bench = Bench::connected();
    let finished = |id: &str| PanelInput::RunFinished {
        prompt_id: id.into(),
        status: "success".into(),
        images: vec![json!({"filename": "a.png", "subfolder": "", "type": "output"})],
        error: None,
    };
    bench.input(finished("p1"));
    bench.input(finished("p1"));
    let frames = bench.sent();
    assert_eq!(frames.len(), 1);
    assert_eq!((&frames[0]["kind"], &frames[0]["run_status"]), (&json!("executed"), &json!("success")));
    bench.now += 60_000;
    bench.close(1006);
    bench.input(finished("p2"));
    bench.input(PanelInput::Reconnect);
    bench.shake(0);
    let told: Vec<Value> = bench.sent().into_iter().skip(1).map(|frame| frame["prompt_id"].clone()).collect();
    assert_eq!(told, [json!("p2")], "p1 arrived long ago");
    // The connection goes right after the telling: told again, and taken once by its key.
    bench.reconnect(0);
    assert_eq!(bench.sent()[1]["prompt_id"], "p2");
}

#[test]
fn a_run_that_the_agent_queued_is_shown_until_its_end() {
    let mut bench = Bench::connected();
    bench.command("r1", "graph_run", json!({}));
    bench.done("r1", json!({"prompt_id": "p1"}));
    let run = |status: &str| UiChange::Run { prompt_id: "p1".into(), status: status.into(), error: None };
    assert_eq!(bench.shown(), [run("queued")]);
    let finished = PanelInput::RunFinished {
        prompt_id: "p1".into(),
        status: "interrupted".into(),
        images: Vec::new(),
        error: None,
    };
    bench.input(finished);
    assert_eq!(bench.shown(), [run("interrupted")]);
    // A short run may end before its reply is made.
    bench.command("r2", "graph_run", json!({}));
    bench.done("r2", json!({"prompt_id": "p1"}));
    assert!(bench.shown().is_empty());
}

#[test]
fn requests_that_mean_nothing_later_are_not_kept() {
    let mut bench = Bench::connected();
    bench.close(1006);
    bench.out.clear();
    for input in [
        PanelInput::Stop,
        PanelInput::NewChat,
        PanelInput::SendNow,
        PanelInput::SetModel { model: "m".into() },
        PanelInput::SetTarget { target: Target::Current },
    ] {
        bench.input(input);
        assert_eq!(bench.shown(), [UiChange::Notice { code: "not_connected".into(), text: String::new() }]);
    }
    bench.input(PanelInput::Reconnect);
    bench.shake(0);
    assert_eq!(bench.kinds(), ["hello"]);
}

#[test]
fn states_of_the_agent_are_passed_on() {
    let mut bench = Bench::connected();
    bench.daemon(json!({"type": "ack", "ok": false, "kind": "degraded", "message": "not signed in"}));
    bench.daemon(json!({"type": "agent_status", "used": 10, "context_window": 100}));
    bench.daemon(json!({"type": "session", "session_id": null}));
    bench.daemon(json!({"type": "action", "name": "panel_run"}));
    bench.daemon(json!({"type": "comfyui_target", "url": "http://127.0.0.1:8188", "is_local": true}));
    bench.daemon(json!({"type": "backends", "backends": [], "any_ready": false, "discovery_complete": true}));
    bench.daemon(json!({"type": "ack", "ok": true, "kind": "new_session", "durable_cleared": false}));
    bench.daemon(json!({"type": "ack", "ok": false, "kind": "options", "message": "no such model"}));
    let shown = bench.shown();
    assert_eq!(shown[0], UiChange::Agent { ready: false, message: Some("not signed in".into()) });
    assert!(matches!(&shown[1], UiChange::Usage { usage } if usage.used == Some(10)));
    assert_eq!(shown[2], UiChange::Session { session_id: None });
    assert_eq!(shown[3], UiChange::Activity { name: "panel_run".into(), detail: String::new() });
    assert!(matches!(&shown[4], UiChange::Comfyui { is_local: true, .. }));
    assert!(matches!(&shown[5], UiChange::Backends { any_ready: false, .. }));
    assert!(matches!(&shown[6], UiChange::Notice { code, .. } if code == "not_durably_cleared"));
    assert_eq!(shown[7], UiChange::Notice { code: "options_refused".into(), text: "no such model".into() });
    bench.daemon(json!({"type": "ack", "ok": true, "kind": "options", "model": "opus"}));
    assert_eq!(bench.shown(), [UiChange::Model { current: "opus".into() }]);
}

#[test]
fn the_same_script_gives_the_same_outputs() {
    let script = |bench: &mut Bench| {
        bench.send("m1");
        bench.command("r1", "graph_add_node", json!({"class_type": "KSampler"}));
        bench.done("r1", json!({"id": 1}));
        bench.reconnect(0);
        std::mem::take(&mut bench.out)
    };
    let (mut one, mut two) = (Bench::connected(), Bench::connected());
    assert_eq!(script(&mut one), script(&mut two));
    assert_eq!(one.panel, two.panel);
    assert_eq!(uuid("w1"), one.panel.front.map(|front| front.uuid));
}
