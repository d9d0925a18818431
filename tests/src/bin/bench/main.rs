//! The benchmark: one table of what people would feel, beside floors that were measured in the same run. It asserts
//! nothing about time. Options: `--json` (one JSON object), `--quick` (fewer repetitions),
//! `--long-log` (nothing but the daemon with a long log).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic ends the benchmark")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is the result, progress goes to the error output"
)]

mod core;
mod daemon;
mod floor;
mod log;
mod table;
mod wasm;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use table::Table;

/// Where the tests look for built programs.
const PROGRAMS: &str = "COMFY_TEST_PROGRAMS";

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    quick: bool,
}

impl Effort {
    /// A number of repetitions: a tenth in a hurry.
    pub(crate) fn times(self, usual: usize) -> usize {
        if self.quick { usual.div_ceil(10) } else { usual }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) =
        arguments.iter().find(|argument| !["--json", "--quick", "--long-log"].contains(&argument.as_str()))
    {
        eprintln!("`{unknown}` is no option of the benchmark; there are --json, --quick and --long-log.");
        return ExitCode::from(2);
    }
    if std::env::var_os(PROGRAMS).is_none() {
        return again_with_release_programs(&arguments);
    }
    let effort = Effort { quick: arguments.iter().any(|argument| argument == "--quick") };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut table = Table::default();
    step("floors");
    runtime.block_on(floor::measure(&mut table, effort));
    if !arguments.iter().any(|argument| argument == "--long-log") {
        step("routing core, native");
        core::measure(&mut table, effort);
        step("routing core, WASM");
        wasm::measure(&mut table, effort, &root());
        step("daemon");
        runtime.block_on(daemon::measure(&mut table, effort));
    }
    step("a long log");
    runtime.block_on(log::measure(&mut table, effort));
    if arguments.iter().any(|argument| argument == "--json") {
        println!("{}", table.json());
    } else {
        print!("{}", table.text());
    }
    ExitCode::SUCCESS
}

fn step(what: &str) {
    eprintln!("measuring: {what}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// The tests drive debug builds unless they are told otherwise; a benchmark is about release builds.
fn again_with_release_programs(arguments: &[String]) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--bins", "-p", "orchestrator", "-p", "web-fixtures"])
        .current_dir(root())
        .status()
        .expect("cargo runs");
    if !built.success() {
        eprintln!("The release programs do not build.");
        return ExitCode::FAILURE;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let me = std::env::current_exe().expect("this program has a path");
    let ended = Command::new(me).args(arguments).env(PROGRAMS, target.join("release")).status().expect("it runs again");
    if ended.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
