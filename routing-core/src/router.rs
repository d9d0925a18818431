//! The daemon's machine: who takes part in which conversation, what a turn acts on, where a call goes, what is said to
//! whom. Inputs carry the time; outputs are polled until there are none; [`Router::poll_timeout`] says when to come back
//! and why. It knows no socket, no process, no disk and no clock.

mod again;
mod blind;
mod boundaries;
mod calls;
mod commits;
mod conversation;
mod events;
mod input;
mod jobs;
mod messages;
mod output;
mod questions;
mod replies;
mod run_status;
mod runs;
mod sockets;
mod tabs;
mod targets;
mod timers;
mod turns;

#[cfg(test)]
mod tests;

pub use input::{Input, JobBegun, Pending, Placed, Restored};
pub use output::{Look, NewRow, Output, Reader, row_frame};

use crate::frame::{BackendInfo, Model};
use crate::id::{AskId, Backend, CallId, MessageId, PromptId, Rid, SocketId, TabKey};
use crate::ledger::{Ask, Call, Lost, Run, Sent, Told};
use conversation::Conversation;
use std::collections::{BTreeMap, VecDeque};
use tabs::{Socket, Tab};

/// Bounds, by the names of `[limits]`: milliseconds, but for `backlog`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// From a socket's opening to its hello.
    pub hello: u64,
    /// How long a call waits for its tab to come back (rule T6).
    pub reconnect: u64,
    /// How long a command may take; long ones take a multiple.
    pub command: u64,
    /// How long a question holds its call.
    pub ask: u64,
    /// How long a tab that had blind mode on counts after it went (rule F6).
    pub blind_grace: u64,
    /// Messages that may wait in one conversation.
    pub backlog: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { hello: 2_000, reconnect: 20_000, command: 20_000, ask: 240_000, blind_grace: 60_000, backlog: 1_000 }
    }
}

/// What the router is told at its start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Which run of the daemon this is.
    pub epoch: String,
    /// Configured agents, in order of preference. At least one.
    pub backends: Vec<BackendInfo>,
    /// Their models.
    pub models: BTreeMap<Backend, Vec<Model>>,
    /// What unknown names fall to (rule B5).
    pub default: Backend,
    /// Bounds.
    pub limits: Limits,
    /// The ComfyUI of tabs that do not tell.
    pub comfyui: Option<String>,
    /// Rules that are switched off, to prove that the checks catch it.
    #[cfg(feature = "sabotage")]
    pub broken: std::collections::BTreeSet<&'static str>,
}

impl Config {
    /// A configuration with these agents, the first being the default, and the usual bounds.
    pub fn new(epoch: &str, backends: &[&str]) -> Self {
        let info = |name: &&str| BackendInfo {
            backend: (*name).to_owned(),
            cli: true,
            auth: None,
            ready: true,
            available: true,
            version: None,
            mend: None,
        };
        Self {
            epoch: epoch.to_owned(),
            backends: backends.iter().map(info).collect(),
            models: BTreeMap::new(),
            default: Backend::parse(backends.first().copied().unwrap_or("demo")),
            limits: Limits::default(),
            comfyui: None,
            #[cfg(feature = "sabotage")]
            broken: std::collections::BTreeSet::new(),
        }
    }

    /// The one mapping from a name to a conversation's backend (rule B5).
    pub fn backend(&self, name: &str) -> Backend {
        let wanted = Backend::parse(name);
        let known = self.backends.iter().any(|info| Backend::parse(&info.backend) == wanted);
        if known { wanted } else { self.default.clone() }
    }
}

/// The daemon's machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Router {
    config: Config,
    sockets: BTreeMap<SocketId, Socket>,
    tabs: BTreeMap<TabKey, Tab>,
    conversations: BTreeMap<Backend, Conversation>,
    calls: BTreeMap<CallId, Call>,
    sent: BTreeMap<Rid, Sent>,
    lost: VecDeque<(Rid, Lost)>,
    asks: BTreeMap<AskId, Ask>,
    runs: BTreeMap<PromptId, Run>,
    early_runs: VecDeque<(PromptId, crate::frame::PanelEvent)>,
    told_runs: VecDeque<Told>,
    silent_comfyuis: std::collections::BTreeSet<String>,
    commits: BTreeMap<u64, commits::Commit>,
    boundaries: BTreeMap<Backend, boundaries::Boundary>,
    counters: Counters,
    /// What every tab is told while the log cannot be written.
    log_trouble: Option<String>,
    /// What rows bear is so far ahead of the time that inputs carry.
    ahead: i64,
    outputs: VecDeque<Output>,
}

