//! Every agent driver against the real thing: the real Claude CLI on a scripted model, a scripted ACP agent, and the
//! built-in one. One suite holds for all; each driver's file adds what is its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing unwrap is a failing test")]

mod acp;
mod bench;
mod claude;
mod demo;
mod suite;
mod tools;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The Claude CLI: `COMFY_TEST_CLAUDE`, or where the set-up puts it.
pub(crate) fn claude_program() -> PathBuf {
    let tools = std::env::var_os("COMFY_TOOLS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools"), PathBuf::from);
    let packages = tools.join("agents/node_modules/@anthropic-ai");
    let installed = || {
        let platforms = packages.read_dir().into_iter().flatten().flatten();
        platforms.map(|package| package.path().join("claude")).find(|program| program.is_file())
    };
    let path = std::env::var_os("COMFY_TEST_CLAUDE").map(PathBuf::from).or_else(installed);
    path.unwrap_or_else(|| panic!("no Claude CLI below {}: run `cargo xtask setup --agents`", packages.display()))
}

/// The scripted ACP agent, built now if need be.
pub(crate) fn scripted_acp() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "web-fixtures", "--bin", "scripted-acp"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "the scripted agent does not build");
        let test = std::env::current_exe().unwrap();
        let path = test.parent().and_then(Path::parent).unwrap().join("scripted-acp");
        assert!(path.is_file(), "no scripted agent at {}", path.display());
        path
    })
}
