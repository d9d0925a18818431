//! Plays a script: each step is done, and everything that follows from it happens, before the next.

use super::format::{Script, Step};
use super::pattern::{field, fill};
use super::tab::Tab;
use super::world::{Happened, Order, World};
use super::{Failure, Verdict};
use crate::panel::PanelInput;
use crate::target::Target;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is known of an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentSeen {
    pub(super) starts: usize,
    pub(super) stops: usize,
    pub(super) interrupts: usize,
    pub(super) prompts: Vec<String>,
}

/// A script that is being played.
pub(super) struct Stage<'a> {
    script: &'a Script,
    pub(super) world: &'a mut dyn World,
    pub(super) tabs: BTreeMap<String, Tab>,
    pub(super) agents: BTreeMap<String, AgentSeen>,
    pub(super) calls: BTreeMap<String, Option<Result<Value, Value>>>,
    /// Calls that were answered more than once.
    twice: Vec<String>,
    failures: Vec<Failure>,
    digest: u64,
}

impl<'a> Stage<'a> {
    pub(super) fn new(script: &'a Script, world: &'a mut dyn World) -> Self {
        Self {
            script,
            world,
            tabs: script.panels.iter().map(|(name, spec)| (name.clone(), Tab::new(name, spec))).collect(),
            agents: script.agents.iter().map(|name| (name.clone(), AgentSeen::default())).collect(),
            calls: BTreeMap::new(),
            twice: Vec::new(),
            failures: Vec::new(),
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    pub(super) fn play(mut self) -> Verdict {
        for (at, step) in self.script.steps.iter().enumerate() {
            if let Err(seen) = self.step(step) {
                self.failures.push(Failure { step: at, expected: json!(step), seen });
            }
        }
        self.settle();
        for call in std::mem::take(&mut self.twice) {
            let step = self.script.steps.len();
            self.failures.push(Failure { step, expected: json!("one answer"), seen: json!({"answered twice": call}) });
        }
        let calls = self.calls.iter().map(|(name, outcome)| {
            let word = match outcome {
                None => "pending",
                Some(Ok(_)) => "ok",
                Some(Err(refusal)) => refusal.get("code").and_then(Value::as_str).unwrap_or("refused"),
            };
            (name.clone(), word.to_owned())
        });
        Verdict {
            passed: self.failures.is_empty(),
            calls: calls.collect(),
            canvases: self.tabs.iter().map(|(name, tab)| (name.clone(), tab.canvas.told())).collect(),
            digest: format!("{:016x}", self.digest),
            failures: self.failures,
        }
    }

    /// Does one step, or checks it. `Err`: what was seen instead.
    fn step(&mut self, step: &Step) -> Result<(), Value> {
        match step {
            Step::Note(_) => Ok(()),
            Step::Connect { panel } => {
                self.with(panel, |tab, world| tab.connect(world))?;
                self.greeted(panel);
                Ok(())
            }
            Step::Reload { panel, identity, backend } => {
                let (identity, backend) = (identity.clone(), backend.clone());
                self.tab(panel)?.forget();
                self.with(panel, |tab, world| tab.reload(identity, backend, world))?;
                self.greeted(panel);
                Ok(())
            }
            Step::Drop { panel } => self.with(panel, |tab, world| tab.drop_line(world)),
            Step::Say { panel, mid, text, composed_for } => {
                self.say(panel, mid, text, composed_for.as_deref())?;
                let connected = self.tab(panel)?.line().is_some();
                if connected {
                    self.eventually(|stage| {
                        stage.tabs.get(panel).is_some_and(|tab| {
                            tab.all_seen().iter().any(|frame| frame["mid"] == mid.as_str() && frame["type"] != "entry")
                        })
                    });
                }
                Ok(())
            }
            Step::SendNow { panel } => self.input(panel, PanelInput::SendNow),
            Step::Stop { panel } => self.input(panel, PanelInput::Stop),
            Step::Cancel { panel, mid } => self.input(panel, PanelInput::Cancel { mid: mid.as_str().into() }),
            Step::NewChat { panel } => self.input(panel, PanelInput::NewChat),
            Step::SetBackend { panel, backend } => {
                self.input(panel, PanelInput::SetBackend { backend: backend.clone() })
            }
            Step::PickTarget { panel, path } => {
                let target = match path.clone() {
                    None => Target::Current,
                    Some(path) => Target::Pinned { path, filename: None },
                };
                self.input(panel, PanelInput::SetTarget { target })
            }
            Step::Answer { panel, result } => {
                let ask_id = self.tab(panel)?.newest_question().cloned().ok_or_else(|| json!("no question"))?;
                self.input(panel, PanelInput::Answer { ask_id, result: result.clone() })
            }
            Step::Frame { panel, frame } => {
                let frame = self.filled(frame)?;
                let text = frame.as_str().map_or_else(|| frame.to_string(), str::to_owned);
                self.with(panel, |tab, world| tab.raw(&text, world))
            }
            Step::Show { panel, workflow } => self.canvas(panel, |canvas| canvas.show(workflow)),
            Step::Create { panel, workflow } => self.canvas(panel, |canvas| {
                canvas.create(workflow);
                Ok(())
            }),
            Step::Rename { panel, workflow, path } => self.canvas(panel, |canvas| canvas.rename(workflow, path)),
            Step::Load { panel, workflow, nodes } => self.canvas(panel, |canvas| canvas.load(workflow, nodes)),
            Step::Unreadable { panel } => self.canvas(panel, |canvas| {
                canvas.unreadable();
                Ok(())
            }),
            Step::RunEnds { panel, prompt, status } => {
                let prompt = self.filled(&json!(prompt))?;
                let prompt_id = prompt.as_str().unwrap_or_default().into();
                let (status, images) = (status.clone(), Vec::new());
                self.input(panel, PanelInput::RunFinished { prompt_id, status, images, error: None })
            }
            Step::Hold { panel, at } => {
                self.tab(panel)?.hold(*at);
                Ok(())
            }
            Step::Release { panel } => self.with(panel, |tab, world| tab.release(world)),
            Step::Lose { panel } => {
                self.tab(panel)?.lose();
                Ok(())
            }
            Step::Call { agent, id, tool, with } => {
                let with = self.filled(&json!(with))?;
                let arguments = with.as_object().cloned().unwrap_or_default();
                self.calls.insert(id.clone(), None);
                self.order(agent, Order::Call { call: id.clone(), tool: tool.clone(), arguments })
            }
            Step::Speak { agent, text } => self.order(agent, Order::Speak(text.clone())),
            Step::End { agent } => self.order(agent, Order::End),
            Step::Fail { agent, message } => self.order(agent, Order::Fail(message.clone())),
            Step::Merge { agent, mids } => self.order(agent, Order::Merge(mids.clone())),
            Step::SlowStart { agent } => self.order(agent, Order::SlowStart),
            Step::Ready { agent } => self.order(agent, Order::Ready),
            Step::StartFails { agent } => self.order(agent, Order::StartFails),
            Step::Wait { ms } => {
                self.pass(*ms);
                Ok(())
            }
            Step::Restart => {
                self.world.restart();
                self.settle();
                Ok(())
            }
            Step::Forget { panel } => {
                self.settle();
                self.tab(panel)?.forget();
                Ok(())
            }
            Step::Sees { .. }
            | Step::Never { .. }
            | Step::Outcome { .. }
            | Step::Canvas { .. }
            | Step::Prompted { .. }
            | Step::Counts { .. }
            | Step::Connected { .. } => self.expect(step),
        }
    }

    fn say(&mut self, panel: &str, mid: &str, text: &str, composed_for: Option<&str>) -> Result<(), Value> {
        match composed_for {
            None => self
                .input(panel, PanelInput::Send { mid: mid.into(), text: text.to_owned(), context: None, now: false }),
            Some(uuid) => {
                let frame = json!({"type": "user_message", "mid": mid, "text": text, "workflow_uuid": uuid});
                self.with(panel, |tab, world| tab.raw(&frame.to_string(), world))
            }
        }
    }

    /// Waits for the end of a handshake, if there is to be one.
    fn greeted(&mut self, panel: &str) {
        self.eventually(|stage| {
            let Some(tab) = stage.tabs.get(panel) else { return true };
            let over = tab.seen().iter().rev().any(|frame| frame["type"] == "ack" || frame["type"] == "nack");
            over || tab.line().is_none()
        });
    }

    pub(super) fn tab(&mut self, name: &str) -> Result<&mut Tab, Value> {
        self.tabs.get_mut(name).ok_or_else(|| json!(format!("there is no panel {name}")))
    }

    fn with(&mut self, panel: &str, work: impl FnOnce(&mut Tab, &mut dyn World)) -> Result<(), Value> {
        let tab = self.tabs.get_mut(panel).ok_or_else(|| json!(format!("there is no panel {panel}")))?;
        work(tab, self.world);
        self.settle();
        Ok(())
    }

    fn input(&mut self, panel: &str, input: PanelInput) -> Result<(), Value> {
        self.with(panel, |tab, world| {
            tab.input(input, world.now());
            tab.work(world);
        })
    }

    fn canvas(
        &mut self,
        panel: &str,
        change: impl FnOnce(&mut super::canvas::Canvas) -> Result<(), String>,
    ) -> Result<(), Value> {
        change(&mut self.tab(panel)?.canvas).map_err(|words| json!(words))?;
        self.with(panel, |tab, world| tab.canvas_changed(world))
    }

    fn order(&mut self, agent: &str, order: Order) -> Result<(), Value> {
        self.world.order(agent, order).map_err(|words| json!(words))?;
        self.settle();
        Ok(())
    }

    /// Lets time pass, with every deadline of the daemon and of the panels on its way.
    fn pass(&mut self, ms: u64) {
        let until = self.world.now() + ms;
        loop {
            let own = self.tabs.values().filter_map(Tab::deadline);
            let next = own.chain(self.world.deadline()).min().filter(|when| *when < until).unwrap_or(until);
            let next = next.max(self.world.now() + 1).min(until);
            self.world.pass(next);
            self.pump();
            self.tick();
            if self.world.now() >= until {
                break;
            }
        }
        self.settle();
    }

    fn tick(&mut self) {
        let now = self.world.now();
        for tab in self.tabs.values_mut() {
            if tab.deadline().is_some_and(|when| when <= now) {
                tab.input(PanelInput::Tick, now);
                tab.work(self.world);
            }
        }
    }

    /// Takes in everything that has happened.
    fn pump(&mut self) {
        while let Some(happened) = self.world.poll() {
            match happened {
                Happened::Frame { line, text } => {
                    let name = self.tabs.iter().find(|(_, tab)| tab.line() == Some(line)).map(|(name, _)| name.clone());
                    let Some(name) = name else { continue };
                    self.note(&[&name, &text]);
                    if let Some(tab) = self.tabs.get_mut(&name) {
                        tab.frame(line, text, self.world);
                    }
                }
                Happened::Closed { line, code, reason } => {
                    self.note(&["closed", &code.to_string()]);
                    if let Some(tab) = self.tabs.values_mut().find(|tab| tab.line() == Some(line)) {
                        tab.closed(line, code, &reason, self.world);
                    }
                }
                Happened::Started { agent } => self.seen(&agent, |seen| seen.starts += 1),
                Happened::Stopped { agent } => self.seen(&agent, |seen| seen.stops += 1),
                Happened::Interrupted { agent } => self.seen(&agent, |seen| seen.interrupts += 1),
                Happened::Prompted { agent, text } => {
                    self.note(&[&agent, &text]);
                    self.seen(&agent, |seen| seen.prompts.push(text));
                }
                Happened::Answered { call, outcome } => {
                    let told = match &outcome {
                        Ok(result) => result.to_string(),
                        Err(refusal) => refusal.to_string(),
                    };
                    self.note(&[&call, &told]);
                    if let Some(Some(_)) = self.calls.insert(call.clone(), Some(outcome)) {
                        self.twice.push(call);
                    }
                }
            }
        }
    }

    fn seen(&mut self, agent: &str, change: impl FnOnce(&mut AgentSeen)) {
        change(self.agents.entry(agent.to_owned()).or_default());
    }

    /// Until nothing more is under way.
    pub(super) fn settle(&mut self) {
        loop {
            self.pump();
            self.tick();
            if !self.world.rest(self.world.quiet()) {
                return;
            }
        }
    }

    /// Until something holds, or it has had its time.
    pub(super) fn eventually(&mut self, holds: impl Fn(&Self) -> bool) -> bool {
        let deadline = self.world.now() + self.world.patience();
        loop {
            self.pump();
            self.tick();
            if holds(self) {
                return true;
            }
            let left = deadline.saturating_sub(self.world.now());
            if left == 0 || (!self.world.rest(left.min(20)) && self.world.patience() == 0) {
                return false;
            }
        }
    }

    /// A value with its names replaced.
    pub(super) fn filled(&self, value: &Value) -> Result<Value, Value> {
        let mut value = value.clone();
        fill(&mut value, &|whose, what| self.lookup(whose, what)).map_err(|words| json!(words))?;
        Ok(value)
    }

    fn lookup(&self, whose: &str, what: &str) -> Option<Value> {
        if let Some(tab) = self.tabs.get(whose) {
            let last = |name: &str| {
                let frames = tab.all_seen().iter().rev();
                frames.filter_map(|frame| frame.get(name)).find(|value| value.is_string()).cloned()
            };
            return match what {
                "rid" => {
                    let commands = tab.all_seen().iter().rev();
                    commands.filter(|frame| frame.get("cmd").is_some()).find_map(|frame| frame.get("rid").cloned())
                }
                "ask" => last("ask_id"),
                "tab" => {
                    let welcomes = tab.all_seen().iter().rev();
                    welcomes.filter(|frame| frame["type"] == "welcome").find_map(|frame| frame.get("tab").cloned())
                }
                "prompt" => last("prompt_id"),
                _ => None,
            };
        }
        let outcome = self.calls.get(whose)?.as_ref()?;
        let (Ok(value) | Err(value)) = outcome;
        field(value, what).cloned()
    }

    /// FNV-1a over everything that went over the wire.
    fn note(&mut self, parts: &[&str]) {
        for part in parts {
            for byte in part.bytes().chain([0]) {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
}
