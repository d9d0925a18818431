//! The connection: when a socket is opened, what a hello says, when the handshake is done, when to come back and when
//! to stay away. Knows sockets by number only.

use super::{ConnectionState, Panel, PanelOutput, UiChange};
use crate::frame::{FromPanel, Hello, PROTOCOL, PanelFrame, Welcome, WorkflowIdentity};
use crate::id::{Backend, ConversationKey, Seq};

/// How long a socket may take to open.
const OPEN_MS: u64 = 20_000;
/// How long the handshake may take after that.
const HANDSHAKE_MS: u64 = 20_000;
/// The longest pause between two attempts.
const LONGEST_PAUSE_MS: u64 = 15_000;
/// Close code of a policy that will not change by itself.
const POLICY: u16 = 1008;
/// From here on the codes are the daemon's own, and mean: do not come back.
const FIRST_FINAL: u16 = 4000;
/// Close code: another connection of the same browser tab took over.
const TAKEN_OVER: u16 = 4001;
/// How long the hello of a socket that was lost may still be on its way to the daemon.
const STRAY_MS: u64 = 120_000;

/// Where the connection stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Link {
    #[default]
    Idle,
    Opening {
        deadline: u64,
    },
    /// Hello was said.
    Greeting {
        deadline: u64,
        welcomed: bool,
        models: bool,
    },
    Up,
    Waiting {
        until: u64,
    },
    Down,
}

/// State of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Connection {
    link: Link,
    socket: u32,
    /// Attempts since the last welcome.
    attempts: u32,
    /// Sockets that were lost after they had said hello, and when the last of them was: their hellos may come after the
    /// next one's, and take over.
    strays: (u32, u64),
    /// The daemon asked for a pause at least this long.
    pause_ms: u64,
    epoch: Option<String>,
    /// `after` of each hello that no welcome has answered.
    hellos: Vec<Seq>,
    told: Option<WorkflowIdentity>,
}

impl Connection {
    pub(super) fn socket(&self) -> u32 {
        self.socket
    }

    pub(super) fn is_current(&self, socket: u32) -> bool {
        self.socket == socket && matches!(self.link, Link::Opening { .. } | Link::Greeting { .. } | Link::Up)
    }

    /// A hello was said on the socket that is there.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.link, Link::Greeting { .. } | Link::Up)
    }

    pub(super) fn is_welcomed(&self) -> bool {
        matches!(self.link, Link::Greeting { welcomed: true, .. } | Link::Up)
    }

    pub(super) fn is_up(&self) -> bool {
        self.link == Link::Up
    }

    /// The workflow that the daemon was last told of on this socket.
    pub(super) fn told(&self) -> Option<&WorkflowIdentity> {
        self.told.as_ref()
    }

    pub(super) fn deadline(&self) -> Option<(u64, &'static str)> {
        match self.link {
            Link::Opening { deadline } => Some((deadline, "connect")),
            Link::Greeting { deadline, .. } => Some((deadline, "handshake")),
            Link::Waiting { until } => Some((until, "reconnect")),
            Link::Idle | Link::Up | Link::Down => None,
        }
    }
}

impl Panel {
    pub(super) fn start(&mut self, now: u64) {
        if self.connection.link == Link::Idle {
            self.connect(now);
        }
    }

    pub(super) fn reconnect(&mut self, now: u64) {
        match self.connection.link {
            Link::Idle | Link::Waiting { .. } | Link::Down => self.connect(now),
            Link::Opening { .. } | Link::Greeting { .. } | Link::Up => {}
        }
    }

    fn connect(&mut self, now: u64) {
        self.connection.socket += 1;
        self.connection.link = Link::Opening { deadline: now + OPEN_MS };
        self.out.push_back(PanelOutput::Connect { socket: self.connection.socket });
        self.show_connection(ConnectionState::Connecting, None, None, None);
    }

    pub(super) fn opened(&mut self, socket: u32, now: u64) {
        if !self.connection.is_current(socket) || !matches!(self.connection.link, Link::Opening { .. }) {
            return;
        }
        self.connection.link = Link::Greeting { deadline: now + HANDSHAKE_MS, welcomed: false, models: false };
        self.hello();
    }

