//! Which step of a script a conversation has come to.
//!
//! A model keeps no state between requests: the whole conversation comes with each. The script is in the last
//! user message that holds directives, and every assistant message after it is a step already taken. Decides the
//! next message; must not know how it is sent.

use super::{Directive, Results, ToolResult, parse, resolve_tool, truncate};
use serde_json::Value;
use std::time::Duration;

/// One message of a conversation, as far as a script cares.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// What the user side sent.
    User {
        /// Its text blocks.
        texts: Vec<String>,
        /// The tool results it carries.
        results: Vec<ToolResult>,
    },
    /// What the model said.
    Assistant,
}

/// A piece of the model's message, or a pause in it.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text, said at once.
    Say(String),
    /// Words spread over a time.
    Slow {
        /// Time from the first word to the end.
        over: Duration,
        /// The words.
        words: Vec<String>,
    },
    /// Nothing for this long.
    Wait(Duration),
}

/// How the model's message ends.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// The turn is over.
    Turn,
    /// Tools are called: name and arguments of each.
    Tools(Vec<(String, Value)>),
    /// The request fails with this HTTP status.
    Error(u16),
}

/// The next message of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Which step of the script this is, from 0; `None` without a script.
    pub index: Option<usize>,
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// How it ends.
    pub end: End,
}

/// What an agent puts into the history where a person stopped it; the script before it is over.
const INTERRUPTED: &str = "[Request interrupted by user";

/// As good as for ever: no test waits that long.
const SILENCE: Duration = Duration::from_secs(3_600);

/// Decides the next message from the conversation so far and the names of the tools the request offers.
#[must_use]
pub fn next_step(entries: &[Entry], tools: &[String]) -> Step {
    let turns = merge(entries);
    let script = turns.iter().enumerate().rev().find_map(|(at, entry)| match entry {
        Entry::User { texts, .. } => Some((at, script_of(texts))).filter(|(_, script)| !script.is_empty()),
        Entry::Assistant => None,
    });
    let Some((at, script)) = script else {
        return ending(None, "ok".to_owned());
    };
    let index = turns[at..].iter().filter(|entry| matches!(entry, Entry::Assistant)).count();
    let mut results = Results::default();
    for entry in &turns {
        if let Entry::User { results: carried, .. } = entry {
            carried.iter().for_each(|result| results.push(result.clone()));
        }
    }
    match split(script).into_iter().nth(index) {
        Some(raw) => carry_out(index, raw, &results, tools),
        None => ending(Some(index), echo(turns.last())),
    }
}

/// Neighbouring user messages count as one: some agents send reminders and results as messages of their own.
fn merge(entries: &[Entry]) -> Vec<Entry> {
    let mut merged: Vec<Entry> = Vec::new();
    for entry in entries {
        match (merged.last_mut(), entry) {
            (Some(Entry::User { texts, results }), Entry::User { texts: more_texts, results: more_results }) => {
                texts.extend(more_texts.iter().cloned());
                results.extend(more_results.iter().cloned());
            }
            _ => merged.push(entry.clone()),
        }
    }
    merged
}

/// The directives of the blocks since the last interruption. A failure or a wait that something follows in a later
/// block has had its turn: it stays in the history without an answer and must not strike again.
fn script_of(texts: &[String]) -> Vec<Directive> {
    let start = texts.iter().rposition(|text| text.contains(INTERRUPTED)).unwrap_or(0);
    let newest = texts.iter().rposition(|text| !is_agent_note(text)).unwrap_or(0);
    let blocks = texts.iter().enumerate().skip(start);
    blocks
        .flat_map(|(at, text)| parse(text).into_iter().map(move |directive| (at, directive)))
        .filter(|(at, directive)| match directive {
            Directive::Error(_) | Directive::Hang(_) | Directive::Slow { .. } | Directive::Silence => *at >= newest,
            Directive::Say(_)
            | Directive::Tool { .. }
            | Directive::Permission(_)
            | Directive::Exit(_)
            | Directive::Garbage
            | Directive::Malformed { .. } => true,
        })
        .map(|(_, directive)| directive)
        .collect()
}

/// A block that an agent adds by itself, to a prompt as well as to a tool result.
#[must_use]
pub fn is_agent_note(text: &str) -> bool {
    text.trim_start().starts_with("<system-reminder>")
}

/// A step before its placeholders are filled: a message ends with its tool calls or with its failure.
#[derive(Default)]
struct RawStep {
    parts: Vec<Part>,
    calls: Vec<(String, Value)>,
    error: Option<u16>,
}

