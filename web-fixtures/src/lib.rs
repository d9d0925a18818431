//! What tests and the demo share.
