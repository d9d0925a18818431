//! A browser tab: its workflows, its socket, the commands that reached it, and what it does with them. It applies guard
//! and fence at execution with the functions that the real panel uses, and answers retries from a ledger.

use super::watch::Invariant;
use super::world::{Aim, BACKENDS, World};
use routing_core::frame::{CommandFrame, WorkflowIdentity};
use routing_core::id::{Rid, SocketId, TabKey, WorkflowUuid};
use routing_core::path::WorkflowPath;
use routing_core::refusal::Refusal;
use routing_core::router::Input;
use routing_core::{command, fence, guard};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// An open workflow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Its instance.
    pub uuid: WorkflowUuid,
    /// Where it is saved.
    pub path: Option<WorkflowPath>,
}

/// What a panel's ledger knows of a command with an effect. No entry: it was not applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Known {
    /// It was applied, and this was in front then.
    Ran(WorkflowIdentity),
    /// It was begun in a page that is gone.
    Lost,
    /// A repetition stands for it.
    As(Rid),
}

/// A browser tab.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tab {
    /// Its connection.
    pub socket: Option<SocketId>,
    /// Which conversation it takes part in.
    pub backend: usize,
    /// Open workflows.
    pub flows: Vec<Flow>,
    /// Index of the one in front.
    pub front: usize,
    /// Commands that it has not carried out.
    pub inbox: VecDeque<CommandFrame>,
    /// The router's name of it, from the welcome.
    pub key: TabKey,
    /// What became of commands with an effect.
    pub(super) ledger: BTreeMap<Rid, Known>,
    generation: u8,
}

fn flows(tab: usize, generation: u8) -> Vec<Flow> {
    ["w1", "w2"]
        .iter()
        .map(|name| Flow {
            uuid: WorkflowUuid::new(format!("{tab}{name}{generation}")),
            path: WorkflowPath::parse(name).ok(),
        })
        .collect()
}

impl Tab {
    pub(super) fn new(tab: usize, backend: usize) -> Self {
        Self {
            socket: None,
            backend,
            flows: flows(tab, 0),
            front: 0,
            inbox: VecDeque::new(),
            key: TabKey::new(format!("t{}", tab + 1)),
            ledger: BTreeMap::new(),
            generation: 0,
        }
    }

    /// The workflow in front.
    pub fn front(&self) -> &Flow {
        &self.flows[self.front]
    }

    fn identity(flow: &Flow) -> WorkflowIdentity {
        let handle = flow.path.as_ref().map_or_else(|| format!("tmp:{}", flow.uuid), WorkflowPath::handle);
        WorkflowIdentity {
            uuid: flow.uuid.clone(),
            path: flow.path.clone(),
            handle,
            title: String::new(),
            canvas: None,
        }
    }

    fn admits(&self, frame: &CommandFrame, fence_is_off: bool) -> Result<(), Refusal> {
        if fence_is_off {
            return Ok(());
        }
        let front = Self::identity(self.front());
        guard::check(frame.workflow_path.as_deref(), Some(&front))?;
        fence::check(&frame.cmd, frame.args.contains_key("path"), frame.workflow_uuid.as_ref(), Some(&front.uuid))
    }
}

impl World {
    /// The tab connects and says hello. A reload makes new instances of its workflows.
    pub(super) fn join(&mut self, tab: usize, reload: bool) {
        self.next_socket += 1;
        let socket = SocketId(self.next_socket);
        let one = &mut self.tabs[tab];
        one.socket = Some(socket);
        if reload {
            one.generation += 1;
            one.flows = flows(tab, one.generation);
            one.front = 0;
            one.inbox.clear();
            one.ledger.retain(|_, known| matches!(known, Known::Ran(_) | Known::Lost));
            one.ledger.values_mut().for_each(|known| *known = Known::Lost);
        }
        self.apply_kept(tab);
        self.input(Input::SocketOpened { socket, viewer: false, comfyui: None });
        self.hello(tab);
    }

    pub(super) fn hello(&mut self, tab: usize) {
        let one = &self.tabs[tab];
        let hello = json!({
            "type": "hello", "protocol": 1, "tab_id": format!("browser-{tab}"), "backend": BACKENDS[one.backend],
            "workflow": Tab::identity(one.front()),
        });
        self.says(tab, &hello);
    }

    /// A frame of the panel reaches the router.
    pub(super) fn says(&mut self, tab: usize, frame: &Value) {
        if let Some(socket) = self.tabs[tab].socket {
            self.input(Input::Frame { socket, text: frame.to_string() });
        }
    }

    /// The connection is lost. `kept`: what was on its way has arrived all the same.
    pub(super) fn cut(&mut self, tab: usize, kept: bool) {
        let Some(socket) = self.tabs[tab].socket.take() else { return };
        if !kept {
            self.tabs[tab].inbox.clear();
        }
        self.input(Input::SocketClosed { socket });
    }

