//! The scripted agent as a process, seen by a client.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Agent, Puppeteer, said, tool_server};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_script_runs_and_another_process_loads_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let state = ["--state", folder.path().to_str().unwrap()];
    let (servers, calls) = tool_server(false).await;

    let mut first = Agent::start(&state);
    let (hello, _) = first.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})).await;
    assert_eq!(hello["result"]["protocolVersion"], 1);
    assert_eq!(hello["result"]["agentCapabilities"]["loadSession"], true);
    assert_eq!(hello["result"]["agentCapabilities"]["mcpCapabilities"]["http"], true);
    let session = first.new_session(servers.clone()).await;
    let script = r#"@@say adding@@ @@tool panel_add_node {"class":"KSampler"}@@
        @@tool panel_connect {"from":"$last:/node/id"}@@"#;
    let id = first.send_prompt(&session, script).await;
    let (answer, updates) = first.answer(id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(said(&updates), "adding\n{\"from\":41}");
    let statuses: Vec<&Value> = updates.iter().filter_map(|update| update.get("status")).collect();
    assert_eq!(statuses, ["in_progress", "completed", "in_progress", "completed"]);
    assert_eq!(
        *calls.lock().unwrap(),
        [
            ("Bearer agent-7".to_owned(), json!({"name": "panel_add_node", "arguments": {"class": "KSampler"}})),
            ("Bearer agent-7".to_owned(), json!({"name": "panel_connect", "arguments": {"from": 41}})),
        ]
    );
    first.child.kill().await.unwrap();

    let mut second = Agent::start(&state);
    let load = json!({"sessionId": session, "cwd": "/w", "mcpServers": servers});
    let (loaded, history) = second.ask("session/load", load).await;
    assert!(loaded.get("error").is_none(), "{loaded}");
    assert_eq!(history[0]["sessionUpdate"], "user_message_chunk");
    assert_eq!(history[0]["content"]["text"], format!("a note\n{script}"));
    assert_eq!(said(&history), "adding\n{\"from\":41}");
    assert_eq!(second.turn(&session, "@@say again@@").await, ("end_turn".into(), "again".into()));
    second.close_input();
    assert_eq!(second.exit_code().await, Some(0));
}

#[tokio::test]
async fn an_unknown_session_is_a_resource_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(&["--state", folder.path().to_str().unwrap()]);
    for id in ["0dc7a9e2-8a43-4cb5-9ee8-5e9f9b3f3b4c", "../escape", ""] {
        let (answer, _) = agent.ask("session/load", json!({"sessionId": id, "cwd": "/w", "mcpServers": []})).await;
        assert_eq!(answer["error"]["code"], -32_002, "{answer}");
        let (answer, _) = agent.ask("session/prompt", json!({"sessionId": id, "prompt": []})).await;
        assert_eq!(answer["error"]["code"], -32_002, "{answer}");
    }
}

