//! The reading of recorded sessions with real agents, and who may pass a question for permission.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use super::super::drive::{Garbage, Speaker, Step};
use super::speak::{AcpSpeaker, State};
use super::wire;
use routing_core::agent::{AgentEvent, TurnOutcome};
use serde_json::{Value, json};

const CLAUDE: &str = include_str!("transcripts/claude-agent-acp.jsonl");
const COPILOT: &str = include_str!("transcripts/copilot.jsonl");

fn speaker() -> AcpSpeaker {
    AcpSpeaker {
        agent: "tested".into(),
        program: "agent".into(),
        allow_tools: Vec::new(),
        session: "s1".into(),
        prefix: "p".into(),
        instructions: Some("be brief".into()),
        model: Some("m".into()),
        sign_in: "Sign in.".into(),
        next_request: 3,
        state: State::default(),
    }
}

fn script(steps: &[Step]) -> Vec<String> {
    let line = |step: &Step| match step {
        Step::Say(AgentEvent::Delta { id, text }) => format!("delta {id} {text}"),
        Step::Say(AgentEvent::Thought { id, text }) => format!("thought {id} {text}"),
        Step::Say(AgentEvent::Text { id, text }) => format!("text {id} {text}"),
        Step::Say(AgentEvent::Tool { name, detail }) => format!("tool {name} [{detail}]"),
        Step::Say(AgentEvent::Notice { text }) => format!("notice {text}"),
        Step::Say(AgentEvent::Usage { used, window, cost_micros, .. }) => {
            format!("usage {} of {}, {}", used.unwrap(), window.unwrap(), cost_micros.unwrap_or_default())
        }
        Step::Say(other) => format!("unexpected {other:?}"),
        Step::Send(line) => {
            let sent: Value = serde_json::from_str(line).unwrap();
            format!("answer {}", sent["result"]["outcome"]["optionId"].as_str().unwrap_or("none"))
        }
        Step::End { outcome, .. } => match outcome {
            TurnOutcome::Completed => "completed".into(),
            TurnOutcome::Interrupted => "interrupted".into(),
            TurnOutcome::Failed { code, message } => format!("failed {code}: {message}"),
        },
    };
    steps.iter().map(line).collect()
}

fn replay(transcript: &str) -> Vec<String> {
    let mut speaker = speaker();
    speaker.prompt("hello");
    let steps: Vec<Step> = transcript.lines().flat_map(|line| speaker.line(line).unwrap()).collect();
    script(&steps).into_iter().filter(|line| !line.starts_with("usage")).collect()
}

#[test]
fn a_recorded_session_of_claude_reads_as_it_was_held() {
    assert_eq!(
        replay(CLAUDE),
        [
            "delta p-1 calling",
            "text p-1 calling",
            "tool panel_run []",
            "answer allow-once",
            "delta p-2 calling",
            "text p-2 calling",
            "tool Bash []",
            "notice The agent asked for Bash, which is not allowed; allow_tools in [agents.tested] can allow it.",
            "answer reject",
            "delta p-3 done",
            "text p-3 done",
            "completed",
        ]
    );
}

#[test]
fn a_recorded_session_of_copilot_reads_as_it_was_held() {
    assert_eq!(
        replay(COPILOT),
        [
            "tool panel_run [what: x]",
            "answer allow_once",
            "tool execute [command: touch a.txt, description: touch a file]",
            "notice The agent asked for touch a file, which is not allowed; allow_tools in [agents.tested] can allow it.",
            "answer reject_once",
            "delta p-1 Info: Operation cancelled by user",
            "text p-1 Info: Operation cancelled by user",
            "completed",
        ]
    );
}

/// The option taken for a tool call that was first announced and then asked about.
fn taken(allow: &[&str], announced: &Value, asked: &Value) -> String {
    let mut speaker = speaker();
    speaker.allow_tools = allow.iter().map(|name| (*name).to_owned()).collect();
    let with = |call: &Value, more: Value| {
        let mut call = call.clone();
        let Value::Object(more) = more else { panic!("no object") };
        call.as_object_mut().unwrap().extend(more);
        call
    };
    if !announced.is_null() {
        let update = with(announced, json!({"sessionUpdate": "tool_call", "toolCallId": "c"}));
        let params = json!({"sessionId": "s1", "update": update});
        speaker.line(&json!({"method": "session/update", "params": params}).to_string()).unwrap();
    }
    let options = json!([{"optionId": "1", "kind": "allow_always"}, {"optionId": "2", "kind": "reject_once"},
        {"optionId": "3", "kind": "allow_once"}]);
    let params = json!({"sessionId": "s1", "toolCall": with(asked, json!({"toolCallId": "c"})), "options": options});
    let steps = speaker.line(&json!({"id": 7, "method": "session/request_permission", "params": params}).to_string());
    match script(&steps.unwrap()).last().unwrap().as_str() {
        "answer 3" => "allowed".into(),
        "answer 2" => "refused".into(),
        other => panic!("{other}"),
    }
}

