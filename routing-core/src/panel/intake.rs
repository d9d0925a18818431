//! Frames of the daemon: each type to the part that it concerns. Unknown types are ignored.

use super::{Panel, UiChange};
use crate::frame::{Ack, DaemonFrame, FromDaemon, Nack};
use crate::id::Backend;
use serde_json::Value;

impl Panel {
    pub(super) fn frame(&mut self, text: &str, now: u64) {
        match FromDaemon::parse(text) {
            Ok(FromDaemon::Typed(frame)) => self.typed(frame, now),
            Ok(FromDaemon::Command(frame)) => self.command(frame, now),
            Ok(FromDaemon::Unknown(_)) => {}
            Err(error) => self.notice(error.code(), &error.to_string()),
        }
    }

    fn typed(&mut self, frame: DaemonFrame, now: u64) {
        match frame {
            DaemonFrame::Welcome(welcome) => self.welcome(welcome, now),
            DaemonFrame::SessionEpoch(frame) => self.epoch(&frame.epoch),
            DaemonFrame::Models(frame) => {
                self.epoch(&frame.epoch);
                self.show(UiChange::Models { models: frame.models, current: frame.current });
                self.models_came(now);
            }
            DaemonFrame::Backends(frame) => {
                self.show(UiChange::Backends { backends: frame.backends, any_ready: frame.any_ready });
            }
            DaemonFrame::WorkflowTarget(frame) => {
                self.target = frame.target.clone();
                self.show(UiChange::Target { target: frame.target });
                self.show_acts_on();
            }
            DaemonFrame::ComfyuiTarget(frame) => {
                self.show(UiChange::Comfyui { url: frame.url, is_local: frame.is_local });
            }
            DaemonFrame::Ack(ack) => self.ack(ack),
            DaemonFrame::Nack(nack) => self.nack(nack),
            // In this dialect both come as entries.
            DaemonFrame::Echo(_) => {}
            DaemonFrame::Say(say) => self.say(say),
            DaemonFrame::Stream(stream) => self.stream(stream),
            DaemonFrame::Action(action) => self.action(action),
            DaemonFrame::Turn(turn) => self.turn(turn.state),
            DaemonFrame::Session(session) => self.show(UiChange::Session { session_id: session.session_id }),
            // A point to rewind to stands in the row of its turn's end, too.
            DaemonFrame::TurnAnchor(_) => {}
            DaemonFrame::AgentStatus(usage) => self.show(UiChange::Usage { usage }),
            DaemonFrame::Entry(entry) => self.entry(entry, now),
            DaemonFrame::Transcript(frame) => self.transcript_is(&frame.kept, frame.after),
            DaemonFrame::HistoryList(frame) => self.listed(frame),
            DaemonFrame::HistoryFound(frame) => self.found(frame),
            DaemonFrame::HistoryExport(frame) => self.exported(frame),
            // This panel goes on with a session rather than look at it.
            DaemonFrame::HistoryTranscript(_) => {}
            DaemonFrame::AskClosed(closed) => self.ask_closed(closed.ask_id),
            DaemonFrame::DownloadProgress(frame) => self.show(UiChange::Downloads { downloads: frame.downloads }),
            DaemonFrame::Overloaded(frame) => self.overloaded(frame.retry_after_ms),
        }
    }

    fn ack(&mut self, ack: Ack) {
        match (ack.kind.as_str(), &ack.mid) {
            ("working", Some(mid)) if ack.ok => {
                if ack.extra.get("settled").and_then(Value::as_bool) == Some(true) {
                    self.settled(mid);
                } else {
                    self.accepted(mid);
                }
            }
            ("working", Some(mid)) => {
                let words = ack.message.clone().unwrap_or_default();
                self.message_refused(mid, "refused".to_owned(), words);
            }
            ("seen", Some(mid)) => self.seen(mid),
            ("cancel_message", Some(mid)) => {
                let removed = ack.ok && ack.extra.get("removed").and_then(Value::as_bool).unwrap_or(true);
                self.cancel_answered(mid, removed);
            }
            ("ready", _) => self.show(UiChange::Agent { ready: true, message: ack.message }),
            ("degraded", _) => self.show(UiChange::Agent { ready: false, message: ack.message }),
            ("set_backend", _) if ack.ok => {
                if let Some(backend) = ack.extra.get("backend").and_then(Value::as_str) {
                    self.backend_taken(&Backend::from(backend));
                }
                if let Some(words) = ack.message {
                    self.notice("set_backend", &words);
                }
            }
            ("options", _) if ack.ok => {
                if let Some(model) = ack.extra.get("model").and_then(Value::as_str) {
                    self.show(UiChange::Model { current: model.to_owned() });
                }
            }
            ("set_content_mode", _) if ack.ok => {
                let on = ack.extra.get("blind").and_then(Value::as_bool).unwrap_or(false);
                self.show(UiChange::Blind { on });
            }
            ("new_session", _) if ack.ok => {
                let durable = ack.extra.get("durable_cleared").and_then(Value::as_bool);
                if durable == Some(false) {
                    self.notice("not_durably_cleared", ack.message.as_deref().unwrap_or_default());
                }
            }
            ("rewind", _) if ack.ok => {
                if let Some(text) = ack.extra.get("text").and_then(Value::as_str) {
                    self.show(UiChange::Recalled { text: text.to_owned() });
                }
                if ack.extra.get("durable").and_then(Value::as_bool) == Some(false) {
                    self.notice("not_durably_cleared", ack.message.as_deref().unwrap_or_default());
                }
            }
            (kind, _) if !ack.ok => {
                let code = format!("{kind}_refused");
                self.notice(&code, ack.message.as_deref().unwrap_or_default());
            }
            _ => {}
        }
    }

    fn nack(&mut self, nack: Nack) {
        let Nack { mid, code, message, .. } = nack;
        let known = mid.is_some_and(|mid| self.message_refused(&mid, code.clone(), message.clone()));
        if !known {
            self.notice(&code, &message);
        }
    }
}
