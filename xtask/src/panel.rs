//! Builds the panel that ComfyUI serves: the WASM package, then the TypeScript bundle on top of it.

use std::ffi::OsStr;

use anyhow::{Context, Result, bail};

use crate::progress::say;
use crate::setup::{Done, node};
use crate::stamp::{self, Fingerprint};
use crate::wasm;
use crate::workspace::Workspace;

/// Folders below the panel's project that are made, not written.
const MADE: [&str; 2] = ["node_modules", "dist"];

/// Leaves the panel in `panel-wasm/comfyui/web`.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let project = workspace.panel();
    node::require_project(workspace, &project)?;
    wasm::build(workspace, false)?;
    if let Done::Installed(what) = node::ensure_panel(workspace)? {
        say(&format!("   installed: {what}"));
    }
    let stamp = workspace.tools().join("stamps/panel");
    let fingerprint = Fingerprint::default().folder(&project, &MADE)?.folder(&workspace.wasm_package(), &[])?.finish();
    if has_bundle(workspace) && stamp::is_fresh(&stamp, &fingerprint) {
        say("   the panel is built");
        return Ok(());
    }
    node::npm_run(&project, "build")?.visible().context("the panel does not build")?;
    if !has_bundle(workspace) {
        bail!("the panel's build left no script in panel-wasm/comfyui/web");
    }
    stamp::write(&stamp, &fingerprint)
}

fn has_bundle(workspace: &Workspace) -> bool {
    let web = workspace.path("panel-wasm/comfyui/web");
    stamp::files_below(&web, &[]).is_ok_and(|files| files.iter().any(|file| file.extension() == Some(OsStr::new("js"))))
}
