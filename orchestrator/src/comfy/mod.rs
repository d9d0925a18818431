//! ComfyUI's HTTP and WebSocket API: watches the runs whose tickets are open and looks when it is asked. It tells what
//! ComfyUI says and decides nothing: what counts as an end, and who is told, are rules.
//!
//! A run belongs to the ComfyUI that its tab came from, and only such addresses and the configured one come here. While
//! runs of one ComfyUI are open there is one socket to it. ComfyUI sends the frames of a run to the page that queued it,
//! and to everybody that its queue changed; so its queue and its history are read then, after each connect, and when a
//! watch begins. Nothing is asked in between.

mod api;
mod read;
mod watch;

use api::Api;
use routing_core::id::{CallId, PromptId};
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
        /// For which call.
        call: CallId,
    },
}

/// What was learnt.
#[derive(Debug)]
pub struct Report {
    /// Of which ComfyUI.
    pub comfyui: String,
    /// The call that asked, if one did.
    pub call: Option<CallId>,
    /// How runs stand, or why ComfyUI did not say.
    pub seen: Result<Vec<(PromptId, Sight)>, String>,
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
    while let Some(order) = todo.recv().await {
        match order {
            Order::Watch { comfyui, prompt_id } => {
                let watch = watches
                    .entry(comfyui)
                    .or_insert_with_key(|comfyui| watch::Watch::begin(comfyui.clone(), reporter.clone()));
                watch.add(prompt_id);
            }
            Order::Unwatch { comfyui, prompt_id } => {
                let idle = watches.get_mut(&comfyui).is_some_and(|watch| watch.remove(&prompt_id));
                if idle {
                    // Its socket closes with it.
                    watches.remove(&comfyui);
                }
            }
            Order::Look { comfyui, prompt_ids, call } => {
                let reporter = reporter.clone();
                tokio::spawn(async move {
                    let seen = match Api::new(&comfyui) {
                        Ok(api) => api.look(&prompt_ids).await,
                        Err(error) => Err(error),
                    };
                    let seen = seen.map_err(|error| error.to_string());
                    let _ = reporter.send(Report { comfyui, call: Some(call), seen });
                });
            }
        }
    }
}
