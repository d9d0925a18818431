//! The lines of the Agent Client Protocol, version 1: JSON-RPC, one message a line. Reading is tolerant: fields that
//! are missing or of another type are as good as absent, and unknown updates are [`Update::Other`].

use super::super::McpEndpoint;
use super::super::drive::Garbage;
use super::super::tool;
use serde_json::{Value, json};
use std::path::Path;

/// The error code of an agent that needs the person to sign in.
const AUTHENTICATION_REQUIRED: i64 = -32000;
const METHOD_NOT_FOUND: i64 = -32601;

/// One line of the agent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// The answer to one of our requests.
    Answer { id: u64, result: Result<Value, Failure> },
    /// The agent asks.
    Request { id: Value, method: String, params: Value },
    /// The agent tells.
    Notice { method: String, params: Value },
}

/// An error that the agent answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    code: i64,
    /// What happened, for people.
    pub(super) text: String,
}

impl Failure {
    /// The person has to sign in.
    pub(super) fn signed_out(&self) -> bool {
        self.code == AUTHENTICATION_REQUIRED
    }
}

/// What the agent does in a session.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Update {
    /// A piece of text.
    Text(String),
    /// A piece of visible reasoning.
    Thought(String),
    /// A tool call begins.
    Call(Call),
    /// More is known of a tool call.
    MoreOfCall(Call),
    /// Tokens in the context, its size, and the cost in dollars.
    Usage { used: Option<u64>, size: Option<u64>, dollars: Option<f64> },
    /// Anything else.
    Other,
}

/// A tool call as far as it is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Call {
    /// The call's id.
    pub(super) id: String,
    /// The tool's name, where the agent itself states it.
    pub(super) name: Option<String>,
    /// What it shows to people; may be a text of the model.
    pub(super) title: Option<String>,
    /// The protocol's class of tools: `read`, `edit`, `execute`, `other`, …
    pub(super) kind: Option<String>,
    /// The arguments.
    pub(super) input: Value,
}

/// Reads a line of the agent.
pub(super) fn read(line: &str) -> Result<Message, Garbage> {
    let value: Value = serde_json::from_str(line).map_err(|_| Garbage)?;
    let id = value.get("id").filter(|id| !id.is_null());
    match (value.get("method").and_then(Value::as_str), id) {
        (Some(method), Some(id)) => {
            Ok(Message::Request { id: id.clone(), method: method.to_owned(), params: value["params"].clone() })
        }
        (Some(method), None) => Ok(Message::Notice { method: method.to_owned(), params: value["params"].clone() }),
        (None, Some(id)) => {
            let id = id.as_u64().ok_or(Garbage)?;
            let result = match value.get("error").filter(|error| !error.is_null()) {
                Some(error) => Err(failure(error)),
                None => Ok(value["result"].clone()),
            };
            Ok(Message::Answer { id, result })
        }
        (None, None) => Err(Garbage),
    }
}

fn failure(error: &Value) -> Failure {
    let message = error["message"].as_str().unwrap_or("the agent gave no reason");
    let data = &error["data"];
    let details = [data, &data["details"], &data["message"]].into_iter().find_map(Value::as_str);
    let text = match details {
        Some(details) if details != message => format!("{message}: {details}"),
        Some(_) | None => message.to_owned(),
    };
    Failure { code: error["code"].as_i64().unwrap_or_default(), text }
}

/// The update of a `session/update`.
pub(super) fn update(params: &Value) -> Update {
    let update = &params["update"];
    let text = || update["content"]["text"].as_str().unwrap_or_default().to_owned();
    match update["sessionUpdate"].as_str() {
        Some("agent_message_chunk") => Update::Text(text()),
        Some("agent_thought_chunk") => Update::Thought(text()),
        Some("tool_call") => Update::Call(call(update)),
        Some("tool_call_update") => Update::MoreOfCall(call(update)),
        Some("usage_update") => Update::Usage {
            used: update["used"].as_u64(),
            size: update["size"].as_u64(),
            dollars: update["cost"]["amount"].as_f64().filter(|_| update["cost"]["currency"] == "USD"),
        },
        _ => Update::Other,
    }
}

/// A tool call in an update or in a question for permission.
pub(super) fn call(value: &Value) -> Call {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    Call {
        id: text(&value["toolCallId"]).unwrap_or_default(),
        name: text(&value["name"]).or_else(|| text(&value["_meta"]["claudeCode"]["toolName"])),
        title: text(&value["title"]),
        kind: text(&value["kind"]),
        input: value["rawInput"].clone(),
    }
}

/// The id of the option of this kind, never one that is merely placed or named as expected.
pub(super) fn option_of_kind<'a>(params: &'a Value, kind: &str) -> Option<&'a str> {
    let options = params["options"].as_array()?;
    options.iter().find(|option| option["kind"] == kind)?["optionId"].as_str()
}

/// A request of ours.
pub(super) fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// A notification of ours.
pub(super) fn notice(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

/// The answer to a question for permission; without an option the question counts as cancelled.
pub(super) fn permission(id: &Value, option: Option<&str>) -> String {
    let outcome = match option {
        Some(option) => json!({"outcome": "selected", "optionId": option}),
        None => json!({"outcome": "cancelled"}),
    };
    json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}}).to_string()
}

/// The answer to a request that we do not serve.
pub(super) fn unsupported(id: &Value, method: &str) -> String {
    let error = json!({"code": METHOD_NOT_FOUND, "message": format!("this client does not serve {method}")});
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

/// Who we are, and that we lend neither files nor terminals.
pub(super) fn introduction() -> Value {
    json!({
        "protocolVersion": 1,
        "clientInfo": {"name": "comfy-orchestrator", "title": "ComfyUI", "version": env!("CARGO_PKG_VERSION")},
        "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
    })
}

/// The parameters of a session's begin: where it works, and our tools.
pub(super) fn session(cwd: &Path, mcp: &McpEndpoint) -> Value {
    let header = json!({"name": "Authorization", "value": format!("Bearer {}", mcp.bearer)});
    let server = json!({"type": "http", "name": tool::SERVER, "url": mcp.url, "headers": [header]});
    json!({"cwd": cwd, "mcpServers": [server]})
}
