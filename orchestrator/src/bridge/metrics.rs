//! What the listener counts. Numbers only: no name, origin or text gets in here.

use super::Refused;
use super::frames::Unfit;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The counters of one listener.
#[derive(Debug)]
pub struct Metrics {
    refused: Vec<AtomicU64>,
    unfit: Vec<AtomicU64>,
    sockets: AtomicU64,
    open: AtomicI64,
    frames_in: AtomicU64,
    frames_out: AtomicU64,
    flushes: AtomicU64,
    tool_calls: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            refused: zeros(Refused::ALL.len()),
            unfit: zeros(Unfit::ALL.len()),
            sockets: AtomicU64::new(0),
            open: AtomicI64::new(0),
            frames_in: AtomicU64::new(0),
            frames_out: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            tool_calls: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// A request was turned away.
    pub fn refused(&self, why: Refused) {
        self.refused[why as usize].fetch_add(1, Relaxed);
    }

    /// A frame was not taken.
    pub(super) fn unfit(&self, why: Unfit) {
        self.unfit[why as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn socket_opened(&self) {
        self.sockets.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
    }

    pub(super) fn socket_closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    pub(super) fn frame_in(&self) {
        self.frames_in.fetch_add(1, Relaxed);
    }

    pub(super) fn frames_out(&self, count: u64) {
        self.frames_out.fetch_add(count, Relaxed);
        self.flushes.fetch_add(1, Relaxed);
    }

    /// An agent called a tool.
    pub fn tool_call(&self) {
        self.tool_calls.fetch_add(1, Relaxed);
    }

    /// The counters as lines of text, in the format that Prometheus reads.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, label: Option<(&str, &str)>, value: i128| {
            let label = label.map(|(key, value)| format!("{{{key}=\"{value}\"}}")).unwrap_or_default();
            // Writing into a text cannot fail.
            let _ = writeln!(text, "comfy_orchestrator_{name}{label} {value}");
        };
        let of = |counter: &AtomicU64| i128::from(counter.load(Relaxed));
        for (why, counter) in Refused::ALL.iter().zip(&self.refused) {
            line("refused_total", Some(("reason", why.code())), of(counter));
        }
        for (why, counter) in Unfit::ALL.iter().zip(&self.unfit) {
            line("frames_not_taken_total", Some(("reason", why.code())), of(counter));
        }
        line("sockets_total", None, of(&self.sockets));
        line("sockets_open", None, i128::from(self.open.load(Relaxed)));
        line("frames_total", Some(("way", "in")), of(&self.frames_in));
        line("frames_total", Some(("way", "out")), of(&self.frames_out));
        line("flushes_total", None, of(&self.flushes));
        line("tool_calls_total", None, of(&self.tool_calls));
        text
    }
}
