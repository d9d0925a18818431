//! The rules, one by one, on the router alone. What needs a panel on the other side stands in the event scripts.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

mod again;
mod attacks;
mod bad_input;
mod blind;
mod boundaries;
mod frames;
mod runs;
mod sessions;
mod targets;
mod turns;

use super::{Config, Input, NewRow, Output, Placed, Router};
use crate::agent::{AgentEvent, TurnOutcome};
use crate::id::{Backend, CallId, ConversationKey, Seq, SocketId, TurnId};
use crate::past::Past;
use crate::refusal::Refusal;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A router with a log that answers at once, unless it is told to wait.
struct Bench {
    router: Router,
    now: u64,
    /// Everything but appends and their consequences' bookkeeping, in order.
    outputs: Vec<Output>,
    rows: BTreeMap<ConversationKey, Vec<NewRow>>,
    waking: BTreeMap<Backend, TurnId>,
    slow_log: bool,
    waiting: Vec<(u64, Vec<NewRow>)>,
    /// Each row's kind, and whether it is kept while the disk refuses.
    kept: Vec<(&'static str, bool)>,
    calls: u64,
}

impl Bench {
    fn new() -> Self {
        Self::with(&["claude", "codex"])
    }

    fn with(backends: &[&str]) -> Self {
        Self {
            router: Router::new(Config::new("e1", backends)),
            now: 1_000,
            outputs: Vec::new(),
            rows: BTreeMap::new(),
            waking: BTreeMap::new(),
            slow_log: false,
            waiting: Vec::new(),
            kept: Vec::new(),
            calls: 0,
        }
    }

    fn tell(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.router.handle(input, self.now);
            let mut next = Vec::new();
            while let Some(output) = self.router.poll_output() {
                if let Output::Append { rows, keep, .. } = &output {
                    self.kept.extend(rows.iter().map(|row| (row.kind, *keep)));
                }
                match output {
                    Output::Append { append, rows, .. } if self.slow_log => self.waiting.push((append, rows)),
                    Output::Append { append, rows, .. } => next.push(self.write(append, rows)),
                    Output::Recall { socket, backend, point } => {
                        let found = self.past(&backend).find(&point);
                        next.push(Input::Recalled { socket, backend, point, found });
                    }
                    Output::Wake { backend, turn } => {
                        self.waking.insert(backend.clone(), turn);
                        self.outputs.push(Output::Wake { backend, turn });
                    }
                    other => self.outputs.push(other),
                }
            }
            inputs.extend(next.into_iter().rev());
        }
    }

    fn past(&self, backend: &Backend) -> Past {
        let mut past = Past::default();
        let rows = self.rows.get(&ConversationKey::of(backend)).map(Vec::as_slice).unwrap_or_default();
        for (at, row) in rows.iter().enumerate() {
            past.take(Seq(at as u64 + 1), row.kind, row.at_ms as i64, &row.body);
        }
        past
    }

    fn write(&mut self, append: u64, rows: Vec<NewRow>) -> Input {
        let mut placed = Vec::new();
        for row in rows {
            let log = self.rows.entry(row.conversation.clone()).or_default();
            let text = row.body["text"].clone();
            let same = log.iter().position(|one| row.key.is_some() && one.key == row.key);
            let seq = Seq(same.map_or(log.len(), |at| at) as u64 + 1);
            if same.is_none() {
                log.push(row);
            }
            let differs = same.is_some_and(|at| log[at].body["text"] != text);
            placed.push(Placed { seq, duplicate: same.is_some(), differs });
        }
        Input::Appended { append, placed }
    }

    /// Lets the log write what it was given.
    fn catch_up(&mut self) {
        self.slow_log = false;
        for (append, rows) in std::mem::take(&mut self.waiting) {
            let input = self.write(append, rows);
            self.tell(input);
        }
    }

    /// The log refuses what it was given last, and writes again from then on.
    fn refuse_write(&mut self) {
        let (append, _) = self.waiting.pop().unwrap();
        self.slow_log = false;
        self.tell(Input::AppendFailed { append, code: "disk_full".into(), message: "The disk is full.".into() });
    }

    fn open(&mut self, socket: u64) {
        self.tell(Input::SocketOpened { socket: SocketId(socket), viewer: false, comfyui: None });
    }

    /// A tab of dialect 1 with one workflow in front.
    fn join(&mut self, socket: u64, tab: &str, uuid: &str) {
        self.open(socket);
        self.hello(socket, tab, uuid, &json!({}));
    }

    fn hello(&mut self, socket: u64, tab: &str, uuid: &str, more: &Value) {
        let mut hello = json!({"type": "hello", "protocol": 1, "tab_id": tab, "workflow": workflow(uuid)});
        for (name, value) in more.as_object().unwrap() {
            hello[name] = value.clone();
        }
        self.frame(socket, &hello);
    }

    fn frame(&mut self, socket: u64, frame: &Value) {
        self.tell(Input::Frame { socket: SocketId(socket), text: frame.to_string() });
    }

    fn text(&mut self, socket: u64, text: &str) {
        self.tell(Input::Frame { socket: SocketId(socket), text: text.to_owned() });
    }

    fn close(&mut self, socket: u64) {
        self.tell(Input::SocketClosed { socket: SocketId(socket) });
    }

    fn say(&mut self, socket: u64, mid: &str) {
        self.frame(socket, &json!({"type": "user_message", "mid": mid, "text": format!("text of {mid}")}));
    }

