//! ComfyUI's HTTP and WebSocket API: watches the runs whose tickets are open and looks when it is asked. It tells what
//! ComfyUI says and decides nothing: what counts as an end, and who is told, are rules.
//!
//! A run belongs to the ComfyUI that its tab came from, and only such addresses and the configured one come here. While
//! runs of one ComfyUI are open there is one socket to it. ComfyUI sends the frames of a run to the page that queued it,
//! and to everybody that its queue changed; so its queue and its history are read then, after each connect, and when a
//! watch begins. Nothing is asked in between.

mod api;
mod manager;
mod read;
mod watch;

use api::Api;
use routing_core::id::{CallId, PromptId};
use routing_core::job::Job;
use routing_core::router::JobBegun;
use routing_core::run::Sight;
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// What is wanted.
#[derive(Debug)]
pub enum Order {
    /// Watch a run.
    Watch {
        /// Where.
        comfyui: String,
        /// Which.
        prompt_id: PromptId,
        /// It is a job of the Manager.
        job: bool,
    },
    /// Have the Manager begin a job.
    Begin {
        /// Where.
        comfyui: String,
        /// Its id.
        id: PromptId,
        /// What.
        job: Job,
        /// For which call.
        call: CallId,
    },
    /// Watch it no longer.
    Unwatch {
        /// Where.
        comfyui: String,
        /// Which.
        prompt_id: PromptId,
    },
    /// Look once.
    Look {
        /// Where.
        comfyui: String,
        /// At which.
        prompt_ids: Vec<PromptId>,
        /// They are jobs of the Manager.
        jobs: bool,
        /// For which call.
        call: CallId,
    },
}

/// What was learnt.
#[derive(Debug)]
pub enum Report {
    /// How runs and jobs stand.
    Seen {
        /// At which ComfyUI.
        comfyui: String,
        /// The call that asked, if one did.
        call: Option<CallId>,
        /// How they stand, or why ComfyUI did not say.
        seen: Result<Vec<(PromptId, Sight)>, String>,
    },
    /// What the Manager said to a job.
    Begun {
        /// Which.
        id: PromptId,
        /// The call that asked.
        call: CallId,
        /// Whether it took it.
        outcome: JobBegun,
    },
}

/// Starts to take orders. Ends when the orders do.
pub fn spawn() -> (mpsc::UnboundedSender<Order>, mpsc::UnboundedReceiver<Report>) {
    let (orders, todo) = mpsc::unbounded_channel();
    let (reporter, reports) = mpsc::unbounded_channel();
    tokio::spawn(carry_out(todo, reporter));
    (orders, reports)
}

async fn carry_out(mut todo: mpsc::UnboundedReceiver<Order>, reporter: mpsc::UnboundedSender<Report>) {
    let mut watches: BTreeMap<String, watch::Watch> = BTreeMap::new();
    // A name of our own: with that of a page we would take its place. The Manager tells of a job whoever asked for it.
    let client = format!("comfy-orchestrator-{}", uuid::Uuid::new_v4().simple());
    while let Some(order) = todo.recv().await {
        match order {
            Order::Watch { comfyui, prompt_id, job } => {
                let watch = watches.entry(comfyui).or_insert_with_key(|comfyui| {
                    watch::Watch::begin(comfyui.clone(), client.clone(), reporter.clone())
                });
                watch.add(prompt_id, job);
            }
            Order::Begin { comfyui, id, job, call } => {
                let (reporter, client) = (reporter.clone(), client.clone());
                tokio::spawn(async move {
                    let outcome = manager::begin(&comfyui, &client, &id, &job).await;
                    let _ = reporter.send(Report::Begun { id, call, outcome });
                });
            }
            Order::Unwatch { comfyui, prompt_id } => {
                let idle = watches.get_mut(&comfyui).is_some_and(|watch| watch.remove(&prompt_id));
                if idle {
                    // Its socket closes with it.
                    watches.remove(&comfyui);
                }
            }
            Order::Look { comfyui, prompt_ids, jobs, call } => {
                let reporter = reporter.clone();
                tokio::spawn(async move {
                    let seen = match Api::new(&comfyui) {
                        Ok(api) if jobs => manager::look(&api, &prompt_ids).await,
                        Ok(api) => api.look(&prompt_ids).await,
                        Err(error) => Err(error),
                    };
                    let seen = seen.map_err(|error| error.to_string());
                    let _ = reporter.send(Report::Seen { comfyui, call: Some(call), seen });
                });
            }
        }
    }
}
