//! Sockets come, say hello, and go (rules S3, B3 to B5).

use super::tabs::{Socket, Tab};
use super::{Look, Output, Reader, Router};
use crate::frame::{
    Ack, Backends, ComfyuiTarget, FromDaemon, FromPanel, Hello, Models, Nack, PROTOCOL, PanelFrame, SessionEpoch, Span,
    Turn, TurnState, Welcome, WorkflowIdentity, WorkflowTargetFrame,
};
use crate::id::{Backend, MessageId, Rid, Seq, SocketId, TabIdentity, TabKey};
use crate::past::{Point, first_shown};
use crate::path::Route;
use serde_json::{Map, json};

/// Most bytes of a name that is kept for a tab.
const MOST_ID: usize = 1_024;
/// Most characters of a title that is kept.
const MOST_TITLE: usize = 300;
/// Another connection of the same browser tab took over.
const TAKEN_OVER: u16 = 4001;
/// One tab cannot be with and without a canvas.
const OTHER_KIND: u16 = 4002;
/// No hello in time.
pub(super) const NO_HELLO: u16 = 4008;

impl Router {
    pub(super) fn socket_opened(&mut self, socket: SocketId, viewer: bool, comfyui: Option<String>, now: u64) {
        let hello_by = Some(now + self.config.limits.hello);
        self.sockets.insert(socket, Socket { tab: None, viewer, hello_by, comfyui, modern: false });
    }

    pub(super) fn socket_closed(&mut self, socket: SocketId, now: u64) {
        let Some(gone) = self.sockets.remove(&socket) else { return };
        let Some(key) = gone.tab else { return };
        let newest = |router: &Self, backend: &Backend| {
            router.conversations.get(backend).map_or(Seq::default(), |one| one.newest)
        };
        let Some(backend) = self.tabs.get(&key).filter(|tab| tab.socket == Some(socket)).map(|tab| tab.backend.clone())
        else {
            return;
        };
        let shown = newest(self, &backend);
        if let Some(tab) = self.tabs.get_mut(&key) {
            tab.socket = None;
            tab.shown = shown;
        }
        self.blind_tab_left(&key, now);
        self.commands_lost(&key, socket, now);
        self.forget_old_tabs();
    }

    pub(super) fn frame(&mut self, socket: SocketId, text: &str, now: u64) {
        let Some((viewer, said_hello)) = self.sockets.get(&socket).map(|one| (one.viewer, one.tab.is_some())) else {
            return;
        };
        let frame = match FromPanel::parse(text) {
            Ok(frame) => frame,
            Err(error) => return self.nack(socket, error.code(), error.to_string()),
        };
        if viewer {
            return self.nack(socket, "role", "A viewer only looks on.");
        }
        match frame {
            FromPanel::Unknown(_) => {}
            FromPanel::Typed(PanelFrame::Hello(hello)) => self.hello(socket, *hello, now),
            FromPanel::Typed(frame) if !said_hello => {
                let mid = if let PanelFrame::UserMessage(message) = frame { message.mid } else { None };
                self.nack_about(socket, mid, None, "no_hello", "Say hello first.");
            }
            FromPanel::Reply(reply) if !said_hello => {
                self.nack_about(socket, None, reply.rid, "no_hello", "Say hello first.");
            }
            FromPanel::Reply(reply) => self.reply(socket, reply, now),
            FromPanel::Typed(frame) => self.panel_frame(socket, frame, now),
        }
    }

