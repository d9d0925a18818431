//! The panel's machine: the connection and its hello, the admission of commands, the order of the transcript, the
//! messages that wait, questions and completions. Runs in the browser tab, as WASM.
//!
//! It decides all of that and touches nothing: sockets, canvas and page are the host's, which hands in what happened
//! and carries out what comes out. It must not know HTML, ComfyUI or how a command is executed.
//!
//! Two calls are the whole of it:
//!
//! ```
//! use routing_core::frame::WorkflowIdentity;
//! use routing_core::panel::{Panel, PanelConfig, PanelInput, PanelOutput};
//!
//! let mut panel = Panel::new(PanelConfig {
//!     tab_id: "tab-1".into(),
//!     version: "0.1.0".into(),
//!     backend: None,
//!     comfyui_url: None,
//!     begun: Vec::new(),
//! });
//! let now = 1_000; // milliseconds, from the host's clock
//! panel.handle(PanelInput::Start, now);
//! let mut socket = 0;
//! while let Some(output) = panel.poll_output() {
//!     if let PanelOutput::Connect { socket: number } = output {
//!         socket = number; // the host opens a socket here
//!     }
//! }
//! panel.handle(PanelInput::Opened { socket }, now + 5);
//! let hello = std::iter::from_fn(|| panel.poll_output()).find_map(|output| match output {
//!     PanelOutput::Transmit { text, .. } => Some(text),
//!     _ => None,
//! });
//! assert!(hello.is_some_and(|text| text.contains(r#""type":"hello""#)));
//! let (when, why) = panel.poll_timeout().expect("the handshake has a deadline");
//! assert!(when > now && why == "handshake");
//! ```

mod admission;
mod api;
mod connection;
mod history;
mod intake;
mod ledger;
mod outbox;
mod pairs;
mod questions;
mod read;
mod runs;
mod shown;
mod transcript;

#[cfg(test)]
mod tests;

pub use api::*;
pub use read::BadInput;
pub use shown::*;

use crate::frame::{FromPanel, PanelFrame, Reply, WorkflowIdentity};
use crate::id::{Backend, ConversationKey, TabKey};
use crate::target::Target;
use admission::Admission;
use connection::Connection;
use history::History;
use ledger::Ledger;
use outbox::Outbox;
use questions::Questions;
use runs::Runs;
use std::collections::VecDeque;
use transcript::Transcript;

/// Most replies that are kept while there is no connection.
const KEPT_REPLIES: usize = 256;

/// The panel's machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Panel {
    config: PanelConfig,
    connection: Connection,
    front: Option<WorkflowIdentity>,
    /// What the person chose for blind mode in this page; `None`: nothing.
    blind: Option<bool>,
    conversation: Option<ConversationKey>,
    tab: Option<TabKey>,
    target: Target,
    working: bool,
    acts_on: Option<UiChange>,
    transcript: Transcript,
    admission: Admission,
    ledger: Ledger,
    outbox: Outbox,
    questions: Questions,
    runs: Runs,
    history: History,
    kept_replies: Vec<Reply>,
    out: VecDeque<PanelOutput>,
}

impl Panel {
    /// A panel that is not connected; [`PanelInput::Start`] makes it try.
    pub fn new(config: PanelConfig) -> Self {
        let ledger = Ledger::new(config.begun.clone());
        Self {
            config,
            connection: Connection::default(),
            front: None,
            blind: None,
            conversation: None,
            tab: None,
            target: Target::Current,
            working: false,
            acts_on: None,
            transcript: Transcript::default(),
            admission: Admission::default(),
            ledger,
            outbox: Outbox::default(),
            questions: Questions::default(),
            runs: Runs::default(),
            history: History::default(),
            kept_replies: Vec::new(),
            out: VecDeque::new(),
        }
    }

    /// Takes one input in. `now`: milliseconds on the host's clock, which may stand still but should not run back.
    /// What came of it is fetched with [`Panel::poll_output`].
    pub fn handle(&mut self, input: PanelInput, now: u64) {
        match input {
            PanelInput::Start => self.start(now),
            PanelInput::Reconnect => self.reconnect(now),
            PanelInput::Tick => {}
            PanelInput::Opened { socket } => self.opened(socket, now),
            PanelInput::Frame { socket, text } => {
                if self.connection.is_current(socket) {
                    self.frame(&text, now);
                }
            }
            PanelInput::Closed { socket, code, reason } => self.closed(socket, code, reason, now),
            PanelInput::Canvas { workflow } => self.canvas(workflow),
            PanelInput::Done { rid, outcome, workflow } => self.done(&rid, outcome, workflow, now),
            PanelInput::RunFinished { prompt_id, status, images, error } => {
                self.run_finished(prompt_id, status, images, error);
                self.flush_runs(now);
            }
            PanelInput::Send { mid, text, context, now: at_once } => self.send(mid, text, context, at_once, now),
            PanelInput::SendNow => self.send_now(),
            PanelInput::Resend { mid } => self.resend(&mid),
            PanelInput::Cancel { mid } => self.cancel(mid),
            PanelInput::Reorder { order } => self.reorder(&order),
            PanelInput::Stop => self.interrupt(false),
            PanelInput::NewChat => self.new_chat(),
            PanelInput::Rewind { mid } => self.rewind(mid),
            PanelInput::Resume { session_id } => self.resume(session_id),
            PanelInput::ListSessions => self.list_sessions(),
            PanelInput::Search { words } => self.search(words),
            PanelInput::Export { format, session_id } => self.export(format, session_id),
            PanelInput::SetBackend { backend } => self.set_backend(&Backend::new(backend.trim())),
            PanelInput::SetTarget { target } => self.set_target(target),
            PanelInput::SetModel { model } => self.set_model(model),
            PanelInput::SetBlind { on } => self.set_blind(on),
            PanelInput::Answer { ask_id, result } => self.answer(&ask_id, result),
        }
        self.due(now);
    }

