//! Runs test binaries, several at once: one thread for each, which reads what its binary reports.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use anyhow::{Context, Result};

use super::binary::Binary;
use super::report::{Report, Update};
use crate::{process, shell};

/// A binary that reports nothing for so long hangs: it is ended, and its tests are named. Where tests take longer, their
/// options add to it.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(900);

/// How often a run without news says what is going on.
const REMINDER: Duration = Duration::from_secs(30);

/// How often a silent binary is looked at.
const STEP: Duration = Duration::from_millis(200);

/// Makes a test fail that would be skipped.
pub(crate) const REQUIRE_ALL: &str = "OUTBOARD_REQUIRE_ALL";

/// Where tests find the binary.
pub(crate) const BINARY: &str = "OUTBOARD_BIN";

/// What runs at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) binaries: usize,
    /// Of each binary.
    pub(super) tests: usize,
    /// Memory that is free when another binary starts; the first one always does.
    pub(super) free_bytes_min: u64,
}

impl Limits {
    /// One test after the other.
    pub(super) const ONE: Self = Self {
        binaries: 1,
        tests: 1,
        free_bytes_min: 0,
    };
}

/// One run of a binary.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) binary: Binary,
    /// Which tests: names to run and names to skip.
    pub(super) arguments: Vec<String>,
    /// How many of them run at once, if fewer than of others.
    pub(super) threads: Option<usize>,
    pub(super) outboard: PathBuf,
    pub(super) strict: bool,
    /// Variables that they get, and their values.
    pub(super) variables: Vec<(&'static str, String)>,
    /// It hangs when it reports nothing for so long.
    pub(super) silence_max: Duration,
}

/// Runs all tasks; what happens goes to the report as it happens.
pub(super) fn run(tasks: Vec<Task>, limits: Limits, report: &mut Report) -> Result<()> {
    let logs = shell::target().join("tests");
    std::fs::create_dir_all(&logs)?;
    let mut waiting = VecDeque::from(tasks);
    let (sender, updates) = mpsc::channel();
    report.expect(waiting.len());
    std::thread::scope(|scope| {
        let mut running = 0;
        loop {
            while running < limits.binaries && (running == 0 || has_memory(limits)) {
                let Some(task) = waiting.pop_front() else {
                    break;
                };
                running += 1;
                let (sender, logs) = (sender.clone(), &logs);
                std::thread::Builder::new().spawn_scoped(scope, move || {
                    let threads = task.threads.unwrap_or(limits.tests);
                    supervise(&task, threads, logs, &sender);
                })?;
            }
            if running == 0 {
                return Ok(());
            }
            match updates.recv_timeout(REMINDER) {
                Ok(update) => running -= usize::from(report.apply(update)),
                Err(RecvTimeoutError::Timeout) => report.remind(),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    })
}

fn has_memory(limits: Limits) -> bool {
    process::available_memory().is_ok_and(|bytes| bytes >= limits.free_bytes_min)
}

/// Runs one binary to its end and reports that, also where it cannot be started.
fn supervise(task: &Task, threads: usize, logs: &Path, sender: &Sender<Update>) {
    let name = &task.binary.name;
    let log = logs.join(format!("{}.log", name.replace(' ', "-")));
    let outcome = start(task, threads, &log).and_then(|child| follow(child, task, sender));
    let (status, cpu_seconds) = match outcome {
        Ok((status, cpu_seconds)) => (status, cpu_seconds),
        Err(error) => (Some(format!("{error:#}")), 0.0),
    };
    let ended = Update::Ended {
        binary: name.clone(),
        problem: status,
        cpu_seconds,
        log,
    };
    sender.send(ended).ok();
}

fn start(task: &Task, threads: usize, log: &Path) -> Result<Child> {
    let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    // The parent may ignore signals (nohup does), and tests of signals would inherit that.
    let mut command = Command::new("env");
    command
        .arg("--default-signal")
        .arg(&task.binary.path)
        .args([
            "-Zunstable-options",
            "--format=json",
            "--report-time",
            "--show-output",
        ])
        .arg(format!("--test-threads={threads}"))
        .args(&task.arguments)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_MANIFEST_DIR", &task.binary.folder)
        .env(BINARY, &task.outboard)
        .current_dir(&task.binary.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    if task.strict {
        command.env(REQUIRE_ALL, "1");
    }
    command.envs(task.variables.iter().map(|(name, value)| (name, value)));
    command
        .spawn()
        .with_context(|| format!("cannot start {}", shell::words(&command)))
}

/// Passes on what the binary reports; what is wrong with its end, and its processor time.
fn follow(mut child: Child, task: &Task, sender: &Sender<Update>) -> Result<(Option<String>, f64)> {
    let stdout = child.stdout.take().context("its output is not ours")?;
    let (lines, incoming) = mpsc::channel();
    // A child that the binary leaves behind keeps the pipe open: the reader must not be waited for.
    std::thread::Builder::new().spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if lines.send(line).is_err() {
                return;
            }
        }
    })?;
    let pass_on = |line| {
        let binary = task.binary.name.clone();
        sender.send(Update::Line { binary, line }).ok();
    };
    let mut silence = Duration::ZERO;
    loop {
        // A process that has ended and was not waited for still has its times.
        let cpu_seconds = process::cpu_seconds(child.id()).unwrap_or_default();
        let status = match incoming.recv_timeout(STEP) {
            Ok(line) => {
                silence = Duration::ZERO;
                pass_on(line);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => Some(child.wait()?),
            Err(RecvTimeoutError::Timeout) => child.try_wait()?,
        };
        if let Some(status) = status {
            while let Ok(line) = incoming.recv_timeout(STEP) {
                pass_on(line);
            }
            let problem = (!status.success()).then(|| format!("it ended with {status}"));
            return Ok((problem, cpu_seconds));
        }
        silence += STEP;
        if silence >= task.silence_max {
            child.kill()?;
            child.wait()?;
            let problem = format!("it reported nothing for {} s", task.silence_max.as_secs());
            return Ok((Some(problem), cpu_seconds));
        }
    }
}
