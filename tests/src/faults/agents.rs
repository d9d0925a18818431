//! The agents: `scripted-acp` processes that connect back here and do what the messages say. Every prompt that a process
//! read is written down, and every outcome of a tool call.
//!
//! A message reads `«mid» what`, where `what` is `say`, `slow`, `add`, `run`, `ask`, `ask-late` or `fail`.

use super::dice::Dice;
use super::records::{Book, Called, Given};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// How the record of a conversation begins that a new session is told in its first prompt.
const SEED: &str = "[This conversation began before your session.";
/// How often a call of unknown outcome is repeated.
const RETRIES: usize = 4;

/// The processes of one backend's agent.
pub(super) struct Agents {
    /// The table for the configuration file.
    pub(super) table: String,
    task: tokio::task::JoinHandle<()>,
}

impl Agents {
    /// Waits for the processes that daemons start.
    pub(super) async fn listen(backend: &str, programs: &Path, state: &Path, dice: &Dice, book: Book) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address").to_string();
        let program = programs.join("scripted-acp");
        let command = [
            program.to_str().expect("a path in UTF-8"),
            "--name",
            backend,
            "--puppet",
            &address,
            "--state",
            state.to_str().expect("a path in UTF-8"),
        ];
        let table = format!("[agents.{backend}]\nkind = \"acp\"\ncommand = {command:?}\n");
        let (name, dice) = (backend.to_owned(), dice.fork(backend));
        let task = tokio::spawn(async move {
            let made = Arc::new(AtomicUsize::new(0));
            while let Ok((stream, _)) = listener.accept().await {
                let number = made.fetch_add(1, Ordering::Relaxed);
                let dice = dice.fork(&number.to_string());
                // Numbers of two backends must differ.
                let id = number * 2 + usize::from(name == "two");
                tokio::spawn(serve(name.clone(), id, stream, dice, book.clone()));
            }
        });
        Self { table, task }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One process, until it is gone.
async fn serve(backend: String, id: usize, stream: TcpStream, dice: Dice, book: Book) {
    book.agents(|agents| agents.running.insert(id));
    let (read, out) = stream.into_split();
    let (events, queue) = unbounded_channel();
    let reading = tokio::spawn(async move {
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            if events.send(event).is_err() {
                return;
            }
        }
    });
    let puppet = Puppet { backend, id, out, queue, dice, book: book.clone(), calls: 0, turn: 0 };
    puppet.live().await;
    reading.abort();
    book.agents(|agents| agents.running.remove(&id));
}

struct Puppet {
    backend: String,
    id: usize,
    out: OwnedWriteHalf,
    queue: UnboundedReceiver<Value>,
    dice: Dice,
    book: Book,
    calls: u32,
    /// The running turn: orders for it must not reach the next one.
    turn: u64,
}

/// Why a turn is left.
enum Left {
    /// The process is gone.
    Gone,
    /// The turn was cancelled.
    Cancelled,
}

impl Puppet {
    async fn live(mut self) {
        while let Some(event) = self.queue.recv().await {
            if event["event"] != "prompt" {
                continue;
            }
            self.turn = event["turn"].as_u64().unwrap_or_default();
            let text = without_seed(event["text"].as_str().unwrap_or_default()).to_owned();
            let given = Given { backend: self.backend.clone(), text: text.clone() };
            self.book.agents(|agents| agents.given.push(given));
            match self.turn(&text).await {
                Ok(()) | Err(Left::Cancelled) => {}
                Err(Left::Gone) => return,
            }
        }
    }

