//! Messages of the person: kept until the daemon has them in its log, sent again after a reconnect under the same id,
//! and followed until their turn is over (rules D6, T1, T8).

use super::{Composed, MessageState, Panel, UiChange};
use crate::frame::{CancelMessage, FromPanel, PanelFrame, Reorder, UserMessage};
use crate::id::MessageId;

/// How long a message waits for the canvas to say what is in front.
const HOLD_MS: u64 = 2_000;
/// Most messages in the queue.
const MOST: usize = 200;
/// The longest text, in bytes: a frame must stay under 1 MiB with its escapes.
const LONGEST: usize = 480_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Message {
    mid: MessageId,
    text: String,
    context: Option<String>,
    composed: Composed,
    held_until: u64,
    state: MessageState,
    /// It was sent over some socket, and may have arrived.
    tried: bool,
    /// The person took it back, and whether the daemon has it is not known.
    cancelling: bool,
    failure: Option<(String, String)>,
}

/// The queue, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Outbox {
    messages: Vec<Message>,
    /// The daemon was told of the workflow that is in front, unknown, for the sake of a message without a stamp.
    gave_up: bool,
}

impl Outbox {
    /// The socket is gone: what was not acknowledged is sent again.
    pub(super) fn lost(&mut self) {
        for message in &mut self.messages {
            if message.state == MessageState::Sent {
                message.state = MessageState::Waiting;
            }
        }
    }

    /// Messages that waited to know what they act on.
    pub(super) fn stamp(&mut self, composed: &Composed) {
        self.gave_up = false;
        for message in &mut self.messages {
            if message.state == MessageState::Waiting && message.composed.workflow_uuid.is_none() {
                message.composed = composed.clone();
            }
        }
    }

    /// When a message that is only held back by a missing stamp goes out all the same.
    pub(super) fn held_until(&self, up: bool) -> Option<u64> {
        let first = self.messages.iter().find(|one| one.state == MessageState::Waiting && !one.cancelling)?;
        (up && first.composed.workflow_uuid.is_none() && !self.gave_up).then_some(first.held_until)
    }

    fn get(&mut self, mid: &MessageId) -> Option<&mut Message> {
        self.messages.iter_mut().find(|one| one.mid == *mid)
    }
}

impl Panel {
    pub(super) fn send(&mut self, mid: MessageId, text: String, context: Option<String>, at_once: bool, now: u64) {
        if self.outbox.get(&mid).is_some() {
            return;
        }
        let composed = self.composed();
        let mut message = Message {
            mid: mid.clone(),
            text,
            context,
            composed,
            held_until: now + HOLD_MS,
            state: MessageState::Waiting,
            tried: false,
            cancelling: false,
            failure: None,
        };
        let size = message.text.len() + message.context.as_ref().map_or(0, String::len);
        if size > LONGEST {
            message.failure = Some(("too_long".to_owned(), String::new()));
        } else if self.outbox.messages.len() >= MOST {
            message.failure = Some(("queue_full".to_owned(), String::new()));
        }
        if message.failure.is_some() {
            message.state = MessageState::Failed;
            return self.show(shown(&message));
        }
        self.outbox.messages.push(message);
        self.show_message(&mid);
        if at_once && self.working {
            self.send_now();
        }
        self.flush_outbox();
    }

    /// Sends what waits, in order, as far as it is known what it acts on.
    pub(super) fn flush_outbox(&mut self) {
        if !self.connection.is_up() {
            return;
        }
        for at in 0..self.outbox.messages.len() {
            let message = &mut self.outbox.messages[at];
            if message.state != MessageState::Waiting {
                continue;
            }
            let frame = if message.cancelling {
                PanelFrame::CancelMessage(CancelMessage { mid: message.mid.clone(), extra: Default::default() })
            } else if message.composed.workflow_uuid.is_some() || self.outbox.gave_up {
                PanelFrame::UserMessage(UserMessage {
                    text: message.text.clone(),
                    mid: Some(message.mid.clone()),
                    workflow_uuid: message.composed.workflow_uuid.clone(),
                    context: message.context.clone(),
                    extra: Default::default(),
                })
            } else {
                return;
            };
            message.state = MessageState::Sent;
            message.tried = true;
            let change = shown(message);
            self.transmit(&FromPanel::Typed(frame));
            self.show(change);
        }
    }

    pub(super) fn outbox_due(&mut self, now: u64) {
        if self.outbox.held_until(self.connection.is_up()).is_some_and(|when| now >= when) {
            self.outbox.gave_up = true;
            // Not stamped and so not to be read as "the workflow that I told you of last".
            if self.connection.told().is_some() {
                self.hello();
            }
            self.flush_outbox();
        }
    }

    /// The daemon has it in its log.
    pub(super) fn accepted(&mut self, mid: &MessageId) {
        let Some(message) = self.outbox.get(mid) else { return };
        match message.state {
            MessageState::Waiting | MessageState::Sent | MessageState::Failed => {
                message.failure = None;
                self.set_message(mid, MessageState::Accepted);
            }
            MessageState::Accepted | MessageState::Seen | MessageState::Done | MessageState::Cancelled => {}
        }
    }

