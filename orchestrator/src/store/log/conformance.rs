//! What every [`LogStore`] must do, once; run against the one in memory and the one on disk.

#![allow(clippy::unwrap_used, reason = "a failed step is the failure of the test")]

use super::{Appended, LogError, LogStore, MemoryLog, NewRow, Row, SqliteLog, Words};
use proptest::prelude::*;
use routing_core::id::{ConversationKey, Seq};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn conversation(name: &str) -> ConversationKey {
    ConversationKey::new(format!("orchestrator::{name}"))
}

/// A plain row; tests change the fields that matter to them.
pub(super) fn row(name: &str) -> NewRow {
    NewRow {
        conversation: conversation(name),
        kind: "say".to_owned(),
        key: None,
        at_ms: 1_796_071_483_914,
        body: json!({"text": "hello"}),
        inbound: false,
        settles: Vec::new(),
    }
}

pub(super) fn keyed(name: &str, key: &str) -> NewRow {
    NewRow { key: Some(key.to_owned()), ..row(name) }
}

pub(super) fn inbound(name: &str) -> NewRow {
    NewRow { kind: "user".to_owned(), inbound: true, ..row(name) }
}

pub(super) fn settling(name: &str, settles: &[u64]) -> NewRow {
    NewRow { settles: settles.iter().map(|seq| Seq(*seq)).collect(), ..row(name) }
}

pub(super) fn append(log: &dyn LogStore, rows: Vec<NewRow>) -> Result<Vec<Appended>, LogError> {
    log.append(rows).wait()
}

pub(super) fn everything(log: &dyn LogStore, name: &str) -> Vec<Row> {
    log.page(&conversation(name), Seq(0), None, usize::MAX).unwrap()
}

pub(super) fn seqs(rows: &[Row]) -> Vec<u64> {
    rows.iter().map(|row| row.seq.0).collect()
}

fn a_row_comes_back_as_it_was_written(log: Arc<dyn LogStore>) {
    let bodies = [
        json!(null),
        json!({"text": "line\nü 漢字 \u{0} 'quoted' \"too\"", "n": 1.5, "big": u64::MAX, "deep": [[{"a": []}]]}),
        Value::String("x".repeat(300_000)),
    ];
    for (index, body) in bodies.iter().enumerate() {
        let key = Some(format!("mid:{index}"));
        let at_ms = -5 + index as i64;
        append(&*log, vec![NewRow { key, at_ms, body: body.clone(), ..inbound("a") }]).unwrap();
    }
    let rows = everything(&*log, "a");
    assert_eq!(rows.len(), 3);
    for (index, (row, body)) in rows.into_iter().zip(bodies).enumerate() {
        let expected = Row {
            conversation: conversation("a"),
            seq: Seq(index as u64 + 1),
            kind: "user".to_owned(),
            key: Some(format!("mid:{index}")),
            at_ms: -5 + index as i64,
            body,
            inbound: true,
            settled: false,
        };
        assert_eq!(row, expected);
    }
}

fn an_empty_log_has_nothing_and_says_so(log: Arc<dyn LogStore>) {
    let key = conversation("a");
    assert_eq!(log.newest(&key).unwrap(), Seq(0));
    assert_eq!(everything(&*log, "a"), []);
    assert_eq!(log.pending(&key).unwrap(), []);
    assert_eq!(log.conversations().unwrap(), []);
    assert_eq!(log.last_of_kind(&key, "say").unwrap(), None);
    assert_eq!(log.by_key(&key, "mid:1").unwrap(), None);
    assert_eq!(append(&*log, Vec::new()).unwrap(), []);
    log.flush().wait().unwrap();
}

