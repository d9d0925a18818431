//! Adds up what the test programs say they ran, for the closing line. It decides nothing about success: exit codes do.

use std::fmt;

/// How many tests ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Totals {
    /// Reads `cargo test` (`test result: ok. 3 passed; 0 failed; 1 ignored; …`), nextest (`3 tests run: 3 passed, 0
    /// skipped`) and Playwright (a line each: `3 passed (2s)`, `1 failed`, `1 skipped`, `1 did not run`, `1 flaky`).
    pub(crate) fn read(output: &str) -> Self {
        output.lines().map(Self::of_line).fold(Self::default(), Self::plus)
    }

    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }

    /// Whether no test ran.
    pub(crate) fn is_empty(self) -> bool {
        self.passed + self.failed == 0
    }

    fn of_line(line: &str) -> Self {
        // Indented, it is what nextest quotes of a failed program, whose test it counts itself.
        let of_program = line.strip_prefix("test result: ");
        let line = line.trim();
        let counts = if let Some(counts) = of_program {
            counts.split_once(". ").map_or(counts, |(_, counts)| counts)
        } else if let Some((_, counts)) =
            line.split_once(" run: ").filter(|(before, _)| before.ends_with("tests") || before.ends_with("test"))
        {
            counts
        } else if is_playwright(line) {
            line
        } else {
            return Self::default();
        };
        let mut totals = Self::default();
        for part in counts.split([';', ',']) {
            let mut words = part.split_whitespace();
            let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else { continue };
            match words.next() {
                Some("passed" | "flaky") => totals.passed += number,
                Some("failed") => totals.failed += number,
                Some("ignored" | "skipped" | "did") => totals.skipped += number,
                _ => {}
            }
        }
        totals
    }
}

fn is_playwright(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let begins_with_a_number = words.next().is_some_and(|word| word.parse::<u64>().is_ok());
    let word = words.next();
    let rest = words.collect::<Vec<_>>().join(" ");
    begins_with_a_number
        && match word {
            Some("passed" | "failed" | "skipped" | "flaky") => {
                rest.is_empty() || (rest.starts_with('(') && rest.ends_with(')'))
            }
            Some("did") => rest == "not run",
            _ => false,
        }
}

impl fmt::Display for Totals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_binary_of_cargo_counts() {
        let output = "running 3 tests\ntest a ... ok\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s\n";
        assert_eq!(Totals::read(output).to_string(), "4 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn nextest_has_one_line() {
        let output = "    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 14 filtered out; finished in 0.43s\n\
            \x20    Summary [   1.204s] 12 tests run: 11 passed, 1 failed, 2 skipped\n";
        assert_eq!(Totals::read(output).to_string(), "11 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn playwright_has_a_line_for_each_ending() {
        let output =
            "  1 failed\n    [frontend] boot.spec.ts:3:1 boots\n  2 skipped\n  1 did not run\n  7 passed (1.2m)\n";
        assert_eq!(Totals::read(output).to_string(), "7 passed, 1 failed, 3 skipped");
    }

    #[test]
    fn other_lines_count_for_nothing() {
        assert!(Totals::read("3 passed the gate\n5 tests\nok 1 failed to\n").is_empty());
        assert!(!Totals::read("1 failed\n").is_empty());
    }
}
