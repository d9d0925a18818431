//! The agents' session ids, one a conversation, in `<home>/sessions/panel-sessions-<port>.json` (rules S4, S6, D1 to
//! D4). It decides which id a conversation resumes with, and when that is durable. It must not know what a session
//! is, nor whether a panel's hint may be used (rule S5): that is the caller's, who asks [`SessionStore::get`] first
//! and [`SessionStore::is_dead`] about the hint.

mod format;
mod opening;
#[cfg(test)]
mod tests;

pub use opening::{Import, OpenedSessions, Source};

use super::files::{self, Trouble};
use super::lock::{LockError, OwnerLock};
use format::{Dead, Document, Entry};
use routing_core::id::{AgentSessionId, ConversationKey};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// A lookup renews an entry's time at most this often: hourly.
const RENEWAL_MS: i64 = 60 * 60 * 1000;
/// Dead ids kept for a conversation; the oldest go first. Far beyond what an agent forgets in practice.
const MOST_DEAD: usize = 1000;

/// The session file of one port. One daemon at a time owns it. Its calls block for a synced write at most.
#[derive(Debug)]
pub struct SessionStore {
    path: PathBuf,
    state: Mutex<State>,
    _lock: OwnerLock,
}

#[derive(Debug)]
struct State {
    document: Document,
    /// The file as our last successful write left it; `None` when it has to be written.
    written: Option<Stamp>,
    /// The last write failed.
    behind: bool,
    /// An unreadable file that could not be moved yet. As long as it is there, nothing is written over it.
    in_the_way: bool,
}

/// What tells whether somebody else wrote the file since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        Some(Self { length: found.len(), modified: found.modified().ok() })
    }
}

/// What became of a change.
#[derive(Debug)]
#[must_use = "whether a change is durable has to be told"]
pub enum Stored {
    /// It is on disk and survives a crash.
    Durable,
    /// It holds until the daemon ends, because the disk refused it.
    Volatile(SessionsError),
    /// The id is dead: it was not taken (rule S6).
    DeadId,
}

impl Stored {
    /// Whether the change survives a crash.
    pub fn is_durable(&self) -> bool {
        matches!(self, Self::Durable)
    }
}

/// Why the session file could not be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    /// No space or no quota left. Code `disk_full`.
    #[error("{} could not be written because the disk is full: free some space", path.display())]
    DiskFull {
        /// The session file.
        path: PathBuf,
    },
    /// The file or its file system cannot be written. Code `read_only`.
    #[error("{} cannot be written ({source}): make it and its folder writable", path.display())]
    ReadOnly {
        /// The session file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another daemon owns the file. Code `in_use`.
    #[error("{} is held by another running daemon: stop that one, or choose another port or home", path.display())]
    InUse {
        /// The lock file.
        path: PathBuf,
    },
    /// An unreadable file could not be moved away, so nothing is written over it. Code `unreadable_in_the_way`.
    #[error("{} is unreadable and could not be set aside ({source}): move it away by hand", path.display())]
    InTheWay {
        /// The session file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Any other failure. Code `io`.
    #[error("{} could not be written ({source}): check the disk", path.display())]
    Io {
        /// The session file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl SessionsError {
    /// Stable code: `disk_full`, `read_only`, `in_use`, `unreadable_in_the_way`, `io`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::DiskFull { .. } => "disk_full",
            Self::ReadOnly { .. } => "read_only",
            Self::InUse { .. } => "in_use",
            Self::InTheWay { .. } => "unreadable_in_the_way",
            Self::Io { .. } => "io",
        }
    }

    fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match files::trouble(&source) {
            Trouble::DiskFull => Self::DiskFull { path },
            Trouble::ReadOnly => Self::ReadOnly { path, source },
            Trouble::Other => Self::Io { path, source },
        }
    }
}

impl From<LockError> for SessionsError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::InUse { path, .. } => Self::InUse { path },
            LockError::Io { path, source } => Self::of(&path, source),
        }
    }
}

impl SessionStore {
    /// The session that a conversation resumes with. A conversation without one adopts the newest session that an
    /// earlier version kept per workflow for the same backend, once (rule D3). A use renews the entry's time.
    pub fn get(&self, conversation: &ConversationKey, now_ms: i64) -> Option<AgentSessionId> {
        let mut state = self.state();
        let document = &mut state.document;
        let key = conversation.as_str();
        let mut changed = false;
        if document.sessions.get(key).is_some_and(|entry| entry.is_expired(now_ms)) {
            document.sessions.remove(key);
            changed = true;
        }
        if !document.sessions.contains_key(key)
            && !document.foreign.contains_key(key)
            && let Some(legacy) = take_legacy(document, conversation, now_ms)
        {
            document.sessions.insert(key.to_owned(), legacy);
            changed = true;
        }
        let session = document.sessions.get_mut(key).map(|entry| {
            if now_ms.saturating_sub(entry.used_ms) >= RENEWAL_MS {
                entry.used_ms = now_ms;
                changed = true;
            }
            AgentSessionId::new(entry.session.clone())
        });
        if changed {
            state.written = None;
            if let Stored::Volatile(error) = self.persist(&mut state, now_ms) {
                tracing::warn!(code = error.code(), path = %self.path.display(), "session use not recorded on disk");
            }
        }
        session
    }

