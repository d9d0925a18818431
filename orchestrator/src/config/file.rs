//! The TOML file: its sections and keys, and where a mistake in it stands.

use super::error::{ConfigError, Place, nearest, no_such};
use super::limits::{self, Limits};
use super::{ComfyUrl, Origin};
use crate::agent::AgentConfig;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a file says. Absent parts stay absent.
#[derive(Default)]
pub(super) struct File {
    pub(super) agents: BTreeMap<String, AgentConfig>,
    pub(super) default_agent: Option<String>,
    pub(super) server: Server,
    pub(super) limits: Limits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    agents: BTreeMap<String, AgentConfig>,
    default_agent: Option<Spanned<String>>,
    #[serde(default)]
    server: Server,
    #[serde(default)]
    limits: limits::Table,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Server {
    pub(super) port: Option<u16>,
    pub(super) bind: Option<IpAddr>,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) origins: Vec<Origin>,
    pub(super) legacy_panels: Vec<Origin>,
    pub(super) comfyui: Option<ComfyUrl>,
}

const TOP_KEYS: &[&str] = &["agents", "default_agent", "server", "limits"];
/// The keys of `[server]`.
pub(super) const SERVER_KEYS: &[&str] = &["port", "bind", "allowed_hosts", "origins", "legacy_panels", "comfyui"];
/// The keys of one agent's table.
pub(super) const AGENT_KEYS: &[&str] =
    &["kind", "command", "env", "model", "models", "allow_tools", "use_api_key", "mode", "word_delay_ms"];

/// Reads and checks a file.
pub(super) fn read(path: &Path) -> Result<File, ConfigError> {
    let text = fs::read_to_string(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ConfigError::Missing { path: path.to_owned() },
        _ => ConfigError::Unreadable { path: path.to_owned(), source },
    })?;
    let reading = Reading { path, text: &text };
    let document = DeTable::parse(&text).map_err(|error| ConfigError::Syntax {
        place: reading.place(error.span()),
        problem: error.message().to_owned(),
    })?;
    reading.check_keys(document.get_ref())?;
    let tables: Tables = toml::from_str(&text).map_err(|error| ConfigError::Value {
        place: reading.place(error.span()),
        key: error.span().and_then(|span| key_at(document.get_ref(), &span)).unwrap_or_else(|| "the file".to_owned()),
        problem: error.message().to_owned(),
    })?;
    let default_agent = tables.default_agent.map(|name| reading.known_agent(name, &tables.agents)).transpose()?;
    Ok(File { agents: tables.agents, default_agent, server: tables.server, limits: tables.limits.into() })
}

struct Reading<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reading<'_> {
    fn place(&self, span: Option<Range<usize>>) -> Place {
        Place::of_byte(self.path.to_owned(), self.text, span.map_or(0, |span| span.start))
    }

    /// Unknown keys first, with the nearest right one: what serde says of them names no neighbour.
    fn check_keys(&self, document: &DeTable<'_>) -> Result<(), ConfigError> {
        self.check(document, TOP_KEYS, "the top level")?;
        for (name, value) in document {
            let DeValue::Table(table) = value.get_ref() else { continue };
            match name.get_ref().as_ref() {
                "server" => self.check(table, SERVER_KEYS, "[server]")?,
                "limits" => self.check(table, limits::Table::KEYS, "[limits]")?,
                "agents" => self.check_agents(table)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_agents(&self, agents: &DeTable<'_>) -> Result<(), ConfigError> {
        for (name, value) in agents {
            let name_text = name.get_ref().as_ref();
            if !is_agent_name(name_text) {
                return Err(ConfigError::Value {
                    place: self.place(Some(name.span())),
                    key: format!("agents.{name_text}"),
                    problem: "a name has 1 to 64 small letters, digits, `-` and `_`, and begins with a letter or digit"
                        .to_owned(),
                });
            }
            if let DeValue::Table(table) = value.get_ref() {
                self.check(table, AGENT_KEYS, &format!("[agents.{name_text}]"))?;
            }
        }
        Ok(())
    }

    fn check(&self, table: &DeTable<'_>, keys: &[&str], section: &str) -> Result<(), ConfigError> {
        for (name, _) in table {
            let key = name.get_ref().as_ref();
            if !keys.contains(&key) {
                return Err(ConfigError::UnknownKey {
                    place: self.place(Some(name.span())),
                    key: key.to_owned(),
                    section: section.to_owned(),
                    nearest: meant(key, keys),
                });
            }
        }
        Ok(())
    }

    fn known_agent(
        &self,
        name: Spanned<String>,
        agents: &BTreeMap<String, AgentConfig>,
    ) -> Result<String, ConfigError> {
        let built_in = super::built_in_agents();
        let agents = if agents.is_empty() { &built_in } else { agents };
        if agents.contains_key(name.get_ref()) {
            return Ok(name.into_inner());
        }
        let names: Vec<&str> = agents.keys().map(String::as_str).collect();
        Err(ConfigError::Value {
            place: self.place(Some(name.span())),
            key: "default_agent".to_owned(),
            problem: no_such("agent", name.get_ref(), &names),
        })
    }
}

fn is_agent_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    (1..=64).contains(&name.len()) && name.bytes().all(fits) && name.as_bytes()[0].is_ascii_alphanumeric()
}

/// The right key: one of this section that looks alike, or the same key in the section where it belongs.
fn meant(key: &str, here: &[&str]) -> Option<String> {
    let elsewhere = [("[server]", SERVER_KEYS), ("[limits]", limits::Table::KEYS), ("[agents.NAME]", AGENT_KEYS)];
    if let Some((section, _)) = elsewhere.iter().find(|(_, keys)| keys.contains(&key)) {
        return Some(format!("`{key}` in {section}"));
    }
    nearest(key, here).map(|nearest| format!("`{nearest}`"))
}

/// The full name of the key whose value holds this place.
fn key_at(table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    for (name, value) in table {
        let key = name.get_ref();
        if let DeValue::Table(inner) = value.get_ref()
            && let Some(deeper) = key_at(inner, span)
        {
            return Some(format!("{key}.{deeper}"));
        }
        let held = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
        if held(value.span()) || held(name.span()) {
            return Some(key.to_string());
        }
    }
    None
}
