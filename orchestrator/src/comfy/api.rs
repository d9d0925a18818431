//! Requests to one ComfyUI: its queue, its history. It knows addresses and bounds, not what an answer means.

use super::read;
use crate::config::ComfyUrl;
use futures_util::StreamExt;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use routing_core::id::PromptId;
use routing_core::run::Sight;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);
/// Longest answer that is read: a queue holds whole workflows.
const MOST_BYTES: usize = 64 << 20;

/// Why ComfyUI said nothing of use.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// The address cannot be used.
    #[error("its address cannot be used ({0})")]
    Address(String),
    /// No encrypted connections are made.
    #[error("it is reached over https, which the daemon does not speak; its panels tell how runs end")]
    Encrypted,
    /// No connection, or it broke.
    #[error("{0}; is it running?")]
    Http(String),
    /// Another status than success.
    #[error("it answered {status} to {path}")]
    Status {
        /// The status.
        status: StatusCode,
        /// What was asked for.
        path: &'static str,
    },
    /// Too long.
    #[error("its answer to {path} is longer than {} MiB", MOST_BYTES >> 20)]
    TooLong {
        /// What was asked for.
        path: &'static str,
    },
    /// Not what ComfyUI says.
    #[error("its answer to {path} is not that of a ComfyUI")]
    Strange {
        /// What was asked for.
        path: &'static str,
    },
}

/// One ComfyUI.
#[derive(Clone, Debug)]
pub(super) struct Api {
    base: String,
    client: Client,
}

impl Api {
    /// # Errors
    /// The address cannot be used.
    pub(super) fn new(comfyui: &str) -> Result<Self, ApiError> {
        let base = ComfyUrl::parse(comfyui).map_err(ApiError::Address)?.as_str().to_owned();
        if base.starts_with("https:") {
            return Err(ApiError::Encrypted);
        }
        let client = Client::builder().redirect(Policy::none()).no_proxy().connect_timeout(CONNECT).timeout(ANSWER);
        let client = client.build().map_err(|error| ApiError::Address(error.to_string()))?;
        Ok(Self { base, client })
    }

    /// Where its socket is, for a client of this name.
    pub(super) fn socket(&self, client: &str) -> String {
        format!("ws{}/ws?clientId={client}", self.base.trim_start_matches("http"))
    }

    /// How runs stand now. The queue is read first: what left it before is in the history, or nowhere.
    pub(super) async fn look(&self, ids: &[PromptId]) -> Result<Vec<(PromptId, Sight)>, ApiError> {
        let path = "/queue";
        let queue = self.get(path, &[]).await?;
        let queue: BTreeMap<PromptId, Sight> = read::queue(&queue).ok_or(ApiError::Strange { path })?;
        let mut seen = Vec::new();
        for id in ids {
            let sight = match queue.get(id) {
                Some(sight) => sight.clone(),
                None => self.history(id).await?,
            };
            seen.push((id.clone(), sight));
        }
        Ok(seen)
    }

    async fn history(&self, id: &PromptId) -> Result<Sight, ApiError> {
        let path = "/history";
        let answer = self.get(path, &[id.as_str()]).await?;
        let entries = answer.as_object().ok_or(ApiError::Strange { path })?;
        Ok(entries.get(id.as_str()).map_or(Sight::Absent, |entry| Sight::Ended(read::ending(entry))))
    }

    async fn get(&self, path: &'static str, below: &[&str]) -> Result<Value, ApiError> {
        let mut url = reqwest::Url::parse(&format!("{}{path}", self.base))
            .map_err(|error| ApiError::Address(error.to_string()))?;
        if let Ok(mut segments) = url.path_segments_mut() {
            // An id is one segment, whatever it holds.
            segments.extend(below);
        }
        let failed = |error: reqwest::Error| ApiError::Http(error.without_url().to_string());
        let answer = self.client.get(url).send().await.map_err(failed)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(ApiError::Status { status, path });
        }
        let mut body = Vec::new();
        let mut parts = answer.bytes_stream();
        while let Some(part) = parts.next().await {
            body.extend_from_slice(&part.map_err(failed)?);
            if body.len() > MOST_BYTES {
                return Err(ApiError::TooLong { path });
            }
        }
        serde_json::from_slice(&body).map_err(|_| ApiError::Strange { path })
    }
}
