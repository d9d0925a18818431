//! Blind mode (rule F6): while any tab of a conversation has it on, no pixels reach its agent. What counts as pixels is
//! decided in one place, for everything that answers a call.

use super::Router;
use super::commits::Then;
use crate::frame::Ack;
use crate::id::{Backend, SocketId, TabKey};
use crate::refusal::Refusal;
use serde_json::{Value, json};

/// Told with each prompt while it is on.
pub(super) const NOTE: &str =
    "[Blind mode is on: no pictures reach you, and you must not look at image files in any other way.]";

impl Router {
    /// Whether the conversation is blind: a tab has it on and is there, or went a short while ago.
    pub(super) fn is_blind(&self, backend: &Backend) -> bool {
        let holds = |tab: &super::tabs::Tab| tab.blind && (tab.socket.is_some() || tab.blind_until.is_some());
        let kept = self.conversations.get(backend).is_some_and(|one| one.blind_until.is_some());
        kept || self.tabs.values().any(|tab| tab.backend == *backend && holds(tab))
    }

    /// The person switched it in a tab.
    pub(super) fn set_content_mode(&mut self, socket: SocketId, key: &TabKey, blind: bool, now: u64) {
        let Some(backend) = self.tabs.get(key).map(|tab| tab.backend.clone()) else { return };
        if !blind {
            // Which tab had it on before a restart is not known: the person switches it off here.
            self.conversation(&backend).blind_until = None;
        }
        self.set_blind(key, Some(blind));
        self.tell_blind(&backend, now);
        let held = self.is_blind(&backend);
        let ack = Ack::new(true, "set_content_mode").with("blind", held);
        let ack = if held && !blind { ack.message("Another tab of this conversation has it on.") } else { ack };
        self.to(socket, ack);
    }

    /// What a hello brings: the tab's own wish, and how its conversation stands.
    pub(super) fn greet_blind(&mut self, socket: SocketId, key: &TabKey, blind: Option<bool>, now: u64) {
        self.set_blind(key, blind);
        let Some(backend) = self.tabs.get(key).map(|tab| tab.backend.clone()) else { return };
        self.tell_blind(&backend, now);
        if self.is_blind(&backend) {
            self.to(socket, Ack::new(true, "set_content_mode").with("blind", true));
        }
    }

    /// What a tab says of itself. Saying nothing is not switching it off.
    fn set_blind(&mut self, key: &TabKey, blind: Option<bool>) {
        if let (Some(tab), Some(blind)) = (self.tabs.get_mut(key), blind) {
            tab.blind = blind;
        }
    }

    /// A tab that has it on went: it counts for a while.
    pub(super) fn blind_tab_left(&mut self, key: &TabKey, now: u64) {
        let until = now + self.config.limits.blind_grace;
        if let Some(tab) = self.tabs.get_mut(key).filter(|tab| tab.blind) {
            tab.blind_until = Some(until);
        }
    }

    /// When the next one that is gone counts no longer.
    pub(super) fn blind_timeout(&self) -> Option<u64> {
        let tabs = self.tabs.values().filter_map(|tab| tab.blind_until);
        tabs.chain(self.conversations.values().filter_map(|one| one.blind_until)).min()
    }

    /// Those that have been gone for long enough count no longer.
    pub(super) fn blind_tick(&mut self, now: u64) {
        if self.blind_timeout().is_none_or(|at| at > now) {
            return;
        }
        for tab in self.tabs.values_mut() {
            tab.blind_until = tab.blind_until.filter(|at| *at > now);
        }
        for one in self.conversations.values_mut() {
            one.blind_until = one.blind_until.filter(|at| *at > now);
        }
        let backends: Vec<Backend> = self.conversations.keys().cloned().collect();
        for backend in backends {
            self.tell_blind(&backend, now);
        }
    }

    /// Tells every tab, and writes down, when it changed: a restart must not lift it.
    pub(super) fn tell_blind(&mut self, backend: &Backend, now: u64) {
        let blind = self.is_blind(backend);
        let one = self.conversation(backend);
        if std::mem::replace(&mut one.told_blind, blind) == blind {
            return;
        }
        let text = if blind {
            "Blind mode is on: no pictures reach the agent. Its own file tools, if you gave it any, are its own matter."
        } else {
            "Blind mode is off."
        };
        let row = self.row(backend, "blind", json!({"blind": blind, "text": text}), now);
        self.commit(backend, vec![row], Then::Show);
        let members = self.members(backend);
        self.send(members, Ack::new(true, "set_content_mode").with("blind", blind));
    }

    /// The one way of results to an agent: what has pixels is withheld.
    pub(super) fn withheld(&self, backend: &Backend, outcome: Result<Value, Refusal>) -> Result<Value, Refusal> {
        match outcome {
            Ok(result) if self.is_blind(backend) && has_pixels(&result) => Err(Refusal::Blind),
            outcome => outcome,
        }
    }
}

/// Whether a value may hold pixels: embedded data that is not known to be text.
fn has_pixels(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let data = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("data:"));
            data && !is_text(&text[5..])
        }
        Value::Array(list) => list.iter().any(has_pixels),
        Value::Object(map) => map.iter().any(|(name, value)| {
            let kind = matches!(name.as_str(), "mimeType" | "mime_type" | "media_type" | "content_type");
            (kind && value.as_str().is_none_or(|kind| !is_text(kind))) || has_pixels(value)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_text(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    kind.starts_with("text/") || kind.starts_with("application/json")
}
