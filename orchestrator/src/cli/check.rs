//! `doctor`: what would keep the daemon from working, each with what mends it. It changes nothing but the home folder,
//! which it makes when it is missing.

use super::Cli;
use super::daemon::{DaemonError, Standing, about_versions, standing};
use crate::agent::{AgentBackend, AgentConfig};
use crate::config::{ComfyUrl, Config, Environment};
use crate::store::home::{Home, Surroundings, TokenFile};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// How long ComfyUI may take to answer.
const ASKING: Duration = Duration::from_secs(3);

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// It is as it should be.
    pub ok: bool,
    /// What was found, and what mends it.
    pub message: String,
}

impl Check {
    fn new(name: impl Into<String>, ok: bool, message: impl Into<String>) -> Self {
        Self { name: name.into(), ok, message: message.into() }
    }
}

/// Looks at home, token, configuration, port, ComfyUI and agents, as far as each can be reached. `build` gives the
/// driver of a configured agent.
pub async fn doctor(
    cli: &Cli,
    surroundings: &Surroundings,
    environment: &Environment,
    build: impl Fn(&str, &AgentConfig) -> Arc<dyn AgentBackend>,
) -> Vec<Check> {
    let mut checks = Vec::new();
    let home = match Home::prepare(&cli.home_choice(), surroundings) {
        Ok(home) => home,
        Err(error) => return vec![Check::new("home", false, error.to_string())],
    };
    checks.push(Check::new("home", true, home.root().display().to_string()));
    checks.push(token(&home));
    let config = match Config::load(&cli.flags(), home.root(), environment) {
        Ok(config) => config,
        Err(error) => {
            checks.push(Check::new("configuration", false, error.to_string()));
            return checks;
        }
    };
    let source =
        config.source.as_ref().map_or_else(|| "none, so the usual holds".into(), |path| path.display().to_string());
    checks.push(Check::new("configuration", true, source));
    checks.push(daemon(&home, &config).await);
    if let Some(url) = &config.server.comfyui {
        checks.push(comfyui(url).await);
    }
    for (name, agent) in &config.agents {
        let readiness = build(name, agent).probe().await;
        let usable = readiness.found && readiness.signed_in != Some(false);
        // What nobody asked for may be absent, as long as there is another.
        checks.push(Check::new(
            format!("agent {name}"),
            usable || (!config.chosen && *name != config.default_agent),
            super::words(&readiness),
        ));
    }
    checks
}

/// Its file is made by the first daemon, and not here.
fn token(home: &Home) -> Check {
    if !home.token().exists() {
        return Check::new("token", true, format!("{} is made when the daemon starts", home.token().display()));
    }
    match TokenFile::open(home) {
        Ok(file) => Check::new("token", true, file.path().display().to_string()),
        Err(error) => Check::new("token", false, error.to_string()),
    }
}

async fn daemon(home: &Home, config: &Config) -> Check {
    let port = config.server.port;
    match standing(home, &config.server).await {
        Ok(Standing::Stopped) => Check::new("daemon", true, format!("none runs, and port {port} is free for one")),
        Ok(Standing::Serves(owner)) => {
            let versions = about_versions(&owner);
            Check::new("daemon", versions.is_empty(), format!("{owner} serves.{versions}"))
        }
        Ok(Standing::PortTaken(holder)) => {
            let mend = "end that, or choose another one with --port or in the configuration";
            Check::new("daemon", false, format!("port {port} is taken by {holder}: {mend}"))
        }
        Ok(Standing::Unproven(owner)) => Check::new("daemon", false, DaemonError::Unproven(owner).to_string()),
        Err(error) => Check::new("daemon", false, error.to_string()),
    }
}

async fn comfyui(url: &ComfyUrl) -> Check {
    let client = reqwest::Client::builder().no_proxy().timeout(ASKING).build();
    let answer = match client {
        Ok(client) => client.get(format!("{url}/system_stats")).send().await,
        Err(error) => Err(error),
    };
    match answer.and_then(reqwest::Response::error_for_status) {
        Ok(_) => Check::new("comfyui", true, format!("{url} answers")),
        Err(error) => Check::new("comfyui", false, format!("{url} does not answer ({error}); start ComfyUI")),
    }
}
