//! The router under random inputs: whatever comes in whatever order, it does not panic, answers every call once, settles
//! every accepted message once, and stamps no command with another instance than its turn's.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use proptest::prelude::*;
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::command::TABLE;
use routing_core::id::{Backend, CallId, ConversationKey, Seq, SocketId, TurnId};
use routing_core::past::{Past, Point};
use routing_core::refusal::Refusal;
use routing_core::router::{Config, Input, NewRow, Output, Placed, Router};
use routing_core::run::{Ending, Sight, Status};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const COMFY: &str = "http://127.0.0.1:8188";
const BACKENDS: [&str; 2] = ["claude", "codex"];

/// A random act: what kind, and three numbers that choose its details.
type Act = (u8, u8, u8, u8);

#[derive(Default)]
struct Seen {
    sockets: Vec<u64>,
    /// The conversation that each socket was last greeted in.
    greeted: BTreeMap<u64, Backend>,
    greetings: usize,
    /// Commands without an answer, and the conversation that they were sent for.
    commands: Vec<(u64, Backend, Value)>,
    wakes: Vec<(Backend, TurnId)>,
    forgets: Vec<Backend>,
    /// Calls that ask a ComfyUI.
    looks: Vec<CallId>,
    recalls: Vec<(SocketId, Backend, Point)>,
    prompted: BTreeSet<Backend>,
    appends: VecDeque<(u64, Vec<NewRow>)>,
    rows: BTreeMap<ConversationKey, Vec<NewRow>>,
    /// Messages that were acknowledged.
    accepted: BTreeSet<String>,
    calls: BTreeMap<CallId, usize>,
    /// Instances that a command of this conversation may be stamped with now.
    stamps: BTreeMap<Backend, BTreeSet<String>>,
    /// Instances in front, by identity of the tab.
    fronts: BTreeMap<String, String>,
    /// Instances that replies told of: they may be in front, too.
    told: BTreeSet<String>,
    /// A re-target waits for a tab.
    armed: bool,
    /// A row that settles could not be written.
    unsettled_by_failure: bool,
}

impl Seen {
    fn in_front(&self) -> Vec<String> {
        self.fronts.values().chain(&self.told).cloned().collect()
    }
}

struct Run {
    router: Router,
    now: u64,
    seen: Seen,
    counter: u64,
}

/// A call that its connection or the time left without an answer is sent again as it was.
fn repeats(frame: &Value, first: &Value) -> bool {
    let without_ids = |frame: &Value| {
        let mut frame = frame.clone();
        for id in ["rid", "retry_of"] {
            frame.as_object_mut().unwrap().remove(id);
        }
        frame
    };
    without_ids(frame) == without_ids(first)
}

impl Run {
    fn new() -> Self {
        let mut config = Config::new("e1", &BACKENDS);
        config.limits.backlog = 4;
        Self { router: Router::new(config), now: 0, seen: Seen::default(), counter: 0 }
    }

    fn tell(&mut self, input: Input) {
        self.router.handle(input, self.now);
        while let Some(output) = self.router.poll_output() {
            self.see(output);
        }
    }

