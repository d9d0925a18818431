//! Finds directives in text.
//!
//! Decides what is a directive and what is ordinary text; never fails, because agents quote prompts in
//! requests of their own (titles, classifiers), escaped and cut, and a model that dies of one stalls the agent.

use serde_json::{Map, Value};
use std::time::Duration;

/// One thing a script asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Directive {
    /// Say this text.
    Say(String),
    /// Call a tool and wait for its result.
    Tool {
        /// Name as written; see [`super::resolve_tool`].
        name: String,
        /// Arguments, placeholders not yet replaced.
        arguments: Value,
        /// Whether the call goes into the same message as the tool call before it.
        together: bool,
    },
    /// Say the words one by one, spread over the time.
    Slow {
        /// Time from the first word to the end.
        over: Duration,
        /// The words, without spaces.
        words: Vec<String>,
    },
    /// Say nothing for this long.
    Hang(Duration),
    /// Fail with this HTTP status.
    Error(u16),
    /// Ask the person for permission to do the named thing.
    Permission(String),
    /// End the process with this code.
    Exit(i32),
    /// Write a line that is not JSON.
    Garbage,
    /// Never answer.
    Silence,
    /// Looks like a directive and cannot be carried out.
    Malformed {
        /// Which directive.
        word: String,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// Why a directive cannot be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The arguments of a tool are not JSON.
    #[error("the arguments are not JSON; write @@tool NAME {{\"key\": value}}@@")]
    NotJson,
    /// A tool, permission or text is missing.
    #[error("a name or text is missing")]
    Missing,
    /// A time, status or code is not a number in range.
    #[error("the number is missing or out of range")]
    NotANumber,
}

const MARK: &str = "@@";
const LONGEST_SECONDS: f64 = 3_600.0;

/// Every directive in `text`, in order. Text between them is ignored, and so is `@@` before anything that is
/// not the name of a directive.
#[must_use]
pub fn parse(text: &str) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(MARK) {
        rest = &rest[start + MARK.len()..];
        let length = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
        let (word, body) = rest.split_at(length);
        let Some((directive, consumed)) = parse_one(word, body) else {
            continue;
        };
        found.push(directive);
        rest = &body[consumed..];
    }
    found
}

/// The directive and how many bytes of `body` it takes, closing mark included.
fn parse_one(word: &str, body: &str) -> Option<(Directive, usize)> {
    if word == "tool" || word == "also" {
        return parse_tool(word, body);
    }
    let end = body.find(MARK)?;
    let argument = body[..end].trim();
    let malformed = |problem| Directive::Malformed { word: word.to_owned(), problem };
    let directive = match word {
        "say" if argument.is_empty() => malformed(Problem::Missing),
        "say" => Directive::Say(argument.to_owned()),
        "slow" => {
            let (seconds, words) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            match (parse_seconds(seconds), words.is_empty()) {
                (Some(over), false) => Directive::Slow { over, words },
                (Some(_), true) => malformed(Problem::Missing),
                (None, _) => malformed(Problem::NotANumber),
            }
        }
        "hang" => parse_seconds(argument).map_or(malformed(Problem::NotANumber), Directive::Hang),
        "error" => match argument.parse() {
            Ok(status @ 400..=599) => Directive::Error(status),
            _ => malformed(Problem::NotANumber),
        },
        "permission" if argument.is_empty() => malformed(Problem::Missing),
        "permission" => Directive::Permission(argument.to_owned()),
        "exit" => argument.parse().map_or(malformed(Problem::NotANumber), Directive::Exit),
        "garbage" if argument.is_empty() => Directive::Garbage,
        "silence" if argument.is_empty() => Directive::Silence,
        _ => return None,
    };
    Some((directive, end + MARK.len()))
}

