//! The daemon on a disk that fails: nothing is acknowledged that is not on disk, nothing that was said is lost, and
//! nobody has to restart anything.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a panic is the failure of a test, and a skip is told")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tests_e2e::harness::{Client, Daemon, Home, PATIENCE, Puppet, PuppetMaster, SimpleCanvas};
use tokio::process::Command;

/// After the disk is well again, the log must be within this.
const SOON: Duration = Duration::from_secs(10);

async fn one_agent() -> (PuppetMaster, Home) {
    let master = PuppetMaster::new().await;
    let home = Home::new("");
    let agent = master.agent("one", &home.scratch().join("acp"));
    home.configure(&format!("default_agent = \"one\"\n{agent}"));
    (master, home)
}

async fn tab(daemon: &Daemon, name: &str) -> Client {
    let mut client = daemon.connect().await;
    client.hello(name, None, SimpleCanvas::showing("w1")).await;
    client
}

/// A tab whose message the agent is working on.
async fn in_a_turn(daemon: &Daemon, master: &PuppetMaster) -> (Client, Puppet) {
    let mut tab = tab(daemon, "tab-1").await;
    tab.say("m1", "begin").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    (tab, agent)
}

/// The library that fails on demand; `None` where it cannot be used.
fn faulty_disk() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("disk.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("faults/disk.c");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let compiled = std::process::Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .status();
        (cfg!(target_os = "linux") && compiled.is_ok_and(|status| status.success())).then_some((folder, library))
    });
    if built.is_none() {
        eprintln!("SKIPPED: a faulty disk needs Linux and a C compiler");
    }
    built.as_ref().map(|(_, library)| library.as_path())
}

/// A disk whose faults a test switches on and off.
struct Disk {
    control: PathBuf,
}

impl Disk {
    async fn start(home: &Home) -> Option<(Self, Daemon)> {
        let library = faulty_disk()?;
        let control = home.scratch().join("faulty");
        let mut command = home.serve();
        command.env("LD_PRELOAD", library).env("FAULTY_DISK", &control);
        Some((Self { control }, home.start_as(command).await))
    }

    fn fails(&self, how: &str) {
        let fresh = self.control.with_extension("fresh");
        std::fs::write(&fresh, how).unwrap();
        std::fs::rename(fresh, &self.control).unwrap();
    }

    fn is_well(&self) {
        std::fs::remove_file(&self.control).unwrap();
    }
}

/// What the log holds, as a fresh tab is told.
async fn transcript(daemon: &Daemon) -> Vec<Value> {
    let mut fresh = tab(daemon, "tab-to-look").await;
    fresh.settle().await;
    fresh.all(&json!({"type": "entry"})).into_iter().cloned().collect()
}

