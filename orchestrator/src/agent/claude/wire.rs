//! The lines that the Claude CLI and its host exchange. Reading is tolerant: what we do not know or need is
//! [`Message::Other`], and only a line that is no JSON object with a type is garbage.

use super::super::drive::Garbage;
use serde_json::{Value, json};

/// The request that opens the conversation; see [`initialize`].
pub(super) const INITIALIZE: &str = "initialize";

/// One line of the CLI.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// The answer to one of our control requests.
    Answer { id: String, result: Result<Value, String> },
    /// May this tool run?
    Permission { id: String, tool: String, input: Value },
    /// A control request that we do not serve.
    Request { id: String, subtype: String },
    /// A turn is about to run; names the session.
    Init { session: String, model: Option<String>, servers: Vec<(String, String)> },
    /// The model's service refused and the CLI tries again.
    Retry { attempt: u64, of: u64, status: Option<u64>, error: String },
    /// An answer of the model begins to stream.
    StreamStart { model: Option<String>, context: Option<u64> },
    /// A block of the streamed answer begins.
    BlockStart { index: u64, kind: BlockKind, id: String },
    /// A block grows.
    BlockDelta { index: u64, text: String },
    /// How many tokens the answer has so far.
    StreamUsage { output: u64 },
    /// Finished blocks of an answer.
    Assistant(Assistant),
    /// The turn is over.
    Outcome(Outcome),
    /// Anything else.
    Other,
}

/// What a streamed block holds, as far as we show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// Text for the person.
    Text,
    /// Visible reasoning.
    Thought,
    /// A tool call or something newer.
    Other,
}

/// Finished blocks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assistant {
    /// This line's id: a point to rewind to.
    pub(super) uuid: Option<String>,
    /// Set when the line reports an error of the service instead of an answer: the error's class.
    pub(super) api_error: Option<String>,
    /// Said by a helper that the agent started, not by the agent itself.
    pub(super) nested: bool,
    /// The blocks, in order.
    pub(super) blocks: Vec<Block>,
}

/// One finished block.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Block {
    /// Text for the person.
    Text(String),
    /// Visible reasoning.
    Thought(String),
    /// A tool call.
    Tool { name: String, input: Value },
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// It failed, or was interrupted.
    pub(super) is_error: bool,
    /// Why the CLI stopped: `completed`, `aborted_streaming`, `aborted_tools`, `api_error`, …
    pub(super) terminal: String,
    /// The answer or the error, for people.
    pub(super) text: String,
    /// HTTP status of the service, when that was the cause.
    pub(super) api_status: Option<u64>,
    /// Size of the model's context.
    pub(super) window: Option<u64>,
    /// Dollars so far in this process.
    pub(super) cost: Option<f64>,
}

impl Outcome {
    /// It was stopped on request.
    pub(super) fn interrupted(&self) -> bool {
        self.terminal.starts_with("aborted_")
    }
}

