//! The conversations: one task feeds the router and does what it says. It owns the sockets' ways out, the agents'
//! keepers and the log's pen; it decides nothing about routing.

mod core;
mod journal;
mod keeper;
mod seed;

pub use self::core::{Core, CoreParts, Found};
pub use journal::Journal;
pub use keeper::KeeperParts;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 that never go back: the wall clock at the start, and what passed since then.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: u64,
    since: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_millis());
        Self { wall: u64::try_from(wall).unwrap_or_default(), since: Instant::now() }
    }

    /// The time.
    pub fn now(&self) -> u64 {
        self.wall + u64::try_from(self.since.elapsed().as_millis()).unwrap_or_default()
    }

    /// The time, as the stores take it.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.now()).unwrap_or(i64::MAX)
    }

    /// When a time of this clock is, for timers.
    pub fn instant(&self, at: u64) -> Instant {
        self.since + std::time::Duration::from_millis(at.saturating_sub(self.wall))
    }
}
