//! `cargo xtask run`: the whole product on this machine, to look at: the daemon, the panel, and a stand-in ComfyUI with
//! the real frontend. It stops both programs by their own ids, and never one that it did not start.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::panel;
use crate::pins;
use crate::process::{Program, Running, interrupted};
use crate::progress::say;
use crate::setup::{Done, python};
use crate::workspace::{Workspace, on_path};

/// How long a program may take to say that it is up.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// What to run, and where.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// The daemon's port [default: the last one, whose conversation then goes on, else a free one]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// The stand-in ComfyUI's port [default: a free one]
    #[arg(long, value_name = "N")]
    comfy_port: Option<u16>,
    /// The agent that answers [default: the daemon's own default]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The ComfyUI frontend's version
    #[arg(long, value_name = "VERSION", default_value = pins::FRONTENDS[0], value_parser = pins::FRONTENDS)]
    frontend: String,
    /// Do not open the page in a browser
    #[arg(long)]
    no_open: bool,
    /// Build the daemon with all optimisations (slower to build)
    #[arg(long)]
    release: bool,
}

/// Builds what is needed and runs until Ctrl-C or until a program ends.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let home = workspace.root.join("target/demo/home");
    let port = free_port(options.port.or_else(|| last_port(&home)), "--port")?;
    let comfy_port = free_port(options.comfy_port, "--comfy-port")?;
    for outcome in [python::ensure_aiohttp(workspace)?, python::ensure_frontends(workspace)?] {
        if let Done::Installed(what) = outcome {
            say(&format!("   installed: {what}"));
        }
    }
    panel::build(workspace)?;
    let daemon = build_daemon(workspace, options.release)?;

    let user = workspace.root.join("target/demo/user");
    for folder in [&home, &user] {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let server = Program::new(python::interpreter()?)
        .arg(workspace.path("web-fixtures/comfy_server.py"))
        .args(["--port", &comfy_port.to_string()])
        .arg("--static")
        .arg(workspace.frontend(&options.frontend))
        .arg("--object-info")
        .arg(workspace.path("web-fixtures/data/object_info.json"))
        .arg("--pack")
        .arg(workspace.path("panel-wasm/comfyui"))
        .arg("--user")
        .arg(&user)
        .env("PYTHONPATH", python::library(workspace))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONUNBUFFERED", "1")
        .env("COMFY_ORCHESTRATOR_HOME", &home)
        // The daemon that is being run here is the one.
        .env("COMFY_ORCHESTRATOR_START", "0")
        .env("COMFYUI_MCP_BRIDGE_PORT", port.to_string())
        .directory(&workspace.root);
    let (comfy, ready) = Service::start("ComfyUI stand-in", server)?;
    let page = ready["url"].as_str().context("the ComfyUI stand-in did not say its address")?.to_owned();

    let mut command = Program::new(daemon)
        .args(["serve", "--port", &port.to_string()])
        .arg("--home")
        .arg(&home)
        .args(["--comfyui", &page, "--json"])
        .directory(&workspace.root);
    if let Some(agent) = &options.agent {
        command = command.args(["--agent", agent]);
    }
    let (daemon, ready) = Service::start("comfy-orchestrator", command)?;
    say(&format!(
        "comfy-orchestrator {} listens on port {port}",
        ready["version"].as_str().unwrap_or("(no version told)")
    ));
    say(&format!("ready: open {page} and choose the panel in the sidebar; Ctrl-C stops everything"));
    if !options.no_open {
        open(&page);
    }
    supervise([comfy, daemon])
}

fn build_daemon(workspace: &Workspace, release: bool) -> Result<PathBuf> {
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    workspace
        .cargo()
        .args(["build", "--package", "orchestrator"])
        .args(profile)
        .visible()
        .context("the daemon does not build")?;
    let folder = workspace.target.join(if release { "release" } else { "debug" });
    Ok(folder.join(format!("comfy-orchestrator{}", std::env::consts::EXE_SUFFIX)))
}

/// The port of the newest log, if it is free: there is one log a port, and a restart goes on with it.
fn last_port(home: &Path) -> Option<u16> {
    let log = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let port: u16 = name.strip_prefix("conversations-")?.strip_suffix(".db")?.parse().ok()?;
        Some((entry.metadata().ok()?.modified().ok()?, port))
    };
    let (_, port) = std::fs::read_dir(home).ok()?.flatten().filter_map(log).max()?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(port)
}

/// The port asked for, when it is free, else any free one. Another program that holds it is left alone.
fn free_port(wanted: Option<u16>, option: &str) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted.unwrap_or(0))).with_context(|| match wanted {
        Some(port) => format!("port {port} is taken by another program: give another {option}, or none for a free one"),
        None => "no port is free".to_owned(),
    })?;
    Ok(listener.local_addr()?.port())
}

