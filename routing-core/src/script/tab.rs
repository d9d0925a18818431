//! One browser tab of a script: a client, a canvas, a connection, and what was seen on it. What is held back waits here.

use super::canvas::Canvas;
use super::commands::execute;
use super::format::{Dialect, Hold, PanelSpec};
use super::plain::Plain;
use super::world::{Line, World};
use crate::id::{AskId, Rid};
use crate::panel::{Outcome, Panel, PanelConfig, PanelInput, PanelOutput, UiChange};
use crate::refusal::Refusal;
use serde_json::{Map, Value};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Client {
    Panel(Box<Panel>),
    Plain(Box<Plain>),
}

#[derive(Clone, Debug)]
enum Held {
    Arrival { socket: u32, text: String },
    Write { rid: Rid, cmd: String, args: Map<String, Value> },
    Reply { socket: u32, text: String },
}

/// One browser tab.
#[derive(Clone, Debug)]
pub(super) struct Tab {
    spec: PanelSpec,
    identity: String,
    backend: Option<String>,
    begun: Vec<Rid>,
    client: Client,
    pub(super) canvas: Canvas,
    /// The person let it connect.
    online: bool,
    line: Option<(Line, u32)>,
    hold: Option<Hold>,
    held: VecDeque<Held>,
    seen: Vec<Value>,
    forgotten: usize,
    asked: Vec<AskId>,
}

impl Tab {
    pub(super) fn new(name: &str, spec: &PanelSpec) -> Self {
        let identity = spec.identity.clone().unwrap_or_else(|| name.to_owned());
        let client = client(&identity, spec.backend.clone(), Vec::new(), spec);
        let mut tab = Self {
            canvas: Canvas::new(name, spec),
            backend: spec.backend.clone(),
            spec: spec.clone(),
            identity,
            begun: Vec::new(),
            client,
            online: false,
            line: None,
            hold: None,
            held: VecDeque::new(),
            seen: Vec::new(),
            forgotten: 0,
            asked: Vec::new(),
        };
        tab.input(PanelInput::Canvas { workflow: tab.canvas.identity() }, 0);
        tab
    }

    pub(super) fn line(&self) -> Option<Line> {
        self.line.map(|(line, _)| line)
    }

    /// Frames since they were last forgotten.
    pub(super) fn seen(&self) -> &[Value] {
        self.seen.get(self.forgotten..).unwrap_or_default()
    }

    /// Every frame.
    pub(super) fn all_seen(&self) -> &[Value] {
        &self.seen
    }

    pub(super) fn forget(&mut self) {
        self.forgotten = self.seen.len();
    }

    pub(super) fn newest_question(&self) -> Option<&AskId> {
        self.asked.last()
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        match &self.client {
            Client::Panel(panel) if self.online => panel.poll_timeout().map(|(when, _)| when),
            Client::Panel(_) | Client::Plain(_) => None,
        }
    }

    /// Gives the client an input. What comes of it is carried out by [`Tab::work`].
    pub(super) fn input(&mut self, input: PanelInput, now: u64) {
        match &mut self.client {
            Client::Panel(panel) => panel.handle(input, now),
            Client::Plain(plain) => plain.handle(input),
        }
    }

    pub(super) fn connect(&mut self, world: &mut dyn World) {
        self.online = true;
        self.input(PanelInput::Reconnect, world.now());
        self.work(world);
    }

    /// Another page on the same canvas: nothing of the old one is left but what the browser keeps.
    pub(super) fn reload(&mut self, identity: Option<String>, backend: Option<String>, world: &mut dyn World) {
        self.drop_line(world);
        if let Some(identity) = identity {
            self.identity = identity;
            self.begun.clear();
        }
        self.backend = backend.or_else(|| self.backend.take());
        self.client = client(&self.identity, self.backend.clone(), self.begun.clone(), &self.spec);
        self.held.clear();
        self.hold = None;
        self.input(PanelInput::Canvas { workflow: self.canvas.identity() }, world.now());
        self.connect(world);
    }

    /// The connection is cut from this side.
    pub(super) fn drop_line(&mut self, world: &mut dyn World) {
        self.online = false;
        if let Some((line, _)) = self.line {
            world.cut(line);
            self.closed(line, 1006, "", world);
        }
    }

    pub(super) fn closed(&mut self, line: Line, code: u16, reason: &str, world: &mut dyn World) {
        let Some((_, socket)) = self.line.filter(|(open, _)| *open == line) else { return };
        self.line = None;
        // It comes back when the script says so.
        self.online = false;
        self.input(PanelInput::Closed { socket, code, reason: reason.to_owned() }, world.now());
        self.work(world);
    }

