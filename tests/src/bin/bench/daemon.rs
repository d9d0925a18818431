//! The real daemon from outside: start, memory, fan-out, tool calls, messages.

use super::Effort;
use super::floor::{Bare, COMMIT};
use super::table::{Table, micros, percentile};
use serde_json::json;
use std::time::{Duration, Instant};
use tests_e2e::harness::{Client, Daemon, Home, Puppet, PuppetMaster, SimpleCanvas};
use tokio::task::JoinHandle;

/// Name of the row of a call that needs no panel: what the scripted agent and the tool protocol take by themselves.
const BY_DAEMON: &str = "floor: tool call answered by the daemon";

/// Measures the daemon.
pub(crate) async fn measure(table: &mut Table, effort: Effort) {
    cold_start(table, effort).await;
    for tabs in [8, 64] {
        at_rest_and_fan_out(table, effort, tabs).await;
    }
    tool_calls(table, effort).await;
    messages(table, effort).await;
}

/// A home whose only agent is moved from here.
pub(crate) async fn puppet_home() -> (PuppetMaster, Home) {
    let master = PuppetMaster::new().await;
    let home = Home::new("");
    let agent = master.agent("one", &home.scratch().join("acp"));
    home.configure(&format!("default_agent = \"one\"\n{agent}\n[limits]\nsockets = 600\n"));
    (master, home)
}

pub(crate) async fn tab(daemon: &Daemon, number: usize) -> Client {
    let mut client = daemon.connect().await;
    client.hello(&format!("tab-{number}"), None, SimpleCanvas::showing(&format!("w{number}"))).await;
    client
}

async fn cold_start(table: &mut Table, effort: Effort) {
    let mut times = Vec::new();
    for _ in 0..effort.times(10).max(3) {
        let (_master, home) = puppet_home().await;
        let begun = Instant::now();
        let daemon = home.start().await;
        let client = tab(&daemon, 1).await;
        times.push(begun.elapsed());
        client.close().await;
        daemon.stop().await;
    }
    let (middle, worst) = (percentile(&mut times, 50), percentile(&mut times, 100));
    let milliseconds = |time: Duration| micros(time) / 1000.0;
    table.row(
        "cold start to first hello answered",
        &[("median", milliseconds(middle), "ms"), ("worst", milliseconds(worst), "ms")],
    );
}

