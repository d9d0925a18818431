//! Rules S4, S6 and D1 to D4: the session file across starts, crashes and versions.
#![allow(clippy::unwrap_used, reason = "a failed step is the failure of the test")]

use super::*;
use crate::store::home::Home;
use crate::store::home::{HomeChoice, Surroundings};
use serde_json::{Value, json};
use std::time::{Duration, UNIX_EPOCH};

const NOW: i64 = 1_796_071_483_914;
const DAY: i64 = 24 * 60 * 60 * 1000;
const HOUR: i64 = 60 * 60 * 1000;
const PORT: u16 = 9101;

struct Scratch {
    _folder: tempfile::TempDir,
    home: Home,
    temporary: PathBuf,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let surroundings = Surroundings { user_folder: None, under_test: true };
        let home = Home::prepare(&HomeChoice::Given(folder.path().join("home")), &surroundings).unwrap();
        let temporary = folder.path().join("temporary");
        fs::create_dir(&temporary).unwrap();
        Self { _folder: folder, home, temporary }
    }

    /// A home whose session file has this text.
    fn with(text: &str) -> Self {
        let scratch = Self::new();
        scratch.write(&scratch.file(), text);
        scratch
    }

    fn write(&self, path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.home.sessions(PORT)
    }

    fn leftover(&self) -> PathBuf {
        temporary_of(&self.file())
    }

    fn legacy(&self) -> PathBuf {
        self.temporary.join(format!("comfyui-mcp-panel-sessions-{PORT}.json"))
    }

    fn open(&self) -> OpenedSessions {
        self.open_at(NOW)
    }

    fn open_at(&self, now_ms: i64) -> OpenedSessions {
        SessionStore::open(&self.home, PORT, &self.temporary, now_ms).unwrap()
    }

    fn store(&self) -> SessionStore {
        let opened = self.open();
        assert!(opened.trouble.is_none(), "{:?}", opened.trouble);
        opened.store
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file()).unwrap()).unwrap()
    }
}

fn key(backend: &str) -> ConversationKey {
    ConversationKey::new(format!("orchestrator::{backend}"))
}

fn id(text: &str) -> AgentSessionId {
    AgentSessionId::from(text)
}

fn current(entries: Value) -> String {
    json!({"v": 2, "sessions": entries}).to_string()
}

#[test]
fn s4_a_session_is_there_after_a_restart_and_belongs_to_its_port() {
    let scratch = Scratch::new();
    let store = scratch.store();
    assert!(store.set(&key("claude"), &id("one"), NOW).is_durable());
    assert!(store.set(&key("codex"), &id("two"), NOW).is_durable());
    drop(store);
    let store = scratch.store();
    assert_eq!(store.get(&key("claude"), NOW), Some(id("one")));
    assert_eq!(store.get(&key("codex"), NOW), Some(id("two")));
    assert_eq!(store.get(&key("gemini"), NOW), None);
    let other_port = SessionStore::open(&scratch.home, PORT + 1, &scratch.temporary, NOW).unwrap();
    assert_eq!(other_port.store.get(&key("claude"), NOW), None);
}

#[test]
fn s6_a_dead_id_is_never_returned_or_taken_again() {
    let scratch = Scratch::new();
    let store = scratch.store();
    assert!(store.set(&key("claude"), &id("gone"), NOW).is_durable());
    assert!(store.mark_dead(&key("claude"), &id("gone"), NOW).is_durable());
    assert_eq!(store.get(&key("claude"), NOW), None);
    drop(store);
    let store = scratch.store();
    assert_eq!(store.get(&key("claude"), NOW), None);
    assert!(store.is_dead(&key("claude"), &id("gone")));
    assert!(!store.is_dead(&key("codex"), &id("gone")));
    assert!(matches!(store.set(&key("claude"), &id("gone"), NOW), Stored::DeadId));
    assert_eq!(store.get(&key("claude"), NOW), None);
    assert!(store.set(&key("claude"), &id("fresh"), NOW).is_durable());
    assert_eq!(store.get(&key("claude"), NOW), Some(id("fresh")));
}