fn split(script: Vec<Directive>) -> Vec<RawStep> {
    let mut steps: Vec<RawStep> = Vec::new();
    let mut open = false;
    for directive in script {
        let joins = matches!(directive, Directive::Tool { together: true, .. });
        let last_calls = steps.last().is_some_and(|step| !step.calls.is_empty());
        if !(open || joins && last_calls) {
            steps.push(RawStep::default());
        }
        let Some(step) = steps.last_mut() else { continue };
        open = true;
        match directive {
            Directive::Say(text) => step.parts.push(Part::Say(text)),
            Directive::Slow { over, words } => step.parts.push(Part::Slow { over, words }),
            Directive::Hang(time) => step.parts.push(Part::Wait(time)),
            Directive::Silence => step.parts.push(Part::Wait(SILENCE)),
            Directive::Tool { name, arguments, .. } => {
                step.calls.push((name, arguments));
                open = false;
            }
            Directive::Error(status) => {
                step.error = Some(status);
                open = false;
            }
            Directive::Malformed { word, problem } => {
                step.parts.push(Part::Say(format!("malformed directive {word}: {problem}")));
            }
            // A model has no process of the agent's and nobody to ask.
            Directive::Permission(_) | Directive::Exit(_) | Directive::Garbage => {}
        }
    }
    steps
}

fn carry_out(index: usize, raw: RawStep, results: &Results, tools: &[String]) -> Step {
    let mut parts = raw.parts;
    if let Some(status) = raw.error {
        return Step { index: Some(index), parts, end: End::Error(status) };
    }
    let mut calls = Vec::new();
    for (name, arguments) in raw.calls {
        let resolved = resolve_tool(&name, tools.iter().map(String::as_str)).map(str::to_owned);
        // A full name is sent as it stands, to see what the agent makes of a tool it does not offer.
        let resolved = resolved.or_else(|| (name.contains("__") && !tools.is_empty()).then(|| name.clone()));
        match (resolved, results.fill(&arguments)) {
            (Some(resolved), Ok(arguments)) => calls.push((resolved, arguments)),
            (None, _) => parts.push(Part::Say(format!(
                "script error: no tool named {name} is offered; an agent may have deferred it"
            ))),
            (_, Err(error)) => parts.push(Part::Say(format!("script error: {name}: {error}"))),
        }
    }
    if parts.is_empty() && calls.is_empty() {
        parts.push(Part::Say("done".to_owned()));
    }
    let end = if calls.is_empty() { End::Turn } else { End::Tools(calls) };
    Step { index: Some(index), parts, end }
}

fn echo(last: Option<&Entry>) -> String {
    match last {
        Some(Entry::User { results, .. }) => results.last().map(ToolResult::joined).map(|text| truncate(&text)),
        Some(Entry::Assistant) | None => None,
    }
    .filter(|text| !text.trim().is_empty())
    .unwrap_or_else(|| "done".to_owned())
}

