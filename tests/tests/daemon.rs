//! The daemon from outside, on its real socket, with agents under the test's hand.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use serde_json::json;
use tests_e2e::harness::{Home, PuppetMaster, SimpleCanvas};

/// One agent that a puppet plays.
async fn one_agent(limits: &str) -> (PuppetMaster, Home) {
    let master = PuppetMaster::new().await;
    let home = Home::new("");
    let agent = master.agent("one", &home.scratch().join("acp"));
    home.configure(&format!("default_agent = \"one\"\n{agent}\n[limits]\n{limits}\n"));
    (master, home)
}

#[tokio::test]
async fn s2_f1_one_agent_answers_in_every_tab_of_its_conversation() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut first = daemon.connect().await;
    first.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    let mut second = daemon.connect().await;
    second.hello("tab-2", None, SimpleCanvas::showing("w2")).await;
    first.say("m1", "add a node").await;
    let mut agent = master.next().await;
    assert!(agent.prompt().await.contains("add a node"));
    agent.order(json!({"do": "delta", "text": "on "})).await;
    agent.say("it").await;
    agent.end().await;
    for tab in [&mut first, &mut second] {
        tab.until(&json!({"type": "entry", "kind": "user", "mid": "m1"})).await;
        tab.until(&json!({"type": "turn", "state": "working"})).await;
        tab.until(&json!({"type": "stream", "phase": "text"})).await;
        tab.until(&json!({"type": "entry", "kind": "say"})).await;
        tab.until(&json!({"type": "turn", "state": "done"})).await;
    }
    second.say("m2", "and you?").await;
    assert!(agent.prompt().await.contains("and you?"));
    assert!(master.nobody_comes().await, "one agent for both tabs");
    daemon.stop().await;
}

#[tokio::test]
async fn report_001_new_workflow_in_mid_turn_keeps_the_agent_and_moves_the_turn() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "make a new one").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    let call = agent.begin("panel_new_workflow", json!({})).await;
    tab.until(&json!({"cmd": "workflow_new"})).await;
    let made = agent.result(&call).await;
    assert_eq!(made["is_error"], false, "{made}");
    let front = tab.canvas().uuid.clone();
    tab.switch_to("tab-1", &front).await;
    let call = agent.begin("panel_add_node", json!({"class_type": "KSampler"})).await;
    tab.until(&json!({"cmd": "graph_add_node", "workflow_uuid": front})).await;
    assert_eq!(agent.result(&call).await["is_error"], false);
    assert_eq!(tab.canvas().writes, [(front, "graph_add_node".to_owned())]);
    assert!(master.nobody_comes().await);
    daemon.stop().await;
}

#[tokio::test]
async fn g5_a_switch_by_hand_refuses_the_next_write_and_the_remedy_mends_it() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "edit this").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    tab.switch_to("tab-1", "w2").await;
    let refused = agent.call("panel_add_node", json!({"class_type": "KSampler"})).await;
    assert_eq!(refused["is_error"], true);
    let refusal = &refused["structured"]["refusal"];
    assert_eq!(refusal["code"], "workflow_instance_mismatch", "{refused}");
    assert!(tab.canvas().writes.is_empty());
    let remedy = refusal["remedy"].clone();
    let id = agent.begin(remedy["tool"].as_str().unwrap(), remedy["arguments"].clone()).await;
    tab.until(&json!({"cmd": "workflow_list"})).await;
    assert_eq!(agent.result(&id).await["is_error"], false);
    let id = agent.begin("panel_add_node", json!({"class_type": "KSampler"})).await;
    tab.until(&json!({"cmd": "graph_add_node"})).await;
    assert_eq!(agent.result(&id).await["is_error"], false);
    assert_eq!(tab.canvas().writes, [("w2".to_owned(), "graph_add_node".to_owned())]);
    daemon.stop().await;
}

