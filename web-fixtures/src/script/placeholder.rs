//! `$last` placeholders: values of earlier tool results inside the arguments of a later call.
//!
//! `"$last:/node/id"` stands for the value at that JSON pointer in the last tool result, `"$last2:..."` for the one
//! before it, and so on. A string that is nothing but a placeholder takes the value's JSON type; inside a longer
//! string the value is written out. Decides nothing about when a tool is called.

use serde_json::{Map, Value};

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolResult {
    /// The text blocks of the result.
    pub texts: Vec<String>,
    /// The structured content, where the transport carries it.
    pub structured: Option<Value>,
    /// Whether the tool reported a failure.
    pub is_error: bool,
}

impl ToolResult {
    /// A result of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self { texts: vec![text.into()], ..Self::default() }
    }

    /// All text of the result.
    #[must_use]
    pub fn joined(&self) -> String {
        self.texts.join("\n")
    }

    /// The result as JSON: the structured content, else the whole text, else the first block that is JSON.
    #[must_use]
    pub fn json(&self) -> Option<Value> {
        self.structured.clone().or_else(|| {
            let joined = self.joined();
            std::iter::once(&joined).chain(&self.texts).find_map(|text| serde_json::from_str(text).ok())
        })
    }
}

/// Why a placeholder has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceholderError {
    /// There are not that many results yet.
    #[error("{placeholder}: there is no such tool result yet; call a tool first")]
    NoResult {
        /// The placeholder as written.
        placeholder: String,
    },
    /// The result is not JSON.
    #[error("{placeholder}: the tool result is not JSON")]
    NotJson {
        /// The placeholder as written.
        placeholder: String,
    },
    /// The result has nothing at the pointer.
    #[error("{placeholder}: the tool result has nothing there: {found}")]
    NothingThere {
        /// The placeholder as written.
        placeholder: String,
        /// The start of the result, so that the script can be put right.
        found: String,
    },
}

/// Tool results of a conversation, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Results(Vec<ToolResult>);

impl Results {
    /// Adds a newer result.
    pub fn push(&mut self, result: ToolResult) {
        self.0.push(result);
    }

    /// The newest result.
    #[must_use]
    pub fn last(&self) -> Option<&ToolResult> {
        self.0.last()
    }

