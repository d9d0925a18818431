//! A client of the scripted agent, a tool server for it to call, and a puppeteer; all on loopback.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

/// A running agent; killed when dropped.
pub(crate) struct Agent {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    next_id: u64,
}

impl Agent {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scripted-acp"))
            .args(arguments)
            .env_remove("SCRIPTED_ACP_PUPPET")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, stdout, next_id: 1 }
    }

    /// Sends a request and returns its id.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    pub(crate) async fn write(&mut self, message: &Value) {
        self.stdin.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn cancel(&mut self, session: &str) {
        let params = json!({"sessionId": session});
        self.write(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params})).await;
    }

    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// The next line, or `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        timeout(PATIENCE, self.stdout.next_line()).await.expect("the agent says nothing").unwrap()
    }

    pub(crate) async fn message(&mut self) -> Value {
        serde_json::from_str(&self.line().await.expect("the agent is gone")).unwrap()
    }

    /// The answer to a request and all updates before it.
    pub(crate) async fn answer(&mut self, id: u64) -> (Value, Vec<Value>) {
        let mut updates = Vec::new();
        loop {
            let message = self.message().await;
            if message["id"] == id && message.get("method").is_none() {
                return (message, updates);
            }
            updates.push(message["params"]["update"].clone());
        }
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> (Value, Vec<Value>) {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn new_session(&mut self, servers: Value) -> String {
        let (answer, _) = self.ask("session/new", json!({"cwd": "/w", "mcpServers": servers})).await;
        answer["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn send_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": "a note"}, {"type": "text", "text": text}]);
        self.send("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Stop reason and text of a whole turn.
    pub(crate) async fn turn(&mut self, session: &str, text: &str) -> (String, String) {
        let id = self.send_prompt(session, text).await;
        let (answer, updates) = self.answer(id).await;
        (answer["result"]["stopReason"].as_str().unwrap_or_default().to_owned(), said(&updates))
    }

    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        timeout(PATIENCE, self.child.wait()).await.expect("the agent does not end").unwrap().code()
    }

    /// Whether the agent keeps silent for a while.
    pub(crate) async fn is_silent(&mut self) -> bool {
        timeout(Duration::from_millis(300), self.stdout.next_line()).await.is_err()
    }
}

pub(crate) fn said(updates: &[Value]) -> String {
    let chunks = updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
}

/// What a tool server has been asked: authorization and tool call.
pub(crate) type Calls = Arc<Mutex<Vec<(String, Value)>>>;

#[derive(Clone)]
struct Tools {
    calls: Calls,
    events: bool,
}

/// A tool server with `panel_add_node` (answers an id), `panel_connect`, `panel_fail` and `panel_slow`.
pub(crate) async fn tool_server(events: bool) -> (Value, Calls) {
    let calls = Calls::default();
    let tools = Tools { calls: Arc::clone(&calls), events };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new().route("/mcp", post(serve_tools)).with_state(tools);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let headers = json!([{"name": "Authorization", "value": "Bearer agent-7"}]);
    (json!([{"type": "http", "name": "panel", "url": url, "headers": headers}]), calls)
}

async fn serve_tools(State(tools): State<Tools>, headers: HeaderMap, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap();
    let params = &message["params"];
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}}),
        "tools/list" => {
            let names = ["panel_add_node", "panel_connect", "panel_fail", "panel_slow"];
            json!({"tools": names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))})
        }
        "tools/call" => {
            let authorization = headers["authorization"].to_str().unwrap().to_owned();
            tools.calls.lock().unwrap().push((authorization, params.clone()));
            match params["name"].as_str().unwrap() {
                "panel_add_node" => {
                    let node = json!({"node": {"id": 40 + tools.calls.lock().unwrap().len()}});
                    json!({"content": [{"type": "text", "text": "added"}], "structuredContent": node})
                }
                "panel_fail" => json!({"content": [{"type": "text", "text": "no canvas"}], "isError": true}),
                "panel_slow" => {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    json!({"content": [{"type": "text", "text": "late"}]})
                }
                _ => json!({"content": [{"type": "text", "text": params["arguments"].to_string()}]}),
            }
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    if tools.events {
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
        let stream = format!(": hello\n\nevent: message\ndata: {progress}\n\nevent: message\ndata: {answer}\n\n");
        return ([("content-type", "text/event-stream")], stream).into_response();
    }
    Json(answer).into_response()
}

/// The test's end of a puppet's strings.
pub(crate) struct Puppeteer {
    events: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
}

impl Puppeteer {
    pub(crate) async fn accept(listener: &TcpListener) -> Self {
        let (stream, _): (TcpStream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let (events, orders) = stream.into_split();
        Self { events: BufReader::new(events).lines(), orders }
    }

    pub(crate) async fn order(&mut self, order: Value) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn event(&mut self) -> Value {
        let line = timeout(PATIENCE, self.events.next_line()).await.expect("no event").unwrap();
        serde_json::from_str(&line.expect("the puppet is gone")).unwrap()
    }
}