fn ending(index: Option<usize>, text: String) -> Step {
    Step { index, parts: vec![Part::Say(text)], end: End::Turn }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn user(texts: &[&str]) -> Entry {
        Entry::User { texts: texts.iter().map(|text| (*text).to_owned()).collect(), results: vec![] }
    }

    fn result(text: &str) -> Entry {
        Entry::User { texts: vec![], results: vec![ToolResult::text(text)] }
    }

    fn tools() -> Vec<String> {
        vec!["Bash".to_owned(), "mcp__panel__add_node".to_owned(), "mcp__panel__connect".to_owned()]
    }

    fn step(entries: &[Entry]) -> Step {
        next_step(entries, &tools())
    }

    fn says(step: &Step) -> String {
        let text = step.parts.iter().map(|part| match part {
            Part::Say(text) => text.clone(),
            Part::Slow { words, .. } => words.join(" "),
            Part::Wait(_) => "...".to_owned(),
        });
        text.collect::<Vec<_>>().join("|")
    }

    const SCRIPT: &str =
        "@@say adding@@ @@tool add_node {\"class\":\"A\"}@@ @@tool connect {\"to\":\"$last:/id\"}@@ @@say all set@@";

    #[test]
    fn a_script_is_taken_step_by_step() {
        let mut talk = vec![user(&["<reminder>context</reminder>", SCRIPT])];
        let first = step(&talk);
        assert_eq!((says(&first).as_str(), first.index), ("adding", Some(0)));
        assert_eq!(first.end, End::Tools(vec![("mcp__panel__add_node".into(), json!({"class": "A"}))]));

        talk.extend([Entry::Assistant, result("{\"id\":12}")]);
        let second = step(&talk);
        assert_eq!(second.end, End::Tools(vec![("mcp__panel__connect".into(), json!({"to": 12}))]));

        talk.extend([Entry::Assistant, result("linked")]);
        let third = step(&talk);
        assert_eq!((says(&third).as_str(), &third.end), ("all set", &End::Turn));
    }

    #[test]
    fn past_the_last_step_the_last_result_is_echoed_and_cut() {
        let long = "x".repeat(3_000);
        let talk = [user(&["@@tool add_node@@"]), Entry::Assistant, result(&long), user(&["<reminder/>"])];
        assert_eq!(says(&step(&talk)), "x".repeat(2_000));
        let talk = [user(&["@@say a@@"]), Entry::Assistant, user(&["thanks"])];
        assert_eq!(says(&step(&talk)), "done");
        let talk = [user(&["@@tool add_node@@"]), Entry::Assistant, result("old"), Entry::Assistant, user(&["thanks"])];
        assert_eq!(says(&step(&talk)), "done", "a plain message does not bring an old result back");
    }

    #[test]
    fn a_newer_script_starts_at_its_first_step_even_beside_a_tool_result() {
        let folded = Entry::User { texts: vec!["@@say second@@".into()], results: vec![ToolResult::text("r")] };
        let talk = [user(&[SCRIPT]), Entry::Assistant, folded];
        assert_eq!(says(&step(&talk)), "second");
    }

    #[test]
    fn tools_called_together_share_one_message() {
        let talk = [user(&["@@tool add_node {\"n\":1}@@@@also add_node {\"n\":2}@@@@tool connect@@"])];
        let End::Tools(calls) = step(&talk).end else { panic!("tools expected") };
        assert_eq!(calls.len(), 2);
    }

    #[test]
    fn a_failure_left_in_the_history_does_not_strike_again() {
        assert_eq!(step(&[user(&["@@error 529@@"])]).end, End::Error(529));
        assert_eq!(step(&[user(&["@@error 529@@", "@@say next@@"])]).end, End::Turn);
        assert_eq!(says(&step(&[user(&["@@hang 30@@"]), user(&["@@say next@@"])])), "next");
        assert_eq!(says(&step(&[user(&["@@error 529@@", "<system-reminder>x</system-reminder>", "go on"])])), "ok");
        assert_eq!(step(&[user(&["@@error 529@@", "<system-reminder>x</system-reminder>"])]).end, End::Error(529));
        let interrupted = [user(&["@@tool add_node@@"]), user(&["[Request interrupted by user]", "@@say next@@"])];
        assert_eq!(says(&step(&interrupted)), "next");
    }

    #[test]
    fn an_error_after_text_keeps_the_text() {
        let failed = step(&[user(&["@@say begun@@@@error 500@@@@say never@@"])]);
        assert_eq!((says(&failed).as_str(), failed.end), ("begun", End::Error(500)));
    }

    #[test]
    fn side_calls_get_a_harmless_text() {
        assert_eq!(says(&next_step(&[user(&["Write a title for this talk"])], &[])), "ok");
        assert_eq!(says(&next_step(&[], &[])), "ok");
        let quoted = next_step(&[user(&[r#"{"text":"@@tool add_node {\"class\":\"A\"}@@"}"#])], &tools());
        assert_eq!(quoted.end, End::Turn);
        let without_tools = next_step(&[user(&["@@tool add_node {\"class\":\"A\"}@@"])], &[]);
        assert_eq!(without_tools.end, End::Turn);
    }

    #[test]
    fn a_script_that_cannot_go_on_says_why_and_ends() {
        let unknown = step(&[user(&["@@tool no_such {}@@"])]);
        assert_eq!((says(&unknown).contains("no_such"), unknown.end), (true, End::Turn));
        let empty = step(&[user(&["@@tool connect {\"to\":\"$last:/id\"}@@"])]);
        assert_eq!((says(&empty).contains("$last:/id"), empty.end), (true, End::Turn));
        let full = step(&[user(&["@@tool mcp__panel__gone@@"])]);
        assert_eq!(full.end, End::Tools(vec![("mcp__panel__gone".into(), json!({}))]));
    }

    #[test]
    fn directives_for_agents_only_leave_a_model_unmoved() {
        let quiet = step(&[user(&["@@garbage@@@@exit 1@@@@permission Bash@@"])]);
        assert_eq!((says(&quiet).as_str(), quiet.end), ("done", End::Turn));
    }
}