#[test]
fn s6_a_dead_id_does_not_come_back_by_way_of_a_legacy_entry() {
    let scratch = Scratch::with(&current(json!({"wf:a::claude": {"s": "gone", "t": NOW}})));
    let store = scratch.store();
    assert_eq!(store.get(&key("claude"), NOW), Some(id("gone")));
    assert!(store.mark_dead(&key("claude"), &id("gone"), NOW).is_durable());
    drop(store);
    let mut file = scratch.json();
    file["sessions"]["wf:a::claude"] = json!({"s": "gone", "t": NOW});
    scratch.write(&scratch.file(), &file.to_string());
    assert_eq!(scratch.store().get(&key("claude"), NOW), None);
}

#[test]
fn s6_marking_another_id_dead_keeps_the_living_one() {
    let scratch = Scratch::new();
    let store = scratch.store();
    assert!(store.set(&key("claude"), &id("alive"), NOW).is_durable());
    assert!(store.mark_dead(&key("claude"), &id("hinted"), NOW).is_durable());
    assert_eq!(store.get(&key("claude"), NOW), Some(id("alive")));
}

/// The crash is tried at every byte of the temporary file.
#[test]
fn d1_a_leftover_counts_only_when_it_is_complete() {
    let scratch = Scratch::new();
    let old = current(json!({"orchestrator::claude": {"s": "old", "t": NOW}}));
    let new = current(json!({"orchestrator::claude": {"s": "new", "t": NOW}}));
    for length in 0..=new.len() {
        scratch.write(&scratch.file(), &old);
        scratch.write(&scratch.leftover(), &new[..length]);
        let opened = scratch.open();
        let complete = length == new.len();
        assert_eq!(opened.store.get(&key("claude"), NOW), Some(id(if complete { "new" } else { "old" })));
        assert_eq!(opened.source, if complete { Source::Interrupted } else { Source::File });
        assert_eq!(opened.set_aside, None);
    }
    assert_eq!(scratch.json()["sessions"]["orchestrator::claude"]["s"], "new");
    assert!(!scratch.leftover().exists());
}

#[test]
fn d1_an_older_leftover_loses() {
    let scratch = Scratch::with(&current(json!({"orchestrator::claude": {"s": "file", "t": NOW}})));
    scratch.write(&scratch.leftover(), &current(json!({"orchestrator::claude": {"s": "left", "t": NOW}})));
    let file = fs::File::options().write(true).open(scratch.leftover()).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1000)).unwrap();
    let opened = scratch.open();
    assert_eq!(opened.source, Source::File);
    assert_eq!(opened.store.get(&key("claude"), NOW), Some(id("file")));
}

#[test]
fn d1_a_complete_leftover_of_the_very_first_write_wins_over_the_import() {
    let scratch = Scratch::new();
    scratch.write(&scratch.leftover(), &current(json!({"orchestrator::claude": {"s": "left", "t": NOW}})));
    scratch.write(&scratch.legacy(), &current(json!({"orchestrator::claude": {"s": "legacy", "t": NOW}})));
    assert_eq!(scratch.store().get(&key("claude"), NOW), Some(id("left")));
}

#[test]
fn d1_a_write_that_fails_destroys_nothing_and_says_so() {
    let scratch = Scratch::new();
    let store = scratch.store();
    assert!(store.set(&key("claude"), &id("one"), NOW).is_durable());
    let before = fs::read(scratch.file()).unwrap();
    // A folder in the place of the temporary file makes every write fail, for root too.
    fs::create_dir_all(scratch.leftover().join("inside")).unwrap();
    let outcome = store.set(&key("claude"), &id("two"), NOW);
    assert!(matches!(&outcome, Stored::Volatile(error) if !error.code().is_empty()));
    assert!(matches!(store.clear(&key("codex"), NOW), Stored::Volatile(_)));
    assert_eq!(fs::read(scratch.file()).unwrap(), before);
    assert_eq!(store.get(&key("claude"), NOW), Some(id("two")));
    fs::remove_dir_all(scratch.leftover()).unwrap();
    assert!(store.set(&key("claude"), &id("two"), NOW).is_durable());
    assert_eq!(scratch.json()["sessions"]["orchestrator::claude"]["s"], "two");
}

