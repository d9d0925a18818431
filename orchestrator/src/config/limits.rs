//! The section `[limits]`: bounds and deadlines with their usual values.

use serde::Deserialize;
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

/// Most bytes of any frame, also of one with media.
pub const MOST_FRAME_BYTES: usize = 16 << 20;
/// Fewest bytes that `frame_bytes` may allow: a hello must fit.
const FEWEST_FRAME_BYTES: usize = 4 << 10;

/// Bounds and deadlines. In the file, times are whole milliseconds from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the upgrade of a socket to its hello.
    pub hello: Duration,
    /// How long a tab that went away may take to come back.
    pub reconnect: Duration,
    /// How long a panel may take for a command.
    pub command: Duration,
    /// How long a person may take for a question.
    pub ask: Duration,
    /// How long an agent may be silent in a turn.
    pub stall: Duration,
    /// The same while a tool of its own runs.
    pub stall_in_tool: Duration,
    /// How long an agent may take to start.
    pub start: Duration,
    /// How long blind mode holds on after the last blind tab went.
    pub blind_grace: Duration,
    /// How long a message waits for others that belong to it.
    pub debounce: Duration,
    /// Most sockets at a time.
    pub sockets: usize,
    /// Most messages that wait in one conversation.
    pub backlog: usize,
    /// Most bytes of a text frame; replies that carry media may have 16 MiB.
    pub frame_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hello: Duration::from_millis(2_000),
            reconnect: Duration::from_millis(20_000),
            command: Duration::from_millis(20_000),
            ask: Duration::from_millis(240_000),
            stall: Duration::from_millis(180_000),
            stall_in_tool: Duration::from_millis(600_000),
            start: Duration::from_millis(60_000),
            blind_grace: Duration::from_millis(60_000),
            debounce: Duration::from_millis(750),
            sockets: 64,
            backlog: 1_000,
            frame_bytes: 1 << 20,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    hello: Option<NonZeroU64>,
    reconnect: Option<NonZeroU64>,
    command: Option<NonZeroU64>,
    ask: Option<NonZeroU64>,
    stall: Option<NonZeroU64>,
    stall_in_tool: Option<NonZeroU64>,
    start: Option<NonZeroU64>,
    blind_grace: Option<NonZeroU64>,
    debounce: Option<NonZeroU64>,
    sockets: Option<NonZeroUsize>,
    backlog: Option<NonZeroUsize>,
    frame_bytes: Option<FrameBytes>,
}

impl Table {
    pub(super) const KEYS: &[&str] = &[
        "hello",
        "reconnect",
        "command",
        "ask",
        "stall",
        "stall_in_tool",
        "start",
        "blind_grace",
        "debounce",
        "sockets",
        "backlog",
        "frame_bytes",
    ];
}

#[derive(Deserialize)]
#[serde(try_from = "usize")]
struct FrameBytes(usize);

impl TryFrom<usize> for FrameBytes {
    type Error = String;

    fn try_from(bytes: usize) -> Result<Self, String> {
        if (FEWEST_FRAME_BYTES..=MOST_FRAME_BYTES).contains(&bytes) {
            return Ok(Self(bytes));
        }
        Err(format!("it must be from {FEWEST_FRAME_BYTES} to {MOST_FRAME_BYTES}"))
    }
}

impl From<Table> for Limits {
    fn from(table: Table) -> Self {
        let usual = Self::default();
        let time = |given: Option<NonZeroU64>, usual| given.map_or(usual, |ms| Duration::from_millis(ms.get()));
        let count = |given: Option<NonZeroUsize>, usual| given.map_or(usual, NonZeroUsize::get);
        Self {
            hello: time(table.hello, usual.hello),
            reconnect: time(table.reconnect, usual.reconnect),
            command: time(table.command, usual.command),
            ask: time(table.ask, usual.ask),
            stall: time(table.stall, usual.stall),
            stall_in_tool: time(table.stall_in_tool, usual.stall_in_tool),
            start: time(table.start, usual.start),
            blind_grace: time(table.blind_grace, usual.blind_grace),
            debounce: time(table.debounce, usual.debounce),
            sockets: count(table.sockets, usual.sockets),
            backlog: count(table.backlog, usual.backlog),
            frame_bytes: table.frame_bytes.map_or(usual.frame_bytes, |bytes| bytes.0),
        }
    }
}
