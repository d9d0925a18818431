//! The one thread that writes: groups what waits into one transaction, and what it does while the disk refuses. It
//! must not know what a job writes.
//!
//! While the disk refuses, jobs that may be refused are answered with the error at once, after an attempt of their own;
//! jobs to keep stay in their place, before everything later, and are tried again until the disk takes them. Even with
//! nothing kept a small write is tried, so that the end of the trouble is known and what a failed commit left in the
//! write-ahead log is written over.
//!
//! The connection is never opened anew after a failed sync. It knows where the last commit that was synced ends, and
//! the next transaction writes from there, which makes every page of the failed one dirty again: a kernel that dropped
//! them after the failure is given them once more. A new connection would recover from the page cache and take what
//! was refused for committed. Pages that a checkpoint could not sync stay in the write-ahead log, which was synced, and
//! are copied again by the next checkpoint.

use super::LogError;
use crate::store::files;
use crate::store::lock::OwnerLock;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// Most jobs in one transaction beside those that are kept, so that the first is not answered arbitrarily late.
const MAX_GROUP: usize = 256;
/// Most jobs that are kept while the disk refuses.
pub(super) const MOST_KEPT: usize = 1_000;
/// Most bytes that they may hold.
const MOST_KEPT_BYTES: usize = 16 << 20;
/// How long a job is kept before it is answered with the error after all.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);
/// The pause before the first further attempt; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause between attempts: so soon after the disk recovers, the log does.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What becomes of a write that the disk refuses for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTrouble {
    /// It is answered with the error at once.
    Refuse,
    /// It is kept and written once the disk takes it, before anything that was ordered later. After an hour, or beyond
    /// 1,000 writes or 16 MiB that are kept, it is answered with the error after all.
    Keep,
}

/// A write that waits for its transaction.
pub(super) trait Job: Send {
    /// Runs the statements; again after each attempt that failed.
    fn run(&mut self, connection: &Connection) -> Result<(), LogError>;

    /// Answers, once it is known whether the transaction was committed.
    fn answer(self: Box<Self>, committed: Result<(), LogError>);
}

/// A job and how it is to be treated.
pub(super) struct Order {
    pub(super) job: Box<dyn Job>,
    pub(super) on_trouble: OnTrouble,
    /// About how much memory it holds.
    pub(super) bytes: usize,
    /// How long it is kept, once it is.
    pub(super) until: Option<Instant>,
}

pub(super) enum Message {
    Order(Order),
    Close(oneshot::Sender<Result<(), LogError>>),
}

/// What the writer is made from.
pub(super) struct Writer {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) inbox: Receiver<Message>,
    pub(super) commits: Arc<AtomicU64>,
    /// Why nothing can be written for now.
    pub(super) trouble: watch::Sender<Option<LogError>>,
    /// Released last, when the connection is closed.
    pub(super) lock: OwnerLock,
}

/// What is kept and when it is tried again.
#[derive(Default)]
struct Backlog {
    kept: VecDeque<Order>,
    bytes: usize,
    next: Option<Instant>,
    pause: Duration,
}

