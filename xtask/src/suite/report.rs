//! What the terminal shows of a run: a line for each binary, failures, the slowest tests, the times.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::events::{Ended, Events};

/// Tests that are listed with their times at the end.
const SLOWEST: usize = 20;

/// Failures that the error names.
const NAMED_MAX: usize = 5;

/// Length of the cause of each.
const CAUSE_CHARACTERS: usize = 240;

/// Lines of a binary's own log that are shown where it failed without naming a test.
const LOG_LINES: usize = 40;

/// News of a run.
#[derive(Debug)]
pub(super) enum Update {
    /// A line that a binary printed.
    Line { binary: String, line: String },
    /// A binary has ended; `problem` where it was no success.
    Ended {
        binary: String,
        problem: Option<String>,
        cpu_seconds: f64,
        log: PathBuf,
    },
}

/// Everything that was reported so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    running: BTreeMap<String, Events>,
    expected: usize,
    ended: usize,
    tests: usize,
    times: Vec<(Duration, String)>,
    skipped: Vec<String>,
    failed: Vec<String>,
}

impl Report {
    /// So many more binaries are to come.
    pub(super) fn expect(&mut self, binaries: usize) {
        self.expected += binaries;
    }

    /// Takes news; whether a binary has ended.
    pub(super) fn apply(&mut self, update: Update) -> bool {
        match update {
            Update::Line { binary, line } => {
                let events = self.running.entry(binary.clone()).or_default();
                if let Some(ended) = events.read(&line) {
                    self.test_ended(&binary, ended);
                }
                false
            }
            Update::Ended {
                binary,
                problem,
                cpu_seconds,
                log,
            } => {
                self.binary_ended(&binary, problem, cpu_seconds, &log);
                true
            }
        }
    }

    fn test_ended(&mut self, binary: &str, ended: Ended) {
        let name = format!("{binary} {}", ended.test);
        let reason = ended
            .output
            .lines()
            .find_map(|line| line.strip_prefix("skipped: "));
        if let Some(reason) = reason {
            self.skipped.push(format!("{name}: {reason}"));
        }
        if !ended.is_ok {
            println!(
                "FAILED  {name}, {:.1} s\n{}",
                ended.took.as_secs_f64(),
                ended.output
            );
            self.failed.push(match cause(&ended.output) {
                Some(cause) => format!("{name} ({cause})"),
                None => name.clone(),
            });
        }
        self.tests += 1;
        self.times.push((ended.took, name));
    }

    fn binary_ended(
        &mut self,
        binary: &str,
        problem: Option<String>,
        cpu_seconds: f64,
        log: &std::path::Path,
    ) {
        self.ended += 1;
        let events = self.running.remove(binary).unwrap_or_default();
        let is_ok = problem.is_none() && events.is_complete();
        if is_ok && events.ended == 0 {
            return;
        }
        println!(
            "{:<7} {:>3}/{} {binary:<36} {:>5} tests {cpu_seconds:>7.1} s of processor time",
            if is_ok { "ok" } else { "FAILED" },
            self.ended,
            self.expected,
            events.ended,
        );
        if is_ok {
            return;
        }
        // A failed test is listed by its own name.
        if events.failed == 0 || !events.is_complete() {
            let problem = problem.unwrap_or_else(|| "it did not report all its tests".to_owned());
            let running: Vec<&str> = events.running().collect();
            println!("{binary}: {problem}; running were: {}", running.join(", "));
            println!("{}", tail(log));
            self.failed.push(format!("{binary} ({problem})"));
        }
    }

    /// Says what is going on, where nothing was reported for a while.
    pub(super) fn remind(&self) {
        for (binary, events) in &self.running {
            let tests: Vec<&str> = events.running().collect();
            println!(
                "running     {binary}, {} of {}: {}",
                events.ended,
                events.count,
                tests.join(", ")
            );
        }
    }

    /// Tests that have ended.
    pub(super) const fn ended(&self) -> usize {
        self.times.len()
    }

    /// The slowest of those that ended after so many others.
    pub(super) fn print_slowest(&self, after: usize) {
        let mut times: Vec<_> = self.times.iter().skip(after).collect();
        times.sort();
        for (took, name) in times.into_iter().rev().take(SLOWEST) {
            println!("{:>8.1} s  {name}", took.as_secs_f64());
        }
    }

    /// The end of a run.
    pub(super) fn print(&self, built: Duration, ran: Duration, cpu_seconds: f64) {
        println!("\nthe slowest tests:");
        self.print_slowest(0);
        if !self.skipped.is_empty() {
            println!(
                "\n{} tests were skipped:\n  {}",
                self.skipped.len(),
                self.skipped.join("\n  ")
            );
        }
        if !self.failed.is_empty() {
            println!(
                "\n{} failed:\n  {}",
                self.failed.len(),
                self.failed.join("\n  ")
            );
        }
        let added: Duration = self.times.iter().map(|(took, _)| *took).sum();
        println!(
            "\n{} tests of {} binaries in {:.0} s after {:.0} s of building; one after the other {:.0} s; \
             {cpu_seconds:.0} s of processor time",
            self.tests,
            self.ended,
            ran.as_secs_f64(),
            built.as_secs_f64(),
            added.as_secs_f64(),
        );
    }

    /// The run's error, where something failed: it is printed last, and names the first of what failed.
    pub(super) fn failure(&self) -> Option<String> {
        let named = self.failed.get(..NAMED_MAX).unwrap_or(&self.failed);
        let more = match self.failed.len() - named.len() {
            0 => String::new(),
            more => format!("; {more} more"),
        };
        let named = named.join("; ");
        (!named.is_empty()).then(|| format!("{} tests failed: {named}{more}", self.failed.len()))
    }
}

/// Where a test panicked and the beginning of its message, in one line.
fn cause(output: &str) -> Option<String> {
    let (_, cause) = output.split_once(" panicked at ")?;
    let cause = cause.split("stack backtrace:").next()?;
    let words: Vec<&str> = cause.split_whitespace().collect();
    Some(words.join(" ").chars().take(CAUSE_CHARACTERS).collect())
}

fn tail(log: &std::path::Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
