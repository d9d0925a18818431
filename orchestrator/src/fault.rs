//! Named moments at which a test has the daemon die, as by SIGKILL. Without the feature `fault-points` nothing of it is
//! compiled in. It knows names and counts, and nothing of what happens at them.
//!
//! `COMFY_FAULT_POINT=name:n` kills the process when it comes to the point for the `n`th time.

/// Every point that stands alone, in the order of a message's way, and how many of its passes are worth dying at.
#[cfg(feature = "fault-points")]
const POINTS: &[(&str, usize)] = &[
    // The start.
    ("restoring", 2),
    ("restored", 1),
    // Between the router and the disk, for whatever is written.
    ("group-written", 12),
    ("group-committed", 12),
    ("report-due", 12),
    ("report-taken", 12),
    ("frames-due", 12),
    // A turn.
    ("agent-starting", 2),
    ("agent-started", 2),
    ("prompt-ordered", 3),
    ("prompt-due", 3),
    ("prompt-given", 3),
    ("turn-ended", 3),
    ("tool-called", 3),
    ("tool-answered", 3),
    // The session file, and the token file that is written the same way.
    ("session-learnt", 1),
    ("file-begun", 3),
    ("file-written", 3),
    ("file-synced", 3),
    ("file-renamed", 3),
    ("session-stored", 1),
    // A boundary.
    ("forget-ordered", 1),
    ("forget-begun", 1),
    ("forget-agent-down", 1),
    ("forget-stored", 1),
    // A stop in order.
    ("stop-begun", 1),
    ("stop-turns-ended", 1),
    ("stop-agents-down", 1),
    ("stop-flushed", 1),
    ("stop-closed", 1),
];

/// Moments of a row: before its append is handed to the writer, and when it is in a transaction that is not committed.
#[cfg(feature = "fault-points")]
const ROW_STAGES: &[&str] = &["ordered", "inserted"];

/// Kinds of rows that have points of their own.
#[cfg(feature = "fault-points")]
const ROW_KINDS: &[&str] = &[
    "user",
    "turn_start",
    "action",
    "say",
    "turn_end",
    "run",
    "event",
    "ask",
    "answer",
    "notice",
    "cancelled",
    "blind",
    "boundary",
];

/// Every `name:n` that a test should die at.
#[cfg(feature = "fault-points")]
pub fn all() -> Vec<String> {
    let alone = POINTS.iter().flat_map(|(name, passes)| (1..=*passes).map(move |pass| format!("{name}:{pass}")));
    let rows = ROW_STAGES.iter().flat_map(|stage| ROW_KINDS.iter().map(move |kind| format!("{stage}-{kind}:1")));
    alone.chain(rows).collect()
}

/// Dies here, if this is the moment.
#[cfg(feature = "fault-points")]
pub(crate) fn at(point: &'static str) {
    assert!(POINTS.iter().any(|(name, _)| *name == point), "{point} is no point of the list");
    armed::passed(point);
}

/// Dies here, if a row of this kind at this stage is the moment.
#[cfg(feature = "fault-points")]
pub(crate) fn at_rows<'a, Kinds: Iterator<Item = &'a str>>(stage: &'static str, kinds: impl FnOnce() -> Kinds) {
    assert!(ROW_STAGES.contains(&stage), "{stage} is no stage of the list");
    kinds().for_each(|kind| armed::passed(&format!("{stage}-{kind}")));
}

/// Does nothing.
#[cfg(not(feature = "fault-points"))]
#[inline]
pub(crate) const fn at(_point: &'static str) {}

/// Does nothing.
#[cfg(not(feature = "fault-points"))]
#[inline]
pub(crate) fn at_rows<'a, Kinds: Iterator<Item = &'a str>>(_stage: &'static str, _kinds: impl FnOnce() -> Kinds) {}

#[cfg(feature = "fault-points")]
mod armed {
    use rustix::process::{Signal, getpid, kill_process};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    struct Armed {
        point: String,
        left: AtomicUsize,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    pub(super) fn passed(point: &str) {
        let armed = ARMED.get_or_init(|| {
            let wanted = std::env::var("COMFY_FAULT_POINT").ok()?;
            let (point, pass) = wanted.split_once(':')?;
            Some(Armed { point: point.to_owned(), left: AtomicUsize::new(pass.parse().ok()?) })
        });
        if let Some(armed) = armed
            && armed.point == point
            && armed.left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            // It cannot fail: a process may always signal itself. Nothing may go on while the signal is on its way.
            let _ = kill_process(getpid(), Signal::KILL);
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
    }
}
