//! A daemon with a long log: start, joining, the first page, and many tabs at once.

use super::Effort;
use super::daemon::{accepted, memory, puppet_home, tab};
use super::floor::{Bare, COMMIT};
use super::table::{Table, micros};
use serde_json::json;
use std::time::Instant;
use tests_e2e::harness::{Home, SimpleCanvas};

/// Rows of the log.
const ROWS: u64 = 100_000;
/// Tabs that come back to it.
const TABS: usize = 512;

/// Measures a long log.
pub(crate) async fn measure(table: &mut Table, effort: Effort) {
    let (master, home) = puppet_home().await;
    home.start().await.stop().await;
    fill(&home);
    let (mut starts, mut hellos, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.times(10).max(3) {
        let begun = Instant::now();
        let daemon = home.start().await;
        starts.push(begun.elapsed());
        let begun = Instant::now();
        let mut client = daemon.connect().await;
        client.hello("tab", None, SimpleCanvas::showing("w")).await;
        hellos.push(begun.elapsed());
        client.until(&json!({"type": "entry", "seq": 200})).await;
        pages.push(begun.elapsed());
        client.close().await;
        daemon.stop().await;
    }
    table.times(format!("start with {ROWS} entries"), &mut starts);
    table.times(format!("hello answered, {ROWS} entries"), &mut hellos);
    table.times("first 200 of them received", &mut pages);

    let daemon = home.start().await;
    let begun = Instant::now();
    let mut client = daemon.connect().await;
    client.hello("all", None, SimpleCanvas::showing("w")).await;
    client.until(&json!({"type": "entry", "seq": ROWS})).await;
    let whole = begun.elapsed();
    client.close().await;
    let alone = memory(&daemon);
    let mut clients = Vec::new();
    let begun = Instant::now();
    for number in 0..TABS {
        let mut client = daemon.connect().await;
        let name = format!("tab-{number}");
        let missed = json!({"after": ROWS - 100});
        client.hello_with(&name, None, SimpleCanvas::showing(&name), missed).await;
        client.until(&json!({"type": "entry", "seq": ROWS})).await;
        client.seen.clear();
        clients.push(client);
    }
    let joined = begun.elapsed();
    table.row(
        format!("{ROWS} entries, {TABS} tabs that come back"),
        &[
            ("all entries to one tab", micros(whole) / 1_000.0, "ms"),
            ("memory after it", alone, "MB"),
            ("a tab that missed 100", micros(joined) / TABS as f64 / 1_000.0, "ms"),
            ("memory with all tabs", memory(&daemon), "MB"),
        ],
    );
    drop(clients);
    daemon.stop().await;

    let daemon = home.start().await;
    let mut client = tab(&daemon, 0).await;
    let begun = Instant::now();
    client.say("first", "begin").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    let prompted = begun.elapsed();
    let (bare, mut floor, mut times) = (Bare::new(), Vec::new(), Vec::new());
    for number in 0..effort.times(300) {
        floor.push(bare.commit());
        times.extend(accepted(&mut client, &format!("long-{number}"), 1).await);
    }
    table
        .row("an agent that starts and is told the record", &[("message to prompt", micros(prompted) / 1_000.0, "ms")]);
    let floor_now = format!("{COMMIT}, meanwhile");
    table.times(&floor_now, &mut floor);
    table.times_beside(format!("message to acknowledgement, {ROWS} entries"), &mut times, &floor_now);
    daemon.stop().await;
}

/// Turns of five rows, as a day of work leaves them.
fn fill(home: &Home) {
    let path = home.path().join(format!("conversations-{}.db", home.port));
    let mut database = rusqlite::Connection::open(path).unwrap();
    let all = database.transaction().unwrap();
    all.execute("INSERT INTO conversations (key) VALUES ('orchestrator::one')", []).unwrap();
    let id = all.last_insert_rowid();
    {
        let mut row = all
            .prepare(
                "INSERT INTO entries (conversation, seq, kind, key, at_ms, body, inbound) VALUES (?1, ?2, ?3, ?4, ?2, ?5, ?6)",
            )
            .unwrap();
        for seq in 1..=ROWS {
            let turn = (seq - 1) / 5 + 1;
            let text = "Set the sampler's steps to 30 and run it again, please. ".repeat(4);
            let (kind, key, body, settled) = match (seq - 1) % 5 {
                0 => ("user", Some(format!("mid:old-{seq}")), json!({"text": text, "mid": format!("old-{seq}")}), true),
                1 => (
                    "turn_start",
                    None,
                    json!({"turn": turn, "mids": [format!("old-{}", seq - 1)], "takes": [seq - 1]}),
                    false,
                ),
                2 => ("action", None, json!({"name": "panel_set_widget", "detail": "steps", "turn": turn}), false),
                3 => ("say", None, json!({"text": text, "id": format!("s-{seq}"), "turn": turn}), false),
                _ => ("turn_end", None, json!({"turn": turn, "outcome": "completed"}), false),
            };
            let number = |value: u64| i64::try_from(value).unwrap();
            row.execute(rusqlite::params![id, number(seq), kind, key, body.to_string(), settled]).unwrap();
        }
    }
    all.execute("UPDATE entries SET settled_by = seq + 4 WHERE inbound = 1", []).unwrap();
    all.commit().unwrap();
}
