//! The conversation log on disk: the statements, and nothing of threads or files.

use super::schema::MIGRATIONS;
use super::{Answer, Appended, Database, LogError, LogStore, NewRow, OnTrouble, Opened, Pending, Row, Words, search};
use crate::fault;
use crate::store::home::Home;
use routing_core::id::{ConversationKey, Seq};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use tokio::sync::watch;

pub(super) const COLUMNS: &str = "seq, kind, key, at_ms, body, inbound, settled_by IS NOT NULL";
pub(super) const OF_CONVERSATION: &str = "conversation = (SELECT id FROM conversations WHERE key = ?1)";

/// The log in `<home>/conversations-<port>.db`.
#[derive(Debug)]
pub struct SqliteLog {
    database: Database,
}

impl SqliteLog {
    /// Opens or creates the log of a port. One daemon at a time owns it.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open(home: &Home, port: u16, now_ms: i64) -> Result<Opened<Self>, LogError> {
        Self::open_file(&home.conversations(port), now_ms)
    }

    /// Opens or creates the log in a file of any name.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_file(path: &Path, now_ms: i64) -> Result<Opened<Self>, LogError> {
        let Opened { store, set_aside } = Database::open(path, MIGRATIONS, now_ms)?;
        Ok(Opened { store: Self { database: store }, set_aside })
    }

    /// Opens the log of a port to look at, also while its daemon runs: nothing can be appended.
    ///
    /// # Errors
    /// As [`Database::open_to_read`].
    pub fn open_to_read(home: &Home, port: u16) -> Result<Self, LogError> {
        Ok(Self { database: Database::open_to_read(&home.conversations(port), MIGRATIONS)? })
    }

    /// The database, for whatever else shares its writer.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

/// Appends rows inside a write of [`Database::write`], so that rows of other tables can share the transaction.
///
/// # Errors
/// As [`LogStore::append`]; the job must return the error so that everything is undone.
pub fn append_within(connection: &Connection, rows: &[NewRow]) -> Result<Vec<Appended>, LogError> {
    rows.iter().map(|row| append_one(connection, row)).collect()
}

