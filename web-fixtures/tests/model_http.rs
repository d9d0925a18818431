//! The scripted model over HTTP, as clients of either API see it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use web_fixtures::model::RunningModel;

async fn post(model: &RunningModel, path: &str, body: &Value) -> reqwest::Response {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.post(model.url() + path).body(body.to_string()).send().await.unwrap()
}

async fn json(model: &RunningModel, path: &str, body: &Value) -> Value {
    post(model, path, body).await.json().await.unwrap()
}

/// The data of every event but `[DONE]`.
async fn events(response: reqwest::Response) -> Vec<Value> {
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn claude(messages: Value) -> Value {
    json!({
        "model": "m-1", "stream": true, "messages": messages,
        "tools": [{"name": "Bash"}, {"name": "mcp__panel__panel_add_node"}, {"name": "mcp__panel__panel_connect"}],
    })
}

const SCRIPT: &str = r#"@@say let me add it@@ @@tool panel_add_node {"class":"A"}@@
    @@tool panel_connect {"to":"$last:/id"}@@"#;

#[tokio::test]
async fn anthropic_streams_text_then_the_tool_call() {
    let model = RunningModel::start().await.unwrap();
    let talk = json!([{"role": "user", "content": [{"type": "text", "text": "<system-reminder>x"}, {"type": "text", "text": SCRIPT}]}]);
    let events = events(post(&model, "/v1/messages", &claude(talk)).await).await;
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    assert_eq!(events[0]["message"]["model"], "m-1");
    assert_eq!((&events[2]["index"], &events[6]["index"]), (&json!(0), &json!(1)));
    assert_eq!(events[6]["content_block"]["name"], "mcp__panel__panel_add_node");
    assert_eq!(events[7]["delta"]["partial_json"], r#"{"class":"A"}"#);
    assert_eq!(events[9]["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn anthropic_goes_on_with_the_result_and_ignores_the_agents_notes() {
    let model = RunningModel::start().await.unwrap();
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": [
        {"type": "text", "text": "{\"id\": 12}\n"}, {"type": "text", "text": "<system-reminder>tokens</system-reminder>"}]});
    let mut talk = json!([
        {"role": "user", "content": SCRIPT},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "x", "input": {}}]},
        {"role": "user", "content": [result]},
    ]);
    let mut body = claude(talk.clone());
    body["stream"] = json!(false);
    let answer = json(&model, "/v1/messages", &body).await;
    assert_eq!(answer["content"][0]["input"], json!({"to": 12}));
    assert_eq!(answer["stop_reason"], "tool_use");

    let more = [json!({"role": "assistant", "content": []}), json!({"role": "user", "content": [result]})];
    talk.as_array_mut().unwrap().extend(more);
    body["messages"] = talk;
    let answer = json(&model, "/v1/messages", &body).await;
    assert_eq!(answer["content"], json!([{"type": "text", "text": "{\"id\": 12}\n"}]));
    assert_eq!(answer["stop_reason"], "end_turn");
}

#[tokio::test]
async fn anthropic_heeds_what_the_person_said_during_the_turn() {
    let model = RunningModel::start().await.unwrap();
    let note =
        "<system-reminder>\nThe user sent a new message while you were working:\n@@say folded@@\n</system-reminder>";
    let content =
        json!([{"type": "text", "text": "a result with @@say not a script@@"}, {"type": "text", "text": note}]);
    let talk = json!([
        {"role": "user", "content": SCRIPT},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "x", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": content}]},
    ]);
    let mut body = claude(talk);
    body["stream"] = json!(false);
    let answer = json(&model, "/v1/messages", &body).await;
    assert_eq!(answer["content"], json!([{"type": "text", "text": "folded"}]));
}

#[tokio::test]
async fn failures_have_the_status_and_the_form_of_the_api() {
    let model = RunningModel::start().await.unwrap();
    let talk = json!([{"role": "user", "content": "@@error 529@@"}]);
    for stream in [true, false] {
        let body = json!({"model": "m", "stream": stream, "messages": talk});
        let response = post(&model, "/v1/messages", &body).await;
        assert_eq!(response.status(), 529);
        assert_eq!(response.json::<Value>().await.unwrap()["error"]["type"], "overloaded_error");
        let response = post(&model, "/v1/chat/completions", &body).await;
        assert_eq!(response.status(), 529);
        assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], "529");
    }
    let talk = json!([{"role": "user", "content": "@@say begun@@@@error 500@@"}]);
    let events = events(post(&model, "/v1/messages", &claude(talk)).await).await;
    assert_eq!(events.last().unwrap()["error"]["type"], "api_error", "an error after text comes in the stream");
}

