//! The one task that feeds the router. Everything that happens comes through here in one order; everything that the
//! router wants is carried out here, in its order.

use super::Clock;
use super::journal::{Journal, Written};
use super::keeper::{Keeper, KeeperParts, Order, Report};
use super::library::{Library, Told};
use crate::agent::AgentBackend;
use crate::comfy;
use crate::fault;
use crate::hub::{SocketSender, ToHub, ToSocket};
use crate::store::log::LogError;
use crate::store::sessions::Stored;
use axum::extract::ws::Utf8Bytes;
use routing_core::frame::{BackendInfo, FromDaemon, Model, Overloaded};
use routing_core::id::{Backend, CallId, ConversationKey, SocketId};
use routing_core::refusal::Refusal;
use routing_core::router::{Config, Input, Output, Router};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// Close code of a socket that does not read.
const TRY_AGAIN: u16 = 1013;
/// How long such a panel should wait.
const COME_BACK_MS: u64 = 1_000;
/// At a stop: how long turns may take to end after they were interrupted.
const TURNS_END: Duration = Duration::from_millis(1_500);
/// At a stop: how long agents may take to close.
const AGENTS_END: Duration = Duration::from_millis(2_500);
/// At a stop: how long the log may take for the last rows.
const ROWS_END: Duration = Duration::from_millis(400);

/// How far the wall clock may drift, in milliseconds, before rows take its time again.
const DRIFT: u64 = 1_000;

/// Agents as they were found, in order of preference, and their models.
pub type Found = (Vec<BackendInfo>, BTreeMap<Backend, Vec<Model>>);

/// What the core is made from.
pub struct CoreParts {
    /// The router's settings.
    pub config: Config,
    /// What comes in.
    pub inbox: mpsc::Receiver<ToHub>,
    /// The log.
    pub journal: Journal,
    /// The drivers by name.
    pub agents: BTreeMap<Backend, Arc<dyn AgentBackend>>,
    /// What their keepers are made from.
    pub keepers: KeeperParts,
    /// What the person should be told first, in the default conversation.
    pub notices: Vec<String>,
    /// Agents as they were found, whenever that is known.
    pub found: mpsc::Receiver<Found>,
}

/// The task's state.
pub struct Core {
    router: Router,
    clock: Clock,
    /// How far the wall clock is ahead, as the router knows it.
    ahead: i64,
    default: Backend,
    inbox: mpsc::Receiver<ToHub>,
    journal: Journal,
    pen: mpsc::UnboundedSender<Written>,
    written: mpsc::UnboundedReceiver<Written>,
    trouble: watch::Receiver<Option<LogError>>,
    agents: BTreeMap<Backend, Arc<dyn AgentBackend>>,
    keeper_parts: KeeperParts,
    keepers: BTreeMap<Backend, mpsc::UnboundedSender<Order>>,
    reports: mpsc::UnboundedReceiver<(Backend, Report)>,
    reporter: mpsc::UnboundedSender<(Backend, Report)>,
    found: mpsc::Receiver<Found>,
    /// Reads in the log what somebody asked for.
    library: Library,
    read: mpsc::UnboundedReceiver<Told>,
    sockets: BTreeMap<SocketId, SocketSender>,
    comfyuis: mpsc::UnboundedSender<comfy::Order>,
    runs: mpsc::UnboundedReceiver<comfy::Report>,
    calls: BTreeMap<CallId, oneshot::Sender<Result<Value, Refusal>>>,
    next_call: CallId,
    /// Turns that were given to an agent and have not ended.
    running: std::collections::BTreeSet<Backend>,
    /// Appends that were ordered and not reported yet.
    writing: usize,
    /// No turn begins any more: what waits, waits in the log for the next start.
    stopping: bool,
}

