//! npm packages: those of the two TypeScript projects as their lock says, and pinned programs in folders of their own.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::Program;
use crate::setup::Done;
use crate::workspace::{Workspace, on_path};

const LIMIT: Duration = Duration::from_secs(600);

/// The panel's packages.
pub(crate) fn ensure_panel(workspace: &Workspace) -> Result<Done> {
    ensure_project(workspace, &workspace.panel(), "panel")
}

/// The browser tests' packages.
pub(crate) fn ensure_browser_tests(workspace: &Workspace) -> Result<Done> {
    ensure_project(workspace, &workspace.browser_tests(), "browser-tests")
}

fn ensure_project(workspace: &Workspace, project: &Path, name: &str) -> Result<Done> {
    require_project(workspace, project)?;
    let lock = read_json(&project.join("package-lock.json"))
        .context("without a lock the versions are anybody's guess: run `npm install` in that folder and commit package-lock.json")?;
    let shown = project.strip_prefix(&workspace.root).unwrap_or(project).display();
    let installed = read_json(&project.join("node_modules/.package-lock.json"));
    if installed.is_ok_and(|installed| matches_lock(&lock, &installed)) {
        return Ok(Done::AlreadyThere(format!("packages of {shown}")));
    }
    npm()?
        .args(["ci", "--no-audit", "--no-fund"])
        .directory(project)
        .limit(LIMIT)
        .quiet(&format!("npm ci in {shown}"), &workspace.log(&format!("npm-{name}")))?;
    Ok(Done::Installed(format!("packages of {shown}")))
}

/// Fails with a clear word when a TypeScript project is not where it should be.
pub(crate) fn require_project(workspace: &Workspace, project: &Path) -> Result<()> {
    if project.join("package.json").is_file() {
        return Ok(());
    }
    let shown = project.strip_prefix(&workspace.root).unwrap_or(project).display();
    bail!("{shown}/package.json is missing: this checkout is incomplete");
}

/// Runs a script of a project's `package.json`.
pub(crate) fn npm_run(project: &Path, script: &str) -> Result<Program> {
    Ok(npm()?.args(["run", "--silent", script]).directory(project))
}

/// Installs one pinned package into a folder of its own.
pub(crate) fn install_pinned(workspace: &Workspace, folder: &Path, package: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    npm()?
        .args(["install", "--no-audit", "--no-fund", "--omit-lockfile-registry-resolved", "--save-exact", "--prefix"])
        .arg(folder)
        .arg(package)
        .directory(folder)
        .limit(LIMIT)
        .quiet(&format!("npm install {package}"), &workspace.log(&format!("npm-{name}")))
}

/// The version of the package in a folder, when there is one.
pub(crate) fn installed_version(package: &Path) -> Option<String> {
    let manifest = read_json(&package.join("package.json")).ok()?;
    manifest["version"].as_str().map(str::to_owned)
}

fn npm() -> Result<Program> {
    let npm = on_path(&["npm"]).context("npm is not on PATH: install Node 20 or newer, which brings it")?;
    Ok(Program::new(npm).env("npm_config_update_notifier", "false"))
}

fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

/// Whether what npm notes as installed is what the lock asks for; optional packages of other platforms may be absent.
fn matches_lock(lock: &Value, installed: &Value) -> bool {
    let (Some(wanted), Some(present)) = (lock["packages"].as_object(), installed["packages"].as_object()) else {
        return false;
    };
    let optional = |entry: &Value| entry["optional"] == true || entry["devOptional"] == true || entry["peer"] == true;
    let same = |path: &str, entry: &Value| {
        present.get(path).map_or_else(|| optional(entry), |there| there["version"] == entry["version"])
    };
    wanted.iter().filter(|(path, _)| !path.is_empty()).all(|(path, entry)| same(path, entry))
        && present.keys().all(|path| wanted.contains_key(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lock() -> Value {
        json!({"packages": {
            "": {"name": "p"},
            "node_modules/a": {"version": "1.0.0"},
            "node_modules/for-macs": {"version": "2.0.0", "optional": true},
        }})
    }

    #[test]
    fn packages_as_locked_need_no_installation() {
        assert!(matches_lock(&lock(), &json!({"packages": {"node_modules/a": {"version": "1.0.0"}}})));
    }

    #[test]
    fn another_version_a_missing_one_and_a_stranger_do() {
        assert!(!matches_lock(&lock(), &json!({"packages": {"node_modules/a": {"version": "1.0.1"}}})));
        assert!(!matches_lock(&lock(), &json!({"packages": {}})));
        assert!(!matches_lock(
            &lock(),
            &json!({"packages": {"node_modules/a": {"version": "1.0.0"}, "node_modules/b": {"version": "1.0.0"}}})
        ));
        assert!(!matches_lock(&lock(), &json!({})));
    }

    #[test]
    fn a_version_is_read_from_the_package_itself() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        assert_eq!(installed_version(scratch.path()), None);
        fs::write(scratch.path().join("package.json"), r#"{"version":"1.2.3"}"#)?;
        assert_eq!(installed_version(scratch.path()).as_deref(), Some("1.2.3"));
        Ok(())
    }
}
