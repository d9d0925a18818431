//! The Claude CLI: one long-lived process a conversation, speaking JSON lines both ways. This file decides how it is
//! started; it knows nothing of tabs, workflows and routing.
//!
//! The daemon answers every question for permission itself and never starts the CLI in a mode that skips them. The
//! CLI's own tools are switched off unless the configuration names them, so that a permission rule in the person's
//! own settings cannot switch one on either.

#[cfg(test)]
mod tests;
mod translate;
mod wire;

use super::config::AgentConfig;
use super::drive::{Drive, Garbage};
use super::handle::{Handle, Reporter};
use super::process::{self, Output, Process, Program};
use super::{AgentBackend, AgentSession, Launch, Readiness, StartError, tool};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use translate::Translator;

const PROGRAM: &str = "Claude";
const INSTALL: &str = "run npm install -g @anthropic-ai/claude-code, or set command in its [agents.…] table";
const SIGN_IN: &str =
    "Run claude in a terminal and sign in with /login, or set use_api_key = true in its [agents.…] table.";
const PROBE_DEADLINE: Duration = Duration::from_secs(5);

/// The endpoint reaches the CLI by these, because a command line can be read by every user of the machine.
const MCP_URL: &str = "COMFY_ORCHESTRATOR_MCP_URL";
const MCP_BEARER: &str = "COMFY_ORCHESTRATOR_MCP_BEARER";

/// Left behind when the daemon itself was started by an agent; the CLI would take itself for a nested one.
const NESTING: [&str; 3] = ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"];
const API_KEY: &str = "ANTHROPIC_API_KEY";

/// The Claude CLI, configured.
pub(super) struct Claude {
    config: AgentConfig,
    models: Arc<Mutex<Vec<String>>>,
}

impl Claude {
    /// A driver with these settings.
    pub(super) fn new(config: AgentConfig) -> Self {
        let models = Arc::new(Mutex::new(config.models.clone()));
        Self { config, models }
    }

    fn executable(&self) -> Result<PathBuf, StartError> {
        let name = self.config.command.first().map_or("claude", String::as_str);
        process::find(name, self.config.env.get("PATH").map(String::as_str))
            .ok_or_else(|| StartError::NotFound { program: name.to_owned(), mend: INSTALL.into() })
    }

    fn program(&self, path: PathBuf, cwd: PathBuf) -> Program {
        let mut unset = NESTING.to_vec();
        if !self.config.use_api_key {
            unset.push(API_KEY);
        }
        let arguments = self.config.command.iter().skip(1).cloned().collect();
        Program { path, arguments, set: self.config.env.clone(), unset, cwd }
    }

