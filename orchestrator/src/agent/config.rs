//! What a person can configure of one agent: the table `[agents.NAME]`. Knows no driver.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The kinds of agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    /// The Claude CLI.
    Claude,
    /// Any program that speaks the Agent Client Protocol on its standard streams.
    Acp,
    /// The built-in helper, which needs no model and no program.
    Demo,
}

/// One agent's settings.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Table")]
pub struct AgentConfig {
    /// Which driver.
    pub kind: AgentKind,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment variables for the program, over those of the daemon.
    pub env: BTreeMap<String, String>,
    /// The model to use when no other is chosen.
    pub model: Option<String>,
    /// Models to offer.
    pub models: Vec<String>,
    /// Tools of the agent's own that it may use besides ours, by their exact name.
    pub allow_tools: Vec<String>,
    /// Claude: hand on `ANTHROPIC_API_KEY`. Without it a key that happens to be set never pays for a subscriber's talk.
    pub use_api_key: bool,
    /// ACP: the mode to put a session into, by the agent's own name of it; `default` where that is offered.
    pub mode: Option<String>,
    /// Demo: milliseconds between two words.
    pub word_delay_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kind: AgentKind,
    command: Option<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    model: Option<String>,
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    allow_tools: Vec<String>,
    #[serde(default)]
    use_api_key: bool,
    mode: Option<String>,
    word_delay_ms: Option<u64>,
}

/// Why a table is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An ACP agent without a program.
    #[error(
        "an agent of kind \"acp\" needs command = [\"program\", \"argument\", …], for example [\"gemini\", \"--acp\"]"
    )]
    CommandMissing,
    /// `command = []` or an empty program name.
    #[error("command must begin with the name of a program")]
    CommandEmpty,
    /// A program for the built-in agent.
    #[error("an agent of kind \"demo\" is built in; remove command")]
    CommandForDemo,
}

impl AgentConfig {
    /// The settings of a kind when nothing else is said.
    pub fn new(kind: AgentKind) -> Self {
        Self {
            kind,
            command: match kind {
                AgentKind::Claude => vec!["claude".into()],
                AgentKind::Acp | AgentKind::Demo => Vec::new(),
            },
            env: BTreeMap::new(),
            model: None,
            models: Vec::new(),
            allow_tools: Vec::new(),
            use_api_key: false,
            mode: None,
            word_delay_ms: 25,
        }
    }
}

impl TryFrom<Table> for AgentConfig {
    type Error = ConfigError;

    fn try_from(table: Table) -> Result<Self, ConfigError> {
        let plain = Self::new(table.kind);
        let command = match (table.kind, table.command) {
            (AgentKind::Demo, Some(_)) => return Err(ConfigError::CommandForDemo),
            (AgentKind::Acp, None) => return Err(ConfigError::CommandMissing),
            (AgentKind::Claude | AgentKind::Acp, Some(command)) => {
                if command.first().is_none_or(String::is_empty) {
                    return Err(ConfigError::CommandEmpty);
                }
                command
            }
            (AgentKind::Claude | AgentKind::Demo, None) => plain.command,
        };
        Ok(Self {
            kind: table.kind,
            command,
            env: table.env,
            model: table.model,
            models: table.models,
            allow_tools: table.allow_tools,
            use_api_key: table.use_api_key,
            mode: table.mode,
            word_delay_ms: table.word_delay_ms.unwrap_or(plain.word_delay_ms),
        })
    }
}

// By hand: the values of environment variables are secrets as often as not.
impl fmt::Debug for AgentConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AgentConfig")
            .field("kind", &self.kind)
            .field("command", &self.command)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("model", &self.model)
            .field("models", &self.models)
            .field("allow_tools", &self.allow_tools)
            .field("use_api_key", &self.use_api_key)
            .field("mode", &self.mode)
            .field("word_delay_ms", &self.word_delay_ms)
            .finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<AgentConfig, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn claude_needs_no_command_and_acp_does() {
        assert_eq!(read(r#"{"kind":"claude"}"#).unwrap(), AgentConfig::new(AgentKind::Claude));
        assert!(read(r#"{"kind":"acp"}"#).unwrap_err().contains("needs command"));
        assert!(read(r#"{"kind":"acp","command":[]}"#).unwrap_err().contains("name of a program"));
        assert!(read(r#"{"kind":"demo","command":["x"]}"#).unwrap_err().contains("built in"));
        assert_eq!(read(r#"{"kind":"acp","command":["gemini","--acp"]}"#).unwrap().command, ["gemini", "--acp"]);
    }

    #[test]
    fn unknown_fields_and_kinds_are_refused() {
        assert!(read(r#"{"kind":"claude","bypass":true}"#).unwrap_err().contains("bypass"));
        assert!(read(r#"{"kind":"other"}"#).is_err());
    }

    #[test]
    fn no_secret_shows_in_the_debug_form() {
        let config = read(r#"{"kind":"claude","env":{"KEY":"secret-value"}}"#).unwrap();
        let shown = format!("{config:?}");
        assert!(shown.contains("KEY") && !shown.contains("secret-value"), "{shown}");
    }
}
