//! `wasm-opt`, from the npm package `binaryen`: a script for Node, so one package serves every platform.

use std::path::PathBuf;

use anyhow::Result;

use crate::pins;
use crate::process::Program;
use crate::setup::{Done, node};
use crate::workspace::Workspace;

/// Installs it below the tools folder.
pub(crate) fn ensure(workspace: &Workspace) -> Result<Done> {
    let what = format!("wasm-opt {}", pins::BINARYEN);
    if script(workspace).is_file() && node::installed_version(&package(workspace)).as_deref() == Some(pins::BINARYEN) {
        return Ok(Done::AlreadyThere(what));
    }
    node::install_pinned(workspace, &folder(workspace), &format!("binaryen@{}", pins::BINARYEN))?;
    Ok(Done::Installed(what))
}

/// `wasm-opt`, ready for its arguments.
pub(crate) fn wasm_opt(workspace: &Workspace) -> Program {
    Program::new("node").directory(&workspace.root).arg(script(workspace))
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.tools().join("binaryen")
}

fn package(workspace: &Workspace) -> PathBuf {
    folder(workspace).join("node_modules/binaryen")
}

fn script(workspace: &Workspace) -> PathBuf {
    package(workspace).join("bin/wasm-opt")
}