#[tokio::test]
async fn b3_two_backends_share_nothing() {
    let master_one = PuppetMaster::new().await;
    let master_two = PuppetMaster::new().await;
    let home = Home::new("");
    let state = home.scratch().join("acp");
    home.configure(&format!(
        "default_agent = \"one\"\n{}\n{}",
        master_one.agent("one", &state),
        master_two.agent("two", &state)
    ));
    let daemon = home.start().await;
    let mut first = daemon.connect().await;
    first.hello("tab-1", Some("one"), SimpleCanvas::showing("w1")).await;
    let mut second = daemon.connect().await;
    second.hello("tab-2", Some("two"), SimpleCanvas::showing("w2")).await;
    first.say("m1", "for one").await;
    second.say("m2", "for two").await;
    let mut one = master_one.next().await;
    let mut two = master_two.next().await;
    assert!(one.prompt().await.contains("for one"));
    assert!(two.prompt().await.contains("for two"));
    one.say("this is one").await;
    two.say("this is two").await;
    let call_one = one.begin("panel_add_node", json!({"class_type": "A"})).await;
    let call_two = two.begin("panel_add_node", json!({"class_type": "B"})).await;
    first.until(&json!({"cmd": "graph_add_node", "class_type": "A"})).await;
    second.until(&json!({"cmd": "graph_add_node", "class_type": "B"})).await;
    one.result(&call_one).await;
    two.result(&call_two).await;
    one.end().await;
    two.end().await;
    first.until(&json!({"type": "turn", "state": "done"})).await;
    second.until(&json!({"type": "turn", "state": "done"})).await;
    first.settle().await;
    second.settle().await;
    for (tab, foreign) in [(&first, ["m2", "this is two", "for two"]), (&second, ["m1", "this is one", "for one"])] {
        for frame in &tab.seen {
            let text = frame.to_string();
            assert!(!foreign.iter().any(|word| text.contains(word)), "{text}");
        }
    }
    daemon.stop().await;
}

#[tokio::test]
async fn s4_d5_a_restart_resumes_the_session_and_replays_what_was_missed() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "remember me").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    agent.say("I shall").await;
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    let session = agent.started["session"].clone();
    let took = daemon.stop().await;
    assert!(took.as_secs() < 5, "{took:?}");
    assert_eq!(home.sessions()["sessions"]["orchestrator::one"]["s"], session);

    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello_with("tab-1", None, SimpleCanvas::showing("w1"), json!({"after": 1})).await;
    tab.until(&json!({"type": "entry", "seq": 2})).await;
    tab.until(&json!({"type": "entry", "kind": "say", "text": "I shall"})).await;
    assert!(tab.all(&json!({"type": "entry", "seq": 1})).is_empty(), "it had that one");
    tab.say("m2", "still there?").await;
    let mut again = master.next().await;
    assert_eq!(again.started["session"], session);
    assert_eq!(again.started["resumed"], true);
    assert!(again.prompt().await.contains("still there?"));
    // The same message again is acknowledged and not answered twice.
    tab.say("m1", "remember me").await;
    tab.until(&json!({"type": "ack", "kind": "working", "mid": "m1"})).await;
    again.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    assert!(again.is_quiet().await);
    daemon.stop().await;
}

#[tokio::test]
async fn s6_an_unknown_session_is_tried_once_and_the_record_is_told() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "the sky is green").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    agent.say("noted").await;
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    let dead = agent.started["session"].clone();
    daemon.stop().await;
    std::fs::remove_dir_all(home.scratch().join("acp")).unwrap();

    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m2", "what did I say?").await;
    // The first process refuses the session and is let go; the second one begins anew.
    let mut agent = master.next().await;
    assert_eq!(agent.started["resumed"], false);
    assert_ne!(agent.started["session"], dead);
    let prompt = agent.prompt().await;
    assert!(prompt.contains("the sky is green") && prompt.contains("what did I say?"), "{prompt}");
    tab.until(&json!({"type": "entry", "kind": "notice"})).await;
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    assert_eq!(tab.all(&json!({"type": "entry", "kind": "notice"})).len(), 1);
    assert_ne!(home.sessions()["sessions"]["orchestrator::one"]["s"], dead);
    daemon.stop().await;
}

#[tokio::test]
async fn invariant_5_a_killed_daemon_reports_the_turn_and_answers_what_waited() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "half done").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    tab.say("m2", "waits").await;
    tab.until(&json!({"type": "ack", "kind": "working", "mid": "m2"})).await;
    daemon.kill().await;

    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "unknown", "mids": ["m1"]})).await;
    let mut agent = master.next().await;
    let prompt = agent.prompt().await;
    assert!(prompt.contains("waits") && !prompt.contains("half done"), "{prompt}");
    // The tab is known again, so its message has its target.
    let call = agent.begin("panel_add_node", json!({"class_type": "A"})).await;
    tab.until(&json!({"cmd": "graph_add_node", "workflow_uuid": "w1"})).await;
    assert_eq!(agent.result(&call).await["is_error"], false);
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    daemon.stop().await;
}

