//! A Chromium for the browser tests: the person's own, the system's, Debian's package, or Playwright's build.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::Program;
use crate::progress::say;
use crate::setup::{Done, apt};
use crate::workspace::{Workspace, on_path};

/// Names a browser program and so ends the search.
pub(crate) const VARIABLE: &str = "CHROMIUM";

/// Makes sure that [`find`] finds one.
pub(crate) fn ensure(workspace: &Workspace) -> Result<Done> {
    if let Some(chosen) = env::var_os(VARIABLE).map(PathBuf::from).filter(|chosen| !chosen.is_file()) {
        bail!("${VARIABLE} names {}, which is no file", chosen.display());
    }
    if let Some(found) = find(workspace) {
        return Ok(Done::AlreadyThere(found.display().to_string()));
    }
    let by_debian = match apt::obstacle() {
        None => apt::install(workspace, &["chromium"]),
        Some(reason) => Err(anyhow::anyhow!(reason)),
    };
    if let Err(error) = by_debian {
        if crate::process::interrupted() {
            return Err(error);
        }
        say(&format!("   no Chromium from Debian ({}): asking Playwright", error.root_cause()));
        Program::new("node")
            .args(["node_modules/playwright-core/cli.js", "install", "chromium"])
            .directory(workspace.browser_tests())
            .limit(Duration::from_secs(900))
            .quiet("playwright install chromium", &workspace.log("playwright"))
            .with_context(|| format!("install a Chromium and set {VARIABLE} to its program"))?;
    }
    let found = find(workspace)
        .with_context(|| format!("the browser was installed but is not found: set {VARIABLE} to its program"))?;
    Ok(Done::Installed(found.display().to_string()))
}

/// The browser to use, when there is one.
pub(crate) fn find(workspace: &Workspace) -> Option<PathBuf> {
    if let Some(chosen) = env::var_os(VARIABLE) {
        return Some(PathBuf::from(chosen));
    }
    on_path(&["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"])
        .or_else(|| by_playwright(workspace))
}

fn by_playwright(workspace: &Workspace) -> Option<PathBuf> {
    let folder = workspace.browser_tests();
    if !folder.join("node_modules/playwright-core").is_dir() {
        return None;
    }
    let ask = "process.stdout.write(require('playwright-core').chromium.executablePath())";
    let path = PathBuf::from(Program::new("node").args(["-e", ask]).directory(folder).text().ok()?);
    path.is_file().then_some(path)
}
