//! `cargo xtask faults`: builds the daemon, its twin with fault points, the scripted agents and the harness, and runs it.

use std::ffi::OsString;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Builds the daemon's twin that can be told to die at a named moment. The same selection of packages as the rest, so
/// that nothing is compiled twice.
pub(crate) fn build_twin(workspace: &Workspace) -> Result<()> {
    let twin = ["--features", "orchestrator/fault-points", "--bin", "comfy-orchestrator-faults"];
    workspace.cargo().args(["build", "--workspace"]).args(twin).visible().context("the daemon with fault points")
}

/// Runs the harness; what follows on the command line is its own.
pub(crate) fn faults(workspace: &Workspace, arguments: Vec<OsString>) -> Result<()> {
    let programs = ["--bin", "comfy-orchestrator", "--bin", "scripted-acp", "--bin", "faults"];
    workspace.cargo().args(["build", "--workspace"]).args(programs).visible().context("the programs")?;
    build_twin(workspace)?;
    let folder = workspace.target.join("debug");
    crate::process::Program::new(folder.join("faults"))
        .args(arguments)
        .env("COMFY_TEST_PROGRAMS", folder)
        .directory(&workspace.root)
        .visible()
        .context("a story was violated, or the harness failed")
}