    fn see(&mut self, output: Output) {
        let seen = &mut self.seen;
        match output {
            Output::Send { sockets, frame } => {
                let frame: Value = serde_json::from_str(&frame.encode()).unwrap();
                for socket in sockets {
                    if frame["type"] == "ack" && (frame["kind"] == "ready" || frame["kind"] == "degraded") {
                        seen.greetings += 1;
                        seen.greeted.insert(socket.0, frame["backend"].as_str().unwrap().into());
                    }
                    if frame["type"] == "ack" && frame["kind"] == "working" && frame["ok"] == true {
                        let mid = frame["mid"].as_str().unwrap().to_owned();
                        seen.accepted.insert(mid);
                    }
                    if frame.get("cmd").is_some() {
                        let backend = seen.greeted[&socket.0].clone();
                        if let Some(stamp) = frame.get("workflow_uuid") {
                            let allowed = seen.stamps.entry(backend.clone()).or_default();
                            let stamp = stamp.as_str().unwrap();
                            let again =
                                seen.commands.iter().any(|(_, of, first)| *of == backend && repeats(&frame, first));
                            assert!(
                                again || allowed.contains(stamp),
                                "{frame} of {backend} may be stamped {allowed:?}"
                            );
                        }
                        seen.commands.push((socket.0, backend, frame.clone()));
                    }
                }
            }
            Output::Append { append, rows, .. } => seen.appends.push_back((append, rows)),
            Output::Wake { backend, turn } => seen.wakes.push((backend, turn)),
            Output::Prompt { backend, .. } => {
                assert!(seen.prompted.insert(backend.clone()), "two turns of {backend} at once");
                self.turn_began(&backend);
            }
            Output::Forget { backend, .. } => {
                seen.prompted.remove(&backend);
                seen.wakes.retain(|(of, _)| *of != backend);
                seen.stamps.remove(&backend);
                seen.forgets.push(backend);
            }
            Output::Answer { call, outcome } => {
                let count = seen.calls.get_mut(&call).expect("an answer to a call that was made");
                *count += 1;
                assert_eq!(*count, 1, "{call:?} was answered twice");
                if outcome == Err(Refusal::NoTab { deferred: true }) {
                    seen.armed = true;
                }
            }
            Output::LookAtRuns { call, .. } => seen.looks.push(call),
            // Read off the main way: what it tells may come at any time later.
            Output::Recall { socket, backend, point } => seen.recalls.push((socket, backend, point)),
            Output::Close { .. }
            | Output::Look { .. }
            | Output::Replay { .. }
            | Output::Interrupt { .. }
            | Output::Retire { .. }
            | Output::ResumeHint { .. }
            | Output::SetModel { .. }
            | Output::WatchRun { .. }
            | Output::BeginJob { .. }
            | Output::UnwatchRun { .. }
            | Output::Log { .. } => {}
        }
    }

    /// What a turn's calls may be stamped with: the instance of the messages that it took, if they are of one origin.
    fn turn_began(&mut self, backend: &Backend) {
        let rows = &self.seen.rows[&ConversationKey::of(backend)];
        let start = rows.iter().rfind(|row| row.kind == "turn_start").unwrap();
        let takes = start.body["takes"].as_array().unwrap().iter().map(|seq| seq.as_u64().unwrap() as usize);
        let origins: Vec<&Value> =
            takes.map(|seq| &rows[seq - 1]).filter(|row| row.kind == "user").map(|row| &row.body["origin"]).collect();
        let in_front = self.seen.in_front();
        let allowed = self.seen.stamps.entry(backend.clone()).or_default();
        match origins.first() {
            // Events inherit, or take the only tab there is.
            None => allowed.extend(in_front),
            Some(first) => {
                let key = |origin: &Value| (origin["tab"].clone(), origin["workflow"]["uuid"].clone());
                allowed.clear();
                if origins.iter().all(|origin| key(origin) == key(first)) {
                    allowed.extend(first["workflow"]["uuid"].as_str().map(str::to_owned));
                }
            }
        }
    }

    fn frame(&mut self, socket: u64, frame: &Value) {
        self.tell(Input::Frame { socket: SocketId(socket), text: frame.to_string() });
    }

