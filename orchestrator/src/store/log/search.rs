//! Where some words stand. An index of three-letter pieces narrows the rows down, in any script; whether a row has every
//! word is decided by one function, for the log on disk and for the one in memory. Words are words: nothing that a person
//! types is read as an expression.

use super::sqlite::{COLUMNS, OF_CONVERSATION, number_of, row_of};
use super::{LogError, Migration, Row};
use routing_core::id::{ConversationKey, Seq};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

/// Most words of one search; the others are not looked at.
const MOST_WORDS: usize = 16;
/// Shorter words are in no piece of the index.
const PIECE: usize = 3;
/// Characters that an excerpt shows before the first word, and after.
const AROUND: usize = 80;

/// A row's place in the index: its conversation above 40 bits of its seq. Filled by a trigger, so that no row is written
/// without it.
pub(super) const MIGRATION: Migration = Migration {
    version: 2,
    name: "search in what was said",
    sql: "
        CREATE VIRTUAL TABLE entries_search USING fts5 (words, content = '', tokenize = 'trigram');
        INSERT INTO entries_search (rowid, words)
            SELECT conversation * 1099511627776 + seq, json_extract(body, '$.text') FROM entries
            WHERE json_type(body, '$.text') = 'text';
        CREATE TRIGGER entries_searched AFTER INSERT ON entries WHEN json_type(new.body, '$.text') = 'text' BEGIN
            INSERT INTO entries_search (rowid, words)
                VALUES (new.conversation * 1099511627776 + new.seq, json_extract(new.body, '$.text'));
        END;
    ",
};

/// What is looked for: rows whose text has every word, wherever it stands, in capitals or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(Vec<Vec<char>>);

impl Words {
    /// The words of a text; `None` when it has none.
    pub fn parse(text: &str) -> Option<Self> {
        let blank = |sign: char| sign.is_whitespace() || sign == '\0';
        let words = text.split(blank).filter(|word| !word.is_empty()).take(MOST_WORDS);
        let words: Vec<Vec<char>> = words.map(folded).collect();
        (!words.is_empty()).then_some(Self(words))
    }

    /// Whether a row has them all.
    pub fn are_in(&self, row: &Row) -> bool {
        let text = row.body.get("text").and_then(Value::as_str).map(folded);
        text.is_some_and(|text| self.0.iter().all(|word| place(&text, word).is_some()))
    }

    /// The text around the first word, in one line.
    pub fn excerpt(&self, text: &str) -> String {
        let signs: Vec<char> = text.chars().map(|sign| if sign.is_whitespace() { ' ' } else { sign }).collect();
        let folded = folded(text);
        let first = self.0.iter().filter_map(|word| place(&folded, word)).min().unwrap_or(0);
        let (from, to) = (first.saturating_sub(AROUND), signs.len().min(first + 2 * AROUND));
        let shown: String = signs[from..to].iter().collect();
        let (before, behind) = (if from > 0 { "…" } else { "" }, if to < signs.len() { "…" } else { "" });
        format!("{before}{}{behind}", shown.trim())
    }

    /// For the index: each word that it can know as one quoted phrase. `None`: it knows none of them.
    fn expression(&self) -> Option<String> {
        let known = self.0.iter().filter(|word| word.len() >= PIECE);
        let phrases: Vec<String> =
            known.map(|word| format!("\"{}\"", word.iter().collect::<String>().replace('"', "\"\""))).collect();
        (!phrases.is_empty()).then(|| phrases.join(" AND "))
    }
}

/// Sign by sign, so that places stay the same.
fn folded(text: &str) -> Vec<char> {
    text.chars().map(|sign| sign.to_lowercase().next().unwrap_or(sign)).collect()
}

fn place(text: &[char], word: &[char]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}

/// Rows that have every word, before a place, the newest first.
pub(super) fn search(
    connection: &Connection,
    conversation: &ConversationKey,
    words: &Words,
    before: Seq,
    limit: usize,
) -> Result<Vec<Row>, LogError> {
    let id = connection
        .prepare_cached("SELECT id FROM conversations WHERE key = ?1")?
        .query_row([conversation.as_str()], |found| found.get::<_, i64>(0))
        .optional()?;
    let Some(id) = id else { return Ok(Vec::new()) };
    let (key, before) = (conversation.as_str(), number_of(before));
    match words.expression().filter(|_| is_indexed(connection).unwrap_or(false)) {
        Some(expression) => {
            let first = id << 40;
            let last = first + before.min((1 << 40) - 1);
            let sql = format!("SELECT {COLUMNS} FROM entries WHERE {OF_CONVERSATION} AND seq = ?2");
            let mut row = connection.prepare_cached(&sql)?;
            let mut places = connection.prepare_cached(
                "SELECT rowid - ?2 FROM entries_search WHERE entries_search MATCH ?1 AND rowid > ?2 AND rowid < ?3
                 ORDER BY rowid DESC",
            )?;
            let mut found = places.query(params![expression, first, last])?;
            let mut rows = Vec::new();
            while let Some(place) = found.next()?.filter(|_| rows.len() < limit) {
                let seq: i64 = place.get(0)?;
                let mut here = row.query(params![key, seq])?;
                if let Some(here) = here.next()? {
                    rows.extend(Some(row_of(conversation, here)?).filter(|row| words.are_in(row)));
                }
            }
            Ok(rows)
        }
        None => {
            let sql = format!("SELECT {COLUMNS} FROM entries WHERE {OF_CONVERSATION} AND seq < ?2 ORDER BY seq DESC");
            let mut all = connection.prepare_cached(&sql)?;
            let mut found = all.query(params![key, before])?;
            let mut rows = Vec::new();
            while let Some(here) = found.next()?.filter(|_| rows.len() < limit) {
                rows.extend(Some(row_of(conversation, here)?).filter(|row| words.are_in(row)));
            }
            Ok(rows)
        }
    }
}

/// A file that only an older daemon wrote has no index yet.
fn is_indexed(connection: &Connection) -> Result<bool, LogError> {
    let sql = "SELECT 1 FROM sqlite_master WHERE name = 'entries_search'";
    Ok(connection.prepare_cached(sql)?.exists([])?)
}
