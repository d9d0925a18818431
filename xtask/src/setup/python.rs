//! Python packages for the fixture server, in folders of their own: aiohttp, and the ComfyUI frontends (fetched by
//! name, never shipped).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::pins;
use crate::process::Program;
use crate::progress::say;
use crate::setup::{Done, apt};
use crate::workspace::{Workspace, on_path};

const LIMIT: Duration = Duration::from_secs(600);

/// The folder to put on `PYTHONPATH`.
pub(crate) fn library(workspace: &Workspace) -> PathBuf {
    workspace.tools().join("python")
}

/// `$PYTHON`, else the first Python 3 on PATH.
pub(crate) fn interpreter() -> Result<PathBuf> {
    env::var_os("PYTHON")
        .map(PathBuf::from)
        .or_else(|| on_path(&["python3", "python"]))
        .context("there is no python3 on PATH: install Python 3.10 or newer, or set PYTHON to its program")
}

/// aiohttp, for the interpreter that will use it.
pub(crate) fn ensure_aiohttp(workspace: &Workspace) -> Result<Done> {
    let what = format!("aiohttp {}", pins::AIOHTTP);
    if aiohttp_version(workspace)?.as_deref() == Some(pins::AIOHTTP) {
        return Ok(Done::AlreadyThere(what));
    }
    install(workspace, &library(workspace), &format!("aiohttp=={}", pins::AIOHTTP), &[])?;
    match aiohttp_version(workspace)? {
        Some(version) if version == pins::AIOHTTP => Ok(Done::Installed(what)),
        other => bail!("pip installed aiohttp, but {} imports {other:?}", interpreter()?.display()),
    }
}

/// The frontend versions that tests cover.
pub(crate) fn ensure_frontends(workspace: &Workspace) -> Result<Done> {
    let what = format!("comfyui-frontend-package {}", pins::FRONTENDS.join(" and "));
    let mut installed = false;
    for version in pins::FRONTENDS {
        let folder = workspace.tools().join(format!("frontend-{version}"));
        if has_frontend(&folder, version) {
            continue;
        }
        install(workspace, &folder, &format!("comfyui-frontend-package=={version}"), &["--no-deps"])?;
        if !has_frontend(&folder, version) {
            bail!("the package comfyui-frontend-package {version} has no static/index.html");
        }
        installed = true;
    }
    Ok(if installed { Done::Installed(what) } else { Done::AlreadyThere(what) })
}

fn has_frontend(folder: &Path, version: &str) -> bool {
    folder.join(format!("comfyui_frontend_package-{version}.dist-info/RECORD")).is_file()
        && folder.join("comfyui_frontend_package/static/index.html").is_file()
}

fn aiohttp_version(workspace: &Workspace) -> Result<Option<String>> {
    let ask = "import aiohttp, aiohttp.web; print(aiohttp.__version__)";
    let said = Program::new(interpreter()?)
        .args(["-S", "-c", ask])
        .env("PYTHONPATH", library(workspace))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .directory(&workspace.root)
        .text();
    Ok(said.ok())
}

/// Installs into a new folder beside the wanted one, which takes its place only when all is there.
fn install(workspace: &Workspace, folder: &Path, package: &str, options: &[&str]) -> Result<()> {
    let tools = workspace.tools();
    fs::create_dir_all(&tools).with_context(|| format!("cannot make {}", tools.display()))?;
    let scratch = tempfile::Builder::new().prefix("installing-").tempdir_in(&tools)?;
    let made = scratch.path().join("packages");
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Program::new(python_with_pip(workspace)?)
        .args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet"])
        .args(options)
        .arg("--target")
        .arg(&made)
        .arg(package)
        .limit(LIMIT)
        .quiet(&format!("pip install {package}"), &workspace.log(&format!("pip-{name}")))?;
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot replace {}", folder.display()))?;
    }
    fs::rename(&made, folder).with_context(|| format!("cannot name {}", folder.display()))
}

/// The interpreter when it has pip, else a virtual environment of the same interpreter, which brings its own.
fn python_with_pip(workspace: &Workspace) -> Result<PathBuf> {
    let python = interpreter()?;
    if has_pip(&python) {
        return Ok(python);
    }
    let environment = workspace.tools().join("venv");
    let inside = environment.join("bin/python");
    if has_pip(&inside) {
        return Ok(inside);
    }
    say("   this Python has no pip: making a virtual environment");
    let make = || {
        Program::new(&python)
            .args(["-m", "venv", "--clear"])
            .arg(&environment)
            .limit(LIMIT)
            .quiet("python -m venv", &workspace.log("venv"))
    };
    if make().is_err() {
        if crate::process::interrupted() {
            bail!("stopped: interrupted");
        }
        apt::install(workspace, &["python3-venv"]).context("Python has neither pip nor venv: install one of them")?;
        make()?;
    }
    if has_pip(&inside) { Ok(inside) } else { bail!("{} has no pip", inside.display()) }
}

fn has_pip(python: &Path) -> bool {
    Program::new(python).args(["-m", "pip", "--version"]).text().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frontend_counts_when_its_version_and_its_page_are_there() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let folder = scratch.path();
        fs::create_dir_all(folder.join("comfyui_frontend_package/static"))?;
        fs::write(folder.join("comfyui_frontend_package/static/index.html"), "")?;
        assert!(!has_frontend(folder, "1.58.1"));
        fs::create_dir_all(folder.join("comfyui_frontend_package-1.58.1.dist-info"))?;
        fs::write(folder.join("comfyui_frontend_package-1.58.1.dist-info/RECORD"), "")?;
        assert!(has_frontend(folder, "1.58.1"));
        assert!(!has_frontend(folder, "1.49.6"));
        Ok(())
    }
}
