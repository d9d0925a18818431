//! What is wrong with a configuration, where, and what would be right.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
}

impl Place {
    pub(super) fn of_byte(file: PathBuf, text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        Self { file, line: before.matches('\n').count() + 1, column: before[start..].chars().count() + 1 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no such file. Code `config_missing`.
    #[error("{} does not exist: correct --config, or leave it out", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read. Code `config_unreadable`.
    #[error("{} cannot be read ({source}): check its permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no TOML. Code `config_syntax`.
    #[error("{place}: {problem}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser expected.
        problem: String,
    },
    /// A key that means nothing. Code `config_unknown_key`.
    #[error("{place}: there is no key `{key}` in {section}{}", hint(nearest.as_deref()))]
    UnknownKey {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// The section, in words.
        section: String,
        /// What may have been meant, if anything is near.
        nearest: Option<String>,
    },
    /// A value that does not fit. Code `config_value`.
    #[error("{place}: `{key}`: {problem}")]
    Value {
        /// Where.
        place: Place,
        /// The key with its section.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A variable that does not fit. Code `environment_value`.
    #[error("the environment variable {name}: {problem}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A flag that does not fit. Code `flag_value`.
    #[error("{name}: {problem}")]
    Flag {
        /// The flag.
        name: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
}

impl ConfigError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "config_missing",
            Self::Unreadable { .. } => "config_unreadable",
            Self::Syntax { .. } => "config_syntax",
            Self::UnknownKey { .. } => "config_unknown_key",
            Self::Value { .. } => "config_value",
            Self::Environment { .. } => "environment_value",
            Self::Flag { .. } => "flag_value",
        }
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"))
}

/// The candidate that looks most like a word, if any does.
pub(crate) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(&word.to_lowercase(), candidate);
    candidates
        .iter()
        .map(|&candidate| (likeness(candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

/// `there is no agent `x`; did you mean `y`?`, or what there is.
pub(super) fn no_such(what: &str, word: &str, candidates: &[&str]) -> String {
    let other = match nearest(word, candidates) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("there is: {}", candidates.join(", ")),
    };
    format!("there is no {what} `{word}`; {other}")
}
