//! What was asked of the scripted model, for tests that count calls and for people who read a log.
//!
//! Decides what is kept; must not influence an answer.

use crate::script::{End, Part, Step};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const KEPT: usize = 50;

/// One request for an answer of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Number of the request, from 1.
    pub number: u64,
    /// Path of the API.
    pub path: String,
    /// Model asked for.
    pub model: String,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Names of the tools offered.
    pub tools: Vec<String>,
    /// Step of the script that was played, `None` where no script was found.
    pub step: Option<usize>,
    /// What the model said, before any waiting.
    pub said: String,
    /// Tools it called.
    pub called: Vec<String>,
    /// HTTP status it failed with by order of the script.
    pub failed: Option<u16>,
    /// The newest message of the request, as it came.
    pub last_message: Value,
}

/// The answer of `GET /requests`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Requests for an answer; token counts are not among them.
    pub total: u64,
    /// Requests that played a step of a script.
    pub scripted: u64,
    /// Requests a model.
    pub per_model: BTreeMap<String, u64>,
    /// Requests for a token count.
    pub count_tokens: u64,
    /// Streams the client left before their end, as an interrupted agent does.
    pub abandoned: u64,
    /// The newest 50 requests, oldest first.
    pub last: VecDeque<RequestRecord>,
}

/// Keeps counts, and a log if there is a file for it. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    counts: Arc<Mutex<Counts>>,
    log: Option<Arc<Mutex<File>>>,
}

impl Recorder {
    /// A recorder that also appends each request, with its body, as a JSON line to the file.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn with_log(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { log: Some(Arc::new(Mutex::new(file))), ..Self::default() })
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    /// Starts counting anew.
    pub fn forget(&self) {
        *lock(&self.counts) = Counts::default();
    }

    pub(super) fn asked(&self, path: &str, body: &Value, tools: Vec<String>, step: &Step) {
        let record = {
            let mut counts = lock(&self.counts);
            counts.total += 1;
            let record = record(counts.total, path, body, tools, step);
            counts.scripted += u64::from(step.index.is_some());
            *counts.per_model.entry(record.model.clone()).or_default() += 1;
            counts.last.push_back(record.clone());
            if counts.last.len() > KEPT {
                counts.last.pop_front();
            }
            record
        };
        self.write(&json!({"request": record, "body": body}));
    }

    pub(super) fn tokens_counted(&self) {
        lock(&self.counts).count_tokens += 1;
    }

    pub(super) fn abandoned(&self) {
        lock(&self.counts).abandoned += 1;
    }

    fn write(&self, line: &Value) {
        if let Some(log) = &self.log {
            // A full disk must not keep an agent waiting for its answer.
            drop(writeln!(lock(log), "{line}"));
        }
    }
}

fn record(number: u64, path: &str, body: &Value, tools: Vec<String>, step: &Step) -> RequestRecord {
    let said: Vec<String> = step
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Say(text) => Some(text.clone()),
            Part::Slow { words, .. } => Some(words.join(" ")),
            Part::Wait(_) => None,
        })
        .collect();
    let (called, failed) = match &step.end {
        End::Turn => (Vec::new(), None),
        End::Tools(calls) => (calls.iter().map(|(name, _)| name.clone()).collect(), None),
        End::Error(status) => (Vec::new(), Some(*status)),
    };
    RequestRecord {
        number,
        path: path.to_owned(),
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        stream: body["stream"].as_bool().unwrap_or(false),
        tools,
        step: step.index,
        said: said.join("\n"),
        called,
        failed,
        last_message: body["messages"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default(),
    }
}

/// A panic elsewhere must not take the counts away from the test that looks into it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
