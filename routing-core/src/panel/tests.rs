//! A panel between a scripted daemon and a scripted canvas, on a clock that stands until it is moved.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

mod commands;
mod connecting;
mod ledger;
mod messages;
mod person;
mod rows;

use super::*;
use crate::frame::{FromPanel, PanelFrame};
use crate::id::{Rid, WorkflowUuid};
use crate::path::WorkflowPath;
use serde_json::{Value, json};

/// The panel under test and everything it wanted done.
pub(super) struct Bench {
    pub(super) panel: Panel,
    pub(super) now: u64,
    pub(super) socket: u32,
    pub(super) out: Vec<PanelOutput>,
}

pub(super) fn config() -> PanelConfig {
    PanelConfig { tab_id: "tab-1".into(), version: "1.2.3".into(), backend: None, comfyui_url: None, begun: Vec::new() }
}

/// A saved workflow `workflows/<name>.json`.
pub(super) fn saved(uuid: &str, name: &str) -> WorkflowIdentity {
    let path = WorkflowPath::parse(name).unwrap();
    WorkflowIdentity {
        uuid: uuid.into(),
        handle: path.handle(),
        title: path.title().to_owned(),
        path: Some(path),
        canvas: Some("c1".into()),
    }
}

/// A workflow that was never saved.
pub(super) fn unsaved(uuid: &str) -> WorkflowIdentity {
    WorkflowIdentity {
        uuid: uuid.into(),
        handle: format!("tmp:{uuid}"),
        title: "Unsaved Workflow".into(),
        path: None,
        canvas: Some("c1".into()),
    }
}

impl Bench {
    /// Not connected.
    pub(super) fn new(config: PanelConfig) -> Self {
        Self { panel: Panel::new(config), now: 1_000, socket: 0, out: Vec::new() }
    }

    /// Connected to conversation `orchestrator::claude`, with W1 in front.
    pub(super) fn connected() -> Self {
        let mut bench = Self::new(config());
        bench.input(PanelInput::Canvas { workflow: Some(saved("w1", "a")) });
        bench.input(PanelInput::Start);
        bench.shake(0);
        bench.out.clear();
        bench
    }

    pub(super) fn input(&mut self, input: PanelInput) {
        self.panel.handle(input, self.now);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.panel.poll_output() {
            if let PanelOutput::Connect { socket } = output {
                self.socket = socket;
            }
            if let PanelOutput::Transmit { socket, .. } = output {
                assert_eq!(socket, self.socket, "a frame for a socket that is gone");
            }
            self.out.push(output);
        }
    }

    /// The socket opens and the daemon greets.
    pub(super) fn shake(&mut self, after: u64) {
        self.input(PanelInput::Opened { socket: self.socket });
        self.welcome("e1", "orchestrator::claude", after);
        self.daemon(json!({"type": "models", "epoch": "e1", "models": [], "backend": "claude"}));
    }

    pub(super) fn welcome(&mut self, epoch: &str, conversation: &str, after: u64) {
        self.daemon(json!({
            "type": "welcome", "protocol": 1, "epoch": epoch, "conversation": conversation, "after": after,
            "tab": "t1", "capabilities": [], "limits": {},
        }));
    }

    pub(super) fn daemon(&mut self, frame: Value) {
        let text = frame.to_string();
        self.input(PanelInput::Frame { socket: self.socket, text });
    }

    pub(super) fn close(&mut self, code: u16) {
        self.input(PanelInput::Closed { socket: self.socket, code, reason: "bye".into() });
    }

    /// Loses the socket and comes back, `after` being what the daemon confirms.
    pub(super) fn reconnect(&mut self, after: u64) {
        self.close(1006);
        self.input(PanelInput::Reconnect);
        self.shake(after);
    }

