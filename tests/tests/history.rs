//! Rewind, resume, search and export, from outside: the real daemon, an agent under the test's hand, the command line.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use serde_json::{Value, json};
use tests_e2e::harness::{Client, Home, Puppet, PuppetMaster, SimpleCanvas};

async fn one_agent() -> (PuppetMaster, Home) {
    let master = PuppetMaster::new().await;
    let home = Home::new("");
    let agent = master.agent("one", &home.scratch().join("acp"));
    home.configure(&format!("default_agent = \"one\"\n{agent}\n"));
    (master, home)
}

/// A message and its answer, to the end of the turn.
async fn exchange(tab: &mut Client, agent: &mut Puppet, mid: &str, text: &str, answer: &str) {
    tab.say(mid, text).await;
    agent.prompt().await;
    agent.say(answer).await;
    agent.end().await;
    tab.until(&json!({"type": "entry", "kind": "turn_end"})).await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
}

/// What a tab shows: texts of messages, as a panel would after the frames that came.
fn shown(tab: &Client) -> Vec<String> {
    let mut texts = Vec::new();
    for frame in &tab.seen {
        match frame["type"].as_str() {
            Some("transcript") => texts.clear(),
            Some("welcome") if frame.get("kept").is_some() => texts.clear(),
            Some("entry") if frame["kind"] == "boundary" && frame.get("kept").is_none() => texts.clear(),
            Some("entry") if frame["kind"] == "user" || frame["kind"] == "say" => {
                texts.push(frame["text"].as_str().unwrap().to_owned());
            }
            _ => {}
        }
    }
    texts
}

