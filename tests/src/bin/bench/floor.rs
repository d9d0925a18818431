//! Floors: what the machine and the libraries take by themselves.

use super::Effort;
use super::table::Table;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

const ECHO: &str = "floor: WebSocket echo";
/// Name of the row of a bare commit.
pub(crate) const COMMIT: &str = "floor: SQLite commit, synced";
/// A reply of a usual size.
pub(crate) const REPLY: &str = r#"{"rid":"e-r1","ok":true,"result":{"node_id":7,"inputs":["model","positive","negative"],"widgets":{"seed":1,"steps":20,"cfg":8.0}},"workflow":{"uuid":"0f5f9a3e","path":"workflows/portraits/first.json","handle":"wf:workflows/portraits/first.json","title":"first","canvas":"c1"}}"#;

/// Measures the floors.
pub(crate) async fn measure(table: &mut Table, effort: Effort) {
    echo(table, effort).await;
    let mut times: Vec<Duration> = (0..effort.times(20_000))
        .map(|_| {
            let begun = Instant::now();
            std::hint::black_box(serde_json::from_str::<Value>(std::hint::black_box(REPLY)).unwrap());
            begun.elapsed()
        })
        .collect();
    table.times("floor: JSON parse of a reply", &mut times);
}

async fn echo(table: &mut Table, effort: Effort) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        while let Some(Ok(message)) = socket.next().await {
            if message.is_text() && socket.send(message).await.is_err() {
                return;
            }
        }
    });
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}")).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..effort.times(3_000) {
        let begun = Instant::now();
        socket.send(Message::text(REPLY)).await.unwrap();
        socket.next().await.unwrap().unwrap();
        times.push(begun.elapsed());
    }
    server.abort();
    table.times(ECHO, &mut times);
}

/// A database that does nothing but commit, with the settings of the daemon's log.
pub(crate) struct Bare {
    database: rusqlite::Connection,
    _folder: tempfile::TempDir,
}

impl Bare {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = rusqlite::Connection::open(folder.path().join("floor.sqlite")).unwrap();
        database.pragma_update(None, "journal_mode", "WAL").unwrap();
        database.pragma_update(None, "synchronous", "FULL").unwrap();
        database.execute_batch("CREATE TABLE row (seq INTEGER PRIMARY KEY, body TEXT NOT NULL)").unwrap();
        Self { database, _folder: folder }
    }

    /// One row, synced.
    pub(crate) fn commit(&self) -> Duration {
        let begun = Instant::now();
        self.database.execute("INSERT INTO row (body) VALUES (?1)", [REPLY]).unwrap();
        begun.elapsed()
    }
}