    /// The person brings another workflow to the front.
    pub(super) fn switch(&mut self, tab: usize) {
        let one = &mut self.tabs[tab];
        one.front = (one.front + 1) % one.flows.len();
        self.hello(tab);
    }

    /// A command arrives, and waits for its turn.
    pub(super) fn arrives(&mut self, tab: usize, frame: CommandFrame) {
        self.tabs[tab].inbox.push_back(frame);
    }

    /// The panel carries out the next command and answers, if it has a connection.
    pub(super) fn execute(&mut self, tab: usize) {
        let Some(frame) = self.tabs[tab].inbox.pop_front() else { return };
        let reply = match self.carry_out(tab, &frame) {
            Ok((result, front)) => json!({"rid": frame.rid, "ok": true, "result": result, "workflow": front}),
            Err(refusal) => json!({"rid": frame.rid, "ok": false, "refusal": refusal.to_wire()}),
        };
        self.says(tab, &reply);
    }

    /// What the ledger answers instead of a second effect.
    fn known(&self, tab: usize, frame: &CommandFrame) -> Option<Result<(Value, WorkflowIdentity), Refusal>> {
        let first = frame.retry_of.as_ref()?;
        let ledger = &self.tabs[tab].ledger;
        let mut known = ledger.get(first)?;
        while let Known::As(next) = known {
            known = ledger.get(next)?;
        }
        Some(match known {
            Known::Ran(front) => Ok((json!({}), front.clone())),
            Known::Lost => Err(Refusal::UnknownOutcome { token: first.clone() }),
            Known::As(_) => Err(Refusal::StillRunning { token: first.clone(), busy: None }),
        })
    }

    fn carry_out(&mut self, tab: usize, frame: &CommandFrame) -> Result<(Value, WorkflowIdentity), Refusal> {
        if let Some(known) = self.known(tab, frame) {
            return known;
        }
        let result = self.apply(tab, frame)?;
        let front = Tab::identity(self.tabs[tab].front());
        if command::by_cmd(&frame.cmd).is_some_and(|spec| spec.retry == command::Retry::Token) {
            let ledger = &mut self.tabs[tab].ledger;
            ledger.insert(frame.rid.clone(), Known::Ran(front.clone()));
            if let Some(first) = &frame.retry_of {
                ledger.insert(first.clone(), Known::As(frame.rid.clone()));
            }
        }
        let ran = Aim { tab, uuid: front.uuid.clone() };
        for call in self.calls.values_mut().filter(|call| call.rids.contains(&frame.rid)) {
            call.ran = Some(ran.clone());
        }
        // The reply must not overtake the hello that tells of the same change.
        if matches!(frame.cmd.as_str(), "workflow_open" | "workflow_new") {
            self.hello(tab);
        }
        Ok((result, front))
    }

    fn apply(&mut self, tab: usize, frame: &CommandFrame) -> Result<Value, Refusal> {
        let fence_is_off = self.broken.contains("g5");
        self.tabs[tab].admits(frame, fence_is_off)?;
        let front = self.tabs[tab].front().uuid.clone();
        if command::is_fenced(&frame.cmd, frame.args.contains_key("path"))
            && frame.workflow_uuid.as_ref() != Some(&front)
        {
            let how = format!("{} stamped {:?} ran on {front}", frame.cmd, frame.workflow_uuid);
            self.breaks(Invariant::Instance, how);
        }
        let result = match frame.cmd.as_str() {
            "graph_set_widget" => {
                let operation = frame.args.get("value").and_then(Value::as_u64).unwrap_or_default();
                *self.applied.entry(operation).or_default() += 1;
                if self.applied.get(&operation).is_some_and(|times| *times > 1) {
                    self.breaks(Invariant::Once, format!("write {operation} was applied twice"));
                }
                json!({})
            }
            "workflow_open" => {
                let wanted = frame.args.get("path").and_then(Value::as_str).unwrap_or_default();
                let found = self.tabs[tab].flows.iter().position(|flow| Tab::identity(flow).answers_to(wanted));
                let Some(found) = found else {
                    let message = format!("there is no `{wanted}`");
                    return Err(Refusal::Failed { failure: "not_found".to_owned(), message });
                };
                self.tabs[tab].front = found;
                json!({})
            }
            "workflow_new" => {
                self.next_flow += 1;
                let uuid = WorkflowUuid::new(format!("{tab}n{}", self.next_flow));
                let one = &mut self.tabs[tab];
                one.flows.push(Flow { uuid, path: None });
                one.front = one.flows.len() - 1;
                json!({})
            }
            "workflow_list" => {
                let one = &self.tabs[tab];
                let list: Vec<Value> = one
                    .flows
                    .iter()
                    .enumerate()
                    .map(|(at, flow)| {
                        let mut told = json!(Tab::identity(flow));
                        told["active"] = json!(at == one.front);
                        told
                    })
                    .collect();
                json!({"workflows": list})
            }
            _ => json!({}),
        };
        Ok(result)
    }
}
