//! A conversation as a document: Markdown to read, JSON to work with. It decides what stands in it: what panels are shown,
//! and what only the agent was told if that is asked for.

use super::{each, moment, past};
use crate::store::log::{LogError, LogStore, Row};
use routing_core::frame::{ExportFormat, Span};
use routing_core::id::{AgentSessionId, ConversationKey, Seq};
use routing_core::router::row_frame;
use serde_json::{Map, Value, json};

/// The version of the JSON form.
const VERSION: u32 = 1;

/// A session as a document, or the whole log where none is named; `None`: there is no such session. `all`: with what only
/// the agent was told.
///
/// # Errors
/// The log cannot be read.
pub fn document(
    log: &dyn LogStore,
    conversation: &ConversationKey,
    session: Option<&AgentSessionId>,
    format: ExportFormat,
    all: bool,
) -> Result<Option<String>, LogError> {
    let spans = match session {
        None => vec![Span { after: Seq(0), upto: super::END }],
        Some(_) => match past(log, conversation)?.rows_of(session) {
            Some(spans) => spans,
            None => return Ok(None),
        },
    };
    of_spans(log, conversation, session, &spans, format, all).map(Some)
}

/// What is shown now, as a document.
///
/// # Errors
/// The log cannot be read.
pub fn shown(log: &dyn LogStore, conversation: &ConversationKey, format: ExportFormat) -> Result<String, LogError> {
    let spans = past(log, conversation)?.rows_of(None).unwrap_or_default();
    of_spans(log, conversation, None, &spans, format, false)
}

fn of_spans(
    log: &dyn LogStore,
    conversation: &ConversationKey,
    session: Option<&AgentSessionId>,
    spans: &[Span],
    format: ExportFormat,
    all: bool,
) -> Result<String, LogError> {
    match format {
        ExportFormat::Md => {
            let agent = conversation.backend();
            let mut text = format!("# Conversation with {agent}\n");
            for span in spans {
                each(log, conversation, *span, |row| text.push_str(&markdown(&row, agent.as_str(), all)))?;
            }
            Ok(text)
        }
        ExportFormat::Json => {
            let mut rows = Vec::new();
            for span in spans {
                each(log, conversation, *span, |row| rows.push(plain(&row, all)))?;
            }
            let whole = json!({"version": VERSION, "conversation": conversation, "session_id": session, "rows": rows});
            Ok(format!("{whole:#}\n"))
        }
    }
}

/// A row as panels get it; the time that it does not have is null.
fn plain(row: &Row, all: bool) -> Value {
    let at_ms = u64::try_from(row.at_ms).unwrap_or_default();
    let frame = row_frame(row.seq, &row.kind, at_ms, &row.body, false);
    let mut fields: Map<String, Value> =
        frame.and_then(|frame| serde_json::from_str(&frame.encode()).ok()).unwrap_or_default();
    fields.remove("type");
    if row.at_ms <= 0 {
        fields.insert("at_ms".to_owned(), Value::Null);
    }
    if let Some(context) = row.body.get("context").filter(|_| all) {
        fields.insert("context".to_owned(), context.clone());
    }
    Value::Object(fields)
}

fn markdown(row: &Row, agent: &str, all: bool) -> String {
    let field = |name: &str| row.body.get(name).and_then(Value::as_str).unwrap_or_default();
    let text = field("text").trim_end();
    let head = |who: &str, more: &str| {
        let parts = [who.to_owned(), moment(row.at_ms), more.to_owned()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("\n## {}\n\n", parts.join(" · "))
    };
    match row.kind.as_str() {
        "user" => {
            let workflow = row.body.pointer("/origin/workflow/title").and_then(Value::as_str).unwrap_or_default();
            let context = Some(field("context")).filter(|context| all && !context.is_empty());
            let context = context.map(|context| format!("{}\n", quoted(context))).unwrap_or_default();
            format!("{}{context}{text}\n", head("You", workflow))
        }
        "say" => format!("{}{text}\n", head(agent, "")),
        "action" => {
            let detail = field("detail").replace(['\n', '`'], " ");
            let detail = if detail.is_empty() { detail } else { format!(" {detail}") };
            format!("\n- `{}`{detail}\n", field("name").replace('`', ""))
        }
        "notice" | "blind" | "event" | "ask" | "answer" => format!("\n{}", quoted(text)),
        "turn_end" if !matches!(field("outcome"), "completed" | "put_back") => format!("\n_{}_\n", field("outcome")),
        "boundary" => format!("\n---\n\n_{}_\n", field("reason").replace('_', " ")),
        _ => String::new(),
    }
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}\n")).collect()
}
