//! The owner lock: one daemon to a file. The lock lies on the open file, so it ends with the process however that
//! dies; no process id is stored and nothing has to be cleaned up.

use super::files;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Held as long as the value lives.
#[derive(Debug)]
pub struct OwnerLock {
    _file: File,
    path: PathBuf,
}

/// Why the lock was not obtained.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another holder lives. Code `in_use`.
    #[error("{} is held by another running daemon: stop that one, or choose another port or home", path.display())]
    InUse {
        /// The lock file.
        path: PathBuf,
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
    /// Takes the lock `<file>.lock`, without waiting.
    ///
    /// # Errors
    /// [`LockError::InUse`] when somebody holds it, in this process or another.
    pub fn acquire(file: &Path) -> Result<Self, LockError> {
        let path = files::with_suffix(file, ".lock");
        let opened = files::private_file().create(true).truncate(false).open(&path);
        let lock = opened.map_err(|source| LockError::Io { path: path.clone(), source })?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { _file: lock, path }),
            Err(TryLockError::WouldBlock) => Err(LockError::InUse { path }),
            Err(TryLockError::Error(source)) => Err(LockError::Io { path, source }),
        }
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
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
}