#[tokio::test]
async fn a_tool_server_may_answer_with_events_and_its_failures_are_results() {
    let (servers, _) = tool_server(true).await;
    let mut agent = Agent::start(&[]);
    let session = agent.new_session(servers).await;
    assert_eq!(agent.turn(&session, "@@tool panel_add_node@@").await.1, "added");
    assert_eq!(agent.turn(&session, "@@tool panel_fail@@").await.1, "no canvas");
    let nowhere = json!([{"type": "http", "name": "gone", "url": "http://127.0.0.1:1/mcp", "headers": []}]);
    let session = agent.new_session(nowhere).await;
    let id = agent.send_prompt(&session, "@@tool panel_add_node@@").await;
    let (answer, updates) = agent.answer(id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(updates[1]["status"], "failed");
}

#[tokio::test]
async fn cancel_ends_words_and_tools_and_the_next_turn_works() {
    let (servers, calls) = tool_server(false).await;
    let mut agent = Agent::start(&[]);
    let session = agent.new_session(servers).await;
    for script in ["@@slow 60 one two three@@", "@@say x@@@@hang 60@@", "@@tool panel_slow@@"] {
        let started = Instant::now();
        let id = agent.send_prompt(&session, script).await;
        agent.message().await;
        agent.cancel(&session).await;
        let (answer, _) = agent.answer(id).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{script}");
        assert!(started.elapsed() < Duration::from_secs(2), "{script}");
    }
    assert_eq!(agent.turn(&session, "@@say fine@@").await, ("end_turn".into(), "fine".into()));
    assert!(calls.lock().unwrap().len() <= 1);
}

#[tokio::test]
async fn permission_is_told_by_the_kind_of_the_chosen_option() {
    let mut agent = Agent::start(&[]);
    let session = agent.new_session(json!([])).await;
    for wanted in ["allow_once", "reject_once"] {
        let id = agent.send_prompt(&session, "@@permission Bash@@").await;
        let question = agent.message().await;
        assert_eq!(question["method"], "session/request_permission");
        assert_eq!(question["params"]["toolCall"]["title"], "Bash");
        let options = question["params"]["options"].as_array().unwrap();
        let option = options.iter().find(|option| option["kind"] == wanted).unwrap();
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}});
        agent.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome})).await;
        let (_, updates) = agent.answer(id).await;
        assert_eq!(said(&updates), format!("permission Bash: {wanted}"));
    }
}

#[tokio::test]
async fn a_prompt_while_busy_waits_or_is_merged() {
    let mut agent = Agent::start(&[]);
    let session = agent.new_session(json!([])).await;
    let first = agent.send_prompt(&session, "@@slow 0.3 a b@@").await;
    let second = agent.send_prompt(&session, "@@say second@@").await;
    assert_eq!(said(&agent.answer(first).await.1), "a b");
    assert_eq!(said(&agent.answer(second).await.1), "second");

    let mut agent = Agent::start(&["--merge"]);
    let session = agent.new_session(json!([])).await;
    let first = agent.send_prompt(&session, "@@slow 0.3 a b@@").await;
    let second = agent.send_prompt(&session, "@@say second@@").await;
    let (_, updates) = agent.answer(first).await;
    assert_eq!(said(&updates), "a b\nsecond");
    let (answer, updates) = agent.answer(second).await;
    assert_eq!((answer["result"]["stopReason"].as_str(), updates.len()), (Some("end_turn"), 0));
    assert_eq!(agent.turn(&session, "@@say own@@").await.1, "own", "after the turn a prompt is a turn again");
}

#[tokio::test]
async fn it_misbehaves_where_told_to() {
    assert_eq!(Agent::start(&["--fail-start"]).exit_code().await, Some(1));

    let mut agent = Agent::start(&["--hang", "initialize"]);
    agent.send("initialize", json!({"protocolVersion": 1})).await;
    assert!(agent.is_silent().await);

    let mut agent = Agent::start(&["--no-load"]);
    let (hello, _) = agent.ask("initialize", json!({"protocolVersion": 1})).await;
    assert_eq!(hello["result"]["agentCapabilities"]["loadSession"], false);
    assert_eq!(agent.ask("session/load", json!({"sessionId": "x"})).await.0["error"]["code"], -32_601);

    let mut agent = Agent::start(&["--exit-in-turn"]);
    let session = agent.new_session(json!([])).await;
    agent.send_prompt(&session, "@@say never@@").await;
    assert_eq!(agent.message().await["params"]["update"]["content"]["text"], "leaving");
    assert_eq!((agent.line().await, agent.exit_code().await), (None, Some(1)));

    let mut agent = Agent::start(&[]);
    let session = agent.new_session(json!([])).await;
    let id = agent.send_prompt(&session, "@@garbage@@@@error 500@@").await;
    assert!(serde_json::from_str::<Value>(&agent.line().await.unwrap()).is_err());
    assert_eq!(agent.answer(id).await.0["error"]["data"]["status"], 500);
    agent.send_prompt(&session, "@@silence@@").await;
    agent.cancel(&session).await;
    assert!(agent.is_silent().await, "silence outlasts a cancel");
    let other = agent.new_session(json!([])).await;
    agent.send_prompt(&other, "@@say last words@@@@exit 7@@").await;
    assert_eq!(agent.message().await["params"]["update"]["content"]["text"], "last words");
    assert_eq!(agent.exit_code().await, Some(7));
}