/// Reads a line of the CLI.
pub(super) fn read(line: &str) -> Result<Message, Garbage> {
    let value: Value = serde_json::from_str(line).map_err(|_| Garbage)?;
    let kind = value.get("type").and_then(Value::as_str).ok_or(Garbage)?;
    Ok(match kind {
        "control_response" => answer(&value["response"]),
        "control_request" => request(&value),
        "system" => system(&value),
        "stream_event" if !nested(&value) => stream(&value),
        "assistant" => Message::Assistant(assistant(&value)),
        "result" => Message::Outcome(outcome(&value)),
        _ => Message::Other,
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn some_text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn nested(value: &Value) -> bool {
    value["parent_tool_use_id"].is_string()
}

fn answer(response: &Value) -> Message {
    let id = text(&response["request_id"]);
    let result = match response["subtype"].as_str() {
        Some("success") => Ok(response["response"].clone()),
        _ => Err(text(&response["error"])),
    };
    Message::Answer { id, result }
}

fn request(value: &Value) -> Message {
    let id = text(&value["request_id"]);
    let request = &value["request"];
    match request["subtype"].as_str() {
        Some("can_use_tool") => {
            Message::Permission { id, tool: text(&request["tool_name"]), input: request["input"].clone() }
        }
        subtype => Message::Request { id, subtype: subtype.unwrap_or_default().to_owned() },
    }
}

fn system(value: &Value) -> Message {
    match value["subtype"].as_str() {
        Some("init") => Message::Init {
            session: text(&value["session_id"]),
            model: some_text(&value["model"]),
            servers: value["mcp_servers"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|server| (text(&server["name"]), text(&server["status"])))
                .collect(),
        },
        Some("api_retry") => Message::Retry {
            attempt: value["attempt"].as_u64().unwrap_or_default(),
            of: value["max_retries"].as_u64().unwrap_or_default(),
            status: value["error_status"].as_u64(),
            error: text(&value["error"]),
        },
        _ => Message::Other,
    }
}

fn stream(value: &Value) -> Message {
    let event = &value["event"];
    let index = event["index"].as_u64().unwrap_or_default();
    match event["type"].as_str() {
        Some("message_start") => {
            let message = &event["message"];
            Message::StreamStart { model: some_text(&message["model"]), context: input_tokens(&message["usage"]) }
        }
        Some("content_block_start") => Message::BlockStart {
            index,
            kind: match event["content_block"]["type"].as_str() {
                Some("text") => BlockKind::Text,
                Some("thinking") => BlockKind::Thought,
                _ => BlockKind::Other,
            },
            id: text(&value["uuid"]),
        },
        Some("content_block_delta") => {
            let delta = &event["delta"];
            match delta["type"].as_str() {
                Some("text_delta") => Message::BlockDelta { index, text: text(&delta["text"]) },
                Some("thinking_delta") => Message::BlockDelta { index, text: text(&delta["thinking"]) },
                _ => Message::Other,
            }
        }
        Some("message_delta") => match event["usage"]["output_tokens"].as_u64() {
            Some(output) => Message::StreamUsage { output },
            None => Message::Other,
        },
        _ => Message::Other,
    }
}

fn input_tokens(usage: &Value) -> Option<u64> {
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached: u64 = cached.iter().filter_map(|name| usage[*name].as_u64()).sum();
    usage["input_tokens"].as_u64().map(|plain| plain + cached)
}

fn assistant(value: &Value) -> Assistant {
    let blocks =
        value["message"]["content"].as_array().into_iter().flatten().filter_map(|block| match block["type"].as_str() {
            Some("text") => some_text(&block["text"]).map(Block::Text),
            Some("thinking") => some_text(&block["thinking"]).map(Block::Thought),
            Some("tool_use") => Some(Block::Tool { name: text(&block["name"]), input: block["input"].clone() }),
            _ => None,
        });
    let is_error = value["is_api_error_message"].as_bool().unwrap_or_default();
    Assistant {
        uuid: some_text(&value["uuid"]),
        api_error: is_error.then(|| text(&value["error"])),
        nested: nested(value),
        blocks: blocks.collect(),
    }
}

fn outcome(value: &Value) -> Outcome {
    let errors = value["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let text = some_text(&value["result"]).unwrap_or_else(|| errors.collect::<Vec<_>>().join("; "));
    Outcome {
        is_error: value["is_error"].as_bool().unwrap_or_default(),
        terminal: self::text(&value["terminal_reason"]),
        text,
        api_status: value["api_error_status"].as_u64(),
        window: value["modelUsage"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(_, usage)| usage["contextWindow"].as_u64())
            .max(),
        cost: value["total_cost_usd"].as_f64(),
    }
}

/// The opening request.
pub(super) fn initialize() -> String {
    json!({"type": "control_request", "request_id": INITIALIZE, "request": {"subtype": "initialize", "hooks": {}}})
        .to_string()
}

/// A message of the person. A leading slash would make it a command to the CLI itself.
pub(super) fn user(text: &str) -> String {
    let text = if text.starts_with('/') { format!(" {text}") } else { text.to_owned() };
    json!({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}).to_string()
}

/// Stop the running turn.
pub(super) fn interrupt(number: u64) -> String {
    let id = format!("interrupt-{number}");
    json!({"type": "control_request", "request_id": id, "request": {"subtype": "interrupt"}}).to_string()
}

/// The tool may run.
pub(super) fn allow(id: &str, input: &Value) -> String {
    success(id, json!({"behavior": "allow", "updatedInput": input}))
}

/// The tool may not run, and the agent is told why.
pub(super) fn deny(id: &str, reason: &str) -> String {
    success(id, json!({"behavior": "deny", "message": reason}))
}

/// A request that we do not serve.
pub(super) fn unsupported(id: &str, subtype: &str) -> String {
    let error = format!("this host does not serve {subtype}");
    json!({"type": "control_response", "response": {"subtype": "error", "request_id": id, "error": error}}).to_string()
}

fn success(id: &str, response: Value) -> String {
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}})
        .to_string()
}
