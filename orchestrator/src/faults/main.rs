//! The daemon with fault points, for tests: the same program, that can be told to die at a named moment. Called with
//! `fault-points` it names them.
#![allow(clippy::print_stdout, reason = "it tells a test what it can do")]

#[path = "../main.rs"]
mod daemon;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("fault-points") {
        orchestrator::fault::all().iter().for_each(|point| println!("{point}"));
        return ExitCode::SUCCESS;
    }
    daemon::main()
}
