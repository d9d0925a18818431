//! New chat, resume, rewind, and the start of the daemon (rules B1, B2, S7, T8). What an earlier point keeps is looked up
//! before anything is given up for it.

use super::commits::Then;
use super::conversation::Phase;
use super::tabs::Tab;
use super::{Output, Pending, Restored, Router};
use crate::frame::{Ack, PanelFrame, Session, Transcript, TurnState};
use crate::id::{AgentSessionId, Backend, MessageId, Seq, SocketId, TabKey, TurnId};
use crate::ledger::{Asker, Purpose};
use crate::past::{Found, NotFound, Point, first_shown};
use crate::refusal::Refusal;
use crate::turn::{Item, Origin, Source};
use serde_json::{Value, json};

/// In how many turns an event is told at most, when they are cut off or stopped.
pub(super) const MOST_TURNS: u32 = 2;

/// Frames, and where they came from.
pub(super) type Held = Vec<(SocketId, PanelFrame)>;

/// A boundary that waits for the agent to be gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Boundary {
    socket: SocketId,
    why: Why,
    /// The agent's session that ends with it.
    left: Option<AgentSessionId>,
    settles: Vec<Seq>,
    cut: Option<Cut>,
    /// What was said meanwhile: it belongs to what comes after, also in the log.
    held: Held,
}

/// Why a conversation is cut, and what stays.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Why {
    /// New chat: nothing stays.
    New,
    /// An earlier session goes on.
    Resume {
        /// What the person chose.
        name: AgentSessionId,
        /// What stays.
        found: Found,
    },
    /// Back to an earlier point.
    Rewind(Found),
}

impl Why {
    fn kind(&self) -> &'static str {
        match self {
            Self::New => "new_session",
            Self::Resume { .. } => "resume_session",
            Self::Rewind(_) => "rewind",
        }
    }

    fn found(&self) -> Found {
        match self {
            Self::New => Found::default(),
            Self::Resume { found, .. } | Self::Rewind(found) => found.clone(),
        }
    }

    /// The agent's session that goes on. Within one, only an agent that names the point can go back.
    fn session(&self) -> Option<AgentSessionId> {
        match self {
            Self::New => None,
            Self::Resume { found, .. } => found.session.clone(),
            Self::Rewind(found) => found.session.clone().filter(|_| found.anchor.is_some()),
        }
    }
}

/// A turn that a boundary cut off.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cut {
    turn: TurnId,
    mids: Vec<MessageId>,
    /// Its end is in the log, or on the way there.
    ended: bool,
    /// Panels were told that it works.
    shown: bool,
}

impl Router {
    /// New chat: the whole conversation, in every tab (rule B1).
    pub(super) fn new_session(&mut self, socket: SocketId, key: &TabKey, now: u64) {
        if let Some(backend) = self.may_cut(socket, key, "new_session") {
            self.boundary(socket, backend, Why::New, now);
        }
    }

    /// Resume or rewind: what is there is looked up first.
    pub(super) fn recall(&mut self, socket: SocketId, key: &TabKey, point: Point) {
        if let Some(backend) = self.may_cut(socket, key, kind_of(&point)) {
            self.push(Output::Recall { socket, backend, point });
        }
    }