    pub(super) fn panel_frame(&mut self, socket: SocketId, frame: PanelFrame, now: u64) {
        let Some(tab) = self.sockets.get(&socket).and_then(|one| one.tab.clone()) else { return };
        if self.held_at_boundary(socket, &tab, &frame) {
            return;
        }
        match frame {
            PanelFrame::Hello(hello) => self.hello(socket, *hello, now),
            PanelFrame::Title(frame) => {
                if let Some(tab) = self.tabs.get_mut(&tab) {
                    tab.title = frame.title.chars().take(MOST_TITLE).collect();
                }
            }
            PanelFrame::UserMessage(message) => self.user_message(socket, &tab, message, now),
            PanelFrame::Interrupt(frame) => self.interrupt(socket, &tab, frame.requeue, now),
            PanelFrame::CancelMessage(frame) => self.cancel_message(socket, &tab, &frame.mid, now),
            PanelFrame::Reorder(frame) => self.reorder(socket, &tab, &frame.order),
            PanelFrame::NewSession(_) => self.new_session(socket, &tab, now),
            PanelFrame::ResumeSession(frame) => self.recall(socket, &tab, Point::Session(frame.session_id)),
            PanelFrame::Rewind(frame) => {
                let point = frame.mid.map_or(Point::Anchor(frame.anchor), Point::Before);
                self.recall(socket, &tab, point);
            }
            PanelFrame::ListHistory(frame) => self.look(socket, &tab, frame.cid, Look::Sessions),
            PanelFrame::LoadHistory(frame) => {
                self.look(socket, &tab, frame.cid, Look::Transcript(frame.session_id));
            }
            PanelFrame::SearchHistory(frame) => self.look(socket, &tab, frame.cid, Look::Search(frame.words)),
            PanelFrame::ExportHistory(frame) => {
                let look = Look::Export { format: frame.format, session: frame.session_id };
                self.look(socket, &tab, frame.cid, look);
            }
            PanelFrame::SetBackend(frame) => self.set_backend(socket, &tab, &frame.backend, now),
            PanelFrame::SetOptions(frame) => self.set_options(socket, &tab, frame),
            PanelFrame::SetWorkflowTarget(frame) => self.pick_target(socket, &tab, frame, now),
            PanelFrame::SetContentMode(frame) => self.set_content_mode(socket, &tab, frame.blind, now),
            PanelFrame::SetConfig(_) => self.to(socket, Ack::new(true, "config")),
            PanelFrame::AgentEvent(event) => self.panel_event(socket, &tab, event, now),
        }
    }

    /// A panel reads in the log of its own conversation.
    fn look(&mut self, socket: SocketId, key: &TabKey, cid: String, look: Look) {
        if cid.len() > MOST_ID {
            return self.nack(socket, "too_long", format!("A `cid` has {MOST_ID} bytes at most."));
        }
        if let Some(backend) = self.tabs.get(key).map(|tab| tab.backend.clone()) {
            self.push(Output::Look { by: Reader::Panel { socket, cid }, backend, look });
        }
    }

    fn hello(&mut self, socket: SocketId, hello: Hello, now: u64) {
        if let Some(other) = hello.protocol.filter(|&protocol| protocol != PROTOCOL) {
            let words = format!(
                "Dialect {other} is not spoken here. Spoken: {PROTOCOL}, and the legacy one without `protocol`."
            );
            return self.nack(socket, "protocol", words);
        }
        let Some(route) = hello.tab_id.clone().filter(|id| !id.trim().is_empty()) else {
            return self.nack(socket, "no_tab_id", "A hello names its browser tab in `tab_id`.");
        };
        let modern = hello.protocol.is_some();
        if is_too_long(&hello) {
            let words = format!("Ids, handles and canvas names have {MOST_ID} bytes at most.");
            return self.nack(socket, "too_long", words);
        }
        if Route::parse(&route) == Route::Probe {
            return self.answer_probe(socket, &hello);
        }
        let identity = match (&hello.tab_session_id, modern) {
            (Some(session), true) => Some(TabIdentity::new(session.clone())),
            // A name space of its own: no legacy panel passes for a tab of ours.
            (Some(session), false) => Some(TabIdentity::new(format!("legacy:{session}"))),
            (None, true) => Some(TabIdentity::new(route.clone())),
            (None, false) => None,
        };
        let known = self.sockets.get(&socket).and_then(|one| one.tab.clone());
        let first = known.is_none();
        let tab = match known {
            Some(tab) => {
                if !self.still_the_same(socket, &tab, identity.as_ref()) {
                    return;
                }
                tab
            }
            None => match self.attach(socket, &hello, identity, modern, now) {
                Some(tab) => tab,
                None => return,
            },
        };
        let moved = self.apply_hello(&tab, &hello, &route, modern, now);
        self.greet(socket, &tab, &hello, first || moved, now);
        self.greet_blind(socket, &tab, hello.blind, now);
        if let (true, Some(backend)) = (first || moved, self.tabs.get(&tab).map(|tab| tab.backend.clone())) {
            self.greet_jobs(socket, &backend);
        }
        self.tab_is_back(&tab, first, now);
    }

