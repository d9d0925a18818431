//! An agent and its tool calls, with the model's own account of what each turn is for.

use super::watch::{Invariant, Sight};
use super::world::{Aim, Stands, World, name};
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::id::{CallId, Rid, TurnId};
use routing_core::router::Input;
use serde_json::{Map, Value, json};

/// What an agent calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A change of the canvas.
    Write,
    /// A look at the canvas.
    Read,
    /// `panel_set_workflow_target {mode: current}`.
    Current,
    /// The same, naming a tab.
    CurrentIn(usize),
    /// `panel_set_workflow_target {mode: pinned, path}`: the second workflow, in a tab or in the turn's.
    Pinned(Option<usize>),
    /// `panel_open_workflow`: the second workflow, in a tab or in the turn's.
    Open(Option<usize>),
    /// `panel_new_workflow`.
    New,
    /// `panel_list_workflows`.
    List,
    /// The last write of unknown outcome again, with its token.
    Retry,
}

impl Kind {
    /// The tab that it names.
    pub(super) fn tab(self) -> Option<usize> {
        match self {
            Self::CurrentIn(tab) => Some(tab),
            Self::Pinned(tab) | Self::Open(tab) => tab,
            Self::Write | Self::Read | Self::Current | Self::New | Self::List | Self::Retry => None,
        }
    }

    /// The same without the tab.
    pub(super) fn anywhere(self) -> Self {
        match self {
            Self::CurrentIn(_) | Self::Current => Self::Current,
            Self::Pinned(_) => Self::Pinned(None),
            Self::Open(_) => Self::Open(None),
            Self::Write | Self::Read | Self::New | Self::List => self,
            // A refusal proves that nothing was applied: a retry is then a call like the first one.
            Self::Retry => Self::Write,
        }
    }

    /// Its success moves the turn's target (rule T12).
    pub(super) fn moves(self) -> bool {
        match self {
            Self::Current | Self::CurrentIn(_) | Self::Pinned(_) | Self::Open(_) | Self::New => true,
            Self::Write | Self::Read | Self::List | Self::Retry => false,
        }
    }
}

/// A call without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Whose.
    pub backend: usize,
    /// What.
    pub kind: Kind,
    /// The turn that it belongs to; `None`: between turns.
    pub turn: Option<TurnId>,
    /// What that turn was for when it was issued.
    pub aim: Option<Aim>,
    /// What the agent itself chose for that turn since.
    pub also: Option<Aim>,
    /// It was not sent at once.
    pub parked: bool,
    /// Its dispatches: the first, and those by which the router asks what became of it.
    pub rids: Vec<Rid>,
    /// Where it was carried out, and what was in front afterwards.
    pub ran: Option<Aim>,
    /// The write that it is, also when it is a retry.
    pub operation: u64,
}

/// What an agent is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    /// It is not there.
    #[default]
    Off,
    /// It is made ready for a turn.
    Waking(TurnId),
    /// It was given a prompt.
    Turn(TurnId),
    /// It is there and has nothing to do.
    Idle,
}

/// An agent, and what its turn is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Agent {
    pub(super) doing: Doing,
    /// It was told to stop.
    pub(super) stop: bool,
    /// The turn that it is made ready for was stopped already.
    pub(super) given_up: bool,
    /// The turn that it is to be ready for next: one that was woken when the one before it was given up.
    pub(super) later: Option<TurnId>,
    /// What the running turn is for, from the messages in its prompt and its own re-targets.
    pub(super) aim: Option<Aim>,
    /// The same of the last turn.
    pub(super) last: Option<Aim>,
    /// A re-target that was accepted for later.
    pub(super) armed: bool,
    /// It is being cleared.
    pub(super) clearing: bool,
}

impl Agent {
    pub(super) fn turn(&self) -> Option<TurnId> {
        match self.doing {
            Doing::Turn(turn) => Some(turn),
            Doing::Off | Doing::Waking(_) | Doing::Idle => None,
        }
    }
}

