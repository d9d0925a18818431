//! The home folder: which one it is, whether it can be trusted, and where everything in it lies. It must not know
//! what the files hold.
//!
//! A [`Home`] exists only after these checks, and every store asks for one: no store can choose the person's real
//! folder by itself (rule D5).

mod token;

pub use token::{Token, TokenError, TokenFile};

use super::files;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the default home in the person's own folder; the earlier programs use the same.
const DEFAULT_NAME: &str = ".comfyui-mcp";

/// Which folder the person wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeChoice {
    /// This one (`--home`).
    Given(PathBuf),
    /// `.comfyui-mcp` in the person's own folder. Refused while running under a test.
    Default,
}

/// What the process runs in, as far as the choice of a home depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The person's own folder.
    pub user_folder: Option<PathBuf>,
    /// A test runner started this process.
    pub under_test: bool,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self::from_environment(std::env::home_dir(), cfg!(test), |name| std::env::var_os(name))
    }

    /// Reads them from an environment: a test build, `NEXTEST` or `COMFY_ORCHESTRATOR_TEST` (set and not empty, not `0`)
    /// mean a test.
    pub fn from_environment(
        user_folder: Option<PathBuf>,
        test_build: bool,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let says_yes = |name| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
        let user_folder = user_folder.filter(|folder| !folder.as_os_str().is_empty());
        Self { user_folder, under_test: test_build || says_yes("NEXTEST") || says_yes("COMFY_ORCHESTRATOR_TEST") }
    }
}

/// A home folder that exists, is ours and can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

/// Why a folder cannot be the home.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The person's own folder is unknown. Code `no_user_folder`.
    #[error("the folder for the default home is unknown because HOME is not set: set it, or give a folder with --home")]
    NoUserFolder,
    /// A test did not say where to write (rule D5). Code `real_home_under_test`.
    #[error("a test must not write into the person's own home folder: give a scratch folder with --home")]
    RealHomeUnderTest,
    /// Something else lies there. Code `not_a_folder`.
    #[error("{} is not a folder: move it away, or give another folder with --home", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Another user owns the folder, the link to it, or what the link points to. Code `foreign_owner`.
    #[error("{} belongs to another user: change its owner, or give another folder with --home", path.display())]
    ForeignOwner {
        /// The folder or link.
        path: PathBuf,
    },
    /// Others may write there, and it does not look like a home of ours. Code `writable_by_others`.
    #[error("other users can write into {}: run `chmod go-w` on it, or give another folder with --home", path.display())]
    WritableByOthers {
        /// The folder.
        path: PathBuf,
    },
    /// Nothing can be created there. Code `not_writable`.
    #[error("{} cannot be written ({source}): make it writable, or give another folder with --home", path.display())]
    NotWritable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It can be neither read nor created. Code `io`.
    #[error("{} cannot be used ({source}): check the path, or give another folder with --home", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl HomeError {
    /// Stable code: `no_user_folder`, `real_home_under_test`, `not_a_folder`, `foreign_owner`, `writable_by_others`,
    /// `not_writable`, `io`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoUserFolder => "no_user_folder",
            Self::RealHomeUnderTest => "real_home_under_test",
            Self::NotAFolder { .. } => "not_a_folder",
            Self::ForeignOwner { .. } => "foreign_owner",
            Self::WritableByOthers { .. } => "writable_by_others",
            Self::NotWritable { .. } => "not_writable",
            Self::Io { .. } => "io",
        }
    }
}

