//! The daemon's process: started, killed, told to stop; and the log as it lies on disk.

use super::line::Address;
use crate::harness::{Home, PATIENCE, programs};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The environment variable that names the moment to die at.
const FAULT_POINT: &str = "COMFY_FAULT_POINT";

/// The daemon that has fault points; built once unless whoever set `COMFY_TEST_PROGRAMS` has built it.
pub(super) fn faulty_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = programs().join("comfy-orchestrator-faults");
        if std::env::var_os("COMFY_TEST_PROGRAMS").is_none() {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let built = std::process::Command::new(cargo)
                .args(["build", "--quiet", "-p", "orchestrator", "--features", "fault-points"])
                .args(["--bin", "comfy-orchestrator-faults"])
                .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace"))
                .status()
                .expect("cargo runs");
            assert!(built.success(), "the daemon with fault points must build");
        }
        program
    })
}

/// Every moment that the daemon can be told to die at.
pub fn fault_points() -> Vec<String> {
    let named = std::process::Command::new(faulty_program()).arg("fault-points").output().expect("the daemon runs");
    assert!(named.status.success(), "the daemon names its fault points");
    String::from_utf8_lossy(&named.stdout).lines().map(str::to_owned).collect()
}

/// A running daemon.
pub(super) struct Victim {
    child: Child,
    /// Where it listens.
    pub(super) address: Address,
    log: Arc<Mutex<String>>,
}

impl Victim {
    /// Starts it, and has it die at a point if one is given. `None`: it died there before it was up.
    pub(super) async fn start(home: &Home, fault: Option<&str>) -> Result<Option<Self>, String> {
        let program = match fault {
            Some(_) => faulty_program().to_owned(),
            None => programs().join("comfy-orchestrator"),
        };
        let mut command = Command::new(program);
        command
            .arg("--home")
            .arg(home.path())
            .args(["--json", "serve", "--port", &home.port.to_string()])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.scratch())
            .env("COMFY_ORCHESTRATOR_TEST", "1")
            .envs(fault.map(|point| (FAULT_POINT, point)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("the daemon cannot be run: {error}"))?;
        let log = Arc::new(Mutex::new(String::new()));
        if let Some(mut stderr) = child.stderr.take() {
            let kept = log.clone();
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                while let Ok(read @ 1..) = stderr.read(&mut bytes).await {
                    let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
                    kept.lock().expect("no panic while it is held").push_str(&text);
                }
            });
        }
        let stdout = child.stdout.take().ok_or("the daemon has no output")?;
        let line = timeout(PATIENCE, BufReader::new(stdout).lines().next_line()).await;
        let line =
            line.map_err(|_| "the daemon did not become ready".to_owned())?.map_err(|error| error.to_string())?;
        let Some(line) = line else {
            let status = child.wait().await.map_err(|error| error.to_string())?;
            if was_killed(status) {
                return Ok(None);
            }
            let log = log.lock().expect("no panic while it is held").clone();
            return Err(format!("the daemon did not start ({status}): {log}"));
        };
        let ready: Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        let file = ready["token_file"].as_str().ok_or_else(|| format!("not ready: {line}"))?;
        let token = std::fs::read_to_string(file).map_err(|error| error.to_string())?.trim().to_owned();
        Ok(Some(Self { child, address: Address { port: home.port, token }, log }))
    }

    /// Waits until it is gone; whether it was killed.
    pub(super) async fn gone(&mut self) -> bool {
        self.child.wait().await.is_ok_and(was_killed)
    }

    /// Kills it without warning.
    pub(super) async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }

    /// Asks it to stop in order.
    pub(super) fn ask_to_stop(&self) {
        if let Some(pid) = self.child.id() {
            let _ = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status();
        }
    }

    /// What it wrote to its log.
    pub(super) fn log(&self) -> String {
        self.log.lock().expect("no panic while it is held").clone()
    }
}

fn was_killed(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(9)
}

/// A row of the log.
#[derive(Clone, Debug)]
pub(super) struct LogRow {
    pub(super) backend: String,
    pub(super) seq: u64,
    pub(super) kind: String,
    pub(super) key: Option<String>,
    pub(super) body: Value,
    pub(super) inbound: bool,
    pub(super) settled_by: Option<u64>,
}

impl LogRow {
    /// A text of its body.
    pub(super) fn text(&self, field: &str) -> &str {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// The messages that it names.
    pub(super) fn mids(&self) -> Vec<&str> {
        self.body.get("mids").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Its turn.
    pub(super) fn turn(&self) -> Option<u64> {
        self.body.get("turn").and_then(Value::as_u64)
    }
}

/// Every row of the log, in order. Beside a running daemon it is read as any reader does; after a kill, a copy of the
/// files is, so that nothing here recovers what the daemon must recover itself.
pub(super) fn read_log(home: &Home, killed: bool) -> Result<Vec<LogRow>, String> {
    let file = home.path().join(format!("conversations-{}.db", home.port));
    if !file.exists() {
        return Ok(Vec::new());
    }
    if !killed {
        return rows(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| error.to_string());
    }
    let copy = tempfile::tempdir().map_err(|error| error.to_string())?;
    for suffix in ["", "-wal"] {
        let from = home.path().join(format!("conversations-{}.db{suffix}", home.port));
        if from.exists() {
            std::fs::copy(&from, copy.path().join(format!("log.db{suffix}"))).map_err(|error| error.to_string())?;
        }
    }
    rows(&copy.path().join("log.db"), OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|error| error.to_string())
}

fn rows(file: &Path, flags: OpenFlags) -> Result<Vec<LogRow>, rusqlite::Error> {
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_master WHERE name = 'entries'", [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare(
        "SELECT conversations.key, seq, kind, entries.key, body, inbound, settled_by FROM entries \
         JOIN conversations ON conversations.id = entries.conversation ORDER BY conversations.key, seq",
    )?;
    let number = |number: i64| u64::try_from(number).unwrap_or_default();
    let found = statement.query_map([], |row| {
        let conversation: String = row.get(0)?;
        let body: String = row.get(4)?;
        Ok(LogRow {
            backend: conversation.rsplit("::").next().unwrap_or_default().to_owned(),
            seq: number(row.get(1)?),
            kind: row.get(2)?,
            key: row.get(3)?,
            body: serde_json::from_str(&body).unwrap_or(Value::Null),
            inbound: row.get(5)?,
            settled_by: row.get::<_, Option<i64>>(6)?.map(number),
        })
    })?;
    found.collect()
}
