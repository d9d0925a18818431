//! What goes wrong, and that each gets a clear answer and nothing else is lost.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use serde_json::{Value, json};
use std::process::Output;
use tests_e2e::harness::{Home, PuppetMaster, SimpleCanvas, programs};

/// An agent that misbehaves in one way, or that the prompt scripts.
fn scripted(home: &Home, name: &str, switches: &[&str]) -> String {
    let program = programs().join("scripted-acp");
    let state = home.scratch().join("acp");
    let mut command = vec![program.to_str().unwrap().to_owned(), "--state".into(), state.to_str().unwrap().to_owned()];
    command.extend(switches.iter().map(|&switch| switch.to_owned()));
    format!("[agents.{name}]\nkind = \"acp\"\ncommand = {command:?}\n")
}

fn home_with(switches: &[&str], limits: &str) -> Home {
    let home = Home::new("");
    let agent = scripted(&home, "one", switches);
    home.configure(&format!("default_agent = \"one\"\n{agent}\n[limits]\n{limits}\n"));
    home
}

async fn run(home: &Home, arguments: &[&str]) -> Output {
    let path = home.path();
    let all: Vec<&str> = ["--home", path.to_str().unwrap()].iter().chain(arguments).copied().collect();
    let run = home.command(&all).output();
    tokio::time::timeout(std::time::Duration::from_secs(20), run).await.expect("it ends").unwrap()
}

fn json_line(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[tokio::test]
async fn frames_out_of_order_unknown_or_wrong_are_answered_and_the_socket_goes_on() {
    let home = home_with(&[], "");
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.send(json!({"type": "user_message", "mid": "m0", "text": "too early"})).await;
    tab.until(&json!({"type": "nack", "code": "no_hello"})).await;
    tab.send(json!({"type": "hello", "protocol": 1})).await;
    tab.until(&json!({"type": "nack", "code": "no_tab_id"})).await;
    tab.send(json!({"type": "hello", "protocol": 7, "tab_id": "tab-1"})).await;
    let nack = tab.until(&json!({"type": "nack", "code": "protocol"})).await;
    assert!(nack["message"].as_str().unwrap().contains("Spoken: 1"));
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    for (frame, code) in [
        ("not json".to_owned(), "not_json"),
        ("[]".to_owned(), "not_json"),
        (json!({"no": "type"}).to_string(), "no_type"),
        (json!({"type": "user_message", "mid": "m1", "text": 7}).to_string(), "bad_field"),
        (json!({"type": "user_message", "text": "no mid"}).to_string(), "mid_required"),
        (json!({"type": "user_message", "mid": "m1", "text": "  "}).to_string(), "empty"),
        (json!({"rid": "never-sent", "ok": true}).to_string(), "unknown_rid"),
        (format!("{{\"type\":\"title\",\"title\":\"x\",\"deep\":{}1{}}}", "[".repeat(80), "]".repeat(80)), "too_deep"),
    ] {
        tab.send_text(&frame).await;
        tab.until(&json!({"type": "nack", "code": code})).await;
    }
    tab.send(json!({"type": "from_the_future", "x": 1})).await;
    tab.say("m9", "@@say Still fine.@@").await;
    tab.until(&json!({"type": "entry", "kind": "say", "text": "Still fine."})).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_second_hello_of_another_browser_tab_is_refused() {
    let home = home_with(&[], "");
    let daemon = home.start().await;
    let mut first = daemon.connect().await;
    first.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    let mut second = daemon.connect().await;
    second.hello("tab-2", None, SimpleCanvas::showing("w2")).await;
    second.send(json!({"type": "hello", "protocol": 1, "tab_id": "tab-1"})).await;
    second.until(&json!({"type": "nack", "code": "identity_fixed"})).await;
    first.settle().await;
    assert!(first.all(&json!({"closed": 4001})).is_empty());
    // The same browser tab on a new socket takes over; the old one is told, and told not to come back.
    let mut again = daemon.connect().await;
    again.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    first.settle().await;
    assert_eq!(first.all(&json!({"closed": 4001})).len(), 1, "{:?}", first.seen.last());
    daemon.stop().await;
}

#[tokio::test]
async fn tool_calls_with_wrong_arguments_unknown_names_or_a_dead_handle_are_refused_clearly() {
    let master = PuppetMaster::new().await;
    let home = Home::new("");
    let agent = master.agent("one", &home.scratch().join("acp"));
    home.configure(&format!("default_agent = \"one\"\n{agent}"));
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "go").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    let wrong = agent.call("panel_set_widget", json!({"node_id": "five", "widgit": "steps", "value": 1})).await;
    assert_eq!(wrong["structured"]["refusal"]["code"], "bad_arguments");
    let text = wrong["text"].as_str().unwrap();
    assert!(text.contains("`node_id`") && text.contains("`widgit`") && text.contains("`widget` is missing"), "{text}");
    let unknown = agent.call("panel_fly", json!({})).await;
    assert_eq!(unknown["is_error"], true, "{unknown}");
    assert!(tab.canvas().writes.is_empty());
    let dead = bare_post(daemon.port, "/mcp/0000").await;
    assert!(dead.starts_with("HTTP/1.1 404") || dead.starts_with("HTTP/1.1 401"), "{dead}");
    daemon.stop().await;
}

/// A bare POST: nothing but what is written here goes over the wire.
async fn bare_post(port: u16, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn an_agent_that_does_not_start_is_reported_and_the_next_message_is_tried_anew() {
    let home = home_with(&["--fail-start"], "");
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    for mid in ["m1", "m2"] {
        tab.say(mid, "hello?").await;
        tab.until(&json!({"type": "entry", "kind": "notice", "code": "exited"})).await;
        tab.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "failed", "mids": [mid]})).await;
        tab.until(&json!({"type": "turn", "state": "done"})).await;
    }
    daemon.stop().await;
}

