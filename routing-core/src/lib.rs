//! The rules of comfy-orchestrator, as a pure machine.
//!
//! Two questions are answered here and nowhere else: *whose conversation is this* and *which canvas may this call
//! touch*. The daemon compiles this crate natively, the panel compiles it to WASM, so both sides apply the same
//! stamp, guard and fence.
//!
//! The crate reads no clock, no randomness and no environment, performs no I/O and is not asynchronous: time and
//! fresh ids come in with the input, effects go out as values. Every type is `Clone + Eq + Hash`, so that a model
//! checker drives the code that ships.

#![forbid(unsafe_code)]

pub mod agent;
pub mod command;
pub mod fence;
pub mod frame;
pub mod guard;
pub mod id;
pub mod job;
pub mod ledger;
pub mod panel;
pub mod past;
pub mod path;
pub mod refusal;
pub mod router;
pub mod run;
#[cfg(feature = "script")]
pub mod script;
pub mod target;
pub mod turn;
