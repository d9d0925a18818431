//! The built-in helper against a small tools endpoint.
use crate::bench::Bench;
use orchestrator::agent::{AgentConfig, AgentKind, StartError};
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::id::AgentSessionId;
use routing_core::refusal::Refusal;
use serde_json::{Value, json};

async fn bench(pause: u64) -> Bench {
    let mut config = AgentConfig::new(AgentKind::Demo);
    config.word_delay_ms = pause;
    Bench::new(config).await
}

fn result(structured: &Value) -> Value {
    json!({"content": [{"type": "text", "text": structured.to_string()}], "structuredContent": structured})
}

fn refused(refusal: &Refusal) -> Value {
    json!({"isError": true, "content": [{"type": "text", "text": refusal.message()}],
        "structuredContent": {"refusal": refusal.to_wire()}})
}

fn search(classes: &[&str]) -> Value {
    let nodes: Vec<Value> = classes.iter().map(|class| json!({"class_type": class, "title": class})).collect();
    result(&json!({"matched": nodes.len(), "nodes": nodes}))
}

#[tokio::test]
async fn it_helps_in_streamed_words_and_keeps_its_session() {
    let bench = bench(0).await;
    let mut running = bench.start(None).await;
    let turn = running.turn("Help!").await;
    assert_eq!(turn.outcome, TurnOutcome::Completed);
    assert!(turn.texts()[0].contains("text-to-image"));
    assert!(turn.events.iter().filter(|event| matches!(event, AgentEvent::Delta { .. })).count() > 20);
    turn.check_blocks();
    let session = turn.session().unwrap();
    running.close().await;
    let mut resumed = bench.start(Some(session.clone())).await;
    let turn = resumed.turn("gibberish of some kind").await;
    assert_eq!(turn.session(), Some(session));
    assert!(turn.texts()[0].contains("did not understand"));
    resumed.close().await;
    let unknown = bench.try_start(Some(AgentSessionId::from("not of its making"))).await;
    assert!(matches!(unknown, Err(StartError::UnknownSession(_))));
}

#[tokio::test]
async fn a_node_is_added_by_its_name_in_any_spelling() {
    let bench = bench(0).await;
    bench.tools.answer_with(search(&["KSamplerAdvanced", "KSampler"]));
    bench.tools.answer_with(result(&json!({"node_id": 5})));
    let mut running = bench.start(None).await;
    let turn = running.turn("please add a ksampler").await;
    assert_eq!(turn.texts(), ["I added KSampler as node 5."]);
    assert_eq!(turn.tools(), ["panel_search_nodes", "panel_add_node"]);
    assert_eq!(bench.tools.calls()[1].1, json!({"class_type": "KSampler"}));
    running.close().await;
}

#[tokio::test]
async fn links_and_values_are_resolved_on_the_canvas() {
    let nodes = result(&json!({"nodes": [
        {"id": 4, "type": "CheckpointLoaderSimple", "title": "Load", "widgets": [],
            "outputs": [{"name": "MODEL", "type": "MODEL"}, {"name": "VAE", "type": "VAE"}]},
        {"id": 3, "type": "KSampler", "title": "KSampler", "widgets": [{"name": "steps"}],
            "inputs": [{"name": "model", "type": "MODEL"}]},
    ]}));
    let bench = bench(0).await;
    let answers = [nodes.clone(), result(&json!({})), nodes, result(&json!({}))];
    answers.into_iter().for_each(|answer| bench.tools.answer_with(answer));
    let mut running = bench.start(None).await;
    let turn = running.turn("connect CheckpointLoaderSimple to KSampler\nset Steps of it_is_not_there to 3").await;
    assert_eq!(
        turn.texts(),
        [
            "I connected MODEL of CheckpointLoaderSimple (4) to model of KSampler (3).",
            "I found no it_is_not_there on the canvas."
        ]
    );
    let calls = bench.tools.calls();
    assert_eq!(calls[1].1, json!({"from_node_id": 4, "from_output": "MODEL", "to_node_id": 3, "to_input": "model"}));
    running.close().await;
}

#[tokio::test]
async fn a_whole_graph_is_built() {
    let bench = bench(0).await;
    for id in 1..=7 {
        bench.tools.answer_with(result(&json!({"node_id": id})));
    }
    let mut running = bench.start(None).await;
    let turn = running.turn("Build a text-to-image graph").await;
    assert_eq!(turn.outcome, TurnOutcome::Completed);
    let calls = bench.tools.calls();
    assert_eq!(calls.iter().filter(|(name, _)| name == "panel_add_node").count(), 7);
    assert_eq!(calls.iter().filter(|(name, _)| name == "panel_connect").count(), 9);
    assert_eq!(calls[15].1, json!({"from_node_id": 6, "from_output": "IMAGE", "to_node_id": 7, "to_input": "images"}));
    running.close().await;
}

#[tokio::test]
async fn another_workflow_in_front_is_told_and_taken_only_on_request() {
    let bench = bench(0).await;
    let mismatch = Refusal::WorkflowInstanceMismatch { issued: Some("w1".into()), active: Some("w2".into()) };
    bench.tools.answer_with(search(&["KSampler"]));
    bench.tools.answer_with(refused(&mismatch));
    let mut running = bench.start(None).await;
    let turn = running.turn("add a KSampler, then run").await;
    assert_eq!(turn.outcome, TurnOutcome::Completed, "a refusal is an answer");
    assert!(turn.texts()[0].contains("another workflow") && turn.texts()[0].contains("use the current one"));
    assert_eq!(bench.tools.calls().len(), 2, "nothing was re-aimed or tried again");

    bench.tools.answer_with(result(&json!({})));
    bench.tools.answer_with(search(&["KSampler"]));
    bench.tools.answer_with(result(&json!({"node_id": 9})));
    let turn = running.turn("use the current one").await;
    let names: Vec<String> = bench.tools.calls().into_iter().skip(2).map(|(name, _)| name).collect();
    assert_eq!(names, ["panel_set_workflow_target", "panel_search_nodes", "panel_add_node", "panel_run"]);
    assert_eq!(bench.tools.calls()[2].1, json!({"mode": "current"}));
    assert!(turn.texts().contains(&"I added KSampler as node 9."));
    running.close().await;
}

#[tokio::test]
async fn it_is_interrupted_in_the_middle_of_a_sentence_and_goes_on() {
    let bench = bench(200).await;
    let mut running = bench.start(None).await;
    running.session.interrupt().await;
    running.prompt("help").await;
    let events = running.until_text().await;
    running.session.interrupt().await;
    let turn = running.finish(events).await;
    assert_eq!(turn.outcome, TurnOutcome::Interrupted);
    turn.check_blocks();
    let next = running.turn("list workflows").await;
    assert_eq!((next.outcome.clone(), next.texts()), (TurnOutcome::Completed, vec!["No workflow is open."]));
    running.prompt("help").await;
    running.until_text().await;
    running.close().await;
}

#[tokio::test]
async fn tools_that_cannot_be_reached_fail_the_turn_without_naming_the_handle() {
    let mut bench = bench(0).await;
    bench.tools.endpoint.url = "http://127.0.0.1:9/mcp/secret-handle".into();
    let mut running = bench.start(None).await;
    let turn = running.turn("list workflows").await;
    let (code, message) = turn.failure().unwrap();
    assert_eq!(code, "protocol");
    assert!(message.contains("cannot be reached") && !message.contains("secret-handle"), "{message}");
    running.close().await;
}