impl World {
    /// The agent calls a tool. Returns the call's number.
    pub(super) fn call(&mut self, backend: usize, kind: Kind) -> u64 {
        self.next_call += 1;
        let number = self.next_call;
        let tab = kind.tab().map(|tab| json!(self.tabs[tab].key));
        let doubtful = self.doubtful.clone();
        let operation = match (kind, &doubtful) {
            (Kind::Retry, Some((operation, _))) => *operation,
            _ => number,
        };
        let (tool, mut arguments) = match kind {
            Kind::Write => ("panel_set_widget", json!({"node_id": 1, "widget": "w", "value": number})),
            Kind::Retry => (
                "panel_set_widget",
                json!({"node_id": 1, "widget": "w", "value": operation, "retry_of": doubtful.map(|(_, token)| token)}),
            ),
            Kind::Read => ("panel_graph_outline", json!({"max_chars": 1000 + number})),
            Kind::Current | Kind::CurrentIn(_) => ("panel_set_workflow_target", json!({"mode": "current"})),
            Kind::Pinned(_) => ("panel_set_workflow_target", json!({"mode": "pinned", "path": "workflows/w2.json"})),
            Kind::Open(_) => ("panel_open_workflow", json!({"path": "workflows/w2.json"})),
            Kind::New => ("panel_new_workflow", json!({})),
            Kind::List => ("panel_list_workflows", json!({})),
        };
        if let (Some(tab), Value::Object(map)) = (tab, &mut arguments) {
            map.insert("tab".to_owned(), tab);
        }
        let Value::Object(arguments) = arguments else { return number };
        let kept = Call { operation, ..self.fresh(backend, kind) };
        self.send_call(number, kept, tool, arguments);
        number
    }

    /// A call with a tool and arguments that a refusal named.
    pub(super) fn call_named(&mut self, backend: usize, tool: &str, arguments: Map<String, Value>) -> u64 {
        self.next_call += 1;
        let number = self.next_call;
        let kind = match tool {
            "panel_set_workflow_target" => Kind::Current,
            "panel_open_workflow" => Kind::Open(None),
            "panel_graph_outline" => Kind::Read,
            _ => Kind::List,
        };
        let named = arguments.get("tab").and_then(Value::as_str).map(str::to_owned);
        let tab = self.tabs.iter().position(|tab| Some(tab.key.as_str()) == named.as_deref());
        let kind = match (kind, tab) {
            (Kind::Current, Some(tab)) => Kind::CurrentIn(tab),
            (Kind::Open(_), tab) => Kind::Open(tab),
            (kind, _) => kind,
        };
        let kept = Call { operation: number, ..self.fresh(backend, kind) };
        self.send_call(number, kept, tool, arguments);
        number
    }

    fn fresh(&self, backend: usize, kind: Kind) -> Call {
        let agent = &self.agents[backend];
        let turn = agent.turn();
        let aim = if turn.is_some() { agent.aim.clone() } else { agent.last.clone() };
        Call { backend, kind, turn, aim, also: None, parked: false, rids: Vec::new(), ran: None, operation: 0 }
    }

    fn send_call(&mut self, number: u64, call: Call, tool: &str, arguments: Map<String, Value>) {
        let backend = call.backend;
        self.calls.insert(number, call);
        let call = CallId(number);
        self.input(Input::ToolCall { backend: name(backend), call, tool: tool.to_owned(), arguments });
        if let Some(open) = self.calls.get_mut(&number) {
            open.parked = open.rids.is_empty();
        }
    }

    /// The turn that the agent was made ready for. What it does now: that, or being made ready for the next one.
    fn woken(&mut self, backend: usize, then: Doing) -> Option<TurnId> {
        let agent = &mut self.agents[backend];
        let Doing::Waking(turn) = agent.doing else { return None };
        agent.given_up = false;
        agent.doing = agent.later.take().map_or(then, Doing::Waking);
        Some(turn)
    }

