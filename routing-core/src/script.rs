//! Event scripts: what happens in browser tabs and agents, and what must be seen, as data. One script runs natively, as
//! WASM and against the real daemon, and its verdict must be the same everywhere.
//!
//! The runner plays the panels (with the panel's own machine over a simulated canvas) and pulls the agents' strings; a
//! [`World`] is the daemon. It must not know any rule: what is right stands in the scripts.

mod canvas;
mod commands;
mod expect;
mod format;
mod log;
mod memory;
mod pattern;
mod plain;
mod stage;
mod tab;
mod world;

pub use format::{Bounds, Dialect, Ended, Hold, NodeSpec, PanelSpec, Script, Step, WorkflowSpec};
pub use memory::InMemory;
pub use world::{Happened, Line, Order, World};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What came of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Everything that must be seen was seen.
    pub passed: bool,
    /// What was not.
    pub failures: Vec<Failure>,
    /// How each call ended: `ok`, `pending`, or the code of its refusal. The same in every back end.
    pub calls: BTreeMap<String, String>,
    /// What is on each canvas at the end. The same in every back end.
    pub canvases: BTreeMap<String, Value>,
    /// Of everything that went over the wire, in order: the same natively and as WASM, not over sockets.
    pub digest: String,
}

/// One thing that was not as it must be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Which step, from 0.
    pub step: usize,
    /// What was to be seen or done.
    pub expected: Value,
    /// What was seen instead.
    pub seen: Value,
}

/// Runs a script.
pub fn run(script: &Script, world: &mut dyn World) -> Verdict {
    stage::Stage::new(script, world).play()
}

/// Runs a script in memory: JSON in, verdict out.
///
/// # Errors
/// What is wrong with the JSON, with its place.
pub fn run_json(text: &str) -> Result<Verdict, String> {
    let script: Script = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(run(&script, &mut InMemory::new(&script)))
}