    /// The next thing to do, in order.
    pub fn poll_output(&mut self) -> Option<PanelOutput> {
        self.out.pop_front()
    }

    /// When [`PanelInput::Tick`] is wanted, and why.
    pub fn poll_timeout(&self) -> Option<(u64, &'static str)> {
        let connection = self.connection.deadline();
        let message = self.outbox.held_until(self.connection.is_up()).map(|when| (when, "unstamped message"));
        let command = self.admission.deadline().map(|when| (when, "command overdue"));
        [connection, message, command].into_iter().flatten().min()
    }

    /// Carries out what has become due.
    fn due(&mut self, now: u64) {
        self.connection_due(now);
        self.outbox_due(now);
        self.admission_due(now);
    }

    /// What is in front changed, or may have. Every change is told at once, before any later reply or message.
    fn canvas(&mut self, workflow: Option<WorkflowIdentity>) {
        if self.front == workflow {
            return;
        }
        self.front = workflow;
        self.show_acts_on();
        if let Some(front) = self.front.clone() {
            if self.connection.is_open() && self.connection.told() != Some(&front) {
                self.hello();
            }
            let composed = self.composed();
            self.outbox.stamp(&composed);
            self.flush_outbox();
        }
    }

    fn composed(&self) -> Composed {
        Composed { workflow_uuid: self.front.as_ref().map(|front| front.uuid.clone()), acts_on: self.acts_on_label() }
    }

    /// Whether the workflow that messages act on is the one in front.
    fn acts_on_front(&self) -> bool {
        self.front.as_ref().is_some_and(|front| match &self.target {
            Target::Current => true,
            Target::Pinned { path, .. } => front.answers_to(path),
        })
    }

    /// Its name for people.
    fn acts_on_label(&self) -> Option<String> {
        if self.acts_on_front() {
            let front = self.front.as_ref()?;
            return Some(if front.title.is_empty() { front.handle.clone() } else { front.title.clone() });
        }
        match &self.target {
            Target::Current => None,
            Target::Pinned { path, filename } => Some(filename.clone().unwrap_or_else(|| path.clone())),
        }
    }

    fn show_acts_on(&mut self) {
        let now = UiChange::ActsOn {
            label: self.acts_on_label(),
            pinned: self.target != Target::Current,
            in_front: self.acts_on_front(),
            pin: self.front.as_ref().map(WorkflowIdentity::key),
        };
        if self.acts_on.as_ref() != Some(&now) {
            self.acts_on = Some(now.clone());
            self.show(now);
        }
    }

    fn new_chat(&mut self) {
        self.request(PanelFrame::NewSession(Default::default()));
    }

    fn set_target(&mut self, target: Target) {
        let (mode, path, filename) = match target {
            Target::Current => ("current", None, None),
            Target::Pinned { path, filename } => ("pinned", Some(path), filename),
        };
        self.request(PanelFrame::SetWorkflowTarget(crate::frame::SetWorkflowTarget {
            mode: mode.to_owned(),
            path,
            filename,
            extra: Default::default(),
        }));
    }

    fn set_model(&mut self, model: String) {
        self.request(PanelFrame::SetOptions(crate::frame::SetOptions { model: Some(model), ..Default::default() }));
    }

    /// Kept without a connection: the next hello tells it.
    fn set_blind(&mut self, on: bool) {
        self.blind = Some(on);
        if self.connection.is_up() {
            let frame = crate::frame::SetContentMode { blind: on, extra: Default::default() };
            self.transmit(&FromPanel::Typed(PanelFrame::SetContentMode(frame)));
        }
    }

    fn interrupt(&mut self, requeue: bool) {
        self.request(PanelFrame::Interrupt(crate::frame::Interrupt { requeue, extra: Default::default() }));
    }

    /// Sends a frame that means nothing later. Without a connection the person is told instead.
    fn request(&mut self, frame: PanelFrame) {
        if self.connection.is_up() {
            self.transmit(&FromPanel::Typed(frame));
        } else {
            self.notice("not_connected", "");
        }
    }

    fn reply(&mut self, reply: Reply) {
        if self.connection.is_welcomed() {
            self.transmit(&FromPanel::Reply(reply));
            return;
        }
        if self.kept_replies.len() == KEPT_REPLIES {
            self.kept_replies.remove(0);
        }
        self.kept_replies.push(reply);
    }

    fn flush_replies(&mut self) {
        for reply in std::mem::take(&mut self.kept_replies) {
            self.transmit(&FromPanel::Reply(reply));
        }
    }

    fn transmit(&mut self, frame: &FromPanel) {
        let text = serde_json::to_string(frame).unwrap_or_default();
        self.out.push_back(PanelOutput::Transmit { socket: self.connection.socket(), text });
    }

    fn notice(&mut self, code: &str, text: &str) {
        self.show(UiChange::Notice { code: code.to_owned(), text: text.to_owned() });
    }

    fn show(&mut self, change: UiChange) {
        self.out.push_back(PanelOutput::Ui { change });
    }
}
