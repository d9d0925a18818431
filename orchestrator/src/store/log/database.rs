//! One SQLite file: who may open it, what happens to an unreadable one, its writer thread and the readers beside it. It
//! must not know what the tables hold.
//!
//! Every write is a job. The writer takes all jobs that wait, runs each in a savepoint of one transaction, commits
//! once and answers them all: under load a sync of the disk is shared by everyone who waits for one.

use super::schema::{self, Contents, Migration};
use super::writer::{Job, Message, OnTrouble, Order, Writer};
use super::{LogError, Opened, Pending};
use crate::store::files;
use crate::store::lock::OwnerLock;
use rusqlite::{Connection, OpenFlags};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// How long another program's hold of the file is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Most idle connections for reading.
const MAX_IDLE_READERS: usize = 4;

/// A write with its statements, what they gave, and who waits for it.
struct Write<T, F, A> {
    statements: F,
    result: Option<T>,
    answer: A,
}

impl<T, F, A> Job for Write<T, F, A>
where
    T: Send,
    F: FnMut(&Connection) -> Result<T, LogError> + Send,
    A: FnOnce(Result<T, LogError>) + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), LogError> {
        self.result = Some((self.statements)(connection)?);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), LogError>) {
        // A commit without a result does not happen: whoever has no result has an error.
        let Self { result, answer, .. } = *self;
        answer(committed.and_then(|()| result.ok_or(LogError::Closed)));
    }
}

/// An open database file. Dropping it finishes the queued writes and waits for them.
#[derive(Debug)]
pub struct Database {
    queue: Mutex<Option<Sender<Message>>>,
    writer: Option<JoinHandle<()>>,
    readers: Readers,
    commits: Arc<AtomicU64>,
    trouble: watch::Receiver<Option<LogError>>,
}

impl Database {
    /// Opens or creates the file, brings it to the newest version and starts its writer.
    ///
    /// A file that is no database of ours is set aside together with its `-wal` and `-shm` as
    /// `<name>.unreadable-<now_ms>…`, and a fresh one takes its place.
    ///
    /// # Errors
    /// [`LogError::InUse`] when another daemon owns the file, [`LogError::NewerVersion`] when a newer program wrote
    /// it (it stays untouched), or a disk error.
    pub fn open(path: &Path, migrations: &[Migration], now_ms: i64) -> Result<Opened<Self>, LogError> {
        let lock = OwnerLock::acquire(path)?;
        let mut set_aside = None;
        let from = match probe(path) {
            Ok(Contents::Version(version)) => version,
            Ok(Contents::Foreign) | Err(LogError::Corrupt { .. }) => {
                set_aside = Some(set_database_aside(path, now_ms)?);
                0
            }
            Err(error) => return Err(error),
        };
        let known = migrations.last().map_or(0, |migration| migration.version);
        if from > known {
            return Err(LogError::NewerVersion { path: path.to_owned(), found: from, known });
        }
        let connection = match connect(path, migrations, from) {
            Err(LogError::Corrupt { .. }) if set_aside.is_none() => {
                set_aside = Some(set_database_aside(path, now_ms)?);
                connect(path, migrations, 0)?
            }
            other => other?,
        };
        let (queue, inbox) = mpsc::channel();
        let commits = Arc::new(AtomicU64::new(0));
        let (sender, trouble) = watch::channel(None);
        let writer =
            Writer { path: path.to_owned(), connection, inbox, commits: Arc::clone(&commits), trouble: sender, lock };
        let writer = std::thread::Builder::new().name("log-writer".to_owned()).spawn(move || writer.run())?;
        let store = Self {
            queue: Mutex::new(Some(queue)),
            writer: Some(writer),
            readers: Readers { path: path.to_owned(), idle: Mutex::new(Some(Vec::new())) },
            commits,
            trouble,
        };
        Ok(Opened { store, set_aside })
    }

    /// Opens a file to look at, also while another program owns it. Every write yields [`LogError::Closed`].
    ///
    /// # Errors
    /// [`LogError::NewerVersion`], [`LogError::Corrupt`] for what is no database of ours, or a disk error.
    pub fn open_to_read(path: &Path, migrations: &[Migration]) -> Result<Self, LogError> {
        let known = migrations.last().map_or(0, |migration| migration.version);
        match probe(path)? {
            Contents::Version(0) | Contents::Foreign => {
                Err(LogError::Corrupt { detail: format!("{} holds no conversation log", path.display()) })
            }
            Contents::Version(found) if found > known => {
                Err(LogError::NewerVersion { path: path.to_owned(), found, known })
            }
            Contents::Version(_) => Ok(Self {
                queue: Mutex::new(None),
                writer: None,
                readers: Readers { path: path.to_owned(), idle: Mutex::new(Some(Vec::new())) },
                commits: Arc::default(),
                trouble: watch::channel(None).1,
            }),
        }
    }