    /// `value` with every placeholder replaced.
    ///
    /// # Errors
    /// When a placeholder has no value; nothing is called with half of its arguments.
    pub fn fill(&self, value: &Value) -> Result<Value, PlaceholderError> {
        Ok(match value {
            Value::String(text) => self.fill_text(text)?,
            Value::Array(items) => Value::Array(items.iter().map(|item| self.fill(item)).collect::<Result<_, _>>()?),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(key, field)| Ok((key.clone(), self.fill(field)?))).collect::<Result<
                    Map<_, _>,
                    PlaceholderError,
                >>(
                )?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    fn fill_text(&self, text: &str) -> Result<Value, PlaceholderError> {
        let mut written = String::new();
        let mut rest = text;
        while let Some(placeholder) = Placeholder::find(rest) {
            // A pointer may hold spaces only where the placeholder is the whole string.
            if written.is_empty() && placeholder.start == 0 && rest.len() == text.len() {
                let whole = Placeholder { end: text.len(), ..placeholder };
                match self.value(&whole, text) {
                    Ok(value) => return Ok(value),
                    Err(error) if placeholder.end == text.len() => return Err(error),
                    Err(_) => {}
                }
            }
            written.push_str(&rest[..placeholder.start]);
            match self.value(&placeholder, rest)? {
                Value::String(value) => written.push_str(&value),
                value => written.push_str(&value.to_string()),
            }
            rest = &rest[placeholder.end..];
        }
        written.push_str(rest);
        Ok(Value::String(written))
    }

    fn value(&self, placeholder: &Placeholder, text: &str) -> Result<Value, PlaceholderError> {
        let written = || text[placeholder.start..placeholder.end].to_owned();
        let result = self
            .0
            .len()
            .checked_sub(placeholder.back)
            .and_then(|index| self.0.get(index))
            .ok_or_else(|| PlaceholderError::NoResult { placeholder: written() })?;
        let json = result.json().ok_or_else(|| PlaceholderError::NotJson { placeholder: written() })?;
        json.pointer(&text[placeholder.pointer..placeholder.end]).cloned().ok_or_else(|| {
            let found = json.to_string().chars().take(300).collect();
            PlaceholderError::NothingThere { placeholder: written(), found }
        })
    }
}

/// Where a placeholder stands in a text.
#[derive(Debug, Clone, Copy)]
struct Placeholder {
    start: usize,
    pointer: usize,
    end: usize,
    /// 1 is the newest result.
    back: usize,
}

impl Placeholder {
    fn find(text: &str) -> Option<Self> {
        const SIGIL: &str = "$last";
        let mut from = 0;
        while let Some(offset) = text[from..].find(SIGIL) {
            let start = from + offset;
            from = start + SIGIL.len();
            let digits = text[from..].bytes().take_while(u8::is_ascii_digit).count();
            let number = &text[from..from + digits];
            let back = if number.is_empty() { Some(1) } else { number.parse().ok().filter(|back| *back > 0) };
            let pointer = from + digits + 1;
            let Some(back) = back.filter(|_| text[from + digits..].starts_with(':')) else {
                continue;
            };
            let length = text[pointer..]
                .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '~' | '.')))
                .unwrap_or(text.len() - pointer);
            return Some(Self { start, pointer, end: pointer + length, back });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn results() -> Results {
        let mut results = Results::default();
        results.push(ToolResult::text(r#"{"node":{"id":4}}"#));
        results.push(ToolResult::text(r#"{"node":{"id":7,"title":"Load it"},"a b":[true]}"#));
        results
    }

    #[test]
    fn a_whole_string_takes_the_json_type() {
        let filled =
            results().fill(&json!({"from": "$last2:/node/id", "to": ["$last:/node/id", "$last:/a b/0"], "n": 1}));
        assert_eq!(filled, Ok(json!({"from": 4, "to": [7, true], "n": 1})));
        assert_eq!(results().fill(&json!("$last:")).map(|all| all["node"]["id"].clone()), Ok(json!(7)));
    }

    #[test]
    fn inside_a_longer_string_the_value_is_written_out() {
        let filled = results().fill(&json!("node $last:/node/id is '$last1:/node/title', costs $lastly $last"));
        assert_eq!(filled, Ok(json!("node 7 is 'Load it', costs $lastly $last")));
        assert_eq!(results().fill(&json!("$last:/node/id and $last2:/node/id")), Ok(json!("7 and 4")));
    }

    #[test]
    fn structured_content_wins_and_one_json_block_among_notes_is_found() {
        let mut results = Results::default();
        results.push(ToolResult { texts: vec!["note".into(), r#"{"id":3}"#.into()], ..ToolResult::default() });
        assert_eq!(results.fill(&json!("$last:/id")), Ok(json!(3)));
        results.push(ToolResult { texts: vec!["words".into()], structured: Some(json!({"id": "x"})), is_error: false });
        assert_eq!(results.fill(&json!("$last:/id")), Ok(json!("x")));
    }

    #[test]
    fn a_placeholder_without_a_value_is_an_error_that_says_why() {
        assert!(matches!(Results::default().fill(&json!("$last:/a")), Err(PlaceholderError::NoResult { .. })));
        assert!(matches!(results().fill(&json!("$last9:/a")), Err(PlaceholderError::NoResult { .. })));
        assert!(matches!(results().fill(&json!("$last:/nope")), Err(PlaceholderError::NothingThere { .. })));
        let mut results = Results::default();
        results.push(ToolResult::text("plain words"));
        assert!(matches!(results.fill(&json!(["$last:/a"])), Err(PlaceholderError::NotJson { .. })));
    }
}
