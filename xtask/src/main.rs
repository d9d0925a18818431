//! Set-up, build, run, test and bench: everything a person would otherwise type. Each command is a module; this one
//! only reads the command line.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program whose purpose is to tell a person what goes on"
)]

mod check;
mod faults;
mod hygiene;
mod panel;
mod pins;
mod process;
mod progress;
mod run;
mod setup;
mod stamp;
mod suite;
mod totals;
mod types;
mod wasm;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Sets up, builds, runs and tests comfy-orchestrator.
///
/// On a new machine with Rust, Node 20 and Python 3: `cargo xtask run` to see it, `cargo xtask test` for everything.
/// Every command installs or builds only what is missing. Fetched tools live in target/tools ($COMFY_TOOLS).
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what the other commands need; without options, all of it
    Setup(setup::Parts),
    /// Build routing-core for the browser into panel-wasm/pkg, and check its size
    Wasm {
        /// Make the package anew, also when nothing changed
        #[arg(long)]
        release: bool,
        /// Build the module for tests instead, which also runs event scripts, into target/wasm-scripts
        #[arg(long)]
        scripts: bool,
    },
    /// Build the panel that ComfyUI serves (the WASM package, then the TypeScript)
    Panel,
    /// Generate the TypeScript types of routing-core's frames
    Types {
        /// Change nothing; fail when they are not current
        #[arg(long)]
        check: bool,
    },
    /// Check format, lints, documentation, types and file rules; all checks run, also after a failure
    Check {
        /// Only these checks, comma-separated
        #[arg(long, value_enum, value_delimiter = ',')]
        only: Vec<check::Check>,
    },
    /// Set up, check, and run every test; stops at the first stage that fails
    Test,
    /// Run the daemon and a stand-in ComfyUI with the panel, to try it; Ctrl-C stops both
    Run(run::Options),
    /// Kill the daemon at every fault point and at any moment, and let lines misbehave; `--help` names the options
    #[command(disable_help_flag = true)]
    Faults {
        /// Arguments of the harness
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run the benchmark; what follows is passed on to it
    Bench {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    progress::begin();
    match carry_out(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if process::interrupted() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

fn carry_out(arguments: Arguments) -> Result<()> {
    process::watch_signals()?;
    let workspace = Workspace::find()?;
    match arguments.command {
        Command::Setup(parts) => setup::setup(&workspace, parts),
        Command::Wasm { scripts: true, .. } => wasm::build_with_scripts(&workspace),
        Command::Wasm { release, scripts: false } => wasm::build(&workspace, release),
        Command::Panel => panel::build(&workspace),
        Command::Types { check } => types::types(&workspace, check),
        Command::Check { only } => check::check(&workspace, &only),
        Command::Test => suite::test(&workspace),
        Command::Faults { arguments } => faults::faults(&workspace, arguments),
        Command::Run(options) => run::run(&workspace, &options),
        Command::Bench { arguments } => workspace
            .cargo()
            .args(["run", "--release", "--package", "tests-e2e", "--bin", "bench", "--"])
            .args(arguments)
            .visible()
            .context("the benchmark failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_fault_harness_gets_its_own_options() {
        let parsed =
            Arguments::try_parse_from(["xtask", "faults", "--help", "--seed", "3"]).map(|parsed| parsed.command);
        match parsed {
            Ok(Command::Faults { arguments }) => assert_eq!(arguments, ["--help", "--seed", "3"]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_benchmark_gets_its_own_options() {
        let parsed =
            Arguments::try_parse_from(["xtask", "bench", "--quick", "--tabs", "3"]).map(|parsed| parsed.command);
        match parsed {
            Ok(Command::Bench { arguments }) => assert_eq!(arguments, ["--quick", "--tabs", "3"]),
            other => panic!("{other:?}"),
        }
    }
}
