//! What the router does, checked from outside: every output against the model's own account of tabs, turns and calls.

use super::agent::{Call, Doing, Kind};
use super::world::{Aim, BACKENDS, Stands, World, number};
use routing_core::command::{self, Effect};
use routing_core::frame::{CommandFrame, DaemonFrame, FromDaemon};
use routing_core::id::{Backend, CallId, ConversationKey, SocketId, TurnId};
use routing_core::refusal::Refusal;
use routing_core::router::{Input, NewRow, Output, Placed};
use serde_json::Value;
use std::hash::{Hash, Hasher};

/// What must hold, by the numbers of the architecture's invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// No command executes on another instance than the one that it was stamped for.
    Instance,
    /// A turn's calls go to the tab and instance that it was issued for, unless the agent itself re-targeted.
    Turn,
    /// Nothing that a panel does to its workflows or its connection starts, stops or resets an agent.
    Steady,
    /// A command goes to no tab of another conversation.
    Ownership,
    /// A message is given to an agent once, a write is applied once, a call is answered once.
    Once,
    /// After a refusal's remedy the refused command passes.
    Remedy,
    /// A frame reaches the tabs of its conversation: all of them, and no other.
    Frames,
    /// Every call is answered and every message settled in the end.
    Nothing,
}

impl Invariant {
    /// The property's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instance => "1: commands run on the instance that they were stamped for",
            Self::Turn => "2: nothing re-aims a running turn",
            Self::Steady => "3: panels start, stop and reset no agent",
            Self::Ownership => "4: ownership is checked at every use",
            Self::Once => "5: nothing happens twice",
            Self::Remedy => "6: a remedy makes the refused command pass",
            Self::Frames => "8: frames stay in their conversation",
            Self::Nothing => "nothing is lost",
        }
    }
}

/// The first thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Broke {
    /// Which invariant.
    pub invariant: Invariant,
    /// How.
    pub how: String,
}

/// Things that a check must have seen to mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub enum Sight {
    /// A write was applied.
    Applied,
    /// A panel refused what the daemon had let through.
    FencedInPanel,
    /// The daemon refused by prediction.
    FencedInDaemon,
    /// A call waited for its tab and went out.
    Waited,
    /// A call waited in vain.
    TargetGone,
    /// A turn without one origin.
    MixedTurn,
    /// A call of a turn without target was refused.
    Ambiguous,
    /// A call was refused because its tab went over.
    NotOwner,
    /// The outcome of a write was not known.
    Unknown,
    /// A retry was answered by the ledger or ran.
    Retried,
    /// A re-target was kept for the next tab.
    Armed,
    /// A conversation was cleared.
    Cleared,
    /// A message was put back and taken again.
    PutBack,
    /// A pin did not fit.
    PinRefused,
    /// The path guard refused.
    Guarded,
    /// A remedy was followed and worked.
    Remedied,
}

impl Sight {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Applied,
        Self::FencedInPanel,
        Self::FencedInDaemon,
        Self::Waited,
        Self::TargetGone,
        Self::MixedTurn,
        Self::Ambiguous,
        Self::NotOwner,
        Self::Unknown,
        Self::Retried,
        Self::Armed,
        Self::Cleared,
        Self::PutBack,
        Self::PinRefused,
        Self::Guarded,
        Self::Remedied,
    ];
}

/// What was seen in one step. Two states that differ only here are one state.
#[derive(Clone, Debug, Default, Eq)]
pub(super) struct Sights(u64);

impl PartialEq for Sights {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Hash for Sights {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Sights {
    pub(super) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.0)
    }
}

/// Where an input came from, for judging what it led to.
struct Cause {
    backends: Vec<usize>,
    /// A panel's own affairs: hello, connection, switch.
    quiet: bool,
    /// Frames go to the one tab that came.
    greeting: bool,
    call: Option<u64>,
}

impl World {
    pub(super) fn saw(&mut self, sight: Sight) {
        self.sights.0 |= 1 << sight as u64;
    }