#[test]
fn d1_what_another_program_did_to_the_file_is_noticed_by_the_next_set() {
    let scratch = Scratch::new();
    let store = scratch.store();
    assert!(store.set(&key("claude"), &id("one"), NOW).is_durable());
    fs::remove_file(scratch.file()).unwrap();
    assert!(store.set(&key("claude"), &id("one"), NOW).is_durable());
    assert_eq!(scratch.json()["sessions"]["orchestrator::claude"]["s"], "one");
}

#[test]
fn d2_a_missing_file_imports_the_old_one_once_and_leaves_it() {
    let scratch = Scratch::new();
    let old = current(json!({"wf:a::claude": {"s": "a", "t": NOW - DAY}, "wf:b::codex": {"s": "b", "t": NOW}}));
    scratch.write(&scratch.legacy(), &old);
    let opened = scratch.open();
    assert_eq!(opened.source, Source::Import(Import::Taken(2)));
    assert!(opened.trouble.is_none());
    drop(opened);
    assert_eq!(fs::read_to_string(scratch.legacy()).unwrap(), old);
    scratch.write(&scratch.legacy(), &current(json!({"wf:c::claude": {"s": "later", "t": NOW}})));
    let opened = scratch.open();
    assert_eq!(opened.source, Source::File);
    assert_eq!(opened.store.get(&key("claude"), NOW), Some(id("a")));
}

#[test]
fn d2_an_unreadable_file_is_set_aside_and_the_old_one_is_not_consulted() {
    let broken = [
        "",
        "{",
        "garbage \u{0}",
        "[]",
        "3",
        "{\"v\":2}",
        "{\"v\":2,\"sessions\":[]}",
        "{\"v\":99,\"sessions\":{}}",
        "{\"a\":1}",
    ];
    for text in broken {
        let scratch = Scratch::with(text);
        scratch.write(&scratch.legacy(), &current(json!({"orchestrator::claude": {"s": "legacy", "t": NOW}})));
        let opened = scratch.open();
        assert_eq!(opened.source, Source::Empty, "{text}");
        let aside = opened.set_aside.unwrap();
        assert_eq!(aside, files::with_suffix(&scratch.file(), &format!(".unreadable-{NOW}")));
        assert_eq!(fs::read_to_string(aside).unwrap(), text);
        assert_eq!(opened.store.get(&key("claude"), NOW), None);
        drop(opened.store);
        // Nor at the next start, when nothing tells any more that there was a file.
        assert_eq!(scratch.store().get(&key("claude"), NOW), None);
    }
}

#[test]
fn d2_bytes_that_are_no_text_and_a_folder_are_unreadable_too() {
    let scratch = Scratch::with("");
    fs::write(scratch.file(), [0xff, 0xfe, 0x00]).unwrap();
    assert!(scratch.open().set_aside.is_some());
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.file().join("inside")).unwrap();
    let opened = scratch.open();
    assert!(opened.set_aside.unwrap().join("inside").exists());
    assert!(opened.store.set(&key("claude"), &id("one"), NOW).is_durable());
}

#[test]
fn d2_an_unreadable_file_beside_a_newer_complete_leftover_loses_nothing() {
    let scratch = Scratch::with("garbage");
    scratch.write(&scratch.leftover(), &current(json!({"orchestrator::claude": {"s": "left", "t": NOW}})));
    let opened = scratch.open();
    assert_eq!(opened.source, Source::Interrupted);
    assert_eq!(fs::read_to_string(opened.set_aside.unwrap()).unwrap(), "garbage");
    assert_eq!(opened.store.get(&key("claude"), NOW), Some(id("left")));
}

#[test]
fn d2_what_cannot_be_set_aside_is_never_written_over() {
    let scratch = Scratch::with("garbage");
    let store = scratch.store();
    fs::write(scratch.file(), "garbage again").unwrap();
    {
        let mut state = store.state();
        state.in_the_way = true;
        state.written = None;
    }
    assert!(store.set(&key("claude"), &id("one"), NOW + 1).is_durable());
    let aside = files::with_suffix(&scratch.file(), &format!(".unreadable-{}", NOW + 1));
    assert_eq!(fs::read_to_string(aside).unwrap(), "garbage again");
}

