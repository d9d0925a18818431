//! The task behind every agent that is a child process: it carries lines between the process and a [`Speaker`], and
//! keeps the promises of a turn. Knows no protocol; what a line means is the speaker's.

use super::handle::{Order, Reporter, exited};
use super::process::{Output, Process};
use routing_core::agent::{AgentEvent, TurnOutcome};
use std::future::pending;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

/// An interrupted turn that has not ended after this long is ended with its process.
const INTERRUPT_GRACE: Duration = Duration::from_secs(10);

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Report this.
    Say(AgentEvent),
    /// Write this line to the process.
    Send(String),
    /// The turn is over.
    End {
        /// How.
        outcome: TurnOutcome,
        /// A point to rewind to.
        anchor: Option<String>,
    },
}

/// A line that cannot be read at all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Garbage;

/// One side of a protocol. Pure: no process, no clock.
pub(super) trait Speaker: Send {
    /// The program's name, for messages.
    fn program(&self) -> &str;
    /// A turn begins with this text.
    fn prompt(&mut self, text: &str) -> Vec<Step>;
    /// The running turn is to end.
    fn interrupt(&mut self) -> Vec<Step>;
    /// A line of the process.
    fn line(&mut self, line: &str) -> Result<Vec<Step>, Garbage>;
    /// The process is gone: what is left to report of text that was being written.
    fn abandon(&mut self) -> Vec<AgentEvent>;
}

/// A session's task.
pub(super) struct Drive<S> {
    speaker: S,
    reporter: Reporter,
    orders: mpsc::UnboundedReceiver<Order>,
    interrupt_deadline: Option<Instant>,
    garbage: u64,
}

enum Ending {
    Closed(Option<oneshot::Sender<()>>),
    Ended(String),
    Stuck,
}

impl<S: Speaker> Drive<S> {
    /// A task that has not begun.
    pub(super) fn new(speaker: S, reporter: Reporter, orders: mpsc::UnboundedReceiver<Order>) -> Self {
        Self { speaker, reporter, orders, interrupt_deadline: None, garbage: 0 }
    }

    /// Runs until the session is closed.
    pub(super) async fn run(mut self, mut process: Process) {
        let done = match self.serve(&mut process).await {
            Ending::Closed(done) => {
                process.close().await;
                self.report_rest();
                self.reporter.end(TurnOutcome::Interrupted, None);
                done
            }
            Ending::Ended(reason) => {
                drop(process);
                self.report_rest();
                self.reporter.gone(self.speaker.program(), &reason);
                self.refuse_prompts(&reason).await
            }
            Ending::Stuck => {
                process.kill().await;
                self.report_rest();
                self.reporter.end(TurnOutcome::Interrupted, None);
                let reason = "it did not stop when it was interrupted, and was killed";
                self.reporter.gone(self.speaker.program(), reason);
                self.refuse_prompts(reason).await
            }
        };
        if let Some(done) = done {
            // The caller may have stopped waiting.
            let _ = done.send(());
        }
    }

    async fn serve(&mut self, process: &mut Process) -> Ending {
        loop {
            let deadline = self.interrupt_deadline;
            tokio::select! {
                output = process.next() => match output {
                    Output::Line(line) => self.line(&line, process),
                    Output::Oversize => self.skip("too long"),
                    Output::Ended { reason } => return Ending::Ended(reason),
                },
                order = self.orders.recv() => match order {
                    Some(Order::Prompt(text)) => {
                        self.reporter.begin();
                        let steps = self.speaker.prompt(&text);
                        self.carry_out(steps, process);
                    }
                    Some(Order::Interrupt) => self.interrupt(process),
                    Some(Order::Close(done)) => return Ending::Closed(Some(done)),
                    None => return Ending::Closed(None),
                },
                () = until(deadline) => return Ending::Stuck,
            }
        }
    }

    fn interrupt(&mut self, process: &Process) {
        if self.reporter.in_turn() {
            let steps = self.speaker.interrupt();
            self.carry_out(steps, process);
            self.interrupt_deadline.get_or_insert_with(|| Instant::now() + INTERRUPT_GRACE);
        }
    }

    fn line(&mut self, line: &str, process: &Process) {
        if line.trim().is_empty() {
            return;
        }
        match self.speaker.line(line) {
            Ok(steps) => self.carry_out(steps, process),
            Err(Garbage) => self.skip("no message"),
        }
    }

    fn carry_out(&mut self, steps: Vec<Step>, process: &Process) {
        for step in steps {
            match step {
                Step::Say(event) => self.reporter.say(event),
                Step::Send(line) => process.send(line),
                Step::End { outcome, anchor } => {
                    self.interrupt_deadline = None;
                    self.reporter.end(outcome, anchor);
                }
            }
        }
    }

    fn skip(&mut self, why: &'static str) {
        self.garbage += 1;
        // The first one tells that something is odd; thousands tell no more.
        if self.garbage.is_power_of_two() {
            tracing::warn!(agent = self.speaker.program(), why, count = self.garbage, "agent line skipped");
        }
    }

    fn report_rest(&mut self) {
        for event in self.speaker.abandon() {
            self.reporter.say(event);
        }
    }

    async fn refuse_prompts(&mut self, reason: &str) -> Option<oneshot::Sender<()>> {
        while let Some(order) = self.orders.recv().await {
            match order {
                Order::Prompt(_) => {
                    self.reporter.begin();
                    self.reporter.end(exited(self.speaker.program(), reason), None);
                }
                Order::Interrupt => {}
                Order::Close(done) => return Some(done),
            }
        }
        None
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