    fn act(&mut self, (kind, a, b, c): Act) {
        let socket = self.seen.sockets.get(usize::from(a) % self.seen.sockets.len().max(1)).copied().unwrap_or(0);
        let backend = Backend::from(BACKENDS[usize::from(a) % 2]);
        match kind % 28 {
            0 | 1 => {
                self.counter += 1;
                self.seen.sockets.push(self.counter);
                let comfyui = b.is_multiple_of(2).then(|| COMFY.to_owned());
                self.tell(Input::SocketOpened { socket: SocketId(self.counter), viewer: c == 255, comfyui });
                self.hello(self.counter, a, b, c);
            }
            2 => self.hello(socket, b, c, a),
            3..=6 => {
                let uuid = (c % 3 == 0).then(|| format!("w{}", c % 5));
                let frame = json!({"type": "user_message", "mid": format!("m{}", b % 12), "text": "x", "workflow_uuid": uuid});
                self.frame(socket, &frame);
            }
            7 => {
                self.seen.sockets.retain(|open| *open != socket);
                self.tell(Input::SocketClosed { socket: SocketId(socket) });
            }
            8..=10 => self.reply(a, b, c),
            11 => self.frame(socket, &json!({"type": "interrupt", "requeue": b % 2 == 0})),
            12 => self.frame(socket, &json!({"type": "cancel_message", "mid": format!("m{}", b % 12)})),
            13 => {
                self.tab_comes();
                self.frame(socket, &json!({"type": "set_backend", "backend": BACKENDS[usize::from(b) % 2]}));
            }
            14 => self.frame(
                socket,
                &json!({"type": "set_workflow_target", "mode": (["pinned", "current", "x"][usize::from(b) % 3]), "path": format!("w{}", c % 5)}),
            ),
            15 if b % 4 == 0 => self.frame(socket, &json!({"type": "new_session"})),
            15 if b % 4 == 1 => {
                let frames = [
                    json!({"type": "rewind", "anchor": null, "mid": format!("m{}", c % 12)}),
                    json!({"type": "rewind", "anchor": format!("turn:{}", c % 6)}),
                    json!({"type": "resume_session", "session_id": format!("log:{}", c % 20)}),
                ];
                self.frame(socket, &frames[usize::from(b / 4) % 3]);
            }
            15 => self.frame(socket, &json!({"type": "reorder", "order": [format!("m{}", b % 12)]})),
            16 => self.frame(
                socket,
                &json!({"type": "agent_event", "kind": (["executed", "run_error"][usize::from(b) % 2]), "prompt_id": format!("p{}", c % 3)}),
            ),
            17 => self.ready(),
            18 => {
                if let Some((backend, turn)) = self.seen.wakes.pop() {
                    self.tell(Input::AgentFailed { backend, turn, may_pass: c % 2 == 0, code: "x".into(), message: "x".into() });
                }
            }
            19 | 20 => self.end(&backend, b),
            21 if self.seen.prompted.contains(&backend) && b % 3 == 0 => {
                let mids = vec![format!("m{}", c % 12).as_str().into()];
                // Taken into the turn: what may be stamped only shrinks.
                self.tell(Input::Merged { backend, mids });
            }
            21 => {
                let text = ["", "{", "[]", "{\"rid\":1}", "{\"type\":\"hello\"}", "{\"ask_id\":\"x\",\"ok\":true}"];
                self.tell(Input::Frame { socket: SocketId(socket), text: text[usize::from(b) % 6].to_owned() });
            }
            22 | 23 => self.call(backend, b, c),
            25 | 26 => self.comfyui(b, c),
            24 => {
                self.now += u64::from(b) * u64::from(c);
                self.tell(Input::Tick);
            }
            _ => self.write(b == 255),
        }
        while self.seen.recalls.len() > usize::from(c % 2) {
            self.recall();
        }
        // The log is at most a few steps behind.
        while self.seen.appends.len() > usize::from(c % 4) {
            self.write(false);
        }
    }

    /// Looks up what was asked for first.
    fn recall(&mut self) {
        let (socket, backend, point) = self.seen.recalls.remove(0);
        let mut past = Past::default();
        let rows = self.seen.rows.get(&ConversationKey::of(&backend)).map(Vec::as_slice).unwrap_or_default();
        for (at, row) in rows.iter().enumerate() {
            past.take(Seq(at as u64 + 1), row.kind, 0, &row.body);
        }
        let found = past.find(&point);
        if let Ok(found) = &found {
            let places: Vec<u64> = found.kept.iter().flat_map(|span| [span.after.0, span.upto.0]).collect();
            assert!(places.is_sorted(), "{places:?}");
            assert!(found.kept.iter().all(|span| span.after < span.upto && span.upto.0 <= rows.len() as u64));
        }
        self.tell(Input::Recalled { socket, backend, point, found });
    }

    fn hello(&mut self, socket: u64, a: u8, b: u8, c: u8) {
        let (identity, uuid) = (format!("tab-{}", a % 4), format!("w{}", b % 5));
        let path = format!("workflows/{uuid}.json");
        let workflow = json!({"uuid": uuid, "path": path, "handle": format!("wf:{path}"), "title": uuid, "canvas": format!("c-{uuid}")});
        let backend = (c.is_multiple_of(3)).then(|| BACKENDS[usize::from(c / 3) % 2]);
        let frame = if c.is_multiple_of(7) {
            json!({"type": "hello", "tab_id": format!("wf:{path}"), "tab_session_id": identity, "workflow_uuid": uuid, "backend": backend, "enforces_workflow_stamp_at_write": c.is_multiple_of(2)})
        } else {
            json!({"type": "hello", "protocol": 1, "tab_id": identity, "workflow": workflow, "backend": backend, "headless": c.is_multiple_of(11)})
        };
        // A legacy panel of the same name is another tab.
        let identity = if c.is_multiple_of(7) { format!("legacy:{identity}") } else { identity };
        let before = self.seen.fronts.insert(identity.clone(), uuid);
        self.tab_comes();
        let greetings = self.seen.greetings;
        self.frame(socket, &frame);
        if let (true, Some(before)) = (greetings == self.seen.greetings, before) {
            // It was refused and changed nothing.
            self.seen.fronts.insert(identity, before);
        }
    }