#[test]
fn d2_an_old_file_that_cannot_be_read_is_left_and_reported() {
    let scratch = Scratch::new();
    scratch.write(&scratch.legacy(), "garbage");
    let opened = scratch.open();
    assert_eq!(opened.source, Source::Import(Import::Refused(scratch.legacy())));
    assert_eq!(fs::read_to_string(scratch.legacy()).unwrap(), "garbage");
    assert!(opened.store.set(&key("claude"), &id("one"), NOW).is_durable());
}

#[cfg(unix)]
#[test]
fn d2_a_link_or_a_file_of_another_user_in_the_temporary_folder_is_not_imported() {
    let planted = current(json!({"orchestrator::claude": {"s": "planted", "t": NOW}}));
    let scratch = Scratch::new();
    let elsewhere = scratch.temporary.join("elsewhere");
    scratch.write(&elsewhere, &planted);
    std::os::unix::fs::symlink(&elsewhere, scratch.legacy()).unwrap();
    assert_eq!(scratch.open().source, Source::Import(Import::Refused(scratch.legacy())));
    if rustix::process::geteuid().is_root() {
        fs::remove_file(scratch.legacy()).unwrap();
        scratch.write(&scratch.legacy(), &planted);
        std::os::unix::fs::chown(scratch.legacy(), Some(65_534), None).unwrap();
        assert_eq!(scratch.open().source, Source::Import(Import::Refused(scratch.legacy())));
    }
}

#[test]
fn d3_the_newest_entry_of_the_backend_is_adopted_and_all_of_them_are_consumed() {
    let scratch = Scratch::with(&current(json!({
        "wf:a::claude": {"s": "older", "t": NOW - 2 * DAY},
        "tmp:b::claude": {"s": "newest", "t": NOW - DAY, "u": "uuid", "pl": {"i": 1, "b": 0}},
        "wf:c::claude": {"s": "oldest", "t": NOW - 3 * DAY},
        "wf:d::codex": {"s": "codex", "t": NOW},
    })));
    let store = scratch.store();
    assert_eq!(store.get(&key("claude"), NOW), Some(id("newest")));
    let sessions = scratch.json()["sessions"].clone();
    assert_eq!(sessions.as_object().unwrap().keys().collect::<Vec<_>>(), ["orchestrator::claude", "wf:d::codex"]);
    assert_eq!(sessions["orchestrator::claude"], json!({"s": "newest", "t": NOW, "pl": {"i": 1, "b": 0}}));
    assert!(store.clear(&key("claude"), NOW).is_durable());
    assert_eq!(store.get(&key("claude"), NOW), None);
    assert_eq!(store.get(&key("codex"), NOW), Some(id("codex")));
}

#[test]
fn d3_keys_of_tests_and_keys_that_are_none_of_a_tab_are_never_adopted() {
    let keys = [
        "e2e-1::claude",
        "spike-x::claude",
        "a::b::claude",
        "orchestrator::x::claude",
        "::claude",
        "claude",
        "wf:a::claudette",
    ];
    let entries: Value = keys.iter().map(|key| ((*key).to_owned(), json!({"s": *key, "t": NOW}))).collect();
    let scratch = Scratch::with(&current(entries));
    let store = scratch.store();
    assert_eq!(store.get(&key("claude"), NOW), None);
    assert!(store.set(&key("claude"), &id("one"), NOW).is_durable());
    let sessions = scratch.json()["sessions"].clone();
    assert!(keys.iter().all(|key| sessions[*key]["s"] == *key));
}

#[test]
fn d3_a_shared_entry_is_used_as_it_is_and_a_new_chat_resurrects_nothing() {
    let scratch = Scratch::with(&current(json!({
        "orchestrator::claude": {"s": "shared", "t": NOW - 5 * DAY},
        "wf:a::claude": {"s": "newer", "t": NOW},
    })));
    let store = scratch.store();
    assert_eq!(store.get(&key("claude"), NOW), Some(id("shared")));
    assert!(store.clear(&key("claude"), NOW).is_durable());
    assert_eq!(store.get(&key("claude"), NOW), None);
    drop(store);
    assert_eq!(scratch.store().get(&key("claude"), NOW), None);
}

#[test]
fn d3_after_a_death_no_older_session_slips_in() {
    let scratch = Scratch::with(&current(json!({
        "orchestrator::claude": {"s": "shared", "t": NOW},
        "wf:a::claude": {"s": "older", "t": NOW - DAY},
    })));
    let store = scratch.store();
    assert!(store.mark_dead(&key("claude"), &id("shared"), NOW).is_durable());
    assert_eq!(store.get(&key("claude"), NOW), None);
}