#[tokio::test]
async fn a_puppet_moves_as_its_strings_are_pulled() {
    let (servers, calls) = tool_server(false).await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let mut agent = Agent::start(&["--puppet", &address, "--name", "anna", "--state", state]);
    let mut strings = Puppeteer::accept(&listener).await;
    strings.order(json!({"do": "delta", "text": "too early"})).await;
    assert_eq!(strings.event().await["event"], "refused");
    let session = agent.new_session(servers.clone()).await;
    let started = json!({"event": "started", "session": session, "resumed": false, "name": "anna", "servers": servers});
    assert_eq!(strings.event().await, started);

    let id = agent.send_prompt(&session, "@@say not played@@").await;
    let prompt = json!({"event": "prompt", "text": "a note\n@@say not played@@", "turn": 1});
    assert_eq!(strings.event().await, prompt);
    strings.order(json!({"do": "tool", "id": "c1", "name": "panel_slow"})).await;
    strings.order(json!({"do": "tool", "id": "c2", "name": "panel_add_node", "args": {"class": "A"}})).await;
    strings.order(json!({"do": "tools", "id": "t"})).await;
    strings.order(json!({"do": "delta", "text": "one "})).await;
    strings.order(json!({"do": "say", "text": "two three four five"})).await;
    let (one, two) = (strings.event().await, strings.event().await);
    let (listed, quick) = if one["event"] == "tools" { (one, two) } else { (two, one) };
    assert_eq!(listed["names"][0], "panel_add_node");
    assert_eq!((&quick["id"], &quick["is_error"]), (&json!("c2"), &json!(false)), "calls run side by side");
    assert!(quick["structured"]["node"]["id"].is_number());
    strings.order(json!({"do": "end", "stop": "end_turn"})).await;
    let (answer, updates) = agent.answer(id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(said(&updates), "one two three four five");
    let late = strings.event().await;
    assert_eq!((&late["id"], &late["text"], &late["structured"]), (&json!("c1"), &json!("late"), &Value::Null));

    strings.order(json!({"do": "tool", "id": "c3", "name": "panel_fail"})).await;
    let failed = strings.event().await;
    assert_eq!((&failed["id"], &failed["is_error"]), (&json!("c3"), &json!(true)), "tools work between turns");
    assert_eq!(calls.lock().unwrap().len(), 3);

    let id = agent.send_prompt(&session, "second").await;
    assert_eq!(strings.event().await["turn"], 2);
    agent.cancel(&session).await;
    assert_eq!(strings.event().await, json!({"event": "cancelled", "turn": 2}));
    assert_eq!(agent.answer(id).await.0["result"]["stopReason"], "cancelled");
    strings.order(json!({"do": "end"})).await;
    assert_eq!(strings.event().await["event"], "refused");

    let id = agent.send_prompt(&session, "third").await;
    assert_eq!(strings.event().await["turn"], 3);
    strings.order(json!({"do": "end", "turn": 2})).await;
    strings.order(json!({"do": "fail", "message": "quota", "turn": 3})).await;
    assert_eq!(agent.answer(id).await.0["error"]["message"], "quota");
    strings.order(json!({"do": "exit", "code": 3})).await;
    assert_eq!(agent.exit_code().await, Some(3));

    let mut agent = Agent::start(&["--puppet", &address, "--name", "anna", "--state", state]);
    let mut strings = Puppeteer::accept(&listener).await;
    let load = json!({"sessionId": session, "cwd": "/w", "mcpServers": servers});
    let (_, history) = agent.ask("session/load", load).await;
    assert_eq!(strings.event().await["resumed"], true);
    assert_eq!(said(&history), "one two three four five");
    drop(strings);
    assert_eq!(agent.exit_code().await, Some(4), "a puppet without a puppeteer ends");
}