    /// A launcher asks whether the port is ours: answered, nothing is made.
    fn answer_probe(&mut self, socket: SocketId, hello: &Hello) {
        if let Some(one) = self.sockets.get_mut(&socket) {
            one.hello_by = None;
        }
        let backend = self.config.backend(hello.backend.as_deref().unwrap_or_default());
        self.to(socket, SessionEpoch { epoch: self.config.epoch.clone() });
        self.to(socket, self.backends_frame());
        self.to(socket, self.models_frame(&backend));
    }

    /// A later hello on a socket speaks of the same browser tab, or it is refused.
    fn still_the_same(&mut self, socket: SocketId, tab: &TabKey, identity: Option<&TabIdentity>) -> bool {
        let Some(identity) = identity else { return true };
        match self.tabs.get(tab).map(|tab| tab.identity.clone()) {
            Some(Some(known)) if known == *identity => true,
            Some(None) if self.tab_by_identity(identity).is_none() => {
                if let Some(tab) = self.tabs.get_mut(tab) {
                    tab.identity = Some(identity.clone());
                }
                true
            }
            _ => {
                let words = "This socket belongs to another browser tab; open a socket of your own.";
                self.nack(socket, "identity_fixed", words);
                false
            }
        }
    }

    /// The first hello of a socket: the tab that it proves to be, or a new one.
    fn attach(
        &mut self,
        socket: SocketId,
        hello: &Hello,
        identity: Option<TabIdentity>,
        modern: bool,
        now: u64,
    ) -> Option<TabKey> {
        let headless = hello.headless.unwrap_or(false);
        let known = identity.as_ref().and_then(|identity| self.tab_by_identity(identity));
        let key = match known {
            Some(key) => {
                let tab = self.tabs.get(&key)?;
                let old = tab.socket;
                if tab.headless != headless && old.is_some() {
                    self.close(socket, OTHER_KIND, "this browser tab is connected with another kind of client");
                    return None;
                }
                if let Some(old) = old {
                    if let Some(one) = self.sockets.get_mut(&old) {
                        one.tab = None;
                    }
                    self.commands_lost(&key, old, now);
                    self.close(old, TAKEN_OVER, "another connection of this browser tab took over");
                }
                key
            }
            None => {
                self.counters.tabs += 1;
                let key = TabKey(format!("t{}", self.counters.tabs));
                let fresh = Tab {
                    identity,
                    socket: None,
                    backend: self.config.default.clone(),
                    title: String::new(),
                    workflow: None,
                    headless,
                    fences: modern,
                    joined: 0,
                    blind: false,
                    blind_until: None,
                    shown: Seq::default(),
                };
                self.tabs.insert(key.clone(), fresh);
                key
            }
        };
        self.counters.joins += 1;
        let joined = self.counters.joins;
        let tab = self.tabs.get_mut(&key)?;
        tab.socket = Some(socket);
        tab.joined = joined;
        tab.headless = headless;
        tab.blind_until = None;
        let one = self.sockets.get_mut(&socket)?;
        one.tab = Some(key.clone());
        one.hello_by = None;
        one.modern = modern;
        Some(key)
    }

