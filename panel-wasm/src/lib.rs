//! The browser face of routing-core.