    /// Says who is there and what is in front.
    pub(super) fn hello(&mut self) {
        let after = self.transcript.last();
        self.connection.hellos.push(after);
        self.connection.told.clone_from(&self.front);
        let hello = Hello {
            tab_id: Some(self.config.tab_id.clone()),
            protocol: Some(PROTOCOL),
            after: (after > Seq(0)).then_some(after),
            workflow: self.front.clone(),
            title: self.front.as_ref().map(|front| front.title.clone()),
            panel_version: Some(self.config.version.clone()),
            backend: self.config.backend.clone(),
            comfyui_url: self.config.comfyui_url.clone(),
            blind: self.blind,
            ..Hello::default()
        };
        self.transmit(&FromPanel::Typed(PanelFrame::Hello(Box::new(hello))));
    }

    pub(super) fn closed(&mut self, socket: u32, code: u16, reason: String, now: u64) {
        if !self.connection.is_current(socket) {
            return;
        }
        let own = code == TAKEN_OVER && self.takes_back(now);
        if code < FIRST_FINAL {
            self.strayed(now);
        }
        self.lost(now);
        if own {
            // What took over may be an earlier socket of this very page.
            self.wait(now, Some(reason), Some(code));
        } else if code == POLICY || code >= FIRST_FINAL {
            self.connection.link = Link::Down;
            self.show_connection(ConnectionState::Down, Some(reason), Some(code), None);
        } else {
            self.wait(now, Some(reason), Some(code));
        }
    }

    fn wait(&mut self, now: u64, reason: Option<String>, code: Option<u16>) {
        let pause = match self.connection.attempts {
            0 => 1_000,
            1 => 2_000,
            2 => 4_000,
            3 => 8_000,
            _ => LONGEST_PAUSE_MS,
        };
        self.connection.attempts = self.connection.attempts.saturating_add(1);
        let until = now + pause.max(std::mem::take(&mut self.connection.pause_ms));
        self.connection.link = Link::Waiting { until };
        self.show_connection(ConnectionState::Waiting, reason, code, Some(until));
    }

    fn strayed(&mut self, now: u64) {
        if self.connection.is_open() {
            self.connection.strays = (self.connection.strays.0.saturating_add(1), now);
        }
    }

    /// Whether an earlier socket of this page may have taken over: once for each that there was, so that two pages of one
    /// browser tab do not take turns for ever.
    fn takes_back(&mut self, now: u64) -> bool {
        let (left, last) = &mut self.connection.strays;
        let may = *left > 0 && now < *last + STRAY_MS;
        *left = if may { *left - 1 } else { 0 };
        may
    }

    /// What a socket's end means for everything that was under way on it.
    fn lost(&mut self, now: u64) {
        self.connection.hellos.clear();
        self.connection.told = None;
        self.transcript.lost();
        self.outbox.lost();
        self.runs.lost(now);
    }

    /// Gives the socket up although it has not closed.
    fn hang_up(&mut self, now: u64, reason: &str) {
        self.strayed(now);
        self.out.push_back(PanelOutput::Disconnect { socket: self.connection.socket });
        self.lost(now);
        self.wait(now, Some(reason.to_owned()), None);
    }

    /// Reads on over a new socket.
    pub(super) fn reopen(&mut self, now: u64) {
        self.strayed(now);
        self.out.push_back(PanelOutput::Disconnect { socket: self.connection.socket });
        self.lost(now);
        self.connect(now);
    }

    pub(super) fn connection_due(&mut self, now: u64) {
        match self.connection.link {
            Link::Opening { deadline } if now >= deadline => self.hang_up(now, "the socket did not open in time"),
            Link::Greeting { deadline, .. } if now >= deadline => {
                self.hang_up(now, "the daemon did not answer the hello in time");
            }
            Link::Waiting { until } if now >= until => self.connect(now),
            Link::Idle
            | Link::Opening { .. }
            | Link::Greeting { .. }
            | Link::Up
            | Link::Waiting { .. }
            | Link::Down => {}
        }
    }

    pub(super) fn epoch(&mut self, epoch: &str) {
        if self.connection.epoch.as_deref() == Some(epoch) {
            return;
        }
        if self.connection.epoch.replace(epoch.to_owned()).is_some() {
            self.ledger.new_run();
            self.set_working(false);
            self.drop_blocks();
        }
    }