fn s1_every_conversation_counts_from_one_by_itself(log: Arc<dyn LogStore>) {
    let answers = append(&*log, vec![row("b"), row("a"), row("b"), row("b")]).unwrap();
    let expected = [1, 1, 2, 3].map(|seq| Appended::New(Seq(seq)));
    assert_eq!(answers, expected);
    assert_eq!(log.newest(&conversation("b")).unwrap(), Seq(3));
    assert_eq!(log.newest(&conversation("a")).unwrap(), Seq(1));
    assert_eq!(log.conversations().unwrap(), [conversation("b"), conversation("a")]);
}

fn f2_a_page_is_what_lies_after_once_and_in_order(log: Arc<dyn LogStore>) {
    append(&*log, (0..10).map(|_| row("a")).collect()).unwrap();
    append(&*log, (0..3).map(|_| row("b")).collect()).unwrap();
    let page = |after, upto: Option<u64>, limit| {
        seqs(&log.page(&conversation("a"), Seq(after), upto.map(Seq), limit).unwrap())
    };
    assert_eq!(page(0, None, 4), [1, 2, 3, 4]);
    assert_eq!(page(4, None, 4), [5, 6, 7, 8]);
    assert_eq!(page(8, None, 4), [9, 10]);
    assert_eq!(page(10, None, 4), [0_u64; 0]);
    assert_eq!(page(2, Some(5), 100), [3, 4, 5]);
    assert_eq!(page(5, Some(5), 100), [0_u64; 0]);
    assert_eq!(page(0, Some(0), 100), [0_u64; 0]);
    assert_eq!(page(3, None, 0), [0_u64; 0]);
    assert_eq!(page(u64::MAX, Some(u64::MAX), 100), [0_u64; 0]);
    assert_eq!(page(9, Some(u64::MAX), usize::MAX), [10]);
}

fn d6_same_key_is_written_once(log: Arc<dyn LogStore>) {
    let first = NewRow { body: json!("first"), ..keyed("a", "mid:7") };
    assert_eq!(append(&*log, vec![first]).unwrap(), [Appended::New(Seq(1))]);
    append(&*log, vec![row("a")]).unwrap();
    let again = NewRow { body: json!("again"), kind: "other".to_owned(), ..keyed("a", "mid:7") };
    assert_eq!(append(&*log, vec![again]).unwrap(), [Appended::Duplicate(Seq(1))]);
    assert_eq!(seqs(&everything(&*log, "a")), [1, 2]);
    let stored = log.by_key(&conversation("a"), "mid:7").unwrap().unwrap();
    assert_eq!((stored.seq, stored.body), (Seq(1), json!("first")));
}

fn d6_same_key_twice_in_one_append_is_written_once(log: Arc<dyn LogStore>) {
    let answers = append(&*log, vec![keyed("a", "k"), row("a"), keyed("a", "k"), keyed("a", "j")]).unwrap();
    let expected = [Appended::New(Seq(1)), Appended::New(Seq(2)), Appended::Duplicate(Seq(1)), Appended::New(Seq(3))];
    assert_eq!(answers, expected);
    assert_eq!(answers.iter().map(|answer| answer.seq().0).collect::<Vec<_>>(), [1, 2, 1, 3]);
}

fn d6_a_key_belongs_to_its_conversation(log: Arc<dyn LogStore>) {
    append(&*log, vec![keyed("a", "mid:7")]).unwrap();
    assert_eq!(append(&*log, vec![keyed("b", "mid:7")]).unwrap(), [Appended::New(Seq(1))]);
    assert_eq!(log.by_key(&conversation("c"), "mid:7").unwrap(), None);
}

fn d6_a_duplicate_settles_nothing(log: Arc<dyn LogStore>) {
    append(&*log, vec![keyed("a", "run:1"), inbound("a")]).unwrap();
    let again = NewRow { key: Some("run:1".to_owned()), ..settling("a", &[2]) };
    assert_eq!(append(&*log, vec![again]).unwrap(), [Appended::Duplicate(Seq(1))]);
    assert_eq!(seqs(&log.pending(&conversation("a")).unwrap()), [2]);
}

fn said(text: &str) -> NewRow {
    NewRow { body: json!({"text": text, "context": "hidden words"}), ..row("a") }
}