    /// Gives the router an input and carries out what it wants.
    pub(super) fn input(&mut self, input: Input) {
        let cause = self.cause(&input);
        self.router.handle(input, self.now);
        let outputs: Vec<Output> = std::iter::from_fn(|| self.router.poll_output()).collect();
        let mut refused = Vec::new();
        for output in outputs {
            self.output(&cause, output, &mut refused);
        }
        if !self.log.slow {
            self.answer_log();
        }
        for (call, refusal) in refused {
            self.follow_remedy(&call, &refusal);
        }
    }

    /// The log answers everything that it owes.
    pub(super) fn answer_log(&mut self) {
        while self.answer_one() {}
    }

    /// The log answers the oldest transaction.
    pub(super) fn answer_one(&mut self) -> bool {
        let Some((append, rows)) = self.log.open.pop_front() else { return false };
        self.log.answering = rows.first().map(|row| number(&row.conversation.backend()));
        let placed: Vec<Placed> = rows.iter().map(|row| self.place(row)).collect();
        self.input(Input::Appended { append, placed });
        self.log.answering = None;
        true
    }

    fn place(&mut self, row: &NewRow) -> Placed {
        let backend = number(&row.conversation.backend());
        self.log.newest[backend] += 1;
        let seq = routing_core::id::Seq(self.log.newest[backend]);
        let mid = row.body.get("mid").and_then(Value::as_str);
        for message in self.messages.iter_mut().filter(|message| message.backend == backend) {
            if row.kind == "user" && Some(message.mid.as_str()) == mid {
                message.seq = Some(seq);
            }
            if message.seq.is_some_and(|seq| row.settles.contains(&seq)) && message.stands != Stands::Dropped {
                message.stands = Stands::Settled;
            }
        }
        Placed { seq, duplicate: false, differs: false }
    }

    fn tab_of(&self, socket: SocketId) -> Option<usize> {
        self.tabs.iter().position(|tab| tab.socket == Some(socket))
    }

    fn cause(&self, input: &Input) -> Cause {
        let all: Vec<usize> = (0..BACKENDS.len()).collect();
        let of = |backend: &Backend| vec![number(backend)];
        let plain = |backends| Cause { backends, quiet: false, greeting: false, call: None };
        match input {
            Input::SocketOpened { .. } | Input::SocketClosed { .. } => Cause { quiet: true, ..plain(Vec::new()) },
            Input::Frame { socket, text } => {
                let is = |kind: &str| text.contains(&format!("\"type\":\"{kind}\""));
                let mut backends: Vec<usize> =
                    self.tab_of(*socket).map(|tab| self.tabs[tab].backend).into_iter().collect();
                let about = |call: &Call| call.rids.iter().any(|rid| text.contains(&format!("\"{rid}\"")));
                let answered = |call: &&Call| about(call);
                backends.extend(self.calls.values().filter(answered).map(|call| call.backend));
                let hello = is("hello");
                Cause { backends, quiet: hello, greeting: hello || is("set_backend"), call: None }
            }
            Input::Appended { .. } => plain(self.log.answering.map_or(all, |backend| vec![backend])),
            Input::AppendFailed { .. }
            | Input::LogTrouble { .. }
            | Input::WallClock { .. }
            | Input::Backends { .. }
            | Input::RunsSeen { .. }
            | Input::JobBegun { .. }
            | Input::ComfyuiDown { .. }
            | Input::Tick => plain(all),
            Input::Recalled { backend, .. }
            | Input::AgentReady { backend, .. }
            | Input::AgentFailed { backend, .. }
            | Input::Agent { backend, .. }
            | Input::Merged { backend, .. }
            | Input::Forgotten { backend, .. }
            | Input::Restore { backend, .. }
            | Input::Notice { backend, .. } => plain(of(backend)),
            Input::ToolCall { backend, call: CallId(call), .. } => Cause { call: Some(*call), ..plain(of(backend)) },
        }
    }

