//! Sessions: what is on disk of them, and the queue of their prompts.
//!
//! Decides which prompt runs when, and what cancel reaches. What a turn does is [`super::turn`]'s.

use super::mcp::Servers;
use super::puppet::Puppet;
use super::turn::{self, Prompt};
use super::wire::Failure;
use super::{Agent, lock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

/// A session as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) cwd: String,
    pub(super) turns: Vec<TurnRecord>,
}

/// What was said in a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TurnRecord {
    pub(super) user: String,
    pub(super) agent: String,
}

/// Where records are kept.
#[derive(Debug)]
pub(super) struct Store(Option<PathBuf>);

impl Store {
    pub(super) fn open(folder: Option<PathBuf>) -> std::io::Result<Self> {
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder)?;
        }
        Ok(Self(folder))
    }

    pub(super) fn create(&self, cwd: &str) -> Result<Record, Failure> {
        let record = Record { id: Uuid::new_v4().to_string(), cwd: cwd.to_owned(), turns: Vec::new() };
        self.save(&record)?;
        Ok(record)
    }

    pub(super) fn load(&self, id: &str) -> Result<Record, Failure> {
        let unknown = || Failure::unknown_session(id);
        // Only ids of our own making become file names.
        let id = Uuid::parse_str(id).map_err(|_| unknown())?;
        let folder = self.0.as_ref().ok_or_else(unknown)?;
        let bytes = std::fs::read(folder.join(format!("{id}.json"))).map_err(|_| unknown())?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::internal(format!("the session file is broken: {error}"), Value::Null))
    }

    /// A killed process must leave the old file or the new one, never half of one.
    pub(super) fn save(&self, record: &Record) -> Result<(), Failure> {
        let Some(folder) = &self.0 else { return Ok(()) };
        let write = || -> std::io::Result<()> {
            let path = folder.join(format!("{}.json", record.id));
            let draft = path.with_extension("draft");
            std::fs::write(&draft, serde_json::to_vec(record)?)?;
            std::fs::rename(draft, path)
        };
        write().map_err(|error| Failure::internal(format!("the session cannot be saved: {error}"), Value::Null))
    }
}

/// A session that prompts can be sent to.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) servers: Servers,
    pub(super) record: Mutex<Record>,
    /// Counts cancels; a prompt is cancelled when the count has moved since it came.
    cancels: watch::Sender<u64>,
    queue: mpsc::UnboundedSender<Prompt>,
    load: Mutex<Load>,
}

/// Prompts that have come and are not answered yet.
#[derive(Debug, Default)]
struct Load {
    turns: u64,
    outstanding: usize,
    /// Prompts to be folded into the running turn.
    merged: VecDeque<Prompt>,
}

impl Session {
    pub(super) fn open(agent: Arc<Agent>, record: Record, servers: Servers) -> Arc<Self> {
        let (queue, prompts) = mpsc::unbounded_channel();
        let session = Arc::new(Self {
            id: record.id.clone(),
            servers,
            record: Mutex::new(record),
            cancels: watch::Sender::new(0),
            queue,
            load: Mutex::default(),
        });
        tokio::spawn(work(agent, Arc::clone(&session), prompts));
        session
    }

    pub(super) fn prompt(&self, mut prompt: Prompt, merge: bool, puppet: Option<&Puppet>) {
        let mut load = lock(&self.load);
        load.turns += 1;
        prompt.turn = load.turns;
        prompt.cancels_seen = *self.cancels.borrow();
        if merge && load.outstanding > 0 {
            if let Some(puppet) = puppet {
                puppet.tell(&prompt.event());
            }
            load.merged.push_back(prompt);
        } else {
            load.outstanding += 1;
            // The worker lives as long as the session.
            drop(self.queue.send(prompt));
        }
    }

    /// Cancels the running prompt and those that wait.
    pub(super) fn cancel(&self) {
        self.cancels.send_modify(|count| *count += 1);
    }

    /// Returns once a prompt that had seen `seen` cancels is cancelled.
    pub(super) async fn cancelled(&self, seen: u64) {
        // The sender is ours, so the wait cannot fail.
        drop(self.cancels.subscribe().wait_for(|count| *count > seen).await);
    }

    pub(super) fn is_cancelled(&self, seen: u64) -> bool {
        *self.cancels.borrow() > seen
    }

    pub(super) fn next_merged(&self) -> Option<Prompt> {
        lock(&self.load).merged.pop_front()
    }

    /// The next prompt to fold in, or `None` and the turn is over, so that later prompts are turns of their own.
    pub(super) fn merged_or_over(&self) -> Option<Prompt> {
        let mut load = lock(&self.load);
        let merged = load.merged.pop_front();
        if merged.is_none() {
            load.outstanding = load.outstanding.saturating_sub(1);
        }
        merged
    }
}

async fn work(agent: Arc<Agent>, session: Arc<Session>, mut prompts: mpsc::UnboundedReceiver<Prompt>) {
    while let Some(prompt) = prompts.recv().await {
        let done = turn::run(&agent, &session, prompt).await;
        let record = {
            let mut record = lock(&session.record);
            record.turns.push(done.said);
            record.clone()
        };
        let saved = agent.store.save(&record);
        let outcome = saved.and(done.outcome);
        for id in &done.answers {
            match &outcome {
                Ok(stop) => agent.output.reply(id, &json!({"stopReason": stop})),
                Err(failure) => agent.output.fail(id, failure),
            }
        }
    }
}