    pub(super) fn frame(&mut self, line: Line, text: String, world: &mut dyn World) {
        let Some((_, socket)) = self.line.filter(|(open, _)| *open == line) else { return };
        let frame: Value = serde_json::from_str(&text).unwrap_or(Value::String(text.clone()));
        let command = frame.get("cmd").is_some();
        self.seen.push(frame);
        if command && self.hold == Some(Hold::Arrival) {
            return self.held.push_back(Held::Arrival { socket, text });
        }
        self.input(PanelInput::Frame { socket, text }, world.now());
        self.work(world);
    }

    /// The canvas changed by the person's hand.
    pub(super) fn canvas_changed(&mut self, world: &mut dyn World) {
        self.input(PanelInput::Canvas { workflow: self.canvas.identity() }, world.now());
        self.work(world);
    }

    pub(super) fn hold(&mut self, at: Hold) {
        self.hold = Some(at);
    }

    pub(super) fn lose(&mut self) {
        self.hold = None;
        self.held.clear();
    }

    pub(super) fn release(&mut self, world: &mut dyn World) {
        self.hold = None;
        for held in std::mem::take(&mut self.held) {
            match held {
                Held::Arrival { socket, text } => self.input(PanelInput::Frame { socket, text }, world.now()),
                Held::Write { rid, cmd, args } => self.write(rid, &cmd, &args, world.now()),
                Held::Reply { socket, text } => self.send(socket, &text, world),
            }
            self.work(world);
        }
    }

    /// A frame of the script's own.
    pub(super) fn raw(&mut self, text: &str, world: &mut dyn World) {
        if let Some((line, _)) = self.line {
            world.send(line, text);
        }
    }

    /// Carries out what the client wants done.
    pub(super) fn work(&mut self, world: &mut dyn World) {
        loop {
            let output = match &mut self.client {
                Client::Panel(panel) => panel.poll_output(),
                Client::Plain(plain) => plain.poll_output(),
            };
            match output {
                None => return,
                Some(PanelOutput::Connect { socket }) => self.open(socket, world),
                Some(PanelOutput::Disconnect { socket }) => {
                    if let Some((line, _)) = self.line.take_if(|(_, open)| *open == socket) {
                        world.cut(line);
                    }
                }
                Some(PanelOutput::Transmit { socket, text }) => self.transmit(socket, text, world),
                Some(PanelOutput::Remember { begun }) => self.begun = begun,
                Some(PanelOutput::Execute { rid, cmd, args, .. }) => {
                    if self.hold == Some(Hold::Write) {
                        self.held.push_back(Held::Write { rid, cmd, args });
                    } else {
                        self.write(rid, &cmd, &args, world.now());
                    }
                }
                Some(PanelOutput::Ui { change }) => {
                    if let UiChange::Question { question } = change {
                        self.asked.push(question.ask_id);
                    }
                }
            }
        }
    }

    fn open(&mut self, socket: u32, world: &mut dyn World) {
        match world.open().filter(|_| self.online) {
            Some(line) => {
                self.line = Some((line, socket));
                self.input(PanelInput::Opened { socket }, world.now());
            }
            None => self.input(PanelInput::Closed { socket, code: 1006, reason: String::new() }, world.now()),
        }
    }

    fn transmit(&mut self, socket: u32, text: String, world: &mut dyn World) {
        let reply = self.hold == Some(Hold::Reply)
            && serde_json::from_str::<Value>(&text).is_ok_and(|frame| frame.get("type").is_none());
        if reply {
            self.held.push_back(Held::Reply { socket, text });
        } else {
            self.send(socket, &text, world);
        }
    }

    /// What was meant for an earlier socket is gone with it.
    fn send(&mut self, socket: u32, text: &str, world: &mut dyn World) {
        if let Some((line, _)) = self.line.filter(|(_, open)| *open == socket) {
            world.send(line, text);
        }
    }

    /// The write itself: asked once more immediately before.
    fn write(&mut self, rid: Rid, cmd: &str, args: &Map<String, Value>, now: u64) {
        let allowed = match &self.client {
            Client::Panel(panel) => panel.recheck(&rid),
            Client::Plain(plain) => plain.recheck(&rid),
        };
        let outcome = match allowed {
            Err(refusal) => Outcome::Refused { refusal: Refusal::to_wire(&refusal) },
            Ok(()) => match execute(&mut self.canvas, cmd, args) {
                Ok(result) => Outcome::Ok { result },
                Err((code, message)) => Outcome::Failed { code: code.to_owned(), message },
            },
        };
        let workflow = self.canvas.identity();
        self.input(PanelInput::Done { rid, outcome, workflow }, now);
    }
}

fn client(identity: &str, backend: Option<String>, begun: Vec<Rid>, spec: &PanelSpec) -> Client {
    match spec.dialect {
        Dialect::Panel => Client::Panel(Box::new(Panel::new(PanelConfig {
            tab_id: identity.to_owned(),
            version: "script".to_owned(),
            backend,
            comfyui_url: None,
            begun,
        }))),
        Dialect::Legacy | Dialect::Raw => Client::Plain(Box::new(Plain::new(identity, backend, spec))),
    }
}
