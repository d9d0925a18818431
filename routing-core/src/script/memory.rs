//! The back end without processes: the router itself, a log in memory, and agents that do what they are told. Everything
//! follows at once and in one order, so that the same script gives the same frames everywhere.

use super::format::{Bounds, Script};
use super::log::Log;
use super::world::{Happened, Line, Order, World};
use crate::agent::{AgentEvent, TurnOutcome};
use crate::frame::{FromDaemon, FromPanel, PanelFrame};
use crate::id::{AgentSessionId, Backend, CallId, ConversationKey, MessageId, SocketId, TurnId};
use crate::router::{Config, Input, Limits, Output, Router};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Debug, Default)]
struct Agent {
    runs: bool,
    session: Option<AgentSessionId>,
    in_turn: bool,
    slow: bool,
    waits: Option<TurnId>,
    spoken: u64,
}

/// The router with everything around it in memory.
#[derive(Clone, Debug)]
pub struct InMemory {
    names: Vec<String>,
    bounds: Bounds,
    router: Router,
    log: Log,
    agents: BTreeMap<Backend, Agent>,
    calls: BTreeMap<CallId, String>,
    /// Sockets that are open, and whether they speak dialect 1.
    lines: BTreeMap<Line, bool>,
    inputs: VecDeque<Input>,
    happened: VecDeque<Happened>,
    now: u64,
    counter: u64,
    epoch: u64,
}

impl InMemory {
    /// A back end with a script's agents and bounds.
    pub fn new(script: &Script) -> Self {
        let (names, bounds) = (script.agents.clone(), script.limits.clone());
        Self {
            router: Router::new(config(&names, &bounds, 1)),
            names,
            bounds,
            log: Log::default(),
            agents: BTreeMap::new(),
            calls: BTreeMap::new(),
            lines: BTreeMap::new(),
            inputs: VecDeque::new(),
            happened: VecDeque::new(),
            now: 0,
            counter: 0,
            epoch: 1,
        }
    }

    /// The same with a rule switched off, to prove that scripts notice.
    #[cfg(feature = "sabotage")]
    pub fn without(script: &Script, rule: &'static str) -> Self {
        let mut world = Self::new(script);
        let mut config = config(&world.names, &world.bounds, world.epoch);
        config.broken.insert(rule);
        world.router = Router::new(config);
        world
    }

    fn fresh(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn agent(&mut self, backend: &Backend) -> &mut Agent {
        self.agents.entry(backend.clone()).or_default()
    }

    /// Gives the router an input and everything that follows from it.
    fn tell(&mut self, input: Input) {
        self.inputs.push_back(input);
        self.follow();
    }

    fn follow(&mut self) {
        while let Some(input) = self.inputs.pop_front() {
            self.router.handle(input, self.now);
            while let Some(output) = self.router.poll_output() {
                self.carry_out(output);
            }
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { sockets, frame } => {
                for socket in sockets {
                    self.deliver(socket.0, &frame);
                }
            }
            Output::Replay { socket, conversation, after, upto, legacy } => {
                for frame in self.log.replay(&conversation, after, upto, legacy) {
                    self.deliver(socket.0, &frame);
                }
            }
            Output::Close { socket, code, reason } => {
                if self.lines.remove(&socket.0).is_some() {
                    self.happened.push_back(Happened::Closed { line: socket.0, code, reason });
                    self.inputs.push_back(Input::SocketClosed { socket });
                }
            }
            Output::Append { append, rows, .. } => {
                let placed = self.log.append(rows);
                self.inputs.push_back(Input::Appended { append, placed });
            }
            Output::Wake { backend, turn } => self.wake(&backend, turn),
            Output::Prompt { backend, text, .. } => {
                self.agent(&backend).in_turn = true;
                self.happened.push_back(Happened::Prompted { agent: backend.to_string(), text });
            }
            Output::Interrupt { backend } => {
                self.happened.push_back(Happened::Interrupted { agent: backend.to_string() });
                self.end(&backend, TurnOutcome::Interrupted);
            }
            Output::Retire { backend } => self.stop(&backend),
            Output::Recall { socket, backend, point } => {
                let found = self.log.recall(&ConversationKey::of(&backend), &point);
                self.inputs.push_back(Input::Recalled { socket, backend, point, found });
            }
            Output::Forget { backend, session, .. } => {
                self.stop(&backend);
                self.agent(&backend).session = session;
                self.inputs.push_back(Input::Forgotten { backend, durable: true });
            }
            Output::ResumeHint { backend, session } => {
                self.agent(&backend).session.get_or_insert(session);
            }
            Output::Answer { call, outcome } => {
                if let Some(call) = self.calls.get(&call).cloned() {
                    let outcome = outcome.map_err(|refusal| refusal.to_wire());
                    self.happened.push_back(Happened::Answered { call, outcome });
                }
            }
            // Panels of scripts read nothing in the log.
            Output::SetModel { .. }
            | Output::Look { .. }
            | Output::Log { .. }
            | Output::WatchRun { .. }
            | Output::BeginJob { .. }
            | Output::UnwatchRun { .. }
            | Output::LookAtRuns { .. } => {}
        }
    }

    fn deliver(&mut self, line: Line, frame: &FromDaemon) {
        if self.lines.contains_key(&line) {
            self.happened.push_back(Happened::Frame { line, text: frame.encode() });
        }
    }

    fn wake(&mut self, backend: &Backend, turn: TurnId) {
        let agent = self.agent(backend);
        if agent.runs {
            return self.inputs.push_back(Input::AgentReady { backend: backend.clone(), turn });
        }
        agent.waits = Some(turn);
        if !agent.slow {
            self.start(backend);
        }
    }

    fn start(&mut self, backend: &Backend) {
        let fresh = self.fresh();
        let agent = self.agent(backend);
        let Some(turn) = agent.waits.take() else { return };
        agent.runs = true;
        let id = agent.session.get_or_insert_with(|| AgentSessionId(format!("session-{fresh}"))).clone();
        self.happened.push_back(Happened::Started { agent: backend.to_string() });
        self.inputs.push_back(Input::Agent { backend: backend.clone(), event: AgentEvent::Session { id } });
        self.inputs.push_back(Input::AgentReady { backend: backend.clone(), turn });
    }

    fn stop(&mut self, backend: &Backend) {
        let agent = self.agent(backend);
        agent.in_turn = false;
        agent.waits = None;
        if std::mem::take(&mut agent.runs) {
            self.happened.push_back(Happened::Stopped { agent: backend.to_string() });
        }
    }

    fn end(&mut self, backend: &Backend, outcome: TurnOutcome) {
        if std::mem::take(&mut self.agent(backend).in_turn) {
            let event = AgentEvent::TurnEnd { outcome, anchor: None };
            self.inputs.push_back(Input::Agent { backend: backend.clone(), event });
        }
    }
}

fn config(names: &[String], bounds: &Bounds, epoch: u64) -> Config {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut config = Config::new(&format!("epoch-{epoch}"), &names);
    config.limits = Limits {
        hello: bounds.hello,
        reconnect: bounds.reconnect,
        command: bounds.command,
        ask: bounds.ask,
        blind_grace: bounds.reconnect,
        backlog: bounds.backlog,
    };
    config
}

impl World for InMemory {
    fn now(&self) -> u64 {
        self.now
    }

