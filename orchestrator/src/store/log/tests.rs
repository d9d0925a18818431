//! What only the store on disk has: the file, its commits, its failures.

#![allow(clippy::unwrap_used, reason = "a failed step is the failure of the test")]

use super::conformance::{append, conversation, everything, inbound, keyed, row, seqs, settling};
use super::schema::MIGRATIONS;
use super::{Appended, Database, LogError, LogStore, Migration, NewRow, Opened, SqliteLog};
use crate::store::files::with_suffix;
use routing_core::id::Seq;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations-9101.db");
    (folder, path)
}

fn open(path: &Path) -> SqliteLog {
    let Opened { store, set_aside } = SqliteLog::open_file(path, 77).unwrap();
    assert_eq!(set_aside, None);
    store
}

/// Keeps the writer busy until the returned end is dropped.
fn hold_writer(log: &SqliteLog) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel::<()>();
    let (started, starting) = mpsc::channel();
    drop(log.database().write(move |_| {
        started.send(()).unwrap();
        let _ = held.recv();
        Ok(())
    }));
    starting.recv().unwrap();
    release
}

#[test]
fn what_was_answered_is_there_after_a_restart() {
    let (_folder, path) = scratch();
    let log = open(&path);
    append(&log, vec![inbound("a"), keyed("a", "mid:1"), inbound("a"), settling("a", &[1])]).unwrap();
    drop(log);
    let log = open(&path);
    assert_eq!(seqs(&everything(&log, "a")), [1, 2, 3, 4]);
    assert_eq!(seqs(&log.pending(&conversation("a")).unwrap()), [3]);
    assert_eq!(
        append(&log, vec![keyed("a", "mid:1"), row("a")]).unwrap(),
        [Appended::Duplicate(Seq(2)), Appended::New(Seq(5))]
    );
}

/// The files are copied while the daemon runs, as a power cut would leave them: every answered row is in the copy.
#[test]
fn what_was_answered_survives_a_crash() {
    let (folder, path) = scratch();
    let log = open(&path);
    for number in 0..20 {
        append(&log, vec![NewRow { body: json!(number), ..row("a") }]).unwrap();
    }
    let copy = folder.path().join("copy.db");
    for suffix in ["", "-wal"] {
        fs::copy(with_suffix(&path, suffix), with_suffix(&copy, suffix)).unwrap();
    }
    let recovered = open(&copy);
    assert_eq!(everything(&recovered, "a"), everything(&log, "a"));
    assert_eq!(everything(&log, "a").len(), 20);
    let length = fs::metadata(with_suffix(&copy, "-wal")).unwrap().len();
    assert_eq!(length, 0, "what was recovered is in the file, and synced, before anybody is told of it");
}

#[test]
fn two_hundred_appends_that_wait_share_one_commit() {
    let (_folder, path) = scratch();
    let log = open(&path);
    let release = hold_writer(&log);
    let before = log.database().commits();
    let waiting: Vec<_> = (0..200).map(|_| log.append(vec![row("a")])).collect();
    assert_eq!(log.newest(&conversation("a")).unwrap(), Seq(0));
    drop(release);
    for (index, pending) in waiting.into_iter().enumerate() {
        assert_eq!(pending.wait().unwrap(), [Appended::New(Seq(index as u64 + 1))]);
    }
    // One for the job that held the writer, one for the two hundred.
    assert_eq!(log.database().commits() - before, 2);
}

#[test]
fn a_group_has_a_bound_and_one_failure_in_it_takes_nobody_along() {
    let (_folder, path) = scratch();
    let log = open(&path);
    let release = hold_writer(&log);
    let before = log.database().commits();
    let waiting: Vec<_> = (0..600)
        .map(|number| log.append(vec![row("a"), settling("a", if number == 300 { &[999_999] } else { &[] })]))
        .collect();
    drop(release);
    let results: Vec<_> = waiting.into_iter().map(|pending| pending.wait()).collect();
    let failed: Vec<_> = (0..600).filter(|index| results[*index].is_err()).collect();
    assert_eq!(failed, [300]);
    assert_eq!(seqs(&everything(&log, "a")), (1..=2 * 599).collect::<Vec<_>>());
    assert_eq!(log.database().commits() - before, 1 + 3);
}

#[test]
fn reading_does_not_wait_for_the_writer() {
    let (_folder, path) = scratch();
    let log = open(&path);
    append(&log, vec![row("a")]).unwrap();
    let release = hold_writer(&log);
    let later = log.append(vec![row("a")]);
    // The writer has an open write transaction all this time.
    assert_eq!(seqs(&everything(&log, "a")), [1]);
    drop(release);
    later.wait().unwrap();
    assert_eq!(seqs(&everything(&log, "a")), [1, 2]);
}

