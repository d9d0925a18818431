//! The agent's side of MCP over streamable HTTP: just enough to call a tool.
//!
//! Decides which server a tool name belongs to. A call never fails: whatever goes wrong is the tool's result.

use super::wire::Failure;
use crate::script::{ToolResult, resolve_tool};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

const PROTOCOL: &str = "2025-06-18";
const SESSION: &str = "mcp-session-id";

/// Why a server could not be asked.
#[derive(Debug, thiserror::Error)]
enum McpError {
    #[error("the MCP server cannot be reached: {0}")]
    Unreachable(#[from] reqwest::Error),
    #[error("the MCP server answered HTTP {0}: {1}")]
    Status(StatusCode, String),
    #[error("the MCP server's answer is not a JSON-RPC response")]
    Unreadable,
    #[error("the MCP server refused: {code}: {message}")]
    Refused { code: i64, message: String },
}

/// The MCP servers of a session.
#[derive(Debug)]
pub(super) struct Servers(Vec<Server>);

impl Servers {
    /// Reads `mcpServers` of `session/new` or `session/load`.
    pub(super) fn from_params(params: &Value) -> Result<Self, Failure> {
        let servers = params.as_array().map(Vec::as_slice).unwrap_or_default();
        servers.iter().map(Server::from_params).collect::<Result<_, _>>().map(Self)
    }

    /// Calls the tool at the first server that offers it; a name nobody offers goes to the first server as it is.
    pub(super) async fn call(&self, name: &str, arguments: &Value) -> ToolResult {
        let mut trouble = None;
        for server in &self.0 {
            match server.connection().await {
                Ok(connection) => {
                    if let Some(tool) = resolve_tool(name, connection.tools.iter().map(String::as_str)) {
                        return server.call(tool, arguments).await;
                    }
                }
                Err(error) => trouble = Some(error),
            }
        }
        match (self.0.first(), trouble) {
            (_, Some(error)) => failed(&error),
            (Some(server), None) => server.call(name, arguments).await,
            (None, None) => ToolResult { is_error: true, ..ToolResult::text("the session has no MCP server") },
        }
    }

    /// The names of all tools offered.
    pub(super) async fn tools(&self) -> Vec<String> {
        let mut names = Vec::new();
        for server in &self.0 {
            if let Ok(connection) = server.connection().await {
                names.extend(connection.tools.iter().cloned());
            }
        }
        names
    }
}

#[derive(Debug)]
struct Server {
    url: String,
    headers: HeaderMap,
    client: reqwest::Client,
    next_id: AtomicU64,
    connection: Mutex<Option<Arc<Connection>>>,
}

#[derive(Debug)]
struct Connection {
    session: Option<HeaderValue>,
    tools: Vec<String>,
}

impl Server {
    fn from_params(params: &Value) -> Result<Self, Failure> {
        let invalid = |what: &str| Failure::invalid(format!("mcpServers: {what}"));
        if params["type"].as_str() != Some("http") {
            return Err(invalid("only servers of type http are supported"));
        }
        let url = params["url"].as_str().ok_or_else(|| invalid("a url is missing"))?.to_owned();
        let mut headers = HeaderMap::new();
        for header in params["headers"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let name = header["name"].as_str().and_then(|name| HeaderName::try_from(name).ok());
            let value = header["value"].as_str().and_then(|value| HeaderValue::try_from(value).ok());
            let (Some(name), Some(value)) = (name, value) else {
                return Err(invalid("a header is not a name and a value"));
            };
            headers.insert(name, value);
        }
        // A proxy of the machine must not see calls to loopback.
        let client = reqwest::Client::builder().no_proxy().build();
        let client = client.map_err(|error| Failure::internal(error.to_string(), Value::Null))?;
        Ok(Self { url, headers, client, next_id: AtomicU64::new(1), connection: Mutex::default() })
    }

