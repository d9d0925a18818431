//! An agent's child process: found on the PATH, in a process group of its own, read line by line, and never left
//! behind. Knows nothing of what the lines mean.
//!
//! A group that must die with the daemon, also when the daemon is killed with SIGKILL, needs someone who outlives the
//! daemon. That is a small shell beside every agent: it waits at a pipe that only the daemon holds, and ends the
//! group once the pipe closes.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// A process gets this long from the first request to stop until it is killed.
const CLOSE_GRACE: Duration = Duration::from_secs(3);
/// A process that is idle ends by itself within this time of its input's end; then it gets SIGTERM.
const END_OF_INPUT_GRACE: Duration = Duration::from_millis(300);
/// Lines that a process wrote just before its end are still read for this long.
const DRAIN: Duration = Duration::from_millis(500);
/// A process that closed its output without ending is given this long.
const SILENT_GRACE: Duration = Duration::from_secs(2);
/// Longer lines are skipped: no agent message has a reason to be this long.
const LONGEST_LINE: usize = 32 << 20;
/// So much of the error output is kept for messages.
const ERROR_TAIL_LINES: usize = 20;
const ERROR_LINE_CHARACTERS: usize = 400;

/// Ends the group given as `$1` when standard input closes.
const WATCHER: &str = r#"read -r _; kill -TERM "-$1" 2>/dev/null || exit 0; sleep 1; kill -KILL "-$1" 2>/dev/null"#;

/// What to run.
pub(super) struct Program {
    /// The executable.
    pub(super) path: PathBuf,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
    /// Environment variables to set.
    pub(super) set: BTreeMap<String, String>,
    /// Environment variables to leave out; `set` has the last word.
    pub(super) unset: Vec<&'static str>,
    /// Working folder.
    pub(super) cwd: PathBuf,
}

/// What a process did next.
#[derive(Debug)]
pub(super) enum Output {
    /// A line on standard output, without its end.
    Line(String),
    /// A line that was too long to keep.
    Oversize,
    /// The process is gone. Said once; do not ask again.
    Ended {
        /// Exit status and the last lines of the error output, for people.
        reason: String,
    },
}

/// A running process. Dropping it kills the group.
pub(super) struct Process {
    child: Child,
    watcher: Child,
    group: Pid,
    input: Option<mpsc::UnboundedSender<String>>,
    output: mpsc::Receiver<Output>,
    silent: bool,
    errors: ErrorTail,
    exit: Option<String>,
    give_up: Option<Instant>,
}

/// Finds an executable: a path with a slash as it is, a bare name on `path` or, without one, on the daemon's PATH.
pub(crate) fn find(name: &str, path: Option<&str>) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| is_executable(file));
    }
    let folders = path.map(OsString::from).or_else(|| std::env::var_os("PATH"))?;
    std::env::split_paths(&folders)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Runs a short command and returns its standard output; `None` when it fails or takes longer than `deadline`.
pub(super) async fn ask(program: &Program, deadline: Duration) -> Option<String> {
    let mut command = command(program);
    let run = command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(deadline, run).await.ok()?.ok()?;
    // A command that answers by its exit status, as well as by its output, is no failure here.
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|text| !text.is_empty())
}

fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    command.args(&program.arguments).current_dir(&program.cwd);
    for name in &program.unset {
        command.env_remove(name);
    }
    command.envs(&program.set);
    command
}

impl Process {
    /// Starts `program` with its three streams piped.
    ///
    /// # Errors
    /// When the program or its watcher cannot be started.
    pub(super) fn spawn(program: &Program) -> io::Result<Self> {
        let mut child = command(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()))
            .ok_or_else(|| io::Error::other("the new process has no id"))?;
        let watcher = watch(group)?;