#[test]
fn a_garbage_file_is_set_aside_with_its_side_files_and_a_fresh_one_works() {
    let (_folder, path) = scratch();
    let garbage = [&b"SQLite format 3\0"[..], &[0xa5; 4096]].concat();
    for content in
        [&b"not a database, but longer than its header is, surely longer than a hundred bytes ".repeat(3), &garbage]
    {
        fs::write(&path, content).unwrap();
        fs::write(with_suffix(&path, "-wal"), "wal").unwrap();
        fs::write(with_suffix(&path, "-shm"), "shm").unwrap();
        let Opened { store, set_aside } = SqliteLog::open_file(&path, 77).unwrap();
        let aside = set_aside.unwrap();
        assert_eq!(aside, with_suffix(&path, ".unreadable-77"));
        assert_eq!(&fs::read(&aside).unwrap(), content);
        assert_eq!(fs::read(with_suffix(&aside, "-wal")).unwrap(), b"wal");
        assert!(with_suffix(&aside, "-shm").exists());
        assert_eq!(append(&store, vec![row("a")]).unwrap(), [Appended::New(Seq(1))]);
        drop(store);
        assert_eq!(seqs(&everything(&open(&path), "a")), [1]);
        for suffix in ["", "-wal", "-shm"] {
            fs::remove_file(with_suffix(&aside, suffix)).unwrap();
        }
    }
}

#[test]
fn a_database_of_something_else_is_set_aside_whole() {
    let (_folder, path) = scratch();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup')").unwrap();
    other.close().unwrap();
    let aside = SqliteLog::open_file(&path, 5).unwrap().set_aside.unwrap();
    let kept: String =
        Connection::open(aside).unwrap().query_row("SELECT name FROM recipes", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, "soup");
}

#[test]
fn a_write_ahead_log_without_its_database_is_kept() {
    let (_folder, path) = scratch();
    fs::write(with_suffix(&path, "-wal"), "rows of a lost database").unwrap();
    let Opened { store, set_aside } = SqliteLog::open_file(&path, 5).unwrap();
    assert_eq!(fs::read(set_aside.unwrap()).unwrap(), b"rows of a lost database");
    append(&store, vec![row("a")]).unwrap();
}

#[test]
fn an_empty_file_is_a_new_log() {
    let (_folder, path) = scratch();
    fs::write(&path, "").unwrap();
    append(&open(&path), vec![row("a")]).unwrap();
}

#[test]
fn a_file_of_a_newer_version_is_refused_and_not_touched() {
    let (folder, path) = scratch();
    drop(open(&path));
    let newer = Connection::open(&path).unwrap();
    newer.execute("INSERT INTO schema_version (version, name) VALUES (99, 'from the future')", []).unwrap();
    // The newer program crashed: part of its work is only in the write-ahead log.
    let crashed = folder.path().join("conversations-9102.db");
    for suffix in ["", "-wal"] {
        fs::copy(with_suffix(&path, suffix), with_suffix(&crashed, suffix)).unwrap();
    }
    let state = || ["", "-wal"].map(|suffix| fs::read(with_suffix(&crashed, suffix)).unwrap());
    let before = state();
    assert!(!before[1].is_empty());
    let refused = SqliteLog::open_file(&crashed, 77).unwrap_err();
    let known = MIGRATIONS.last().unwrap().version;
    assert_eq!(refused, LogError::NewerVersion { path: crashed.clone(), found: 99, known });
    assert_eq!(refused.code(), "newer_version");
    assert!(state() == before);
    assert!(!with_suffix(&crashed, ".unreadable-77").exists());
}

#[test]
fn an_older_file_is_brought_forward_with_its_rows_and_only_once() {
    let (_folder, path) = scratch();
    append(&open(&path), vec![row("a")]).unwrap();
    let next = MIGRATIONS.len() as i64 + 1;
    let sql = "CREATE TABLE more (x INTEGER); INSERT INTO more VALUES (1)";
    let longer = [MIGRATIONS, &[Migration { version: next, name: "more", sql }]].concat();
    for _ in 0..2 {
        let database = Database::open(&path, &longer, 1).unwrap().store;
        let count = |sql: &'static str| {
            database.read(|connection| Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)).unwrap()
        };
        assert_eq!(count("SELECT count(*) FROM more"), 1);
        assert_eq!(count("SELECT count(*) FROM entries"), 1);
        assert_eq!(count("SELECT max(version) FROM schema_version"), next);
    }
    assert_eq!(SqliteLog::open_file(&path, 1).unwrap_err().code(), "newer_version");
}

