//! `log …`: what was said, read from the log of a port while its daemon runs or not. It changes nothing.

use crate::config::Config;
use crate::history;
use crate::store::files;
use crate::store::home::Home;
use crate::store::log::{LogError, LogStore, SqliteLog};
use clap::{Args, Subcommand};
use routing_core::frame::{ExportFormat, PastSession};
use routing_core::id::{AgentSessionId, Backend, ConversationKey};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Most rows that a search prints.
const MOST_HITS: usize = 200;

/// What can be read.
#[derive(Clone, Debug, Subcommand)]
pub enum LogCommand {
    /// List the sessions of an agent's conversation, the newest first.
    Sessions(Which),
    /// Find what was said: rows that have every word, the newest first.
    Search {
        /// Words, not an expression.
        #[arg(required = true)]
        words: Vec<String>,
        /// Whose log.
        #[command(flatten)]
        which: Which,
    },
    /// Write the conversation as a document.
    Export {
        /// md to read, json to work with.
        #[arg(long, value_enum, default_value_t = Format::Md)]
        format: Format,
        /// Only this session: its number or id in `log sessions` [default: the whole log].
        #[arg(long, value_name = "N")]
        session: Option<String>,
        /// With what only the agent was told.
        #[arg(long)]
        all: bool,
        /// A new file for it [default: standard output].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Whose log.
        #[command(flatten)]
        which: Which,
    },
}

impl LogCommand {
    /// Whose log.
    pub fn which(&self) -> &Which {
        match self {
            Self::Sessions(which) | Self::Search { which, .. } | Self::Export { which, .. } => which,
        }
    }
}

/// Whose log.
#[derive(Clone, Debug, Default, Args)]
pub struct Which {
    /// Port of the daemon that wrote it [default: 9101].
    #[arg(long)]
    pub port: Option<u16>,
    /// NAME of [agents.NAME] [default: the only one that has a log, else the agent of tabs that name none].
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

/// The form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Markdown.
    Md,
    /// JSON.
    Json,
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no log of that port.
    #[error("there is no log of port {port} in {home}. {}", one_of("Name another --home", "--port", ports))]
    NoLog {
        /// Which port.
        port: u16,
        /// Where it was looked for.
        home: String,
        /// Ports that have one there.
        ports: Vec<String>,
    },
    /// The agent has no log.
    #[error("nothing was said with {agent} here. {}", one_of("Nor with any other agent", "--agent", known))]
    NoConversation {
        /// Whose.
        agent: String,
        /// Whose there are.
        known: Vec<String>,
    },
    /// There is no such session.
    #[error("there is no session {name}: `log sessions` lists them")]
    NoSession {
        /// What was asked for.
        name: String,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The document cannot be written.
    #[error("{} cannot be written ({source}): name a file that is not there yet, in a folder that is", path.display())]
    Output {
        /// Where to.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl ReadError {
    /// Stable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoLog { .. } => "no_log",
            Self::NoConversation { .. } => "no_conversation",
            Self::NoSession { .. } => "no_such_session",
            Self::Log(error) => error.code(),
            Self::Output { .. } => "output",
        }
    }
}