#[tokio::test]
async fn b1_new_chat_clears_the_conversation_in_every_tab_and_in_the_store() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut first = daemon.connect().await;
    first.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    let mut second = daemon.connect().await;
    second.hello("tab-2", None, SimpleCanvas::showing("w2")).await;
    first.say("m1", "old words").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    agent.end().await;
    first.until(&json!({"type": "turn", "state": "done"})).await;
    second.send(json!({"type": "new_session"})).await;
    second.until(&json!({"type": "ack", "kind": "new_session", "ok": true, "durable_cleared": true})).await;
    first.until(&json!({"type": "session", "session_id": null})).await;
    assert!(home.sessions()["sessions"].get("orchestrator::one").is_none());
    first.say("m2", "new words").await;
    let mut fresh = master.next().await;
    assert_eq!(fresh.started["resumed"], false);
    let prompt = fresh.prompt().await;
    assert!(prompt.contains("new words") && !prompt.contains("old words"), "{prompt}");
    let mut third = daemon.connect().await;
    third.hello("tab-3", None, SimpleCanvas::showing("w3")).await;
    third.settle().await;
    assert!(!third.seen.iter().any(|frame| frame.to_string().contains("old words")));
    fresh.end().await;
    first.until(&json!({"type": "turn", "state": "done"})).await;
    daemon.stop().await;
}

#[tokio::test]
async fn interrupt_ends_the_turn_and_send_now_puts_it_back() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "long work").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    tab.say("m2", "this first").await;
    tab.until(&json!({"type": "ack", "kind": "working", "mid": "m2"})).await;
    tab.send(json!({"type": "interrupt", "requeue": true})).await;
    agent.event("cancelled").await;
    let prompt = agent.prompt().await;
    assert!(prompt.contains("long work") && prompt.contains("this first"), "{prompt}");
    tab.send(json!({"type": "interrupt"})).await;
    agent.event("cancelled").await;
    tab.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "interrupted"})).await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    assert!(agent.is_quiet().await, "stopped is stopped");
    daemon.stop().await;
}

#[tokio::test]
async fn f3_a_finished_run_reaches_the_conversation_that_queued_it_once() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "run it").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    let call = agent.begin("panel_run", json!({})).await;
    tab.until(&json!({"cmd": "graph_run"})).await;
    let queued = agent.result(&call).await;
    assert_eq!(queued["structured"]["prompt_id"], "prompt-1", "{queued}");
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    tab.switch_to("tab-1", "w2").await;
    let ended = json!({"type": "agent_event", "kind": "executed", "prompt_id": "prompt-1", "run_status": "success",
        "images": [{"filename": "a.png", "subfolder": "", "type": "output"}]});
    tab.send(ended.clone()).await;
    let prompt = agent.prompt().await;
    assert!(prompt.contains("prompt-1") && prompt.contains("w1") && prompt.contains("a.png"), "{prompt}");
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    tab.send(ended).await;
    tab.settle().await;
    assert!(agent.is_quiet().await, "once");
    daemon.stop().await;
}

#[tokio::test]
async fn questions_take_one_answer_also_a_late_one() {
    let (master, home) = one_agent("ask = 500").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.canvas = None;
    tab.say("m1", "ask me").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    let call = agent.begin("panel_ask", json!({"question": "Which?", "options": ["red", "blue"]})).await;
    let card = tab.until(&json!({"cmd": "ask_user"})).await;
    let waited = agent.result(&call).await;
    assert_eq!(waited["structured"]["answered"], false, "{waited}");
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    let answer = json!({"rid": card["rid"], "ask_id": card["ask_id"], "ok": true, "result": "blue"});
    tab.send(answer.clone()).await;
    let prompt = agent.prompt().await;
    assert!(prompt.contains("Which?") && prompt.contains("blue"), "{prompt}");
    tab.send(answer).await;
    tab.until(&json!({"type": "nack", "code": "ask_closed"})).await;
    agent.end().await;
    daemon.stop().await;
}

#[tokio::test]
async fn an_agent_dies_with_the_daemon_also_when_that_is_killed() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "go").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    daemon.kill().await;
    assert!(agent.is_gone().await);
}

#[tokio::test]
async fn f3_a_question_survives_a_killed_daemon() {
    let (master, home) = one_agent("").await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.canvas = None;
    tab.say("m1", "ask me").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    agent.begin("panel_ask", json!({"question": "Which?", "options": ["red", "blue"]})).await;
    let card = tab.until(&json!({"cmd": "ask_user"})).await;
    daemon.kill().await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.canvas = None;
    let again = tab.until(&json!({"cmd": "ask_user", "ask_id": card["ask_id"]})).await;
    let answer = json!({"rid": again["rid"], "ask_id": card["ask_id"], "ok": true, "result": "blue"});
    tab.send(answer.clone()).await;
    let mut agent = master.next().await;
    let prompt = agent.prompt().await;
    assert!(prompt.contains("Which?") && prompt.contains("blue"), "{prompt}");
    tab.send(answer).await;
    tab.until(&json!({"type": "nack", "code": "ask_closed"})).await;
    agent.end().await;
    daemon.stop().await;
}