/// A log of the first version, as a daemon without search left it: its rows are found after the upgrade, and by a reader
/// that finds no index yet.
#[test]
fn an_older_log_is_searched_before_and_after_its_upgrade() {
    let (folder, path) = scratch();
    let home = folder.path().to_owned();
    drop(Database::open(&path, &MIGRATIONS[..1], 1).unwrap());
    let old = Connection::open(&path).unwrap();
    old.execute_batch(
        "INSERT INTO conversations (id, key) VALUES (7, 'orchestrator::a');
         INSERT INTO entries (conversation, seq, kind, at_ms, body, inbound)
             VALUES (7, 1, 'say', 0, '{\"text\":\"an old heron\"}', 0), (7, 2, 'say', 0, '\"heron\"', 0);",
    )
    .unwrap();
    drop(old);
    let words = super::Words::parse("heron").unwrap();
    let find = |log: &SqliteLog| seqs(&log.search(&conversation("a"), &words, Seq(u64::MAX), 9).unwrap());
    let surroundings = crate::store::home::Surroundings { user_folder: None, under_test: true };
    let home = crate::store::home::Home::prepare(&crate::store::home::HomeChoice::Given(home), &surroundings).unwrap();
    assert_eq!(find(&SqliteLog::open_to_read(&home, 9101).unwrap()), [1]);
    let log = open(&path);
    append(&log, vec![NewRow { body: json!({"text": "a new heron"}), ..row("a") }]).unwrap();
    assert_eq!(find(&log), [3, 1]);
    let reader = SqliteLog::open_to_read(&home, 9101).unwrap();
    assert_eq!(find(&reader), [3, 1], "also while the daemon runs");
    assert_eq!(append(&reader, vec![row("a")]).unwrap_err(), LogError::Closed);
}

/// The index is written in the transaction of the row: what is undone is not found.
#[test]
fn what_was_not_written_is_not_found() {
    let (_folder, path) = scratch();
    let log = open(&path);
    let said = NewRow { body: json!({"text": "heron"}), ..row("a") };
    append(&log, vec![said.clone(), settling("a", &[99])]).unwrap_err();
    append(&log, vec![row("a"), said]).unwrap();
    let count = |log: &SqliteLog| {
        let job = |connection: &Connection| {
            let sql = "SELECT count(*) FROM entries_search WHERE entries_search MATCH 'heron'";
            Ok(connection.query_row(sql, [], |found| found.get::<_, i64>(0))?)
        };
        log.database().read(job).unwrap()
    };
    assert_eq!(count(&log), 1);
}

#[test]
fn a_migration_that_fails_leaves_the_version_before() {
    let (_folder, path) = scratch();
    append(&open(&path), vec![row("a")]).unwrap();
    let next = MIGRATIONS.len() as i64 + 1;
    let sql = "CREATE TABLE half (x INTEGER); CREATE TABLE entries (x INTEGER)";
    let broken = [MIGRATIONS, &[Migration { version: next, name: "broken", sql }]].concat();
    assert_eq!(Database::open(&path, &broken, 1).unwrap_err().code(), "log_internal");
    let log = open(&path);
    assert_eq!(seqs(&everything(&log, "a")), [1]);
    let half: i64 = log
        .database()
        .read(|connection| {
            let sql = "SELECT count(*) FROM sqlite_master WHERE name = 'half'";
            Ok(connection.query_row(sql, [], |row| row.get(0))?)
        })
        .unwrap();
    assert_eq!(half, 0);
}

#[test]
fn two_daemons_cannot_open_one_log() {
    let (_folder, path) = scratch();
    let first = open(&path);
    let refused = SqliteLog::open_file(&path, 1).unwrap_err();
    assert_eq!(refused, LogError::InUse { path: with_suffix(&path, ".lock") });
    assert_eq!(refused.code(), "in_use");
    first.close().wait().unwrap();
    let second = open(&path);
    append(&second, vec![row("a")]).unwrap();
}

#[test]
fn closing_folds_everything_into_one_file() {
    let (_folder, path) = scratch();
    let log = open(&path);
    append(&log, vec![row("a")]).unwrap();
    assert_eq!(everything(&log, "a").len(), 1);
    log.close().wait().unwrap();
    assert!(!with_suffix(&path, "-wal").exists());
    drop(log);
    assert_eq!(everything(&open(&path), "a").len(), 1);
}

