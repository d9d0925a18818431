//! Every event script over the socket of the real daemon: the verdict is the one that it has in memory.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use routing_core::script::{InMemory, Script, run};
use std::path::PathBuf;
use tests_e2e::scripts::OverSocket;

fn scripts() -> Vec<(String, Script)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../web-fixtures/scripts");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            (name.clone(), serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}")))
        })
        .collect();
    found.sort_by(|left, right| left.0.cmp(&right.0));
    found
}

/// One after the other: each has a daemon and agents of its own, and a loaded machine would make silence long.
#[test]
fn every_script_has_one_verdict_over_the_socket() {
    let only = std::env::var("COMFY_TEST_SCRIPT").ok();
    let mut wrong = Vec::new();
    let (mut ran, mut native_only) = (0, Vec::new());
    for (name, script) in scripts() {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        if let Some(reason) = &script.native_only {
            native_only.push(format!("{name}: {reason}"));
            continue;
        }
        let native = run(&script, &mut InMemory::new(&script));
        let mut world = OverSocket::new(&script);
        let over_socket = run(&script, &mut world);
        world.close();
        ran += 1;
        if !over_socket.passed || over_socket.calls != native.calls || over_socket.canvases != native.canvases {
            wrong.push(format!("{name}\n  native: {native:?}\n  socket: {over_socket:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {ran} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran > 0);
    assert!(native_only.len() <= 3, "few scripts may be native only: {native_only:?}");
}