    fn output(&mut self, cause: &Cause, output: Output, refused: &mut Vec<(Call, Refusal)>) {
        let touches_agent = matches!(
            output,
            Output::Wake { .. }
                | Output::Prompt { .. }
                | Output::Interrupt { .. }
                | Output::Retire { .. }
                | Output::Forget { .. }
                | Output::SetModel { .. }
                | Output::ResumeHint { .. }
        );
        if cause.quiet && touches_agent {
            self.breaks(Invariant::Steady, format!("{output:?}"));
        }
        match output {
            Output::Send { sockets, frame: FromDaemon::Command(frame) } => self.commanded(cause, &sockets, frame),
            Output::Send { sockets, frame: FromDaemon::Typed(frame) } => self.sent(cause, &sockets, &frame),
            Output::Send { frame: FromDaemon::Unknown(_), .. } | Output::Close { .. } | Output::Log { .. } => {}
            Output::Replay { socket, conversation, .. } => {
                let fits = self.tab_of(socket).is_some_and(|tab| {
                    conversation == ConversationKey::of(&super::world::name(self.tabs[tab].backend))
                });
                if !fits {
                    self.breaks(Invariant::Frames, format!("replay of {conversation} to {socket}"));
                }
            }
            Output::Append { append, rows, .. } => self.append(append, rows),
            Output::Wake { backend, turn } => {
                let agent = &mut self.agents[number(&backend)];
                match agent.doing {
                    Doing::Off | Doing::Idle if !agent.clearing => agent.doing = Doing::Waking(turn),
                    Doing::Waking(_) if agent.given_up => {
                        agent.given_up = false;
                        agent.later = Some(turn);
                    }
                    doing => self.breaks(Invariant::Once, format!("{backend} woken while {doing:?}")),
                }
            }
            Output::Prompt { backend, turn, text } => self.prompted(number(&backend), turn, &text),
            Output::Interrupt { backend } => self.agents[number(&backend)].stop = true,
            Output::Retire { backend } => {
                let agent = &mut self.agents[number(&backend)];
                let busy = agent.turn().is_some();
                agent.doing = Doing::Off;
                if busy {
                    self.breaks(Invariant::Steady, format!("{backend} was retired in its turn"));
                }
            }
            Output::Forget { backend, .. } => self.forgets(number(&backend)),
            // Nobody in the model looks back.
            Output::ResumeHint { .. }
            | Output::SetModel { .. }
            | Output::Recall { .. }
            | Output::Look { .. }
            | Output::WatchRun { .. }
            | Output::BeginJob { .. }
            | Output::UnwatchRun { .. }
            | Output::LookAtRuns { .. } => {}
            Output::Answer { call, outcome } => self.answered(call.0, &outcome, refused),
        }
    }

    fn append(&mut self, append: u64, rows: Vec<NewRow>) {
        for row in rows.iter().filter(|row| row.kind == "turn_end") {
            let agent = &mut self.agents[number(&row.conversation.backend())];
            let of = |turn: &TurnId| row.body["turn"] == serde_json::json!(turn);
            if matches!(&agent.doing, Doing::Waking(turn) if of(turn)) || agent.later.as_ref().is_some_and(of) {
                agent.given_up = true;
            }
        }
        for row in rows.iter().filter(|row| row.kind == "turn_end" && row.body["outcome"] == "put_back") {
            let backend = number(&row.conversation.backend());
            self.saw(Sight::PutBack);
            for message in self.messages.iter_mut().filter(|one| one.backend == backend) {
                let named = row.body["mids"].as_array().is_some_and(|mids| mids.contains(&message.mid.as_str().into()));
                if named && message.stands == Stands::Taken {
                    message.stands = Stands::Waiting;
                }
            }
        }
        self.log.open.push_back((append, rows));
    }

