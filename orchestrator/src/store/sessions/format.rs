//! The session file's text: reads what any version of the earlier program wrote, writes what it can read (rule D4).
//! Fields that are not ours are kept. Which entry is used for what is decided elsewhere.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Entries unused for so long go (rule D4): 21 days.
const LIFETIME_MS: i64 = 21 * 24 * 60 * 60 * 1000;
/// From 1970 to 2020: such a time was told by a clock that had not been set.
const CLOCK_NOT_SET_MS: std::ops::Range<i64> = 1..1_577_836_800_000;
/// The version that is written.
const VERSION: u64 = 2;

/// One agent session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The agent's own id of it.
    #[serde(rename = "s")]
    pub(super) session: String,
    /// When it was last used, in milliseconds since 1970.
    #[serde(rename = "t")]
    pub(super) used_ms: i64,
    /// Fields that are not ours.
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

impl Entry {
    /// Whether it was unused for too long (rule D4).
    pub(super) fn is_expired(&self, now_ms: i64) -> bool {
        !CLOCK_NOT_SET_MS.contains(&self.used_ms) && now_ms.saturating_sub(self.used_ms) > LIFETIME_MS
    }
}

/// A session id that its agent no longer knows (rule S6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dead {
    #[serde(rename = "s")]
    pub(super) session: String,
    #[serde(rename = "t")]
    pub(super) died_ms: i64,
}

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Document {
    pub(super) sessions: BTreeMap<String, Entry>,
    /// Entries of a form that we do not know, kept as they are.
    pub(super) foreign: Map<String, Value>,
    /// By conversation, oldest first.
    pub(super) dead: BTreeMap<String, Vec<Dead>>,
    /// Members beside `v`, `sessions` and `dead`.
    pub(super) other: Map<String, Value>,
}

/// Why a text is no session file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("no JSON: {0}")]
    Json(String),
    #[error("no JSON object with sessions")]
    Shape,
    #[error("version {0} is not known")]
    Version(String),
}

/// What was read, and whether writing it back would change the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parsed {
    pub(super) document: Document,
    pub(super) changed: bool,
}

/// Reads version 1 (flat) and 2. Times in the future become `now_ms`, expired entries are left out. A clock that has not
/// been set changes no time, and what one told counts as now.
pub(super) fn parse(bytes: &[u8], now_ms: i64) -> Result<Parsed, Unreadable> {
    let value = serde_json::from_slice(bytes).map_err(|error| Unreadable::Json(error.to_string()))?;
    let Value::Object(mut top) = value else {
        return Err(Unreadable::Shape);
    };
    match top.remove("v") {
        None => parse_flat(top, now_ms),
        // In the flat form `v` may be a key like any other.
        Some(Value::String(session)) => {
            top.insert("v".to_owned(), Value::String(session));
            parse_flat(top, now_ms)
        }
        Some(version) if version.as_u64() == Some(VERSION) => parse_current(top, now_ms),
        Some(version) => Err(Unreadable::Version(version.to_string())),
    }
}

/// Version 1: `{key: session}`. It knew no times, so every entry counts as used now.
fn parse_flat(top: Map<String, Value>, now_ms: i64) -> Result<Parsed, Unreadable> {
    let mut document = Document::default();
    for (key, value) in top {
        let Value::String(session) = value else {
            return Err(Unreadable::Shape);
        };
        document.sessions.insert(key, Entry { session, used_ms: now_ms, extra: Map::new() });
    }
    Ok(Parsed { document, changed: true })
}

fn parse_current(mut top: Map<String, Value>, now_ms: i64) -> Result<Parsed, Unreadable> {
    let Some(Value::Object(sessions)) = top.remove("sessions") else {
        return Err(Unreadable::Shape);
    };
    // An index of the time when sessions belonged to workflows; nothing may find one by it again.
    let mut changed = top.remove("stable").is_some();
    let mut document = Document::default();
    for (key, value) in sessions {
        match entry(&value, now_ms) {
            Some((entry, amended)) => {
                changed |= amended;
                if entry.is_expired(now_ms) {
                    changed = true;
                } else {
                    document.sessions.insert(key, entry);
                }
            }
            None => {
                document.foreign.insert(key, value);
            }
        }
    }
    match top.remove("dead").map(serde_json::from_value::<BTreeMap<String, Vec<Dead>>>) {
        Some(Ok(dead)) => document.dead = dead,
        Some(Err(_)) => changed = true,
        None => {}
    }
    document.other = top;
    Ok(Parsed { document, changed })
}

/// An entry, and whether its time had to be amended. `None` when it has another form.
fn entry(value: &Value, now_ms: i64) -> Option<(Entry, bool)> {
    let mut extra = value.as_object()?.clone();
    let session = extra.remove("s")?.as_str().filter(|session| !session.is_empty())?.to_owned();
    let stated = extra.remove("t").and_then(|time| time.as_i64().or_else(|| whole(&time)));
    let used_ms = match stated {
        Some(stated) if CLOCK_NOT_SET_MS.contains(&now_ms) => stated,
        Some(stated) if !CLOCK_NOT_SET_MS.contains(&stated) => stated.min(now_ms),
        Some(_) | None => now_ms,
    };
    Some((Entry { session, used_ms, extra }, stated != Some(used_ms)))
}

/// JavaScript may write a time with a fraction.
fn whole(time: &Value) -> Option<i64> {
    let time = time.as_f64().filter(|time| (0.0..9.0e15).contains(time))?;
    // In this range the conversion only drops the fraction.
    #[allow(clippy::cast_possible_truncation, reason = "the range was checked")]
    Some(time as i64)
}

/// The text of version 2.
pub(super) fn encode(document: &Document) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Text<'a> {
        v: u64,
        sessions: Sessions<'a>,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        dead: &'a BTreeMap<String, Vec<Dead>>,
        #[serde(flatten)]
        other: &'a Map<String, Value>,
    }
    #[derive(Serialize)]
    struct Sessions<'a> {
        #[serde(flatten)]
        ours: &'a BTreeMap<String, Entry>,
        #[serde(flatten)]
        foreign: &'a Map<String, Value>,
    }
    let sessions = Sessions { ours: &document.sessions, foreign: &document.foreign };
    let text = Text { v: VERSION, sessions, dead: &document.dead, other: &document.other };
    serde_json::to_vec(&text)
}
