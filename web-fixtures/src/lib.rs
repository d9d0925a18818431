//! What tests and the demo share: a scripted model and a scripted agent.
//!
//! Both are driven by the prompt itself. A test writes `@@tool panel_add_node {...}@@` into the message a
//! person would type, so tests that run side by side need no shared queue of answers.

pub mod acp;
pub mod model;
pub mod script;