    /// Records the session of a conversation. Setting what is there already costs a write once an hour at most.
    pub fn set(&self, conversation: &ConversationKey, session: &AgentSessionId, now_ms: i64) -> Stored {
        let mut state = self.state();
        if is_dead(&state.document, conversation, session) {
            return Stored::DeadId;
        }
        let key = conversation.as_str();
        let known = state.document.sessions.get_mut(key).filter(|entry| entry.session == session.as_str());
        match known {
            Some(entry) => {
                if now_ms.saturating_sub(entry.used_ms) >= RENEWAL_MS {
                    entry.used_ms = now_ms;
                    state.written = None;
                }
            }
            None => {
                let document = &mut state.document;
                take_legacy(document, conversation, now_ms);
                document.foreign.remove(key);
                // Other fields belonged to the session before.
                let entry = Entry { session: session.0.clone(), used_ms: now_ms, extra: Default::default() };
                document.sessions.insert(key.to_owned(), entry);
                state.written = None;
            }
        }
        self.persist(&mut state, now_ms)
    }

    /// Forgets the session of a conversation (rule B1). Nothing that an earlier version left can take its place.
    pub fn clear(&self, conversation: &ConversationKey, now_ms: i64) -> Stored {
        let mut state = self.state();
        let document = &mut state.document;
        document.sessions.remove(conversation.as_str());
        document.foreign.remove(conversation.as_str());
        take_legacy(document, conversation, now_ms);
        state.written = None;
        self.persist(&mut state, now_ms)
    }

    /// Records that the agent no longer knows an id (rule S6): it is never returned or taken again.
    pub fn mark_dead(&self, conversation: &ConversationKey, session: &AgentSessionId, now_ms: i64) -> Stored {
        let mut state = self.state();
        let document = &mut state.document;
        let key = conversation.as_str();
        if document.sessions.get(key).is_some_and(|entry| entry.session == session.as_str()) {
            document.sessions.remove(key);
        }
        if !is_dead(document, conversation, session) {
            // A fresh session follows, seeded from the log; an older one must not slip in before it.
            take_legacy(document, conversation, now_ms);
            let dead = document.dead.entry(key.to_owned()).or_default();
            dead.push(Dead { session: session.0.clone(), died_ms: now_ms });
            let surplus = dead.len().saturating_sub(MOST_DEAD);
            dead.drain(..surplus);
            state.written = None;
        }
        self.persist(&mut state, now_ms)
    }

    /// Writes what the disk refused before, if it did.
    pub fn catch_up(&self, now_ms: i64) -> Stored {
        let mut state = self.state();
        if state.behind { self.persist(&mut state, now_ms) } else { Stored::Durable }
    }

    /// Whether an id was marked dead for a conversation.
    pub fn is_dead(&self, conversation: &ConversationKey, session: &AgentSessionId) -> bool {
        is_dead(&self.state().document, conversation, session)
    }

    /// The session file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the document unless the file still is what our last write made it.
    fn persist(&self, state: &mut State, now_ms: i64) -> Stored {
        if state.written.is_some() && state.written == Stamp::of(&self.path) {
            return Stored::Durable;
        }
        state.behind = true;
        if state.in_the_way {
            match files::set_aside(&self.path, now_ms) {
                Ok(moved) => {
                    tracing::warn!(path = %moved.display(), "unreadable session file set aside");
                    state.in_the_way = false;
                }
                Err(source) if source.kind() == io::ErrorKind::NotFound => state.in_the_way = false,
                Err(source) => return Stored::Volatile(SessionsError::InTheWay { path: self.path.clone(), source }),
            }
        }
        let text = format::encode(&state.document).map_err(io::Error::from);
        match text.and_then(|text| files::replace(&self.path, &temporary_of(&self.path), &text)) {
            Ok(()) => {
                state.written = Stamp::of(&self.path);
                state.behind = false;
                Stored::Durable
            }
            Err(source) => {
                state.written = None;
                Stored::Volatile(SessionsError::of(&self.path, source))
            }
        }
    }
}

/// The name that the earlier program uses too: either can finish what the other began.
fn temporary_of(path: &Path) -> PathBuf {
    files::with_suffix(path, ".tmp")
}

fn is_dead(document: &Document, conversation: &ConversationKey, session: &AgentSessionId) -> bool {
    document.dead.get(conversation.as_str()).is_some_and(|dead| dead.iter().any(|one| one.session == session.as_str()))
}

/// Takes every adoptable per-workflow entry of the conversation's backend out and yields the one used last.
fn take_legacy(document: &mut Document, conversation: &ConversationKey, now_ms: i64) -> Option<Entry> {
    let backend = conversation.backend();
    let keys: Vec<_> = document.sessions.keys().filter(|key| is_legacy_of(key, backend.as_str())).cloned().collect();
    let legacy: Vec<_> = keys.iter().filter_map(|key| document.sessions.remove(key)).collect();
    let mut newest = legacy
        .into_iter()
        .filter(|entry| !entry.is_expired(now_ms))
        .filter(|entry| !is_dead(document, conversation, &AgentSessionId::new(entry.session.clone())))
        .max_by_key(|entry| entry.used_ms)?;
    // The owner of a per-workflow entry means nothing for a shared one.
    newest.extra.remove("u");
    Some(newest)
}

/// Whether a key is `<tab>::<backend>` of a real tab (rule D3).
fn is_legacy_of(key: &str, backend: &str) -> bool {
    let Some((tab, half)) = key.rsplit_once("::") else {
        return false;
    };
    half == backend
        && !tab.is_empty()
        && tab != "orchestrator"
        && !tab.contains("::")
        && !tab.starts_with("e2e-")
        && !tab.starts_with("spike-")
}