fn found(log: &dyn LogStore, words: &str) -> Vec<u64> {
    let words = Words::parse(words).unwrap();
    seqs(&log.search(&conversation("a"), &words, Seq(u64::MAX), usize::MAX).unwrap())
}

fn a_search_finds_rows_that_have_every_word_the_newest_first(log: Arc<dyn LogStore>) {
    append(&*log, vec![said("Make the KSampler blue"), said("blue sky"), row("a"), said("the sampler again")]).unwrap();
    append(&*log, vec![NewRow { body: json!({"text": "blue"}), ..row("b") }]).unwrap();
    append(&*log, vec![NewRow { body: json!("blue"), ..row("a") }, NewRow { body: json!({"text": 5}), ..row("a") }])
        .unwrap();
    assert_eq!(found(&*log, "sampler"), [4, 1]);
    assert_eq!(found(&*log, "BLUE sampler"), [1]);
    assert_eq!(found(&*log, "blue"), [2, 1]);
    assert_eq!(found(&*log, "ue sky"), [2], "short words are looked for, too");
    assert_eq!(found(&*log, "hidden"), [0_u64; 0], "what panels are not told is not found");
    let words = Words::parse("blue").unwrap();
    let page = |before, limit| seqs(&log.search(&conversation("a"), &words, Seq(before), limit).unwrap());
    assert_eq!((page(u64::MAX, 1), page(2, 9), page(1, 9)), (vec![2], vec![1], vec![]));
    assert_eq!(log.search(&conversation("nobody"), &words, Seq(9), 9).unwrap(), []);
    assert_eq!(Words::parse(" \n\u{0} "), None);
}

fn a_search_takes_every_script_and_no_expression(log: Arc<dyn LogStore>) {
    append(
        &*log,
        vec![said("漢字のテキストを生成する"), said("say \"AND\" or NOT"), said("Grüße, ÄPFEL"), said("50% a_b*")],
    )
    .unwrap();
    assert_eq!(found(&*log, "テキスト"), [1]);
    assert_eq!(found(&*log, "漢字"), [1], "two signs are a word there");
    assert_eq!(found(&*log, "生"), [1]);
    assert_eq!(found(&*log, "äpfel GRÜSSE"), [0_u64; 0]);
    assert_eq!(found(&*log, "äpfel GRÜßE"), [3]);
    assert_eq!(found(&*log, "\"and\""), [2]);
    assert_eq!(found(&*log, "a_b*"), [4]);
    for words in ["\"", "AND", "NOT or", "NEAR(a b)", "*", "words:x", "-x", "(", "a\" OR \"b", "^say", "{x}: y", "%"] {
        let _ = found(&*log, words);
    }
    assert_eq!(found(&*log, "50%"), [4]);
    assert_eq!(found(&*log, "%"), [4]);
}

fn an_inbound_row_waits_until_it_is_settled(log: Arc<dyn LogStore>) {
    append(&*log, vec![inbound("a"), row("a"), inbound("a"), inbound("a"), inbound("b")]).unwrap();
    let waiting = || seqs(&log.pending(&conversation("a")).unwrap());
    assert_eq!(waiting(), [1, 3, 4]);
    append(&*log, vec![settling("a", &[3, 1])]).unwrap();
    assert_eq!(waiting(), [4]);
    let settled: Vec<_> = everything(&*log, "a").iter().map(|row| row.settled).collect();
    assert_eq!(settled, [true, false, true, false, false]);
    assert_eq!(seqs(&log.pending(&conversation("b")).unwrap()), [1]);
}

fn settling_twice_is_harmless(log: Arc<dyn LogStore>) {
    append(&*log, vec![inbound("a"), settling("a", &[1])]).unwrap();
    append(&*log, vec![settling("a", &[1, 1])]).unwrap();
    assert_eq!(log.pending(&conversation("a")).unwrap(), []);
    assert_eq!(log.newest(&conversation("a")).unwrap(), Seq(3));
}

