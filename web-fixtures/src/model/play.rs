//! Plays a step in time: the words, the pauses, the tool calls, the failure.
//!
//! Decides when something is sent; an [`Encoder`] decides how it is written.

use super::Recorder;
use crate::script::{End, Part, Step, pieces};
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;
use uuid::Uuid;

/// A tool call with the id the result will come back under.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// How an API writes the events of an answer. Every function returns whole server-sent events.
pub(super) trait Encoder: Send + 'static {
    fn start(&mut self) -> String;
    fn text(&mut self, text: &str) -> String;
    fn call(&mut self, call: &Call) -> String;
    fn end(&mut self, text_length: usize, called: bool) -> String;
    fn error(&mut self, status: u16) -> String;
}

/// One server-sent event.
pub(super) fn event(name: Option<&str>, data: &Value) -> String {
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {data}\n\n")
}

/// A fresh id with the API's prefix.
pub(super) fn fresh_id(prefix: &str) -> String {
    format!("{prefix}{}", Uuid::new_v4().simple())
}

/// What a step comes to when nobody watches it in time.
pub(super) struct Whole {
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
}

/// Waits as long as the step takes and returns it in one piece.
pub(super) async fn whole(step: Step, id_prefix: &str) -> Result<Whole, StatusCode> {
    let mut texts = Vec::new();
    for part in step.parts {
        match part {
            Part::Say(text) => texts.push(text),
            Part::Slow { over, words } => {
                tokio::time::sleep(over).await;
                texts.push(words.join(" "));
            }
            Part::Wait(time) => tokio::time::sleep(time).await,
        }
    }
    let calls = match step.end {
        End::Turn => Vec::new(),
        End::Tools(calls) => with_ids(calls, id_prefix),
        End::Error(status) => return Err(status_code(status)),
    };
    Ok(Whole { text: texts.join("\n"), calls })
}

/// Answers with a stream that plays the step, and stops when the client leaves.
pub(super) fn stream(step: Step, id_prefix: &'static str, mut encoder: impl Encoder, recorder: Recorder) -> Response {
    let (sender, receiver) = mpsc::channel::<String>(8);
    tokio::spawn(async move {
        if play(step, id_prefix, &mut encoder, &sender).await.is_none() {
            recorder.abandoned();
        }
    });
    let chunks = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let chunk = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), receiver))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(chunks)).into_response()
}

/// The step fails before a word is said: then the request itself fails, as with a real server.
pub(super) fn fails_at_once(step: &Step) -> Option<StatusCode> {
    match step.end {
        End::Error(status) if step.parts.is_empty() => Some(status_code(status)),
        End::Error(_) | End::Turn | End::Tools(_) => None,
    }
}

/// `None` when the client has left.
async fn play(step: Step, id_prefix: &str, encoder: &mut impl Encoder, sender: &mpsc::Sender<String>) -> Option<()> {
    let mut length = 0;
    let mut separator = "";
    sender.send(encoder.start()).await.ok()?;
    for part in step.parts {
        match part {
            Part::Say(text) => {
                for piece in pieces(&format!("{separator}{text}")) {
                    length += piece.len();
                    sender.send(encoder.text(&piece)).await.ok()?;
                }
                separator = "\n";
            }
            Part::Slow { over, words } => {
                let pause = over / u32::try_from(words.len()).unwrap_or(u32::MAX).max(1);
                for word in words {
                    let piece = format!("{separator}{word}");
                    length += piece.len();
                    sender.send(encoder.text(&piece)).await.ok()?;
                    separator = " ";
                    wait(pause, sender).await?;
                }
                separator = "\n";
            }
            Part::Wait(time) => wait(time, sender).await?,
        }
    }
    match step.end {
        End::Turn => sender.send(encoder.end(length, false)).await.ok(),
        End::Tools(calls) => {
            for call in with_ids(calls, id_prefix) {
                sender.send(encoder.call(&call)).await.ok()?;
            }
            sender.send(encoder.end(length, true)).await.ok()
        }
        End::Error(status) => sender.send(encoder.error(status)).await.ok(),
    }
}

async fn wait(time: Duration, sender: &mpsc::Sender<String>) -> Option<()> {
    tokio::select! {
        () = tokio::time::sleep(time) => Some(()),
        () = sender.closed() => None,
    }
}

fn with_ids(calls: Vec<(String, Value)>, id_prefix: &str) -> Vec<Call> {
    calls.into_iter().map(|(name, arguments)| Call { id: fresh_id(id_prefix), name, arguments }).collect()
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