/// The JSON is read by a JSON parser and not up to the next mark, so arguments may hold directives themselves.
fn parse_tool(word: &str, body: &str) -> Option<(Directive, usize)> {
    let closing = body.find(MARK)?;
    let malformed = |problem| (Directive::Malformed { word: word.to_owned(), problem }, closing + MARK.len());
    let after_space = body.trim_start();
    let length = after_space
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/')))
        .unwrap_or(after_space.len());
    let (name, after_name) = after_space.split_at(length);
    if name.is_empty() || after_space.len() == body.len() {
        return Some(malformed(Problem::Missing));
    }
    let after_name = after_name.trim_start();
    let (arguments, tail) = if after_name.starts_with(MARK) {
        (Value::Object(Map::new()), after_name)
    } else {
        let mut values = serde_json::Deserializer::from_str(after_name).into_iter::<Value>();
        match values.next() {
            Some(Ok(value @ Value::Object(_))) => (value, after_name[values.byte_offset()..].trim_start()),
            _ => return Some(malformed(Problem::NotJson)),
        }
    };
    if !tail.starts_with(MARK) {
        return Some(malformed(Problem::NotJson));
    }
    let directive = Directive::Tool { name: name.to_owned(), arguments, together: word == "also" };
    Some((directive, body.len() - tail.len() + MARK.len()))
}

fn parse_seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..=LONGEST_SECONDS).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(name: &str, arguments: Value) -> Directive {
        Directive::Tool { name: name.to_owned(), arguments, together: false }
    }

    #[test]
    fn every_directive_is_found_in_order_between_other_text() {
        let text = "Note: tab 2 joined.\n@@say hello there@@ please @@tool panel_add_node {\"class\":\"KSampler\"}@@\n\
                    @@also panel_list@@@@slow 1.5 one two  three@@@@hang 0@@@@error 529@@@@permission Bash@@\
                    @@exit -1@@@@garbage@@@@silence@@ bye";
        assert_eq!(
            parse(text),
            vec![
                Directive::Say("hello there".into()),
                tool("panel_add_node", json!({"class": "KSampler"})),
                Directive::Tool { name: "panel_list".into(), arguments: json!({}), together: true },
                Directive::Slow {
                    over: Duration::from_millis(1_500),
                    words: vec!["one".into(), "two".into(), "three".into()],
                },
                Directive::Hang(Duration::ZERO),
                Directive::Error(529),
                Directive::Permission("Bash".into()),
                Directive::Exit(-1),
                Directive::Garbage,
                Directive::Silence,
            ]
        );
    }

    #[test]
    fn ordinary_text_with_marks_is_not_a_script() {
        for text in ["@@ -1,3 +1,4 @@ fn main", "a@@b", "@@", "@@say unfinished", "@@unknown word@@", "@@saying x@@"] {
            assert_eq!(parse(text), vec![], "{text}");
        }
    }

    #[test]
    fn an_unknown_word_does_not_hide_the_directive_after_it() {
        assert_eq!(parse("@@ -1 +1 @@say hi@@"), vec![Directive::Say("hi".into())]);
    }

    #[test]
    fn arguments_may_hold_directives_and_nested_objects() {
        let text =
            r#"@@tool panel_message {"to":"codex","text":"@@say hi@@","deep":{"a":[1,{"b":"}"}]}}@@@@say after@@"#;
        assert_eq!(
            parse(text),
            vec![
                tool("panel_message", json!({"to": "codex", "text": "@@say hi@@", "deep": {"a": [1, {"b": "}"}]}})),
                Directive::Say("after".into()),
            ]
        );
    }

    #[test]
    fn a_quoted_and_escaped_script_is_malformed_and_never_a_call() {
        for text in [
            r#"{"t":"@@tool x {\"a\":1}@@"}"#,
            "@@tool x {\"a\":@@",
            "@@tool x [1]@@",
            "@@tool@@",
            "@@slow many words@@",
            "@@slow 1@@",
            "@@hang -1@@",
            "@@hang 1e9@@",
            "@@hang NaN@@",
            "@@error 200@@",
            "@@exit@@",
            "@@say @@",
        ] {
            let found = parse(text);
            assert!(matches!(found.as_slice(), [Directive::Malformed { .. }]), "{text}: {found:?}");
        }
    }

    #[test]
    fn text_of_any_alphabet_is_kept() {
        assert_eq!(parse("日本@@say größer 日本@@語"), vec![Directive::Say("größer 日本".into())]);
    }
}
