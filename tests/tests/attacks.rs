//! A hostile or careless client against the real daemon, at the instants where something could be lost.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use serde_json::json;
use tests_e2e::harness::{Home, PuppetMaster, SimpleCanvas};

async fn agents(names: &[&str], more: &str) -> (PuppetMaster, Home) {
    let master = PuppetMaster::new().await;
    let home = Home::new("");
    let agents: String =
        names.iter().map(|name| format!("{}{more}\n", master.agent(name, &home.scratch().join("acp")))).collect();
    home.configure(&format!("default_agent = {:?}\n{agents}", names[0]));
    (master, home)
}

#[tokio::test]
async fn a_model_chosen_while_the_agent_starts_loses_no_message_and_holds_from_the_next_turn() {
    let (master, home) = agents(&["one"], "models = [\"a\", \"b\"]").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "first").await;
    tab.until(&json!({"type": "ack", "kind": "working", "mid": "m1"})).await;
    tab.send(json!({"type": "set_options", "model": "b"})).await;
    let mut agent = master.next().await;
    assert!(agent.prompt().await.contains("first"));
    agent.end().await;
    tab.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "completed", "mids": ["m1"]})).await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    // A process of its own tells that the choice was taken up, also when it was made in the middle of a turn.
    tab.say("m2", "second").await;
    let mut with_b = master.next().await;
    assert_eq!(with_b.started["resumed"], true, "{}", with_b.started);
    assert!(with_b.prompt().await.contains("second"));
    tab.send(json!({"type": "set_options", "model": "a"})).await;
    tab.until(&json!({"type": "ack", "kind": "options"})).await;
    with_b.end().await;
    tab.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "completed", "mids": ["m2"]})).await;
    tab.say("m3", "third").await;
    assert!(master.next().await.prompt().await.contains("third"));
    daemon.stop().await;
}

#[tokio::test]
async fn a_stop_in_a_turn_is_seen_by_its_panels_and_begins_no_other_turn() {
    let (master, home) = agents(&["one", "two"], "").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", Some("one"), SimpleCanvas::showing("w1")).await;
    let mut other = daemon.connect().await;
    other.hello("tab-2", Some("two"), SimpleCanvas::showing("w2")).await;
    tab.say("m1", "first").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    other.say("n1", "elsewhere").await;
    let mut elsewhere = master.next().await;
    elsewhere.prompt().await;
    tab.say("m2", "it waits").await;
    tab.until(&json!({"type": "ack", "kind": "working", "mid": "m2"})).await;
    daemon.stop().await;
    for (panel, mid) in [(&mut tab, "m1"), (&mut other, "n1")] {
        panel.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "interrupted", "mids": [mid]})).await;
        panel.until(&json!({"type": "turn", "state": "done"})).await;
    }
    tab.settle().await;
    assert!(tab.all(&json!({"type": "entry", "kind": "turn_start", "mids": ["m2"]})).is_empty());
    let daemon = home.start().await;
    let mut agent = master.next().await;
    assert!(agent.prompt().await.ends_with("it waits"));
    daemon.stop().await;
}

#[tokio::test]
async fn s7_an_id_that_another_text_has_is_refused_also_after_a_restart() {
    let (master, home) = agents(&["one"], "").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "first").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    agent.end().await;
    tab.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "completed", "mids": ["m1"]})).await;
    daemon.stop().await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "second").await;
    tab.until(&json!({"type": "nack", "mid": "m1", "code": "mid_taken"})).await;
    tab.say("m1", "first").await;
    tab.until(&json!({"type": "ack", "kind": "working", "mid": "m1"})).await;
    tab.say("m2", "second").await;
    assert!(master.next().await.prompt().await.ends_with("second"));
    daemon.stop().await;
}
