//! Event scripts against the real daemon: its socket, and agents in processes of their own. The runner and the scripts
//! are those that run in memory and in the browser.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the failure of a test")]

use crate::harness::{Daemon, Home, PATIENCE, programs};
use futures_util::{SinkExt, StreamExt};
use routing_core::script::{Happened, Line, Order, Script, World};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// How much slower than in the script time goes here: processes need longer than a machine in memory.
const PACE: u32 = 5;
/// How long an expected thing may take, in the script's milliseconds.
const EXPECTED: u64 = 5_000;
/// After how much silence nothing more is under way: longer than an agent's process needs between two lines.
const QUIET: u64 = 30;

/// A time of the script on the real clock.
fn real(ms: u64) -> Duration {
    Duration::from_millis(ms) * PACE
}

type Orders = Arc<Mutex<BTreeMap<String, UnboundedSender<Value>>>>;

/// The real daemon as a back end of event scripts.
pub struct OverSocket {
    runtime: Runtime,
    home: Home,
    daemon: Option<Daemon>,
    begun: Instant,
    next_line: Line,
    lines: BTreeMap<Line, (UnboundedSender<Message>, JoinHandle<()>)>,
    /// The agents that run, and how they are told what to do.
    puppets: Orders,
    happened: VecDeque<Happened>,
    news: mpsc::Receiver<Happened>,
    teller: mpsc::Sender<Happened>,
}

impl OverSocket {
    /// Starts the daemon with a script's agents and bounds.
    pub fn new(script: &Script) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (teller, news) = mpsc::channel();
        let puppets = Orders::default();
        let home = Home::new("");
        let mut text = format!("default_agent = {:?}\n", script.agents[0]);
        for name in &script.agents {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            text.push_str(&agent_table(name, &listener, &home));
            runtime.spawn(puppets_of(name.clone(), listener, puppets.clone(), teller.clone()));
        }
        let bounds = &script.limits;
        text.push_str(&format!(
            "[limits]\nhello = {}\nreconnect = {}\ncommand = {}\nask = {}\nbacklog = {}\n",
            real(bounds.hello).as_millis(),
            real(bounds.reconnect).as_millis(),
            real(bounds.command).as_millis(),
            real(bounds.ask).as_millis(),
            bounds.backlog
        ));
        home.configure(&text);
        let daemon = Some(runtime.block_on(home.start()));
        Self {
            runtime,
            home,
            daemon,
            begun: Instant::now(),
            next_line: 0,
            lines: BTreeMap::new(),
            puppets,
            happened: VecDeque::new(),
            news,
            teller,
        }
    }

    /// Stops the daemon in order.
    pub fn close(mut self) {
        if let Some(daemon) = self.daemon.take() {
            self.runtime.block_on(daemon.stop());
        }
    }
}

impl World for OverSocket {
    fn now(&self) -> u64 {
        u64::try_from((self.begun.elapsed() / PACE).as_millis()).unwrap_or(u64::MAX)
    }

    fn open(&mut self) -> Option<Line> {
        let daemon = self.daemon.as_ref()?;
        let mut request = format!("ws://127.0.0.1:{}/ws", daemon.port).into_client_request().unwrap();
        request.headers_mut().insert("Authorization", format!("Bearer {}", daemon.token).parse().unwrap());
        let (socket, _) = self.runtime.block_on(tokio_tungstenite::connect_async(request)).ok()?;
        self.next_line += 1;
        let line = self.next_line;
        let (sender, mut queue) = unbounded_channel::<Message>();
        let (mut out, mut incoming) = socket.split();
        let teller = self.teller.clone();
        let task = self.runtime.spawn(async move {
            let (mut code, mut reason) = (1006, String::new());
            loop {
                tokio::select! {
                    message = queue.recv() => match message {
                        Some(message) => if out.send(message).await.is_err() { break },
                        None => return,
                    },
                    message = incoming.next() => match message {
                        Some(Ok(Message::Text(text))) => {
                            let _ = teller.send(Happened::Frame { line, text: text.to_string() });
                        }
                        Some(Ok(Message::Close(frame))) => {
                            if let Some(frame) = frame {
                                (code, reason) = (frame.code.into(), frame.reason.to_string());
                            }
                            break;
                        }
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => break,
                    },
                }
            }
            let _ = teller.send(Happened::Closed { line, code, reason });
        });
        self.lines.insert(line, (sender, task));
        Some(line)
    }

    fn send(&mut self, line: Line, text: &str) {
        if let Some((sender, _)) = self.lines.get(&line) {
            let _ = sender.send(Message::text(text));
        }
    }

    fn cut(&mut self, line: Line) {
        if let Some((_, task)) = self.lines.remove(&line) {
            task.abort();
        }
    }

