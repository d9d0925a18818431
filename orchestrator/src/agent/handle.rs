//! The two ends between a session's caller and the task that runs it. Every driver uses them, so that a turn ends
//! exactly once whatever the driver is. Knows no program and no protocol.

use super::{AgentSession, Prompt};
use async_trait::async_trait;
use routing_core::agent::{AgentEvent, TurnOutcome};
use tokio::sync::{mpsc, oneshot};

/// What the caller wants of a session's task.
pub(super) enum Order {
    /// Begin a turn.
    Prompt(String),
    /// End the running turn early.
    Interrupt,
    /// End, and say so when nothing is left running.
    Close(oneshot::Sender<()>),
}

/// The caller's end.
pub(super) struct Handle {
    orders: mpsc::UnboundedSender<Order>,
    pid: Option<u32>,
}

impl Handle {
    /// The caller's end and the orders for the task.
    pub(super) fn new(pid: Option<u32>) -> (Self, mpsc::UnboundedReceiver<Order>) {
        let (orders, receiver) = mpsc::unbounded_channel();
        (Self { orders, pid }, receiver)
    }
}

#[async_trait]
impl AgentSession for Handle {
    async fn prompt(&mut self, prompt: Prompt) {
        // The task lives until it is told to close, so the order always arrives.
        let _ = self.orders.send(Order::Prompt(prompt.text));
    }

    async fn interrupt(&mut self) {
        let _ = self.orders.send(Order::Interrupt);
    }

    async fn close(self: Box<Self>) {
        let (done, closed) = oneshot::channel();
        if self.orders.send(Order::Close(done)).is_ok() {
            let _ = closed.await;
        }
    }

    fn pid(&self) -> Option<u32> {
        self.pid
    }
}

/// The task's end: where it reports, with the promise of one [`AgentEvent::TurnEnd`] for each prompt.
pub(super) struct Reporter {
    events: mpsc::UnboundedSender<AgentEvent>,
    in_turn: bool,
}

impl Reporter {
    /// Reports to `events`.
    pub(super) fn new(events: mpsc::UnboundedSender<AgentEvent>) -> Self {
        Self { events, in_turn: false }
    }

    /// Whether a turn is running.
    pub(super) fn in_turn(&self) -> bool {
        self.in_turn
    }

    /// A prompt was taken.
    pub(super) fn begin(&mut self) {
        self.in_turn = true;
    }

    /// Reports something that ends no turn.
    pub(super) fn say(&self, event: AgentEvent) {
        // The daemon has stopped listening when it is about to close the session.
        let _ = self.events.send(event);
    }

    /// Ends the running turn; without one, nothing is said.
    pub(super) fn end(&mut self, outcome: TurnOutcome, anchor: Option<String>) {
        if std::mem::take(&mut self.in_turn) {
            self.say(AgentEvent::TurnEnd { outcome, anchor });
        }
    }

    /// The process is gone: the running turn fails, or the end is reported by itself.
    pub(super) fn gone(&mut self, program: &str, reason: &str) {
        if self.in_turn {
            self.end(exited(program, reason), None);
        } else {
            self.say(AgentEvent::Exited { reason: format!("{program} ended: {reason}") });
        }
    }
}

/// The outcome of a turn whose process ended.
pub(super) fn exited(program: &str, reason: &str) -> TurnOutcome {
    TurnOutcome::Failed {
        code: "exited".into(),
        message: format!("{program} ended while it was answering ({reason}). Send the message again to start it anew."),
    }
}
