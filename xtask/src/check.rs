//! Everything that is checked without running the product: format, lints, documentation, types, file rules.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::progress::{Stages, say};
use crate::setup::node;
use crate::setup::wasm::WasmCompiler;
use crate::workspace::Workspace;
use crate::{hygiene, types, wasm};

const LIMIT: Duration = Duration::from_secs(1800);

/// One check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Check {
    /// Cargo.lock fits the manifests
    Lock,
    /// rustfmt
    Format,
    /// No source file is too long
    Lengths,
    /// No registry's host and no folder of one machine is named
    Names,
    /// clippy on everything, natively
    Clippy,
    /// clippy on panel-wasm for the browser
    ClippyWasm,
    /// rustdoc without warnings
    Docs,
    /// The generated types are current
    Types,
    /// The panel's TypeScript
    Panel,
    /// The browser tests' TypeScript
    BrowserTests,
}

impl Check {
    /// The quick ones first.
    const ALL: [Self; 10] = [
        Self::Lock,
        Self::Format,
        Self::Lengths,
        Self::Names,
        Self::Clippy,
        Self::ClippyWasm,
        Self::Docs,
        Self::Types,
        Self::Panel,
        Self::BrowserTests,
    ];

    fn run(self, workspace: &Workspace) -> Result<()> {
        match self {
            Self::Lock => workspace
                .cargo()
                .args(["metadata", "--locked", "--format-version", "1"])
                .text()
                .map(drop)
                .context("Cargo.lock does not fit the manifests: run `cargo check` and commit it"),
            Self::Format => {
                workspace.cargo().args(["fmt", "--all", "--", "--check"]).visible().context("run `cargo fmt --all`")
            }
            Self::Lengths => hygiene::check_lengths(workspace),
            Self::Names => hygiene::check_names(workspace),
            Self::Clippy => workspace
                .cargo()
                .args(["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
                .limit(LIMIT)
                .visible(),
            Self::ClippyWasm => WasmCompiler::find(workspace)?
                .cargo(workspace, "clippy")
                .args(["--package", "panel-wasm", "--", "-D", "warnings"])
                .limit(LIMIT)
                .visible(),
            Self::Docs => workspace
                .cargo()
                .args(["doc", "--no-deps", "--workspace"])
                .env("RUSTDOCFLAGS", "-D warnings")
                .limit(LIMIT)
                .visible(),
            Self::Types => types::types(workspace, true),
            Self::Panel => {
                let project = workspace.panel();
                node::require_project(workspace, &project)?;
                // Its sources import the WASM package's types.
                wasm::build(workspace, false)?;
                node::npm_run(&project, "typecheck")?.visible()
            }
            Self::BrowserTests => {
                let project = workspace.browser_tests();
                node::require_project(workspace, &project)?;
                node::npm_run(&project, "typecheck")?.visible()
            }
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Lock => "lock",
            Self::Format => "format",
            Self::Lengths => "lengths",
            Self::Names => "names",
            Self::Clippy => "clippy",
            Self::ClippyWasm => "clippy-wasm",
            Self::Docs => "docs",
            Self::Types => "types",
            Self::Panel => "panel",
            Self::BrowserTests => "browser-tests",
        })
    }
}

/// Runs the named checks, or all; every one runs, also after one failed.
pub(crate) fn check(workspace: &Workspace, only: &[Check]) -> Result<()> {
    let mut stages = Stages::default();
    for check in Check::ALL.into_iter().filter(|check| only.is_empty() || only.contains(check)) {
        let outcome = stages.run(&check.to_string(), || check.run(workspace));
        if outcome.is_err() && crate::process::interrupted() {
            return outcome;
        }
    }
    say(&format!("checks:\n{}", stages.table()));
    stages.verdict()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn all_holds_every_check_and_names_are_those_of_the_command_line() {
        assert_eq!(Check::ALL.len(), Check::value_variants().len());
        for check in Check::value_variants() {
            assert!(Check::ALL.contains(check), "{check}");
            let name = check.to_possible_value().map(|value| value.get_name().to_owned());
            assert_eq!(name, Some(check.to_string()));
        }
    }
}
