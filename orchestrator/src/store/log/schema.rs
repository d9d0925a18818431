//! Tables and their versions. A migration that has been released is never edited; a change is a new one.

use super::LogError;
use rusqlite::{Connection, params};

/// One step of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its version: 1, 2, 3 without gaps.
    pub version: i64,
    /// What it brings, for people who look into the file.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

/// Every step, in order.
pub(super) const MIGRATIONS: &[Migration] = &[LOG, super::search::MIGRATION];

const LOG: Migration = Migration {
    version: 1,
    name: "conversation log",
    sql: "
        CREATE TABLE conversations (
            id  INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE
        ) STRICT;
        CREATE TABLE entries (
            conversation INTEGER NOT NULL REFERENCES conversations (id),
            seq          INTEGER NOT NULL CHECK (seq >= 1),
            kind         TEXT    NOT NULL,
            key          TEXT,
            at_ms        INTEGER NOT NULL,
            body         TEXT    NOT NULL,
            inbound      INTEGER NOT NULL CHECK (inbound IN (0, 1)),
            settled_by   INTEGER,
            UNIQUE (conversation, seq),
            FOREIGN KEY (conversation, settled_by) REFERENCES entries (conversation, seq)
        ) STRICT;
        CREATE UNIQUE INDEX entries_by_key ON entries (conversation, key) WHERE key IS NOT NULL;
        CREATE INDEX entries_by_kind ON entries (conversation, kind, seq);
        CREATE INDEX entries_pending ON entries (conversation, seq) WHERE inbound = 1 AND settled_by IS NULL;
    ",
};

/// What a file holds, as far as its version goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Ours, or empty (version 0).
    Version(i64),
    /// A database of something else.
    Foreign,
}

/// Reads the version and touches every table, so that a damaged file shows.
pub(super) fn inspect(connection: &Connection) -> Result<Contents, LogError> {
    let mut statement = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
    let tables: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for table in &tables {
        let quoted = table.replace('"', "\"\"");
        connection.prepare(&format!("SELECT 1 FROM \"{quoted}\" LIMIT 1"))?.exists([])?;
    }
    if tables.is_empty() {
        return Ok(Contents::Version(0));
    }
    if !tables.iter().any(|table| table == "schema_version") {
        return Ok(Contents::Foreign);
    }
    let version: Option<i64> = connection.query_row("SELECT max(version) FROM schema_version", [], |row| row.get(0))?;
    Ok(Contents::Version(version.unwrap_or(0)))
}

/// Brings the file from the version it has to the newest of `migrations`, each step in a transaction of its own.
pub(super) fn migrate(connection: &Connection, migrations: &[Migration], from: i64) -> Result<(), LogError> {
    for migration in migrations.iter().filter(|migration| migration.version > from) {
        let step = connection.unchecked_transaction()?;
        step.execute_batch(
            "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT",
        )?;
        step.execute_batch(migration.sql)?;
        step.execute(
            "INSERT INTO schema_version (version, name) VALUES (?1, ?2)",
            params![migration.version, migration.name],
        )?;
        step.commit()?;
    }
    Ok(())
}
