//! The real daemon as a process.

use super::{Client, PATIENCE};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Where the built programs are: `COMFY_TEST_PROGRAMS`, if it is set by whoever has just built them. Otherwise they are
/// built once, so that a test never drives an old one.
pub fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(folder) = std::env::var_os("COMFY_TEST_PROGRAMS") {
            return folder.into();
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = std::process::Command::new(cargo)
            .args(["build", "--quiet", "--bins", "-p", "orchestrator", "-p", "web-fixtures"])
            .current_dir(&root)
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the daemon and the scripted agents must build");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        target.join("debug")
    })
}

/// A scratch home with a configuration. It outlives the daemons that run in it.
pub struct Home {
    folder: tempfile::TempDir,
    /// The port that daemons of this home take: the same each time, because files are named after it.
    pub port: u16,
}

impl Home {
    /// A home with this configuration file.
    pub fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder");
        std::fs::create_dir(folder.path().join("home")).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let home = Self { folder, port };
        home.configure(config);
        home
    }

    /// Replaces the configuration.
    pub fn configure(&self, config: &str) {
        std::fs::write(self.path().join("config.toml"), config).unwrap();
    }

    /// The state folder: `--home`.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A folder beside the home, for agents.
    pub fn scratch(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// The session file.
    pub fn sessions(&self) -> Value {
        let path = self.path().join(format!("sessions/panel-sessions-{}.json", self.port));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap_or_else(|_| "{}".into())).unwrap()
    }

    /// A command line for the daemon in this home, without the person's own environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(programs().join("comfy-orchestrator"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("COMFY_ORCHESTRATOR_TEST", "1")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// A command line that serves in this home.
    pub fn serve(&self) -> Command {
        let (home, port) = (self.path(), self.port.to_string());
        self.command(&["--home", home.to_str().unwrap(), "--json", "serve", "--port", &port])
    }

    /// Starts the daemon and waits until it is ready.
    pub async fn start(&self) -> Daemon {
        self.start_as(self.serve()).await
    }

    /// Starts the daemon by a command line of its own.
    pub async fn start_as(&self, mut command: Command) -> Daemon {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the daemon starts");
        let stderr = child.stderr.take().unwrap();
        let log = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let kept = log.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                kept.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.expect("ready in time").unwrap();
        let line = line.unwrap_or_else(|| panic!("the daemon ended: {}", log.lock().unwrap()));
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["ready"], true, "{line}");
        let token_file = ready["token_file"].as_str().unwrap();
        // A daemon in a file system of its own has its token there.
        let inside = format!("/proc/{}/root{token_file}", child.id().unwrap());
        let token = std::fs::read_to_string(token_file).or_else(|_| std::fs::read_to_string(inside)).unwrap();
        let token = token.trim().to_owned();
        Daemon { child, port: u16::try_from(ready["port"].as_u64().unwrap()).unwrap(), token, log }
    }
}

/// A running daemon.
pub struct Daemon {
    child: Child,
    /// Its port.
    pub port: u16,
    /// Its token.
    pub token: String,
    log: std::sync::Arc<std::sync::Mutex<String>>,
}

impl Daemon {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// A socket without a hello.
    pub async fn connect(&self) -> Client {
        Client::connect(self.port, &self.token).await
    }

    /// A socket that the relay of a ComfyUI opens, without a hello.
    pub async fn connect_from(&self, comfyui: &str) -> Client {
        Client::connect_from(self.port, &self.token, Some(comfyui)).await
    }

    /// What it wrote to its log.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Stops it in order; returns how long that took. Fails when it does not exit with 0.
    pub async fn stop(mut self) -> Duration {
        let begun = std::time::Instant::now();
        self.signal("TERM");
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        assert!(status.success(), "{status}: {}", self.log());
        begun.elapsed()
    }

    /// Kills it without warning.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}