    pub(super) fn ready(&mut self, backend: usize) {
        let Some(turn) = self.woken(backend, Doing::Idle) else { return };
        self.input(Input::AgentReady { backend: name(backend), turn });
    }

    pub(super) fn fails(&mut self, backend: usize) {
        let Some(turn) = self.woken(backend, Doing::Off) else { return };
        let (code, message) = ("not_found".to_owned(), "no such program".to_owned());
        self.input(Input::AgentFailed { backend: name(backend), turn, may_pass: true, code, message });
    }

    /// The agent takes everything that waits into its running turn.
    pub(super) fn merges(&mut self, backend: usize) {
        let waiting: Vec<usize> = (0..self.messages.len())
            .filter(|at| {
                let message = &self.messages[*at];
                message.backend == backend && message.stands == Stands::Waiting && message.seq.is_some()
            })
            .collect();
        let mids = waiting.iter().map(|at| self.messages[*at].mid.clone()).collect();
        for at in waiting {
            self.messages[at].stands = Stands::Taken;
        }
        let aim = self.aim_of_batch(backend);
        if aim.is_none() {
            self.saw(Sight::MixedTurn);
            self.agents[backend].aim = None;
            self.agents[backend].last = None;
        }
        self.input(Input::Merged { backend: name(backend), mids });
    }

    /// What the messages of the running turn are for: one origin, whose tab is still of this conversation.
    pub(super) fn aim_of_batch(&self, backend: usize) -> Option<Aim> {
        let mut taken = self.messages.iter().filter(|one| one.backend == backend && one.stands == Stands::Taken);
        let first = taken.next()?.origin.clone();
        let one = taken.all(|other| other.origin == first) && self.tabs[first.tab].backend == backend;
        one.then_some(first)
    }

    pub(super) fn ends(&mut self, backend: usize) {
        let agent = &mut self.agents[backend];
        let outcome = if agent.stop { TurnOutcome::Interrupted } else { TurnOutcome::Completed };
        agent.doing = Doing::Idle;
        agent.stop = false;
        agent.last = agent.aim.clone();
        self.input(Input::Agent { backend: name(backend), event: AgentEvent::TurnEnd { outcome, anchor: None } });
    }

    pub(super) fn speaks(&mut self, backend: usize) {
        for event in [
            AgentEvent::Delta { id: "1".to_owned(), text: "x".to_owned() },
            AgentEvent::Text { id: "1".to_owned(), text: "x".to_owned() },
            AgentEvent::Tool { name: "t".to_owned(), detail: String::new() },
        ] {
            self.input(Input::Agent { backend: name(backend), event });
        }
    }

    pub(super) fn cleared(&mut self, backend: usize) {
        self.agents[backend].clearing = false;
        self.input(Input::Forgotten { backend: name(backend), durable: true });
    }

    /// The prompt of a turn: each message in it once, and what the turn is for.
    pub(super) fn prompted(&mut self, backend: usize, turn: TurnId, text: &str) {
        if self.agents[backend].doing != Doing::Idle {
            self.breaks(Invariant::Once, format!("prompt for {turn} while {:?}", self.agents[backend].doing));
        }
        for at in 0..self.messages.len() {
            if !text.contains(&self.messages[at].marker()) {
                continue;
            }
            let message = &self.messages[at];
            if message.backend != backend || message.stands != Stands::Waiting {
                let how = format!("{} was given to {} although {:?}", message.mid, name(backend), message.stands);
                self.breaks(Invariant::Once, how);
            }
            self.messages[at].stands = Stands::Taken;
        }
        let aim = self.aim_of_batch(backend);
        let agent = &mut self.agents[backend];
        agent.doing = Doing::Turn(turn);
        agent.stop = false;
        agent.armed = agent.armed && aim.is_none();
        agent.aim = aim.clone();
        agent.last = aim;
    }
}
