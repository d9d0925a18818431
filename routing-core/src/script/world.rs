//! What the runner needs of a back end: sockets to a daemon, strings to its agents, and a clock.

use serde_json::{Map, Value};

/// One socket of the back end, never used twice.
pub type Line = u64;

/// Something that the back end did.
#[derive(Clone, Debug, PartialEq)]
pub enum Happened {
    /// A text frame came.
    Frame {
        /// On which socket.
        line: Line,
        /// As it came.
        text: String,
    },
    /// A socket was closed from the other side.
    Closed {
        /// Which.
        line: Line,
        /// The close code; 1006 when there was none.
        code: u16,
        /// The reason given.
        reason: String,
    },
    /// An agent process is there.
    Started {
        /// Whose.
        agent: String,
    },
    /// An agent process is gone.
    Stopped {
        /// Whose.
        agent: String,
    },
    /// An agent got a prompt.
    Prompted {
        /// Whose.
        agent: String,
        /// The text.
        text: String,
    },
    /// An agent was told to stop its turn.
    Interrupted {
        /// Whose.
        agent: String,
    },
    /// A tool call ended: its result, or its refusal as on the wire.
    Answered {
        /// Its name in the script.
        call: String,
        /// How.
        outcome: Result<Value, Value>,
    },
}

/// What an agent is made to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Call a tool.
    Call {
        /// Its name in the script.
        call: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// Say something.
    Speak(String),
    /// End the turn.
    End,
    /// Let the turn fail.
    Fail(String),
    /// Take these messages into the running turn.
    Merge(Vec<String>),
    /// Let the next starts wait.
    SlowStart,
    /// Let a start that waits succeed.
    Ready,
    /// Let a start that waits fail.
    StartFails,
}

/// A back end.
pub trait World {
    /// Milliseconds since the script began.
    fn now(&self) -> u64;

    /// Opens a socket. `None`: the daemon is not there.
    fn open(&mut self) -> Option<Line>;

    /// Sends a text frame.
    fn send(&mut self, line: Line, text: &str);

    /// Cuts a socket. It is heard of no more.
    fn cut(&mut self, line: Line);

    /// Makes an agent do something.
    ///
    /// # Errors
    /// Why this back end cannot.
    fn order(&mut self, agent: &str, order: Order) -> Result<(), String>;

    /// Kills the daemon and starts it again on the same store.
    fn restart(&mut self);

    /// The next thing that happened. Never waits.
    fn poll(&mut self) -> Option<Happened>;

    /// Waits until something happens, at most so many milliseconds. `false`: nothing did.
    fn rest(&mut self, ms: u64) -> bool;

    /// How long an expected thing may take, in milliseconds; 0: what is not there now never comes by itself.
    fn patience(&self) -> u64;

    /// After how much silence nothing more is under way, in milliseconds.
    fn quiet(&self) -> u64;

    /// When the back end's next deadline is, if it keeps them itself.
    fn deadline(&self) -> Option<u64>;

    /// Lets time pass until then.
    fn pass(&mut self, until: u64);
}