impl Core {
    /// Takes up the stored conversations. Agents start where messages wait.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn new(parts: CoreParts) -> Result<Self, LogError> {
        let (reporter, reports) = mpsc::unbounded_channel();
        let (comfyuis, runs) = comfy::spawn();
        let (pen, written) = mpsc::unbounded_channel();
        let (library, read) = Library::new(parts.journal.log().clone());
        let mut core = Self {
            default: parts.config.default.clone(),
            router: Router::new(parts.config),
            clock: parts.keepers.clock,
            ahead: 0,
            trouble: parts.journal.log().trouble(),
            inbox: parts.inbox,
            journal: parts.journal,
            pen,
            written,
            agents: parts.agents,
            keeper_parts: parts.keepers,
            keepers: BTreeMap::new(),
            reports,
            reporter,
            found: parts.found,
            library,
            read,
            sockets: BTreeMap::new(),
            comfyuis,
            runs,
            calls: BTreeMap::new(),
            next_call: CallId::default(),
            running: std::collections::BTreeSet::new(),
            writing: 0,
            stopping: false,
        };
        let configured: Vec<Backend> = core.agents.keys().cloned().collect();
        for backend in configured {
            let restored = core.journal.restored(&ConversationKey::of(&backend))?;
            fault::at("restoring");
            core.feed(Input::Restore { backend, restored });
        }
        for text in parts.notices {
            core.feed(Input::Notice { backend: core.default.clone(), text });
        }
        fault::at("restored");
        Ok(core)
    }

    /// Runs until `stop`; then turns are interrupted, agents closed and the log flushed.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let due = self.router.poll_timeout().map(|(at, _)| tokio::time::Instant::from_std(self.clock.instant(at)));
            let timer = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Ok(()) = self.trouble.changed() => self.on_trouble(),
                Some(written) = self.written.recv() => self.on_written(written),
                Some((backend, report)) = self.reports.recv() => self.on_report(backend, report),
                message = self.inbox.recv() => match message {
                    Some(message) => self.on_message(message),
                    None => break,
                },
                Some(told) = self.read.recv() => self.on_read(told),
                Some((backends, models)) = self.found.recv() => self.feed(Input::Backends { backends, models }),
                Some(report) = self.runs.recv() => self.on_runs(report),
                () = timer => self.feed(Input::Tick),
            }
        }
        self.wind_down().await;
    }

    /// Turns are interrupted and their ends written down; then agents are closed and the log is flushed.
    async fn wind_down(&mut self) {
        self.stopping = true;
        fault::at("stop-begun");
        for backend in self.running.clone() {
            self.order(&backend, Order::Interrupt);
        }
        let ends = tokio::time::sleep(TURNS_END);
        tokio::pin!(ends);
        while !self.running.is_empty() {
            tokio::select! {
                () = &mut ends => break,
                Some(written) = self.written.recv() => self.on_written(written),
                Some((backend, report)) = self.reports.recv() => self.on_report(backend, report),
            }
        }
        fault::at("stop-turns-ended");
        let mut closing = Vec::new();
        for keeper in self.keepers.values() {
            let (done, closed) = oneshot::channel();
            if keeper.send(Order::Stop(done)).is_ok() {
                closing.push(closed);
            }
        }
        let all = async {
            for closed in closing {
                let _ = closed.await;
            }
        };
        if tokio::time::timeout(AGENTS_END, all).await.is_err() {
            tracing::warn!("an agent did not close in time; it ends with the daemon");
        }
        fault::at("stop-agents-down");
        while let Ok((backend, report)) = self.reports.try_recv() {
            self.on_report(backend, report);
        }
        for answer in std::mem::take(&mut self.calls).into_values() {
            let _ = answer.send(Err(Refusal::ConversationClosed));
        }
        // Panels see a turn's end when its row is on disk.
        let rows = async {
            while self.writing > 0 {
                let Some(written) = self.written.recv().await else { break };
                self.on_written(written);
            }
        };
        if tokio::time::timeout(ROWS_END, rows).await.is_err() {
            tracing::warn!("the log did not take the last rows in time");
        }
        let log = self.journal.log().clone();
        if let Err(error) = log.flush().await {
            tracing::warn!(code = error.code(), %error, "the log could not be flushed");
        }
        fault::at("stop-flushed");
    }

    fn on_message(&mut self, message: ToHub) {
        match message {
            ToHub::SocketOpened { socket, peer, out } => {
                self.sockets.insert(socket, out);
                let viewer = peer.role == crate::hub::Role::Viewer;
                self.feed(Input::SocketOpened { socket, viewer, comfyui: peer.comfyui });
            }
            ToHub::SocketText { socket, text } => self.feed(Input::Frame { socket, text: text.as_str().to_owned() }),
            ToHub::SocketClosed { socket } => {
                self.sockets.remove(&socket);
                self.feed(Input::SocketClosed { socket });
            }
            ToHub::ToolCall { backend, tool, arguments, answer } => {
                fault::at("tool-called");
                self.next_call = self.next_call.next();
                let call = self.next_call;
                self.calls.insert(call, answer);
                self.feed(Input::ToolCall { backend, call, tool, arguments });
            }
        }
    }

    fn on_written(&mut self, Written { append, said, outcome }: Written) {
        self.writing = self.writing.saturating_sub(1);
        match outcome {
            Ok(appended) => {
                let placed = self.journal.placed(appended, said);
                fault::at("report-due");
                self.feed(Input::Appended { append, placed });
                fault::at("report-taken");
            }
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "rows were not written");
                self.feed(Input::AppendFailed { append, code: error.code().to_owned(), message: error.to_string() });
            }
        }
    }

    fn on_runs(&mut self, report: comfy::Report) {
        self.feed(match report {
            comfy::Report::Seen { comfyui, call, seen: Ok(runs) } => Input::RunsSeen { comfyui, runs, call },
            comfy::Report::Seen { comfyui, call, seen: Err(why) } => Input::ComfyuiDown { comfyui, why, call },
            comfy::Report::Begun { id, call, outcome } => Input::JobBegun { id, call, outcome },
        });
    }

    fn on_trouble(&mut self) {
        let trouble = self.trouble.borrow_and_update().as_ref().map(ToString::to_string);
        if trouble.is_none() {
            // It is the same disk: what it refused of the session file is written now, too.
            let (sessions, now) = (self.keeper_parts.sessions.clone(), self.clock.now_ms());
            tokio::task::spawn_blocking(move || {
                if let Stored::Volatile(error) = sessions.catch_up(now) {
                    tracing::warn!(code = error.code(), %error, "agent sessions are still not on disk");
                }
            });
        }
        self.feed(Input::LogTrouble { trouble });
    }

    fn on_report(&mut self, backend: Backend, report: Report) {
        match report {
            Report::Ready(turn) => self.feed(Input::AgentReady { backend, turn }),
            Report::Failed { turn, may_pass, code, message } => {
                tracing::warn!(%backend, code, message, "the agent did not start");
                self.feed(Input::AgentFailed { backend, turn, may_pass, code, message });
            }
            Report::Event(event) => {
                if matches!(event, routing_core::agent::AgentEvent::TurnEnd { .. }) {
                    self.running.remove(&backend);
                }
                self.feed(Input::Agent { backend, event });
            }
            Report::Forgotten(durable) => self.feed(Input::Forgotten { backend, durable }),
            Report::Notice(text) => self.feed(Input::Notice { backend, text }),
        }
    }

    fn on_read(&mut self, told: Told) {
        match told {
            Told::Recalled { socket, backend, point, found } => {
                self.feed(Input::Recalled { socket, backend, point, found });
            }
            Told::Frame(socket, frame) => self.send(&[socket], &frame),
            Told::Answer(call, outcome) => self.answer(call, outcome),
        }
    }

    fn answer(&mut self, call: CallId, outcome: Result<Value, Refusal>) {
        if let Some(answer) = self.calls.remove(&call) {
            fault::at("tool-answered");
            // The agent may have given up waiting.
            let _ = answer.send(outcome);
        }
    }

    fn feed(&mut self, input: Input) {
        let ahead = self.clock.ahead();
        if ahead.abs_diff(self.ahead) > DRIFT {
            self.ahead = ahead;
            self.router.handle(Input::WallClock { ahead }, self.clock.now());
        }
        self.router.handle(input, self.clock.now());
        while let Some(output) = self.router.poll_output() {
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { sockets, frame } => self.send(&sockets, &frame),
            Output::Replay { socket, conversation, after, upto, legacy } => {
                self.offer(socket, ToSocket::Replay { conversation, after, upto, legacy });
            }
            Output::Close { socket, code, reason } => self.offer(socket, ToSocket::Close { code, reason }),
            Output::Append { append, rows, keep } => {
                fault::at_rows("ordered", || rows.iter().map(|row| row.kind));
                self.writing += 1;
                self.journal.append(append, rows, keep, &self.pen);
            }
            Output::Wake { .. } if self.stopping => {}
            Output::Wake { backend, turn } => self.order(&backend, Order::Wake(turn)),
            Output::Prompt { backend, turn: _, text } => {
                fault::at("prompt-ordered");
                self.running.insert(backend.clone());
                self.order(&backend, Order::Prompt(text));
            }
            Output::Interrupt { backend } => self.order(&backend, Order::Interrupt),
            Output::Retire { backend } => self.order(&backend, Order::Retire),
            Output::Forget { backend, session, retold } => {
                fault::at("forget-ordered");
                self.running.remove(&backend);
                self.order(&backend, Order::Forget { session, retold });
            }
            Output::Recall { socket, backend, point } => self.library.recall(socket, backend, point),
            Output::Look { by, backend, look } => self.library.look(by, backend, look),
            Output::ResumeHint { backend, session } => self.order(&backend, Order::Hint(session)),
            Output::SetModel { backend, model } => self.order(&backend, Order::Model(model)),
            Output::WatchRun { comfyui, prompt_id, job } => {
                self.at_comfyui(comfy::Order::Watch { comfyui, prompt_id, job });
            }
            Output::BeginJob { comfyui, id, job, call } => {
                self.at_comfyui(comfy::Order::Begin { comfyui, id, job, call });
            }
            Output::UnwatchRun { comfyui, prompt_id } => self.at_comfyui(comfy::Order::Unwatch { comfyui, prompt_id }),
            Output::LookAtRuns { comfyui, prompt_ids, jobs, call } => {
                self.at_comfyui(comfy::Order::Look { comfyui, prompt_ids, jobs, call });
            }
            Output::Answer { call, outcome } => self.answer(call, outcome),
            Output::Log { event, detail } => tracing::warn!(event, detail, "routing"),
        }
    }

    fn at_comfyui(&self, order: comfy::Order) {
        // It takes orders for as long as this task lives.
        let _ = self.comfyuis.send(order);
    }

    /// One encoding for every socket that gets the frame.
    fn send(&mut self, sockets: &[SocketId], frame: &FromDaemon) {
        let text = Utf8Bytes::from(frame.encode());
        for socket in sockets {
            self.offer(*socket, ToSocket::Frame(text.clone()));
        }
    }

    fn offer(&mut self, socket: SocketId, item: ToSocket) {
        let Some(out) = self.sockets.get(&socket) else { return };
        if out.send(item).is_ok() {
            return;
        }
        // It does not read. It is told and let go; what it missed it reads from the log when it comes back.
        tracing::warn!(socket = socket.0, "a socket does not read and is closed");
        let frame = FromDaemon::from(Overloaded { dropped: 1, retry_after_ms: COME_BACK_MS });
        out.finish(frame.encode().into(), TRY_AGAIN, "overloaded: too many frames wait for this socket");
        self.sockets.remove(&socket);
    }

    fn order(&mut self, backend: &Backend, order: Order) {
        if !self.keepers.contains_key(backend) {
            let Some(driver) = self.agents.get(backend) else {
                return self.no_driver(backend, order);
            };
            let keeper =
                Keeper::spawn(backend.clone(), driver.clone(), self.keeper_parts.clone(), self.reporter.clone());
            self.keepers.insert(backend.clone(), keeper);
        }
        if let Some(keeper) = self.keepers.get(backend) {
            let _ = keeper.send(order);
        }
    }

    /// An agent that is no longer configured: whoever waits for it is told.
    fn no_driver(&self, backend: &Backend, order: Order) {
        if let Order::Forget { .. } = order {
            // No agent of that name remembers anything here; a stored session stays where it is.
            let _ = self.reporter.send((backend.clone(), Report::Forgotten(false)));
        } else if let Order::Wake(turn) = order {
            let message = format!("The agent {backend} is not configured any more. Choose another one.");
            let failed = Report::Failed { turn, may_pass: false, code: "not_found".to_owned(), message };
            let _ = self.reporter.send((backend.clone(), failed));
        }
    }
}
