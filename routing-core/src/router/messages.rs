//! What the person says, from the socket to the queue; and what they do with messages that wait.

use super::commits::Then;
use super::conversation::Phase;
use super::{Output, Router};
use crate::agent::TurnOutcome;
use crate::frame::{Ack, UserMessage, WorkflowIdentity};
use crate::id::{Backend, MessageId, Seq, SocketId, TabKey};
use crate::turn::{Item, Origin, Source, take_batch};
use serde_json::{Map, Value, json};

/// Why a message is not taken for the one that has its id.
pub(super) const MID_TAKEN: &str =
    "Another message has this `mid` and says something else. Send this one under a fresh `mid`.";
/// Why nothing more is taken.
pub(super) const BACKLOG_FULL: &str =
    "Too many messages are waiting in this conversation. Wait until some are answered.";
/// Fields of a message that go to the log as they are.
const ATTACHMENTS: &[&str] = &["images", "audio"];

impl Router {
    pub(super) fn user_message(&mut self, socket: SocketId, key: &TabKey, message: UserMessage, now: u64) {
        let Some(tab) = self.tabs.get(key) else { return };
        let (backend, modern) = (tab.backend.clone(), self.sockets.get(&socket).is_some_and(|one| one.modern));
        let mid = match (message.mid.clone(), modern) {
            (Some(mid), _) => mid,
            (None, false) => self.fresh_mid(),
            (None, true) => return self.nack(socket, "mid_required", "A message needs a `mid` of its own."),
        };
        let attachments: Map<String, Value> = ATTACHMENTS
            .iter()
            .filter_map(|name| message.extra.get(*name).map(|value| ((*name).to_owned(), value.clone())))
            .collect();
        if message.text.trim().is_empty() && attachments.is_empty() {
            return self.nack_about(socket, Some(mid), None, "empty", "The message has no text.");
        }
        let said = for_agent(&message.text, &Value::Object(attachments.clone()));
        if let Some(item) = self.conversation(&backend).held(&mid) {
            if item.text != said {
                return self.nack_about(socket, Some(mid), None, "mid_taken", MID_TAKEN);
            }
            return self.to(socket, Ack::new(true, "working").mid(&mid));
        }
        let writing = self.commits.values_mut().filter(|commit| commit.backend == backend).find_map(|commit| {
            match &mut commit.then {
                Then::Accept { sockets, item, .. } if item.mid.as_ref() == Some(&mid) => Some((sockets, item)),
                _ => None,
            }
        });
        if let Some((sockets, item)) = writing {
            if item.text != said {
                return self.nack_about(socket, Some(mid), None, "mid_taken", MID_TAKEN);
            }
            if !sockets.contains(&socket) {
                sockets.push(socket);
            }
            return;
        }
        if self.backlog_is_full(&backend) {
            return self.nack_about(socket, Some(mid), None, "backlog_full", BACKLOG_FULL);
        }
        let origin = self.origin_of(key, message.workflow_uuid);
        let mut body = Map::new();
        body.insert("text".to_owned(), json!(message.text));
        body.insert("mid".to_owned(), json!(mid));
        body.insert("origin".to_owned(), json!(origin));
        if let Some(context) = &message.context {
            body.insert("context".to_owned(), json!(context));
        }
        body.extend(attachments);
        let mut row = self.row(&backend, "user", Value::Object(body), now);
        row.key = Some(format!("mid:{mid}"));
        row.inbound = true;
        self.conversation(&backend).last_speaker = Some(key.clone());
        let item = Item {
            seq: Seq::default(),
            mid: Some(mid),
            text: said,
            context: message.context,
            source: Source::Person { origin },
            requeued: false,
            quiet: false,
            run: None,
        };
        self.commit(&backend, vec![row], Then::Accept { sockets: vec![socket], item, cancelled: false });
    }

    /// Whether no more may wait. What is being written counts: a burst is faster than the disk.
    pub(super) fn backlog_is_full(&self, backend: &Backend) -> bool {
        let joins = |then: &Then| matches!(then, Then::Accept { .. } | Then::Inject { .. });
        let soon = self.commits.values().filter(|commit| commit.backend == *backend && joins(&commit.then)).count();
        // What starts no turn must not keep out what would take it along.
        let waiting =
            self.conversations.get(backend).map_or(0, |one| one.queue.iter().filter(|item| !item.quiet).count());
        waiting + soon >= self.config.limits.backlog
    }