fn a_row_that_is_not_there_or_not_inbound_cannot_be_settled(log: Arc<dyn LogStore>) {
    append(&*log, vec![inbound("a"), row("a"), inbound("b"), inbound("b"), inbound("b"), inbound("b")]).unwrap();
    for unknown in [0, 2, 4, u64::MAX] {
        let refused = append(&*log, vec![settling("a", &[1, unknown])]).unwrap_err();
        assert_eq!(refused, LogError::UnknownRow { conversation: conversation("a"), seq: Seq(unknown) });
        assert_eq!(refused.code(), "unknown_row");
    }
    assert_eq!(seqs(&log.pending(&conversation("a")).unwrap()), [1]);
    assert_eq!(log.newest(&conversation("a")).unwrap(), Seq(2));
}

fn all_rows_of_an_append_or_none(log: Arc<dyn LogStore>) {
    append(&*log, vec![inbound("a")]).unwrap();
    let rows = vec![keyed("new", "k"), keyed("a", "k"), settling("a", &[1]), settling("a", &[99])];
    assert_eq!(append(&*log, rows).unwrap_err().code(), "unknown_row");
    assert_eq!(log.conversations().unwrap(), [conversation("a")]);
    assert_eq!(seqs(&log.pending(&conversation("a")).unwrap()), [1]);
    assert_eq!(log.by_key(&conversation("a"), "k").unwrap(), None);
    let after = append(&*log, vec![keyed("a", "k"), keyed("new", "k")]).unwrap();
    assert_eq!(after, [Appended::New(Seq(2)), Appended::New(Seq(1))]);
}

fn the_last_of_a_kind_is_found_among_others(log: Arc<dyn LogStore>) {
    let boundary = |name| NewRow { kind: "boundary".to_owned(), ..row(name) };
    append(&*log, vec![boundary("a"), row("a"), boundary("a"), row("a"), boundary("b")]).unwrap();
    let last = |name, kind| log.last_of_kind(&conversation(name), kind).unwrap().map(|row| row.seq.0);
    assert_eq!(last("a", "boundary"), Some(3));
    assert_eq!(last("a", "say"), Some(4));
    assert_eq!(last("a", "bound"), None);
    assert_eq!(last("c", "say"), None);
}

fn the_newest_of_some_kinds_come_in_order_and_not_from_before_a_place(log: Arc<dyn LogStore>) {
    let of = |kind: &str, name| NewRow { kind: kind.to_owned(), ..row(name) };
    for kind in ["user", "say", "action", "user", "say", "action", "event"] {
        append(&*log, vec![of(kind, "a"), of(kind, "b")]).unwrap();
    }
    let newest = |after, limit| {
        seqs(&log.newest_of_kinds(&conversation("a"), &["user", "say", "event"], Seq(after), limit).unwrap())
    };
    assert_eq!(newest(0, 100), [1, 2, 4, 5, 7]);
    assert_eq!(newest(0, 2), [5, 7]);
    assert_eq!(newest(4, 100), [5, 7]);
    assert_eq!(newest(7, 100), [] as [u64; 0]);
    assert_eq!(log.newest_of_kinds(&conversation("c"), &["say"], Seq(0), 9).unwrap(), []);
}

fn a_settling_row_may_be_inbound_itself(log: Arc<dyn LogStore>) {
    append(&*log, vec![inbound("a")]).unwrap();
    append(&*log, vec![NewRow { inbound: true, ..settling("a", &[1]) }]).unwrap();
    assert_eq!(seqs(&log.pending(&conversation("a")).unwrap()), [2]);
}

fn appends_take_effect_in_the_order_of_the_calls_even_if_nobody_waits(log: Arc<dyn LogStore>) {
    for number in 0..50 {
        drop(log.append(vec![NewRow { body: json!(number), ..row("a") }]));
    }
    log.flush().wait().unwrap();
    let bodies: Vec<_> = everything(&*log, "a").into_iter().map(|row| row.body).collect();
    assert_eq!(bodies, (0..50).map(|number| json!(number)).collect::<Vec<_>>());
}

