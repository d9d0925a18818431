//! Runs other programs so that none outlives this one: each is the leader of its own process group, has a time
//! limit where one makes sense, and is ended by its own id when a person presses Ctrl-C. It must not know what the programs do.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::progress::say;

/// How long a program may take to end by itself once it was asked to.
const GRACE: Duration = Duration::from_secs(10);
/// How often long quiet work says that it goes on.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How many lines of a failed step's output are shown.
const SHOWN_LINES: usize = 30;
/// How long to wait for the rest of an ended program's output.
const OUTPUT_GRACE: Duration = Duration::from_secs(5);

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on Ctrl-C and SIGTERM end the running program and then this one.
pub(crate) fn watch_signals() -> Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag)).context("cannot watch for Ctrl-C")?;
    }
    #[cfg(not(unix))]
    let _ = flag;
    Ok(())
}

/// Whether a person or the system asked for the end.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// A program and how to run it.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    limit: Option<Duration>,
}

impl Program {
    /// A program by name or path, with this program's environment less what `cargo run` added to it.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(set_by_cargo_run) {
                command.env_remove(name);
            }
        }
        if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
            match without_toolchain_libraries(&path) {
                Some(rest) => command.env("LD_LIBRARY_PATH", rest),
                None => command.env_remove("LD_LIBRARY_PATH"),
            };
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Self { command, limit: None }
    }

    /// Adds one argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Where it runs.
    pub(crate) fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Sets one variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes one variable.
    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Ends the program after this long.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The command line as a person would type it where it runs.
    pub(crate) fn shown(&self) -> String {
        let here = self.command.get_current_dir();
        let relative = |argument: &OsStr| {
            let path = Path::new(argument);
            let path = here.and_then(|here| path.strip_prefix(here).ok()).filter(|rest| !rest.as_os_str().is_empty());
            path.map_or(argument, Path::as_os_str).to_string_lossy().into_owned()
        };
        let program = Path::new(self.command.get_program());
        let name = relative(program.file_name().unwrap_or(program.as_os_str()));
        std::iter::once(name).chain(self.command.get_args().map(relative)).collect::<Vec<_>>().join(" ")
    }

    /// Runs it with its output shown as it comes.
    pub(crate) fn visible(mut self) -> Result<()> {
        let shown = self.shown();
        say(&format!("$ {shown}"));
        let mut child = self.spawn()?;
        let status = wait(&mut child, self.limit, None)?;
        succeeded(status, &shown)
    }

    /// Runs it with its output kept in a file: a line now and then, and the last lines when it fails.
    pub(crate) fn quiet(mut self, label: &str, log: &Path) -> Result<()> {
        let shown = self.shown();
        if let Some(folder) = log.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let mut file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        writeln!(file, "$ {shown}")?;
        self.command.stdout(file.try_clone()?).stderr(file);
        let mut child = self.spawn()?;
        let outcome = wait(&mut child, self.limit, Some(label)).and_then(|status| succeeded(status, &shown));
        if interrupted() {
            return outcome;
        }
        outcome.with_context(|| {
            let text = fs::read_to_string(log).unwrap_or_default();
            format!("{label}; from {}:\n{}", log.display(), shortened(&text, SHOWN_LINES))
        })
    }

    /// Runs it and returns what it wrote to standard output, trimmed.
    pub(crate) fn text(mut self) -> Result<String> {
        let shown = self.shown();
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn()?;
        let output = child.stdout.take().map(|pipe| collect(pipe, Echo::Nowhere));
        let complaints = child.stderr.take().map(|pipe| collect(pipe, Echo::Nowhere));
        let status = wait(&mut child, self.limit, None)?;
        let complaints = complaints.map(Collected::finish).unwrap_or_default();
        succeeded(status, &shown).with_context(|| complaints.trim().to_owned())?;
        Ok(output.map(Collected::finish).unwrap_or_default().trim().to_owned())
    }

    /// Runs it with its output shown as it comes, and returns that output and then its complaints, also when it failed.
    pub(crate) fn echoed(mut self) -> Result<(String, Result<()>)> {
        let shown = self.shown();
        say(&format!("$ {shown}"));
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn()?;
        let output = child.stdout.take().map(|pipe| collect(pipe, Echo::Output));
        let complaints = child.stderr.take().map(|pipe| collect(pipe, Echo::Complaints));
        let outcome = wait(&mut child, self.limit, None).and_then(|status| succeeded(status, &shown));
        let mut text = output.map(Collected::finish).unwrap_or_default();
        text.push_str(&complaints.map(Collected::finish).unwrap_or_default());
        Ok((text, outcome))
    }

    /// Starts it and leaves it running, with its standard output as a pipe.
    pub(crate) fn start(mut self, name: &'static str) -> Result<Running> {
        self.command.stdout(Stdio::piped());
        let child = self.spawn()?;
        Ok(Running { name, child })
    }

    fn spawn(&mut self) -> Result<Child> {
        self.command.spawn().with_context(|| {
            format!("cannot start `{}`: is it installed and on PATH?", self.command.get_program().to_string_lossy())
        })
    }
}