#[test]
fn d4_entries_unused_for_21_days_go_and_younger_ones_stay() {
    let scratch = Scratch::with(&current(json!({
        "orchestrator::claude": {"s": "expired", "t": NOW - 21 * DAY - 1},
        "orchestrator::codex": {"s": "alive", "t": NOW - 21 * DAY},
        "wf:a::claude": {"s": "expired too", "t": 0},
    })));
    let store = scratch.store();
    assert_eq!(store.get(&key("claude"), NOW), None);
    assert_eq!(store.get(&key("codex"), NOW), Some(id("alive")));
    assert_eq!(scratch.json()["sessions"], json!({"orchestrator::codex": {"s": "alive", "t": NOW}}));
}

#[test]
fn d4_an_entry_expires_in_a_running_daemon_too_and_use_keeps_it() {
    let scratch = Scratch::new();
    let store = scratch.store();
    for backend in ["used", "unused"] {
        assert!(store.set(&key(backend), &id("one"), NOW).is_durable());
    }
    assert_eq!(store.get(&key("used"), NOW + 20 * DAY), Some(id("one")));
    assert_eq!(store.get(&key("used"), NOW + 40 * DAY), Some(id("one")));
    assert_eq!(store.get(&key("unused"), NOW + 40 * DAY), None);
    drop(store);
    let opened = scratch.open_at(NOW + 60 * DAY);
    assert_eq!(opened.store.get(&key("used"), NOW + 60 * DAY), Some(id("one")));
}

#[test]
fn d4_use_is_recorded_hourly_at_most() {
    let scratch = Scratch::new();
    let store = scratch.store();
    assert!(store.set(&key("claude"), &id("one"), NOW).is_durable());
    let recorded = || scratch.json()["sessions"]["orchestrator::claude"]["t"].as_i64().unwrap();
    store.get(&key("claude"), NOW + HOUR - 1);
    assert!(store.set(&key("claude"), &id("one"), NOW + HOUR - 1).is_durable());
    assert_eq!(recorded(), NOW);
    store.get(&key("claude"), NOW + HOUR);
    assert_eq!(recorded(), NOW + HOUR);
    // A clock that goes back records nothing.
    store.get(&key("claude"), NOW - DAY);
    assert_eq!(recorded(), NOW + HOUR);
}