    /// New chat took effect: nothing of before may come back.
    fn forgets(&mut self, backend: usize) {
        self.saw(Sight::Cleared);
        self.agents[backend] = super::agent::Agent { clearing: true, ..Default::default() };
        for message in self.messages.iter_mut().filter(|one| one.backend == backend) {
            if message.stands != Stands::Settled {
                message.stands = Stands::Dropped;
            }
        }
    }

    /// Frames of a conversation (invariant 8).
    fn sent(&mut self, cause: &Cause, sockets: &[SocketId], frame: &DaemonFrame) {
        let mut tabs = Vec::new();
        for socket in sockets {
            match self.tab_of(*socket) {
                Some(tab) => tabs.push(tab),
                None => self.breaks(Invariant::Frames, format!("{} to a socket that is gone", frame.kind())),
            }
        }
        match frame {
            DaemonFrame::Welcome(welcome) => {
                if let Some(tab) = tabs.first().copied()
                    && self.tabs[tab].key != welcome.tab
                {
                    self.breaks(Invariant::Steady, format!("tab {tab} became {}", welcome.tab));
                }
            }
            DaemonFrame::Say(_)
            | DaemonFrame::Stream(_)
            | DaemonFrame::Action(_)
            | DaemonFrame::Turn(_)
            | DaemonFrame::Session(_)
            | DaemonFrame::TurnAnchor(_)
            | DaemonFrame::AgentStatus(_)
            | DaemonFrame::Entry(_)
            | DaemonFrame::Transcript(_)
            | DaemonFrame::WorkflowTarget(_) => self.check_audience(cause, &mut tabs, frame.kind()),
            DaemonFrame::SessionEpoch(_)
            | DaemonFrame::Models(_)
            | DaemonFrame::Backends(_)
            | DaemonFrame::ComfyuiTarget(_)
            | DaemonFrame::Ack(_)
            | DaemonFrame::Nack(_)
            | DaemonFrame::Echo(_)
            | DaemonFrame::HistoryList(_)
            | DaemonFrame::HistoryTranscript(_)
            | DaemonFrame::HistoryFound(_)
            | DaemonFrame::HistoryExport(_)
            | DaemonFrame::AskClosed(_)
            | DaemonFrame::DownloadProgress(_)
            | DaemonFrame::Overloaded(_) => {}
        }
    }

    fn check_audience(&mut self, cause: &Cause, tabs: &mut Vec<usize>, kind: &str) {
        let Some(backend) = tabs.first().map(|tab| self.tabs[*tab].backend) else { return };
        let foreign = !cause.backends.contains(&backend) || tabs.iter().any(|tab| self.tabs[*tab].backend != backend);
        tabs.sort_unstable();
        let incomplete = !cause.greeting && *tabs != self.connected(backend);
        if foreign || incomplete {
            self.breaks(Invariant::Frames, format!("{kind} of {:?} went to tabs {tabs:?}", cause.backends));
        }
    }

    /// A command on its way to a tab (invariants 2 and 4).
    fn commanded(&mut self, cause: &Cause, sockets: &[SocketId], frame: CommandFrame) {
        let Some(tab) = sockets.first().and_then(|socket| self.tab_of(*socket)).filter(|_| sockets.len() == 1) else {
            return self.breaks(Invariant::Frames, format!("{} to {sockets:?}", frame.cmd));
        };
        match cause.call.or_else(|| self.find_call(tab, &frame)) {
            Some(number) => self.check_command(number, tab, &frame),
            // What the picker asks.
            None if frame.cmd == "workflow_list" => {}
            None => self.breaks(Invariant::Once, format!("{} that nobody called", frame.cmd)),
        }
        self.arrives(tab, frame);
    }

