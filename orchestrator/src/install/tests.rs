#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
use super::*;
use tempfile::TempDir;

/// A ComfyUI and what a version of this program carries.
struct Bench {
    comfy: TempDir,
    files: BTreeMap<String, Vec<u8>>,
}

impl Bench {
    fn new() -> Self {
        let comfy = tempfile::tempdir().unwrap();
        fs::create_dir(comfy.path().join("custom_nodes")).unwrap();
        let files =
            [("__init__.py", "import"), ("relay.py", "relay 1"), ("web/panel.js", "panel 1"), ("web/old.js", "old")];
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
        Self { comfy, files }
    }

    fn folder(&self) -> PathBuf {
        self.comfy.path().join("custom_nodes").join(FOLDER)
    }

    fn put(&self, force: bool) -> Result<Installed, InstallError> {
        put(node_folder(self.comfy.path())?, &self.files, force)
    }

    fn carry(&mut self, name: &str, text: &str) {
        self.files.insert(name.to_owned(), text.as_bytes().to_vec());
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder().join(name)).unwrap()
    }

    fn add(&self, name: &str, text: &str) {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        list(&self.folder(), &self.folder(), &mut names).unwrap();
        names
    }

    fn take_out(&self) -> Result<Removed, InstallError> {
        uninstall(self.comfy.path())
    }
}

#[test]
fn an_installation_writes_everything_and_a_second_one_nothing() {
    let bench = Bench::new();
    let first = bench.put(false).unwrap();
    assert_eq!((first.before, first.written), (None, 4));
    assert_eq!(bench.names(), ["__init__.py", manifest::FILE, "relay.py", "web/old.js", "web/panel.js"]);
    let second = bench.put(false).unwrap();
    assert_eq!((second.before.as_deref(), second.written), (Some(env!("CARGO_PKG_VERSION")), 0));
}

#[test]
fn another_version_replaces_its_files_and_takes_away_what_it_lacks() {
    let mut bench = Bench::new();
    bench.put(false).unwrap();
    bench.add("my notes.txt", "mine");
    bench.carry("web/panel.js", "panel 2");
    bench.files.remove("web/old.js");
    assert_eq!(bench.put(false).unwrap().written, 1);
    assert_eq!(bench.names(), ["__init__.py", manifest::FILE, "my notes.txt", "relay.py", "web/panel.js"]);
    assert_eq!(bench.text("web/panel.js"), "panel 2");
}

#[test]
fn what_somebody_changed_is_named_and_written_over_only_by_force() {
    let mut bench = Bench::new();
    bench.put(false).unwrap();
    bench.add("relay.py", "my own relay");
    bench.carry("web/panel.js", "panel 2");
    let InstallError::Changed { files } = bench.put(false).unwrap_err() else { panic!("another error") };
    assert_eq!(files, ["relay.py"]);
    assert_eq!(bench.text("web/panel.js"), "panel 1", "nothing was done by halves");
    bench.put(true).unwrap();
    assert_eq!((bench.text("relay.py").as_str(), bench.text("web/panel.js").as_str()), ("relay 1", "panel 2"));
}

#[test]
fn an_installation_that_was_cut_off_is_gone_on_with() {
    let mut bench = Bench::new();
    bench.add("relay.py", "relay 1");
    bench.add("web/panel.js.part", "pan");
    assert_eq!(bench.put(false).unwrap().written, 3, "the first one, without its record");
    bench.carry("web/panel.js", "panel 2");
    bench.carry("relay.py", "relay 2");
    bench.add("relay.py", "relay 2");
    assert_eq!(bench.put(false).unwrap().written, 1, "a later one, with the record of the one before");
    assert!(!bench.names().contains(&"web/panel.js.part".to_owned()));
}

