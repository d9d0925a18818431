//! The conversation log: one append-only sequence of rows a conversation, gapless from 1. It decides when a row is
//! accepted (committed, never before), what counts as the same row (its key, rule D6) and which inbound rows still
//! wait for the agent. It must not know what a row says, and never changes one but to mark it settled.

mod database;
mod error;
mod memory;
mod pending;
mod schema;
mod search;
mod sqlite;
mod writer;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trouble;

pub use database::Database;
pub use error::LogError;
pub use memory::MemoryLog;
pub use pending::Pending;
pub use schema::Migration;
pub use search::Words;
pub use sqlite::{SqliteLog, append_within};
pub use writer::OnTrouble;

use routing_core::id::{ConversationKey, Seq};
use serde_json::Value;
use std::path::PathBuf;
use tokio::sync::watch;

/// A row to append.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRow {
    /// Whose log.
    pub conversation: ConversationKey,
    /// What the row is, in the caller's words; [`LogStore::last_of_kind`] asks by it.
    pub kind: String,
    /// The durable key, unique within the conversation: `mid:<mid>`, `run:<prompt_id>` (rule D6). Without one the row
    /// is new each time.
    pub key: Option<String>,
    /// When it happened, in milliseconds since 1970 by the caller's clock.
    pub at_ms: i64,
    /// The content.
    pub body: Value,
    /// The agent must consume it: it is pending until another row settles it.
    pub inbound: bool,
    /// Inbound rows of the same conversation that this row settles, in the same transaction.
    pub settles: Vec<Seq>,
}

/// A row as it is in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Whose log.
    pub conversation: ConversationKey,
    /// Its place, from 1.
    pub seq: Seq,
    /// What the row is.
    pub kind: String,
    /// Its durable key.
    pub key: Option<String>,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
    /// The content.
    pub body: Value,
    /// The agent must consume it.
    pub inbound: bool,
    /// A later row settled it. Always false for a row that is not inbound.
    pub settled: bool,
}

/// What became of one row of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// Written, at this place.
    New(Seq),
    /// A row of this key was there already, at this place: nothing was written and nothing settled.
    Duplicate(Seq),
}

impl Appended {
    /// Where the row is, written now or before.
    pub fn seq(self) -> Seq {
        match self {
            Self::New(seq) | Self::Duplicate(seq) => seq,
        }
    }
}

/// A store that was opened, and what had to be moved out of its way.
#[derive(Debug)]
pub struct Opened<S> {
    /// The store.
    pub store: S,
    /// Where an unreadable file was put; the person should be told.
    pub set_aside: Option<PathBuf>,
}

/// Takes what became of an append. Called on whatever thread writes: it must not wait.
pub type Answer = Box<dyn FnOnce(Result<Vec<Appended>, LogError>) + Send>;

/// A conversation log.
///
/// Appends take effect and are answered in the order of the calls. Reads block for a short disk access at most, never
/// wait for an append, and see every row whose append has been answered.
pub trait LogStore: Send + Sync {
    /// Appends all rows or none, and answers once they are durable.
    ///
    /// The answer has one place a row, in order, or: [`LogError::UnknownRow`] when a settled row is not an inbound row
    /// of its conversation; a disk error; [`LogError::Closed`]. After any error nothing of it is in the log. After a
    /// failed sync a crash may still bring rows back that were answered with the error: a repetition under the same key
    /// finds them.
    fn append_then(&self, rows: Vec<NewRow>, on_trouble: OnTrouble, answer: Answer);

    /// The same as a future, for rows that may be refused. Dropping it does not take the rows back.
    fn append(&self, rows: Vec<NewRow>) -> Pending<Vec<Appended>> {
        let (answer, pending) = Pending::channel();
        self.append_then(
            rows,
            OnTrouble::Refuse,
            Box::new(move |result| {
                // Nobody waits any more: the rows stand all the same.
                let _ = answer.send(result);
            }),
        );
        pending
    }

    /// Why nothing can be written for now; `None` when the last attempt succeeded.
    fn trouble(&self) -> watch::Receiver<Option<LogError>>;

    /// Rows with `after < seq <= upto`, by seq, at most `limit`.
    ///
    /// # Errors
    /// A disk error, or [`LogError::Closed`].
    fn page(
        &self,
        conversation: &ConversationKey,
        after: Seq,
        upto: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Row>, LogError>;

    /// The place of the last row; `Seq(0)` when there is none.
    ///
    /// # Errors
    /// A disk error, or [`LogError::Closed`].
    fn newest(&self, conversation: &ConversationKey) -> Result<Seq, LogError>;

    /// Inbound rows that nothing has settled, by seq.
    ///
    /// # Errors
    /// A disk error, or [`LogError::Closed`].
    fn pending(&self, conversation: &ConversationKey) -> Result<Vec<Row>, LogError>;

    /// Every conversation that has a row, in the order of their first rows.
    ///
    /// # Errors
    /// A disk error, or [`LogError::Closed`].
    fn conversations(&self) -> Result<Vec<ConversationKey>, LogError>;

    /// The newest row of a kind.
    ///
    /// # Errors
    /// A disk error, or [`LogError::Closed`].
    fn last_of_kind(&self, conversation: &ConversationKey, kind: &str) -> Result<Option<Row>, LogError>;

    /// Rows of these kinds with `seq > after`, the newest `limit` of them, by seq.
    ///
    /// # Errors
    /// A disk error, or [`LogError::Closed`].
    fn newest_of_kinds(
        &self,
        conversation: &ConversationKey,
        kinds: &[&str],
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Row>, LogError>;

    /// The row with a durable key.
    ///
    /// # Errors
    /// A disk error, or [`LogError::Closed`].
    fn by_key(&self, conversation: &ConversationKey, key: &str) -> Result<Option<Row>, LogError>;

    /// Rows that have every word, before a place, the newest first, at most `limit`.
    ///
    /// # Errors
    /// A disk error, or [`LogError::Closed`].
    fn search(
        &self,
        conversation: &ConversationKey,
        words: &Words,
        before: Seq,
        limit: usize,
    ) -> Result<Vec<Row>, LogError>;

    /// Answers once everything appended before is durable or has failed.
    fn flush(&self) -> Pending<()>;

    /// Finishes what was appended before, then closes: later calls yield [`LogError::Closed`]. Repeating is harmless.
    fn close(&self) -> Pending<()>;
}
