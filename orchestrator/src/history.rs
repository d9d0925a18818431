//! What is past in a conversation, read from its log: sessions, points to go back to, words that stand somewhere, and a
//! session as a document. It reads and writes nothing; what a transcript keeps is decided by `routing_core::past`.

mod document;

pub use document::{document, shown};

use crate::store::log::{LogError, LogStore, Row, Words};
use routing_core::frame::{Hit, PastMessage, PastSession, Span};
use routing_core::id::{AgentSessionId, ConversationKey, Seq};
use routing_core::past::{Found, NotFound, Past, Point};
use serde_json::Value;

/// After every row that there can be.
pub const END: Seq = Seq(i64::MAX as u64);
/// Rows of one look at the log.
const PAGE: usize = 500;
/// Most sessions of a list.
pub const MOST_SESSIONS: usize = 50;
/// Most messages of a transcript that is only looked at.
const MOST_MESSAGES: usize = 500;

/// The past of a conversation.
///
/// # Errors
/// The log cannot be read.
pub fn past(log: &dyn LogStore, conversation: &ConversationKey) -> Result<Past, LogError> {
    let mut past = Past::default();
    let all = Span { after: Seq(0), upto: END };
    each(log, conversation, all, |row| past.take(row.seq, &row.kind, row.at_ms, &row.body))?;
    Ok(past)
}

