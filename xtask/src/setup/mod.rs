//! Installs what the other commands need: one module a thing, each leaving alone what is already there.
//! It must not build anything of the product itself.

pub(crate) mod agents;
pub(crate) mod apt;
pub(crate) mod browser;
pub(crate) mod node;
pub(crate) mod optimizer;
pub(crate) mod python;
pub(crate) mod wasm;

use anyhow::{Context, Result};

use crate::progress::{Stages, say};
use crate::workspace::Workspace;

/// What one step of the set-up did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing: it was there.
    AlreadyThere(String),
    /// It installed this.
    Installed(String),
}

/// Which parts to set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(crate) struct Parts {
    /// The compiler's WASM target, its linter, and wasm-opt
    #[arg(long)]
    wasm: bool,
    /// The npm packages of the panel and of the browser tests
    #[arg(long)]
    node: bool,
    /// A Chromium; $CHROMIUM names one of your own
    #[arg(long)]
    browser: bool,
    /// aiohttp and the ComfyUI frontends, for the fixture server; $PYTHON names your interpreter
    #[arg(long)]
    python: bool,
    /// The agent programs that the end-to-end tests drive
    #[arg(long)]
    agents: bool,
}

impl Parts {
    /// Everything.
    pub(crate) const ALL: Self = Self { wasm: true, node: true, browser: true, python: true, agents: true };

    fn or_all(self) -> Self {
        let none = Self { wasm: false, node: false, browser: false, python: false, agents: false };
        if self == none { Self::ALL } else { self }
    }
}

/// A step of the set-up.
type Step = fn(&Workspace) -> Result<Done>;

/// Carries out every chosen step, also after one failed, and fails at the end with the reasons.
pub(crate) fn setup(workspace: &Workspace, parts: Parts) -> Result<()> {
    let parts = parts.or_all();
    let steps: [(bool, &str, Step); 8] = [
        (parts.wasm, "wasm target", wasm::ensure),
        (parts.wasm, "wasm-opt", optimizer::ensure),
        (parts.node, "panel packages", node::ensure_panel),
        (parts.node || parts.browser, "browser-test packages", node::ensure_browser_tests),
        (parts.browser, "chromium", browser::ensure),
        (parts.python, "aiohttp", python::ensure_aiohttp),
        (parts.python, "comfyui frontends", python::ensure_frontends),
        (parts.agents, "claude code", agents::ensure),
    ];
    let mut stages = Stages::default();
    for (_, name, step) in steps.into_iter().filter(|(chosen, ..)| *chosen) {
        let outcome = stages.run(name, || step(workspace));
        match outcome {
            Ok(Done::AlreadyThere(what)) => say(&format!("   there: {what}")),
            Ok(Done::Installed(what)) => say(&format!("   installed: {what}")),
            // Kept by the stages; the other steps may still be of use.
            Err(_) if !crate::process::interrupted() => {}
            Err(error) => return Err(error),
        }
    }
    stages.verdict().context("the set-up is not complete; what was installed stays, so run it again after a remedy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_named_means_all_and_one_named_means_that() {
        let none = Parts { wasm: false, node: false, browser: false, python: false, agents: false };
        assert_eq!(none.or_all(), Parts::ALL);
        let one = Parts { python: true, ..none };
        assert_eq!(one.or_all(), one);
    }
}