    fn launch(&self, path: PathBuf, launch: &Launch) -> Program {
        let mut program = self.program(path, launch.cwd.clone());
        program.set.insert(MCP_URL.into(), launch.mcp.url.clone());
        program.set.insert(MCP_BEARER.into(), launch.mcp.bearer.clone());
        let servers = json!({"mcpServers": {tool::SERVER: {
            "type": "http",
            "url": format!("${{{MCP_URL}}}"),
            "headers": {"Authorization": format!("Bearer ${{{MCP_BEARER}}}")},
        }}});
        let mut add = |words: &[&str]| program.arguments.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["--print", "--verbose", "--include-partial-messages"]);
        add(&["--input-format", "stream-json", "--output-format", "stream-json"]);
        add(&["--permission-prompt-tool", "stdio", "--permission-mode", "default"]);
        add(&["--tools", &self.own_tools(), "--disable-slash-commands"]);
        add(&["--strict-mcp-config", "--mcp-config", &servers.to_string()]);
        if let Some(model) = launch.model.as_ref().or(self.config.model.as_ref()) {
            add(&["--model", model]);
        }
        if !launch.instructions.is_empty() {
            add(&["--append-system-prompt", &launch.instructions]);
        }
        if let Some(session) = &launch.resume {
            add(&["--resume", session.as_str()]);
            if let Some(anchor) = &launch.resume_at {
                // The session that is gone back from stays as it is, to be resumed.
                add(&["--resume-session-at", anchor, "--fork-session"]);
            }
        }
        program
    }

    fn own_tools(&self) -> String {
        let own = self.config.allow_tools.iter().filter(|name| !name.starts_with("mcp__"));
        own.map(String::as_str).collect::<Vec<_>>().join(",")
    }

    async fn handshake(&self, process: &mut Process, launch: &Launch) -> Result<(), StartError> {
        let deadline = Instant::now() + launch.deadline;
        let protocol = |reason: String| StartError::Protocol { program: PROGRAM.into(), reason };
        process.send(wire::initialize());
        let mut refused = false;
        loop {
            let timeout = |_| StartError::Timeout {
                program: PROGRAM.into(),
                stage: "answering the handshake",
                after: launch.deadline,
            };
            match timeout_at(deadline, process.next()).await.map_err(timeout)? {
                Output::Line(line) => match wire::read(&line) {
                    Ok(wire::Message::Answer { id, result }) if id == wire::INITIALIZE => {
                        return self.welcome(&result.map_err(protocol)?);
                    }
                    // Before the first prompt, the outcome of a turn can only be that of the session's resumption.
                    Ok(wire::Message::Outcome(outcome)) => refused |= outcome.is_error,
                    Ok(_) | Err(Garbage) => {}
                },
                Output::Oversize => {}
                Output::Ended { reason } => {
                    return Err(match &launch.resume {
                        Some(session) if refused => StartError::UnknownSession(session.clone()),
                        Some(_) | None => StartError::Exited { program: PROGRAM.into(), reason },
                    });
                }
            }
        }
    }

    fn welcome(&self, answer: &Value) -> Result<(), StartError> {
        if signed_out(&answer["account"]) {
            return Err(StartError::NotSignedIn { program: PROGRAM.into(), mend: SIGN_IN.into() });
        }
        if self.config.models.is_empty() {
            let models = answer["models"].as_array().into_iter().flatten();
            let names = models.filter_map(|model| model["value"].as_str()).map(str::to_owned).collect();
            *self.models.lock().unwrap_or_else(PoisonError::into_inner) = names;
        }
        Ok(())
    }
}

// Cloud providers sign in by themselves, and a field that is missing says nothing.
fn signed_out(account: &Value) -> bool {
    account["apiProvider"] == "firstParty" && account["tokenSource"] == "none" && account["apiKeySource"].is_null()
}

#[async_trait]
impl AgentBackend for Claude {
    async fn probe(&self) -> Readiness {
        let path = match self.executable() {
            Ok(path) => path,
            Err(error) => {
                return Readiness { found: false, signed_in: None, version: None, mend: Some(error.to_string()) };
            }
        };
        let ask = |words: &'static [&'static str]| {
            let mut program = self.program(path.clone(), PathBuf::from("/"));
            program.arguments.extend(words.iter().map(|word| (*word).to_owned()));
            async move { process::ask(&program, PROBE_DEADLINE).await }
        };
        let (version, status) = tokio::join!(ask(&["--version"]), ask(&["auth", "status", "--json"]));
        let status: Value = status.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let signed_in = status["loggedIn"].as_bool();
        Readiness {
            found: true,
            signed_in,
            version: version.and_then(|text| text.split_whitespace().next().map(str::to_owned)),
            mend: (signed_in == Some(false)).then(|| SIGN_IN.to_owned()),
        }
    }

    fn models(&self) -> Vec<String> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn start(&self, launch: Launch) -> Result<Box<dyn AgentSession>, StartError> {
        let program = self.launch(self.executable()?, &launch);
        let mut process = Process::spawn(&program)
            .map_err(|error| StartError::Exited { program: PROGRAM.into(), reason: error.to_string() })?;
        if let Err(error) = self.handshake(&mut process, &launch).await {
            process.close().await;
            return Err(error);
        }
        let (handle, orders) = Handle::new(Some(process.pid()));
        let speaker = Translator::new(launch.name.0.as_str(), self.config.allow_tools.clone());
        tokio::spawn(Drive::new(speaker, Reporter::new(launch.events), orders).run(process));
        Ok(Box::new(handle))
    }
}
