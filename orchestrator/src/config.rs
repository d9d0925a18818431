//! The configuration: one TOML file, then the environment, then flags, each over the one before. It decides what holds
//! and says where a mistake stands; it must not know what the values are used for.

mod address;
mod error;
mod file;
mod limits;

pub use address::{ComfyUrl, Origin};
pub(crate) use error::nearest;
pub use error::{ConfigError, Place};
pub use limits::{Limits, MOST_FRAME_BYTES};

use crate::agent::{AgentConfig, AgentKind, find_program};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// The port when none is said.
pub const DEFAULT_PORT: u16 = 9101;

/// Everything that a person can set.
#[derive(Clone, Debug)]
pub struct Config {
    /// The agents by name: `[agents.NAME]`. Never empty.
    pub agents: BTreeMap<String, AgentConfig>,
    /// The agent of a tab that names none. Always one of `agents`.
    pub default_agent: String,
    /// The person named the agents; otherwise they are what is tried without a configuration.
    pub chosen: bool,
    /// The listener.
    pub server: ServerConfig,
    /// Bounds and deadlines.
    pub limits: Limits,
    /// The file that was read, if there was one.
    pub source: Option<PathBuf>,
}

/// The section `[server]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where to listen; 0 takes a free port.
    pub port: u16,
    /// On which address. Other machines reach only an address that is not loopback.
    pub bind: IpAddr,
    /// Names besides `localhost`, `127.0.0.1` and `[::1]` that `Host` may say, as `name` or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Paired origins: pages that may connect, with a token.
    pub origins: Vec<Origin>,
    /// Origins of published panels that cannot send a token: admitted without one, on loopback only.
    pub legacy_panels: Vec<Origin>,
    /// The ComfyUI of tabs that do not tell.
    pub comfyui: Option<ComfyUrl>,
}

/// What the command line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--port`.
    pub port: Option<u16>,
    /// `--comfyui`.
    pub comfyui: Option<String>,
    /// `--agent`.
    pub agent: Option<String>,
    /// `--legacy-panel`, any number of times.
    pub legacy_panels: Vec<String>,
}

/// The environment, as far as it matters here. A value that is empty counts as absent.
pub struct Environment(Lookup);

type Lookup = Box<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Environment")
    }
}

impl Environment {
    /// That of this process.
    pub fn of_process() -> Self {
        Self(Box::new(|name| std::env::var_os(name)))
    }

    /// One that holds these variables only.
    pub fn of<const N: usize>(variables: [(&'static str, &str); N]) -> Self {
        let variables: BTreeMap<_, _> = variables.map(|(name, value)| (name, OsString::from(value))).into();
        Self(Box::new(move |name| variables.get(name).cloned()))
    }

    fn get(&self, name: &str) -> Option<OsString> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &'static str) -> Result<Option<String>, ConfigError> {
        self.get(name)
            .map(|value| {
                value
                    .into_string()
                    .map_err(|_| ConfigError::Environment { name, problem: "it is no UTF-8 text".to_owned() })
            })
            .transpose()
    }
}

impl Config {
    /// Puts file, environment and flags together. The file is `flags.config`, else `config.toml` in the home if it is
    /// there.
    ///
    /// # Errors
    /// Each [`ConfigError`] names the file with line and column, the variable or the flag, and what would be right.
    pub fn load(flags: &Flags, home: &Path, environment: &Environment) -> Result<Self, ConfigError> {
        let (file, source) = match &flags.config {
            Some(path) => (file::read(path)?, Some(path.clone())),
            None => match file::read(&home.join("config.toml")) {
                Ok(file) => (file, Some(home.join("config.toml"))),
                Err(ConfigError::Missing { .. }) => (file::File::default(), None),
                Err(error) => return Err(error),
            },
        };
        let chosen = !file.agents.is_empty();
        let mut agents = if chosen { file.agents } else { built_in_agents() };
        if let Some(model) = environment.text("COMFYUI_MCP_PANEL_MODEL")? {
            for agent in agents.values_mut().filter(|agent| agent.kind == AgentKind::Claude) {
                agent.model = Some(model.clone());
            }
        }
        let default_agent = match (&flags.agent, file.default_agent) {
            (Some(name), _) => known_agent(&agents, name)?,
            (None, Some(name)) => name,
            (None, None) => usual_agent(&agents, environment),
        };
        Ok(Self {
            default_agent,
            server: server(file.server, flags, environment)?,
            limits: file.limits,
            agents,
            chosen,
            source,
        })
    }
}

/// What can be talked to without a configuration.
fn built_in_agents() -> BTreeMap<String, AgentConfig> {
    [("claude", AgentKind::Claude), ("demo", AgentKind::Demo)]
        .map(|(name, kind)| (name.to_owned(), AgentConfig::new(kind)))
        .into()
}

/// The default when none is said: the first whose program is there, `demo` needing none and going last.
fn usual_agent(agents: &BTreeMap<String, AgentConfig>, environment: &Environment) -> String {
    let usable = |config: &AgentConfig| {
        let own = config.env.get("PATH").map(OsString::from);
        let path = own.or_else(|| environment.get("PATH")).unwrap_or_default();
        config.command.first().is_some_and(|program| find_program(program, Some(&path.to_string_lossy())).is_some())
    };
    let demo = |config: &AgentConfig| config.kind == AgentKind::Demo;
    let chosen = agents
        .iter()
        .find(|(_, config)| usable(config))
        .or_else(|| agents.iter().find(|(_, config)| demo(config)))
        .or_else(|| agents.iter().next());
    chosen.map(|(name, _)| name.clone()).unwrap_or_default()
}

fn known_agent(agents: &BTreeMap<String, AgentConfig>, name: &str) -> Result<String, ConfigError> {
    if agents.contains_key(name) {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = agents.keys().map(String::as_str).collect();
    Err(ConfigError::Flag { name: "--agent", problem: error::no_such("agent", name, &names) })
}

fn server(file: file::Server, flags: &Flags, environment: &Environment) -> Result<ServerConfig, ConfigError> {
    let port = match (flags.port, environment.text("COMFYUI_MCP_BRIDGE_PORT")?) {
        (Some(port), _) => port,
        (None, Some(text)) => text.trim().parse().map_err(|_| ConfigError::Environment {
            name: "COMFYUI_MCP_BRIDGE_PORT",
            problem: format!("`{text}` is no port from 0 to 65535"),
        })?,
        (None, None) => file.port.unwrap_or(DEFAULT_PORT),
    };
    let comfyui = match (&flags.comfyui, environment.text("COMFYUI_URL")?) {
        (Some(text), _) => {
            Some(ComfyUrl::parse(text).map_err(|problem| ConfigError::Flag { name: "--comfyui", problem })?)
        }
        (None, Some(text)) => {
            Some(ComfyUrl::parse(&text).map_err(|problem| ConfigError::Environment { name: "COMFYUI_URL", problem })?)
        }
        (None, None) => file.comfyui,
    };
    let mut legacy_panels = file.legacy_panels;
    for text in &flags.legacy_panels {
        let origin = Origin::parse(text).map_err(|problem| ConfigError::Flag { name: "--legacy-panel", problem })?;
        if !legacy_panels.contains(&origin) {
            legacy_panels.push(origin);
        }
    }
    Ok(ServerConfig {
        port,
        bind: file.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        allowed_hosts: file.allowed_hosts,
        origins: file.origins,
        legacy_panels,
        comfyui,
    })
}

#[cfg(test)]
mod tests;