/// Carries out `log …`; returns what to print.
///
/// # Errors
/// What cannot be read, and why.
pub fn log(command: &LogCommand, config: &Config, home: &Home, as_json: bool) -> Result<String, ReadError> {
    let port = config.server.port;
    if !home.conversations(port).exists() {
        return Err(ReadError::NoLog { port, home: home.root().display().to_string(), ports: ports(home) });
    }
    let log = SqliteLog::open_to_read(home, port)?;
    let key = conversation(&log, command.which(), config)?;
    match command {
        LogCommand::Sessions(_) => {
            let sessions = history::past(&log, &key)?.sessions();
            if as_json {
                return Ok(format!("{}\n", json!({"conversation": key, "sessions": sessions})));
            }
            Ok(sessions.iter().enumerate().map(|(at, session)| line(at + 1, session)).collect())
        }
        LogCommand::Search { words, .. } => {
            let (hits, more) = history::search(&log, &key, &words.join(" "), MOST_HITS)?;
            if as_json {
                return Ok(format!("{}\n", json!({"conversation": key, "hits": hits, "more": more})));
            }
            let mut text: String = hits
                .iter()
                .map(|hit| format!("{}  {:>6}  {:<6}  {}\n", history::moment(hit.at_ms), hit.seq, hit.kind, hit.text))
                .collect();
            if hits.is_empty() {
                text.push_str("Nothing was found.\n");
            } else if more {
                text.push_str("There is more; add a word.\n");
            }
            Ok(text)
        }
        LogCommand::Export { format, session, all, output, .. } => {
            let format = match format {
                Format::Md => ExportFormat::Md,
                Format::Json => ExportFormat::Json,
            };
            let session = session.as_deref().map(|name| named(&log, &key, name)).transpose()?;
            let document = history::document(&log, &key, session.as_ref(), format, *all)?
                .ok_or_else(|| ReadError::NoSession { name: session.map(|id| id.0).unwrap_or_default() })?;
            let Some(path) = output else { return Ok(document) };
            let failed = |source| ReadError::Output { path: path.clone(), source };
            let mut file = files::private_file().create_new(true).open(path).map_err(failed)?;
            file.write_all(document.as_bytes()).map_err(failed)?;
            let bytes = document.len();
            Ok(match as_json {
                true => format!("{}\n", json!({"file": path, "bytes": bytes})),
                false => format!("{} holds {bytes} bytes.\n", path.display()),
            })
        }
    }
}

/// What to name instead, in a sentence.
fn one_of(none: &str, option: &str, known: &[String]) -> String {
    match known {
        [] => none.to_owned(),
        known => format!("There is one with {option} {}", known.join(&format!(", or {option} "))),
    }
}

/// Ports that have a log in this home.
fn ports(home: &Home) -> Vec<String> {
    let names = std::fs::read_dir(home.root()).into_iter().flatten().flatten();
    let mut ports: Vec<u16> = names
        .filter_map(|entry| {
            entry.file_name().to_str()?.strip_prefix("conversations-")?.strip_suffix(".db")?.parse().ok()
        })
        .collect();
    ports.sort_unstable();
    ports.iter().map(u16::to_string).collect()
}

fn conversation(log: &dyn LogStore, which: &Which, config: &Config) -> Result<ConversationKey, ReadError> {
    let known = log.conversations()?;
    let wanted = match (&which.agent, known.as_slice()) {
        (None, [only]) => only.clone(),
        (name, _) => ConversationKey::of(&Backend::parse(name.as_deref().unwrap_or(&config.default_agent))),
    };
    if known.contains(&wanted) {
        return Ok(wanted);
    }
    let names: Vec<String> = known.iter().map(|key| key.backend().to_string()).collect();
    Err(ReadError::NoConversation { agent: wanted.backend().to_string(), known: names })
}

/// A session by its number in the list, or by its id.
fn named(log: &dyn LogStore, key: &ConversationKey, name: &str) -> Result<AgentSessionId, ReadError> {
    let sessions = history::past(log, key)?.sessions();
    let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let found = number.and_then(|at| sessions.get(at)).or_else(|| sessions.iter().find(|one| one.session_id.0 == name));
    found.map(|one| one.session_id.clone()).ok_or_else(|| ReadError::NoSession { name: name.to_owned() })
}

fn line(number: usize, session: &PastSession) -> String {
    let title = session.title.split_whitespace().collect::<Vec<_>>().join(" ");
    let current = if session.current { "  (goes on)" } else { "" };
    let (moment, count, id) = (history::moment(session.updated_at), session.message_count, &session.session_id);
    format!("{number:>3}  {moment}  {count:>4} messages  {id}{current}\n     {title}\n")
}
