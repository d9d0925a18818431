//! A tools endpoint as small as can be: answers MCP over HTTP without sessions, and remembers the calls.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use orchestrator::agent::McpEndpoint;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The bearer that the endpoint asks for.
pub(crate) const BEARER: &str = "bearer-of-the-test";

/// A running endpoint.
pub(crate) struct Tools {
    /// What a driver is given.
    pub(crate) endpoint: McpEndpoint,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    calls: Mutex<Vec<(String, Value)>>,
    answers: Mutex<VecDeque<Value>>,
}

impl Tools {
    /// Serves on a free port.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let router = Router::new().route("/mcp/{handle}", post(serve)).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let endpoint = McpEndpoint { url: format!("http://{address}/mcp/handle"), bearer: BEARER.into() };
        Self { endpoint, shared, task }
    }

    /// The next call is answered with this result instead of its own arguments.
    pub(crate) fn answer_with(&self, result: Value) {
        self.shared.answers.lock().unwrap().push_back(result);
    }

    /// Name and arguments of every call so far.
    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        self.shared.calls.lock().unwrap().clone()
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let bearer = headers.get("authorization").and_then(|value| value.to_str().ok());
    if bearer != Some(&format!("Bearer {BEARER}")) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let request: Value = serde_json::from_slice(&body).unwrap();
    let Some(id) = request.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match request["method"].as_str() {
        Some("initialize") => Ok(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "panel", "version": "1"},
        })),
        Some("tools/list") => Ok(json!({"tools": [{
            "name": "panel_echo",
            "description": "Answers with its arguments",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        }]})),
        Some("tools/call") => {
            let arguments = request["params"]["arguments"].clone();
            let name = request["params"]["name"].as_str().unwrap_or_default().to_owned();
            let own = json!({"content": [{"type": "text", "text": arguments.to_string()}]});
            shared.calls.lock().unwrap().push((name, arguments));
            Ok(shared.answers.lock().unwrap().pop_front().unwrap_or(own))
        }
        _ => Err(json!({"code": -32601, "message": "no such method"})),
    };
    Json(match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    })
    .into_response()
}
