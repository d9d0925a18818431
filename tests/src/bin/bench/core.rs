//! The rules by themselves: what one decision takes, whatever is connected and open besides.

use super::Effort;
use super::floor::REPLY;
use super::table::Table;
use routing_core::frame::{FromDaemon, FromPanel};
use routing_core::id::{CallId, Seq, SocketId, TurnId};
use routing_core::router::{Config, Input, Output, Placed, Router};
use serde_json::{Map, Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Tabs, and as many open tickets.
const SIZES: [usize; 3] = [8, 1_000, 10_000];

/// Measures decisions and parsing.
pub(crate) fn measure(table: &mut Table, effort: Effort) {
    for size in SIZES {
        let mut stage = Stage::new(size);
        let mut whole = Vec::new();
        let mut next = Vec::new();
        for _ in 0..effort.times(20_000) {
            whole.push(stage.decide());
            let begun = Instant::now();
            black_box(stage.router.poll_timeout());
            next.push(begun.elapsed());
        }
        table.times(format!("routing decision, native, {size} tabs and tickets"), &mut whole);
        table.times(format!("next deadline, native, {size} tabs and tickets"), &mut next);
    }
    parse(table, effort);
}

fn parse(table: &mut Table, effort: Effort) {
    let message = json!({"type": "user_message", "mid": "m1", "text": "Add a KSampler.", "workflow_uuid": "0f5f9a3e"});
    let command = json!({
        "rid": "e-r1", "cmd": "graph_set_widget", "timeout_ms": 20_000, "workflow_uuid": "0f5f9a3e", "node_id": 7,
        "widget": "steps", "value": 30,
    });
    let (message, command) = (message.to_string(), command.to_string());
    type Parse<'a> = (&'a str, Box<dyn Fn() + 'a>);
    let parses: [Parse<'_>; 3] = [
        ("frame parse: user_message", Box::new(|| drop(black_box(FromPanel::parse(&message).unwrap())))),
        ("frame parse: reply", Box::new(|| drop(black_box(FromPanel::parse(REPLY).unwrap())))),
        ("frame parse: command", Box::new(|| drop(black_box(FromDaemon::parse(&command).unwrap())))),
    ];
    for (what, parse) in parses {
        let mut times: Vec<Duration> = (0..effort.times(20_000))
            .map(|_| {
                let begun = Instant::now();
                parse();
                begun.elapsed()
            })
            .collect();
        table.times(what, &mut times);
    }
}

/// A router in a running turn.
struct Stage {
    router: Router,
    calls: u64,
    seq: u64,
}

impl Stage {
    /// Many tabs in one conversation, whose first tab has a running turn; one tab in another, with many open calls.
    fn new(size: usize) -> Self {
        let mut stage = Self { router: Router::new(Config::new("e", &["a", "b"])), calls: 0, seq: 0 };
        for number in 0..size as u64 {
            stage.join(number, "a");
        }
        stage.join(size as u64, "b");
        stage.say(SocketId(size as u64 + 1), "b");
        for _ in 0..size {
            stage.call("b", "panel_search_nodes", json!({"query": "sampler"}));
        }
        stage.say(SocketId(1), "a");
        stage
    }

    fn join(&mut self, number: u64, backend: &str) {
        let socket = SocketId(number + 1);
        self.input(Input::SocketOpened { socket, viewer: false, comfyui: None });
        let hello = json!({
            "type": "hello", "protocol": 1, "tab_id": format!("browser-{number}"), "backend": backend,
            "workflow": {"uuid": format!("w{number}"), "handle": format!("tmp:{number}"), "title": "untitled"},
        });
        self.input(Input::Frame { socket, text: hello.to_string() });
    }

    fn say(&mut self, socket: SocketId, backend: &str) {
        let message = json!({"type": "user_message", "mid": format!("m-{socket}"), "text": "go on"});
        self.input(Input::Frame { socket, text: message.to_string() });
        self.input(Input::AgentReady { backend: backend.into(), turn: TurnId(1) });
    }

    fn input(&mut self, input: Input) -> Vec<Output> {
        self.router.handle(input, 0);
        let outputs: Vec<Output> = std::iter::from_fn(|| self.router.poll_output()).collect();
        for output in &outputs {
            if let Output::Append { append, rows, .. } = output {
                let placed = rows
                    .iter()
                    .map(|_| {
                        self.seq += 1;
                        Placed { seq: Seq(self.seq), duplicate: false, differs: false }
                    })
                    .collect();
                self.input(Input::Appended { append: *append, placed });
            }
        }
        outputs
    }

    fn call(&mut self, backend: &str, tool: &str, arguments: Value) -> Vec<Output> {
        self.calls += 1;
        let Value::Object(arguments) = arguments else { return Vec::new() };
        self.input(tool_call(backend, self.calls, tool, arguments))
    }

    /// A write of the running turn: from the call to the command, and from its reply to the answer.
    fn decide(&mut self) -> Duration {
        self.calls += 1;
        let Value::Object(arguments) = json!({"node_id": 7, "widget": "steps", "value": 30}) else {
            return Duration::ZERO;
        };
        let input = tool_call("a", self.calls, "panel_set_widget", arguments);
        let begun = Instant::now();
        self.router.handle(input, 0);
        let sent = self.router.poll_output();
        let there = begun.elapsed();
        let Some(Output::Send { sockets, frame: FromDaemon::Command(command) }) = sent else {
            panic!("the call was not sent: {sent:?}");
        };
        let identity = json!({"uuid": "w0", "handle": "tmp:0", "title": "untitled"});
        let reply = json!({"rid": command.rid, "ok": true, "result": {"before": 20}, "workflow": identity}).to_string();
        let socket = sockets[0];
        let begun = Instant::now();
        self.router.handle(Input::Frame { socket, text: reply }, 0);
        let answer = self.router.poll_output();
        let back = begun.elapsed();
        assert!(matches!(answer, Some(Output::Answer { outcome: Ok(_), .. })), "{answer:?}");
        there + back
    }
}

fn tool_call(backend: &str, call: u64, tool: &str, arguments: Map<String, Value>) -> Input {
    Input::ToolCall { backend: backend.into(), call: CallId(call), tool: tool.to_owned(), arguments }
}