    async fn turn(&mut self, text: &str) -> Result<(), Left> {
        for (mid, what) in messages(text) {
            match what.as_str() {
                "slow" => {
                    let time = self.dice.time(40, 200);
                    self.rest(time).await?;
                }
                "add" => {
                    let arguments = json!({"class_type": format!("Node-{mid}-{}-{}", self.id, self.calls)});
                    self.call(&mid, "panel_add_node", arguments).await?;
                }
                "run" => self.call(&mid, "panel_run", json!({})).await?,
                "ask" | "ask-late" => {
                    let question = format!("Which colour for {mid}, {}-{} ({what})?", self.id, self.calls);
                    self.call(&mid, "panel_ask", json!({"question": question, "options": ["red", "blue"]})).await?;
                }
                "fail" => return self.order(json!({"do": "fail", "message": format!("{mid} fails")})).await,
                _ => {}
            }
            self.order(json!({"do": "say", "text": format!("answer to «{mid}» by {}. ", self.id)})).await?;
        }
        self.order(json!({"do": "end", "stop": "end_turn"})).await
    }

    /// Calls a tool; a call of unknown outcome is repeated with its token (rule G11).
    async fn call(&mut self, mid: &str, tool: &'static str, mut arguments: Value) -> Result<(), Left> {
        let called = Called { backend: self.backend.clone(), mid: mid.to_owned(), tool, retries: 0, outcome: None };
        let at = self.book.agents(|agents| {
            agents.calls.push(called);
            agents.calls.len() - 1
        });
        for retries in 0..RETRIES {
            self.calls += 1;
            let id = format!("c{}", self.calls);
            self.order(json!({"do": "tool", "id": id, "name": tool, "args": arguments})).await?;
            let result = loop {
                let event = self.event().await?;
                if event["event"] == "tool_result" && event["id"] == id.as_str() {
                    break event;
                }
            };
            let structured = result["structured"].clone();
            let outcome = if result["is_error"] == true { Err(structured["refusal"].clone()) } else { Ok(structured) };
            let token = outcome.as_ref().err().and_then(|refusal| {
                let again = ["unknown_outcome", "still_running"].iter().any(|code| refusal["code"] == *code);
                refusal["token"].as_str().filter(|_| again).map(str::to_owned)
            });
            self.book.agents(|agents| {
                agents.calls[at].outcome = Some(outcome);
                agents.calls[at].retries = retries;
            });
            let Some(token) = token else { break };
            arguments["retry_of"] = json!(token);
            let time = self.dice.time(20, 100);
            self.rest(time).await?;
        }
        Ok(())
    }

    async fn event(&mut self) -> Result<Value, Left> {
        let event = self.queue.recv().await.ok_or(Left::Gone)?;
        if event["event"] == "cancelled" { Err(Left::Cancelled) } else { Ok(event) }
    }

    /// Waits, but for the turn's end.
    async fn rest(&mut self, time: Duration) -> Result<(), Left> {
        let wait = tokio::time::sleep(time);
        tokio::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => return Ok(()),
                event = self.event() => drop(event?),
            }
        }
    }

    async fn order(&mut self, mut order: Value) -> Result<(), Left> {
        order["turn"] = json!(self.turn);
        self.out.write_all(format!("{order}\n").as_bytes()).await.map_err(|_| Left::Gone)
    }
}

/// The prompt without the record of the conversation before it.
fn without_seed(text: &str) -> &str {
    let told = text.find(SEED).and_then(|at| text.get(at..)?.split_once("\n]\n\n"));
    told.map_or(text, |(_, prompt)| prompt)
}

/// The messages of a prompt: their ids, and what they want.
pub(super) fn messages(text: &str) -> Vec<(String, String)> {
    text.split('«')
        .skip(1)
        .filter_map(|part| {
            let (mid, rest) = part.split_once('»')?;
            let what = rest.split_whitespace().next().unwrap_or_default();
            Some((mid.to_owned(), what.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_new_session_is_told_does_not_count_as_given() {
        let text = format!(
            "Instructions.\n\n{SEED} From its record:\nThe person: «a-1» say\n]\n\n[note]\n\n«a-2» run\n\n«a-3» say"
        );
        let found = messages(without_seed(&text));
        assert_eq!(found, [("a-2".to_owned(), "run".to_owned()), ("a-3".to_owned(), "say".to_owned())]);
    }
}
