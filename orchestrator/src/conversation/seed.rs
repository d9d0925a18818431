//! What a new agent session is told of the conversation so far (rule S6).

use crate::store::log::Row;
use serde_json::Value;

/// Rows that are looked at.
pub(super) const ROWS: usize = 60;
/// Most characters of one row.
const ROW_CHARS: usize = 1_500;
/// Most characters of all.
const ALL_CHARS: usize = 16_000;

/// The conversation so far as text, newest rows first to be kept; `None` when there is nothing to tell.
pub(super) fn seed(rows: &[Row]) -> Option<String> {
    let mut lines = Vec::new();
    let mut room = ALL_CHARS;
    for row in rows.iter().rev() {
        let Some(text) = row.body.get("text").and_then(Value::as_str) else { continue };
        let who = match row.kind.as_str() {
            "user" | "answer" => "The person",
            "say" | "ask" => "You",
            _ => "The daemon",
        };
        let line = format!("{who}: {}", shortened(text));
        if line.chars().count() > room {
            break;
        }
        room -= line.chars().count();
        lines.push(line);
    }
    if lines.is_empty() {
        return None;
    }
    lines.reverse();
    Some(format!("[This conversation began before your session. From its record:\n{}\n]", lines.join("\n")))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(ROW_CHARS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use routing_core::id::{ConversationKey, Seq};
    use serde_json::json;

    fn row(seq: u64, kind: &str, text: &str) -> Row {
        Row {
            conversation: ConversationKey::new("orchestrator::demo"),
            seq: Seq(seq),
            kind: kind.to_owned(),
            key: None,
            at_ms: 0,
            body: json!({"text": text}),
            inbound: false,
            settled: false,
        }
    }

    #[test]
    fn s6_a_fresh_session_is_told_the_newest_rows_in_order() {
        let told = seed(&[row(1, "user", "make it blue"), row(2, "say", "done"), row(3, "turn_end", "x")]).unwrap();
        assert!(told.contains("The person: make it blue\nYou: done"), "{told}");
        assert_eq!(seed(&[]), None);
    }

    #[test]
    fn what_does_not_fit_is_the_oldest() {
        let rows: Vec<Row> = (1..100).map(|seq| row(seq, "user", &format!("{seq} {}", "x".repeat(1_000)))).collect();
        let told = seed(&rows).unwrap();
        assert!(told.contains("The person: 99 ") && !told.contains("The person: 1 "));
        assert!(told.chars().count() < ALL_CHARS + 200);
    }
}
