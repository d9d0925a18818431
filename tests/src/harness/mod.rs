//! The daemon from outside: the real program in a home of its own, panels as sockets, and agents as puppets. Everything
//! listens on loopback, on free ports, and is stopped by its id.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the failure of a test")]

mod client;
mod comfy;
mod daemon;
mod puppet;

pub use client::{Client, SimpleCanvas};
pub use comfy::Comfy;
pub use daemon::{Daemon, Home, programs};
pub use puppet::{Puppet, PuppetMaster};

use std::time::Duration;

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long nothing must happen to count as nothing.
pub const QUIET: Duration = Duration::from_millis(400);