    /// Takes over what the hello says of the tab. Returns whether its conversation changed.
    fn apply_hello(&mut self, key: &TabKey, hello: &Hello, route: &str, modern: bool, now: u64) -> bool {
        let mut workflow = hello.workflow.clone().or_else(|| legacy_workflow(hello, route));
        if let Some(workflow) = &mut workflow {
            workflow.title = workflow.title.chars().take(MOST_TITLE).collect();
        }
        let wanted = hello.backend.as_deref().map(|name| self.config.backend(name));
        let Some(tab) = self.tabs.get_mut(key) else { return false };
        let before = tab.workflow.clone();
        if let Some(title) = hello.title.clone().or_else(|| workflow.as_ref().map(|one| one.title.clone())) {
            tab.title = title.chars().take(MOST_TITLE).collect();
        }
        tab.workflow.clone_from(&workflow);
        tab.fences = modern || hello.enforces_workflow_stamp_at_write == Some(true);
        let backend = tab.backend.clone();
        let moved = wanted.is_some_and(|wanted| self.move_tab(key, &wanted, now));
        let backend = self.tabs.get(key).map_or(backend, |tab| tab.backend.clone());
        if let (Some(before), Some(after)) = (before, workflow) {
            self.conversation(&backend).target.renamed(&before, &after);
        }
        moved
    }

    /// What a hello is answered with, in the order that clients rely on.
    fn greet(&mut self, socket: SocketId, key: &TabKey, hello: &Hello, replay: bool, _now: u64) {
        let Some(tab) = self.tabs.get(key) else { return };
        let (backend, shown) = (tab.backend.clone(), tab.shown);
        let modern = self.sockets.get(&socket).is_some_and(|one| one.modern);
        let (conversation, newest, start, mut kept) = {
            let one = self.conversation(&backend);
            (one.key.clone(), one.newest, one.start, one.kept.clone())
        };
        let asked = if modern { hello.after.unwrap_or_default() } else { shown };
        // Who saw the boundary saw what it keeps. The others read all of it from the beginning; a panel that is not ours
        // keeps a record of its own.
        if asked >= start || !modern {
            kept.clear();
        }
        let start = match (kept.is_empty(), replay) {
            (true, _) => start,
            (false, true) => first_shown(start, &kept),
            // It is being read already.
            (false, false) => Seq::default(),
        };
        if !replay {
            kept.clear();
        }
        let after = asked.max(start).min(newest);
        if modern {
            self.to(socket, self.welcome(conversation.clone(), after, kept.clone(), key));
        }
        self.to(socket, SessionEpoch { epoch: self.config.epoch.clone() });
        if let (Some(session), true) =
            (&hello.resume, self.conversations.get(&backend).is_some_and(|one| one.session.is_none()))
        {
            self.push(Output::ResumeHint { backend: backend.clone(), session: session.clone() });
        }
        self.to(socket, self.backends_frame());
        self.to(socket, self.models_frame(&backend));
        let (target, status, running) = {
            let one = self.conversation(&backend);
            (one.target.clone(), one.status.clone(), one.running().is_some())
        };
        self.to(socket, WorkflowTargetFrame { target });
        if let Some(url) = self.sockets.get(&socket).and_then(|one| one.comfyui.clone()) {
            let is_local = url.contains("//127.0.0.1") || url.contains("//localhost") || url.contains("//[::1]");
            self.to(socket, ComfyuiTarget { url, is_local });
        }
        if let Some(status) = status {
            self.to(socket, status);
        }
        let ready = self.config.backends.iter().any(|info| Backend::parse(&info.backend) == backend && info.ready);
        self.to(
            socket,
            Ack::new(ready, if ready { "ready" } else { "degraded" })
                .with("agent", backend.as_str())
                .with("backend", backend.as_str()),
        );
        if replay {
            let wanted = modern || shown > Seq::default();
            for span in kept {
                let Span { after, upto } = span;
                let conversation = conversation.clone();
                self.push(Output::Replay { socket, conversation, after, upto, legacy: !modern });
            }
            if wanted && after < newest {
                self.push(Output::Replay { socket, conversation, after, upto: newest, legacy: !modern });
            }
        }
        if running {
            self.to(socket, Turn { state: TurnState::Working });
        }
        if let Some(text) = self.log_trouble.clone() {
            self.to(socket, crate::frame::Say { text, id: None, streamed: None });
        }
    }

