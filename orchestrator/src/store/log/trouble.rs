//! What happens while the disk refuses. The file is moved away and put back: the writer notices at once, every time.

#![allow(clippy::unwrap_used, reason = "a failed step is the failure of the test")]

use super::conformance::{append, conversation, everything, row, seqs};
use super::writer::MOST_KEPT;
use super::{Appended, LogError, LogStore, NewRow, OnTrouble, SqliteLog};
use routing_core::id::Seq;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

struct Scratch {
    folder: tempfile::TempDir,
    log: SqliteLog,
    answers: mpsc::Receiver<(u64, Result<Vec<Appended>, LogError>)>,
    answer: mpsc::Sender<(u64, Result<Vec<Appended>, LogError>)>,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = SqliteLog::open_file(&folder.path().join("log.db"), 1).unwrap().store;
        append(&log, vec![numbered(0)]).unwrap();
        let (answer, answers) = mpsc::channel();
        let scratch = Self { folder, log, answers, answer };
        // From here on there is a connection that reads although the file is away.
        assert_eq!(scratch.bodies(), [0]);
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn take_away(&self) {
        fs::rename(self.path("log.db"), self.path("elsewhere")).unwrap();
    }

    fn put_back(&self) {
        fs::rename(self.path("elsewhere"), self.path("log.db")).unwrap();
    }

    fn keep(&self, number: u64) {
        let answer = self.answer.clone();
        let then = move |result| answer.send((number, result)).unwrap();
        self.log.append_then(vec![numbered(number)], OnTrouble::Keep, Box::new(then));
    }

    fn next_answer(&self) -> (u64, Result<Vec<Appended>, LogError>) {
        self.answers.recv_timeout(PATIENCE).unwrap()
    }

    fn bodies(&self) -> Vec<u64> {
        everything(&self.log, "a").iter().map(|row| row.body.as_u64().unwrap()).collect()
    }
}

fn numbered(number: u64) -> NewRow {
    NewRow { body: json!(number), ..row("a") }
}

#[test]
fn d6_kept_rows_are_written_in_order_when_the_disk_takes_them_again() {
    let scratch = Scratch::new();
    let mut trouble = scratch.log.trouble();
    assert!(trouble.borrow_and_update().is_none());
    scratch.take_away();
    scratch.keep(1);
    scratch.keep(2);
    assert_eq!(append(&scratch.log, vec![numbered(99)]).unwrap_err().code(), "log_gone");
    assert_eq!(trouble.borrow_and_update().as_ref().unwrap().code(), "log_gone");
    scratch.keep(3);
    assert!(
        scratch.answers.recv_timeout(Duration::from_millis(700)).is_err(),
        "nothing is answered before it is on disk"
    );
    assert_eq!(scratch.bodies(), [0]);
    scratch.put_back();
    for number in 1..=3 {
        assert_eq!(scratch.next_answer(), (number, Ok(vec![Appended::New(Seq(number + 1))])));
    }
    assert_eq!(scratch.bodies(), [0, 1, 2, 3], "who was refused is not in the log");
    scratch.log.flush().wait().unwrap();
    assert!(trouble.borrow_and_update().is_none());
}

#[test]
fn a_later_row_comes_after_the_kept_ones() {
    let scratch = Scratch::new();
    scratch.take_away();
    scratch.keep(1);
    append(&scratch.log, vec![numbered(99)]).unwrap_err();
    scratch.put_back();
    assert_eq!(append(&scratch.log, vec![numbered(2)]).unwrap(), [Appended::New(Seq(3))]);
    assert_eq!(scratch.next_answer().0, 1);
    assert_eq!(scratch.bodies(), [0, 1, 2]);
}

#[test]
fn the_end_of_the_trouble_is_noticed_with_nothing_to_write() {
    let scratch = Scratch::new();
    scratch.take_away();
    append(&scratch.log, vec![numbered(99)]).unwrap_err();
    let mut trouble = scratch.log.trouble();
    assert!(trouble.borrow_and_update().is_some());
    scratch.put_back();
    let begun = std::time::Instant::now();
    while trouble.borrow_and_update().is_some() {
        assert!(begun.elapsed() < PATIENCE, "it goes unnoticed");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(scratch.bodies(), [0]);
}

#[test]
fn what_is_kept_has_a_bound() {
    let scratch = Scratch::new();
    scratch.take_away();
    let most = MOST_KEPT as u64;
    for number in 1..=most + 2 {
        scratch.keep(number);
    }
    for number in [most + 1, most + 2] {
        let (which, result) = scratch.next_answer();
        assert_eq!((which, result.unwrap_err().code()), (number, "log_gone"));
    }
    scratch.put_back();
    for number in 1..=most {
        assert_eq!(scratch.next_answer(), (number, Ok(vec![Appended::New(Seq(number + 1))])));
    }
}

#[test]
fn a_close_answers_what_is_still_kept() {
    let scratch = Scratch::new();
    scratch.take_away();
    scratch.keep(1);
    append(&scratch.log, vec![numbered(99)]).unwrap_err();
    scratch.log.close().wait().unwrap();
    assert_eq!(scratch.next_answer().1.unwrap_err().code(), "log_gone");
    scratch.keep(2);
    assert_eq!(scratch.next_answer(), (2, Err(LogError::Closed)));
}

#[test]
fn a_kept_row_that_can_never_be_written_holds_nobody_up() {
    let scratch = Scratch::new();
    let answer = scratch.answer.clone();
    let wrong = NewRow { settles: vec![Seq(77)], ..row("a") };
    let then = move |result| answer.send((7, result)).unwrap();
    scratch.log.append_then(vec![wrong], OnTrouble::Keep, Box::new(then));
    scratch.keep(8);
    assert_eq!(scratch.next_answer().1.unwrap_err().code(), "unknown_row");
    assert_eq!(scratch.next_answer(), (8, Ok(vec![Appended::New(Seq(2))])));
    assert!(scratch.log.trouble().borrow().is_none());
}

#[test]
fn another_program_that_holds_the_log_is_waited_for() {
    let scratch = Scratch::new();
    let path = scratch.path("log.db");
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in 1..=5 {
        scratch.keep(number);
    }
    let refused = append(&scratch.log, vec![numbered(99)]).unwrap_err();
    assert_eq!(refused.code(), "log_locked");
    other.execute_batch("COMMIT").unwrap();
    for number in 1..=5 {
        assert_eq!(scratch.next_answer(), (number, Ok(vec![Appended::New(Seq(number + 1))])));
    }
    assert_eq!(seqs(&everything(&scratch.log, "a")), (1..=6).collect::<Vec<_>>());
    assert_eq!(scratch.log.newest(&conversation("a")).unwrap(), Seq(6));
}
