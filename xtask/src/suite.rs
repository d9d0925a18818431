//! `cargo xtask test`: everything, from nothing, in the order that finds a fault soonest; stops at the first.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::Program;
use crate::progress::{Stages, say};
use crate::setup::{self, Parts, browser, node, python};
use crate::totals::Totals;
use crate::workspace::Workspace;
use crate::{check, faults, panel, wasm};

const BUILD_LIMIT: Duration = Duration::from_secs(1800);
const TEST_LIMIT: Duration = Duration::from_secs(1800);

/// Runs all stages; the last line printed counts the tests.
pub(crate) fn test(workspace: &Workspace) -> Result<()> {
    let mut stages = Stages::default();
    let mut totals = Totals::default();
    let outcome = run_stages(workspace, &mut stages, &mut totals);
    say(&format!("stages:\n{}", stages.table()));
    if !totals.is_empty() {
        println!("{totals}");
    }
    if outcome.is_err() {
        // The reason was told where it arose and is told again here, below the table.
        stages.verdict()?;
    }
    outcome
}

fn run_stages(workspace: &Workspace, stages: &mut Stages, totals: &mut Totals) -> Result<()> {
    stages.run("setup", || setup::setup(workspace, Parts::ALL))?;
    stages.run("check", || check::check(workspace, &[]))?;
    stages.run("build", || {
        // The black-box tests start the programs themselves.
        workspace.cargo().args(["build", "--workspace", "--bins"]).limit(BUILD_LIMIT).visible()?;
        faults::build_twin(workspace)
    })?;
    stages.run("rust tests", || rust_tests(workspace, totals))?;
    stages.run("panel", || {
        panel::build(workspace)?;
        wasm::build_with_scripts(workspace)?;
        let verdicts = ["build", "-p", "routing-core", "--features", "script", "--example", "script-verdicts"];
        workspace.cargo().args(verdicts).limit(BUILD_LIMIT).visible()
    })?;
    stages.run("browser tests", || browser_tests(workspace, totals))
}

fn rust_tests(workspace: &Workspace, totals: &mut Totals) -> Result<()> {
    let has_nextest = workspace.cargo().args(["nextest", "--version"]).text().is_ok();
    let commands: &[&[&str]] = if has_nextest {
        // Nextest does not run the examples in the documentation.
        &[&["nextest", "run", "--workspace", "--no-fail-fast"], &["test", "--workspace", "--doc"]]
    } else {
        &[&["test", "--workspace", "--no-fail-fast"]]
    };
    let mut counts = Totals::default();
    let outcome = commands
        .iter()
        .try_for_each(|command| counted(with_tools(workspace, workspace.cargo().args(*command))?, &mut counts));
    *totals = totals.plus(counts);
    outcome?;
    some_ran(counts)
}

fn browser_tests(workspace: &Workspace, totals: &mut Totals) -> Result<()> {
    let project = workspace.browser_tests();
    node::require_project(workspace, &project)?;
    let mut counts = Totals::default();
    let outcome = counted(with_tools(workspace, node::npm_run(&project, "test")?)?, &mut counts);
    *totals = totals.plus(counts);
    outcome?;
    some_ran(counts)
}

fn some_ran(counts: Totals) -> Result<()> {
    if counts.is_empty() { bail!("no test ran") } else { Ok(()) }
}

/// Tells a test program where the tools are that `setup` left.
fn with_tools(workspace: &Workspace, program: Program) -> Result<Program> {
    let program = program
        .env("COMFY_TOOLS", workspace.tools())
        .env("COMFY_TEST_PROGRAMS", workspace.target.join("debug"))
        .env("PYTHON", python::interpreter()?);
    Ok(match browser::find(workspace) {
        Some(found) => program.env(browser::VARIABLE, found),
        None => program,
    })
}

/// Runs a test program, shows its output and counts its tests, also when some failed.
fn counted(program: Program, totals: &mut Totals) -> Result<()> {
    let (output, outcome) = program.limit(TEST_LIMIT).echoed()?;
    let counts = Totals::read(&output);
    *totals = totals.plus(counts);
    outcome.with_context(|| format!("tests failed ({counts}); their output is above"))
}
