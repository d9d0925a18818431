//! Black-box tests and the model checker.
