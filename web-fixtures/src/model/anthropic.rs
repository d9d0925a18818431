//! Anthropic's Messages API as far as Claude needs it.
//!
//! Decides how requests are read and answers are worded, not what the answer is.

use super::play::{self, Call, Encoder, event, fresh_id};
use super::{Recorder, content_texts, parse_body, tokens_in};
use crate::script::{Entry, ToolResult, is_agent_note, next_step};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

const PATH: &str = "/v1/messages";
const CALL_PREFIX: &str = "toolu_";

pub(super) async fn messages(State(recorder): State<Recorder>, body: Bytes) -> Response {
    let body = parse_body(&body);
    let tools = tool_names(&body);
    let step = next_step(&entries(&body), &tools);
    recorder.asked(PATH, &body, tools, &step);
    if let Some(status) = play::fails_at_once(&step) {
        return failure(status);
    }
    let model = body["model"].as_str().unwrap_or("scripted-model").to_owned();
    let input_tokens = tokens_in(&body["messages"]);
    if body["stream"].as_bool().unwrap_or(false) {
        return play::stream(step, CALL_PREFIX, Events { model, input_tokens, index: 0, open: false }, recorder);
    }
    match play::whole(step, CALL_PREFIX).await {
        Ok(whole) => Json(message(&model, input_tokens, &whole)).into_response(),
        Err(status) => failure(status),
    }
}

pub(super) async fn count_tokens(State(recorder): State<Recorder>, body: Bytes) -> Json<Value> {
    recorder.tokens_counted();
    Json(json!({"input_tokens": tokens_in(&parse_body(&body))}))
}

/// The conversation; blocks of unknown types carry nothing a script needs.
fn entries(body: &Value) -> Vec<Entry> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages
        .iter()
        .filter_map(|message| match message["role"].as_str() {
            Some("assistant") => Some(Entry::Assistant),
            Some("user") => Some(user_entry(&message["content"])),
            _ => None,
        })
        .collect()
}

fn user_entry(content: &Value) -> Entry {
    let Some(blocks) = content.as_array() else {
        return Entry::User { texts: content_texts(content), results: Vec::new() };
    };
    let mut texts = Vec::new();
    let mut results = Vec::new();
    for block in blocks {
        match block["type"].as_str() {
            Some("tool_result") => {
                // Claude puts reminders of its own beside what a tool said, and in them what the person said meanwhile.
                let (notes, said) = content_texts(&block["content"]).into_iter().partition(|text| is_agent_note(text));
                texts.extend::<Vec<String>>(notes);
                let is_error = block["is_error"].as_bool().unwrap_or(false);
                results.push(ToolResult { texts: said, structured: None, is_error });
            }
            Some("text") => texts.extend(block["text"].as_str().map(str::to_owned)),
            _ => {}
        }
    }
    Entry::User { texts, results }
}

fn tool_names(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect()
}

fn message(model: &str, input_tokens: usize, whole: &play::Whole) -> Value {
    let mut content = Vec::new();
    if !whole.text.is_empty() {
        content.push(json!({"type": "text", "text": whole.text}));
    }
    for call in &whole.calls {
        content.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}));
    }
    json!({
        "id": fresh_id("msg_"), "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop_reason(!whole.calls.is_empty()), "stop_sequence": null,
        "usage": usage(input_tokens, whole.text.len() / 4 + 1),
    })
}

fn failure(status: StatusCode) -> Response {
    (status, Json(error_body(status.as_u16()))).into_response()
}

fn error_body(status: u16) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": format!("scripted failure {status}")}})
}

fn stop_reason(called: bool) -> &'static str {
    if called { "tool_use" } else { "end_turn" }
}

fn usage(input_tokens: usize, output_tokens: usize) -> Value {
    json!({
        "input_tokens": input_tokens, "output_tokens": output_tokens,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    })
}

/// Text goes into one block that closes before the first tool call.
struct Events {
    model: String,
    input_tokens: usize,
    index: usize,
    open: bool,
}

impl Events {
    fn close_block(&mut self) -> String {
        if !std::mem::take(&mut self.open) {
            return String::new();
        }
        let stop = typed("content_block_stop", json!({"index": self.index}));
        self.index += 1;
        stop
    }
}

impl Encoder for Events {
    fn start(&mut self) -> String {
        let message = json!({
            "id": fresh_id("msg_"), "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage(self.input_tokens, 1),
        });
        typed("message_start", json!({"message": message})) + &typed("ping", json!({}))
    }

    fn text(&mut self, text: &str) -> String {
        let mut events = String::new();
        if !self.open {
            self.open = true;
            let block = json!({"type": "text", "text": ""});
            events += &typed("content_block_start", json!({"index": self.index, "content_block": block}));
        }
        let delta = json!({"type": "text_delta", "text": text});
        events + &typed("content_block_delta", json!({"index": self.index, "delta": delta}))
    }

    fn call(&mut self, call: &Call) -> String {
        let mut events = self.close_block();
        self.open = true;
        let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        events += &typed("content_block_start", json!({"index": self.index, "content_block": block}));
        let delta = json!({"type": "input_json_delta", "partial_json": call.arguments.to_string()});
        events += &typed("content_block_delta", json!({"index": self.index, "delta": delta}));
        events + &self.close_block()
    }

    fn end(&mut self, text_length: usize, called: bool) -> String {
        let delta = json!({"stop_reason": stop_reason(called), "stop_sequence": null});
        let usage = usage(self.input_tokens, text_length / 4 + 1);
        self.close_block()
            + &typed("message_delta", json!({"delta": delta, "usage": usage}))
            + &typed("message_stop", json!({}))
    }

    fn error(&mut self, status: u16) -> String {
        event(Some("error"), &error_body(status))
    }
}

/// An event whose data repeats its name as `type`.
fn typed(name: &str, mut data: Value) -> String {
    data["type"] = json!(name);
    event(Some(name), &data)
}