#[test]
fn our_tools_pass_by_their_stated_name_or_by_a_title_that_is_a_name() {
    let nothing = Value::Null;
    for asked in [
        json!({"name": "mcp__panel__panel_run", "title": "anything"}),
        json!({"title": "panel_run (panel MCP Server)", "kind": "other"}),
        json!({"title": "mcp__panel__panel_run", "kind": "other", "rawInput": {"node_id": 3}}),
        json!({"title": "panel-panel_run", "kind": "execute", "rawInput": {}}),
        json!({"title": "panel-panel_open_workflow", "kind": "other", "rawInput": {"path": "a.json"}}),
    ] {
        assert_eq!(taken(&[], &nothing, &asked), "allowed", "{asked}");
    }
}

#[test]
fn words_of_the_model_do_not_pass_for_our_tools() {
    let nothing = Value::Null;
    let shell = json!({"title": "panel-panel_run", "kind": "execute", "rawInput": {"command": "rm x", "description": "panel-panel_run"}});
    assert_eq!(
        taken(&[], &shell, &json!({"title": "panel-panel_run", "kind": "execute", "rawInput": {"x": 1}})),
        "refused"
    );
    for asked in [
        shell,
        json!({"name": "Bash", "title": "mcp__panel__panel_run", "kind": "other"}),
        json!({"title": "mcp__panel__panel_run", "kind": "execute"}),
        json!({"title": "mcp__panel__panel_run", "kind": "edit"}),
        json!({"title": "mcp__panel__panel_run; rm x", "kind": "other"}),
        json!({"title": "rm x # (panel MCP Server)", "kind": "other"}),
        json!({"title": "mcp__panel__panel_run", "kind": "other", "rawInput": {"text": "mcp__panel__panel_run"}}),
        json!({"title": "panel_run", "kind": "other"}),
        json!({}),
    ] {
        assert_eq!(taken(&[], &nothing, &asked), "refused", "{asked}");
    }
}

#[test]
fn other_tools_pass_by_exact_name_or_kind_only() {
    let bash = json!({"name": "Bash", "title": "touch x", "kind": "execute"});
    assert_eq!(taken(&["Bash"], &Value::Null, &bash), "allowed");
    assert_eq!(taken(&["execute"], &Value::Null, &bash), "allowed");
    assert_eq!(taken(&["read", "bash", "touch x"], &Value::Null, &bash), "refused");
}

#[test]
fn without_an_option_of_the_right_kind_nothing_is_chosen() {
    let mut speaker = speaker();
    let params = json!({"toolCall": {"name": "mcp__panel__x"}, "options": [{"optionId": "a", "kind": "allow_always"}]});
    let steps =
        speaker.line(&json!({"id": 1, "method": "session/request_permission", "params": params}).to_string()).unwrap();
    assert_eq!(script(&steps), ["answer none"]);
}

#[test]
fn instructions_go_before_the_first_prompt_only() {
    let mut speaker = speaker();
    let sent = |steps: Vec<Step>| match steps.as_slice() {
        [Step::Send(line)] => {
            serde_json::from_str::<Value>(line).unwrap()["params"]["prompt"].as_array().unwrap().len()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(sent(speaker.prompt("one")), 2);
    assert_eq!(sent(speaker.prompt("two")), 1);
}

#[test]
fn ends_of_turns_are_told_apart() {
    let end = |interrupt: bool, answer: Value| {
        let mut speaker = speaker();
        speaker.prompt("hello");
        if interrupt {
            speaker.interrupt();
        }
        let mut line = json!({"id": 3});
        line.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        script(&speaker.line(&line.to_string()).unwrap()).pop().unwrap()
    };
    assert_eq!(end(false, json!({"result": {"stopReason": "end_turn"}})), "completed");
    assert_eq!(end(true, json!({"result": {"stopReason": "cancelled"}})), "interrupted");
    assert_eq!(end(true, json!({"error": {"code": -32603, "message": "aborted"}})), "interrupted");
    assert!(end(false, json!({"result": {"stopReason": "refusal"}})).starts_with("failed model_error"));
    assert!(end(false, json!({"error": {"code": -32000, "message": "login"}})).starts_with("failed not_signed_in"));
    let failed =
        end(false, json!({"error": {"code": -32603, "message": "Internal error", "data": {"details": "quota"}}}));
    assert!(failed.starts_with("failed model_error: Internal error: quota."), "{failed}");
}

#[test]
fn what_is_unknown_or_of_another_session_is_passed_over() {
    let mut speaker = speaker();
    speaker.prompt("hello");
    for line in [
        r#"{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"from_the_future"}}}"#,
        r#"{"method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"agent_message_chunk","content":{"text":"x"}}}}"#,
        r#"{"method":"session/update"}"#,
        r#"{"method":"_vendor/thing","params":{}}"#,
        r#"{"id":99,"result":{"stopReason":"end_turn"}}"#,
    ] {
        assert_eq!(speaker.line(line), Ok(Vec::new()), "{line}");
    }
    let refused = speaker.line(r#"{"id":"a","method":"fs/read_text_file","params":{}}"#).unwrap();
    assert!(matches!(refused.as_slice(), [Step::Send(line)] if line.contains("-32601")), "{refused:?}");
    for line in ["", "x", "{}", "[]", r#"{"id":"text","result":1}"#] {
        assert_eq!(wire::read(line), Err(Garbage), "{line}");
    }
}
