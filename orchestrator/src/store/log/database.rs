//! One SQLite file: who may open it, what happens to an unreadable one, the one writer thread with group commit and
//! the readers beside it. It must not know what the tables hold.
//!
//! Every write is a job. The writer takes all jobs that wait, runs each in a savepoint of one transaction, commits
//! once and answers them all: under load a sync of the disk is shared by everyone who waits for one.

use super::schema::{self, Contents, Migration};
use super::{LogError, Opened, Pending};
use crate::fault;
use crate::store::files;
use crate::store::lock::OwnerLock;
use rusqlite::{Connection, OpenFlags};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long another program's hold of the file is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Most jobs in one transaction, so that the first is not answered arbitrarily late.
const MAX_GROUP: usize = 256;
/// Most idle connections for reading.
const MAX_IDLE_READERS: usize = 4;

/// A write, run with the connection or with the reason why there is none.
type Job = Box<dyn FnOnce(Result<&Connection, LogError>) -> Ran + Send>;
/// Gives a job's answer, once it is known whether the transaction was committed.
type Answer = Box<dyn FnOnce(Result<(), LogError>)>;

struct Ran {
    failure: Option<LogError>,
    answer: Answer,
}

enum Message {
    Job(Job),
    Close(oneshot::Sender<Result<(), LogError>>),
}

/// An open database file. Dropping it finishes the queued writes and waits for them.
#[derive(Debug)]
pub struct Database {
    queue: Mutex<Option<Sender<Message>>>,
    writer: Option<JoinHandle<()>>,
    readers: Readers,
    commits: Arc<AtomicU64>,
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
        let writer = Writer { connection, inbox, commits: Arc::clone(&commits), lock };
        let writer = std::thread::Builder::new().name("log-writer".to_owned()).spawn(move || writer.run())?;
        let store = Self {
            queue: Mutex::new(Some(queue)),
            writer: Some(writer),
            readers: Readers { path: path.to_owned(), idle: Mutex::new(Some(Vec::new())) },
            commits,
        };
        Ok(Opened { store, set_aside })
    }

    /// Queues a write. All its statements take effect or none; the answer comes after the commit. A job must not
    /// begin or end transactions.
    pub fn write<T, F>(&self, job: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, LogError> + Send + 'static,
    {
        let (answer, pending) = Pending::channel();
        self.send(Message::Job(Box::new(move |connection| {
            let result = connection.and_then(job);
            Ran {
                failure: result.as_ref().err().cloned(),
                answer: Box::new(move |committed| {
                    let result = match committed {
                        Ok(()) => result,
                        Err(error) => result.and(Err(error)),
                    };
                    // Nobody waits any more: the write stands all the same.
                    let _ = answer.send(result);
                }),
            }
        })));
        pending
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

    /// A message that cannot be sent is dropped, and its answer is then [`LogError::Closed`].
    fn send(&self, message: Message) {
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = queue.send(message);
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
    files::sync_folder_of(path)?;
    Ok(connection)
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

struct Writer {
    connection: Connection,
    inbox: Receiver<Message>,
    commits: Arc<AtomicU64>,
    /// Released last, when the connection is closed.
    lock: OwnerLock,
}

impl Writer {
    fn run(self) {
        while let Ok(first) = self.inbox.recv() {
            let mut jobs = Vec::new();
            let mut close = None;
            let mut next = Some(first);
            while let Some(message) = next.take() {
                match message {
                    Message::Job(job) => jobs.push(job),
                    Message::Close(answer) => close = Some(answer),
                }
                if close.is_none() && jobs.len() < MAX_GROUP {
                    next = self.inbox.try_recv().ok();
                }
            }
            if !jobs.is_empty() {
                self.commit_group(jobs);
            }
            if let Some(answer) = close {
                self.finish(answer);
                return;
            }
        }
    }

    fn finish(self, answer: oneshot::Sender<Result<(), LogError>>) {
        let closed = self.connection.close().map_err(|(_, error)| LogError::from(error));
        drop(self.lock);
        // Nobody waits for the close of a log that was simply dropped.
        let _ = answer.send(closed);
    }

    fn commit_group(&self, jobs: Vec<Job>) {
        let mut broken = self.connection.execute_batch("BEGIN IMMEDIATE").err().map(LogError::from);
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            if broken.is_none() {
                broken = self.execute("SAVEPOINT job").err();
            }
            let ran = match &broken {
                Some(error) => job(Err(error.clone())),
                None => job(Ok(&self.connection)),
            };
            if broken.is_none() {
                broken = self.end_savepoint(ran.failure);
            }
            answers.push(ran.answer);
        }
        fault::at("group-written");
        if broken.is_none() {
            broken = self.execute("COMMIT").err();
        }
        fault::at("group-committed");
        match &broken {
            Some(_) if !self.connection.is_autocommit() => {
                // The group's error is the one to report; a transaction that cannot even be rolled back shows at
                // the next BEGIN.
                let _ = self.execute("ROLLBACK");
            }
            Some(_) => {}
            None => {
                self.commits.fetch_add(1, Ordering::Relaxed);
            }
        }
        for answer in answers {
            answer(broken.clone().map_or(Ok(()), Err));
        }
    }

    /// Keeps or undoes one job. Yields the error that ends the whole group, if the transaction did not survive.
    fn end_savepoint(&self, failure: Option<LogError>) -> Option<LogError> {
        let Some(failure) = failure else {
            return self.execute("RELEASE job").err();
        };
        if self.connection.is_autocommit() {
            // The database gave the transaction up by itself, as it does when the disk is full.
            return Some(failure);
        }
        self.execute("ROLLBACK TO job").and_then(|()| self.execute("RELEASE job")).err()
    }

    fn execute(&self, sql: &str) -> Result<(), LogError> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}