fn eight_writers_leave_no_gap(log: Arc<dyn LogStore>) {
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for number in 0..200_u64 {
                    // Every tenth append fails as a whole, after it has written a row.
                    if number % 10 == 9 {
                        append(&*log, vec![row("shared"), settling("shared", &[u64::MAX])]).unwrap_err();
                    }
                    let body = json!([writer, number]);
                    let own = format!("own-{writer}");
                    let rows = vec![NewRow { body, ..keyed("shared", &format!("{writer}/{number}")) }, row(&own)];
                    let answers = append(&*log, rows).unwrap();
                    assert_eq!(answers[1], Appended::New(Seq(number + 1)));
                    // What was answered can be read.
                    let shared = log.by_key(&conversation("shared"), &format!("{writer}/{number}")).unwrap().unwrap();
                    assert_eq!(shared.seq, answers[0].seq());
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let rows = everything(&*log, "shared");
    assert_eq!(seqs(&rows), (1..=1600).collect::<Vec<_>>());
    for writer in 0..8 {
        let of_writer = rows.iter().filter(|row| row.body[0] == json!(writer)).map(|row| row.body[1].clone());
        assert_eq!(of_writer.collect::<Vec<_>>(), (0..200).map(|number| json!(number)).collect::<Vec<_>>());
    }
}

fn a_closed_log_takes_and_tells_nothing(log: Arc<dyn LogStore>) {
    let before = log.append(vec![row("a")]);
    log.close().wait().unwrap();
    assert_eq!(before.wait().unwrap(), [Appended::New(Seq(1))]);
    let key = conversation("a");
    assert_eq!(append(&*log, vec![row("a")]).unwrap_err(), LogError::Closed);
    assert_eq!(log.flush().wait().unwrap_err(), LogError::Closed);
    assert_eq!(log.page(&key, Seq(0), None, 1).unwrap_err(), LogError::Closed);
    assert_eq!(log.newest(&key).unwrap_err(), LogError::Closed);
    assert_eq!(log.pending(&key).unwrap_err(), LogError::Closed);
    assert_eq!(log.conversations().unwrap_err(), LogError::Closed);
    assert_eq!(log.last_of_kind(&key, "say").unwrap_err(), LogError::Closed);
    assert_eq!(log.by_key(&key, "k").unwrap_err(), LogError::Closed);
    log.close().wait().unwrap();
}

async fn an_append_can_be_awaited(log: Arc<dyn LogStore>) {
    let first = log.append(vec![row("a")]);
    let second = log.append(vec![row("a")]);
    assert_eq!(second.await.unwrap(), [Appended::New(Seq(2))]);
    assert_eq!(first.await.unwrap(), [Appended::New(Seq(1))]);
}

macro_rules! suite {
    ($($test:ident)*) => {
        mod memory {
            $(#[test] fn $test() { super::$test(std::sync::Arc::new(super::MemoryLog::new())); })*

            #[tokio::test]
            async fn an_append_can_be_awaited() {
                super::an_append_can_be_awaited(std::sync::Arc::new(super::MemoryLog::new())).await;
            }
        }
        mod sqlite {
            use super::{Arc, LogStore, SqliteLog};

            fn open(folder: &tempfile::TempDir) -> Arc<dyn LogStore> {
                Arc::new(SqliteLog::open_file(&folder.path().join("log.db"), 1).unwrap().store)
            }

            $(#[test] fn $test() {
                let folder = tempfile::tempdir().unwrap();
                super::$test(open(&folder));
            })*

            #[tokio::test]
            async fn an_append_can_be_awaited() {
                let folder = tempfile::tempdir().unwrap();
                super::an_append_can_be_awaited(open(&folder)).await;
            }
        }
    };
}

suite! {
    a_row_comes_back_as_it_was_written
    an_empty_log_has_nothing_and_says_so
    s1_every_conversation_counts_from_one_by_itself
    f2_a_page_is_what_lies_after_once_and_in_order
    d6_same_key_is_written_once
    d6_same_key_twice_in_one_append_is_written_once
    d6_a_key_belongs_to_its_conversation
    d6_a_duplicate_settles_nothing
    a_search_finds_rows_that_have_every_word_the_newest_first
    a_search_takes_every_script_and_no_expression
    an_inbound_row_waits_until_it_is_settled
    settling_twice_is_harmless
    a_row_that_is_not_there_or_not_inbound_cannot_be_settled
    all_rows_of_an_append_or_none
    the_last_of_a_kind_is_found_among_others
    the_newest_of_some_kinds_come_in_order_and_not_from_before_a_place
    a_settling_row_may_be_inbound_itself
    appends_take_effect_in_the_order_of_the_calls_even_if_nobody_waits
    eight_writers_leave_no_gap
    a_closed_log_takes_and_tells_nothing
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<NewRow>),
    /// The store on disk is closed, or simply dropped, and opened again.
    Reopen {
        close: bool,
    },
}