    /// It was looked up: the whole conversation goes there, in every tab (rule B1).
    pub(super) fn recalled(
        &mut self,
        socket: SocketId,
        backend: &Backend,
        point: Point,
        found: Result<Found, NotFound>,
        now: u64,
    ) {
        let kind = kind_of(&point);
        // Whoever asked is gone, or in another conversation by now (rule B4).
        let Some(key) = self.sockets.get(&socket).and_then(|one| one.tab.clone()) else { return };
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                return self.to(socket, Ack::new(false, kind).message(why.message()).with("code", why.code()));
            }
        };
        match self.may_cut(socket, &key, kind) {
            Some(of) if of == *backend => {}
            Some(_) => {
                let words = "This tab takes part in another conversation by now; nothing was done.";
                return self.to(socket, Ack::new(false, kind).message(words));
            }
            None => return,
        }
        let why = match point {
            Point::Session(name) => Why::Resume { name, found },
            Point::Anchor(_) | Point::Before(_) => Why::Rewind(found),
        };
        self.boundary(socket, backend.clone(), why, now);
    }

    /// The conversation that a tab may cut now.
    fn may_cut(&mut self, socket: SocketId, key: &TabKey, kind: &str) -> Option<Backend> {
        let backend = self.tabs.get(key).map(|tab| tab.backend.clone())?;
        if self.boundaries.contains_key(&backend) {
            self.to(socket, Ack::new(false, kind).message("The conversation is being cleared already."));
            return None;
        }
        Some(backend)
    }

    fn boundary(&mut self, socket: SocketId, backend: Backend, why: Why, now: u64) {
        let one = self.conversation(&backend);
        let turn = one.turn.take();
        let cut = turn.as_ref().filter(|turn| turn.phase != Phase::Waking).map(|turn| Cut {
            turn: turn.id,
            mids: turn.batch.iter().filter_map(|item| item.mid.clone()).collect(),
            ended: turn.phase == Phase::Ending,
            shown: turn.phase != Phase::Recording,
        });
        let mut settles: Vec<Seq> = turn.into_iter().flat_map(|turn| turn.batch).map(|item| item.seq).collect();
        settles.extend(one.queue.drain(..).map(|item| item.seq));
        one.forget_target();
        one.retry_at = None;
        one.failed_starts = 0;
        one.failed_turns = 0;
        let left = one.session.take();
        one.status = None;
        for commit in self.commits.values_mut().filter(|commit| commit.backend == backend) {
            match &mut commit.then {
                Then::Accept { cancelled: dropped, .. }
                | Then::Inject { dropped, .. }
                | Then::Ticket { dropped, .. } => *dropped = true,
                Then::Job { .. }
                | Then::Question(_)
                | Then::Answered { .. }
                | Then::Show
                | Then::Begin(_)
                | Then::End { .. }
                | Then::Boundary { .. } => {}
            }
        }
        self.close_calls(&backend, now);
        settles.extend(self.close_asks(|ask| ask.backend == backend).into_iter().map(|(_, seq)| seq));
        settles.extend(self.drop_runs(&backend));
        let session = why.session();
        let retold = session.is_none() && !why.found().kept.is_empty();
        self.boundaries.insert(backend.clone(), Boundary { socket, why, left, settles, cut, held: Vec::new() });
        self.push(Output::Forget { backend, session, retold });
    }

    fn close_calls(&mut self, backend: &Backend, now: u64) {
        let calls: Vec<_> = self.calls.iter().filter(|(_, call)| call.backend == *backend).map(|(id, _)| *id).collect();
        let dead: Vec<_> = self
            .sent
            .iter()
            .filter(|(_, sent)| match &sent.purpose {
                Purpose::Call(call) | Purpose::Gather(call) => calls.contains(call),
                Purpose::Retarget { backend: of, .. } => of == backend,
                Purpose::Ask(_) => false,
            })
            .map(|(rid, _)| rid.clone())
            .collect();
        for rid in dead {
            let Some(sent) = self.sent.remove(&rid) else { continue };
            if matches!(sent.purpose, Purpose::Retarget { by: Asker::Person(_), .. }) {
                // Whoever asked is answered, too (rule G1).
                self.retarget_failed(&sent, Refusal::Superseded, now);
            }
            self.remember_lost(rid, &sent, None);
        }
        for call in calls {
            self.answer(call, Err(Refusal::ConversationClosed));
        }
    }

    /// The agent is gone and the store says so.
    pub(super) fn forgotten(&mut self, backend: &Backend, durable: bool, now: u64) {
        let Some(boundary) = self.boundaries.get(backend).cloned() else { return };
        let kind = boundary.why.kind();
        let (found, ack) = (boundary.why.found(), Ack::new(true, kind));
        let mut reason = json!({"reason": kind, "left": boundary.left});
        let ack = match &boundary.why {
            Why::New => ack.with("durable_cleared", durable),
            Why::Resume { name, .. } => {
                reason["session_id"] = json!(name);
                ack.with("durable", durable)
            }
            Why::Rewind(Found { session, anchor, .. }) => {
                // A start of the agent takes the point from here.
                reason["session_id"] = json!(session);
                reason["anchor"] = json!(anchor);
                ack.with("durable", durable)
            }
        };
        let ack = match found.text {
            Some(text) => ack.with("text", text),
            None => ack,
        };
        if !found.kept.is_empty() {
            reason["kept"] = json!(found.kept);
        }
        let mut rows = Vec::new();
        if let Some(cut) = boundary.cut.filter(|cut| !cut.ended) {
            let body = json!({"turn": cut.turn, "outcome": "interrupted", "mids": cut.mids});
            rows.push(self.row(backend, "turn_end", body, now));
        }
        let mut row = self.row(backend, "boundary", reason, now);
        row.settles.clone_from(&boundary.settles);
        row.settles.append(&mut self.conversation(backend).owed);
        rows.push(row);
        self.commit(backend, rows, Then::Boundary { socket: boundary.socket, ack, kept: found.kept });
    }

    /// The agent that was cut off says nothing any more: panels are told that its turn is over, after all that it said.
    pub(super) fn boundary_over(&mut self, backend: &Backend) -> (Option<AgentSessionId>, Held) {
        let Some(boundary) = self.boundaries.remove(backend) else { return Default::default() };
        if boundary.cut.is_some_and(|cut| cut.shown) {
            let members = self.members(backend);
            self.send(members, crate::frame::Turn { state: TurnState::Done });
        }
        (boundary.why.session(), boundary.held)
    }

    /// Keeps a frame until the boundary is in the log. What the person says after New chat is part of the new one, and
    /// whatever waits before a boundary row is what that dropped.
    pub(super) fn held_at_boundary(&mut self, socket: SocketId, key: &TabKey, frame: &PanelFrame) -> bool {
        let ordered = matches!(
            frame,
            PanelFrame::UserMessage(_)
                | PanelFrame::CancelMessage(_)
                | PanelFrame::Reorder(_)
                | PanelFrame::Interrupt(_)
                | PanelFrame::AgentEvent(_)
        );
        let Some(backend) = self.tabs.get(key).map(|tab| tab.backend.clone()).filter(|_| ordered) else { return false };
        let most = self.config.limits.backlog;
        match self.boundaries.get_mut(&backend) {
            Some(boundary) if boundary.held.len() < most => {
                boundary.held.push((socket, frame.clone()));
                true
            }
            Some(_) => {
                let mid = if let PanelFrame::UserMessage(message) = frame { message.mid.clone() } else { None };
                self.nack_about(socket, mid, None, "backlog_full", super::messages::BACKLOG_FULL);
                true
            }
            None => false,
        }
    }

    /// Takes up what was said meanwhile. A panel that went sends it again.
    pub(super) fn take_held(&mut self, held: Held, now: u64) {
        for (socket, frame) in held {
            self.panel_frame(socket, frame, now);
        }
    }

    /// The boundary is on disk: every tab shows what is kept, and then the boundary. Older panels keep their own record.
    pub(super) fn show_kept(&mut self, backend: &Backend) {
        let one = self.conversation(backend);
        let (conversation, start, kept) = (one.key.clone(), one.start, one.kept.clone());
        let after = first_shown(start, &kept);
        for socket in self.members_of_dialect(backend, true) {
            self.to(socket, Transcript { kept: kept.clone(), after });
            for span in kept.iter().copied().chain([crate::frame::Span { after, upto: start }]) {
                self.push(Output::Replay {
                    socket,
                    conversation: conversation.clone(),
                    after: span.after,
                    upto: span.upto,
                    legacy: false,
                });
            }
        }
    }

    pub(super) fn boundary_done(&mut self, backend: &Backend, socket: SocketId, ack: Ack, now: u64) {
        let (session, held) = self.boundary_over(backend);
        let members = self.members(backend);
        self.send(members, Session { session_id: session });
        if self.sockets.contains_key(&socket) {
            self.to(socket, ack);
        }
        self.take_held(held, now);
        self.pump(backend);
    }

    /// Takes up a stored conversation. Messages that no turn took go on waiting; those of a turn that was cut off are
    /// reported, since what the agent did is not known.
    pub(super) fn restore(&mut self, backend: &Backend, restored: Restored, now: u64) {
        let blind_until = restored.blind.then(|| now + self.config.limits.blind_grace);
        let one = self.conversation(backend);
        one.blind_until = blind_until;
        one.told_blind = restored.blind;
        one.newest = restored.newest;
        one.start = restored.start;
        one.kept = restored.kept;
        one.last_turn = restored.last_turn;
        // Dropped by the boundary while they were being written: nothing else waits before it.
        let (dropped, pending): (Vec<_>, Vec<_>) =
            restored.pending.into_iter().partition(|row| row.seq < restored.start && row.kind != "job");
        for row in dropped {
            let mid = row.body.get("mid").and_then(Value::as_str).map(MessageId::from);
            self.settle_unused(backend, mid, row.seq, now);
        }
        let (tickets, rows): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|row| matches!(row.kind.as_str(), "run" | "job"));
        for ticket in tickets {
            self.restore_ticket(backend, ticket.seq, &ticket.body);
        }
        let (questions, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.kind == "ask");
        for question in &questions {
            self.restore_question(backend, question);
        }
        let open_turn = rows.iter().any(|row| restored.taken.contains(&row.seq));
        let (cut_off, waiting): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| {
            // What the daemon itself said is said once more; what a person said is for that person to say again.
            let again = row.kind != "user" && row.turns < MOST_TURNS;
            restored.taken.contains(&row.seq) && !again
        });
        let mut items: Vec<Item> = waiting.iter().map(item).collect();
        for item in &mut items {
            // A turn that was stopped stays stopped; one that was cut off goes on.
            let goes_on = restored.taken.contains(&item.seq) || restored.again.contains(&item.seq);
            item.quiet = item.is_event() && item.requeued && !goes_on;
        }
        for item in &items {
            if let Source::Person { origin: Some(origin) } = &item.source {
                self.remember_tab(origin);
            }
        }
        self.conversation(backend).queue.extend(items);
        if open_turn {
            let turn = restored.last_turn;
            let text = "⚠️ The daemon stopped while this was being answered. Part of it may have been done; look at the \
                        canvas, then say how to go on.";
            let mids: Vec<&Value> = cut_off.iter().filter_map(|row| row.body.get("mid")).collect();
            let mut rows = Vec::new();
            if !cut_off.is_empty() {
                rows.push(self.row(backend, "notice", json!({"text": text, "turn": turn, "code": "cut_off"}), now));
            }
            let mut end = self.row(backend, "turn_end", json!({"turn": turn, "outcome": "unknown", "mids": mids}), now);
            end.settles = cut_off.iter().map(|row| row.seq).collect();
            rows.push(end);
            self.commit(backend, rows, Then::Show);
        }
        self.pump(backend);
    }

    /// A stored tab's name is not given to another one.
    pub(super) fn tab_is_taken(&mut self, tab: &TabKey) {
        let number = tab.as_str().trim_start_matches('t').parse().unwrap_or(0);
        self.counters.tabs = self.counters.tabs.max(number);
    }

    /// The tab of a stored message, known again by what it says of itself when it comes back.
    pub(super) fn remember_tab(&mut self, origin: &Origin) {
        self.tab_is_taken(&origin.tab);
        let known = origin.identity.as_ref().is_some_and(|identity| self.tab_by_identity(identity).is_some());
        if known || self.tabs.contains_key(&origin.tab) {
            return;
        }
        let tab = Tab {
            identity: origin.identity.clone(),
            socket: None,
            backend: origin.backend.clone(),
            title: origin.workflow.as_ref().map(|workflow| workflow.title.clone()).unwrap_or_default(),
            workflow: None,
            headless: false,
            fences: true,
            joined: 0,
            blind: false,
            blind_until: None,
            shown: Seq::default(),
        };
        self.tabs.insert(origin.tab.clone(), tab);
    }
}

fn kind_of(point: &Point) -> &'static str {
    match point {
        Point::Session(_) => "resume_session",
        Point::Anchor(_) | Point::Before(_) => "rewind",
    }
}

fn item(row: &Pending) -> Item {
    let Pending { seq, kind, body, turns } = row;
    let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
    let source = match kind.as_str() {
        "user" => {
            Source::Person { origin: body.get("origin").and_then(|origin| serde_json::from_value(origin.clone()).ok()) }
        }
        _ => Source::Event,
    };
    Item {
        seq: *seq,
        mid: text("mid").map(crate::id::MessageId),
        text: super::messages::for_agent(&text("text").unwrap_or_default(), body),
        context: text("context"),
        source,
        requeued: *turns > 0,
        quiet: false,
        run: text("prompt_id").map(crate::id::PromptId),
    }
}