    fn order(&mut self, agent: &str, order: Order) -> Result<(), String> {
        let order = match order {
            Order::Call { call, tool, arguments } => json!({"do": "tool", "id": call, "name": tool, "args": arguments}),
            Order::Speak(text) => json!({"do": "say", "text": text}),
            Order::End => json!({"do": "end", "stop": "end_turn"}),
            Order::Fail(message) => json!({"do": "fail", "message": message}),
            Order::Merge(_) => {
                return Err("an agent in a process of its own is never given two messages to merge".into());
            }
            Order::SlowStart | Order::Ready | Order::StartFails => {
                return Err("the start of a process cannot be held".into());
            }
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(puppet) = self.puppets.lock().unwrap().get(agent) {
                return puppet.send(order).map_err(|_| format!("the agent {agent} is gone"));
            }
            if Instant::now() > deadline {
                return Err(format!("the agent {agent} does not run"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn restart(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            self.runtime.block_on(daemon.kill());
        }
        self.daemon = Some(self.runtime.block_on(self.home.start()));
    }

    fn poll(&mut self) -> Option<Happened> {
        self.happened.extend(self.news.try_iter());
        self.happened.pop_front()
    }

    fn rest(&mut self, ms: u64) -> bool {
        match self.news.recv_timeout(real(ms)) {
            Ok(news) => {
                self.happened.push_back(news);
                true
            }
            Err(_) => false,
        }
    }

    fn patience(&self) -> u64 {
        EXPECTED
    }

    fn quiet(&self) -> u64 {
        QUIET
    }

    fn deadline(&self) -> Option<u64> {
        None
    }

    fn pass(&mut self, until: u64) {
        std::thread::sleep(real(until.saturating_sub(self.now())));
    }
}

/// The configuration of an agent that is moved over a listener.
fn agent_table(name: &str, listener: &TcpListener, home: &Home) -> String {
    let program = programs().join("scripted-acp");
    let address = listener.local_addr().unwrap().to_string();
    let state = home.scratch().join("acp").join(name);
    let command = [program.to_str().unwrap(), "--name", name, "--puppet", &address, "--state", state.to_str().unwrap()];
    format!("[agents.{name}]\nkind = \"acp\"\ncommand = {command:?}\n")
}

/// Takes one puppet after the other.
async fn puppets_of(name: String, listener: TcpListener, puppets: Orders, teller: mpsc::Sender<Happened>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(puppet(name.clone(), stream, puppets.clone(), teller.clone()));
    }
}

async fn puppet(name: String, stream: TcpStream, puppets: Orders, teller: mpsc::Sender<Happened>) {
    let (read, mut write) = stream.into_split();
    let (sender, mut orders) = unbounded_channel::<Value>();
    let mut lines = BufReader::new(read).lines();
    let mut started = false;
    // Calls that the process waits for. Where it is ended before they are answered, the daemon has closed them with it.
    let mut calls = Vec::new();
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some(order) = order else { break };
                if order["do"] == "tool" {
                    calls.push(order["id"].as_str().unwrap().to_owned());
                }
                if write.write_all(format!("{order}\n").as_bytes()).await.is_err() {
                    break;
                }
            }
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { break };
                let event: Value = serde_json::from_str(&line).unwrap();
                if event["event"] == "started" {
                    started = true;
                    puppets.lock().unwrap().insert(name.clone(), sender.clone());
                }
                if event["event"] == "tool_result" {
                    calls.retain(|call| event["id"] != call.as_str());
                }
                if let Some(happened) = happened(&name, &event) {
                    let _ = teller.send(happened);
                }
            }
        }
    }
    if started {
        let mut running = puppets.lock().unwrap();
        if running.get(&name).is_some_and(|known| known.same_channel(&sender)) {
            running.remove(&name);
        }
        for call in calls {
            let _ = teller.send(Happened::Answered { call, outcome: Err(json!({"code": "conversation_closed"})) });
        }
        let _ = teller.send(Happened::Stopped { agent: name });
    }
}

fn happened(agent: &str, event: &Value) -> Option<Happened> {
    let agent = agent.to_owned();
    match event["event"].as_str()? {
        "started" => Some(Happened::Started { agent }),
        "prompt" => Some(Happened::Prompted { agent, text: event["text"].as_str()?.to_owned() }),
        "cancelled" => Some(Happened::Interrupted { agent }),
        "tool_result" => {
            let structured = event["structured"].clone();
            let outcome = if event["is_error"] == true { Err(structured["refusal"].clone()) } else { Ok(structured) };
            Some(Happened::Answered { call: event["id"].as_str()?.to_owned(), outcome })
        }
        _ => None,
    }
}