/// A program that was left running; it is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    name: &'static str,
    child: Child,
}

impl Running {
    /// What it is called in messages.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Its standard output, once.
    pub(crate) fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// How it ended, when it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("cannot ask about {}", self.name))
    }

    /// Asks it to end, waits, and insists.
    pub(crate) fn stop(&mut self) {
        end(&mut self.child);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Variables that `cargo run` gives to this program and that would mislead another cargo or make it build anew.
fn set_by_cargo_run(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || matches!(
            name,
            "CARGO"
                | "CARGO_MANIFEST_DIR"
                | "CARGO_MANIFEST_PATH"
                | "CARGO_BIN_NAME"
                | "CARGO_CRATE_NAME"
                | "CARGO_PRIMARY_PACKAGE"
                | "OUT_DIR"
        )
}

/// What a person had in `LD_LIBRARY_PATH` before cargo added its toolchain: another compiler must not load those.
fn without_toolchain_libraries(path: &OsStr) -> Option<OsString> {
    let added = |folder: &PathBuf| {
        let parts: Vec<_> = folder.iter().collect();
        let has = |name: &str| parts.iter().any(|part| *part == OsStr::new(name));
        has("toolchains") || has("rustlib") || (has("target") && (has("debug") || has("release")))
    };
    let rest: Vec<PathBuf> =
        std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty() && !added(folder)).collect();
    if rest.is_empty() { None } else { std::env::join_paths(rest).ok() }
}

fn wait(child: &mut Child, limit: Option<Duration>, label: Option<&str>) -> Result<ExitStatus> {
    let started = Instant::now();
    let mut told = started;
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a program")? {
            return Ok(status);
        }
        if interrupted() {
            end(child);
            bail!("stopped: interrupted");
        }
        if let Some(limit) = limit.filter(|limit| started.elapsed() > *limit) {
            end(child);
            bail!("stopped after {} s, its time limit", limit.as_secs());
        }
        if let Some(label) = label.filter(|_| told.elapsed() > HEARTBEAT) {
            told = Instant::now();
            say(&format!("   {label}: {} s so far", started.elapsed().as_secs()));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn succeeded(status: ExitStatus, shown: &str) -> Result<()> {
    if status.success() { Ok(()) } else { bail!("`{shown}` failed ({status})") }
}

/// Asks a program and all it started to end; insists after the grace.
fn end(child: &mut Child) {
    if matches!(child.try_wait(), Ok(Some(_))) {
        return;
    }
    signal(child, Insistence::Ask);
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    signal(child, Insistence::Force);
    let _ = child.wait();
}

enum Insistence {
    Ask,
    Force,
}

#[cfg(unix)]
fn signal(child: &mut Child, insistence: Insistence) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let signal = match insistence {
        Insistence::Ask => Signal::TERM,
        Insistence::Force => Signal::KILL,
    };
    // The leader has not been waited for, so its id, which is the group's id, cannot belong to anything else.
    let _ = kill_process_group(Pid::from_child(child), signal);
}

#[cfg(not(unix))]
fn signal(child: &mut Child, insistence: Insistence) {
    match insistence {
        Insistence::Ask | Insistence::Force => drop(child.kill()),
    }
}