    fn open(&mut self) -> Option<Line> {
        let line = self.fresh();
        self.lines.insert(line, true);
        self.tell(Input::SocketOpened { socket: SocketId(line), viewer: false, comfyui: None });
        Some(line)
    }

    fn send(&mut self, line: Line, text: &str) {
        if !self.lines.contains_key(&line) {
            return;
        }
        if let Ok(FromPanel::Typed(PanelFrame::Hello(hello))) = FromPanel::parse(text) {
            self.lines.insert(line, hello.protocol.is_some());
        }
        self.tell(Input::Frame { socket: SocketId(line), text: text.to_owned() });
    }

    fn cut(&mut self, line: Line) {
        if self.lines.remove(&line).is_some() {
            self.tell(Input::SocketClosed { socket: SocketId(line) });
        }
    }

    fn order(&mut self, agent: &str, order: Order) -> Result<(), String> {
        let backend = Backend::parse(agent);
        if !self.names.iter().any(|name| Backend::parse(name) == backend) {
            return Err(format!("there is no agent {agent}"));
        }
        let state = self.agent(&backend);
        match order {
            Order::SlowStart => state.slow = true,
            Order::Ready => {
                state.slow = false;
                self.start(&backend);
                self.follow();
            }
            Order::StartFails => {
                let turn = state.waits.take().ok_or("no start waits")?;
                let (code, message) = ("start_failed".to_owned(), "The agent could not be started.".to_owned());
                self.tell(Input::AgentFailed { backend, turn, may_pass: false, code, message });
            }
            _ if !state.runs => return Err(format!("the agent {agent} does not run")),
            Order::Call { call, tool, arguments } => {
                let id = CallId(self.fresh());
                self.calls.insert(id, call);
                self.tell(Input::ToolCall { backend, call: id, tool, arguments });
            }
            Order::Speak(text) => {
                state.spoken += 1;
                let id = format!("{agent}-{}", state.spoken);
                let delta = AgentEvent::Delta { id: id.clone(), text: text.clone() };
                self.tell(Input::Agent { backend: backend.clone(), event: delta });
                self.tell(Input::Agent { backend, event: AgentEvent::Text { id, text } });
            }
            Order::End => {
                self.end(&backend, TurnOutcome::Completed);
                self.follow();
            }
            Order::Fail(message) => {
                self.end(&backend, TurnOutcome::Failed { code: "model_error".to_owned(), message });
                self.follow();
            }
            Order::Merge(mids) => {
                self.tell(Input::Merged { backend, mids: mids.into_iter().map(MessageId::new).collect() });
            }
        }
        Ok(())
    }

    fn restart(&mut self) {
        let backends: BTreeSet<Backend> = self.agents.keys().cloned().collect();
        for backend in backends {
            self.stop(&backend);
        }
        for line in std::mem::take(&mut self.lines).into_keys() {
            self.happened.push_back(Happened::Closed { line, code: 1006, reason: String::new() });
        }
        self.calls.clear();
        self.epoch += 1;
        self.router = Router::new(config(&self.names, &self.bounds, self.epoch));
        for (conversation, restored) in self.log.restored() {
            self.tell(Input::Restore { backend: conversation.backend(), restored });
        }
    }

    fn poll(&mut self) -> Option<Happened> {
        self.happened.pop_front()
    }

    fn rest(&mut self, _ms: u64) -> bool {
        false
    }

    fn patience(&self) -> u64 {
        0
    }

    fn quiet(&self) -> u64 {
        0
    }

    fn deadline(&self) -> Option<u64> {
        self.router.poll_timeout().map(|(when, _)| when)
    }

    fn pass(&mut self, until: u64) {
        self.now = self.now.max(until);
        if self.deadline().is_some_and(|when| when <= self.now) {
            self.tell(Input::Tick);
        }
    }
}
