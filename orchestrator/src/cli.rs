//! The command line: what a person can say, and the commands that need no running daemon. It must not know how
//! the daemon serves.

mod check;
mod daemon;
mod detach;
mod install;
mod log;

use crate::agent::{AgentBackend, Readiness};
use crate::config::{Config, Flags};
use crate::store::home::{HomeChoice, Token, TokenError, TokenFile};
use clap::{Args, CommandFactory, Parser, Subcommand};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use check::{Check, doctor};
pub use daemon::{DaemonError, Standing, standing, status, stop};
pub use detach::{DetachError, detach, leave_the_terminal};
pub use install::{Install, Uninstall, install, uninstall};
pub use log::{LogCommand, ReadError, log};

const EXAMPLES: &str = "\
Examples:
  comfy-orchestrator serve                                    listen on port 9101 with the first agent that is there
  comfy-orchestrator serve --port 0 --json                    take a free port and tell it as one JSON line
  comfy-orchestrator serve --detach                           leave it running; `status` tells how it is, `stop` ends it
  comfy-orchestrator serve --agent demo                       a helper that needs no model
  comfy-orchestrator serve --comfyui http://127.0.0.1:8188    which ComfyUI to use for tabs that do not tell
  comfy-orchestrator agents                                   which agents can be used, and what mends the others
  comfy-orchestrator install --comfyui ~/ComfyUI              put the panel into that ComfyUI; restart it then
  comfy-orchestrator log search blue sampler                  what was said about it, the newest first
  comfy-orchestrator log export --session 1 -o talk.md        the newest session as Markdown
  comfy-orchestrator token rotate                             lock out everyone who has the old token

Configuration: config.toml in the home folder, or --config FILE. Environment variables win over the file, flags over both:
  COMFY_ORCHESTRATOR_HOME, COMFYUI_MCP_BRIDGE_PORT, COMFYUI_URL, COMFYUI_MCP_PANEL_MODEL.
Logs go to standard error; COMFY_ORCHESTRATOR_LOG says which, such as debug, or warn,orchestrator=debug.";

/// One AI agent for every ComfyUI tab and workflow.
#[derive(Clone, Debug, Parser)]
#[command(name = "comfy-orchestrator", version, after_help = EXAMPLES)]
pub struct Cli {
    /// Folder for the token, the conversations and the configuration [default: .comfyui-mcp in your own folder].
    #[arg(long, global = true, value_name = "FOLDER", env = "COMFY_ORCHESTRATOR_HOME", hide_env_values = true)]
    pub home: Option<PathBuf>,
    /// Configuration file [default: config.toml in the home folder, if it is there].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Answer with JSON lines on standard output, errors too.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the daemon until it is interrupted; with --detach, leave it running.
    Serve(Serve),
    /// Tell whether the daemon of a home and port runs, since when and in which version. Fails if it does not.
    Status(OfPort),
    /// End the daemon of a home and port in order, wherever it was started. No other process is ever touched.
    Stop(OfPort),
    /// Put the panel into a ComfyUI, as a custom node that starts the daemon when none runs; or bring it to this version.
    Install(Install),
    /// Take the panel out of a ComfyUI again: exactly what was installed.
    Uninstall(Uninstall),
    /// Show or replace the token that lets clients in.
    #[command(subcommand)]
    Token(TokenCommand),
    /// List the configured agents and whether they can be used.
    Agents,
    /// Read what was said: sessions, search, export. Works while the daemon runs.
    #[command(subcommand)]
    Log(LogCommand),
    /// Look for what would keep the daemon from working.
    Doctor(Serve),
}

/// What `serve` and `doctor` take.
#[derive(Clone, Debug, Default, Args)]
pub struct Serve {
    /// Port to listen on [default: 9101]; 0 takes a free one and tells it.
    #[arg(long)]
    pub port: Option<u16>,
    /// ComfyUI for tabs that do not tell theirs, such as http://127.0.0.1:8188.
    #[arg(long, value_name = "URL")]
    pub comfyui: Option<String>,
    /// Agent of tabs that name none: a NAME of [agents.NAME].
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Let the published panel of this page connect WITHOUT a token, from this machine only. Every page of that origin
    /// can then talk to your agent. May be given several times.
    #[arg(long = "legacy-panel", value_name = "ORIGIN")]
    pub legacy_panels: Vec<String>,
    /// End when standard input closes, as it does when the program that started this one is gone, however it went.
    #[arg(long)]
    pub stop_with_stdin: bool,
    /// Leave the daemon running without this terminal, and return once it serves. Its messages go to daemon-PORT.log in
    /// the home folder.
    #[arg(long, conflicts_with = "stop_with_stdin")]
    pub detach: bool,
    /// This is the process that stays.
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// Which daemon of a home.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct OfPort {
    /// Its port [default: 9101].
    #[arg(long)]
    pub port: Option<u16>,
}