    /// Moves the clock to the next deadline and returns its reason.
    pub(super) fn tick(&mut self) -> &'static str {
        let (when, why) = self.panel.poll_timeout().expect("nothing is waited for");
        self.now = self.now.max(when);
        self.input(PanelInput::Tick);
        why
    }

    pub(super) fn front(&mut self, workflow: Option<WorkflowIdentity>) {
        self.input(PanelInput::Canvas { workflow });
    }

    pub(super) fn send(&mut self, mid: &str) {
        self.input(PanelInput::Send { mid: mid.into(), text: format!("text of {mid}"), context: None, now: false });
    }

    /// A command stamped for `w1`, unless `more` says otherwise.
    pub(super) fn command(&mut self, rid: &str, cmd: &str, more: Value) {
        let mut frame = json!({"rid": rid, "cmd": cmd, "timeout_ms": 20_000, "workflow_uuid": "w1"});
        for (name, value) in more.as_object().unwrap() {
            if value.is_null() {
                frame.as_object_mut().unwrap().remove(name);
            } else {
                frame[name] = value.clone();
            }
        }
        self.daemon(frame);
    }

    pub(super) fn done(&mut self, rid: &str, result: Value) {
        let outcome = Outcome::Ok { result };
        self.input(PanelInput::Done { rid: rid.into(), outcome, workflow: self.panel.front.clone() });
    }

    /// Everything sent since the last look, in order.
    pub(super) fn sent(&mut self) -> Vec<Value> {
        let (sent, rest) = std::mem::take(&mut self.out)
            .into_iter()
            .partition(|output| matches!(output, PanelOutput::Transmit { .. }));
        self.out = rest;
        let sent: Vec<PanelOutput> = sent;
        sent.into_iter()
            .map(|output| match output {
                PanelOutput::Transmit { text, .. } => {
                    let frame = FromPanel::parse(&text).unwrap();
                    assert!(!matches!(frame, FromPanel::Unknown(_)), "{text}");
                    serde_json::from_str(&text).unwrap()
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// `type` of everything sent since the last look; `reply` for answers.
    pub(super) fn kinds(&mut self) -> Vec<String> {
        self.sent().iter().map(|frame| frame["type"].as_str().unwrap_or("reply").to_owned()).collect()
    }

    /// The only answer since the last look.
    pub(super) fn only_reply(&mut self) -> Value {
        let mut replies: Vec<Value> = self.sent().into_iter().filter(|frame| frame.get("type").is_none()).collect();
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies.remove(0)
    }

    /// Ids of the commands that are to be carried out, since the last look.
    pub(super) fn executes(&mut self) -> Vec<String> {
        let (execute, rest) =
            std::mem::take(&mut self.out).into_iter().partition(|output| matches!(output, PanelOutput::Execute { .. }));
        self.out = rest;
        let execute: Vec<PanelOutput> = execute;
        execute
            .into_iter()
            .map(|output| match output {
                PanelOutput::Execute { rid, .. } => rid.to_string(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// What is to be shown, since the last look.
    pub(super) fn shown(&mut self) -> Vec<UiChange> {
        let (ui, rest) =
            std::mem::take(&mut self.out).into_iter().partition(|output| matches!(output, PanelOutput::Ui { .. }));
        self.out = rest;
        let ui: Vec<PanelOutput> = ui;
        ui.into_iter()
            .filter_map(|output| match output {
                PanelOutput::Ui { change } => Some(change),
                _ => None,
            })
            .collect()
    }

    pub(super) fn states(&mut self) -> Vec<ConnectionState> {
        self.shown()
            .into_iter()
            .filter_map(|change| match change {
                UiChange::Connection { state, .. } => Some(state),
                _ => None,
            })
            .collect()
    }

    pub(super) fn recheck(&self, rid: &str) -> Result<(), &'static str> {
        self.panel.recheck(&Rid::from(rid)).map_err(|refusal| refusal.code())
    }

    /// The last hello that was sent since the last look.
    pub(super) fn hello(&mut self) -> crate::frame::Hello {
        let frames = self.sent();
        let hello = frames.iter().rev().find(|frame| frame["type"] == "hello").expect("no hello");
        match FromPanel::parse(&hello.to_string()).unwrap() {
            FromPanel::Typed(PanelFrame::Hello(hello)) => *hello,
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn uuid(text: &str) -> Option<WorkflowUuid> {
    Some(text.into())
}
