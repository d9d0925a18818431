//! Requests to one ComfyUI: its queue, its history. It knows addresses and bounds, not what an answer means.

use super::read;
use crate::config::ComfyUrl;
use futures_util::StreamExt;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use routing_core::id::PromptId;
use routing_core::run::Sight;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);
/// Most characters of a refusal that are repeated.
const MOST_SAID: usize = 300;
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
    /// No connection.
    #[error("{0}; is it running?")]
    Unreached(String),
    /// The connection broke, or was too slow.
    #[error("{0}")]
    Broken(String),
    /// Another status than success.
    #[error("it answered {status} to {path}")]
    Status {
        /// The status.
        status: StatusCode,
        /// What was asked for.
        path: &'static str,
        /// What it said.
        said: String,
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
        let answer = self.json(self.url(path, &[id.as_str()], &[])?, path).await?;
        let entries = answer.as_object().ok_or(ApiError::Strange { path })?;
        Ok(entries.get(id.as_str()).map_or(Sight::Absent, |entry| Sight::Ended(read::ending(entry))))
    }

    /// Reads JSON from a path with this query.
    pub(super) async fn get(&self, path: &'static str, query: &[(&str, &str)]) -> Result<Value, ApiError> {
        self.json(self.url(path, &[], query)?, path).await
    }

    /// Sends JSON; an answer is read to its end and not looked at.
    pub(super) async fn post(&self, path: &'static str, body: &Value) -> Result<(), ApiError> {
        let request = self.client.post(self.url(path, &[], &[])?).json(body);
        read_all(request, path).await.map(drop)
    }

    async fn json(&self, url: Url, path: &'static str) -> Result<Value, ApiError> {
        let body = read_all(self.client.get(url), path).await?;
        serde_json::from_slice(&body).map_err(|_| ApiError::Strange { path })
    }

    fn url(&self, path: &str, below: &[&str], query: &[(&str, &str)]) -> Result<Url, ApiError> {
        let mut url =
            Url::parse(&format!("{}{path}", self.base)).map_err(|error| ApiError::Address(error.to_string()))?;
        if let Ok(mut segments) = url.path_segments_mut() {
            // An id is one segment, whatever it holds.
            segments.extend(below);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }
}

async fn read_all(request: RequestBuilder, path: &'static str) -> Result<Vec<u8>, ApiError> {
    let failed = |error: reqwest::Error| {
        let unreached = error.is_connect();
        let text = error.without_url().to_string();
        if unreached { ApiError::Unreached(text) } else { ApiError::Broken(text) }
    };
    let answer = request.send().await.map_err(failed)?;
    let status = answer.status();
    let mut body = Vec::new();
    let mut parts = answer.bytes_stream();
    while let Some(part) = parts.next().await {
        body.extend_from_slice(&part.map_err(failed)?);
        if body.len() > MOST_BYTES {
            return Err(ApiError::TooLong { path });
        }
    }
    if status.is_success() {
        return Ok(body);
    }
    let said = String::from_utf8_lossy(&body).chars().take(MOST_SAID).collect();
    Err(ApiError::Status { status, path, said })
}