/// What can be done with the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum TokenCommand {
    /// Make a new token; the old one is refused at once. Agents that run keep their tools.
    Rotate,
    /// Print the path of the token file. The token itself is never printed.
    ShowPath,
}

/// A command line that ends here: help, version, or a mistake. What to print is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// For standard output; may be empty.
    pub out: String,
    /// For standard error; may be empty.
    pub err: String,
    /// The process's exit code.
    pub code: u8,
}

impl Cli {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// [`Ended`]: what to print, and the exit code. With `--json` a mistake is one JSON line.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Ended> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let json = arguments.iter().any(|argument| argument == "--json");
        Self::try_parse_from(arguments).map_err(|error| {
            let text = error.render().to_string();
            match (error.use_stderr(), json) {
                (false, _) => Ended { out: text, err: String::new(), code: 0 },
                (true, true) => Ended { out: failure("usage", text.trim()), err: String::new(), code: 2 },
                (true, false) => Ended { out: String::new(), err: text, code: 2 },
            }
        })
    }

    /// Which home the person wants.
    pub fn home_choice(&self) -> HomeChoice {
        self.given_home().map_or(HomeChoice::Default, |path| HomeChoice::Given(path.to_owned()))
    }

    /// The home that was named.
    pub fn given_home(&self) -> Option<&Path> {
        self.home.as_deref().filter(|path| !path.as_os_str().is_empty())
    }

    /// What the configuration is loaded with.
    pub fn flags(&self) -> Flags {
        let serve = match &self.command {
            Command::Serve(serve) | Command::Doctor(serve) => serve.clone(),
            Command::Log(command) => Serve { port: command.which().port, ..Serve::default() },
            Command::Status(of) | Command::Stop(of) => Serve { port: of.port, ..Serve::default() },
            Command::Install(install) => Serve { port: install.port, ..Serve::default() },
            Command::Token(_) | Command::Agents | Command::Uninstall(_) => Serve::default(),
        };
        Flags {
            config: self.config.clone(),
            port: serve.port,
            comfyui: serve.comfyui,
            agent: serve.agent,
            legacy_panels: serve.legacy_panels,
        }
    }

    /// The whole help, as `--help` prints it.
    pub fn help() -> String {
        Self::command().render_long_help().to_string()
    }
}

/// The one JSON line of a failure, with its line end: `{"ready":false,"code":…,"message":…}`.
pub fn failure(code: &str, message: &str) -> String {
    format!("{}\n", json!({"ready": false, "code": code, "message": message}))
}

/// Carries out `token …`; returns what to print.
///
/// # Errors
/// See [`TokenError`].
pub fn token(command: TokenCommand, file: &TokenFile, as_json: bool) -> Result<String, TokenError> {
    let path = file.path().display();
    if command == TokenCommand::Rotate {
        let _: Token = file.rotate()?;
    }
    let rotated = command == TokenCommand::Rotate;
    Ok(match (as_json, rotated) {
        (true, _) => format!("{}\n", json!({"rotated": rotated, "path": path.to_string()})),
        (false, true) => format!("A new token is in {path}. The old one is refused from now on.\n"),
        (false, false) => format!("{path}\n"),
    })
}

/// Carries out `agents`; returns what to print. `build` gives the driver of a configured agent.
pub async fn agents(
    config: &Config,
    as_json: bool,
    build: impl Fn(&str, &crate::agent::AgentConfig) -> Arc<dyn AgentBackend>,
) -> String {
    let mut found = Vec::new();
    for (name, agent) in &config.agents {
        found.push((name.as_str(), build(name, agent).probe().await));
    }
    let ordered = found.iter().filter(|(name, _)| *name == config.default_agent);
    let ordered: Vec<_> = ordered.chain(found.iter().filter(|(name, _)| *name != config.default_agent)).collect();
    if as_json {
        let list: Vec<Value> = ordered
            .iter()
            .map(|(name, readiness)| json!({"name": name, "default": *name == config.default_agent, "readiness": readiness}))
            .collect();
        return format!("{}\n", json!({"agents": list}));
    }
    let lines = ordered.iter().map(|(name, readiness)| {
        let default = if *name == config.default_agent { " (default)" } else { "" };
        format!("{name}{default}: {}\n", words(readiness))
    });
    lines.collect()
}

/// What mends an agent says what is wrong with it too.
fn words(readiness: &Readiness) -> String {
    if let Some(mend) = &readiness.mend {
        return mend.clone();
    }
    let state = match (readiness.found, readiness.signed_in) {
        (false, _) => "not found",
        (true, Some(false)) => "not signed in",
        (true, Some(true)) => "ready",
        (true, None) => "found",
    };
    let version = readiness.version.as_deref().map(|version| format!(", version {version}")).unwrap_or_default();
    format!("{state}{version}")
}

#[cfg(test)]
mod tests;