    /// The agent takes what waits.
    fn ready(&mut self, backend: &str) {
        let backend = Backend::from(backend);
        let turn = self.waking.remove(&backend).expect("a turn waits for its agent");
        self.tell(Input::AgentReady { backend, turn });
    }

    /// A message, and the turn that it begins.
    fn begin(&mut self, socket: u64, mid: &str) {
        self.say(socket, mid);
        self.ready("claude");
    }

    fn end(&mut self, backend: &str) {
        self.end_as(backend, TurnOutcome::Completed);
    }

    fn end_as(&mut self, backend: &str, outcome: TurnOutcome) {
        self.tell(Input::Agent { backend: backend.into(), event: AgentEvent::TurnEnd { outcome, anchor: None } });
    }

    fn call(&mut self, tool: &str, arguments: Value) -> CallId {
        self.call_of("claude", tool, arguments)
    }

    fn call_of(&mut self, backend: &str, tool: &str, arguments: Value) -> CallId {
        self.calls += 1;
        let call = CallId(self.calls);
        let arguments: Map<String, Value> = arguments.as_object().cloned().unwrap();
        self.tell(Input::ToolCall { backend: backend.into(), call, tool: format!("panel_{tool}"), arguments });
        call
    }

    fn outline(&mut self) -> CallId {
        self.call("graph_outline", json!({}))
    }

    fn widget(&mut self) -> CallId {
        self.call("set_widget", json!({"node_id": 5, "widget": "steps", "value": 1}))
    }

    fn answer(&self, call: CallId) -> Option<&Result<Value, Refusal>> {
        let mut answers = self.outputs.iter().filter_map(|output| match output {
            Output::Answer { call: of, outcome } if *of == call => Some(outcome),
            _ => None,
        });
        let first = answers.next();
        assert!(answers.next().is_none(), "{call:?} was answered twice");
        first
    }

    fn ok(&self, call: CallId) -> &Value {
        self.answer(call).expect("an answer").as_ref().expect("a result")
    }

    fn refusal(&self, call: CallId) -> &Refusal {
        self.answer(call).expect("an answer").as_ref().expect_err("a refusal")
    }

    /// Frames that a socket was sent.
    fn frames(&self, socket: u64) -> Vec<Value> {
        let mine = |output: &Output| match output {
            Output::Send { sockets, frame } if sockets.contains(&SocketId(socket)) => {
                Some(serde_json::from_str(&frame.encode()).unwrap())
            }
            _ => None,
        };
        self.outputs.iter().filter_map(mine).collect()
    }

    fn of_type(&self, socket: u64, kind: &str) -> Vec<Value> {
        self.frames(socket).into_iter().filter(|frame| frame["type"] == kind).collect()
    }

    fn commands(&self, socket: u64) -> Vec<Value> {
        self.frames(socket).into_iter().filter(|frame| frame.get("cmd").is_some()).collect()
    }

    fn command(&self, socket: u64) -> Value {
        self.commands(socket).pop().expect("a command was sent")
    }

    fn nacks(&self, socket: u64) -> Vec<String> {
        let code = |frame: Value| frame["code"].as_str().unwrap().to_owned();
        self.of_type(socket, "nack").into_iter().map(code).collect()
    }

    /// Answers the last command of a socket.
    fn reply(&mut self, socket: u64, result: Value, uuid: Option<&str>) {
        let rid = self.command(socket)["rid"].clone();
        self.frame(socket, &json!({"rid": rid, "ok": true, "result": result, "workflow": uuid.map(workflow)}));
    }

    fn prompts(&self) -> Vec<&str> {
        fn text(output: &Output) -> Option<&str> {
            match output {
                Output::Prompt { text, .. } => Some(text),
                _ => None,
            }
        }
        self.outputs.iter().filter_map(text).collect()
    }

    fn count(&self, which: impl Fn(&Output) -> bool) -> usize {
        self.outputs.iter().filter(|output| which(output)).count()
    }

    fn forget(&mut self) {
        self.outputs.clear();
    }

    fn kinds(&self, backend: &str) -> Vec<&'static str> {
        let rows = self.rows.get(&ConversationKey::of(&backend.into()));
        rows.into_iter().flatten().map(|row| row.kind).collect()
    }

    /// Inbound rows that nothing has settled, and that no row settles twice.
    fn unsettled(&self, backend: &str) -> Vec<u64> {
        let rows = self.rows.get(&ConversationKey::of(&backend.into())).cloned().unwrap_or_default();
        let mut settled: Vec<u64> = rows.iter().flat_map(|row| &row.settles).map(|seq| seq.0).collect();
        settled.sort_unstable();
        let before = settled.len();
        settled.dedup();
        assert_eq!(before, settled.len(), "a row was settled twice");
        let inbound = rows.iter().enumerate().filter(|(_, row)| row.inbound).map(|(at, _)| at as u64 + 1);
        inbound.filter(|seq| !settled.contains(seq)).collect()
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.tell(Input::Tick);
    }
}

fn workflow(uuid: &str) -> Value {
    json!({
        "uuid": uuid, "path": format!("workflows/{uuid}.json"), "handle": format!("wf:workflows/{uuid}.json"),
        "title": format!("title of {uuid}"), "canvas": format!("canvas of {uuid}"),
    })
}

/// A `workflow_list` result: the first is in front.
fn listed(uuids: &[&str]) -> Value {
    let entry = |(at, uuid): (usize, &&str)| {
        let mut entry = workflow(uuid);
        entry["active"] = json!(at == 0);
        entry
    };
    json!({"workflows": uuids.iter().enumerate().map(entry).collect::<Vec<_>>()})
}