async fn output(home: &Home, arguments: &[&str]) -> (bool, String) {
    let (folder, port) = (home.path(), home.port.to_string());
    let mut all = vec!["--home", folder.to_str().unwrap(), "log"];
    all.extend_from_slice(arguments);
    all.extend_from_slice(&["--port", &port]);
    let done = home.command(&all).output().await.unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn b1_a_rewind_shows_every_tab_what_is_kept_and_tells_a_new_session() {
    let (master, home) = one_agent().await;
    let daemon = home.start().await;
    let mut first = daemon.connect().await;
    first.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    first.say("m1", "make it blue").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    agent.say("it is blue").await;
    agent.end().await;
    first.until(&json!({"type": "turn", "state": "done"})).await;
    exchange(&mut first, &mut agent, "m2", "now red", "it is red").await;
    let mut second = daemon.connect().await;
    second.hello("tab-2", None, SimpleCanvas::showing("w2")).await;
    second.until(&json!({"type": "entry", "text": "it is red"})).await;

    // In the middle of a third turn, from the other tab.
    first.say("m3", "and green").await;
    agent.prompt().await;
    second.send(json!({"type": "rewind", "anchor": null, "mid": "m2"})).await;
    for tab in [&mut first, &mut second] {
        tab.until(&json!({"type": "entry", "kind": "boundary", "reason": "rewind"})).await;
    }
    let ack = second.until(&json!({"type": "ack", "kind": "rewind"})).await;
    assert_eq!((&ack["ok"], &ack["text"]), (&json!(true), &json!("now red")), "{ack}");
    for tab in [&mut first, &mut second] {
        tab.until(&json!({"type": "entry", "kind": "notice"})).await;
        assert_eq!(shown(tab), ["make it blue", "it is blue"]);
    }
    assert!(agent.is_gone().await, "what it remembers is too much");

    // The next message begins a session that is told what is kept, and nothing else.
    second.say("m4", "now violet").await;
    let mut agent = master.next().await;
    assert_eq!(agent.started["resumed"], false, "{}", agent.started);
    let prompt = agent.prompt().await;
    assert!(prompt.contains("make it blue") && prompt.contains("it is blue") && prompt.contains("now violet"));
    assert!(!prompt.contains("now red") && !prompt.contains("and green"), "{prompt}");
    agent.say("it is violet").await;
    agent.end().await;
    second.until(&json!({"type": "turn", "state": "done"})).await;
    let kept = ["make it blue", "it is blue", "now violet", "it is violet"];
    assert_eq!(shown(&second), kept);

    // The same after a restart, for a new tab and for one that comes back from before the rewind.
    daemon.kill().await;
    let daemon = home.start().await;
    for (tab, after) in [("tab-9", None), ("tab-1", Some(5))] {
        let mut tab_again = daemon.connect().await;
        tab_again.hello_with(tab, None, SimpleCanvas::showing("w1"), json!({"after": after})).await;
        tab_again.until(&json!({"type": "entry", "text": "it is violet"})).await;
        tab_again.settle().await;
        assert_eq!(shown(&tab_again), kept, "{tab}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn b1_an_earlier_session_goes_on_with_its_transcript_and_its_memory() {
    let (master, home) = one_agent().await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "the first session").await;
    let mut agent = master.next().await;
    let session = agent.started["session"].clone();
    agent.prompt().await;
    agent.say("noted").await;
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    tab.send(json!({"type": "new_session"})).await;
    tab.until(&json!({"type": "ack", "kind": "new_session"})).await;
    tab.say("m2", "the second session").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;

    tab.send(json!({"type": "list_history", "cid": "c1"})).await;
    let list = tab.until(&json!({"type": "history_list", "cid": "c1"})).await["sessions"].clone();
    let titles: Vec<&str> = list.as_array().unwrap().iter().map(|one| one["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["the second session", "the first session"], "{list}");
    assert_eq!((&list[1]["sessionId"], &list[1]["messageCount"]), (&session, &json!(2)));
    assert_eq!((&list[0]["current"], &list[1]["current"]), (&json!(true), &json!(false)));
    assert!(list[1]["updatedAt"].as_i64().unwrap() > 1_700_000_000_000);
    tab.send(json!({"type": "load_history", "cid": "c2", "session_id": session})).await;
    let told = tab.until(&json!({"type": "history_transcript", "cid": "c2"})).await;
    assert_eq!(told["messages"][1], json!({"role": "assistant", "text": "noted"}));

    tab.send(json!({"type": "resume_session", "session_id": session})).await;
    tab.until(&json!({"type": "ack", "kind": "resume_session", "ok": true})).await;
    tab.settle().await;
    assert_eq!(shown(&tab), ["the first session", "noted"]);
    tab.say("m3", "go on").await;
    let mut agent = master.next().await;
    assert_eq!((&agent.started["session"], &agent.started["resumed"]), (&session, &json!(true)));
    let prompt = agent.prompt().await;
    assert!(!prompt.contains("the first session"), "it remembers by itself: {prompt}");
    daemon.stop().await;
}

#[tokio::test]
async fn b1_what_cannot_be_gone_to_changes_nothing() {
    let (master, home) = one_agent().await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "work").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    for (frame, kind, code) in [
        (json!({"type": "rewind", "anchor": "nowhere"}), "rewind", "no_such_anchor"),
        (json!({"type": "rewind", "anchor": null, "mid": "m7"}), "rewind", "no_such_message"),
        (json!({"type": "resume_session", "session_id": "log:77"}), "resume_session", "no_such_session"),
    ] {
        tab.send(frame).await;
        tab.until(&json!({"type": "ack", "kind": kind, "ok": false, "code": code})).await;
    }
    agent.say("still here").await;
    agent.end().await;
    tab.until(&json!({"type": "entry", "kind": "say", "text": "still here"})).await;
    daemon.stop().await;
}

#[tokio::test]
async fn what_was_said_is_found_and_exported_while_the_daemon_runs() {
    let (master, home) = one_agent().await;
    let daemon = home.start().await;
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.send(
        json!({"type": "user_message", "mid": "m1", "text": "make the 漢字 label blue", "context": "private note"}),
    )
    .await;
    let mut agent = master.next().await;
    agent.prompt().await;
    let found = agent.call("panel_search_conversation", json!({"words": "漢字 blue"})).await;
    assert_eq!(found["is_error"], false, "{found}");
    assert_eq!(found["structured"]["hits"][0]["who"], "person", "{found}");
    agent.say("the label is *blue*").await;
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;

    for (words, count) in [("LABEL blue", 2), ("漢字", 1), ("\" OR *", 0), ("private", 0), ("   ", 0)] {
        tab.send(json!({"type": "search_history", "cid": words, "words": words})).await;
        let told = tab.until(&json!({"type": "history_found", "cid": words})).await;
        assert_eq!((told["hits"].as_array().unwrap().len(), told.get("error")), (count, None), "{told}");
    }
    tab.send(json!({"type": "export_history", "cid": "x", "format": "md"})).await;
    let part = tab.until(&json!({"type": "history_export", "cid": "x", "last": true})).await;
    let text = part["text"].as_str().unwrap();
    assert!(text.contains("make the 漢字 label blue") && text.contains("the label is *blue*"), "{text}");
    assert!(!text.contains("private note"));

    let (well, text) = output(&home, &["search", "LABEL", "漢字"]).await;
    assert!(well && text.contains("make the 漢字 label blue"), "{text}");
    let (well, text) = output(&home, &["sessions"]).await;
    assert!(well && text.contains("2 messages"), "{text}");
    let (well, text) = output(&home, &["export", "--format", "json", "--session", "1"]).await;
    let document: Value = serde_json::from_str(&text).unwrap();
    assert!(well && document["rows"][0]["text"] == "make the 漢字 label blue", "{text}");
    assert!(!text.contains("private note"));
    let (_, text) = output(&home, &["export", "--all"]).await;
    assert!(text.contains("private note"), "{text}");
    let file = home.scratch().join("talk.md");
    let (well, _) = output(&home, &["export", "-o", file.to_str().unwrap()]).await;
    assert!(well && std::fs::read_to_string(&file).unwrap().contains("the label is *blue*"));
    let (well, text) = output(&home, &["export", "-o", file.to_str().unwrap()]).await;
    assert!(!well && text.contains("not there yet"), "nothing is written over: {text}");
    let (well, text) = output(&home, &["export", "--session", "9"]).await;
    assert!(!well && text.contains("log sessions"), "{text}");

    // The daemon went on writing all this time, and its log is whole when it is gone.
    tab.say("m2", "one more").await;
    agent.prompt().await;
    agent.end().await;
    tab.until(&json!({"type": "entry", "kind": "turn_end"})).await;
    daemon.stop().await;
    let (well, text) = output(&home, &["search", "one", "more"]).await;
    assert!(well && text.contains("one more"), "{text}");
}