    /// Queues a write. All its statements take effect or none; the answer comes after the commit, or with the error
    /// at once when the disk refuses. A job must not begin or end transactions.
    pub fn write<T, F>(&self, job: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, LogError> + Send + 'static,
    {
        let (answer, pending) = Pending::channel();
        let mut job = Some(job);
        let once = move |connection: &Connection| job.take().map_or(Err(LogError::Closed), |job| job(connection));
        self.write_then(OnTrouble::Refuse, 0, once, move |result| {
            // Nobody waits any more: the write stands all the same.
            let _ = answer.send(result);
        });
        pending
    }

    /// Queues a write that may have to be run several times. `answer` is called on the writer's thread and must not
    /// wait; of a closed database it is called at once. `bytes` is about what the write holds in memory.
    pub fn write_then<T, F, A>(&self, on_trouble: OnTrouble, bytes: usize, statements: F, answer: A)
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, LogError> + Send + 'static,
        A: FnOnce(Result<T, LogError>) + Send + 'static,
    {
        let job = Box::new(Write { statements, result: None, answer });
        if let Some(Message::Order(order)) = self.send(Message::Order(Order { job, on_trouble, bytes, until: None })) {
            order.job.answer(Err(LogError::Closed));
        }
    }

    /// Why nothing can be written for now; `None` when the last attempt succeeded.
    pub fn trouble(&self) -> watch::Receiver<Option<LogError>> {
        self.trouble.clone()
    }

    /// Reads on a connection of its own, beside the writer.
    ///
    /// # Errors
    /// Those of `job`, a disk error, or [`LogError::Closed`].
    pub fn read<T>(&self, job: impl FnOnce(&Connection) -> Result<T, LogError>) -> Result<T, LogError> {
        let connection = self.readers.take()?;
        let result = job(&connection)?;
        self.readers.give_back(connection);
        Ok(result)
    }

    /// Answers once everything queued before is committed or has failed.
    pub fn flush(&self) -> Pending<()> {
        self.write(|_| Ok(()))
    }

    /// Finishes what is queued, folds the write-ahead log into the file and closes it.
    pub fn close(&self) -> Pending<()> {
        self.readers.close();
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(queue) = queue else {
            return Pending::ready(Ok(()));
        };
        let (answer, pending) = Pending::channel();
        // A writer that is gone has nothing left to close; the dropped answer says so.
        let _ = queue.send(Message::Close(answer));
        pending
    }

    /// How many transactions were committed since the file was opened.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Yields what could not be sent.
    fn send(&self, message: Message) -> Option<Message> {
        match &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(queue) => queue.send(message).err().map(|unsent| unsent.0),
            None => Some(message),
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        drop(self.close());
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so on its own; there is nothing left to wait for.
            let _ = writer.join();
        }
    }
}

/// Looks at an existing file without changing it.
fn probe(path: &Path) -> Result<Contents, LogError> {
    if file_length(path) == 0 {
        // SQLite would delete a write-ahead log that has no database: it is set aside like an unreadable one.
        if file_length(&files::with_suffix(path, "-wal")) > 0 {
            return Ok(Contents::Foreign);
        }
        return Ok(Contents::Version(0));
    }
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    schema::inspect(&connection)
}

fn file_length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// The write-ahead log goes first: left beside a fresh database, its pages would be taken for that one's.
fn set_database_aside(path: &Path, now_ms: i64) -> Result<PathBuf, LogError> {
    let target = files::set_aside_name(path, now_ms);
    let mut moved = target.clone();
    for suffix in ["-wal", "-shm", ""] {
        let from = files::with_suffix(path, suffix);
        if fs::symlink_metadata(&from).is_ok() {
            moved = files::with_suffix(&target, suffix);
            fs::rename(&from, &moved)?;
        }
    }
    files::sync_folder_of(path)?;
    Ok(moved)
}

/// The writer's connection, on the newest version.
fn connect(path: &Path, migrations: &[Migration], from: i64) -> Result<Connection, LogError> {
    // SQLite gives its side files the mode of this one.
    files::private_file().create(true).truncate(false).open(path)?;
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // After a burst the write-ahead log shrinks back to 4 MiB.
    connection.pragma_update(None, "journal_size_limit", 4 * 1024 * 1024)?;
    schema::migrate(&connection, migrations, from)?;
    fold_in(&connection);
    files::sync_folder_of(path)?;
    Ok(connection)
}

/// Copies what a crash left in the write-ahead log into the file and syncs it. After a failed sync and a crash it can
/// hold rows that are in the page cache alone; they must not be found, and acknowledged as repetitions, before they are
/// on disk.
fn fold_in(connection: &Connection) {
    if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
        tracing::warn!(%error, "the write-ahead log could not be folded in");
    }
}

#[derive(Debug)]
struct Readers {
    path: PathBuf,
    /// `None` once closed.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Readers {
    fn take(&self) -> Result<Connection, LogError> {
        {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let connections = idle.as_mut().ok_or(LogError::Closed)?;
            if let Some(connection) = connections.pop() {
                return Ok(connection);
            }
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        if let Some(connections) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
            && connections.len() < MAX_IDLE_READERS
        {
            connections.push(connection);
        }
    }

    fn close(&self) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