fn any_row() -> impl Strategy<Value = NewRow> {
    let name = prop::sample::select(vec!["a", "b"]);
    let kind = prop::sample::select(vec!["say", "user"]);
    let key = prop::option::weighted(0.4, prop::sample::select(vec!["k1", "k2", "k3", "k4"]));
    let settles = prop::collection::vec(0..12_u64, 0..3);
    (name, kind, key, any::<bool>(), settles).prop_map(|(name, kind, key, inbound, settles)| NewRow {
        kind: kind.to_owned(),
        key: key.map(str::to_owned),
        inbound,
        ..settling(name, if inbound { &[] } else { &settles })
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec(any_row(), 0..5).prop_map(Step::Append),
        1 => any::<bool>().prop_map(|close| Step::Reopen { close }),
    ]
}

/// What must hold of any log, whatever was done to it.
fn check_invariants(log: &dyn LogStore) {
    for key in log.conversations().unwrap() {
        let rows = log.page(&key, Seq(0), None, usize::MAX).unwrap();
        assert_eq!(seqs(&rows), (1..=rows.len() as u64).collect::<Vec<_>>());
        assert_eq!(log.newest(&key).unwrap(), Seq(rows.len() as u64));
        let waiting: Vec<_> = rows.iter().filter(|row| row.inbound && !row.settled).cloned().collect();
        assert_eq!(log.pending(&key).unwrap(), waiting);
        assert!(rows.iter().all(|row| row.inbound || !row.settled));
        for row in rows.iter().filter(|row| row.key.is_some()) {
            let found = log.by_key(&key, row.key.as_deref().unwrap()).unwrap();
            assert_eq!(found.as_ref(), Some(row));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disk_and_memory_agree_and_no_script_leaves_a_gap(script in prop::collection::vec(any_step(), 1..25)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let open = || Some(SqliteLog::open_file(&path, 1).unwrap().store);
        let memory = MemoryLog::new();
        let mut disk = open();
        for step in script {
            match step {
                Step::Append(rows) => {
                    let expected = append(&memory, rows.clone());
                    prop_assert_eq!(append(disk.as_ref().unwrap(), rows), expected);
                }
                Step::Reopen { close } => {
                    let store = disk.take().unwrap();
                    if close {
                        store.close().wait().unwrap();
                    }
                    drop(store);
                    disk = open();
                }
            }
        }
        let disk = disk.unwrap();
        prop_assert_eq!(disk.conversations().unwrap(), memory.conversations().unwrap());
        for name in ["a", "b"] {
            prop_assert_eq!(everything(&disk, name), everything(&memory, name));
        }
        check_invariants(&disk);
        check_invariants(&memory);
    }
}