    /// A re-target that waits is applied to the tab that comes.
    fn tab_comes(&mut self) {
        if self.seen.armed {
            for backend in BACKENDS {
                let in_front = self.seen.in_front();
                self.seen.stamps.entry(backend.into()).or_default().extend(in_front);
            }
        }
    }

    /// Answers a command: well, badly, from elsewhere, or with an identity of its own.
    fn reply(&mut self, a: u8, b: u8, c: u8) {
        if self.seen.commands.is_empty() {
            return;
        }
        let at = usize::from(a) % self.seen.commands.len();
        let (socket, backend, command) = self.seen.commands.remove(at);
        let uuid = format!("w{}", c % 5);
        let workflow = (!b.is_multiple_of(4)).then(
            || json!({"uuid": uuid, "handle": format!("tmp:{uuid}"), "title": uuid, "canvas": format!("c-{uuid}")}),
        );
        let ok = b % 5 != 1;
        if ok && command["cmd"] != "graph_outline" {
            // What the panel proves may move the stamp.
            self.seen.told.insert(uuid.clone());
            let proven = self.seen.in_front();
            self.seen.stamps.entry(backend).or_default().extend(proven);
        }
        let listed =
            json!({"uuid": uuid, "handle": format!("tmp:{uuid}"), "title": uuid, "active": !b.is_multiple_of(7)});
        let result = json!({"workflows": [listed], "prompt_id": format!("p{}", c % 3)});
        let from = if b.is_multiple_of(13) { self.seen.sockets.first().copied().unwrap_or(socket) } else { socket };
        self.frame(
            from,
            &json!({"rid": command["rid"], "ok": ok, "result": result, "workflow": workflow, "error": "no"}),
        );
    }

    fn call(&mut self, backend: Backend, b: u8, c: u8) {
        self.counter += 1;
        let call = CallId(self.counter);
        self.seen.calls.insert(call, 0);
        let spec = &TABLE[usize::from(b) % TABLE.len()];
        let mut arguments: Map<String, Value> = match c % 8 {
            0 => Map::new(),
            _ => json!({
                "path": format!("w{}", c % 5), "name": "n", "mode": (["current", "pinned"][usize::from(c) % 2]), "query": "q",
                "node_id": 1, "widget": "steps", "value": 1, "class_type": "VAE", "title": "t", "question": "q?",
                "options": ["a", "b"], "items": [], "from_node_id": 1, "from_output": 0, "to_node_id": 2, "to_input": 0,
            })
            .as_object()
            .cloned()
            .unwrap(),
        };
        arguments.retain(|name, _| spec.params.iter().any(|param| param.name == name));
        if c.is_multiple_of(6) && spec.params.iter().any(|param| param.name == "tab") {
            arguments.insert("tab".to_owned(), json!(format!("t{}", c % 5)));
        }
        if c.is_multiple_of(5) && spec.params.iter().any(|param| param.name == "retry_of") {
            arguments.insert("retry_of".to_owned(), json!(format!("e1-r{}", c % 9)));
        }
        let tool = spec.tool.unwrap_or("panel_no_such_tool").to_owned();
        self.tell(Input::ToolCall { backend, call, tool, arguments });
    }

    /// ComfyUI says something of a run, asked or not.
    fn comfyui(&mut self, b: u8, c: u8) {
        let comfyui = COMFY.to_owned();
        let call = self.seen.looks.pop();
        if b.is_multiple_of(5) {
            return self.tell(Input::ComfyuiDown { comfyui, why: "x".into(), call });
        }
        let sight = match b % 4 {
            0 => Sight::Queued { ahead: 1 },
            1 => Sight::Running { progress: None },
            2 => Sight::Absent,
            _ => Sight::Ended(Ending::new(Status::Success, [], None)),
        };
        let runs = vec![(format!("p{}", c % 3).as_str().into(), sight)];
        self.tell(Input::RunsSeen { comfyui, runs, call });
    }

    fn ready(&mut self) {
        if self.seen.wakes.is_empty() {
            return;
        }
        let (backend, turn) = self.seen.wakes.remove(0);
        self.tell(Input::AgentReady { backend, turn });
    }

