//! Puppet mode: a test pulls the strings over TCP, line by line of JSON, and the agent only moves.
//!
//! Decides nothing; carries orders out in the order they come. Tool calls run side by side and between turns.
//!
//! Events to the test: `started`, `prompt`, `cancelled`, `tool_result`, `permission`, `tools`, `refused`.
//! Orders from the test: [`Order`].

use super::turn::{ShownCall, permission};
use super::{Agent, NO_PUPPETEER, lock};
use crate::script::pieces;
use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};

/// An order, and the turn that it is for: one for another turn than the running one comes too late and is passed over.
#[derive(Debug, Deserialize)]
struct Line {
    turn: Option<u64>,
    #[serde(flatten)]
    order: Order,
}

/// What the test may order.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Order {
    /// Call a tool; its result comes back as `tool_result` with the same id.
    Tool {
        id: String,
        name: String,
        #[serde(default)]
        args: Map<String, Value>,
    },
    /// Say a piece of text as it is.
    Delta { text: String },
    /// Say a text in several pieces.
    Say { text: String },
    /// End the turn.
    End {
        #[serde(default = "end_turn")]
        stop: String,
    },
    /// Answer the prompt with an error.
    Fail { message: String },
    /// Ask the person for permission; the kind chosen comes back as `permission`.
    Permission { id: String, name: String },
    /// List the tools offered; they come back as `tools`.
    Tools { id: String },
    /// Write a line as it is, JSON or not.
    Raw { line: String },
    /// End the process.
    Exit { code: i32 },
}

fn end_turn() -> String {
    "end_turn".to_owned()
}

/// How the test ended a turn.
#[derive(Debug)]
pub(super) enum TurnEnd {
    Stop(String),
    Fail(String),
}

/// A turn's end of the strings.
pub(super) struct Strings {
    pub(super) ended: oneshot::Receiver<TurnEnd>,
}

#[derive(Debug)]
struct Active {
    turn: u64,
    end: oneshot::Sender<TurnEnd>,
    said: String,
}

#[derive(Debug)]
enum Job {
    Event(String),
    Flushed(oneshot::Sender<()>),
}

/// The connection to the test.
#[derive(Debug)]
pub(super) struct Puppet {
    events: mpsc::UnboundedSender<Job>,
    orders: Mutex<Option<OwnedReadHalf>>,
    active: Mutex<Option<Active>>,
    finished: Mutex<String>,
}

impl Puppet {
    pub(super) async fn connect(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await;
        let stream = stream.with_context(|| format!("no puppeteer listens at {address}"))?;
        stream.set_nodelay(true)?;
        let (orders, mut writer) = stream.into_split();
        let (events, mut queue) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(job) = queue.recv().await {
                match job {
                    // A puppeteer that is gone is noticed by the reader, which ends the process.
                    Job::Event(event) => drop(writer.write_all(event.as_bytes()).await),
                    Job::Flushed(done) => drop(done.send(())),
                }
            }
        });
        Ok(Self { events, orders: Mutex::new(Some(orders)), active: Mutex::default(), finished: Mutex::default() })
    }

    /// Starts to carry out orders; without a puppeteer the process has no purpose and ends.
    pub(super) fn obey(&self, agent: Arc<Agent>) {
        let Some(orders) = lock(&self.orders).take() else { return };
        tokio::spawn(async move {
            let mut lines = BufReader::new(orders).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str(&line) {
                    Ok(Line { turn: Some(turn), .. }) if !agent.puppet.as_ref().is_some_and(|it| it.plays(turn)) => {}
                    Ok(Line { order, .. }) => carry_out(&agent, order).await,
                    Err(error) => refuse(&agent, &format!("not an order: {error}: {line}")),
                }
            }
            agent.exit(NO_PUPPETEER).await;
        });
    }

    pub(super) fn tell(&self, event: &Value) {
        // The writer lives as long as the process.
        drop(self.events.send(Job::Event(format!("{event}\n"))));
    }

    /// Returns once everything told has left the process.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.events.send(Job::Flushed(done)).is_ok() {
            drop(flushed.await);
        }
    }

    pub(super) fn begin_turn(&self, turn: u64) -> Strings {
        let (end, ended) = oneshot::channel();
        *lock(&self.active) = Some(Active { turn, end, said: String::new() });
        Strings { ended }
    }

    /// What was said in the turn that has ended.
    pub(super) fn finish_turn(&self) -> String {
        let cancelled = lock(&self.active).take().map(|active| active.said);
        cancelled.unwrap_or_else(|| std::mem::take(&mut *lock(&self.finished)))
    }

    fn end(&self, end: TurnEnd) -> bool {
        let Some(active) = lock(&self.active).take() else { return false };
        *lock(&self.finished) = active.said;
        active.end.send(end).is_ok()
    }

    fn plays(&self, turn: u64) -> bool {
        lock(&self.active).as_ref().is_some_and(|active| active.turn == turn)
    }

    fn in_turn(&self) -> bool {
        lock(&self.active).is_some()
    }

    fn remember(&self, text: &str) {
        if let Some(active) = lock(&self.active).as_mut() {
            active.said.push_str(text);
        }
    }
}