#[test]
fn d4_the_flat_version_is_read_and_rewritten() {
    let scratch = Scratch::with(r#"{"orchestrator::claude":"one","wf:a::codex":"two","v":"three"}"#);
    let store = scratch.store();
    assert_eq!(store.get(&key("claude"), NOW), Some(id("one")));
    assert_eq!(store.get(&key("codex"), NOW), Some(id("two")));
    assert_eq!(scratch.json()["v"], 2);
    assert_eq!(scratch.json()["sessions"]["v"]["s"], "three");
}

#[test]
fn d4_what_we_write_has_the_form_that_the_earlier_program_reads() {
    let scratch = Scratch::new();
    let store = scratch.store();
    assert!(store.set(&key("claude"), &id("one"), NOW).is_durable());
    assert_eq!(scratch.json(), json!({"v": 2, "sessions": {"orchestrator::claude": {"s": "one", "t": NOW}}}));
    assert!(store.mark_dead(&key("claude"), &id("one"), NOW).is_durable());
    // Dead ids lie beside the sessions, where it does not look.
    let expected = json!({"v": 2, "sessions": {}, "dead": {"orchestrator::claude": [{"s": "one", "t": NOW}]}});
    assert_eq!(scratch.json(), expected);
}

#[test]
fn d4_fields_that_are_not_ours_are_kept_and_the_retired_index_goes() {
    let text = json!({
        "v": 2,
        "stable": {"x": "y"},
        "future": [1, 2],
        "sessions": {
            "orchestrator::claude": {"s": "one", "t": NOW, "pl": {"i": 1, "b": 0}, "zz": null},
            "orchestrator::odd": {"session": "another form"},
        },
    });
    let scratch = Scratch::with(&text.to_string());
    let store = scratch.store();
    assert_eq!(store.get(&key("odd"), NOW), None);
    assert!(store.set(&key("codex"), &id("two"), NOW).is_durable());
    let mut expected = text.clone();
    expected.as_object_mut().unwrap().remove("stable");
    expected["sessions"]["orchestrator::codex"] = json!({"s": "two", "t": NOW});
    assert_eq!(scratch.json(), expected);
    // What was counted for a session does not count for the next one.
    assert!(store.set(&key("claude"), &id("next"), NOW).is_durable());
    assert_eq!(scratch.json()["sessions"]["orchestrator::claude"], json!({"s": "next", "t": NOW}));
}

#[test]
fn d4_times_in_the_future_or_without_sense_count_as_now() {
    let scratch = Scratch::with(&current(json!({
        "orchestrator::a": {"s": "future", "t": NOW + 900 * DAY},
        "orchestrator::b": {"s": "none"},
        "orchestrator::c": {"s": "text", "t": "yesterday"},
        "orchestrator::d": {"s": "fraction", "t": NOW as f64 + 0.0},
    })));
    drop(scratch.store());
    for name in ["a", "b", "c", "d"] {
        assert_eq!(scratch.json()["sessions"][format!("orchestrator::{name}")]["t"], NOW, "{name}");
    }
}

#[test]
fn d4_a_clock_that_was_not_set_costs_no_session() {
    let scratch = Scratch::with(&current(json!({"orchestrator::claude": {"s": "one", "t": NOW}})));
    // The computer starts in 1970, and the time comes later.
    let store = scratch.open_at(5_000).store;
    assert_eq!(store.get(&key("claude"), 6_000), Some(id("one")));
    assert!(store.set(&key("codex"), &id("two"), 7_000).is_durable());
    assert_eq!(scratch.json()["sessions"]["orchestrator::claude"]["t"], NOW);
    drop(store);
    let store = scratch.open_at(8_000).store;
    assert_eq!(store.get(&key("codex"), NOW + DAY), Some(id("two")), "the clock was set meanwhile");
    drop(store);
    let store = scratch.open_at(NOW + DAY).store;
    assert_eq!(store.get(&key("claude"), NOW + DAY), Some(id("one")));
    assert_eq!(store.get(&key("codex"), NOW + DAY), Some(id("two")));
}

#[test]
fn b1_clearing_is_durable_and_the_cleared_id_may_be_chosen_again() {
    let scratch = Scratch::new();
    let store = scratch.store();
    assert!(store.set(&key("claude"), &id("one"), NOW).is_durable());
    assert!(store.clear(&key("claude"), NOW).is_durable());
    drop(store);
    let store = scratch.store();
    assert_eq!(store.get(&key("claude"), NOW), None);
    // The person resumes it from the history.
    assert!(store.set(&key("claude"), &id("one"), NOW).is_durable());
    assert_eq!(store.get(&key("claude"), NOW), Some(id("one")));
}

#[test]
fn two_daemons_cannot_open_one_session_file() {
    let scratch = Scratch::new();
    let first = scratch.store();
    let refused = SessionStore::open(&scratch.home, PORT, &scratch.temporary, NOW).unwrap_err();
    assert_eq!(refused.code(), "in_use");
    assert!(refused.to_string().contains("panel-sessions-9101.json.lock"));
    drop(first);
    scratch.store();
}

#[test]
fn nothing_to_keep_writes_nothing() {
    let scratch = Scratch::new();
    let opened = scratch.open();
    assert_eq!(opened.source, Source::Empty);
    assert_eq!(opened.store.get(&key("claude"), NOW), None);
    assert!(!scratch.file().exists());
}

#[cfg(unix)]
#[test]
fn the_file_is_for_its_owner_alone_in_a_folder_that_is_too() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let scratch = Scratch::with(&current(json!({"orchestrator::claude": {"s": "one", "t": NOW}})));
    let folder = scratch.file().parent().unwrap().to_owned();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(scratch.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let store = scratch.store();
    assert_eq!((mode(&folder), mode(&scratch.file())), (0o700, 0o600));
    assert!(store.set(&key("claude"), &id("two"), NOW).is_durable());
    assert_eq!(mode(&scratch.file()), 0o600);
}
