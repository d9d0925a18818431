//! Agents that a test moves by hand: `scripted-acp` programs that the daemon starts and that connect back here.

use super::{PATIENCE, programs};
use serde_json::{Value, json};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Waits for puppets.
pub struct PuppetMaster {
    listener: TcpListener,
}

impl PuppetMaster {
    /// Listens on a free port.
    pub async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    /// The configuration of an agent that is moved from here.
    pub fn agent(&self, name: &str, state: &Path) -> String {
        let program = programs().join("scripted-acp");
        let address = self.listener.local_addr().unwrap();
        format!(
            "[agents.{name}]\nkind = \"acp\"\ncommand = [{:?}, \"--name\", {name:?}, \"--puppet\", \"{address}\", \"--state\", {:?}]\n",
            program.to_str().unwrap(),
            state.to_str().unwrap(),
        )
    }

    /// The next puppet that the daemon starts, once its session is open. One that ends before, because it does not know
    /// the session that it was to resume, is passed over.
    pub async fn next(&self) -> Puppet {
        loop {
            let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.expect("an agent starts").unwrap();
            let mut puppet = Puppet::new(stream);
            if let Some(started) = puppet.find("started").await {
                puppet.started = started;
                return puppet;
            }
        }
    }

    /// Whether no agent starts for a moment.
    pub async fn nobody_comes(&self) -> bool {
        timeout(super::QUIET, self.listener.accept()).await.is_err()
    }
}

/// A running agent under the test's hand.
pub struct Puppet {
    lines: Lines<BufReader<OwnedReadHalf>>,
    out: OwnedWriteHalf,
    calls: u32,
    /// What it said when its session was open: `session`, `resumed`, `name`.
    pub started: Value,
}

impl Puppet {
    fn new(stream: TcpStream) -> Self {
        let (read, out) = stream.into_split();
        Self { lines: BufReader::new(read).lines(), out, calls: 0, started: Value::Null }
    }

    /// Waits for an event of this kind; others before it are passed over.
    pub async fn event(&mut self, kind: &str) -> Value {
        self.find(kind).await.unwrap_or_else(|| panic!("the agent ended before `{kind}`"))
    }

    async fn find(&mut self, kind: &str) -> Option<Value> {
        loop {
            let line = timeout(PATIENCE, self.lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("the agent does not say `{kind}`")).unwrap()?;
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == kind {
                return Some(event);
            }
        }
    }

    /// The next prompt's text.
    pub async fn prompt(&mut self) -> String {
        self.event("prompt").await["text"].as_str().unwrap().to_owned()
    }

    /// Waits until the agent's process is gone.
    pub async fn is_gone(&mut self) -> bool {
        let gone = async { while let Ok(Some(_)) = self.lines.next_line().await {} };
        timeout(PATIENCE, gone).await.is_ok()
    }

    /// Whether the agent says nothing for a moment.
    pub async fn is_quiet(&mut self) -> bool {
        timeout(super::QUIET, self.lines.next_line()).await.is_err()
    }

    /// Calls a tool and waits for its result: `is_error`, `structured`, `text`.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments).await;
        self.result(&id).await
    }

    /// Calls a tool without waiting.
    pub async fn begin(&mut self, tool: &str, arguments: Value) -> String {
        self.calls += 1;
        let id = format!("c{}", self.calls);
        self.order(json!({"do": "tool", "id": id, "name": tool, "args": arguments})).await;
        id
    }

    /// Waits for the result of a call.
    pub async fn result(&mut self, id: &str) -> Value {
        loop {
            let event = self.event("tool_result").await;
            if event["id"] == id {
                return event;
            }
        }
    }

    /// Says something.
    pub async fn say(&mut self, text: &str) {
        self.order(json!({"do": "say", "text": text})).await;
    }

    /// Ends the turn.
    pub async fn end(&mut self) {
        self.order(json!({"do": "end", "stop": "end_turn"})).await;
    }

    /// Gives any order.
    pub async fn order(&mut self, order: Value) {
        self.out.write_all(format!("{order}\n").as_bytes()).await.unwrap();
    }
}