    /// The call that waited for its tab: told by its arguments, else the oldest of its kind.
    fn find_call(&self, tab: usize, frame: &CommandFrame) -> Option<u64> {
        // What became of a dispatch is asked by its own id.
        let asks = |call: &Call| frame.retry_of.as_ref().is_some_and(|first| call.rids.contains(first));
        if let Some((number, _)) = self.calls.iter().find(|(_, call)| asks(call)) {
            return Some(*number);
        }
        let given = |name: &str| frame.args.get(name).and_then(Value::as_u64);
        let fits = |number: u64, call: &Call| match frame.cmd.as_str() {
            "graph_set_widget" => {
                matches!(call.kind, Kind::Write | Kind::Retry) && given("value") == Some(call.operation)
            }
            "graph_outline" => call.kind == Kind::Read && given("max_chars").is_none_or(|chars| chars == 1000 + number),
            "workflow_open" => matches!(call.kind, Kind::Open(_)) && call.rids.is_empty(),
            "workflow_new" => call.kind == Kind::New && call.rids.is_empty(),
            _ => false,
        };
        let here = Some(tab);
        let expected = |call: &Call| {
            let aims = [&call.aim, &call.also];
            call.kind.tab() == here || aims.iter().any(|aim| aim.as_ref().map(|aim| aim.tab) == here)
        };
        // Two calls of one kind may wait for two tabs: first those that are expected here.
        let likely = |call: &Call| (call.backend != self.tabs[tab].backend, !expected(call));
        let fitting = self.calls.iter().filter(|(number, call)| fits(**number, call));
        fitting.min_by_key(|(number, call)| (likely(call), **number)).map(|(number, _)| *number)
    }

    fn check_command(&mut self, number: u64, tab: usize, frame: &CommandFrame) {
        let Some(call) = self.calls.get_mut(&number) else {
            return self.breaks(Invariant::Once, format!("{} of call {number}, which was answered", frame.cmd));
        };
        let waited = call.parked;
        call.rids.push(frame.rid.clone());
        let call = call.clone();
        if waited {
            self.saw(Sight::Waited);
        }
        if frame.retry_of.is_some() {
            self.saw(Sight::Retried);
        }
        if self.tabs[tab].backend != call.backend {
            let how = format!("{} of {} went to tab {tab}", frame.cmd, BACKENDS[call.backend]);
            return self.breaks(Invariant::Ownership, how);
        }
        let agent = &self.agents[call.backend];
        let own_move = agent.aim.clone().filter(|_| call.turn.is_some() && agent.turn() == call.turn);
        let allowed: Vec<Aim> = [call.aim.clone(), call.also.clone(), own_move].into_iter().flatten().collect();
        let only = self.connected(call.backend) == [tab];
        let in_turn = call.turn.is_some();
        let tab_fits = !in_turn || allowed.iter().any(|aim| aim.tab == tab) || call.kind == Kind::Retry;
        let fits = match command::by_cmd(&frame.cmd).map(|spec| spec.effect) {
            Some(Effect::View | Effect::Write) => match &frame.workflow_uuid {
                Some(stamp) => tab_fits && allowed.iter().any(|aim| aim.uuid == *stamp),
                None => tab_fits || allowed.is_empty(),
            },
            Some(Effect::Navigate | Effect::Query) if call.kind.moves() => match call.kind.tab() {
                Some(named) => named == tab,
                None => tab_fits || only,
            },
            Some(Effect::Navigate | Effect::Query | Effect::Server | Effect::Ask) | None => true,
        };
        if !fits {
            let how = format!(
                "{} stamped {:?} went to tab {tab}; its turn {:?} is for {allowed:?}",
                frame.cmd, frame.workflow_uuid, call.turn
            );
            self.breaks(Invariant::Turn, how);
        }
    }

    fn answered(&mut self, number: u64, outcome: &Result<Value, Refusal>, refused: &mut Vec<(Call, Refusal)>) {
        let Some(call) = self.calls.remove(&number) else {
            return self.breaks(Invariant::Once, format!("call {number} was answered twice"));
        };
        if self.inside {
            self.heard.insert(number, outcome.as_ref().map(|_| ()).map_err(Clone::clone));
        }
        match outcome {
            Ok(_) => {
                if call.kind == Kind::Write {
                    self.saw(Sight::Applied);
                }
                if call.kind.moves() {
                    self.moved(&call);
                }
            }
            Err(refusal) => {
                self.note_refusal(&call, refusal);
                if !self.inside && refusal.remedy().is_some() {
                    refused.push((call, refusal.clone()));
                }
            }
        }
    }