    fn welcome(&self, conversation: crate::id::ConversationKey, after: Seq, kept: Vec<Span>, tab: &TabKey) -> Welcome {
        let limits = &self.config.limits;
        let mut bounds = Map::new();
        for (name, value) in [
            ("hello", limits.hello),
            ("reconnect", limits.reconnect),
            ("command", limits.command),
            ("ask", limits.ask),
            ("backlog", limits.backlog as u64),
        ] {
            bounds.insert(name.to_owned(), json!(value));
        }
        Welcome {
            protocol: PROTOCOL,
            epoch: self.config.epoch.clone(),
            conversation,
            after,
            kept,
            tab: tab.clone(),
            capabilities: ["entry", "nack", "retry_of", "late_answers", "rewind", "history"]
                .map(str::to_owned)
                .to_vec(),
            limits: bounds,
        }
    }

    pub(super) fn backends_frame(&self) -> Backends {
        Backends {
            backends: self.config.backends.clone(),
            any_ready: self.config.backends.iter().any(|info| info.ready),
            discovery_complete: true,
        }
    }

    pub(super) fn models_frame(&self, backend: &Backend) -> Models {
        Models {
            epoch: self.config.epoch.clone(),
            models: self.config.models.get(backend).cloned().unwrap_or_default(),
            current: self.conversations.get(backend).and_then(|one| one.model.clone()),
            backend: backend.as_str().to_owned(),
        }
    }

    pub(super) fn backends_changed(
        &mut self,
        backends: Vec<crate::frame::BackendInfo>,
        models: std::collections::BTreeMap<Backend, Vec<crate::frame::Model>>,
    ) {
        self.config.backends = backends;
        self.config.models = models;
        let all: Vec<SocketId> = self.tabs.values().filter_map(|tab| tab.socket).collect();
        let frame = self.backends_frame();
        self.send(all, frame);
    }

    fn set_backend(&mut self, socket: SocketId, key: &TabKey, name: &str, now: u64) {
        let wanted = self.config.backend(name);
        let moved = self.move_tab(key, &wanted, now);
        let mut ack = Ack::new(true, "set_backend").with("backend", wanted.as_str());
        if Backend::parse(name) != wanted {
            ack = ack.message(format!("`{name}` is not configured; {wanted} is used."));
        }
        self.to(socket, ack);
        if moved {
            self.greet(socket, key, &Hello::default(), true, now);
            self.tab_is_back(key, true, now);
        }
    }

    /// Moves a tab to another conversation (rules B3, B4). Nobody else's tab is touched, no turn is stopped.
    fn move_tab(&mut self, key: &TabKey, wanted: &Backend, now: u64) -> bool {
        let Some(tab) = self.tabs.get_mut(key) else { return false };
        if tab.backend == *wanted {
            return false;
        }
        let before = std::mem::replace(&mut tab.backend, wanted.clone());
        tab.shown = Seq::default();
        self.conversation(wanted).retire_when_idle = false;
        self.close_asks_of(key, &before, now);
        self.tell_blind(&before, now);
        self.tell_blind(wanted, now);
        self.retire_if_unused(&before);
        true
    }

