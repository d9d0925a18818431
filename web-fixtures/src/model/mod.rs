//! The scripted model: a server on loopback that speaks the APIs of real models and does what the prompt says.
//!
//! Decides routes, counts requests and keeps the log. What is answered is [`crate::script`]'s; how an API words
//! it is `anthropic`'s and `openai`'s. No request, however odd, may be left without an answer: agents wait
//! for minutes before they give up.

mod anthropic;
mod openai;
mod play;
mod record;

pub use record::{Counts, Recorder, RequestRecord};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Serves a scripted model on the listener until the task is dropped. Counts are at `GET /requests`.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener) -> std::io::Result<()> {
    serve_with(listener, Recorder::default()).await
}

/// As [`serve`], with a recorder the caller can read or that writes a log.
///
/// # Errors
/// When the listener fails.
pub async fn serve_with(listener: TcpListener, recorder: Recorder) -> std::io::Result<()> {
    axum::serve(listener, router(recorder)).await
}

/// A scripted model inside the caller's process; stops when dropped.
#[derive(Debug)]
pub struct RunningModel {
    address: SocketAddr,
    recorder: Recorder,
    task: JoinHandle<()>,
}

impl RunningModel {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let recorder = Recorder::default();
        let served = serve_with(listener, recorder.clone());
        // The listener's end needs no report: requests then fail in the test that makes them.
        let task = tokio::spawn(async move { drop(served.await) });
        Ok(Self { address, recorder, task })
    }

    /// `http://127.0.0.1:PORT`: the base for Anthropic clients; OpenAI clients add `/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What has been asked so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.recorder.counts()
    }
}

impl Drop for RunningModel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn router(recorder: Recorder) -> Router {
    Router::new()
        .route("/v1/messages", post(anthropic::messages))
        .route("/v1/messages/count_tokens", post(anthropic::count_tokens))
        .route("/v1/chat/completions", post(openai::chat_completions))
        .route("/v1/models", get(models))
        .route("/requests", get(requests).delete(forget_requests))
        .fallback(other)
        .layer(axum::extract::DefaultBodyLimit::max(64 * 1024 * 1024))
        .with_state(recorder)
}

async fn requests(State(recorder): State<Recorder>) -> Json<Counts> {
    Json(recorder.counts())
}

async fn forget_requests(State(recorder): State<Recorder>) -> StatusCode {
    recorder.forget();
    StatusCode::NO_CONTENT
}

/// Both APIs read this one.
async fn models() -> Json<Value> {
    Json(json!({
        "object": "list",
        "data": [{
            "id": "scripted-model", "object": "model", "type": "model", "display_name": "Scripted model",
            "created": 0, "created_at": "2026-01-01T00:00:00Z", "owned_by": "tests",
        }],
        "has_more": false, "first_id": "scripted-model", "last_id": "scripted-model",
    }))
}

/// `HEAD /` is how Claude asks whether the server is there.
async fn other(method: Method, uri: Uri) -> Response {
    if uri.path() == "/" {
        return Json(json!({"scripted_model": true})).into_response();
    }
    let message = format!("{method} {} is not part of the scripted model", uri.path());
    let body = json!({"type": "error", "error": {"type": "not_found_error", "message": message}});
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

/// The body as JSON; `null` where it is none, so that nothing fails on it.
fn parse_body(body: &Bytes) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

/// The text blocks of a message's content, which is a string or a list of blocks in both APIs.
fn content_texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| block.as_str().or_else(|| block["text"].as_str()))
            .map(str::to_owned)
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Something like a token count: monotonous in the size of the request and never so big that an agent compacts.
fn tokens_in(value: &Value) -> usize {
    (value.to_string().len() / 8).clamp(1, 50_000)
}