    /// The agent itself re-targeted: its turn, or, between turns, what the last one was for.
    fn moved(&mut self, call: &Call) {
        let Some(ran) = call.ran.clone() else {
            return self.breaks(Invariant::Turn, format!("{:?} succeeded, and no panel proved it", call.kind));
        };
        // A tab that went over in the meantime is nobody's target here.
        if self.tabs[ran.tab].backend != call.backend {
            return;
        }
        let agent = &mut self.agents[call.backend];
        if call.turn.is_some() && agent.turn() == call.turn {
            agent.aim = Some(ran.clone());
            agent.last = Some(ran.clone());
            for open in self.calls.values_mut().filter(|open| open.turn == call.turn && open.backend == call.backend) {
                open.also = Some(ran.clone());
            }
        } else if agent.turn().is_none() {
            agent.last = Some(ran);
        }
    }

    fn note_refusal(&mut self, call: &Call, refusal: &Refusal) {
        match refusal {
            Refusal::WorkflowInstanceMismatch { .. } if !call.rids.is_empty() => self.saw(Sight::FencedInPanel),
            Refusal::WorkflowInstanceMismatch { .. } => self.saw(Sight::FencedInDaemon),
            Refusal::WorkflowMismatch { .. } => self.saw(Sight::Guarded),
            Refusal::TargetGone { .. } => self.saw(Sight::TargetGone),
            Refusal::TargetAmbiguous { .. } => self.saw(Sight::Ambiguous),
            Refusal::TargetNotActive { .. } | Refusal::TargetNotOpen { .. } => self.saw(Sight::PinRefused),
            Refusal::NotOwner { .. } => {
                self.saw(Sight::NotOwner);
                let agent = &mut self.agents[call.backend];
                // Once lost, a turn's tab does not come back by itself (rule T7). A re-target asks for another one and
                // makes no use of it.
                let uses_pin = matches!(call.kind, Kind::Write | Kind::Read | Kind::Open(None) | Kind::New);
                if uses_pin && agent.turn() == call.turn {
                    agent.aim = None;
                    agent.last = None;
                }
            }
            Refusal::NoTab { deferred: true } => {
                self.saw(Sight::Armed);
                self.agents[call.backend].armed = true;
            }
            Refusal::UnknownOutcome { token } => {
                self.saw(Sight::Unknown);
                if matches!(call.kind, Kind::Write | Kind::Retry) {
                    self.doubtful = Some((call.operation, token.as_str().to_owned()));
                }
            }
            Refusal::NoTab { .. }
            | Refusal::TargetNameAmbiguous { .. }
            | Refusal::TargetUndetermined
            | Refusal::Superseded
            | Refusal::Blind
            | Refusal::NoReply { .. }
            | Refusal::BadReply { .. }
            | Refusal::Failed { .. }
            | Refusal::BadArguments { .. }
            | Refusal::UnknownCommand { .. }
            | Refusal::PanelTooOld
            | Refusal::StillRunning { .. }
            | Refusal::ConversationClosed
            | Refusal::Overloaded { .. } => {}
        }
    }

    /// A re-target that was kept is applied to the first tab that comes.
    pub(super) fn apply_kept(&mut self, tab: usize) {
        let backend = self.tabs[tab].backend;
        let aim = Aim { tab, uuid: self.tabs[tab].front().uuid.clone() };
        let agent = &mut self.agents[backend];
        if !std::mem::take(&mut agent.armed) {
            return;
        }
        if let Some(turn) = agent.turn() {
            agent.aim = Some(aim.clone());
            for open in self.calls.values_mut().filter(|open| open.turn == Some(turn) && open.backend == backend) {
                open.also = Some(aim.clone());
            }
        }
        self.agents[backend].last = Some(aim);
    }
}