fn texts(entries: &[Value], kind: &str) -> Vec<String> {
    let of_kind = entries.iter().filter(|entry| entry["kind"] == kind);
    of_kind.map(|entry| entry["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// What every kind of trouble has in common: the message is refused with its code and not acknowledged, what the agent
/// says and that it ends its turn is written as soon as the disk is well, and a crash afterwards loses nothing.
async fn refuses_keeps_and_recovers(
    daemon: Daemon,
    home: &Home,
    master: &PuppetMaster,
    code: &str,
    fail: impl FnOnce(),
    mend: impl FnOnce(),
) {
    let (mut tab, mut agent) = in_a_turn(&daemon, master).await;
    tab.say("m2", "waits").await;
    tab.until(&json!({"type": "ack", "kind": "working", "mid": "m2"})).await;
    fail();
    tab.say("m3", "refused").await;
    let nack = tab.until(&json!({"type": "nack", "mid": "m3"})).await;
    assert_eq!(nack["code"], code, "{nack}");
    assert!(nack.to_string().contains("repeat"), "it says what to do: {nack}");
    agent.say("kept words").await;
    agent.end().await;
    tab.settle().await;
    tab.say("m4", "refused too").await;
    tab.until(&json!({"type": "nack", "mid": "m4", "code": code})).await;
    assert!(tab.all(&json!({"type": "entry", "kind": "say"})).is_empty(), "nothing is shown as recorded");
    assert!(tab.all(&json!({"type": "turn", "state": "done"})).is_empty());
    let told = |tab: &Client| {
        let says = tab.all(&json!({"type": "say"}));
        says.iter().filter(|say| say["text"].as_str().is_some_and(|text| text.contains("recorded"))).count()
    };
    assert_eq!(told(&tab), 1, "people are told once");

    mend();
    let begun = Instant::now();
    tab.until(&json!({"type": "entry", "kind": "say", "text": "kept words"})).await;
    tab.until(&json!({"type": "entry", "kind": "turn_end", "outcome": "completed"})).await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert!(agent.prompt().await.contains("waits"), "what waited is answered without a further word");
    tab.say("m3", "refused").await;
    tab.until(&json!({"type": "ack", "kind": "working", "mid": "m3"})).await;
    tab.settle().await;
    assert_eq!(told(&tab), 2, "and once that it is over");
    daemon.kill().await;

    let daemon = home.start().await;
    let entries = transcript(&daemon).await;
    assert_eq!(texts(&entries, "user"), ["begin", "waits", "refused"], "m4 was refused and nobody sent it again");
    assert_eq!(texts(&entries, "say"), ["kept words"]);
    let places: Vec<u64> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(places, (1..=places.len() as u64).collect::<Vec<_>>(), "without gap, in order, once");
    daemon.stop().await;
}

#[tokio::test]
async fn d6_after_a_failed_sync_nothing_is_acknowledged_and_nothing_is_lost() {
    let (master, home) = one_agent().await;
    let Some((disk, daemon)) = Disk::start(&home).await else { return };
    refuses_keeps_and_recovers(daemon, &home, &master, "disk_error", || disk.fails("sync 5 .db"), || disk.is_well())
        .await;
}

#[tokio::test]
async fn d6_a_full_disk_refuses_by_name_and_recovers_by_itself() {
    let (master, home) = one_agent().await;
    let Some((disk, daemon)) = Disk::start(&home).await else { return };
    refuses_keeps_and_recovers(daemon, &home, &master, "disk_full", || disk.fails("write 28 .db"), || disk.is_well())
        .await;
}

/// The database knows only an error; the system says what it is: no quota, a file system that became read-only.
#[tokio::test]
async fn d6_no_quota_and_a_file_system_that_became_read_only_are_named() {
    for (how, code) in [("write 122 .db", "disk_full"), ("write 30 .db", "read_only"), ("write 5 .db", "disk_error")] {
        let (_master, home) = one_agent().await;
        let Some((disk, daemon)) = Disk::start(&home).await else { return };
        let mut tab = tab(&daemon, "tab-1").await;
        disk.fails(how);
        tab.say("m1", "begin").await;
        tab.until(&json!({"type": "nack", "mid": "m1", "code": code})).await;
        disk.is_well();
        tab.say("m1", "begin").await;
        tab.until(&json!({"type": "ack", "kind": "working", "mid": "m1"})).await;
        daemon.stop().await;
    }
}

/// The session file lies on the same disk: it is written as soon as the log can be, without a further occasion.
#[tokio::test]
async fn d1_a_session_that_the_disk_refused_is_written_when_it_recovers() {
    let (master, home) = one_agent().await;
    let Some((disk, daemon)) = Disk::start(&home).await else { return };
    disk.fails("write 28 panel-sessions");
    let (mut tab, mut agent) = in_a_turn(&daemon, &master).await;
    assert!(home.sessions()["sessions"].get("orchestrator::one").is_none());
    disk.fails("write 28 /home/");
    tab.say("m2", "refused").await;
    tab.until(&json!({"type": "nack", "mid": "m2", "code": "disk_full"})).await;
    disk.is_well();
    let begun = Instant::now();
    while home.sessions()["sessions"]["orchestrator::one"]["s"] != agent.started["session"] {
        assert!(begun.elapsed() < SOON, "{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    daemon.stop().await;
}

/// A limit on the size of files ends a program that does not expect it.
#[tokio::test]
async fn d6_a_limit_on_file_size_is_survived() {
    let (master, home) = one_agent().await;
    let daemon = home.start().await;
    let pid = daemon.pid().to_string();
    let limit =
        |size: &str| std::process::Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={size}:")]).status();
    if !limit("unlimited").is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: needs prlimit");
        return;
    }
    let limited = || assert!(limit("4096").unwrap().success());
    let mend = || assert!(limit("unlimited").unwrap().success());
    refuses_keeps_and_recovers(daemon, &home, &master, "disk_error", limited, mend).await;
}

#[tokio::test]
async fn d6_a_log_that_was_moved_away_takes_nothing_until_it_is_back() {
    let (master, home) = one_agent().await;
    let daemon = home.start().await;
    let log = home.path().join(format!("conversations-{}.db", home.port));
    let elsewhere = home.scratch().join("elsewhere");
    let (from, to) = (log.clone(), elsewhere.clone());
    let take = move || std::fs::rename(from, to).unwrap();
    let put_back = move || std::fs::rename(elsewhere, log).unwrap();
    refuses_keeps_and_recovers(daemon, &home, &master, "log_gone", take, put_back).await;
}

/// A real file system without space, in a namespace of its own.
#[tokio::test]
async fn d6_a_real_file_system_that_is_full_recovers_when_space_is_freed() {
    let (master, home) = one_agent().await;
    let folder = home.path();
    let folder = folder.to_str().unwrap();
    let possible = std::process::Command::new("unshare")
        .args(["-rm", "sh", "-c", "mount -t tmpfs none /mnt"])
        .stderr(Stdio::null())
        .status();
    if !possible.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: needs user namespaces");
        return;
    }
    let script = "cp \"$1/config.toml\" \"$1/../kept.toml\" && mount -t tmpfs -o size=1m,mode=700 none \"$1\" \
        && cp \"$1/../kept.toml\" \"$1/config.toml\" && shift && exec \"$@\"";
    let daemon = home.start_as(through(home.serve(), "unshare", &["-rm", "sh", "-c", script, "sh", folder])).await;
    let inside = PathBuf::from(format!("/proc/{}/root{folder}", daemon.pid()));
    let filler = inside.join("filler");
    let (mut tab, mut agent) = in_a_turn(&daemon, &master).await;
    std::fs::write(&filler, vec![0; 2 << 20]).unwrap_err();
    let mut taken = 0;
    // What the write-ahead log has space for already is still taken, and is on disk.
    let nack = loop {
        let mid = format!("fill-{taken}");
        tab.say(&mid, &"x".repeat(40_000)).await;
        let frame = tab.next().await.unwrap();
        if frame["type"] == "nack" {
            break frame;
        }
        taken += usize::from(frame["type"] == "ack");
        assert!(taken < 100, "the disk does not get full");
    };
    assert_eq!(nack["code"], "disk_full", "{nack}");
    agent.say(&"kept-words-".repeat(3_000)).await;
    agent.end().await;
    tab.settle().await;
    assert!(tab.all(&json!({"type": "entry", "kind": "say"})).is_empty());
    std::fs::remove_file(&filler).unwrap();
    let begun = Instant::now();
    let entry = tab.until(&json!({"type": "entry", "kind": "say"})).await;
    assert!(entry["text"].as_str().unwrap().starts_with("kept-words-"));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    daemon.stop().await;
}

/// A command that is run by another program.
fn through(command: Command, program: &str, words: &[&str]) -> Command {
    let command = command.as_std();
    let mut outer = Command::new(program);
    outer.args(words).arg(command.get_program()).args(command.get_args()).env_clear();
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.stdin(Stdio::null()).kill_on_drop(true);
    outer
}

/// Runs a daemon that must not start; yields its code and what it wrote.
async fn refused(mut command: Command) -> Value {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = tokio::time::timeout(PATIENCE, output).await.expect("it ends").unwrap();
    assert!(!output.status.success());
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let line = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    line.unwrap_or_else(|| panic!("no answer: {text}"))
}

/// The same home on another address: the port is free there, the files are not.
#[tokio::test]
async fn s4_two_daemons_never_share_a_file_and_the_second_one_says_who_has_it() {
    let (_master, home) = one_agent().await;
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: needs IPv6");
        return;
    }
    let daemon = home.start().await;
    let config = std::fs::read_to_string(home.path().join("config.toml")).unwrap();
    home.configure(&format!("{config}\n[server]\nbind = \"::1\"\n"));
    let answer = refused(home.serve()).await;
    assert_eq!(answer["code"], "in_use", "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("another port or home"), "{answer}");
    let mut tab = tab(&daemon, "tab-1").await;
    tab.say("m1", "still here").await;
    tab.until(&json!({"type": "ack", "kind": "working", "mid": "m1"})).await;
    daemon.stop().await;
}

#[tokio::test]
async fn s4_two_ports_of_one_home_and_a_copied_home_keep_apart() {
    let (_master, home) = one_agent().await;
    let first = home.start().await;
    let mut here = tab(&first, "tab-1").await;
    here.say("m1", "said to the first").await;
    here.until(&json!({"type": "ack", "kind": "working", "mid": "m1"})).await;
    let folder = home.path();
    let beside = home.command(&["--home", folder.to_str().unwrap(), "--json", "serve", "--port", "0"]);
    let second = home.start_as(beside).await;
    assert_eq!(texts(&transcript(&second).await, "user"), [] as [&str; 0]);
    second.stop().await;
    // A home that is copied while its daemon runs has what was acknowledged.
    let copy = home.scratch().join("copy");
    assert!(std::process::Command::new("cp").arg("-r").arg(home.path()).arg(&copy).status().unwrap().success());
    let elsewhere = Home::new("");
    let name = |port: u16, suffix: &str| format!("conversations-{port}.db{suffix}");
    for suffix in ["", "-wal"] {
        std::fs::copy(copy.join(name(home.port, suffix)), elsewhere.path().join(name(elsewhere.port, suffix))).unwrap();
    }
    std::fs::copy(copy.join("config.toml"), elsewhere.path().join("config.toml")).unwrap();
    let third = elsewhere.start().await;
    assert_eq!(texts(&transcript(&third).await, "user"), ["said to the first"]);
    let mut there = tab(&third, "tab-1").await;
    there.say("m2", "said to the copy").await;
    there.until(&json!({"type": "ack", "kind": "working", "mid": "m2"})).await;
    assert_eq!(texts(&transcript(&first).await, "user"), ["said to the first"]);
    first.stop().await;
    third.stop().await;
}

#[tokio::test]
async fn d2_a_log_of_a_newer_program_is_refused_and_left_alone() {
    let (_master, home) = one_agent().await;
    home.start().await.stop().await;
    let path = home.path().join(format!("conversations-{}.db", home.port));
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.execute("INSERT INTO schema_version (version, name) VALUES (99, 'from the future')", []).unwrap();
    newer.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let answer = refused(home.serve()).await;
    assert_eq!(answer["code"], "newer_version", "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("start the newer program"), "{answer}");
    assert!(std::fs::read(&path).unwrap() == before);
}

#[tokio::test]
async fn d2_a_log_that_cannot_be_read_is_kept_aside_and_the_person_is_told() {
    let (_master, home) = one_agent().await;
    let path = home.path().join(format!("conversations-{}.db", home.port));
    let garbage = "these were conversations once ".repeat(500);
    std::fs::write(&path, &garbage).unwrap();
    let daemon = home.start().await;
    let notices = texts(&transcript(&daemon).await, "notice");
    let (_, kept) = notices[0].split_once("kept as ").unwrap_or_else(|| panic!("{notices:?}"));
    let kept = kept.split_once(", and a new one").unwrap().0;
    assert_eq!(std::fs::read_to_string(kept).unwrap(), garbage);
    let mut tab = tab(&daemon, "tab-1").await;
    tab.say("m1", "begin").await;
    tab.until(&json!({"type": "ack", "kind": "working", "mid": "m1"})).await;
    daemon.stop().await;
}

/// What the owner may not write: the daemon does not start, says which file, and changes nothing.
#[tokio::test]
async fn d1_a_folder_or_file_that_cannot_be_written_is_named_at_the_start() {
    let (_master, home) = one_agent().await;
    home.start().await.stop().await;
    let log = home.path().join(format!("conversations-{}.db", home.port));
    let root = is_superuser();
    for (what, mode, code) in [(log, "400", "read_only"), (home.path(), "500", "not_writable")] {
        let change = |mode: &str| {
            assert!(std::process::Command::new("chmod").arg(mode).arg(&what).status().unwrap().success());
        };
        let command = if root {
            // Permissions do not bind the superuser: another user runs the daemon.
            let owned = std::process::Command::new("chown").args(["-R", "65534:65534"]).arg(home.scratch()).status();
            let dropped = ["--reuid=65534", "--regid=65534", "--clear-groups"];
            let possible = std::process::Command::new("setpriv")
                .args(dropped)
                .arg(tests_e2e::harness::programs().join("comfy-orchestrator"))
                .arg("--version")
                .stdout(Stdio::null())
                .status();
            if !owned.is_ok_and(|status| status.success()) || !possible.is_ok_and(|status| status.success()) {
                eprintln!("SKIPPED: the superuser needs setpriv, and programs that others may run");
                return;
            }
            through(home.serve(), "setpriv", &dropped)
        } else {
            home.serve()
        };
        change(mode);
        let answer = refused(command).await;
        change("700");
        assert_eq!(answer["code"], code, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains("writable"), "{answer}");
    }
}

fn is_superuser() -> bool {
    let output = std::process::Command::new("id").arg("-u").output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim() == "0"
}

/// Two unsaved workflows have the same title. After a crash the one conversation goes on, whatever the tab is called.
#[tokio::test]
async fn report_003_unsaved_workflows_lose_no_talk_and_find_no_strangers() {
    let (master, home) = one_agent().await;
    let daemon = home.start().await;
    let mut first = daemon.connect().await;
    first.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    let untitled = |uuid: &str| {
        json!({"type": "hello", "protocol": 1, "tab_id": format!("tab-of-{uuid}"), "title": "Unsaved Workflow",
            "workflow": {"uuid": uuid, "handle": format!("tmp:{uuid}"), "title": "Unsaved Workflow"}})
    };
    first.send(untitled("w1")).await;
    let mut second = daemon.connect().await;
    second.hello("tab-2", None, SimpleCanvas::showing("w2")).await;
    second.send(untitled("w2")).await;
    first.say("m1", "the first talk").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    agent.end().await;
    second.say("m2", "the second talk").await;
    agent.prompt().await;
    agent.end().await;
    first.until(&json!({"type": "entry", "kind": "turn_end"})).await;
    first.until(&json!({"type": "entry", "kind": "turn_end"})).await;
    let session = agent.started["session"].clone();
    daemon.kill().await;

    let daemon = home.start().await;
    let mut fresh = daemon.connect().await;
    fresh.hello_with("another-tab", None, SimpleCanvas::showing("w2"), json!({"title": "Unsaved Workflow"})).await;
    fresh.until(&json!({"type": "entry", "text": "the first talk"})).await;
    fresh.until(&json!({"type": "entry", "text": "the second talk"})).await;
    fresh.say("m3", "go on").await;
    let mut agent = master.next().await;
    assert_eq!((&agent.started["session"], &agent.started["resumed"]), (&session, &json!(true)));
    agent.prompt().await;
    agent.end().await;
    fresh.until(&json!({"type": "turn", "state": "done"})).await;
    assert_eq!(home.sessions()["sessions"].as_object().unwrap().len(), 1);
    daemon.stop().await;
}

/// The file of an earlier version is there and valid; the new one is there and garbage.
#[tokio::test]
async fn report_007_an_unreadable_session_file_does_not_bring_an_older_one_back() {
    let (master, home) = one_agent().await;
    let temporary = home.scratch().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let cleared =
        json!({"v": 2, "sessions": {"orchestrator::one": {"s": "cleared-long-ago", "t": now_ms()}}}).to_string();
    let legacy = temporary.join(format!("comfyui-mcp-panel-sessions-{}.json", home.port));
    std::fs::write(&legacy, &cleared).unwrap();
    let folder = home.path().join("sessions");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join(format!("panel-sessions-{}.json", home.port)), "{ \"v\": 2, \"sess").unwrap();
    let mut command = home.serve();
    command.env("TMPDIR", &temporary);
    let daemon = home.start_as(command).await;
    let (mut tab, mut agent) = in_a_turn(&daemon, &master).await;
    assert_eq!(agent.started["resumed"], false);
    assert_ne!(agent.started["session"], "cleared-long-ago");
    let notices = texts(&transcript(&daemon).await, "notice");
    assert!(notices[0].contains("agent sessions") && notices[0].contains("kept as"), "{notices:?}");
    let aside = std::fs::read_dir(&folder).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    assert_eq!(aside.filter(|name| name.contains(".unreadable-")).count(), 1);
    assert_eq!(std::fs::read_to_string(&legacy).unwrap(), cleared, "it stays for an older program");
    agent.end().await;
    tab.until(&json!({"type": "turn", "state": "done"})).await;
    daemon.stop().await;
}

fn now_ms() -> u64 {
    let passed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(passed.as_millis()).unwrap()
}
