//! Why the log could not do something, each with a stable code and the remedy.

use crate::store::lock::LockError;
use routing_core::id::{ConversationKey, Seq};
use rusqlite::ErrorCode;
use std::path::PathBuf;

/// Why the log could not do something. After any of these nothing of the request was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// No space or no quota left.
    #[error("the disk of the conversation log is full ({detail}): free some space and repeat")]
    DiskFull {
        /// What the database said.
        detail: String,
    },
    /// The file or its file system cannot be written.
    #[error("the conversation log cannot be written ({detail}): make its file and folder writable and repeat")]
    ReadOnly {
        /// What the database said.
        detail: String,
    },
    /// Another program holds the database.
    #[error("another program holds the conversation log ({detail}): close that program and repeat")]
    Busy {
        /// What the database said.
        detail: String,
    },
    /// Any other failure of the disk.
    #[error("the disk of the conversation log failed ({detail}): check the disk and repeat")]
    Io {
        /// What the system or the database said.
        detail: String,
    },
    /// The file was moved or deleted under the running daemon.
    #[error("{} is gone or was replaced: put it back and repeat, or restart the daemon to begin a new one", path.display())]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// The database does not take what it was given. A bug.
    #[error("the conversation log does not take this ({detail}): report this as a bug")]
    Internal {
        /// What the database said.
        detail: String,
    },
    /// The content is damaged.
    #[error("the conversation log is damaged ({detail}): stop the daemon, copy the file away and start again")]
    Corrupt {
        /// What is damaged.
        detail: String,
    },
    /// The file was written by a newer program; it was not touched.
    #[error("{} has version {found}, this program knows {known}: start the newer program, or choose another home", path.display())]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: i64,
        /// Newest version known here.
        known: i64,
    },
    /// Another daemon owns the file.
    #[error("{} is held by another running daemon: stop that one, or choose another port or home", path.display())]
    InUse {
        /// The lock file.
        path: PathBuf,
    },
    /// A row to settle is not an inbound row of the conversation. A bug of the caller.
    #[error("{conversation} has no inbound row {seq} to settle: report this as a bug")]
    UnknownRow {
        /// The conversation.
        conversation: ConversationKey,
        /// What was to be settled.
        seq: Seq,
    },
    /// The log was closed.
    #[error("the conversation log is closed: the daemon is shutting down, repeat after it has restarted")]
    Closed,
}

impl LogError {
    /// Stable code: `disk_full`, `read_only`, `log_locked`, `disk_error`, `log_gone`, `log_internal`, `log_damaged`,
    /// `newer_version`, `in_use`, `unknown_row`, `log_closed`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::DiskFull { .. } => "disk_full",
            Self::ReadOnly { .. } => "read_only",
            Self::Busy { .. } => "log_locked",
            Self::Io { .. } => "disk_error",
            Self::Gone { .. } => "log_gone",
            Self::Internal { .. } => "log_internal",
            Self::Corrupt { .. } => "log_damaged",
            Self::NewerVersion { .. } => "newer_version",
            Self::InUse { .. } => "in_use",
            Self::UnknownRow { .. } => "unknown_row",
            Self::Closed => "log_closed",
        }
    }

    /// Whether the same write may succeed later although nothing but the disk changes.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::DiskFull { .. } | Self::ReadOnly { .. } | Self::Busy { .. } | Self::Io { .. } | Self::Gone { .. } => {
                true
            }
            Self::Internal { .. }
            | Self::Corrupt { .. }
            | Self::NewerVersion { .. }
            | Self::InUse { .. }
            | Self::UnknownRow { .. }
            | Self::Closed => false,
        }
    }
}

impl From<rusqlite::Error> for LogError {
    fn from(error: rusqlite::Error) -> Self {
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull { detail },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly { detail },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { detail },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt { detail },
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::FileLockingProtocolFailed) => {
                Self::Io { detail }
            }
            Some(_) | None => Self::Internal { detail },
        }
    }
}

impl From<std::io::Error> for LogError {
    fn from(error: std::io::Error) -> Self {
        use crate::store::files::{Trouble, trouble};
        let detail = error.to_string();
        match trouble(&error) {
            Trouble::DiskFull => Self::DiskFull { detail },
            Trouble::ReadOnly => Self::ReadOnly { detail },
            Trouble::Other => Self::Io { detail },
        }
    }
}

impl From<LockError> for LogError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::InUse { path, .. } => Self::InUse { path },
            LockError::Io { source, .. } => Self::from(source),
        }
    }
}
