//! A running Claude CLI: one task that owns the process, answers its questions and reports. Knows no tabs and no
//! workflows.

use super::super::handle::{Order, Reporter, exited};
use super::super::process::{Output, Process};
use super::super::tool;
use super::translate::{Step, Translator};
use super::wire;
use routing_core::agent::{AgentEvent, TurnOutcome};
use std::future::pending;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// An interrupted turn that has not ended after this long is ended with its process.
const INTERRUPT_GRACE: Duration = Duration::from_secs(10);

/// What a session's task needs besides the process.
pub(super) struct Session {
    /// The conversation's backend, for messages.
    pub(super) agent: String,
    /// Tools beside ours that may run.
    pub(super) allow_tools: Vec<String>,
    /// Where it reports.
    pub(super) reporter: Reporter,
    /// Where the orders come from.
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
}

enum Ending {
    Closed(Option<tokio::sync::oneshot::Sender<()>>),
    Ended(String),
    Stuck,
}

impl Session {
    /// Runs until the session is closed.
    pub(super) async fn run(mut self, mut process: Process) {
        let mut running = Running::default();
        let ending = running.serve(&mut self, &mut process).await;
        let closed = match ending {
            Ending::Closed(done) => {
                process.close().await;
                done
            }
            Ending::Ended(reason) => {
                drop(process);
                self.reporter.gone(super::PROGRAM, &reason);
                self.refuse_all(&reason).await
            }
            Ending::Stuck => {
                process.kill().await;
                let reason = "it did not stop when interrupted and was killed";
                self.reporter.end(TurnOutcome::Interrupted, None);
                self.reporter.gone(super::PROGRAM, reason);
                self.refuse_all(reason).await
            }
        };
        self.reporter.end(TurnOutcome::Interrupted, None);
        if let Some(done) = closed {
            // The caller may have stopped waiting.
            let _ = done.send(());
        }
    }

    async fn refuse_all(&mut self, reason: &str) -> Option<tokio::sync::oneshot::Sender<()>> {
        while let Some(order) = self.orders.recv().await {
            match order {
                Order::Prompt(_) => {
                    self.reporter.begin();
                    self.reporter.end(exited(super::PROGRAM, reason), None);
                }
                Order::Interrupt => {}
                Order::Close(done) => return Some(done),
            }
        }
        None
    }
}

#[derive(Default)]
struct Running {
    translator: Translator,
    interrupts: u64,
    interrupt_deadline: Option<Instant>,
    garbage: u64,
}

impl Running {
    async fn serve(&mut self, session: &mut Session, process: &mut Process) -> Ending {
        loop {
            let deadline = self.interrupt_deadline;
            tokio::select! {
                output = process.next() => match output {
                    Output::Line(line) => self.line(&line, session, process),
                    Output::Oversize => self.skip(session, "too long"),
                    Output::Ended { reason } => return Ending::Ended(reason),
                },
                order = session.orders.recv() => match order {
                    Some(Order::Prompt(text)) => {
                        session.reporter.begin();
                        process.send(wire::user(&text));
                    }
                    Some(Order::Interrupt) => self.interrupt(session, process),
                    Some(Order::Close(done)) => return Ending::Closed(Some(done)),
                    None => return Ending::Closed(None),
                },
                () = until(deadline) => return Ending::Stuck,
            }
        }
    }

    fn interrupt(&mut self, session: &Session, process: &Process) {
        if !session.reporter.in_turn() {
            return;
        }
        self.interrupts += 1;
        process.send(wire::interrupt(self.interrupts));
        self.interrupt_deadline.get_or_insert_with(|| Instant::now() + INTERRUPT_GRACE);
    }

    fn line(&mut self, line: &str, session: &mut Session, process: &Process) {
        if line.trim().is_empty() {
            return;
        }
        let Ok(message) = wire::read(line) else {
            return self.skip(session, "no message");
        };
        for step in self.translator.take(message) {
            match step {
                Step::Say(event) => session.reporter.say(event),
                Step::Decide { id, tool, input } => {
                    let answer = if tool::may_run(&tool, &session.allow_tools) {
                        wire::allow(&id, &input)
                    } else {
                        session.reporter.say(AgentEvent::Notice { text: format!("The agent asked for {tool}, which is not allowed.") });
                        wire::deny(&id, &tool::refusal(&tool, &session.agent))
                    };
                    process.send(answer);
                }
                Step::Refuse { id, subtype } => process.send(wire::unsupported(&id, &subtype)),
                Step::End { outcome, anchor } => {
                    self.interrupt_deadline = None;
                    session.reporter.end(outcome, anchor);
                }
            }
        }
    }

    fn skip(&mut self, session: &Session, why: &'static str) {
        self.garbage += 1;
        // The first one tells that something is odd; thousands tell no more.
        if self.garbage.is_power_of_two() {
            tracing::warn!(agent = %session.agent, why, count = self.garbage, "agent line skipped");
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