#[tokio::test]
async fn openai_streams_text_tool_calls_and_usage() {
    let model = RunningModel::start().await.unwrap();
    let tools = json!([{"type": "function", "function": {"name": "panel_add_node"}}, {"type": "function", "function": {"name": "panel_connect"}}]);
    let mut body = json!({
        "model": "m-2", "stream": true, "stream_options": {"include_usage": true}, "tools": tools,
        "messages": [{"role": "system", "content": "@@say not a script@@"}, {"role": "user", "content": SCRIPT}],
    });
    let events = events(post(&model, "/v1/chat/completions", &body).await).await;
    let text: String = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "let me add it");
    let calls: Vec<&Value> = events.iter().map(|event| &event["choices"][0]["delta"]["tool_calls"][0]).collect();
    assert!(calls.iter().any(|call| call["function"]["name"] == "panel_add_node" && call["id"].is_string()));
    let arguments: String = calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, r#"{"class":"A"}"#);
    assert_eq!(events[events.len() - 2]["choices"][0]["finish_reason"], "tool_calls");
    assert!(events.last().unwrap()["usage"]["total_tokens"].is_number());

    let more = [
        json!({"role": "assistant", "content": null, "tool_calls": []}),
        json!({"role": "tool", "tool_call_id": "c", "content": "{\"id\":5}"}),
    ];
    body["messages"].as_array_mut().unwrap().extend(more);
    body["stream"] = json!(false);
    let answer = json(&model, "/v1/chat/completions", &body).await;
    let call = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!((&call["name"], &call["arguments"]), (&json!("panel_connect"), &json!(r#"{"to":5}"#)));
}

#[tokio::test]
async fn slow_words_come_one_by_one_and_an_abandoned_stream_is_counted() {
    let model = RunningModel::start().await.unwrap();
    let started = Instant::now();
    let talk = json!([{"role": "user", "content": "@@slow 0.4 one two@@"}]);
    let mut response = post(&model, "/v1/messages", &claude(talk)).await;
    let mut first_word = None;
    while let Some(chunk) = response.chunk().await.unwrap() {
        if first_word.is_none() && String::from_utf8_lossy(&chunk).contains("\"one\"") {
            first_word = Some(started.elapsed());
        }
    }
    assert!(started.elapsed() >= Duration::from_millis(400));
    assert!(first_word.unwrap() < started.elapsed() - Duration::from_millis(150));

    let talk = json!([{"role": "user", "content": "@@hang 60@@"}]);
    let mut response = post(&model, "/v1/messages", &claude(talk)).await;
    response.chunk().await.unwrap();
    drop(response);
    let deadline = Instant::now() + Duration::from_secs(5);
    while model.counts().abandoned == 0 {
        assert!(Instant::now() < deadline, "the stream was left and nobody noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn requests_are_counted_and_nothing_is_left_without_an_answer() {
    let model = RunningModel::start().await.unwrap();
    json(&model, "/v1/messages", &json!({"model": "a", "messages": [{"role": "user", "content": "@@say hi@@"}]})).await;
    let title =
        json!({"model": "b", "messages": [{"role": "user", "content": "title for {\\\"@@tool x {\\\\\"a\\\\\"@@"}]});
    let side = json(&model, "/v1/messages", &title).await;
    assert_eq!(side["stop_reason"], "end_turn");
    for odd in
        [json!(null), json!([1]), json!({"messages": "x"}), json!({"messages": [1, {"role": "user", "content": 3}]})]
    {
        assert_eq!(post(&model, "/v1/messages", &odd).await.status(), 200, "{odd}");
        assert_eq!(post(&model, "/v1/chat/completions", &odd).await.status(), 200, "{odd}");
    }
    let tokens = json(&model, "/v1/messages/count_tokens", &title).await;
    assert!(tokens["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(post(&model, "/v1/unknown", &json!({})).await.status(), 404);

    let counts: Value = reqwest::get(model.url() + "/requests").await.unwrap().json().await.unwrap();
    assert_eq!((&counts["total"], &counts["scripted"], &counts["count_tokens"]), (&json!(10), &json!(2), &json!(1)));
    assert_eq!((&counts["per_model"]["a"], &counts["per_model"]["b"]), (&json!(1), &json!(1)));
    assert_eq!(counts["last"][0]["said"], "hi");
    assert_eq!(counts["last"][0]["last_message"]["content"], "@@say hi@@");
}
