//! Black-box tests and the model checker.

pub mod harness;
pub mod model;
pub mod scripts;