    /// The old conversation's agent goes when no connected tab uses it, and not before its turns are done (rule B3).
    pub(super) fn retire_if_unused(&mut self, backend: &Backend) {
        let used = self.tabs.values().any(|tab| tab.backend == *backend && tab.socket.is_some());
        let Some(one) = self.conversations.get_mut(backend) else { return };
        one.retire_when_idle = !used;
        let idle = one.turn.is_none() && !one.has_work();
        if one.retire_when_idle && idle {
            one.retire_when_idle = false;
            self.push(Output::Retire { backend: backend.clone() });
        }
    }

    fn set_options(&mut self, socket: SocketId, key: &TabKey, frame: crate::frame::SetOptions) {
        let Some(backend) = self.tabs.get(key).map(|tab| tab.backend.clone()) else { return };
        let mut ack = Ack::new(true, "options");
        if let Some(model) = frame.model {
            let known =
                self.config.models.get(&backend).is_some_and(|models| models.iter().any(|one| one.value == model));
            if known {
                self.conversation(&backend).model = Some(model.clone());
                self.push(Output::SetModel { backend: backend.clone(), model: model.clone() });
                ack = ack.with("model", model);
            } else {
                ack = Ack::new(false, "options").message(format!("`{model}` is no model of {backend}."));
            }
        }
        if let Some(cid) = frame.cid {
            ack = ack.with("cid", cid);
        }
        self.to(socket, ack);
    }

    /// Sends a frame to one socket.
    pub(super) fn to(&mut self, socket: SocketId, frame: impl Into<FromDaemon>) {
        self.send(vec![socket], frame);
    }

    /// Sends a frame to sockets; to none, nothing.
    pub(super) fn send(&mut self, sockets: Vec<SocketId>, frame: impl Into<FromDaemon>) {
        if !sockets.is_empty() {
            self.push(Output::Send { sockets, frame: frame.into() });
        }
    }

    pub(super) fn nack(&mut self, socket: SocketId, code: &str, message: impl Into<String>) {
        self.nack_about(socket, None, None, code, message);
    }

    pub(super) fn nack_about(
        &mut self,
        socket: SocketId,
        mid: Option<MessageId>,
        rid: Option<Rid>,
        code: &str,
        message: impl Into<String>,
    ) {
        self.to(socket, Nack { mid, rid, code: code.to_owned(), message: message.into(), retry_after_ms: None });
    }

    pub(super) fn close(&mut self, socket: SocketId, code: u16, reason: &str) {
        self.push(Output::Close { socket, code, reason: reason.to_owned() });
    }
}

/// The workflow of a legacy hello: its instance from `workflow_uuid`, its labels from the route.
fn legacy_workflow(hello: &Hello, route: &str) -> Option<WorkflowIdentity> {
    let uuid = hello.workflow_uuid.clone()?;
    let title = hello.title.clone().unwrap_or_default();
    let (path, handle) = match Route::parse(route) {
        Route::Saved { path, .. } => (Some(path.clone()), path.handle()),
        Route::Unsaved(handle) | Route::Plain(handle) => (None, handle),
        Route::Probe => return None,
    };
    Some(WorkflowIdentity { uuid, path, handle, title, canvas: None })
}

/// Whether a hello brings a name that is too long to be kept.
fn is_too_long(hello: &Hello) -> bool {
    let workflow = hello.workflow.as_ref();
    let names = [
        hello.tab_id.as_deref(),
        hello.tab_session_id.as_deref(),
        hello.workflow_uuid.as_ref().map(|uuid| uuid.as_str()),
        workflow.map(|workflow| workflow.uuid.as_str()),
        workflow.map(|workflow| workflow.handle.as_str()),
        workflow.and_then(|workflow| workflow.path.as_ref()).map(|path| path.as_str()),
        workflow.and_then(|workflow| workflow.canvas.as_ref()).map(|canvas| canvas.as_str()),
    ];
    names.into_iter().flatten().any(|name| name.len() > MOST_ID)
}