fn append_one(connection: &Connection, row: &NewRow) -> Result<Appended, LogError> {
    let conversation = conversation_id(connection, &row.conversation)?;
    if let Some(key) = &row.key {
        let mut statement =
            connection.prepare_cached("SELECT seq FROM entries WHERE conversation = ?1 AND key = ?2")?;
        if let Some(seq) = statement.query_row(params![conversation, key], |found| found.get(0)).optional()? {
            return Ok(Appended::Duplicate(seq_of(seq)));
        }
    }
    let newest: i64 = connection
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM entries WHERE conversation = ?1")?
        .query_row([conversation], |found| found.get(0))?;
    let seq = newest + 1;
    connection
        .prepare_cached(
            "INSERT INTO entries (conversation, seq, kind, key, at_ms, body, inbound) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![conversation, seq, row.kind, row.key, row.at_ms, row.body.to_string(), row.inbound])?;
    for settled in &row.settles {
        settle(connection, conversation, row, *settled, seq)?;
    }
    Ok(Appended::New(seq_of(seq)))
}

fn conversation_id(connection: &Connection, key: &ConversationKey) -> Result<i64, LogError> {
    let known = connection
        .prepare_cached("SELECT id FROM conversations WHERE key = ?1")?
        .query_row([key.as_str()], |found| found.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    connection.prepare_cached("INSERT INTO conversations (key) VALUES (?1)")?.execute([key.as_str()])?;
    Ok(connection.last_insert_rowid())
}

/// The first row that settles another stays the one on record.
fn settle(connection: &Connection, conversation: i64, row: &NewRow, settled: Seq, by: i64) -> Result<(), LogError> {
    let changed = connection
        .prepare_cached(
            "UPDATE entries SET settled_by = coalesce(settled_by, ?3) WHERE conversation = ?1 AND seq = ?2 AND inbound = 1",
        )?
        .execute(params![conversation, number_of(settled), by])?;
    if changed == 0 {
        return Err(LogError::UnknownRow { conversation: row.conversation.clone(), seq: settled });
    }
    Ok(())
}

impl LogStore for SqliteLog {
    fn append_then(&self, rows: Vec<NewRow>, on_trouble: OnTrouble, answer: Answer) {
        let bytes = match on_trouble {
            OnTrouble::Refuse => 0,
            OnTrouble::Keep => rows.iter().map(size).sum(),
        };
        let insert = move |connection: &Connection| {
            let appended = append_within(connection, &rows);
            fault::at_rows("inserted", || rows.iter().map(|row| row.kind.as_str()));
            appended
        };
        self.database.write_then(on_trouble, bytes, insert, answer);
    }

    fn trouble(&self) -> watch::Receiver<Option<LogError>> {
        self.database.trouble()
    }

    fn page(
        &self,
        conversation: &ConversationKey,
        after: Seq,
        upto: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Row>, LogError> {
        let upto = upto.map_or(i64::MAX, number_of);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = params![conversation.as_str(), number_of(after), upto, limit];
        self.select(conversation, "AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4", values)
    }

    fn newest(&self, conversation: &ConversationKey) -> Result<Seq, LogError> {
        self.database.read(|connection| {
            let newest = connection
                .prepare_cached(&format!("SELECT coalesce(max(seq), 0) FROM entries WHERE {OF_CONVERSATION}"))?
                .query_row([conversation.as_str()], |found| found.get(0))?;
            Ok(seq_of(newest))
        })
    }

    fn pending(&self, conversation: &ConversationKey) -> Result<Vec<Row>, LogError> {
        let values = params![conversation.as_str()];
        self.select(conversation, "AND inbound = 1 AND settled_by IS NULL ORDER BY seq", values)
    }

    fn conversations(&self) -> Result<Vec<ConversationKey>, LogError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT key FROM conversations ORDER BY id")?;
            let keys = statement.query_map([], |found| found.get::<_, String>(0).map(ConversationKey::new))?;
            Ok(keys.collect::<Result<_, _>>()?)
        })
    }

    fn last_of_kind(&self, conversation: &ConversationKey, kind: &str) -> Result<Option<Row>, LogError> {
        let values = params![conversation.as_str(), kind];
        let rows = self.select(conversation, "AND kind = ?2 ORDER BY seq DESC LIMIT 1", values)?;
        Ok(rows.into_iter().next())
    }

    fn newest_of_kinds(
        &self,
        conversation: &ConversationKey,
        kinds: &[&str],
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Row>, LogError> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = Vec::new();
        for kind in kinds {
            let values = params![conversation.as_str(), kind, number_of(after), most];
            rows.extend(self.select(conversation, "AND kind = ?2 AND seq > ?3 ORDER BY seq DESC LIMIT ?4", values)?);
        }
        rows.sort_by_key(|row| row.seq);
        rows.drain(..rows.len().saturating_sub(limit));
        Ok(rows)
    }

    fn by_key(&self, conversation: &ConversationKey, key: &str) -> Result<Option<Row>, LogError> {
        let rows = self.select(conversation, "AND key = ?2", params![conversation.as_str(), key])?;
        Ok(rows.into_iter().next())
    }

    fn search(
        &self,
        conversation: &ConversationKey,
        words: &Words,
        before: Seq,
        limit: usize,
    ) -> Result<Vec<Row>, LogError> {
        self.database.read(|connection| search::search(connection, conversation, words, before, limit))
    }

    fn flush(&self) -> Pending<()> {
        self.database.flush()
    }

    fn close(&self) -> Pending<()> {
        self.database.close()
    }
}

impl SqliteLog {
    /// Rows of a conversation (parameter 1) that meet a further condition.
    fn select(
        &self,
        conversation: &ConversationKey,
        condition: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<Row>, LogError> {
        self.database.read(|connection| {
            let sql = format!("SELECT {COLUMNS} FROM entries WHERE {OF_CONVERSATION} {condition}");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut found = statement.query(values)?;
            let mut rows = Vec::new();
            while let Some(row) = found.next()? {
                rows.push(row_of(conversation, row)?);
            }
            Ok(rows)
        })
    }
}

/// About how much memory a row holds.
fn size(row: &NewRow) -> usize {
    fn of(value: &serde_json::Value) -> usize {
        match value {
            serde_json::Value::String(text) => text.len() + 32,
            serde_json::Value::Array(list) => list.iter().map(of).sum::<usize>() + 32,
            serde_json::Value::Object(fields) => {
                fields.iter().map(|(name, value)| name.len() + of(value) + 64).sum::<usize>() + 32
            }
            serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => 32,
        }
    }
    of(&row.body) + 256
}

pub(super) fn row_of(conversation: &ConversationKey, row: &rusqlite::Row<'_>) -> Result<Row, LogError> {
    let seq = seq_of(row.get(0)?);
    let body = row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?;
    let body = serde_json::from_str(body)
        .map_err(|error| LogError::Corrupt { detail: format!("row {seq} of {conversation}: {error}") })?;
    Ok(Row {
        conversation: conversation.clone(),
        seq,
        kind: row.get(1)?,
        key: row.get(2)?,
        at_ms: row.get(3)?,
        body,
        inbound: row.get(5)?,
        settled: row.get(6)?,
    })
}

/// Rows are numbered from 1, so nothing is lost for the places that exist.
fn seq_of(number: i64) -> Seq {
    Seq(u64::try_from(number).unwrap_or(0))
}

pub(super) fn number_of(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}
