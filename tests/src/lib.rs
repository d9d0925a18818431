//! Black-box tests and the model checker.

pub mod faults;
pub mod harness;
pub mod model;
pub mod scripts;