struct Collected {
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

/// Where collected lines are shown.
#[derive(Clone, Copy)]
enum Echo {
    Nowhere,
    Output,
    Complaints,
}

impl Echo {
    fn show(self, line: &[u8]) {
        // Nobody may be left to read it; the work goes on.
        let _ = match self {
            Self::Nowhere => Ok(()),
            Self::Output => std::io::stdout().lock().write_all(line),
            Self::Complaints => std::io::stderr().lock().write_all(line),
        };
    }
}

fn collect(pipe: impl Read + Send + 'static, echo: Echo) -> Collected {
    let text = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&text);
    let reader = thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            echo.show(&line);
            kept.lock().unwrap_or_else(PoisonError::into_inner).append(&mut line);
        }
    });
    Collected { text, reader }
}

impl Collected {
    /// The output; a grandchild that still holds the pipe is not waited for.
    fn finish(self) -> String {
        let started = Instant::now();
        while !self.reader.is_finished() {
            if started.elapsed() > OUTPUT_GRACE {
                say("   a process that the last program started still runs and holds its output");
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        let bytes = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The first and the last lines of a long text: npm tells the reason first, compilers last.
fn shortened(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= count {
        return lines.join("\n");
    }
    let first = count / 3;
    let left_out = lines.len() - count;
    format!("{}\n… {left_out} lines …\n{}", lines[..first].join("\n"), lines[first + left_out..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_two_ends() {
        assert_eq!(shortened("a\nb\nc\n", 3), "a\nb\nc");
        assert_eq!(shortened("a\nb\nc\nd\ne\n", 3), "a\n… 2 lines …\nd\ne");
        assert_eq!(shortened("", 3), "");
    }

    #[test]
    fn toolchain_libraries_leave_the_search_path() {
        let given = OsStr::new("/x/target/debug/deps:/y/toolchains/stable/lib:/opt/mine/lib:");
        assert_eq!(without_toolchain_libraries(given), Some(OsString::from("/opt/mine/lib")));
        assert_eq!(without_toolchain_libraries(OsStr::new("/x/target/debug")), None);
    }

    #[test]
    fn cargo_run_variables_are_known_and_settings_are_not_among_them() {
        assert!(set_by_cargo_run("CARGO_PKG_VERSION"));
        assert!(set_by_cargo_run("CARGO_MANIFEST_DIR"));
        assert!(!set_by_cargo_run("CARGO_TARGET_DIR"));
        assert!(!set_by_cargo_run("CARGO_HOME"));
    }

    #[test]
    fn paths_below_the_folder_are_shown_short() {
        let program = Program::new("/opt/bin/node").directory("/srv/here").args([
            "/srv/here/a/b.js",
            "-x",
            "/srv/here",
            "/srv/other",
        ]);
        assert_eq!(program.shown(), "node a/b.js -x /srv/here /srv/other");
    }

    #[cfg(unix)]
    #[test]
    fn a_program_past_its_limit_is_ended_with_all_it_started() -> Result<()> {
        let started = Instant::now();
        let program =
            Program::new("sh").args(["-c", "sleep 60 & echo begun; sleep 60"]).limit(Duration::from_millis(500));
        let (text, outcome) = program.echoed()?;
        assert_eq!(text, "begun\n");
        let told = outcome.map_err(|error| error.to_string());
        assert!(told.is_err_and(|text| text.contains("time limit")));
        // The sleep in the background would hold the output open until the grace is over.
        assert!(started.elapsed() < OUTPUT_GRACE, "what it started was not ended");
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn a_failure_shows_what_the_program_said() {
        let error =
            Program::new("sh").args(["-c", "echo broken >&2; exit 3"]).text().map_err(|error| format!("{error:#}"));
        assert_eq!(error, Err("broken: `sh -c echo broken >&2; exit 3` failed (exit status: 3)".to_owned()));
    }

    #[cfg(unix)]
    #[test]
    fn output_is_returned_also_when_the_program_fails() -> Result<()> {
        let (text, outcome) = Program::new("sh").args(["-c", "echo two >&2; echo one; exit 1"]).echoed()?;
        assert_eq!(text, "one\ntwo\n");
        assert!(outcome.is_err());
        Ok(())
    }
}