    /// The origin of a message, as it is when the message is received (rule T1).
    pub(super) fn origin_of(&self, key: &TabKey, composed_for: Option<crate::id::WorkflowUuid>) -> Option<Origin> {
        let tab = self.tabs.get(key)?;
        let workflow = match (composed_for, &tab.workflow) {
            (Some(uuid), Some(front)) if front.uuid == uuid => Some(front.clone()),
            (Some(uuid), _) => Some(WorkflowIdentity {
                uuid,
                path: None,
                handle: String::new(),
                title: tab.title.clone(),
                canvas: None,
            }),
            (None, front) => front.clone(),
        };
        Some(Origin { tab: key.clone(), identity: tab.identity.clone(), backend: tab.backend.clone(), workflow })
    }

    pub(super) fn interrupt(&mut self, socket: SocketId, key: &TabKey, requeue: bool, now: u64) {
        let Some(backend) = self.tabs.get(key).map(|tab| tab.backend.clone()) else { return };
        let being_written = self.commits.values_mut().filter(|commit| commit.backend == backend).find_map(|commit| {
            match &mut commit.then {
                Then::Accept { cancelled, .. } if !*cancelled => Some(cancelled),
                _ => None,
            }
        });
        let one =
            self.conversations.entry(backend.clone()).or_insert_with(|| super::Conversation::new(backend.clone()));
        let stopped = match one.turn.as_mut() {
            Some(turn) => match turn.phase {
                Phase::Running => {
                    turn.phase = Phase::Stopping { requeue };
                    self.refuse_parked(&backend);
                    self.push(Output::Interrupt { backend });
                    true
                }
                // The agent has not taken it: a plain Stop ends what it would take now and nothing that comes later. Send
                // now changes nothing.
                Phase::Waking if requeue => false,
                Phase::Waking => {
                    turn.batch = take_batch(&mut one.queue);
                    self.end_turn(&backend, &TurnOutcome::Interrupted, None, now);
                    true
                }
                Phase::Recording => {
                    turn.stop = turn.stop || !requeue;
                    !requeue
                }
                Phase::Stopping { .. } => {
                    if !requeue {
                        turn.phase = Phase::Stopping { requeue };
                    }
                    true
                }
                Phase::Ending => false,
            },
            // What is being written would be the next turn.
            None => match being_written.filter(|_| !requeue) {
                Some(cancelled) => {
                    *cancelled = true;
                    true
                }
                None => false,
            },
        };
        self.to(socket, Ack::new(true, "interrupt").with("interrupted", stopped));
    }

    pub(super) fn cancel_message(&mut self, socket: SocketId, key: &TabKey, mid: &MessageId, now: u64) {
        let Some(backend) = self.tabs.get(key).map(|tab| tab.backend.clone()) else { return };
        let mut removed = false;
        for commit in self.commits.values_mut().filter(|commit| commit.backend == backend) {
            if let Then::Accept { item, cancelled, .. } = &mut commit.then
                && item.mid.as_ref() == Some(mid)
            {
                *cancelled = true;
                removed = true;
            }
        }
        let one = self.conversation(&backend);
        if let Some(at) = one.queue.iter().position(|item| item.mid.as_ref() == Some(mid))
            && let Some(item) = one.queue.remove(at)
        {
            removed = true;
            self.settle_unused(&backend, item.mid, item.seq, now);
        }
        self.to(socket, Ack::new(true, "cancel_message").mid(mid).with("removed", removed));
    }

    /// A row that no turn will take: taken back by the person, or dropped with its conversation.
    pub(super) fn settle_unused(&mut self, backend: &Backend, mid: Option<MessageId>, seq: Seq, now: u64) {
        let mut row = self.row(backend, "cancelled", json!({"mid": mid, "of": seq}), now);
        row.settles = vec![seq];
        self.commit(backend, vec![row], Then::Show);
    }

    pub(super) fn reorder(&mut self, socket: SocketId, key: &TabKey, order: &[MessageId]) {
        let Some(backend) = self.tabs.get(key).map(|tab| tab.backend.clone()) else { return };
        let rank = |item: &Item| {
            item.mid.as_ref().and_then(|mid| order.iter().position(|one| one == mid)).unwrap_or(order.len())
        };
        self.conversation(&backend).queue.make_contiguous().sort_by_key(rank);
        self.to(socket, Ack::new(true, "reorder"));
    }
}

/// What the agent reads of a message: the text, and what was attached to it by name.
pub(super) fn for_agent(text: &str, body: &Value) -> String {
    let attached: Vec<String> = ATTACHMENTS
        .iter()
        .filter_map(|name| body.get(*name)?.as_array())
        .flatten()
        .filter_map(crate::run::file_name)
        .collect();
    match (attached.as_slice(), text.trim().is_empty()) {
        ([], _) => text.to_owned(),
        (names, true) => format!("[The person attached {}.]", names.join(", ")),
        (names, false) => format!("{text}\n\n[The person attached {}.]", names.join(", ")),
    }
}
