//! The conversations: one task feeds the router and does what it says. It owns the sockets' ways out, the agents'
//! keepers and the log's pen; it decides nothing about routing.

mod core;
mod journal;
mod keeper;
mod library;
mod seed;

pub use self::core::{Core, CoreParts, Found};
pub use journal::Journal;
pub use keeper::KeeperParts;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Two times, both in milliseconds since 1970. Deadlines count on one that never goes back and never jumps: the wall
/// clock at the start, and what passed since then. What people read and what outlives the daemon is the wall clock's,
/// which is set by hand, and goes on while the computer sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: u64,
    since: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { wall: wall(), since: Instant::now() }
    }

    /// The time that deadlines count on.
    pub fn now(&self) -> u64 {
        self.wall + u64::try_from(self.since.elapsed().as_millis()).unwrap_or_default()
    }

    /// The wall clock, as the stores take it.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(wall()).unwrap_or(i64::MAX)
    }

    /// How far the wall clock is ahead of [`Self::now`].
    pub fn ahead(&self) -> i64 {
        self.now_ms().saturating_sub_unsigned(self.now())
    }

    /// When a time of this clock is, for timers.
    pub fn instant(&self, at: u64) -> Instant {
        self.since + std::time::Duration::from_millis(at.saturating_sub(self.wall))
    }
}

fn wall() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_millis());
    u64::try_from(passed).unwrap_or_default()
}