/// Lets the database grow by so many pages, no further.
fn limit_growth(log: &SqliteLog, pages: i64) {
    log.database()
        .write(move |connection| {
            let now: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
            connection.query_row(&format!("PRAGMA max_page_count = {}", now + pages), [], |_| Ok(()))?;
            Ok(())
        })
        .wait()
        .unwrap();
}

#[test]
fn a_full_disk_is_named_and_after_it_no_number_is_missing() {
    let (_folder, path) = scratch();
    let log = open(&path);
    append(&log, vec![inbound("a")]).unwrap();
    limit_growth(&log, 2);
    let release = hold_writer(&log);
    let big = NewRow { body: Value::String("x".repeat(200_000)), ..settling("a", &[1]) };
    let waiting = [log.append(vec![row("a")]), log.append(vec![big.clone()]), log.append(vec![row("a")])];
    drop(release);
    let results = waiting.map(|pending| pending.wait());
    assert_eq!(results[1].as_ref().unwrap_err().code(), "disk_full");
    let written = results.iter().filter(|result| result.is_ok()).count() as u64;
    // Whoever was told of an error is not in the log, whoever was not is.
    assert_eq!(log.newest(&conversation("a")).unwrap(), Seq(1 + written));
    assert_eq!(seqs(&log.pending(&conversation("a")).unwrap()), [1]);
    limit_growth(&log, 10_000);
    assert_eq!(append(&log, vec![big]).unwrap(), [Appended::New(Seq(2 + written))]);
    assert_eq!(seqs(&everything(&log, "a")), (1..=2 + written).collect::<Vec<_>>());
    assert_eq!(log.pending(&conversation("a")).unwrap(), []);
}

#[test]
fn a_log_that_cannot_be_written_says_so_and_can_still_be_read() {
    let (_folder, path) = scratch();
    let log = open(&path);
    append(&log, vec![row("a")]).unwrap();
    log.database().write(|connection| Ok(connection.pragma_update(None, "query_only", true)?)).wait().unwrap();
    for _ in 0..2 {
        assert_eq!(append(&log, vec![row("a")]).unwrap_err().code(), "read_only");
    }
    assert_eq!(seqs(&everything(&log, "a")), [1]);
    // The setting belongs to the connection; with a new one the disk is as good as writable again.
    drop(log);
    assert_eq!(append(&open(&path), vec![row("a")]).unwrap(), [Appended::New(Seq(2))]);
}

#[test]
fn a_damaged_row_is_reported_as_damage() {
    let (_folder, path) = scratch();
    let log = open(&path);
    append(&log, vec![row("a")]).unwrap();
    log.database()
        .write(|connection| Ok(connection.execute("UPDATE entries SET body = '{'", []).map(|_| ())?))
        .wait()
        .unwrap();
    let error = log.page(&conversation("a"), Seq(0), None, 1).unwrap_err();
    assert_eq!(error.code(), "log_damaged");
}

#[test]
fn other_tables_can_share_a_transaction_with_rows() {
    let (_folder, path) = scratch();
    let log = open(&path);
    let both = |settles: &'static [u64]| {
        log.database().write(move |connection| {
            connection.execute_batch("CREATE TABLE beside (x INTEGER)")?;
            super::append_within(connection, &[settling("a", settles)])
        })
    };
    let tables = || {
        let sql = "SELECT count(*) FROM sqlite_master WHERE name = 'beside'";
        log.database().read(|connection| Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)).unwrap()
    };
    assert_eq!(both(&[9]).wait().unwrap_err().code(), "unknown_row");
    assert_eq!(tables(), 0);
    assert_eq!(both(&[]).wait().unwrap(), [Appended::New(Seq(1))]);
    assert_eq!(tables(), 1);
}

#[cfg(unix)]
#[test]
fn the_file_and_its_side_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = scratch();
    let log = open(&path);
    append(&log, vec![row("a")]).unwrap();
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let mode = fs::metadata(with_suffix(&path, suffix)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
}

#[test]
fn settings_that_durability_rests_on_are_in_force() {
    let (_folder, path) = scratch();
    let log = open(&path);
    let settings = log
        .database()
        .write(|connection| {
            let text = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, String>(0));
            let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
            Ok((text("journal_mode")?, number("synchronous")?, number("foreign_keys")?, number("busy_timeout")?))
        })
        .wait()
        .unwrap();
    assert_eq!(settings, ("wal".to_owned(), 2, 1, 5000));
}