        let (input, lines) = mpsc::unbounded_channel();
        if let Some(pipe) = child.stdin.take() {
            tokio::spawn(write_lines(pipe, lines));
        }
        let (sender, output) = mpsc::channel(256);
        if let Some(pipe) = child.stdout.take() {
            tokio::spawn(read_lines(pipe, sender));
        }
        let errors = ErrorTail::default();
        if let Some(pipe) = child.stderr.take() {
            tokio::spawn(errors.clone().fill(pipe));
        }
        Ok(Self { child, watcher, group, input: Some(input), output, silent: false, errors, exit: None, give_up: None })
    }

    /// The process's id.
    pub(super) fn pid(&self) -> u32 {
        self.group.as_raw_nonzero().get().cast_unsigned()
    }

    /// Writes a line. Never waits for the process; a line to a process that is gone is lost.
    pub(super) fn send(&self, line: String) {
        if let Some(input) = &self.input {
            // The writer is gone only when the process is; its end is reported by `next`.
            let _ = input.send(line);
        }
    }

    /// What the process does next. Cancelling the call loses nothing.
    pub(super) async fn next(&mut self) -> Output {
        loop {
            let give_up = self.give_up.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            tokio::select! {
                biased;
                output = self.output.recv(), if !self.silent => match output {
                    Some(output) => return output,
                    None => {
                        self.silent = true;
                        if self.exit.is_some() {
                            return self.ended();
                        }
                        self.give_up = Some(Instant::now() + SILENT_GRACE);
                    }
                },
                status = self.child.wait(), if self.exit.is_none() => {
                    self.exit = Some(match status {
                        Ok(status) => status.to_string(),
                        Err(error) => format!("its status is unknown: {error}"),
                    });
                    if self.silent {
                        return self.ended();
                    }
                    self.give_up = Some(Instant::now() + DRAIN);
                }
                () = sleep_until(give_up), if self.give_up.is_some() => {
                    if self.exit.is_some() {
                        return self.ended();
                    }
                    self.kill_group(Signal::KILL);
                    self.give_up = None;
                }
            }
        }
    }

    /// Stops the process: end of input, SIGTERM, and after three seconds SIGKILL, to the whole group.
    pub(super) async fn close(mut self) {
        let deadline = Instant::now() + CLOSE_GRACE;
        self.input = None;
        // A full pipe would keep the process from seeing the end of its input.
        self.output.close();
        if self.exit.is_none() && timeout(END_OF_INPUT_GRACE, self.child.wait()).await.is_err() {
            self.kill_group(Signal::TERM);
            if tokio::time::timeout_at(deadline, self.child.wait()).await.is_err() {
                self.kill_group(Signal::KILL);
                // After SIGKILL only the kernel can delay the end.
                let _ = timeout(CLOSE_GRACE, self.child.wait()).await;
            }
        }
        self.exit.get_or_insert_default();
        self.clear_group().await;
    }

    /// Kills the process at once, with its group.
    pub(super) async fn kill(mut self) {
        self.kill_group(Signal::KILL);
        let _ = timeout(CLOSE_GRACE, self.child.wait()).await;
        self.exit.get_or_insert_default();
        self.clear_group().await;
    }

    fn ended(&mut self) -> Output {
        self.kill_group(Signal::KILL);
        self.dismiss_watcher();
        let status = self.exit.clone().unwrap_or_default();
        let errors = self.errors.text();
        let reason = if errors.is_empty() { status } else { format!("{status}; it said: {errors}") };
        Output::Ended { reason }
    }

    async fn clear_group(&mut self) {
        self.kill_group(Signal::KILL);
        for _ in 0..50 {
            if test_kill_process_group(self.group).is_err() {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        self.dismiss_watcher();
        let _ = timeout(DRAIN, self.watcher.wait()).await;
    }

    fn kill_group(&self, signal: Signal) {
        // The only failure is that nobody is left.
        let _ = kill_process_group(self.group, signal);
    }

    // Before its pipe closes, so that it never signals a group number that belongs to someone else by now.
    fn dismiss_watcher(&mut self) {
        let _ = self.watcher.start_kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.kill_group(Signal::KILL);
        }
        self.dismiss_watcher();
    }
}

fn watch(group: Pid) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args([
            OsStr::new("-c"),
            OsStr::new(WATCHER),
            OsStr::new("sh"),
            OsStr::new(&group.as_raw_nonzero().to_string()),
        ])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A Ctrl-C at the daemon's terminal must not end the watcher before the daemon.
        .process_group(0)
        .spawn()
        .inspect_err(|_| {
            let _ = kill_process_group(group, Signal::KILL);
        })
}

async fn write_lines(mut pipe: tokio::process::ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if pipe.write_all(line.as_bytes()).await.is_err() || pipe.flush().await.is_err() {
            return;
        }
    }
}

async fn read_lines(pipe: impl AsyncRead + Unpin, sender: mpsc::Sender<Output>) {
    let mut reader = BufReader::with_capacity(64 << 10, pipe);
    while let Ok(Some(line)) = read_line(&mut reader, LONGEST_LINE).await {
        let output = match line {
            Some(bytes) => Output::Line(String::from_utf8_lossy(&bytes).into_owned()),
            None => Output::Oversize,
        };
        if sender.send(output).await.is_err() {
            // Nobody listens any more; keep the pipe empty so that the process can end in its own time.
            while let Ok(Some(_)) = read_line(&mut reader, 0).await {}
            return;
        }
    }
}