async fn carry_out(agent: &Arc<Agent>, order: Order) {
    let Some(puppet) = &agent.puppet else { return };
    let session = lock(&agent.newest).clone();
    match (order, session) {
        (Order::Exit { code }, _) => agent.exit(code).await,
        (Order::Raw { line }, _) => agent.output.raw(&line),
        (Order::End { stop }, _) => {
            if !puppet.end(TurnEnd::Stop(stop)) {
                refuse(agent, "no turn is running, so none can end");
            }
        }
        (Order::Fail { message }, _) => {
            if !puppet.end(TurnEnd::Fail(message)) {
                refuse(agent, "no turn is running, so none can fail");
            }
        }
        (Order::Delta { text }, Some(session)) => {
            puppet.remember(&text);
            agent.output.chunk(&session.id, "agent_message_chunk", &text);
        }
        (Order::Say { text }, Some(session)) => {
            puppet.remember(&text);
            for piece in pieces(&text) {
                agent.output.chunk(&session.id, "agent_message_chunk", &piece);
            }
        }
        (Order::Tool { id, name, args }, Some(session)) => {
            let arguments = Value::Object(args);
            // Between turns a client expects no updates, but the tool server may well be called.
            let shown = puppet.in_turn().then(|| ShownCall::start(agent, &session.id, &name, &arguments));
            let agent = Arc::clone(agent);
            tokio::spawn(async move {
                let result = session.servers.call(&name, &arguments).await;
                if let Some(shown) = shown {
                    shown.finish(&agent, &result);
                }
                let event = json!({
                    "event": "tool_result", "id": id, "is_error": result.is_error,
                    "structured": result.structured, "text": result.joined(),
                });
                tell(&agent, &event);
            });
        }
        (Order::Permission { id, name }, Some(session)) => {
            let agent = Arc::clone(agent);
            tokio::spawn(async move {
                let outcome = permission(&agent, &session.id, &name).await;
                tell(&agent, &json!({"event": "permission", "id": id, "outcome": outcome}));
            });
        }
        (Order::Tools { id }, Some(session)) => {
            let agent = Arc::clone(agent);
            tokio::spawn(async move {
                let names = session.servers.tools().await;
                tell(&agent, &json!({"event": "tools", "id": id, "names": names}));
            });
        }
        (
            Order::Delta { .. }
            | Order::Say { .. }
            | Order::Tool { .. }
            | Order::Permission { .. }
            | Order::Tools { .. },
            None,
        ) => refuse(agent, "there is no session yet"),
    }
}

fn refuse(agent: &Agent, why: &str) {
    tell(agent, &json!({"event": "refused", "why": why}));
}

fn tell(agent: &Agent, event: &Value) {
    if let Some(puppet) = &agent.puppet {
        puppet.tell(event);
    }
}
