//! `doctor`: what would keep the daemon from working, each with what mends it. It changes nothing but the home folder,
//! which it makes when it is missing.

use super::Cli;
use crate::agent::{AgentBackend, AgentConfig};
use crate::bridge::{Holder, who_holds};
use crate::config::{ComfyUrl, Config, Environment};
use crate::store::home::{Home, Surroundings, TokenFile};
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

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
    checks.push(match TokenFile::open(&home) {
        Ok(file) => Check::new("token", true, file.path().display().to_string()),
        Err(error) => Check::new("token", false, error.to_string()),
    });
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
    checks.push(port(SocketAddr::new(config.server.bind, config.server.port)).await);
    if let Some(url) = &config.server.comfyui {
        checks.push(comfyui(url).await);
    }
    for (name, agent) in &config.agents {
        let readiness = build(name, agent).probe().await;
        let usable = readiness.found && readiness.signed_in != Some(false);
        // One usable agent is enough; of the others it is good to know.
        checks.push(Check::new(
            format!("agent {name}"),
            usable || *name != config.default_agent,
            super::words(&readiness),
        ));
    }
    checks
}

async fn port(address: SocketAddr) -> Check {
    match TcpListener::bind(address).await {
        Ok(_) => Check::new("port", true, format!("{address} is free")),
        Err(error) => match who_holds(address).await {
            holder @ Holder::Daemon { .. } => Check::new("port", true, format!("{address} is taken by {holder}")),
            Holder::Unknown => Check::new("port", false, format!("{address}: {error}; choose another one with --port")),
        },
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
