//! The owner lock: one daemon to a file. The lock lies on the open file, so it ends with the process however that
//! dies, and nothing has to be cleaned up. Its owner may write into it who it is; that is believed only while the lock
//! is held.

use super::files;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// [`OwnerLock::look`] holds a lock for a moment: one that is still held after this long has an owner.
const LOOKED_AT: Duration = Duration::from_millis(100);
/// Most bytes of what an owner says of itself.
const MOST_BYTES: u64 = 16 << 10;

/// Held as long as the value lives.
#[derive(Debug)]
pub struct OwnerLock {
    file: File,
    path: PathBuf,
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// The port that it serves.
    pub port: u16,
    /// Its epoch, as `/healthz` tells it.
    pub epoch: String,
    /// Its version.
    pub version: String,
    /// Its program.
    pub program: PathBuf,
    /// What the program's file was when it started: [`mark`].
    pub program_mark: Option<String>,
    /// When it started, in milliseconds since 1970.
    pub started_ms: i64,
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, port, version, .. } = self;
        write!(formatter, "comfy-orchestrator {version}, process {pid}, port {port}")
    }
}

/// How a lock stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owned {
    /// Nobody holds it.
    Free,
    /// Somebody does, and says so; `None`: it does not say who it is.
    By(Option<Owner>),
}

/// What tells one build of a program from another: its size and when it was written. `None`: it cannot be read.
pub fn mark(program: &Path) -> Option<String> {
    let found = fs::metadata(program).ok()?;
    let written = found.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(format!("{}-{}", found.len(), written.as_nanos()))
}

/// Why the lock was not obtained.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another holder lives. Code `in_use`.
    #[error(
        "{} is held by another running daemon{}: end it with `comfy-orchestrator stop`, or choose another port or home",
        path.display(), owner.as_ref().map(|owner| format!(" ({owner})")).unwrap_or_default()
    )]
    InUse {
        /// The lock file.
        path: PathBuf,
        /// Who holds it, if it says so.
        owner: Option<Box<Owner>>,
    },
    /// The lock file could not be opened or locked. Code `io`.
    #[error("{} could not be locked ({source}): check that its folder is writable", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl LockError {
    /// Stable code: `in_use`, `io`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "in_use",
            Self::Io { .. } => "io",
        }
    }
}

impl OwnerLock {
    /// Takes the lock `<file>.lock`; waits for no other owner.
    ///
    /// # Errors
    /// [`LockError::InUse`] when somebody holds it, in this process or another.
    pub fn acquire(file: &Path) -> Result<Self, LockError> {
        let path = files::with_suffix(file, ".lock");
        let opened = files::private_file().create(true).truncate(false).open(&path);
        let lock = opened.map_err(|source| LockError::Io { path: path.clone(), source })?;
        let patience = Instant::now() + LOOKED_AT;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { file: lock, path }),
                Err(TryLockError::WouldBlock) if Instant::now() < patience => std::thread::sleep(LOOKED_AT / 10),
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::InUse { owner: said(&path).map(Box::new), path });
                }
                Err(TryLockError::Error(source)) => return Err(LockError::Io { path, source }),
            }
        }
    }

    /// How the lock of a file stands. Nothing is made or changed.
    ///
    /// # Errors
    /// The lock file cannot be read or tried.
    pub fn look(file: &Path) -> io::Result<Owned> {
        let path = files::with_suffix(file, ".lock");
        let opened = match File::open(&path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Owned::Free),
            Err(error) => return Err(error),
        };
        match opened.try_lock_shared() {
            Ok(()) => Ok(Owned::Free),
            Err(TryLockError::WouldBlock) => Ok(Owned::By(said(&path))),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Writes who holds it.
    ///
    /// # Errors
    /// The file cannot be written; the lock is held all the same.
    pub fn sign(&mut self, owner: &Owner) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(serde_json::json!(owner).to_string().as_bytes())
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn said(path: &Path) -> Option<Owner> {
    let mut text = String::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is the failure of the test")]
    use super::*;

    #[test]
    fn a_second_owner_is_refused_by_name_until_the_first_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("thing.db");
        let first = OwnerLock::acquire(&file).unwrap();
        let refused = OwnerLock::acquire(&file).unwrap_err();
        assert_eq!(refused.code(), "in_use");
        assert!(refused.to_string().contains("thing.db.lock"));
        drop(first);
        OwnerLock::acquire(&file).unwrap();
    }

    #[test]
    fn an_owner_says_who_it_is_and_is_believed_while_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("daemon");
        assert_eq!(OwnerLock::look(&file).unwrap(), Owned::Free);
        assert!(!folder.path().join("daemon.lock").exists(), "a look makes nothing");
        let owner = Owner {
            pid: 7,
            port: 9101,
            epoch: "e1".into(),
            version: "1.2.3".into(),
            program: "/opt/x".into(),
            program_mark: None,
            started_ms: 5,
        };
        let mut lock = OwnerLock::acquire(&file).unwrap();
        assert_eq!(OwnerLock::look(&file).unwrap(), Owned::By(None));
        lock.sign(&Owner { version: "a longer one".into(), ..owner.clone() }).unwrap();
        lock.sign(&owner).unwrap();
        assert_eq!(OwnerLock::look(&file).unwrap(), Owned::By(Some(owner)));
        let refused = OwnerLock::acquire(&file).unwrap_err().to_string();
        assert!(refused.contains("comfy-orchestrator 1.2.3, process 7, port 9101"), "{refused}");
        drop(lock);
        assert_eq!(OwnerLock::look(&file).unwrap(), Owned::Free);
    }
}