/// Sources of fresh names: deterministic, unique within one run of the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Counters {
    tabs: u64,
    rids: u64,
    asks: u64,
    mids: u64,
    commits: u64,
    joins: u64,
}

impl Router {
    /// A router without sockets or memory. Give it [`Input::Restore`] for each stored conversation first.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            sockets: BTreeMap::new(),
            tabs: BTreeMap::new(),
            conversations: BTreeMap::new(),
            calls: BTreeMap::new(),
            sent: BTreeMap::new(),
            lost: VecDeque::new(),
            asks: BTreeMap::new(),
            runs: BTreeMap::new(),
            early_runs: VecDeque::new(),
            told_runs: VecDeque::new(),
            silent_comfyuis: std::collections::BTreeSet::new(),
            commits: BTreeMap::new(),
            boundaries: BTreeMap::new(),
            counters: Counters::default(),
            log_trouble: None,
            ahead: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. `now` is in milliseconds and never goes back. Poll the outputs until there are none before the
    /// next one.
    pub fn handle(&mut self, input: Input, now: u64) {
        match input {
            Input::SocketOpened { socket, viewer, comfyui } => self.socket_opened(socket, viewer, comfyui, now),
            Input::Frame { socket, text } => self.frame(socket, &text, now),
            Input::SocketClosed { socket } => self.socket_closed(socket, now),
            Input::Appended { append, placed } => self.appended(append, &placed, now),
            Input::AppendFailed { append, code, message } => self.append_failed(append, &code, &message, now),
            Input::LogTrouble { trouble } => self.log_trouble(trouble),
            Input::AgentReady { backend, turn } => self.agent_ready(&backend, turn, now),
            Input::AgentFailed { backend, turn, may_pass, code, message } => {
                self.agent_failed(&backend, turn, may_pass, (&code, &message), now);
            }
            Input::Agent { backend, event } => self.agent_event(&backend, event, now),
            Input::Merged { backend, mids } => self.merged(&backend, &mids, now),
            Input::ToolCall { backend, call, tool, arguments } => self.tool_call(backend, call, &tool, arguments, now),
            Input::Recalled { socket, backend, point, found } => self.recalled(socket, &backend, point, found, now),
            Input::Forgotten { backend, durable } => self.forgotten(&backend, durable, now),
            Input::Restore { backend, restored } => self.restore(&backend, restored, now),
            Input::Notice { backend, text } => self.notice(&backend, &text, now),
            Input::RunsSeen { comfyui, runs, call } => self.runs_seen(&comfyui, runs, call, now),
            Input::JobBegun { id, call, outcome } => self.job_begun(&id, call, outcome, now),
            Input::ComfyuiDown { comfyui, why, call } => self.comfyui_down(&comfyui, &why, call, now),
            Input::Backends { backends, models } => self.backends_changed(backends, models),
            Input::WallClock { ahead } => self.ahead = ahead,
            Input::Tick => self.tick(now),
        }
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    fn conversation(&mut self, backend: &Backend) -> &mut Conversation {
        self.conversations.entry(backend.clone()).or_insert_with(|| Conversation::new(backend.clone()))
    }

    fn fresh_rid(&mut self) -> Rid {
        self.counters.rids += 1;
        Rid(format!("{}-r{}", self.config.epoch, self.counters.rids))
    }

    fn fresh_mid(&mut self) -> MessageId {
        self.counters.mids += 1;
        MessageId(format!("{}-m{}", self.config.epoch, self.counters.mids))
    }

    fn fresh_ask(&mut self) -> AskId {
        self.counters.asks += 1;
        AskId(format!("{}-a{}", self.config.epoch, self.counters.asks))
    }

    /// Whether a rule is switched off for a test of the checks.
    #[cfg(feature = "sabotage")]
    fn broken(&self, rule: &str) -> bool {
        self.config.broken.contains(rule)
    }

    #[cfg(not(feature = "sabotage"))]
    #[allow(clippy::unused_self, reason = "one signature for both builds")]
    const fn broken(&self, _rule: &str) -> bool {
        false
    }
}
