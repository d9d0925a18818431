//! The daemon's command line.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this file is what speaks to the terminal")]

use orchestrator::agent;
use orchestrator::cli::{self, Cli, Command, DaemonError, ReadError};
use orchestrator::config::{Config, Environment};
use orchestrator::install::InstallError;
use orchestrator::serve::{Ready, serve};
use orchestrator::store::home::{Home, Surroundings, TokenError, TokenFile};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(crate) fn main() -> ExitCode {
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(ended) => {
            print!("{}", ended.out);
            eprint!("{}", ended.err);
            return ExitCode::from(ended.code);
        }
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("COMFY_ORCHESTRATOR_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,rmcp=warn")),
        )
        .with_ansi(false)
        // A terminal that is gone takes no message, and no complaint about that.
        .log_internal_errors(false)
        .init();
    let json = cli.json;
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(json, "runtime", &error.to_string()),
    };
    let outcome = runtime.block_on(run(cli));
    // Nothing that still reads a file or waits for a child may hold the process.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err((code, message)) => fail(json, &code, &message),
    }
}

type Failure = (String, String);

fn failure(code: &str, error: &impl std::fmt::Display) -> Failure {
    (code.to_owned(), error.to_string())
}

async fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let home = || {
        Home::prepare(&cli.home_choice(), &Surroundings::of_process()).map_err(|error| failure(error.code(), &error))
    };
    let load = |home: &Home| {
        Config::load(&cli.flags(), home.root(), &Environment::of_process())
            .map_err(|error| failure(error.code(), &error))
    };
    match &cli.command {
        Command::Serve(asked) if asked.detach => {
            let home = home()?;
            let port = load(&home)?.server.port;
            let detached = cli::detach(&home, port, std::env::args_os().skip(1).collect()).await;
            let (ready, log) = detached.map_err(|error| failure(error.code(), &error))?;
            repeat(&ready, &log, cli.json);
            Ok(ExitCode::SUCCESS)
        }
        Command::Serve(asked) => {
            if asked.detached {
                cli::leave_the_terminal();
            }
            let home = home()?;
            let config = load(&home)?;
            let stop = CancellationToken::new();
            end_on_signal(stop.clone(), asked.detached || !in_a_terminal())
                .map_err(|error| failure("signals", &error))?;
            if asked.stop_with_stdin {
                end_with_stdin(stop.clone());
            }
            serve(config, home, stop, |ready| announce(ready, cli.json))
                .await
                .map_err(|error| failure(error.code(), &error))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Status(_) => {
            let home = home()?;
            let (text, serves) =
                cli::status(&home, &load(&home)?, cli.json).await.map_err(|error| failure(error.code(), &error))?;
            print!("{text}");
            Ok(if serves { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Stop(_) => {
            let home = home()?;
            told(cli::stop(&home, &load(&home)?, cli.json).await, DaemonError::code)
        }
        Command::Install(asked) => {
            let port = load(&home()?)?.server.port;
            told(cli::install(asked, cli.given_home(), port, cli.json), InstallError::code)
        }
        Command::Uninstall(asked) => told(cli::uninstall(asked, cli.json), InstallError::code),
        Command::Token(command) => {
            let file = TokenFile::open(&home()?).map_err(|error| failure(error.code(), &error))?;
            told(cli::token(*command, &file, cli.json), TokenError::code)
        }
        Command::Log(command) => {
            let home = home()?;
            told(cli::log(command, &load(&home)?, &home, cli.json), ReadError::code)
        }
        Command::Agents => {
            print!("{}", cli::agents(&load(&home()?)?, cli.json, agent::build).await);
            Ok(ExitCode::SUCCESS)
        }
        Command::Doctor(_) => Ok(doctor(&cli).await),
    }
}

/// Prints what a command has to say.
fn told<E: std::fmt::Display>(outcome: Result<String, E>, code: fn(&E) -> &'static str) -> Result<ExitCode, Failure> {
    print!("{}", outcome.map_err(|error| failure(code(&error), &error))?);
    Ok(ExitCode::SUCCESS)
}

async fn doctor(cli: &Cli) -> ExitCode {
    let checks = cli::doctor(cli, &Surroundings::of_process(), &Environment::of_process(), agent::build).await;
    let well = checks.iter().all(|check| check.ok);
    if cli.json {
        println!("{}", serde_json::json!({"ok": well, "checks": checks}));
    } else {
        for check in &checks {
            println!("{} {}: {}", if check.ok { "ok     " } else { "PROBLEM" }, check.name, check.message);
        }
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn announce(ready: &Ready, json: bool) {
    use std::io::Write;
    let version = env!("CARGO_PKG_VERSION");
    if json {
        let line = serde_json::json!({
            "ready": true, "port": ready.port, "token_file": ready.token_file, "version": version,
        });
        println!("{line}");
    } else {
        println!("comfy-orchestrator {version} serves on http://127.0.0.1:{}", ready.port);
        println!("Token for native clients: {}", ready.token_file.display());
    }
    let _ = std::io::stdout().flush();
}

/// What the daemon that stays said when it was ready.
fn repeat(ready: &serde_json::Value, log: &std::path::Path, json: bool) {
    if json {
        println!("{ready}");
        return;
    }
    let text = |name: &str| ready[name].as_str().unwrap_or_default();
    println!("comfy-orchestrator {} serves on http://127.0.0.1:{}", text("version"), ready["port"]);
    println!(
        "It goes on without this terminal: `comfy-orchestrator stop` ends it. Its messages are in {}",
        log.display()
    );
}

/// Whether a person's terminal is at the other end. `nohup` and services have none, and nothing ends with it.
fn in_a_terminal() -> bool {
    use std::io::IsTerminal;
    std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal()
}

/// The first signal ends in order, the second at once. A terminal that goes ends what was started in it, unless it was
/// told to stay.
fn end_on_signal(stop: CancellationToken, stays: bool) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // Where the size of files is limited, a write beyond it is an error like others and not the end of the daemon.
    drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {
                    if stays {
                        continue;
                    }
                }
            }
            if stop.is_cancelled() {
                std::process::exit(130);
            }
            tracing::info!("stopping");
            stop.cancel();
        }
    });
    Ok(())
}

/// Whoever started this program holds the other end, and lets it go by ending, however that happens.
fn end_with_stdin(stop: CancellationToken) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        tracing::info!("standard input was closed: stopping");
        stop.cancel();
    });
}

fn fail(json: bool, code: &str, message: &str) -> ExitCode {
    if json {
        print!("{}", cli::failure(code, message));
    } else {
        eprintln!("comfy-orchestrator: {message}");
    }
    ExitCode::FAILURE
}
