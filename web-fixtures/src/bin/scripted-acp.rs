//! An ACP agent on stdio that does what the prompt says, or what a test orders. For tests and demos only.

use clap::Parser;
use std::path::PathBuf;
use web_fixtures::acp::{FAILED, NO_PUPPETEER, Options, run};

/// Speaks the Agent Client Protocol on stdio; the prompt is the script.
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder to keep sessions in, so that another process can load them.
    #[arg(long)]
    state: Option<PathBuf>,
    /// Name to report to the puppeteer.
    #[arg(long, default_value = "scripted-acp")]
    name: String,
    /// HOST:PORT of a test that pulls the strings instead of the prompt.
    #[arg(long, env = "SCRIPTED_ACP_PUPPET")]
    puppet: Option<String>,
    /// End with an error instead of starting.
    #[arg(long)]
    fail_start: bool,
    /// Never answer this request, such as session/new.
    #[arg(long, value_name = "METHOD")]
    hang: Option<String>,
    /// End the process in the middle of the first turn.
    #[arg(long)]
    exit_in_turn: bool,
    /// Neither offer nor answer session/load.
    #[arg(long)]
    no_load: bool,
    /// Fold a prompt that comes during a turn into that turn.
    #[arg(long)]
    merge: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments = Arguments::parse();
    let puppet = arguments.puppet.is_some() && !arguments.fail_start;
    let options = Options {
        state: arguments.state,
        name: arguments.name,
        puppet: arguments.puppet,
        fail_start: arguments.fail_start,
        hang: arguments.hang,
        exit_in_turn: arguments.exit_in_turn,
        no_load: arguments.no_load,
        merge: arguments.merge,
    };
    let code = match run(options).await {
        Ok(()) => 0,
        Err(error) => {
            report(&error);
            if puppet { NO_PUPPETEER } else { FAILED }
        }
    };
    // The thread that waits for input would keep the process alive.
    std::process::exit(code);
}

#[expect(clippy::print_stderr, reason = "stdout belongs to the protocol")]
fn report(error: &anyhow::Error) {
    eprintln!("scripted-acp: {error:#}");
}
