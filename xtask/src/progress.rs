//! What a person sees while work goes on: one line a step with the seconds since the start, and a table at the end.
//! It must not know what the steps are.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

static STARTED: OnceLock<Instant> = OnceLock::new();

/// Remembers when the program began; later calls change nothing.
pub(crate) fn begin() {
    STARTED.get_or_init(Instant::now);
}

/// Prints one line, led by the seconds since the program began.
pub(crate) fn say(text: &str) {
    let started = STARTED.get_or_init(Instant::now);
    println!("[{:>6.1}s] {text}", started.elapsed().as_secs_f64());
}

/// How one stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It did what it should.
    Passed,
    /// It did not.
    Failed,
}

/// The stages that ran, in order.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    rows: Vec<(String, Duration, Ending)>,
    failures: Vec<(String, String)>,
}

impl Stages {
    /// Runs one stage and keeps its time; the error is kept for [`Stages::verdict`] and also handed back.
    pub(crate) fn run<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        say(&format!("== {name}"));
        let started = Instant::now();
        let outcome = work();
        let ending = match &outcome {
            Ok(_) => Ending::Passed,
            Err(error) => {
                say(&format!("== {name} failed: {error:#}"));
                self.failures.push((name.to_owned(), format!("{error:#}")));
                Ending::Failed
            }
        };
        self.rows.push((name.to_owned(), started.elapsed(), ending));
        outcome
    }

    /// One row a stage, with seconds, and the sum below.
    pub(crate) fn table(&self) -> String {
        let width = self.rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0).max("total".len());
        let mut text = String::new();
        for (name, took, ending) in &self.rows {
            let word = match ending {
                Ending::Passed => "ok",
                Ending::Failed => "FAILED",
            };
            let _ = writeln!(text, "  {name:<width$}  {:>7.1} s  {word}", took.as_secs_f64());
        }
        let total: Duration = self.rows.iter().map(|(_, took, _)| *took).sum();
        let _ = write!(text, "  {:<width$}  {:>7.1} s", "total", total.as_secs_f64());
        text
    }

    /// An error that names every failed stage and its reason, when one failed.
    pub(crate) fn verdict(&self) -> Result<()> {
        if self.failures.is_empty() {
            return Ok(());
        }
        let mut text = String::from("failed:");
        for (name, reason) in &self.failures {
            let _ = write!(text, "\n- {name}: {reason}");
        }
        Err(anyhow!(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn table_and_verdict_name_the_stage_that_failed() {
        let mut stages = Stages::default();
        assert!(stages.run("first", || Ok(())).is_ok());
        assert!(stages.verdict().is_ok());
        assert!(stages.run("second one", || -> Result<()> { bail!("no such folder") }).is_err());
        let table = stages.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("  first       ") && lines[0].ends_with("ok"), "{table}");
        assert!(lines[1].ends_with("FAILED"), "{table}");
        let verdict = stages.verdict().map_err(|error| error.to_string());
        assert_eq!(verdict, Err("failed:\n- second one: no such folder".to_owned()));
    }
}
