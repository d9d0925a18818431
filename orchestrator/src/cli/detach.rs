//! `serve --detach`: a daemon that outlives the terminal. The first process starts a second one, waits until that serves,
//! repeats its line, and ends.

use crate::store::home::Home;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Given to the second process instead of `--detach`.
pub(super) const DETACHED: &str = "--detached";
/// How long a daemon may take to serve.
const READY: Duration = Duration::from_secs(30);
/// A file of messages that is longer is put aside first.
const MOST_LOG_BYTES: u64 = 8 << 20;

/// Why no daemon was left running.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    /// It ended, and said why.
    #[error("{message}")]
    Ended {
        /// Its code.
        code: String,
        /// Its words.
        message: String,
    },
    /// It ended without a word, or said nothing in time and was ended.
    #[error("the daemon did not come up: see its messages in {}", log.display())]
    Silent {
        /// Where its messages are.
        log: PathBuf,
    },
    /// It could not be started.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl DetachError {
    /// Stable code: the daemon's own, `silent` or `io`.
    pub fn code(&self) -> &str {
        match self {
            Self::Ended { code, .. } => code,
            Self::Silent { .. } => "silent",
            Self::Io { .. } => "io",
        }
    }
}

/// Starts the daemon with the same command line in a session of its own; returns its ready line and where its messages go.
///
/// # Errors
/// See [`DetachError`]; then none was left running.
pub async fn detach(home: &Home, port: u16, arguments: Vec<OsString>) -> Result<(Value, PathBuf), DetachError> {
    let log = home.daemon_log(port);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| DetachError::Io { path, error }
    };
    if fs::metadata(&log).is_ok_and(|found| found.len() > MOST_LOG_BYTES) {
        fs::rename(&log, log.with_extension("log.old")).map_err(failed(&log))?;
    }
    let messages = OpenOptions::new().create(true).append(true).open(&log).map_err(failed(&log))?;
    let program = std::env::current_exe().map_err(failed(Path::new("this program")))?;
    let mut child = Command::new(&program)
        .args(second(arguments))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(messages)
        .spawn()
        .map_err(failed(&program))?;
    match timeout(READY, first_line(&mut child)).await {
        Ok(Some(line)) if line["ready"] == true => Ok((line, log)),
        Ok(Some(line)) => {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            Err(DetachError::Ended { code: text("code"), message: text("message") })
        }
        Ok(None) | Err(_) => {
            let _ = child.kill().await;
            Err(DetachError::Silent { log })
        }
    }
}

async fn first_line(child: &mut Child) -> Option<Value> {
    let line = BufReader::new(child.stdout.take()?).lines().next_line().await.ok()??;
    serde_json::from_str(&line).ok()
}

/// The command line of the second process: it answers in JSON, and leaves the terminal by itself.
fn second(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut second: Vec<OsString> = arguments
        .into_iter()
        .map(|argument| if argument == "--detach" { DETACHED.into() } else { argument })
        .filter(|argument| argument != "--json")
        .collect();
    second.insert(0, "--json".into());
    second
}

/// What the second process does first: it leaves the session of the terminal, so that nothing of that one reaches it.
pub fn leave_the_terminal() {
    // It fails only for who leads a group already, which then is not the terminal's.
    let _ = rustix::process::setsid();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_process_is_told_the_same_and_answers_in_json() {
        let given = ["--home", "h", "serve", "--detach", "--port", "1", "--json"].map(OsString::from).to_vec();
        assert_eq!(second(given), ["--json", "--home", "h", "serve", "--detached", "--port", "1"]);
    }
}
