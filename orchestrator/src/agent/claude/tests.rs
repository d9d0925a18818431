//! The reading of recorded conversations with the real CLI, and the command line.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use super::super::McpEndpoint;
use super::super::drive::{Garbage, Speaker, Step};
use super::translate::Translator;
use super::*;
use crate::agent::AgentKind;
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::id::{AgentSessionId, Backend};
use tokio::sync::mpsc;

const CONVERSATION: &str = include_str!("transcripts/conversation.jsonl");
const SIGNED_OUT: &str = include_str!("transcripts/signed-out.jsonl");
const RETRIES: &str = include_str!("transcripts/retries.jsonl");
const UNKNOWN_SESSION: &str = include_str!("transcripts/unknown-session.jsonl");

/// A transcript as one short line a step; block ids are replaced by numbers in order of appearance.
fn script(transcript: &str) -> Vec<String> {
    let mut translator = Translator::default();
    let mut ids: Vec<String> = Vec::new();
    let mut number = |id: String| {
        ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        })
    };
    let messages = transcript.lines().map(|line| wire::read(line).unwrap());
    let steps = messages.flat_map(|message| translator.take(message));
    let mut script = Vec::new();
    for step in steps {
        script.push(match step {
            Step::Say(AgentEvent::Session { id }) => format!("session {}", id.as_str().len()),
            Step::Say(AgentEvent::Delta { id, text }) => format!("delta {} {text}", number(id)),
            Step::Say(AgentEvent::Thought { id, text }) => format!("thought {} {text}", number(id)),
            Step::Say(AgentEvent::Text { id, text }) => format!("text {} {text}", number(id)),
            Step::Say(AgentEvent::Tool { name, detail }) => format!("tool {name} [{detail}]"),
            Step::Say(AgentEvent::Usage { used, window, model, cost_micros }) => format!(
                "usage {} of {} {} {}",
                used.unwrap_or_default(),
                window.unwrap_or_default(),
                model.unwrap_or_default(),
                cost_micros.unwrap_or_default()
            ),
            Step::Say(AgentEvent::Notice { text }) => format!("notice {text}"),
            Step::Say(other) => format!("unexpected {other:?}"),
            Step::Send(line) => {
                let answer: Value = serde_json::from_str(&line).unwrap();
                format!("answer {}", answer["response"]["response"]["behavior"].as_str().unwrap_or("none"))
            }
            Step::End { outcome, anchor } => {
                let anchor = if anchor.is_some() { "anchored" } else { "no anchor" };
                match outcome {
                    TurnOutcome::Completed => format!("completed, {anchor}"),
                    TurnOutcome::Interrupted => format!("interrupted, {anchor}"),
                    TurnOutcome::Failed { code, message } => format!("failed {code}, {anchor}: {message}"),
                }
            }
        });
    }
    script
}

#[test]
fn a_recorded_conversation_reads_as_it_was_held() {
    assert_eq!(
        script(CONVERSATION),
        [
            "session 36",
            "delta 0 first an",
            "delta 0 swer in ",
            "delta 0 pieces",
            "text 0 first answer in pieces",
            "usage 17 of 200000 claude-sonnet-4-5 135",
            "completed, anchored",
            "delta 1 calling",
            "text 1 calling",
            "tool panel_run [what: x]",
            "answer allow",
            "delta 2 calling",
            "text 2 calling",
            "tool Bash [command: touch a.txt, description: touch]",
            "notice The agent asked for Bash, which is not allowed.",
            "answer deny",
            "delta 3 done",
            "text 3 done",
            "usage 17 of 200000 claude-sonnet-4-5 540",
            "completed, anchored",
            "thought 4 some thought",
            "delta 5 thought: some thought",
            "text 5 thought: some thought",
            "usage 17 of 200000 claude-sonnet-4-5 675",
            "completed, anchored",
            "delta 6 one ",
            "delta 6 two ",
            "text 6 one two ",
            "usage 11 of 200000 claude-sonnet-4-5 735",
            "interrupted, anchored",
            "usage 11 of 200000 claude-sonnet-4-5 735",
            "failed model_error, no anchor: API Error: 400 scripted failure 400. The service refused the request: choose \
             another model, or start a new chat.",
        ]
    );
}

#[test]
fn a_turn_without_a_login_fails_with_the_way_to_sign_in() {
    let script = script(SIGNED_OUT);
    let last = script.last().unwrap();
    assert!(last.starts_with("failed not_signed_in") && last.contains("/login"), "{last}");
    assert!(!script.iter().any(|line| line.starts_with("text")), "an error is no answer: {script:?}");
}

#[test]
fn the_account_in_the_handshake_tells_whether_someone_is_signed_in() {
    let account = |line: &str| {
        let wire::Message::Answer { result, .. } = wire::read(line).unwrap() else { panic!("no answer: {line}") };
        result.unwrap()["account"].clone()
    };
    assert!(signed_out(&account(SIGNED_OUT.lines().next().unwrap())));
    assert!(!signed_out(&account(CONVERSATION.lines().next().unwrap())));
    assert!(!signed_out(&json!({"apiProvider": "bedrock"})));
    assert!(!signed_out(&json!({"apiProvider": "firstParty", "tokenSource": "claude.ai"})));
    assert!(!signed_out(&Value::Null));
}