/// Waits for Ctrl-C; a program that ends by itself ends the rest and is an error.
fn supervise<const COUNT: usize>(mut services: [Service; COUNT]) -> Result<()> {
    let outcome = loop {
        if interrupted() {
            say("stopping");
            break Ok(());
        }
        if let Some(ended) = services.iter_mut().find_map(|service| service.ended_unasked().transpose()) {
            break ended.and_then(|text| bail!("{text}; the rest was stopped"));
        }
        thread::sleep(Duration::from_millis(100));
    };
    // The daemon was started last and goes first, while its ComfyUI still answers.
    for service in services.iter_mut().rev() {
        service.running.stop();
        say(&format!("stopped: {}", service.running.name()));
    }
    outcome
}

/// A program that said it is up.
struct Service {
    running: Running,
}

impl Service {
    /// Starts it and waits for its line `{"ready":true,…}`; later lines are shown with its name.
    fn start(name: &'static str, program: Program) -> Result<(Self, Value)> {
        say(&format!("$ {}", program.shown()));
        let mut running = program.start(name)?;
        let output = running.output().context("a program without output")?;
        let lines = ready_lines(name, output);
        let mut service = Self { running };
        let started = Instant::now();
        loop {
            match lines.recv_timeout(Duration::from_millis(100)) {
                Ok(ready) => return Ok((service, ready)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if interrupted() {
                bail!("stopped: interrupted");
            }
            if let Some(text) = service.ended_unasked()? {
                bail!("{text} before it was up: see its words above");
            }
            if started.elapsed() > READY_LIMIT {
                bail!("{name} did not say within {} s that it is up", READY_LIMIT.as_secs());
            }
        }
    }

    fn ended_unasked(&mut self) -> Result<Option<String>> {
        let name = self.running.name();
        Ok(self.running.ended()?.map(|status| format!("{name} ended ({status})")))
    }
}

fn ready_lines(name: &'static str, output: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            match ready_line(&line) {
                Some(ready) => drop(sender.send(ready)),
                None => say(&format!("{name}: {line}")),
            }
        }
    });
    receiver
}

fn ready_line(line: &str) -> Option<Value> {
    serde_json::from_str::<Value>(line).ok().filter(|value| value["ready"] == true)
}

fn open(page: &str) {
    let openers: &[&str] = if cfg!(target_os = "macos") { &["open"] } else { &["xdg-open"] };
    let has_screen =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if let Some(opener) = on_path(openers).filter(|_| has_screen) {
        let log = std::env::temp_dir().join("comfy-orchestrator-open.log");
        if let Err(error) =
            Program::new(opener).arg(page).limit(Duration::from_secs(10)).quiet("opening the page", &log)
        {
            say(&format!("   cannot open a browser ({}): open the address yourself", error.root_cause()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_refused_with_the_option_that_names_another() -> Result<()> {
        let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = holder.local_addr()?.port();
        let told = free_port(Some(port), "--port").map_err(|error| error.to_string());
        assert!(told.is_err_and(|text| text.contains(&port.to_string()) && text.contains("--port")));
        assert_ne!(free_port(None, "--port")?, port);
        Ok(())
    }

    #[test]
    fn a_restart_goes_on_with_the_last_log_unless_its_port_is_taken() -> Result<()> {
        let home = tempfile::tempdir()?;
        assert_eq!(last_port(home.path()), None);
        let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = holder.local_addr()?.port();
        for name in [format!("conversations-{port}.db"), "conversations-x.db".to_owned(), "token".to_owned()] {
            std::fs::write(home.path().join(name), "")?;
        }
        assert_eq!(last_port(home.path()), None, "somebody listens there");
        drop(holder);
        assert_eq!(last_port(home.path()), Some(port));
        Ok(())
    }

    #[test]
    fn only_the_line_that_says_so_means_ready() {
        assert!(ready_line(r#"{"ready":true,"url":"http://127.0.0.1:1"}"#).is_some());
        assert!(ready_line(r#"{"ready":false}"#).is_none());
        assert!(ready_line("ready").is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_ends_is_an_error_that_names_it() -> Result<()> {
        let (service, ready) =
            Service::start("brief one", Program::new("sh").args(["-c", r#"echo '{"ready":true,"n":1}'; exit 3"#]))?;
        assert_eq!(ready["n"], 1);
        let told = supervise([service]).map_err(|error| error.to_string());
        assert_eq!(told, Err("brief one ended (exit status: 3); the rest was stopped".to_owned()));
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_ends_before_it_is_up_is_an_error() {
        let told = Service::start("brief one", Program::new("false")).map(drop).map_err(|error| error.to_string());
        assert!(told.is_err_and(|text| text.contains("before it was up")));
    }
}
