//! Nothing said is lost, nothing is done twice: stories in which the daemon is killed, at named points and at any moment,
//! and in which lines between panels and daemon misbehave. The panels are the machine that ships, the daemon is the real
//! program, and the checks look at its log on disk and at what panels and agents have seen.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the failure of a test")]

mod agents;
mod check;
mod dice;
mod line;
mod records;
mod story;
mod tab;
mod victim;

pub use dice::Dice;
pub use line::Weather;
pub use story::{Outcome, Story};
pub use victim::fault_points;

impl Story {
    /// The daemon dies at a point, `name:n`, in the middle of a bit of everything.
    pub fn at_point(seed: u64, point: &str) -> Self {
        Self { seed, kills: 0, point: Some(point.to_owned()), weather: Weather::CALM, messages: 0 }
    }

    /// The daemon is killed at any moment, again and again, under load.
    pub fn with_kills(seed: u64, kills: usize) -> Self {
        Self { seed, kills, point: None, weather: Weather::CALM, messages: 4 + kills * 4 }
    }

    /// Lines are rough; in every fourth story the daemon is killed, too.
    pub fn on_rough_lines(seed: u64) -> Self {
        Self { seed, kills: usize::from(seed.is_multiple_of(4)), point: None, weather: Weather::ROUGH, messages: 6 }
    }
}