#[test]
fn a_retry_is_a_notice_for_the_person() {
    let script = script(RETRIES);
    assert_eq!(script[1], "notice The model's service answered 401 (authentication_failed); trying again, 1 of 10.");
    assert_eq!(script.len(), RETRIES.lines().count());
}

#[test]
fn a_refused_resumption_is_an_outcome_before_any_prompt() {
    let wire::Message::Outcome(outcome) = wire::read(UNKNOWN_SESSION.trim()).unwrap() else { panic!("no outcome") };
    assert!(outcome.is_error && !outcome.interrupted());
}

#[test]
fn only_a_line_that_is_no_message_is_garbage() {
    for line in ["", "not json", "[1]", "{}", "{\"type\":5}", "null"] {
        assert_eq!(wire::read(line), Err(Garbage), "{line}");
    }
    for line in [
        r#"{"type":"brand_new","x":1}"#,
        r#"{"type":"system","subtype":"brand_new"}"#,
        r#"{"type":"stream_event"}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"brand_new"}}}"#,
    ] {
        assert_eq!(wire::read(line), Ok(wire::Message::Other), "{line}");
    }
    // Known types with everything missing neither panic nor invent anything.
    for kind in ["assistant", "result", "control_request", "control_response"] {
        let message = wire::read(&format!(r#"{{"type":"{kind}"}}"#)).unwrap();
        Translator::default().take(message);
    }
}

#[test]
fn blocks_that_did_not_stream_get_ids_of_their_own_and_helpers_are_not_quoted() {
    let mut translator = Translator::default();
    let mut take = |line: &str| translator.take(wire::read(line).unwrap());
    let steps = take(
        r#"{"type":"assistant","uuid":"u1","message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}"#,
    );
    let ids: Vec<_> = steps
        .iter()
        .map(|step| match step {
            Step::Say(AgentEvent::Text { id, .. }) => id.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, ["u1-1", "u1-2"]);
    let nested = take(
        r#"{"type":"assistant","uuid":"u2","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":"a"},
        {"type":"tool_use","name":"Grep","input":{}}]}}"#,
    );
    assert_eq!(nested, [Step::Say(AgentEvent::Tool { name: "Grep".into(), detail: String::new() })]);
    let end = take(r#"{"type":"result","terminal_reason":"completed"}"#);
    let anchor = Some("u1".to_owned());
    assert_eq!(end.last(), Some(&Step::End { outcome: TurnOutcome::Completed, anchor }));
}

#[test]
fn a_message_of_the_person_is_never_a_command_to_the_cli() {
    assert!(wire::user("/clear").contains(r#""text":" /clear""#));
    assert!(wire::user("hello /clear").contains(r#""text":"hello /clear""#));
}

#[test]
fn text_that_was_being_written_when_the_process_died_is_said_as_far_as_it_came() {
    let mut translator = Translator::default();
    for line in CONVERSATION.lines().take_while(|line| !line.contains(r#""type":"assistant""#)) {
        translator.line(line).unwrap();
    }
    let left = translator.abandon();
    assert!(matches!(left.as_slice(), [AgentEvent::Text { text, .. }] if text == "first answer in pieces"), "{left:?}");
    assert_eq!(translator.abandon(), []);
}

fn launch() -> Launch {
    let (events, _) = mpsc::unbounded_channel();
    Launch {
        name: Backend::from("claude"),
        resume_at: None,
        resume: Some(AgentSessionId::from("session-1")),
        mcp: McpEndpoint { url: "http://127.0.0.1:1/mcp/secret-handle".into(), bearer: "secret-bearer".into() },
        cwd: "/".into(),
        model: None,
        instructions: "be brief".into(),
        deadline: Duration::from_secs(1),
        events,
    }
}

#[test]
fn the_command_line_holds_no_secret_and_no_way_around_permissions() {
    let mut config = AgentConfig::new(AgentKind::Claude);
    config.command = vec!["claude".into(), "--first".into()];
    config.model = Some("sonnet".into());
    let claude = Claude::new(config);
    let program = claude.launch("/bin/claude".into(), &launch());
    let line = program.arguments.join(" ");
    assert!(
        line.starts_with("--first --print") && line.ends_with("--append-system-prompt be brief --resume session-1")
    );
    assert!(line.contains("--tools  --disable-slash-commands") && line.contains("--model sonnet"), "{line}");
    for word in ["secret", "bypass", "dangerously", "allowedTools"] {
        assert!(!line.contains(word), "{word} in {line}");
    }
    assert_eq!(program.set[MCP_BEARER], "secret-bearer");
    assert!(program.unset.contains(&API_KEY));
}

#[test]
fn the_key_in_the_environment_is_handed_on_only_when_the_configuration_says_so() {
    let mut config = AgentConfig::new(AgentKind::Claude);
    config.use_api_key = true;
    config.allow_tools = vec!["Bash".into(), "Read".into(), "mcp__x__y".into()];
    let program = Claude::new(config).launch("/bin/claude".into(), &launch());
    assert!(!program.unset.contains(&API_KEY));
    let tools = program.arguments.iter().skip_while(|word| *word != "--tools").nth(1);
    assert_eq!(tools.map(String::as_str), Some("Bash,Read"));
}
