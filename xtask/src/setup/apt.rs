//! Debian's packages, where this is Debian and we may install. It never removes a package.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::Program;
use crate::progress::say;
use crate::workspace::{Workspace, on_path};

static UPDATED: AtomicBool = AtomicBool::new(false);

/// Why packages cannot be installed here, or nothing when they can.
pub(crate) fn obstacle() -> Option<&'static str> {
    if on_path(&["apt-get"]).is_none() || !is_debian(&fs::read_to_string("/etc/os-release").unwrap_or_default()) {
        return Some("this is not Debian");
    }
    if !is_root() {
        return Some("only root may install Debian's packages");
    }
    None
}

/// Installs packages. The package lists are fetched first when they are missing, and again when a package is not found.
pub(crate) fn install(workspace: &Workspace, packages: &[&str]) -> Result<()> {
    if let Some(reason) = obstacle() {
        bail!("{reason}; install by hand: {}", packages.join(", "));
    }
    let label = format!("installing {}", packages.join(", "));
    if !has_lists(Path::new("/var/lib/apt/lists")) {
        update(workspace)?;
    }
    let first = try_install(workspace, &label, packages);
    if first.is_ok() || UPDATED.load(Ordering::Relaxed) || crate::process::interrupted() {
        return first;
    }
    say("   the package lists may be old: fetching them");
    update(workspace)?;
    try_install(workspace, &label, packages)
}

fn try_install(workspace: &Workspace, label: &str, packages: &[&str]) -> Result<()> {
    apt_get()
        .args(["install", "--yes", "--no-install-recommends", "--no-remove"])
        .args(packages)
        .limit(Duration::from_secs(900))
        .quiet(label, &workspace.log("apt-install"))
}

fn update(workspace: &Workspace) -> Result<()> {
    apt_get()
        .arg("update")
        .limit(Duration::from_secs(300))
        .quiet("fetching Debian's package lists", &workspace.log("apt-update"))
        .context("cannot fetch Debian's package lists: is there a network?")?;
    UPDATED.store(true, Ordering::Relaxed);
    Ok(())
}

fn apt_get() -> Program {
    Program::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "DPkg::Lock::Timeout=120"])
}

fn has_lists(folder: &Path) -> bool {
    fs::read_dir(folder)
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name().to_string_lossy().contains("_Packages")))
}

fn is_debian(release: &str) -> bool {
    release.lines().any(|line| line == "ID=debian" || line == "ID=\"debian\"")
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_is_told_from_what_is_only_like_it() {
        assert!(is_debian("PRETTY_NAME=\"Debian\"\nID=debian\n"));
        assert!(!is_debian("ID=ubuntu\nID_LIKE=debian\n"));
        assert!(!is_debian(""));
    }

    #[test]
    fn lists_are_found_only_when_there_are_some() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        assert!(!has_lists(scratch.path()));
        fs::write(scratch.path().join("lock"), "")?;
        assert!(!has_lists(scratch.path()));
        fs::write(scratch.path().join("mirror_dists_stable_main_binary-amd64_Packages.lz4"), "")?;
        assert!(has_lists(scratch.path()));
        assert!(!has_lists(&scratch.path().join("absent")));
        Ok(())
    }
}