#[tokio::test]
async fn report_074_an_agent_that_hangs_while_it_starts_is_given_up_and_the_stage_is_named() {
    for (method, stage) in [("initialize", "answering the handshake"), ("session/new", "see whether one of them hangs")]
    {
        let home = home_with(&["--hang", method], "start = 700");
        let daemon = home.start().await;
        let mut tab = daemon.connect().await;
        tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
        tab.say("m1", "hello?").await;
        tab.until(&json!({"type": "ack", "kind": "working", "mid": "m1"})).await;
        let notice = tab.until(&json!({"type": "entry", "kind": "notice", "code": "start_timeout"})).await;
        let text = notice["text"].as_str().unwrap();
        assert!(text.contains("not ready") && text.contains(stage), "{notice}");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn an_agent_that_dies_in_a_turn_is_reported_and_started_again() {
    let home = home_with(&[], "");
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "@@exit 3@@").await;
    tab.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "failed", "code": "exited"})).await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    tab.say("m2", "@@say Back again.@@").await;
    tab.until(&json!({"type": "entry", "kind": "say", "text": "Back again."})).await;
    daemon.stop().await;
}

#[tokio::test]
async fn an_agent_that_never_answers_is_stopped_and_the_next_message_is_answered() {
    let home = home_with(&[], "stall = 600");
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "@@silence@@").await;
    tab.say("m2", "@@say I am here.@@").await;
    tab.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "failed", "mids": ["m1"]})).await;
    tab.until(&json!({"type": "entry", "kind": "say", "text": "I am here."})).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_mistake_in_the_configuration_is_named_with_its_line() {
    let home = Home::new("default_agent = \"one\"\n\n[limits]\ncommnad = 5\n");
    let output = run(&home, &["--json", "serve", "--port", "0"]).await;
    assert!(!output.status.success());
    let said = json_line(&output);
    assert_eq!(said["ready"], false);
    assert_eq!(said["code"], "config_unknown_key", "{said}");
    let message = said["message"].as_str().unwrap();
    assert!(message.contains(":4:") && message.contains("commnad") && message.contains("command"), "{message}");
}

#[tokio::test]
async fn a_taken_port_ends_the_daemon_with_the_holder_named_and_the_holder_untouched() {
    let home = home_with(&[], "");
    let daemon = home.start().await;
    let other = home_with(&[], "");
    let port = daemon.port.to_string();
    let output = run(&other, &["--json", "serve", "--port", &port]).await;
    assert!(!output.status.success());
    let said = json_line(&output);
    assert_eq!(said["code"], "port_in_use", "{said}");
    assert!(said["message"].as_str().unwrap().contains("another comfy-orchestrator"), "{said}");
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_home_that_cannot_be_made_is_named() {
    let home = home_with(&[], "");
    let file = home.scratch().join("a-file");
    std::fs::write(&file, "x").unwrap();
    let inside = file.join("home");
    let output = home.command(&["--home", inside.to_str().unwrap(), "--json", "serve", "--port", "0"]).output();
    let output = output.await.unwrap();
    assert!(!output.status.success());
    let said = json_line(&output);
    assert!(said["message"].as_str().unwrap().contains("a-file"), "{said}");
}

#[tokio::test]
async fn d2_a_garbage_log_and_a_garbage_session_file_are_set_aside_and_the_person_is_told() {
    let home = home_with(&[], "");
    let log = home.path().join(format!("conversations-{}.db", home.port));
    std::fs::write(&log, vec![7u8; 40_000]).unwrap();
    std::fs::create_dir(home.path().join("sessions")).unwrap();
    let sessions = home.path().join(format!("sessions/panel-sessions-{}.json", home.port));
    std::fs::write(&sessions, "{ nonsense").unwrap();
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    for what in ["conversations", "agent sessions"] {
        let notice = tab.until(&json!({"type": "entry", "kind": "notice"})).await;
        assert!(notice["text"].as_str().unwrap().contains(what), "{notice}");
    }
    tab.say("m1", "@@say Begun anew.@@").await;
    tab.until(&json!({"type": "entry", "kind": "say", "text": "Begun anew."})).await;
    daemon.stop().await;
    let kept = |folder: std::path::PathBuf| {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".unreadable-")).count()
    };
    assert!(kept(home.path()) >= 1);
    assert_eq!(kept(home.path().join("sessions")), 1);
}

#[tokio::test]
async fn a_probe_is_answered_and_makes_nothing() {
    let home = home_with(&[], "");
    let daemon = home.start().await;
    let mut probe = daemon.connect().await;
    probe.send(json!({"type": "hello", "tab_id": "launcher-probe-77", "backend": "claude"})).await;
    probe.until(&json!({"type": "session_epoch"})).await;
    probe.until(&json!({"type": "models"})).await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    assert_eq!(tab.all(&json!({"type": "welcome", "tab": "t1"})).len(), 1, "the probe is no tab");
    daemon.stop().await;
}