    async fn call(&self, tool: &str, arguments: &Value) -> ToolResult {
        let params = json!({"name": tool, "arguments": arguments});
        let mut answer = self.request_connected("tools/call", &params).await;
        if let Err(McpError::Status(StatusCode::NOT_FOUND, _)) = answer {
            // The server was started anew and does not know our session.
            *self.connection.lock().await = None;
            answer = self.request_connected("tools/call", &params).await;
        }
        match answer {
            Ok(result) => tool_result(&result),
            Err(error) => failed(&error),
        }
    }

    async fn request_connected(&self, method: &str, params: &Value) -> Result<Value, McpError> {
        let connection = self.connection().await?;
        self.request(method, params, connection.session.as_ref()).await
    }

    /// Failures are not kept, so a server that comes up later is found.
    async fn connection(&self) -> Result<Arc<Connection>, McpError> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = slot.as_ref() {
            return Ok(Arc::clone(connection));
        }
        let client = json!({"name": "scripted-acp", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client});
        let id = self.fresh_id();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params});
        let response = self.post(&message, None).await?;
        let session = response.headers().get(SESSION).cloned();
        answer(response, id).await?;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(&initialized, session.as_ref()).await?;
        let tools = self.list_tools(session.as_ref()).await?;
        let connection = Arc::new(Connection { session, tools });
        *slot = Some(Arc::clone(&connection));
        Ok(connection)
    }

    async fn list_tools(&self, session: Option<&HeaderValue>) -> Result<Vec<String>, McpError> {
        let mut names = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.request("tools/list", &params, session).await?;
            let tools = page["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
            names.extend(tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned));
            match page["nextCursor"].as_str() {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(names),
            }
        }
    }

    async fn request(&self, method: &str, params: &Value, session: Option<&HeaderValue>) -> Result<Value, McpError> {
        let id = self.fresh_id();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        answer(self.post(&message, session).await?, id).await
    }

    async fn post(&self, message: &Value, session: Option<&HeaderValue>) -> Result<Response, McpError> {
        let mut request = self
            .client
            .post(&self.url)
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        if message["method"] != "initialize" {
            request = request.header("mcp-protocol-version", PROTOCOL);
        }
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        let response = request.body(message.to_string()).send().await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        Err(McpError::Status(status, response.text().await.unwrap_or_default()))
    }

    fn fresh_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// The result in a response body that is JSON or a stream of events; a stream need not end after it.
async fn answer(mut response: Response, id: u64) -> Result<Value, McpError> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("text/event-stream") {
        let message = serde_json::from_slice(&response.bytes().await?).map_err(|_| McpError::Unreadable)?;
        return outcome(message);
    }
    let mut pending = Vec::new();
    let mut data = String::new();
    while let Some(chunk) = response.chunk().await? {
        pending.extend_from_slice(&chunk);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            if let Some(part) = line.strip_prefix("data:") {
                data.push_str(part);
            } else if line.is_empty() {
                let message: Value = serde_json::from_str(&std::mem::take(&mut data)).unwrap_or_default();
                if message["id"] == id {
                    return outcome(message);
                }
            }
        }
    }
    Err(McpError::Unreadable)
}

fn outcome(mut message: Value) -> Result<Value, McpError> {
    if let Some(error) = message.get("error") {
        let code = error["code"].as_i64().unwrap_or_default();
        return Err(McpError::Refused { code, message: error["message"].as_str().unwrap_or_default().to_owned() });
    }
    message.get_mut("result").map(Value::take).ok_or(McpError::Unreadable)
}

fn tool_result(result: &Value) -> ToolResult {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    ToolResult {
        texts: blocks.iter().filter_map(|block| block["text"].as_str()).map(str::to_owned).collect(),
        structured: result.get("structuredContent").filter(|content| !content.is_null()).cloned(),
        is_error: result["isError"].as_bool().unwrap_or(false),
    }
}

fn failed(error: &McpError) -> ToolResult {
    ToolResult { is_error: true, ..ToolResult::text(error.to_string()) }
}