    /// The daemon has had it in its log for long, and nothing is left to be done for it.
    pub(super) fn settled(&mut self, mid: &MessageId) {
        self.set_message(mid, MessageState::Done);
    }

    /// The agent took it.
    pub(super) fn seen(&mut self, mid: &MessageId) {
        self.set_message(mid, MessageState::Seen);
    }

    /// A turn ended that had taken these. `put_back`: they wait again (rule T8).
    pub(super) fn turn_over(&mut self, mids: &[MessageId], put_back: bool) {
        let state = if put_back { MessageState::Accepted } else { MessageState::Done };
        for mid in mids {
            self.set_message(mid, state);
        }
    }

    /// The tab left the conversation, or a boundary ended it: what was in its log by then is over for this panel.
    pub(super) fn leave(&mut self) {
        let there = |one: &&Message| matches!(one.state, MessageState::Accepted | MessageState::Seen);
        let mids: Vec<MessageId> = self.outbox.messages.iter().filter(there).map(|one| one.mid.clone()).collect();
        for mid in mids {
            self.set_message(&mid, MessageState::Done);
        }
    }

    pub(super) fn message_refused(&mut self, mid: &MessageId, code: String, text: String) -> bool {
        let Some(message) = self.outbox.get(mid) else { return false };
        message.failure = Some((code, text));
        self.set_message(mid, MessageState::Failed);
        true
    }

    pub(super) fn resend(&mut self, mid: &MessageId) {
        if let Some(message) = self.outbox.get(mid).filter(|one| one.state == MessageState::Failed) {
            message.failure = None;
            message.cancelling = false;
            self.set_message(mid, MessageState::Waiting);
            self.flush_outbox();
        }
    }

    pub(super) fn send_now(&mut self) {
        self.interrupt(true);
    }

    pub(super) fn cancel(&mut self, mid: MessageId) {
        let up = self.connection.is_up();
        let Some(message) = self.outbox.get(&mid) else { return };
        match message.state {
            MessageState::Failed => self.set_message(&mid, MessageState::Cancelled),
            MessageState::Waiting if !message.tried => self.set_message(&mid, MessageState::Cancelled),
            MessageState::Waiting | MessageState::Sent | MessageState::Accepted => {
                message.cancelling = true;
                if up && message.state != MessageState::Waiting {
                    let frame = PanelFrame::CancelMessage(CancelMessage { mid, extra: Default::default() });
                    self.transmit(&FromPanel::Typed(frame));
                } else if message.state == MessageState::Accepted {
                    // Known to be in the log: asked for again as soon as there is a connection.
                    message.state = MessageState::Waiting;
                }
                self.flush_outbox();
            }
            MessageState::Seen | MessageState::Done | MessageState::Cancelled => {}
        }
    }

    /// `removed`: it waited and waits no longer.
    pub(super) fn cancel_answered(&mut self, mid: &MessageId, removed: bool) {
        let Some(message) = self.outbox.get(mid) else { return };
        message.cancelling = false;
        match message.state {
            // Not removed, and not in the log either: it never arrived.
            MessageState::Waiting | MessageState::Sent => self.set_message(mid, MessageState::Cancelled),
            MessageState::Accepted
            | MessageState::Seen
            | MessageState::Done
            | MessageState::Cancelled
            | MessageState::Failed => {
                if removed {
                    self.set_message(mid, MessageState::Cancelled);
                } else {
                    self.notice("cancel_too_late", "");
                }
            }
        }
    }

    pub(super) fn reorder(&mut self, order: &[MessageId]) {
        let mut rest = std::mem::take(&mut self.outbox.messages);
        for mid in order {
            if let Some(at) = rest.iter().position(|one| one.mid == *mid) {
                self.outbox.messages.push(rest.remove(at));
            }
        }
        self.outbox.messages.append(&mut rest);
        let order: Vec<MessageId> = self.outbox.messages.iter().map(|one| one.mid.clone()).collect();
        let at_daemon = |one: &&Message| matches!(one.state, MessageState::Sent | MessageState::Accepted);
        let told: Vec<MessageId> = self.outbox.messages.iter().filter(at_daemon).map(|one| one.mid.clone()).collect();
        if told.len() > 1 && self.connection.is_up() {
            self.transmit(&FromPanel::Typed(PanelFrame::Reorder(Reorder { order: told, extra: Default::default() })));
        }
        self.show(UiChange::Queue { order });
    }

    fn set_message(&mut self, mid: &MessageId, state: MessageState) {
        let Some(message) = self.outbox.get(mid) else { return };
        if message.state != state {
            message.state = state;
            self.show_message(mid);
        }
        if matches!(state, MessageState::Done | MessageState::Cancelled) {
            self.outbox.messages.retain(|one| one.mid != *mid);
        }
    }

    fn show_message(&mut self, mid: &MessageId) {
        if let Some(change) = self.outbox.get(mid).map(|message| shown(message)) {
            self.show(change);
        }
    }
}

fn shown(message: &Message) -> UiChange {
    let (code, words) = message.failure.clone().unzip();
    UiChange::Message {
        mid: message.mid.clone(),
        text: message.text.clone(),
        state: message.state,
        acts_on: message.composed.acts_on.clone(),
        code,
        message: words.filter(|words| !words.is_empty()),
    }
}