impl Home {
    /// Finds the chosen folder, creates it (0700) when it is missing, and checks that it is ours alone.
    ///
    /// A symbolic link is followed once, here, and only if both link and target are ours; afterwards the target is
    /// used, so that re-aiming the link changes nothing for a running daemon.
    ///
    /// # Errors
    /// Each [`HomeError`] says what to do.
    pub fn prepare(choice: &HomeChoice, surroundings: &Surroundings) -> Result<Self, HomeError> {
        let path = match choice {
            HomeChoice::Given(path) => path.clone(),
            HomeChoice::Default if surroundings.under_test => return Err(HomeError::RealHomeUnderTest),
            HomeChoice::Default => surroundings.user_folder.as_ref().ok_or(HomeError::NoUserFolder)?.join(DEFAULT_NAME),
        };
        let fail = |source| HomeError::Io { path: path.clone(), source };
        match fs::symlink_metadata(&path) {
            Ok(found) => check_owner(&path, &found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                files::create_private_folder(&path).map_err(|source| cannot_create(&path, source))?;
            }
            Err(error) => return Err(fail(error)),
        }
        let root = fs::canonicalize(&path).map_err(fail)?;
        let found = fs::metadata(&root).map_err(fail)?;
        if !found.is_dir() {
            return Err(HomeError::NotAFolder { path: root });
        }
        check_owner(&root, &found)?;
        close_to_others(&root)?;
        check_writable(&root)?;
        Ok(Self { root })
    }

    /// The folder, without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What the daemon of a port owns: its lock says which process that is.
    pub fn daemon(&self, port: u16) -> PathBuf {
        self.root.join(format!("daemon-{port}"))
    }

    /// Where a daemon without a terminal writes its messages.
    pub fn daemon_log(&self, port: u16) -> PathBuf {
        self.root.join(format!("daemon-{port}.log"))
    }

    /// The conversation log of a port.
    pub fn conversations(&self, port: u16) -> PathBuf {
        self.root.join(format!("conversations-{port}.db"))
    }

    /// The session file of a port.
    pub fn sessions(&self, port: u16) -> PathBuf {
        self.root.join("sessions").join(format!("panel-sessions-{port}.json"))
    }

    /// The capability token.
    pub fn token(&self) -> PathBuf {
        self.root.join("token")
    }
}

fn cannot_create(path: &Path, source: io::Error) -> HomeError {
    let path = path.to_owned();
    match files::trouble(&source) {
        files::Trouble::ReadOnly => HomeError::NotWritable { path, source },
        files::Trouble::DiskFull | files::Trouble::Other => HomeError::Io { path, source },
    }
}

#[cfg(unix)]
fn check_owner(path: &Path, found: &fs::Metadata) -> Result<(), HomeError> {
    use std::os::unix::fs::MetadataExt;
    if found.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(HomeError::ForeignOwner { path: path.to_owned() })
}

#[cfg(not(unix))]
fn check_owner(_path: &Path, _found: &fs::Metadata) -> Result<(), HomeError> {
    Ok(())
}

/// A folder that is plainly meant for us (our name, or empty) loses the permissions of others. Any other folder that
/// the person names keeps its mode, and is refused when others could exchange our files in it.
#[cfg(unix)]
fn close_to_others(root: &Path) -> Result<(), HomeError> {
    use std::os::unix::fs::PermissionsExt;
    let fail = |source| HomeError::Io { path: root.to_owned(), source };
    let mode = fs::metadata(root).map_err(fail)?.permissions().mode();
    let sticky = mode & 0o1000 != 0;
    let named_ours = root.file_name().is_some_and(|name| name == DEFAULT_NAME);
    let meant_for_us = !sticky && (named_ours || fs::read_dir(root).map_err(fail)?.next().is_none());
    if meant_for_us {
        return files::tighten(root).map_err(fail);
    }
    if mode & 0o022 != 0 {
        return Err(HomeError::WritableByOthers { path: root.to_owned() });
    }
    Ok(())
}

#[cfg(not(unix))]
fn close_to_others(_root: &Path) -> Result<(), HomeError> {
    Ok(())
}

/// Permissions alone do not tell (read-only file systems, quotas): a file is created and removed.
fn check_writable(root: &Path) -> Result<(), HomeError> {
    let probe = root.join(format!(".write-probe-{}", std::process::id()));
    files::private_file()
        .create(true)
        .truncate(true)
        .open(&probe)
        .and_then(|_| fs::remove_file(&probe))
        .map_err(|source| HomeError::NotWritable { path: root.to_owned(), source })
}

#[cfg(test)]
mod tests;
