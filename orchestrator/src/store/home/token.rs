//! The capability token: 256 bits from the system's generator in a file that only its owner can read. It is read
//! again whenever the file changed, so that a rotation or a removal works at once. It must not know who presents it.

use super::Home;
use crate::store::files;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use subtle::ConstantTimeEq;

/// Bytes of randomness; the text has twice as many hexadecimal digits.
const BYTES: usize = 32;

/// A token. It is never printed by accident: `Debug` hides it and there is no `Display`.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Whether this is what somebody presented, compared in constant time.
    pub fn matches(&self, presented: &str) -> bool {
        self.0.as_bytes().ct_eq(presented.as_bytes()).into()
    }

    /// The text, for the one who sends it along. Never to be logged.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn generate() -> Result<Self, io::Error> {
        let mut bytes = [0_u8; BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let well_formed = text.len() == 2 * BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        well_formed.then(|| Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(hidden)")
    }
}

/// Why there is no token. Everybody is refused then.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file was removed: the token is revoked. Code `missing`.
    #[error("{} is gone, so nobody is let in: rotate the token to make a new one", path.display())]
    Missing {
        /// The token file.
        path: PathBuf,
    },
    /// The file holds no token, or is no plain file. Code `malformed`.
    #[error("{} holds no token of 64 hexadecimal digits: rotate the token to make a new one", path.display())]
    Malformed {
        /// The token file.
        path: PathBuf,
    },
    /// The disk failed. Code `io`.
    #[error("{} cannot be read or written ({source}): check its permissions and the disk", path.display())]
    Io {
        /// The token file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl TokenError {
    /// Stable code: `missing`, `malformed`, `io`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::Malformed { .. } => "malformed",
            Self::Io { .. } => "io",
        }
    }
}

/// The token file of a home.
pub struct TokenFile {
    path: PathBuf,
    seen: Mutex<Option<(Stamp, Token)>>,
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What tells one state of the file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    /// Device, inode, and the time of the last change to it; zeros where the system has none.
    node: (u64, u64, i64, i64),
}

impl Stamp {
    fn of(found: &fs::Metadata) -> Self {
        #[cfg(unix)]
        let node = {
            use std::os::unix::fs::MetadataExt;
            (found.dev(), found.ino(), found.ctime(), found.ctime_nsec())
        };
        #[cfg(not(unix))]
        let node = (0, 0, 0, 0);
        Self { modified: found.modified().ok(), length: found.len(), node }
    }
}

impl TokenFile {
    /// The token file of a home; a token is made when there is none.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] for a file that holds something else (it is not replaced), [`TokenError::Io`].
    pub fn open(home: &Home) -> Result<Self, TokenError> {
        let file = Self { path: home.token(), seen: Mutex::new(None) };
        match file.current() {
            Ok(_) => files::tighten(&file.path).map_err(|source| file.failed(source))?,
            Err(TokenError::Missing { .. }) => {
                file.rotate()?;
            }
            Err(error) => return Err(error),
        }
        Ok(file)
    }

    /// The token as the file has it now. The file is looked at each time and read when it changed.
    ///
    /// # Errors
    /// Any [`TokenError`]: then nobody is let in.
    pub fn current(&self) -> Result<Token, TokenError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) => {
                *seen = None;
                return Err(self.failed(error));
            }
        };
        let stamp = Stamp::of(&found);
        if let Some((known, token)) = &*seen
            && *known == stamp
        {
            return Ok(token.clone());
        }
        *seen = None;
        let token = self.read(&found)?;
        *seen = Some((stamp, token.clone()));
        Ok(token)
    }

    /// Whether somebody presented the token that holds now.
    ///
    /// # Errors
    /// As [`TokenFile::current`]: treat it as a refusal.
    pub fn accepts(&self, presented: &str) -> Result<bool, TokenError> {
        Ok(self.current()?.matches(presented))
    }

    /// Replaces the token; the old one is refused from now on.
    ///
    /// # Errors
    /// [`TokenError::Io`]: the old token holds.
    pub fn rotate(&self) -> Result<Token, TokenError> {
        let token = Token::generate().map_err(|source| self.failed(source))?;
        // Daemons of several ports share a home: each writes to a name of its own.
        let temporary = files::with_suffix(&self.path, &format!(".tmp-{}", uuid::Uuid::new_v4()));
        let text = format!("{}\n", token.0);
        if let Err(source) = files::replace(&self.path, &temporary, text.as_bytes()) {
            // The name is unique, so a file that stays is a leftover for nobody; the first error is the one to report.
            let _ = fs::remove_file(&temporary);
            return Err(self.failed(source));
        }
        Ok(token)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self, found: &fs::Metadata) -> Result<Token, TokenError> {
        let malformed = || TokenError::Malformed { path: self.path.clone() };
        if !found.is_file() || found.len() > 4 * BYTES as u64 {
            return Err(malformed());
        }
        match fs::read_to_string(&self.path) {
            Ok(text) => Token::parse(&text).ok_or_else(malformed),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(malformed()),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, source: io::Error) -> TokenError {
        let path = self.path.clone();
        if source.kind() == io::ErrorKind::NotFound {
            return TokenError::Missing { path };
        }
        TokenError::Io { path, source }
    }
}