/// Calls back with every row of a span, in order.
///
/// # Errors
/// The log cannot be read.
pub fn each(
    log: &dyn LogStore,
    conversation: &ConversationKey,
    span: Span,
    mut take: impl FnMut(Row),
) -> Result<(), LogError> {
    let mut after = span.after;
    loop {
        let page = log.page(conversation, after, Some(span.upto), PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        page.into_iter().for_each(&mut take);
    }
}

/// What is kept when the conversation goes back to a point.
///
/// # Errors
/// See [`NotFound`].
pub fn recall(log: &dyn LogStore, conversation: &ConversationKey, point: &Point) -> Result<Found, NotFound> {
    let unreadable = |error: LogError| {
        tracing::error!(code = error.code(), %error, "the log could not be read to go back");
        NotFound::Unreadable
    };
    let mut found = past(log, conversation).map_err(unreadable)?.find(point)?;
    if let Some(seq) = found.message {
        let rows = log.page(conversation, Seq(seq.0 - 1), Some(seq), 1).map_err(unreadable)?;
        found.text = rows.first().and_then(|row| row.body.get("text")?.as_str().map(str::to_owned));
    }
    Ok(found)
}

/// The sessions, the newest first.
///
/// # Errors
/// The log cannot be read.
pub fn sessions(log: &dyn LogStore, conversation: &ConversationKey) -> Result<Vec<PastSession>, LogError> {
    let mut sessions = past(log, conversation)?.sessions();
    sessions.truncate(MOST_SESSIONS);
    Ok(sessions)
}

/// What was said in a session, oldest first; `None`: there is no such session.
///
/// # Errors
/// The log cannot be read.
pub fn transcript(
    log: &dyn LogStore,
    conversation: &ConversationKey,
    session: &AgentSessionId,
) -> Result<Option<Vec<PastMessage>>, LogError> {
    let Some(spans) = past(log, conversation)?.rows_of(Some(session)) else { return Ok(None) };
    let mut messages = std::collections::VecDeque::new();
    for span in spans {
        each(log, conversation, span, |row| {
            let role = match row.kind.as_str() {
                "user" => "user",
                "say" => "assistant",
                _ => return,
            };
            let text = row.body.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
            messages.push_back(PastMessage { role: role.to_owned(), text });
            if messages.len() > MOST_MESSAGES {
                messages.pop_front();
            }
        })?;
    }
    Ok(Some(messages.into()))
}

/// Where words stand in a conversation, the newest first, and whether there is more.
///
/// # Errors
/// The log cannot be read.
pub fn search(
    log: &dyn LogStore,
    conversation: &ConversationKey,
    words: &str,
    limit: usize,
) -> Result<(Vec<Hit>, bool), LogError> {
    let Some(words) = Words::parse(words) else { return Ok((Vec::new(), false)) };
    let mut rows = log.search(conversation, &words, END, limit + 1)?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    if rows.is_empty() {
        return Ok((Vec::new(), false));
    }
    let past = past(log, conversation)?;
    let hit = |row: &Row| {
        let text = row.body.get("text").and_then(Value::as_str).unwrap_or_default();
        Hit {
            seq: row.seq,
            kind: row.kind.clone(),
            at_ms: row.at_ms,
            text: words.excerpt(text),
            session_id: past.session_at(row.seq),
        }
    };
    Ok((rows.iter().map(hit).collect(), more))
}

/// A moment for people, such as `2026-12-01 04:10`, in UTC; empty for a row that has none.
pub fn moment(at_ms: i64) -> String {
    if at_ms <= 0 {
        return String::new();
    }
    chrono::DateTime::from_timestamp_millis(at_ms)
        .map(|moment| moment.format("%Y-%m-%d %H:%M").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use crate::store::log::{MemoryLog, NewRow};
    use routing_core::frame::ExportFormat;
    use serde_json::json;

    fn log(rows: &[(&str, i64, Value)]) -> (MemoryLog, ConversationKey) {
        let (log, key) = (MemoryLog::new(), ConversationKey::new("orchestrator::demo"));
        let rows = rows.iter().map(|(kind, at_ms, body)| NewRow {
            conversation: key.clone(),
            kind: (*kind).to_owned(),
            key: None,
            at_ms: *at_ms,
            body: body.clone(),
            inbound: false,
            settles: Vec::new(),
        });
        log.append(rows.collect()).wait().unwrap();
        (log, key)
    }

    #[test]
    fn a_moment_is_written_for_people() {
        assert_eq!(moment(1_796_071_483_914), "2026-11-30 20:44");
        assert_eq!(moment(951_782_400_000), "2000-02-29 00:00");
        assert_eq!(moment(1_735_689_599_000), "2024-12-31 23:59");
        assert_eq!(moment(0), "");
    }

    #[test]
    fn report_011_rows_without_a_time_keep_their_place() {
        let (log, key) = log(&[
            ("user", 0, json!({"text": "first", "mid": "m1", "context": "secret note"})),
            ("say", 1_796_071_483_914, json!({"text": "second"})),
            ("user", 0, json!({"text": "third", "mid": "m2"})),
            ("say", 1_000, json!({"text": "fourth"})),
        ]);
        for format in [ExportFormat::Md, ExportFormat::Json] {
            let text = document(&log, &key, None, format, false).unwrap().unwrap();
            let places: Vec<usize> =
                ["first", "second", "third", "fourth"].iter().map(|word| text.find(word).unwrap()).collect();
            assert!(places.is_sorted(), "{text}");
            assert!(!text.contains("secret note"), "what panels are not told is in no document");
            let all = document(&log, &key, None, format, true).unwrap().unwrap();
            assert!(all.contains("secret note"), "{all}");
        }
        let text = document(&log, &key, None, ExportFormat::Json, false).unwrap().unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["rows"][0]["at_ms"], Value::Null, "unknown is not 1970");
        assert_eq!(value["rows"][1]["at_ms"], 1_796_071_483_914_i64);
    }

    #[test]
    fn words_are_found_with_the_session_that_they_stand_in() {
        let (log, key) = log(&[
            ("user", 5, json!({"text": "Make the SAMPLER blue", "mid": "m1"})),
            ("turn_end", 6, json!({"turn": 1, "session": "s1"})),
            ("boundary", 7, json!({"reason": "new_session"})),
            ("user", 8, json!({"text": "another sampler", "mid": "m2"})),
        ]);
        let (hits, more) = search(&log, &key, "sampler", 10).unwrap();
        let found: Vec<_> = hits.iter().map(|hit| (hit.seq.0, hit.session_id.clone().unwrap().0)).collect();
        assert_eq!((found, more), (vec![(4, "log:3".to_owned()), (1, "s1".to_owned())], false));
        assert_eq!(search(&log, &key, "blue sampler", 10).unwrap().0[0].text, "Make the SAMPLER blue");
        assert!(search(&log, &key, "sampler", 1).unwrap().1);
        assert_eq!(search(&log, &key, "  ", 10).unwrap(), (Vec::new(), false));
        let names: Vec<_> = transcript(&log, &key, &"s1".into()).unwrap().unwrap();
        assert_eq!(names, [PastMessage { role: "user".into(), text: "Make the SAMPLER blue".into() }]);
        assert_eq!(transcript(&log, &key, &"s9".into()).unwrap(), None);
    }
}