impl Writer {
    pub(super) fn run(self) {
        let file = Identity::of(&self.path);
        let mut backlog = Backlog::default();
        loop {
            let first = match backlog.next {
                None => self.inbox.recv().ok(),
                Some(at) => match self.inbox.recv_timeout(at.saturating_duration_since(Instant::now())) {
                    Ok(message) => Some(message),
                    Err(RecvTimeoutError::Timeout) => {
                        self.attempt(Vec::new(), &mut backlog, file);
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => None,
                },
            };
            let Some(first) = first else { return };
            let mut orders = Vec::new();
            let mut close = None;
            let mut next = Some(first);
            while let Some(message) = next.take() {
                match message {
                    Message::Order(order) => orders.push(order),
                    Message::Close(answer) => close = Some(answer),
                }
                if close.is_none() && orders.len() < MAX_GROUP {
                    next = self.inbox.try_recv().ok();
                }
            }
            // What is kept anyway waits for the next attempt; whoever can be refused wants to know now.
            let urgent = orders.iter().any(|order| order.on_trouble == OnTrouble::Refuse);
            if backlog.next.is_some_and(|at| Instant::now() < at) && !urgent && close.is_none() {
                let error = self.trouble.borrow().clone();
                backlog.keep(orders, error.as_ref());
            } else if !orders.is_empty() || (close.is_some() && !backlog.kept.is_empty()) {
                self.attempt(orders, &mut backlog, file);
            }
            if let Some(answer) = close {
                backlog.give_up(self.trouble.borrow().as_ref());
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

    /// One transaction with everything that is kept and then these. Afterwards each job is answered or kept.
    fn attempt(&self, orders: Vec<Order>, backlog: &mut Backlog, file: Option<Identity>) {
        let mut orders: Vec<Order> = backlog.take().into_iter().chain(orders).collect();
        let (failures, broken) = self.commit(&mut orders, file);
        // Who is refused finds the trouble known; what was kept is there before the trouble is over.
        if broken.is_some() {
            self.tell(broken.as_ref());
        }
        let mut kept = Vec::new();
        for (order, failure) in orders.into_iter().zip(failures) {
            let in_time = order.until.is_none_or(|until| Instant::now() < until);
            match broken.clone().or(failure) {
                None => order.job.answer(Ok(())),
                Some(error) if order.on_trouble == OnTrouble::Keep && error.may_pass() && in_time => kept.push(order),
                Some(error) => order.job.answer(Err(error)),
            }
        }
        match &broken {
            Some(error) if error.may_pass() => {
                backlog.wait_longer();
                backlog.keep(kept, Some(error));
            }
            Some(_) => backlog.calm(),
            None => {
                backlog.calm();
                self.tell(None);
            }
        }
    }

    /// Says why nothing can be written now, when that is news.
    fn tell(&self, broken: Option<&LogError>) {
        self.trouble.send_if_modified(|trouble| {
            let news = trouble.as_ref().map(LogError::code) != broken.map(LogError::code);
            if news {
                match broken {
                    Some(error) => {
                        tracing::warn!(code = error.code(), %error, "the conversation log cannot be written");
                    }
                    None => tracing::info!("the conversation log can be written again"),
                }
                *trouble = broken.cloned();
            }
            news
        });
    }

    /// Runs jobs in one transaction: what failed of each, and what kept the whole from being committed.
    fn commit(&self, orders: &mut [Order], file: Option<Identity>) -> (Vec<Option<LogError>>, Option<LogError>) {
        let mut failures: Vec<Option<LogError>> = Vec::with_capacity(orders.len());
        let mut broken = self.begin(file).err();
        for order in orders.iter_mut() {
            if broken.is_some() {
                break;
            }
            let failure = match self.execute("SAVEPOINT job") {
                Ok(()) => order.job.run(&self.connection).err(),
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            };
            broken = self.end_savepoint(failure.as_ref(), order.on_trouble);
            failures.push(failure);
        }
        if broken.is_none() && orders.is_empty() {
            // Writes one page although nothing changes: an attempt that counts.
            broken = self.connection.execute_batch("PRAGMA user_version = 0").err().map(LogError::from);
        }
        if broken.is_none() {
            broken = self.execute("COMMIT").err();
        }
        if broken.is_some() && !self.connection.is_autocommit() {
            // The group's error is the one to report; a transaction that cannot even be rolled back shows at the next
            // BEGIN.
            let _ = self.execute("ROLLBACK");
        }
        let broken = broken.map(|error| refine(error, &self.path));
        if broken.is_none() {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        failures.resize(orders.len(), None);
        (failures, broken)
    }

    /// A file that was moved or deleted under us takes writes that nobody finds again.
    fn begin(&self, file: Option<Identity>) -> Result<(), LogError> {
        if file.is_some() && Identity::of(&self.path) != file {
            return Err(LogError::Gone { path: self.path.clone() });
        }
        self.execute("BEGIN IMMEDIATE")
    }

    /// Keeps or undoes one job. Yields the error that ends the whole group: the transaction did not survive, or a job
    /// to keep has to come before the ones after it.
    fn end_savepoint(&self, failure: Option<&LogError>, on_trouble: OnTrouble) -> Option<LogError> {
        let Some(failure) = failure else {
            return self.execute("RELEASE job").err();
        };
        // The database gives a transaction up by itself when the disk is full.
        if self.connection.is_autocommit() || (on_trouble == OnTrouble::Keep && failure.may_pass()) {
            return Some(failure.clone());
        }
        self.execute("ROLLBACK TO job").and_then(|()| self.execute("RELEASE job")).err()
    }

    fn execute(&self, sql: &str) -> Result<(), LogError> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

impl Backlog {
    fn take(&mut self) -> VecDeque<Order> {
        self.bytes = 0;
        std::mem::take(&mut self.kept)
    }

    fn calm(&mut self) {
        self.next = None;
        self.pause = Duration::ZERO;
    }

    fn wait_longer(&mut self) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.next = Some(Instant::now() + self.pause);
    }

    /// Keeps these behind what is kept, within the bounds; beyond them they are answered with the error.
    fn keep(&mut self, orders: Vec<Order>, error: Option<&LogError>) {
        for mut order in orders {
            let fits = self.kept.len() < MOST_KEPT && self.bytes + order.bytes <= MOST_KEPT_BYTES;
            match error {
                Some(error) if !fits => order.job.answer(Err(error.clone())),
                Some(_) | None => {
                    self.bytes += order.bytes;
                    order.until = order.until.or_else(|| Instant::now().checked_add(KEPT_FOR));
                    self.kept.push_back(order);
                }
            }
        }
    }

    /// Answers everything with the error.
    fn give_up(&mut self, error: Option<&LogError>) {
        for order in self.take() {
            order.job.answer(Err(error.cloned().unwrap_or(LogError::Closed)));
        }
    }
}

/// Tells whether a path still names the file that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(path).ok()?;
        Some(Self { device: found.dev(), number: found.ino() })
    }

    /// An open file can be neither moved nor deleted there.
    #[cfg(not(unix))]
    fn of(_path: &Path) -> Option<Self> {
        None
    }
}

/// The database names only a full disk. What the system says about a small file beside it tells more.
fn refine(error: LogError, path: &Path) -> LogError {
    let LogError::Io { detail } = &error else { return error };
    let probe = files::with_suffix(path, ".probe");
    let tried = files::private_file().create(true).truncate(true).open(&probe).and_then(|mut file| {
        std::io::Write::write_all(&mut file, &[0; 4096])?;
        file.sync_all()
    });
    // It may not be there; one that stays is overwritten by the next attempt.
    let _ = std::fs::remove_file(&probe);
    match tried.map_err(|source| files::trouble(&source)) {
        Err(files::Trouble::DiskFull) => LogError::DiskFull { detail: detail.clone() },
        Err(files::Trouble::ReadOnly) => LogError::ReadOnly { detail: detail.clone() },
        Err(files::Trouble::Other) | Ok(()) => error,
    }
}
