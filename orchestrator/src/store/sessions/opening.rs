//! How the session file is found at the start: an interrupted write, an unreadable file, the file of an earlier
//! version (rules D1, D2). Every case leaves what it does not use where a person can find it.

use super::format::{self, Document, Parsed};
use super::{SessionStore, SessionsError, Stamp, State, Stored, temporary_of};
use crate::store::files;
use crate::store::home::Home;
use crate::store::lock::OwnerLock;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

/// No session file is larger; what is, is something else.
const MOST_BYTES: u64 = 8 * 1024 * 1024;

/// The store, and what its opening found.
#[derive(Debug)]
pub struct OpenedSessions {
    /// The store.
    pub store: SessionStore,
    /// Where the sessions came from.
    pub source: Source,
    /// Where an unreadable file was put; the person should be told.
    pub set_aside: Option<PathBuf>,
    /// Why what was found is not safely on disk; the person should be told. The store works in memory meanwhile.
    pub trouble: Option<SessionsError>,
}

/// Where the sessions came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// There were none.
    Empty,
    /// The session file.
    File,
    /// The temporary file of a write that was interrupted before its rename (rule D1).
    Interrupted,
    /// There was no session file (rule D2).
    Import(Import),
}

/// What became of the file in the system's temporary folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Import {
    /// Its entries were taken over, so many. The file was left for an older program.
    Taken(usize),
    /// It was not trusted: unreadable, too large, no plain file, or of another user. It was left as it is.
    Refused(PathBuf),
}

enum Found {
    Missing,
    Good { parsed: Parsed, modified: Option<SystemTime> },
    Unreadable { modified: Option<SystemTime> },
}

impl SessionStore {
    /// Opens the session file of a port. `temporary_folder` is the system's (where versions before 0.50 kept theirs).
    ///
    /// Trouble with the content or with writing does not fail: the store then works in memory and says so.
    ///
    /// # Errors
    /// [`SessionsError::InUse`] when another daemon owns the file; a folder or lock file that cannot be created.
    pub fn open(home: &Home, port: u16, temporary_folder: &Path, now_ms: i64) -> Result<OpenedSessions, SessionsError> {
        let path = home.sessions(port);
        if let Some(folder) = path.parent() {
            files::create_private_folder(folder)
                .and_then(|()| files::tighten(folder))
                .map_err(|source| SessionsError::of(&path, source))?;
        }
        let lock = OwnerLock::acquire(&path)?;
        let legacy = temporary_folder.join(format!("comfyui-mcp-panel-sessions-{port}.json"));
        let mut finding = find(&path, &legacy, now_ms);
        let written = if finding.changed { None } else { Stamp::of(&path) };
        let in_the_way = finding.trouble.is_some();
        let state = State { document: finding.document, written, behind: false, in_the_way };
        let store = Self { path, state: Mutex::new(state), _lock: lock };
        if finding.changed
            && finding.trouble.is_none()
            && let Stored::Volatile(error) = store.persist(&mut store.state(), now_ms)
        {
            finding.trouble = Some(error);
        }
        if fs::symlink_metadata(&store.path).is_ok()
            && let Err(source) = files::tighten(&store.path)
            && finding.trouble.is_none()
        {
            finding.trouble = Some(SessionsError::of(&store.path, source));
        }
        Ok(OpenedSessions { store, source: finding.source, set_aside: finding.set_aside, trouble: finding.trouble })
    }
}

struct Finding {
    document: Document,
    source: Source,
    set_aside: Option<PathBuf>,
    trouble: Option<SessionsError>,
    /// The file has to be written to match the document.
    changed: bool,
}

impl Finding {
    fn of(document: Document, source: Source, changed: bool) -> Self {
        Self { document, source, set_aside: None, trouble: None, changed }
    }
}

fn find(path: &Path, legacy: &Path, now_ms: i64) -> Finding {
    let temporary = temporary_of(path);
    match (read(path, now_ms), read(&temporary, now_ms)) {
        (Found::Missing, Found::Good { parsed, .. }) => Finding::of(parsed.document, Source::Interrupted, true),
        (Found::Missing, Found::Missing | Found::Unreadable { .. }) => import(legacy, now_ms),
        (Found::Good { modified: old, .. }, Found::Good { parsed, modified: new }) if new >= old => {
            Finding::of(parsed.document, Source::Interrupted, true)
        }
        (Found::Good { parsed, .. }, _) => Finding::of(parsed.document, Source::File, parsed.changed),
        (Found::Unreadable { modified: old }, Found::Good { parsed, modified: new }) if new >= old => {
            move_away(path, now_ms, Finding::of(parsed.document, Source::Interrupted, true))
        }
        (Found::Unreadable { .. }, left_over) => {
            if !matches!(left_over, Found::Missing) {
                // It is of no use to the store, but the next write would take its name; a failure costs only that copy.
                let _ = files::set_aside(&temporary, now_ms);
            }
            move_away(path, now_ms, Finding::of(Document::default(), Source::Empty, true))
        }
    }
}

fn move_away(path: &Path, now_ms: i64, mut finding: Finding) -> Finding {
    match files::set_aside(path, now_ms) {
        Ok(target) => finding.set_aside = Some(target),
        Err(source) => finding.trouble = Some(SessionsError::InTheWay { path: path.to_owned(), source }),
    }
    finding
}

/// Takes the sessions over that a version before 0.50 kept in the system's temporary folder, which anybody may write.
fn import(legacy: &Path, now_ms: i64) -> Finding {
    let refused = || Finding::of(Document::default(), Source::Import(Import::Refused(legacy.to_owned())), false);
    match fs::symlink_metadata(legacy) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Finding::of(Document::default(), Source::Empty, false);
        }
        Ok(found) if found.is_file() && is_ours(&found) => {}
        Ok(_) | Err(_) => return refused(),
    }
    match read(legacy, now_ms) {
        Found::Missing => Finding::of(Document::default(), Source::Empty, false),
        Found::Unreadable { .. } => refused(),
        Found::Good { parsed, .. } => {
            let count = parsed.document.sessions.len();
            Finding::of(parsed.document, Source::Import(Import::Taken(count)), true)
        }
    }
}

#[cfg(unix)]
fn is_ours(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_ours(_found: &fs::Metadata) -> bool {
    true
}

fn read(path: &Path, now_ms: i64) -> Found {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        // A link to nothing is present, and cannot be read.
        Err(_) if fs::symlink_metadata(path).is_ok() => return Found::Unreadable { modified: None },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Missing,
        Err(_) => return Found::Unreadable { modified: None },
    };
    let modified = found.modified().ok();
    if found.len() > MOST_BYTES {
        return Found::Unreadable { modified };
    }
    match fs::read(path).map(|bytes| format::parse(&bytes, now_ms)) {
        Ok(Ok(parsed)) => Found::Good { parsed, modified },
        Ok(Err(_)) | Err(_) => Found::Unreadable { modified },
    }
}
