//! The daemon as a process: who holds a home and port, what ends it, what outlives a terminal, and what an agent's tools are
//! after a restart.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use serde_json::{Value, json};
use std::process::Output;
use std::time::{Duration, Instant};
use tests_e2e::harness::{Home, PuppetMaster, SimpleCanvas, programs};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::timeout;

/// A second daemon, and every command, is done within this.
const DEADLINE: Duration = Duration::from_secs(5);

fn demo() -> Home {
    Home::new("default_agent = \"demo\"\n[agents.demo]\nkind = \"demo\"\n")
}

async fn ended(mut command: Command) -> Output {
    timeout(DEADLINE, command.output()).await.expect("it ends in time").unwrap()
}

/// A command about this home and port, answered in JSON.
async fn ask(home: &Home, words: &[&str]) -> (bool, Value) {
    let (folder, port) = (home.path(), home.port.to_string());
    let all = [&["--home", folder.to_str().unwrap(), "--json"], words, &["--port", &port]].concat();
    let output = ended(home.command(&all)).await;
    let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.success(), said)
}

async fn state(home: &Home) -> Value {
    ask(home, &["status"]).await.1["state"].take()
}

/// Waits until the daemon of this home stands so.
async fn until(home: &Home, wanted: &str) {
    let begun = Instant::now();
    while state(home).await != wanted {
        assert!(begun.elapsed() < Duration::from_secs(15), "it never {wanted}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs a command line as a person does in a terminal window, and closes the window once a file says so.
async fn in_a_terminal(home: &Home, program: &str, words: &[&str], close_when: &str) {
    let script = "
import os, pty, sys, time
when, program, words = sys.argv[1], sys.argv[2], sys.argv[3:]
pid, window = pty.fork()
if pid == 0:
    os.execv(program, [program, *words])
end = time.time() + 20
while time.time() < end and not os.path.exists(when):
    time.sleep(0.05)
os.close(window)
";
    let home_folder = home.path();
    let mut all = vec!["-c", script, close_when, program, "--home", home_folder.to_str().unwrap()];
    all.extend(words);
    let mut python = Command::new(std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into()));
    let model = home.command(&[]);
    python.args(all).env_clear().envs(model.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = timeout(Duration::from_secs(30), python.output()).await.expect("the window closes").unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn report_067_the_tools_of_a_session_from_before_a_restart_are_not_found_and_the_agent_gets_new_ones() {
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
    let before = agent.started["servers"][0].clone();
    assert_eq!(list_tools(&before).await, 200);
    daemon.kill().await;
    let daemon = home.start().await;
    assert_eq!(
        list_tools(&before).await,
        404,
        "so that a client connects anew, and does not take it for its own mistake"
    );
    let mut tab = daemon.connect().await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m2", "go on").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    let after = agent.started["servers"][0].clone();
    assert_ne!(before["url"], after["url"]);
    assert_eq!(list_tools(&after).await, 200);
    let target = agent.call("panel_get_workflow_target", json!({})).await;
    assert_eq!(target["is_error"], false, "{target}");
    daemon.stop().await;
}

/// Asks a tool server for its tools, with a session id of long ago; returns the status.
async fn list_tools(server: &Value) -> u16 {
    let mut request = reqwest::Client::builder().no_proxy().build().unwrap().post(server["url"].as_str().unwrap());
    for header in server["headers"].as_array().unwrap() {
        request = request.header(header["name"].as_str().unwrap(), header["value"].as_str().unwrap());
    }
    let answer = request
        .header("Accept", "application/json, text/event-stream")
        .header("Mcp-Session-Id", "a-session-of-before")
        .header("MCP-Protocol-Version", "2025-06-18")
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
        .send();
    answer.await.unwrap().status().as_u16()
}

#[tokio::test]
async fn report_008_a_resumed_session_gets_the_tools_of_now_and_no_others() {
    let master = PuppetMaster::new().await;
    let home = Home::new("");
    let agent = master.agent("one", &home.scratch().join("acp"));
    home.configure(&format!("default_agent = \"one\"\n{agent}"));
    let mut seen = Vec::new();
    for mid in ["m1", "m2"] {
        let daemon = home.start().await;
        let mut tab = daemon.connect().await;
        tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
        tab.say(mid, "go").await;
        let mut agent = master.next().await;
        agent.prompt().await;
        assert_eq!(agent.started["resumed"], mid == "m2");
        let servers = agent.started["servers"].as_array().unwrap().clone();
        assert_eq!(servers.len(), 1, "what the session once had does not come back: {servers:?}");
        let port = format!("127.0.0.1:{}/", daemon.port);
        assert!(servers[0]["url"].as_str().unwrap().contains(&port), "{servers:?}");
        seen.push(servers[0]["url"].clone());
        agent.end().await;
        tab.until(&json!({"type": "turn", "state": "done"})).await;
        daemon.stop().await;
    }
    assert_ne!(seen[0], seen[1]);
}

#[tokio::test]
async fn report_070_a_second_daemon_ends_at_once_and_names_the_first() {
    let home = demo();
    let daemon = home.start().await;
    let output = ended(home.serve()).await;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!output.status.success());
    assert_eq!((&said["ready"], &said["code"]), (&json!(false), &json!("port_in_use")), "{said}");
    assert!(said["message"].as_str().unwrap().contains("comfy-orchestrator"), "{said}");
    // The port is free on another address, the home is not.
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        home.configure("default_agent = \"demo\"\n[agents.demo]\nkind = \"demo\"\n[server]\nbind = \"::1\"\n");
        let said: Value = serde_json::from_slice(&ended(home.serve()).await.stdout).unwrap();
        assert_eq!(said["code"], "in_use", "{said}");
        let message = said["message"].as_str().unwrap();
        assert!(message.contains(&format!("process {}, port {}", daemon.pid(), home.port)), "{said}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn report_070_a_port_whose_holder_says_nothing_is_given_up_in_time() {
    let home = demo();
    let silent = TcpListener::bind(("127.0.0.1", home.port)).await.unwrap();
    let said: Value = serde_json::from_slice(&ended(home.serve()).await.stdout).unwrap();
    assert_eq!(said["code"], "port_in_use", "{said}");
    assert_eq!(state(&home).await, "port_taken");
    let (well, said) = ask(&home, &["stop"]).await;
    assert_eq!((well, &said["stopped"]), (true, &json!(false)), "nobody else is touched: {said}");
    drop(silent);
    home.start().await.stop().await;
}

#[tokio::test]
async fn report_071_a_detached_daemon_outlives_its_terminal_and_is_ended_by_stop() {
    let home = demo();
    let (port, log) = (home.port.to_string(), home.path().join(format!("daemon-{}.log", home.port)));
    let program = programs().join("comfy-orchestrator");
    let lock = home.path().join(format!("conversations-{}.db", home.port));
    in_a_terminal(&home, program.to_str().unwrap(), &["serve", "--detach", "--port", &port], lock.to_str().unwrap())
        .await;
    until(&home, "serves").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (well, said) = ask(&home, &["status"]).await;
    assert_eq!((well, &said["state"]), (true, &json!("serves")), "{said}");
    assert_eq!((&said["version"], &said["program_replaced"]), (&said["this_version"], &json!(false)), "{said}");
    let (well, again) = ask(&home, &["serve", "--detach"]).await;
    assert_eq!((well, &again["code"]), (false, &json!("port_in_use")), "{again}");
    let (well, stopped) = ask(&home, &["stop"]).await;
    assert_eq!((well, &stopped["stopped"], &stopped["pid"]), (true, &json!(true), &said["pid"]));
    assert!(!ask(&home, &["status"]).await.0, "a status that fails says that none runs");
    assert!(std::fs::read_to_string(log).unwrap().contains("serving"));
    let (well, nothing) = ask(&home, &["stop"]).await;
    assert_eq!((well, &nothing["stopped"]), (true, &json!(false)));
}

#[tokio::test]
async fn report_071_a_daemon_in_a_terminal_ends_in_order_with_it() {
    let home = demo();
    let port = home.port.to_string();
    let program = programs().join("comfy-orchestrator");
    let serving = home.path().join("serving");
    let watched = {
        let (folder, serving) = (home.path(), serving.clone());
        let port = home.port;
        tokio::spawn(async move {
            while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert!(folder.join(format!("daemon-{port}.lock")).exists());
            std::fs::write(serving, "").unwrap();
        })
    };
    in_a_terminal(&home, program.to_str().unwrap(), &["serve", "--port", &port], serving.to_str().unwrap()).await;
    watched.await.unwrap();
    until(&home, "stopped").await;
    // In order: the log was closed, and left no side file.
    assert!(!home.path().join(format!("conversations-{}.db-wal", home.port)).exists());
}

#[tokio::test]
async fn report_071_a_daemon_without_a_terminal_does_not_mind_a_hangup() {
    let home = demo();
    let daemon = home.start().await;
    let hung_up = std::process::Command::new("kill").args(["-HUP", &daemon.pid().to_string()]).status().unwrap();
    assert!(hung_up.success());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(state(&home).await, "serves");
    daemon.stop().await;
}

#[tokio::test]
async fn report_071_a_program_that_was_replaced_is_told_until_the_new_one_runs() {
    let home = demo();
    let copy = home.scratch().join("comfy-orchestrator");
    let put = || {
        let next = home.scratch().join("next");
        std::fs::copy(programs().join("comfy-orchestrator"), &next).unwrap();
        std::fs::rename(next, &copy).unwrap();
    };
    let serve = || {
        let mut command = Command::new(&copy);
        let model = home.serve();
        command.args(model.as_std().get_args()).env_clear();
        command.envs(model.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.kill_on_drop(true);
        command
    };
    put();
    let daemon = home.start_as(serve()).await;
    assert_eq!(ask(&home, &["status"]).await.1["program_replaced"], false);
    put();
    let said = ask(&home, &["status"]).await.1;
    assert_eq!((&said["state"], &said["program_replaced"]), (&json!("serves"), &json!(true)), "{said}");
    daemon.stop().await;
    let daemon = home.start_as(serve()).await;
    assert_eq!(ask(&home, &["status"]).await.1["program_replaced"], false, "the restart took the new one");
    daemon.stop().await;
}

#[tokio::test]
async fn a_daemon_that_does_not_answer_is_not_ended_and_is_named() {
    let home = demo();
    let daemon = home.start().await;
    let pid = daemon.pid().to_string();
    let signal = |name: &str| std::process::Command::new("kill").args([name, &pid]).status().unwrap();
    assert!(signal("-STOP").success());
    let (well, said) = ask(&home, &["stop"]).await;
    assert_eq!((well, &said["code"]), (false, &json!("unproven")), "{said}");
    assert!(said["message"].as_str().unwrap().contains(&format!("process {pid}")), "{said}");
    assert!(signal("-CONT").success());
    assert_eq!(ask(&home, &["stop"]).await.1["stopped"], true);
    assert_eq!(state(&home).await, "stopped");
}
