//! `install` and `uninstall`: what is asked for and what is told. What may be written stands in [`crate::install`].

use crate::config::DEFAULT_PORT;
use crate::install::{self, DaemonPlace, InstallError};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What `install` takes.
#[derive(Clone, Debug, Args)]
pub struct Install {
    /// ComfyUI's folder: the one that holds custom_nodes.
    #[arg(long, value_name = "FOLDER")]
    pub comfyui: PathBuf,
    /// Port of the daemon that this ComfyUI uses [default: that of the configuration, or 9101].
    #[arg(long)]
    pub port: Option<u16>,
    /// Also write over files that somebody changed.
    #[arg(long)]
    pub force: bool,
}

/// What `uninstall` takes.
#[derive(Clone, Debug, Args)]
pub struct Uninstall {
    /// ComfyUI's folder: the one that holds custom_nodes.
    #[arg(long, value_name = "FOLDER")]
    pub comfyui: PathBuf,
}

/// Carries out `install`; returns what to print. `home`: the folder that was chosen, unless it is the usual one. `port`: of
/// the daemon, by flag, environment or configuration.
///
/// # Errors
/// See [`InstallError`].
pub fn install(asked: &Install, home: Option<&Path>, port: u16, as_json: bool) -> Result<String, InstallError> {
    let program = std::env::current_exe().map_err(|error| InstallError::Io { path: "this program".into(), error })?;
    let home =
        home.map(|home| std::path::absolute(home).map_err(|error| InstallError::Io { path: home.to_owned(), error }));
    let daemon =
        DaemonPlace { program, home: home.transpose()?, port: Some(port).filter(|port| *port != DEFAULT_PORT) };
    let done = install::install(&asked.comfyui, &daemon, asked.force)?;
    let (folder, version) = (done.folder.display(), env!("CARGO_PKG_VERSION"));
    if as_json {
        let told = json!({
            "installed": version, "before": done.before, "written": done.written, "folder": done.folder,
        });
        return Ok(format!("{told}\n"));
    }
    Ok(match (done.before, done.written) {
        (Some(before), 0) if before == version => format!("{folder} is already as version {version} has it.\n"),
        (before, _) => {
            let before = before.map(|before| format!(", instead of {before}")).unwrap_or_default();
            format!(
                "The panel {version} is in {folder}{before}.\nRestart ComfyUI, reload its page, and click the panel's icon in \
                 the sidebar. ComfyUI starts the daemon when none runs.\n"
            )
        }
    })
}

/// Carries out `uninstall`; returns what to print.
///
/// # Errors
/// See [`InstallError`].
pub fn uninstall(asked: &Uninstall, as_json: bool) -> Result<String, InstallError> {
    let done = install::uninstall(&asked.comfyui)?;
    if as_json {
        return Ok(format!("{}\n", json!({"removed": done.left.is_empty(), "left": done.left, "folder": done.folder})));
    }
    let folder = done.folder.display();
    Ok(if done.left.is_empty() {
        format!("{folder} is gone. Restart ComfyUI. What was said stays in the home folder.\n")
    } else {
        format!(
            "What was installed in {folder} is gone. This is not ours, or was changed, and stays: {}.\n",
            done.left.join(", ")
        )
    })
}
