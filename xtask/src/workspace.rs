//! Where things lie in the checkout. The one place that knows folder names shared by several commands.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::Program;

/// The checkout and the folders that every command agrees on.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// The folder with the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's output folder; `CARGO_TARGET_DIR` and cargo's own settings are followed.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Finds the checkout that this program was built from.
    pub(crate) fn find() -> Result<Self> {
        let manifest =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().context("xtask must lie one folder below the workspace's root")?.to_owned();
        if !root.join("Cargo.toml").is_file() {
            bail!("{} is no checkout any more: run `cargo xtask` in the checkout", root.display());
        }
        let metadata = cargo(&root)
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .text()
            .context("cargo cannot read the workspace")?;
        let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is not JSON")?;
        let target = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
        Ok(Self { root, target: PathBuf::from(target) })
    }

    /// A path below the root.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Where `setup` installs: `$COMFY_TOOLS`, else `target/tools` in the checkout.
    pub(crate) fn tools(&self) -> PathBuf {
        env::var_os("COMFY_TOOLS").map_or_else(|| self.root.join("target/tools"), PathBuf::from)
    }

    /// Where a quiet step's output goes.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.tools().join("log").join(format!("{name}.log"))
    }

    /// The panel's TypeScript project.
    pub(crate) fn panel(&self) -> PathBuf {
        self.path("panel-wasm/panel")
    }

    /// The browser tests' project.
    pub(crate) fn browser_tests(&self) -> PathBuf {
        self.path("tests/browser")
    }

    /// The browser package of routing-core that `wasm` makes and the panel imports.
    pub(crate) fn wasm_package(&self) -> PathBuf {
        self.path("panel-wasm/pkg")
    }

    /// The static folder of one frontend version.
    pub(crate) fn frontend(&self, version: &str) -> PathBuf {
        self.tools().join(format!("frontend-{version}/comfyui_frontend_package/static"))
    }

    /// The cargo that started this program, run in the checkout.
    pub(crate) fn cargo(&self) -> Program {
        cargo(&self.root)
    }
}

fn cargo(root: &Path) -> Program {
    Program::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).directory(root)
}

/// The first of these programs that is on PATH.
pub(crate) fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    names.iter().find_map(|name| {
        env::split_paths(&path)
            .flat_map(|folder| {
                [folder.join(name), folder.join(format!("{name}.exe")), folder.join(format!("{name}.cmd"))]
            })
            .find(|candidate| candidate.is_file())
    })
}