    fn end(&mut self, backend: &Backend, b: u8) {
        if !self.seen.prompted.remove(backend) {
            return;
        }
        let outcome = match b % 3 {
            0 => TurnOutcome::Completed,
            1 => TurnOutcome::Interrupted,
            _ => TurnOutcome::Failed { code: "x".into(), message: "x".into() },
        };
        self.tell(Input::Agent { backend: backend.clone(), event: AgentEvent::TurnEnd { outcome, anchor: None } });
    }

    fn write(&mut self, fails: bool) {
        let Some((append, rows)) = self.seen.appends.pop_front() else { return };
        if fails {
            self.seen.unsettled_by_failure |= rows.iter().any(|row| !row.settles.is_empty());
            return self.tell(Input::AppendFailed { append, code: "disk_full".into(), message: "x".into() });
        }
        let mut placed = Vec::new();
        for row in rows {
            let log = self.seen.rows.entry(row.conversation.clone()).or_default();
            let same = log.iter().position(|one| row.key.is_some() && one.key == row.key);
            placed.push(Placed {
                seq: Seq(same.unwrap_or(log.len()) as u64 + 1),
                duplicate: same.is_some(),
                differs: false,
            });
            if same.is_none() {
                log.push(row);
            }
        }
        self.tell(Input::Appended { append, placed });
    }

    /// What waits without starting a turn goes along with a message.
    fn last_words(&mut self) {
        for backend in BACKENDS {
            self.counter += 1;
            let (socket, tab) = (self.counter, format!("last-{backend}"));
            self.tell(Input::SocketOpened { socket: SocketId(socket), viewer: false, comfyui: None });
            let workflow = json!({"uuid": "w0", "handle": "tmp:w0", "title": "w0", "canvas": "c-w0"});
            self.seen.fronts.insert(tab.clone(), "w0".to_owned());
            self.tab_comes();
            self.frame(
                socket,
                &json!({"type": "hello", "protocol": 1, "tab_id": tab, "workflow": workflow, "backend": backend}),
            );
            self.frame(socket, &json!({"type": "user_message", "mid": tab, "text": "x"}));
        }
    }

    /// Everybody does their part until nothing is left to do.
    fn finish(&mut self) {
        for round in 0..200 {
            if round == 100 {
                self.last_words();
            }
            while !self.seen.looks.is_empty() {
                self.comfyui(0, 0);
            }
            while !self.seen.appends.is_empty() {
                self.write(false);
            }
            while !self.seen.recalls.is_empty() {
                self.recall();
            }
            for backend in std::mem::take(&mut self.seen.forgets) {
                self.tell(Input::Forgotten { backend, durable: true });
            }
            while !self.seen.wakes.is_empty() {
                self.ready();
            }
            for backend in self.seen.prompted.clone() {
                self.end(&backend, 0);
            }
            self.now += 10_000_000;
            self.tell(Input::Tick);
        }
        for (call, answers) in &self.seen.calls {
            assert_eq!(*answers, 1, "{call:?} was never answered");
        }
        assert_eq!(self.router.poll_timeout(), None, "nothing is waited for");
        for (conversation, rows) in &self.seen.rows {
            let mut settled: BTreeMap<u64, usize> = BTreeMap::new();
            for seq in rows.iter().flat_map(|row| &row.settles) {
                *settled.entry(seq.0).or_default() += 1;
            }
            for (at, row) in rows.iter().enumerate() {
                let times = settled.get(&(at as u64 + 1)).copied().unwrap_or(0);
                // A ticket may wait for a run that never ends here, a question for an answer that never comes.
                let open = matches!(row.kind, "run" | "ask") || self.seen.unsettled_by_failure;
                assert!(
                    times == 1 || times == 0 && (open || !row.inbound),
                    "{conversation} {at}: {row:?} {times} times"
                );
                assert!(row.inbound || times == 0, "only inbound rows are settled");
            }
        }
        for mid in &self.seen.accepted {
            // The tab may have gone over to another conversation between sending and the acknowledgement.
            let there =
                self.seen.rows.values().flatten().any(|row| row.body["mid"] == mid.as_str() && row.kind == "user");
            assert!(there, "{mid} was acknowledged and is in no log");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes(acts in prop::collection::vec(any::<Act>(), 1..160)) {
        let mut run = Run::new();
        for act in acts {
            run.act(act);
        }
        run.finish();
    }
}
