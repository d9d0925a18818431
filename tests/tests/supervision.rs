//! Agents that do not start at once: what was said waits for the next attempt, and is answered or reported once.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use serde_json::json;
use tests_e2e::harness::{Client, Daemon, Home, SimpleCanvas, programs};

/// An agent whose first starts end at once; the next one works.
fn home_with_late_agent(failures: usize) -> Home {
    let home = Home::new("");
    let (marks, state) = (home.scratch().join("starts"), home.scratch().join("acp"));
    let script = home.scratch().join("agent.sh");
    let program = programs().join("scripted-acp");
    let text = format!(
        "echo start >> {marks:?}\n[ $(wc -l < {marks:?}) -gt {failures} ] || exit 7\nexec {program:?} --state {state:?}\n"
    );
    std::fs::write(&script, text).unwrap();
    let command = ["sh", script.to_str().unwrap()];
    home.configure(&format!("default_agent = \"one\"\n[agents.one]\nkind = \"acp\"\ncommand = {command:?}\n"));
    home
}

/// A message was said, and its agent ended while it was starting.
async fn first_start_fails(home: &Home) -> (Daemon, Client) {
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "@@say First.@@").await;
    tab.until(&json!({"type": "entry", "kind": "notice", "code": "exited"})).await;
    (daemon, tab)
}

#[tokio::test]
async fn t8_what_was_said_waits_for_a_start_that_works_and_keeps_its_order() {
    let home = home_with_late_agent(2);
    let (daemon, mut tab) = first_start_fails(&home).await;
    tab.until(&json!({"type": "entry", "kind": "say", "text": "First."})).await;
    tab.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "completed", "mids": ["m1"]})).await;
    tab.say("m2", "@@say Second.@@").await;
    tab.until(&json!({"type": "entry", "kind": "say", "text": "Second."})).await;
    assert_eq!(tab.all(&json!({"type": "entry", "kind": "notice"})).len(), 1, "the person is told once");
    assert!(tab.all(&json!({"type": "entry", "kind": "turn_end", "outcome": "failed"})).is_empty());
    daemon.stop().await;
}

#[tokio::test]
async fn t8_messages_that_wait_for_a_start_survive_a_killed_daemon() {
    let home = home_with_late_agent(2);
    let (daemon, _tab) = first_start_fails(&home).await;
    daemon.kill().await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.until(&json!({"type": "entry", "kind": "say", "text": "First."})).await;
    assert_eq!(tab.all(&json!({"type": "entry", "kind": "say"})).len(), 1);
    daemon.stop().await;
}