    pub(super) fn welcome(&mut self, welcome: Welcome, now: u64) {
        self.epoch(&welcome.epoch);
        self.connection.attempts = 0;
        let hellos = &mut self.connection.hellos;
        let asked = if hellos.is_empty() { Seq(0) } else { hellos.remove(0) };
        let moved = self.conversation.as_ref() != Some(&welcome.conversation);
        let backend = welcome.conversation.backend();
        if moved || self.tab.as_ref() != Some(&welcome.tab) {
            self.show(UiChange::Conversation {
                conversation: welcome.conversation.clone(),
                backend: backend.to_string(),
                tab: welcome.tab.clone(),
            });
        }
        self.tab = Some(welcome.tab);
        if moved {
            self.enter(welcome.conversation);
        }
        // After what it was asked for the log has a hole that no row will fill; before that, it is another log.
        if welcome.after < asked {
            self.clear_transcript();
            self.transcript.start_at(Seq(0));
            return self.reopen(now);
        }
        if !welcome.kept.is_empty() {
            self.transcript_is(&welcome.kept, welcome.after);
        } else if welcome.after > self.transcript.last() {
            self.clear_transcript();
            // The rows that told how these ended will not be sent any more.
            self.leave();
            self.transcript.start_at(welcome.after);
        }
        if let Link::Greeting { welcomed, .. } = &mut self.connection.link
            && !std::mem::replace(welcomed, true)
        {
            // Whether a turn runs is told anew to each socket.
            self.set_working(false);
        }
        self.flush_replies();
        self.handshake(now);
    }

    pub(super) fn models_came(&mut self, now: u64) {
        if let Link::Greeting { models, .. } = &mut self.connection.link {
            *models = true;
        }
        self.handshake(now);
    }

    fn handshake(&mut self, now: u64) {
        if let Link::Greeting { welcomed: true, models: true, .. } = self.connection.link {
            self.connection.link = Link::Up;
            self.show_connection(ConnectionState::Connected, None, None, None);
            self.flush_runs(now);
            self.flush_outbox();
        }
    }

    /// The tab takes part in another conversation: what is shown of the old one goes.
    fn enter(&mut self, conversation: ConversationKey) {
        let first = self.conversation.replace(conversation).is_none();
        if !first {
            self.clear_transcript();
            self.transcript.start_at(Seq(0));
            self.set_working(false);
            self.leave();
            self.close_questions();
            // What asked in vain for rows of the old log asks nothing of this one.
            self.connection.hellos.iter_mut().for_each(|asked| *asked = Seq(0));
            self.show(UiChange::Todo { items: Vec::new() });
            self.target = Default::default();
            self.show_acts_on();
        }
    }

    pub(super) fn set_backend(&mut self, backend: &Backend) {
        if self.connection.is_up() {
            self.transmit(&FromPanel::Typed(PanelFrame::SetBackend(crate::frame::SetBackend {
                backend: backend.to_string(),
                extra: Default::default(),
            })));
        } else {
            self.config.backend = Some(backend.to_string());
        }
    }

    /// The daemon took the switch; its welcome to the other conversation follows.
    pub(super) fn backend_taken(&mut self, backend: &Backend) {
        self.config.backend = Some(backend.to_string());
        let conversation = ConversationKey::of(backend);
        if self.conversation.as_ref() != Some(&conversation) {
            if let Some(tab) = self.tab.clone() {
                self.show(UiChange::Conversation {
                    conversation: conversation.clone(),
                    backend: backend.to_string(),
                    tab,
                });
            }
            self.enter(conversation);
        }
    }

    pub(super) fn overloaded(&mut self, retry_after_ms: u64) {
        self.connection.pause_ms = retry_after_ms;
        self.notice("overloaded", "");
    }

    fn show_connection(
        &mut self,
        state: ConnectionState,
        reason: Option<String>,
        code: Option<u16>,
        retry_at: Option<u64>,
    ) {
        let reason = reason.filter(|reason| !reason.is_empty());
        self.show(UiChange::Connection { state, reason, code, retry_at });
    }
}