/// The next line, `Some(None)` for one longer than `longest`, `None` at the end.
async fn read_line(reader: &mut (impl AsyncBufRead + Unpin), longest: usize) -> io::Result<Option<Option<Vec<u8>>>> {
    let mut line = Vec::new();
    let mut oversize = false;
    loop {
        let piece = reader.fill_buf().await?;
        if piece.is_empty() {
            return Ok((oversize || !line.is_empty()).then_some((!oversize).then_some(line)));
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let text = &piece[..end.unwrap_or(piece.len())];
        oversize |= line.len() + text.len() > longest;
        if oversize {
            line = Vec::new();
        } else {
            line.extend_from_slice(text);
        }
        let used = end.map_or(piece.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(Some((!oversize).then_some(line)));
        }
    }
}

/// The last lines of a process's error output.
#[derive(Clone, Default)]
struct ErrorTail(Arc<Mutex<VecDeque<String>>>);

impl ErrorTail {
    async fn fill(self, pipe: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(pipe);
        while let Ok(Some(line)) = read_line(&mut reader, 64 << 10).await {
            let text = line.map_or_else(|| "(a very long line)".into(), |bytes| clip(&String::from_utf8_lossy(&bytes)));
            if text.is_empty() {
                continue;
            }
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == ERROR_TAIL_LINES {
                lines.pop_front();
            }
            lines.push_back(text);
        }
    }

    fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join(" / ")
    }
}

fn clip(line: &str) -> String {
    line.trim().chars().filter(|letter| !letter.is_control()).take(ERROR_LINE_CHARACTERS).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            set: BTreeMap::new(),
            unset: Vec::new(),
            cwd: "/".into(),
        }
    }

    async fn all(process: &mut Process) -> (Vec<String>, String) {
        let mut lines = Vec::new();
        loop {
            match timeout(Duration::from_secs(10), process.next()).await.unwrap() {
                Output::Line(line) => lines.push(line),
                Output::Oversize => lines.push("<oversize>".into()),
                Output::Ended { reason } => return (lines, reason),
            }
        }
    }

    fn alive(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
    }

    async fn gone(pid: &str) -> bool {
        for _ in 0..200 {
            if !alive(pid) {
                return true;
            }
            sleep(Duration::from_millis(20)).await;
        }
        false
    }

    #[tokio::test]
    async fn lines_written_just_before_the_end_are_read_and_the_reason_tells_status_and_errors() {
        let mut process = Process::spawn(&shell("echo one; echo broken >&2; printf two; exit 7")).unwrap();
        let (lines, reason) = all(&mut process).await;
        assert_eq!(lines, ["one", "two"]);
        assert!(reason.contains('7') && reason.contains("broken"), "{reason}");
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
        let text = b"short\nmuch too long\nnext\n".to_vec();
        let mut reader = BufReader::with_capacity(4, text.as_slice());
        assert_eq!(read_line(&mut reader, 6).await.unwrap(), Some(Some(b"short".to_vec())));
        assert_eq!(read_line(&mut reader, 6).await.unwrap(), Some(None));
        assert_eq!(read_line(&mut reader, 6).await.unwrap(), Some(Some(b"next".to_vec())));
        assert_eq!(read_line(&mut reader, 6).await.unwrap(), None);
    }

    #[tokio::test]
    async fn close_ends_a_process_that_ignores_everything_and_its_children() {
        let mut process =
            Process::spawn(&shell("trap '' TERM; sleep 300 & echo $!; while :; do sleep 1; done")).unwrap();
        let Output::Line(grandchild) = process.next().await else { panic!("no line") };
        let child = process.pid().to_string();
        assert!(alive(&child) && alive(&grandchild));
        let begun = Instant::now();
        process.close().await;
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert!(gone(&child).await && gone(&grandchild).await);
    }

    #[tokio::test]
    async fn the_end_of_the_leader_ends_its_group() {
        let mut process = Process::spawn(&shell("sleep 300 >/dev/null 2>&1 & echo $!")).unwrap();
        let (lines, _) = all(&mut process).await;
        assert!(gone(&lines[0]).await);
    }

    #[tokio::test]
    async fn dropping_a_process_kills_its_group() {
        let mut process = Process::spawn(&shell("sleep 300 & echo $!; wait")).unwrap();
        let Output::Line(grandchild) = process.next().await else { panic!("no line") };
        drop(process);
        assert!(gone(&grandchild).await);
    }

    #[tokio::test]
    async fn the_watcher_ends_the_group_when_its_pipe_closes() {
        let mut process = Process::spawn(&shell("trap '' TERM; sleep 300 & echo $!; wait; wait")).unwrap();
        let Output::Line(grandchild) = process.next().await else { panic!("no line") };
        drop(process.watcher.stdin.take());
        assert!(gone(&grandchild).await);
    }

    #[test]
    fn a_program_is_found_by_path_or_by_name_only_when_executable() {
        assert_eq!(find("sh", Some("/nowhere:/bin")), Some("/bin/sh".into()));
        assert_eq!(find("/bin/sh", None), Some("/bin/sh".into()));
        assert_eq!(find("/etc/passwd", None), None);
        assert_eq!(find("sh", Some("bin:.")), None);
        assert_eq!(find("", Some("/bin")), None);
    }
}
