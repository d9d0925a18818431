//! OpenAI's chat completions API as far as an agent loop needs it.
//!
//! Decides how requests are read and answers are worded, not what the answer is.

use super::play::{self, Call, Encoder, event, fresh_id};
use super::{Recorder, content_texts, parse_body, tokens_in};
use crate::script::{Entry, ToolResult, next_step};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

const PATH: &str = "/v1/chat/completions";
const CALL_PREFIX: &str = "call_";

pub(super) async fn chat_completions(State(recorder): State<Recorder>, body: Bytes) -> Response {
    let body = parse_body(&body);
    let tools = tool_names(&body);
    let step = next_step(&entries(&body), &tools);
    recorder.asked(PATH, &body, tools, &step);
    if let Some(status) = play::fails_at_once(&step) {
        return failure(status);
    }
    let model = body["model"].as_str().unwrap_or("scripted-model").to_owned();
    let prompt_tokens = tokens_in(&body["messages"]);
    if body["stream"].as_bool().unwrap_or(false) {
        let usage = body["stream_options"]["include_usage"].as_bool().unwrap_or(false).then_some(prompt_tokens);
        return play::stream(step, CALL_PREFIX, Chunks { id: fresh_id("chatcmpl-"), model, usage, calls: 0 }, recorder);
    }
    match play::whole(step, CALL_PREFIX).await {
        Ok(whole) => Json(completion(&model, prompt_tokens, &whole)).into_response(),
        Err(status) => failure(status),
    }
}

/// System messages are the agent's own and never hold a script.
fn entries(body: &Value) -> Vec<Entry> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages
        .iter()
        .filter_map(|message| {
            let texts = content_texts(&message["content"]);
            match message["role"].as_str()? {
                "assistant" => Some(Entry::Assistant),
                "user" => Some(Entry::User { texts, results: Vec::new() }),
                "tool" => Some(Entry::User {
                    texts: Vec::new(),
                    results: vec![ToolResult { texts, ..ToolResult::default() }],
                }),
                _ => None,
            }
        })
        .collect()
}

fn tool_names(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).map(str::to_owned).collect()
}

fn completion(model: &str, prompt_tokens: usize, whole: &play::Whole) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    if !whole.text.is_empty() {
        message["content"] = json!(whole.text);
    }
    if !whole.calls.is_empty() {
        message["tool_calls"] = whole.calls.iter().map(|call| function_call(call, None)).collect();
    }
    json!({
        "id": fresh_id("chatcmpl-"), "object": "chat.completion", "created": 0, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(!whole.calls.is_empty())}],
        "usage": usage(prompt_tokens, whole.text.len() / 4 + 1),
    })
}

fn function_call(call: &Call, index: Option<usize>) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
    let mut value = json!({"id": call.id, "type": "function", "function": function});
    if let Some(index) = index {
        value["index"] = json!(index);
    }
    value
}

fn finish_reason(called: bool) -> &'static str {
    if called { "tool_calls" } else { "stop" }
}

fn usage(prompt_tokens: usize, completion_tokens: usize) -> Value {
    json!({
        "prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    })
}

fn failure(status: StatusCode) -> Response {
    (status, Json(error_body(status.as_u16()))).into_response()
}

fn error_body(status: u16) -> Value {
    let kind = match status {
        401 => "authentication_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    json!({"error": {"type": kind, "code": status.to_string(), "param": null, "message": format!("scripted failure {status}")}})
}

struct Chunks {
    id: String,
    model: String,
    /// Prompt tokens, where the client asked for a last chunk with the usage.
    usage: Option<usize>,
    calls: usize,
}

impl Chunks {
    fn chunk(&self, choices: Value, usage: Value) -> String {
        let data = json!({
            "id": self.id, "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": choices, "usage": usage,
        });
        event(None, &data)
    }

    fn delta(&self, delta: Value) -> String {
        self.chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null)
    }
}

impl Encoder for Chunks {
    fn start(&mut self) -> String {
        self.delta(json!({"role": "assistant", "content": ""}))
    }

    fn text(&mut self, text: &str) -> String {
        self.delta(json!({"content": text}))
    }

    /// Name and arguments come in separate chunks, as real servers send them.
    fn call(&mut self, call: &Call) -> String {
        let mut first = function_call(call, Some(self.calls));
        first["function"]["arguments"] = json!("");
        let rest = json!({"index": self.calls, "function": {"arguments": call.arguments.to_string()}});
        self.calls += 1;
        self.delta(json!({"tool_calls": [first]})) + &self.delta(json!({"tool_calls": [rest]}))
    }

    fn end(&mut self, text_length: usize, called: bool) -> String {
        let choices = json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(called)}]);
        let mut events = self.chunk(choices, Value::Null);
        if let Some(prompt_tokens) = self.usage {
            events += &self.chunk(json!([]), usage(prompt_tokens, text_length / 4 + 1));
        }
        events + "data: [DONE]\n\n"
    }

    fn error(&mut self, status: u16) -> String {
        event(None, &error_body(status))
    }
}