async fn at_rest_and_fan_out(table: &mut Table, effort: Effort, tabs: usize) {
    let (master, home) = puppet_home().await;
    let daemon = home.start().await;
    let mut clients = Vec::new();
    for number in 0..tabs {
        clients.push(tab(&daemon, number).await);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (cpu, begun) = (cpu(&daemon), Instant::now());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let share = (self::cpu(&daemon) - cpu).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
    table.row(format!("at rest, {tabs} tabs"), &[("memory", memory(&daemon), "MB"), ("CPU", share, "%")]);

    clients[0].say("m1", "tell me everything").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    let readers: Vec<JoinHandle<usize>> = clients.into_iter().map(|client| tokio::spawn(read_to_end(client))).collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let deltas = effort.times(2_000);
    let (cpu, begun) = (self::cpu(&daemon), Instant::now());
    // About ten times as fast as a model writes, so that a reader which keeps up is not cut off.
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    for number in 0..deltas {
        if number % 10 == 0 {
            pace.tick().await;
        }
        agent.order(json!({"do": "delta", "text": "a few words "})).await;
    }
    agent.end().await;
    let mut frames = 0;
    for reader in readers {
        frames += reader.await.unwrap();
    }
    let (took, used) = (begun.elapsed(), self::cpu(&daemon) - cpu);
    let deliveries = (deltas * tabs) as f64;
    table.row(
        format!("fan-out of {deltas} deltas to {tabs} tabs"),
        &[
            ("CPU per delta and tab", micros(used) / deliveries, "µs"),
            ("CPU per delta", micros(used) / deltas as f64, "µs"),
            ("deltas and tabs per second", deliveries / took.as_secs_f64(), "/s"),
            ("frames per tab", frames as f64 / tabs as f64, ""),
        ],
    );
    table.row(format!("after it, {tabs} tabs"), &[("memory", memory(&daemon), "MB")]);
    daemon.stop().await;
}

/// Reads until the turn is done; returns how many frames of streamed text came.
async fn read_to_end(mut client: Client) -> usize {
    client.until(&json!({"type": "turn", "state": "done"})).await;
    client.all(&json!({"type": "stream", "phase": "text"})).len()
}

/// A panel that answers commands until it is dropped.
fn serve_commands(mut client: Client) -> JoinHandle<()> {
    tokio::spawn(async move {
        while client.next().await.is_some() {
            client.seen.clear();
        }
    })
}

async fn tool_calls(table: &mut Table, effort: Effort) {
    let (master, home) = puppet_home().await;
    let daemon = home.start().await;
    let mut client = tab(&daemon, 1).await;
    client.say("m1", "look around").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    let panel = serve_commands(client);
    let (mut by_daemon, mut by_panel) = (Vec::new(), Vec::new());
    for _ in 0..effort.times(1_000) {
        by_daemon.push(round_trip(&mut agent, "panel_get_workflow_target").await);
        by_panel.push(round_trip(&mut agent, "panel_graph_outline").await);
    }
    table.times(BY_DAEMON, &mut by_daemon);
    table.times_beside("tool call answered by a panel", &mut by_panel, BY_DAEMON);
    panel.abort();
    daemon.stop().await;
}

async fn round_trip(agent: &mut Puppet, tool: &str) -> Duration {
    let begun = Instant::now();
    let result = agent.call(tool, json!({})).await;
    let took = begun.elapsed();
    assert_eq!(result["is_error"], false, "{result}");
    took
}

async fn messages(table: &mut Table, effort: Effort) {
    let (master, home) = puppet_home().await;
    let daemon = home.start().await;
    let mut client = tab(&daemon, 0).await;
    // While the agent is at work, messages are taken and wait.
    client.say("first", "begin").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    // By turns with bare commits, because a disk is not equally fast all the time.
    let (bare, mut floor, mut times) = (Bare::new(), Vec::new(), Vec::new());
    for number in 0..effort.times(300) {
        floor.push(bare.commit());
        times.extend(accepted(&mut client, &format!("alone-{number}"), 1).await);
    }
    table.times(COMMIT, &mut floor);
    table.times_beside("message to durable acknowledgement", &mut times, COMMIT);
    let mut others = Vec::new();
    for number in 1..=64 {
        others.push(tab(&daemon, number).await);
    }
    let each = effort.times(10);
    let before = cpu(&daemon);
    let senders: Vec<JoinHandle<Vec<Duration>>> = others
        .into_iter()
        .enumerate()
        .map(|(number, mut client)| {
            tokio::spawn(async move { accepted(&mut client, &format!("of-{number}"), each).await })
        })
        .collect();
    let mut times = Vec::new();
    for sender in senders {
        times.extend(sender.await.unwrap());
    }
    table.times_beside("the same from 64 tabs at once, each shown in all of them", &mut times, COMMIT);
    let used = micros(cpu(&daemon) - before) / times.len() as f64;
    table.row(
        "the daemon's part of it",
        &[("CPU per message", used, "µs"), ("CPU per message and tab", used / 65.0, "µs")],
    );
    daemon.stop().await;
}

pub(crate) async fn accepted(client: &mut Client, name: &str, times: usize) -> Vec<Duration> {
    let mut found = Vec::new();
    for number in 0..times {
        let mid = format!("{name}-{number}");
        let begun = Instant::now();
        client.say(&mid, "and then this").await;
        client.until(&json!({"type": "ack", "kind": "working", "mid": mid})).await;
        found.push(begun.elapsed());
    }
    found
}

/// Resident memory in megabytes.
pub(crate) fn memory(daemon: &Daemon) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

/// Processor time so far, of all threads. The kernel counts in hundredths of a second.
fn cpu(daemon: &Daemon) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> =
        after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Duration::from_millis(fields.iter().sum::<u64>() * 10)
}
