//! Sockets and tabs as the router keeps them.

use super::Router;
use crate::frame::WorkflowIdentity;
use crate::id::{Backend, Seq, SocketId, TabIdentity, TabKey};
use crate::refusal::Candidate;
use crate::turn::TabFacts;

/// One socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Socket {
    /// The tab, once it said hello.
    pub(super) tab: Option<TabKey>,
    /// It may only look on.
    pub(super) viewer: bool,
    /// When it must have said hello.
    pub(super) hello_by: Option<u64>,
    /// The ComfyUI that its tools use.
    pub(super) comfyui: Option<String>,
    /// It speaks dialect 1.
    pub(super) modern: bool,
}

/// One browser tab. Kept while it may come back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tab {
    /// What it says of itself; proves that it is the same one after a reconnect.
    pub(super) identity: Option<TabIdentity>,
    /// Its socket, while it has one.
    pub(super) socket: Option<SocketId>,
    /// The conversation that it takes part in.
    pub(super) backend: Backend,
    /// The title of what is in front.
    pub(super) title: String,
    /// What is in front, as the panel last proved it.
    pub(super) workflow: Option<WorkflowIdentity>,
    /// It has no canvas. Settled by its first hello.
    pub(super) headless: bool,
    /// It has blind mode on (rule F6).
    pub(super) blind: bool,
    /// It is gone, and counts as blind until then.
    pub(super) blind_until: Option<u64>,
    /// It checks the stamp at the write.
    pub(super) fences: bool,
    /// Place in the order of joining: newest is highest.
    pub(super) joined: u64,
    /// The last row that its legacy socket was sent.
    pub(super) shown: Seq,
}

/// Tabs that are gone and are still remembered.
const REMEMBERED: usize = 512;

impl Router {
    pub(super) fn live_socket(&self, tab: &TabKey) -> Option<SocketId> {
        self.tabs.get(tab).and_then(|tab| tab.socket)
    }

    /// Sockets of every connected tab of a conversation (rule F1), viewers apart.
    pub(super) fn members(&self, backend: &Backend) -> Vec<SocketId> {
        self.tabs.values().filter(|tab| tab.backend == *backend).filter_map(|tab| tab.socket).collect()
    }

    /// Members of one dialect.
    pub(super) fn members_of_dialect(&self, backend: &Backend, modern: bool) -> Vec<SocketId> {
        let mut sockets = self.members(backend);
        sockets.retain(|socket| self.sockets.get(socket).is_some_and(|socket| socket.modern == modern));
        sockets
    }

    /// Tabs that a call of this conversation may be sent to, in order of joining.
    pub(super) fn eligible(&self, backend: &Backend) -> Vec<TabKey> {
        let mut tabs: Vec<(u64, &TabKey)> = self
            .tabs
            .iter()
            .filter(|(_, tab)| tab.backend == *backend && tab.socket.is_some() && !tab.headless)
            .map(|(key, tab)| (tab.joined, key))
            .collect();
        tabs.sort();
        tabs.into_iter().map(|(_, key)| key.clone()).collect()
    }

    pub(super) fn candidates(&self, backend: &Backend) -> Vec<Candidate> {
        self.eligible(backend)
            .into_iter()
            .map(|tab| Candidate { title: self.tabs.get(&tab).map(|tab| tab.title.clone()).unwrap_or_default(), tab })
            .collect()
    }

    pub(super) fn facts(&self) -> Vec<TabFacts> {
        self.tabs
            .iter()
            .map(|(key, tab)| TabFacts {
                tab: key.clone(),
                backend: tab.backend.clone(),
                live: tab.socket.is_some(),
                interactive: !tab.headless,
                workflow: tab.workflow.as_ref().map(|workflow| workflow.uuid.clone()),
            })
            .collect()
    }

    pub(super) fn tab_by_identity(&self, identity: &TabIdentity) -> Option<TabKey> {
        self.tabs.iter().find(|(_, tab)| tab.identity.as_ref() == Some(identity)).map(|(key, _)| key.clone())
    }

    /// Forgets the longest gone tabs that nothing refers to.
    pub(super) fn forget_old_tabs(&mut self) {
        let mut gone: Vec<(u64, TabKey)> = self
            .tabs
            .iter()
            .filter(|(key, tab)| tab.socket.is_none() && !self.conversations.values().any(|one| one.refers_to(key)))
            .map(|(key, tab)| (tab.joined, key.clone()))
            .collect();
        gone.sort();
        let surplus = gone.len().saturating_sub(REMEMBERED);
        for (_, key) in gone.into_iter().take(surplus) {
            self.tabs.remove(&key);
        }
    }
}