#[test]
fn a_folder_of_others_is_left_alone() {
    let bench = Bench::new();
    bench.add("__init__.py", "of another node");
    assert_eq!(bench.put(false).unwrap_err().code(), "foreign");
    assert_eq!(bench.put(true).unwrap_err().code(), "foreign");
    assert_eq!(bench.take_out().unwrap_err().code(), "foreign");
    assert_eq!(bench.text("__init__.py"), "of another node");
}

#[cfg(unix)]
#[test]
fn nothing_is_written_or_removed_through_a_link() {
    let bench = Bench::new();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), bench.folder()).unwrap();
    assert_eq!(bench.put(true).unwrap_err().code(), "linked");
    assert_eq!(bench.take_out().unwrap_err().code(), "linked");
    fs::remove_file(bench.folder()).unwrap();
    bench.put(false).unwrap();
    fs::remove_dir_all(bench.folder().join("web")).unwrap();
    fs::write(elsewhere.path().join("old.js"), "old").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), bench.folder().join("web")).unwrap();
    assert_eq!(bench.put(true).unwrap_err().code(), "linked");
    assert_eq!(bench.take_out().unwrap().left, ["web"]);
    assert!(elsewhere.path().join("old.js").exists());
}

#[test]
fn a_removal_takes_what_was_installed_and_nothing_else() {
    let bench = Bench::new();
    bench.put(false).unwrap();
    bench.add("__pycache__/relay.cpython-312.pyc", "compiled");
    assert_eq!(bench.take_out().unwrap().left, Vec::<String>::new());
    assert!(!bench.folder().exists() && bench.comfy.path().join("custom_nodes").exists());
    assert_eq!(bench.take_out().unwrap_err().code(), "not_installed");
    bench.put(false).unwrap();
    bench.add("relay.py", "my own relay");
    bench.add("notes/mine.txt", "mine");
    bench.add("__pycache__/mine.cpython-312.pyc", "compiled");
    let left = ["__pycache__/mine.cpython-312.pyc", "notes/mine.txt", "relay.py"];
    assert_eq!(bench.take_out().unwrap().left, left);
    assert_eq!(bench.names(), [left[0], manifest::FILE, left[1], left[2]]);
    assert_eq!(bench.take_out().unwrap().left, left, "and again");
}

#[test]
fn a_record_that_leads_out_of_the_folder_is_none() {
    let bench = Bench::new();
    bench.put(false).unwrap();
    let outside = bench.comfy.path().join("main.py");
    fs::write(&outside, "x").unwrap();
    let files = [("../../main.py".to_owned(), digest(b"x"))].into();
    bench.add(manifest::FILE, &String::from_utf8(Manifest { version: "1".into(), files }.encode()).unwrap());
    assert_eq!(bench.take_out().unwrap_err().code(), "foreign");
    assert!(outside.exists());
}

#[test]
fn only_a_comfyui_is_installed_into() {
    let nothing = tempfile::tempdir().unwrap();
    let place = DaemonPlace { program: "/opt/x".into(), home: None, port: None };
    assert_eq!(install(nothing.path(), &place, false).unwrap_err().code(), "no_comfyui");
    let bench = Bench::new();
    assert_eq!(node_folder(&bench.comfy.path().join("custom_nodes")).unwrap(), bench.folder());
}

#[test]
fn the_node_is_carried_with_what_it_needs_to_find_its_daemon() {
    let place = DaemonPlace { program: "/opt/x".into(), home: Some("/srv/home".into()), port: Some(9111) };
    // The panel is built by another command, which may not have run.
    if Node::get(BUNDLE).is_none() {
        assert_eq!(files(&place).unwrap_err().code(), "no_panel");
        return;
    }
    let files = files(&place).unwrap();
    for name in ["__init__.py", "relay.py", "web/comfy-orchestrator.wasm"] {
        assert!(files.contains_key(name), "{name}");
    }
    let daemon: serde_json::Value = serde_json::from_slice(&files[DAEMON_FILE]).unwrap();
    assert_eq!(daemon, json!({"program": "/opt/x", "home": "/srv/home", "port": 9111}));
}
