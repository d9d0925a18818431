//! Lines of JSON-RPC: reading them, and one writer that keeps their order.
//!
//! Decides how messages are worded; must not know what a turn is.

use super::lock;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};

/// A line the client sent.
#[derive(Debug)]
pub(super) enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// An answer to a request of the agent: its result or its error.
    Response {
        id: Value,
        outcome: Value,
    },
    Unreadable,
}

pub(super) fn read(line: &str) -> Incoming {
    let Ok(mut message) = serde_json::from_str::<Value>(line) else {
        return Incoming::Unreadable;
    };
    let id = message.get("id").cloned();
    let params = message.get_mut("params").map(Value::take).unwrap_or_default();
    match (message["method"].as_str(), id) {
        (Some(method), Some(id)) => Incoming::Request { id, method: method.to_owned(), params },
        (Some(method), None) => Incoming::Notification { method: method.to_owned(), params },
        (None, Some(id)) => {
            let part = if message.get("error").is_some() { "error" } else { "result" };
            Incoming::Response { id, outcome: message[part].take() }
        }
        (None, None) => Incoming::Unreadable,
    }
}

/// An error answer.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    code: i32,
    message: String,
    data: Value,
}

impl Failure {
    pub(super) fn unreadable() -> Self {
        Self { code: -32_700, message: "Parse error".to_owned(), data: Value::Null }
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        Self { code: -32_601, message: "Method not found".to_owned(), data: json!({"method": method}) }
    }

    pub(super) fn invalid(message: String) -> Self {
        Self { code: -32_602, message, data: Value::Null }
    }

    pub(super) fn internal(message: String, data: Value) -> Self {
        Self { code: -32_603, message, data }
    }

    pub(super) fn unknown_session(id: &str) -> Self {
        Self { code: -32_002, message: "Resource not found".to_owned(), data: json!({"sessionId": id}) }
    }
}

enum Job {
    Line(String),
    Flushed(oneshot::Sender<()>),
}

/// The agent's side of the wire.
#[derive(Debug)]
pub(super) struct Output {
    jobs: mpsc::UnboundedSender<Job>,
    next_id: AtomicU64,
    asked: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
}

impl Output {
    pub(super) fn start() -> Self {
        let (jobs, mut queue) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut stdout = tokio::io::stdout();
            while let Some(job) = queue.recv().await {
                // A client that reads no more also closes the input, which ends the process.
                match job {
                    Job::Line(line) => drop(stdout.write_all(line.as_bytes()).await),
                    Job::Flushed(done) => drop(done.send(())),
                }
                drop(stdout.flush().await);
            }
        });
        Self { jobs, next_id: AtomicU64::new(1), asked: Mutex::default() }
    }

    /// Any line, JSON or not.
    pub(super) fn raw(&self, line: &str) {
        // The writer lives as long as the process.
        drop(self.jobs.send(Job::Line(format!("{line}\n"))));
    }

    pub(super) fn reply(&self, id: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    pub(super) fn fail(&self, id: &Value, failure: &Failure) {
        let mut error = json!({"code": failure.code, "message": failure.message});
        if !failure.data.is_null() {
            error["data"] = failure.data.clone();
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    pub(super) fn update(&self, session: &str, update: &Value) {
        let params = json!({"sessionId": session, "update": update});
        self.send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    pub(super) fn chunk(&self, session: &str, kind: &str, text: &str) {
        self.update(session, &json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}}));
    }

    /// Asks the client; the receiver gets the result, or the error object.
    pub(super) fn ask(&self, method: &str, params: &Value) -> oneshot::Receiver<Value> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        lock(&self.asked).insert(id, sender);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        receiver
    }

    pub(super) fn resolve(&self, id: &Value, outcome: Value) {
        let waiting = id.as_u64().and_then(|id| lock(&self.asked).remove(&id));
        if let Some(waiting) = waiting {
            // The turn that asked may have been cancelled meanwhile.
            drop(waiting.send(outcome));
        }
    }

    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.jobs.send(Job::Flushed(done)).is_ok() {
            drop(flushed.await);
        }
    }

    fn send(&self, message: &Value) {
        self.raw(&message.to_string());
    }
}
