//! Other programs, run to their end: what they printed and how they ended.

use std::process::Command;
use std::time::Duration;

use testkit::proc::{self, Process};
use testkit::requires::Missing;

/// When a program of a test counts as stuck. Partitioning and mkfs end with a `sync`, which waits until the disk has what all other
/// tests and their neighbours have written.
pub const LIMIT: Duration = Duration::from_secs(240);

/// Debian's own Python.
const PYTHON: &str = "/usr/bin/python3";

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The command, for messages.
    pub command: String,
    /// Its exit status; absent when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Said {
    /// What it printed, having succeeded.
    ///
    /// # Panics
    /// If it failed.
    #[track_caller]
    pub fn ok(self) -> String {
        let Self {
            command,
            code,
            stdout,
            stderr,
        } = self;
        assert_eq!(
            code,
            Some(0),
            "{command} failed\nstdout: {stdout}\nstderr: {stderr}"
        );
        stdout
    }

    /// The one line it complained with, having ended with `code`. What it logged does not count.
    ///
    /// # Panics
    /// If it ended otherwise or printed more or less than a line.
    #[must_use]
    #[track_caller]
    pub fn complaint(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().filter(|line| !is_log(line)).collect();
        assert_eq!(lines.len(), 1, "one clear line: {self:?}");
        assert!(lines[0].starts_with("outboard: "), "{self:?}");
        lines[0].to_owned()
    }
}

/// A line of the log: it begins with the time.
fn is_log(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let time = words.next().unwrap_or_default();
    let level = words.next().unwrap_or_default();
    time.ends_with('Z') && ["INFO", "WARN"].contains(&level)
}

/// Runs a program to its end.
///
/// # Panics
/// If it cannot be started or takes longer than [`LIMIT`].
#[must_use]
#[track_caller]
pub fn run(command: &mut Command) -> Said {
    run_within(command, LIMIT)
}

/// The same for a program that may take longer.
///
/// # Panics
/// If it cannot be started or takes longer than `limit`.
#[must_use]
#[track_caller]
pub fn run_within(command: &mut Command, limit: Duration) -> Said {
    run_explained(command, limit, String::new)
}

/// The same with what `explain` finds at the time limit in the message.
///
/// # Panics
/// If it cannot be started or takes longer than `limit`.
#[must_use]
#[track_caller]
pub fn run_explained(
    command: &mut Command,
    limit: Duration,
    explain: impl FnOnce() -> String,
) -> Said {
    let words = words(command);
    let mut process = Process::start(command).unwrap_or_else(|e| panic!("{words}: {e}"));
    let status = match process.wait(limit) {
        Ok(status) => status,
        Err(e) => panic!("{words}: {e}\n{}", explain()),
    };
    Said {
        command: words,
        code: status.code(),
        stdout: process.stdout(),
        stderr: process.stderr(),
    }
}

/// Runs `program` with `args` to its end.
///
/// # Panics
/// As [`run`].
#[must_use]
#[track_caller]
pub fn program(program: &str, args: &[&str]) -> Said {
    run(Command::new(program).args(args))
}

/// Our binary with `args`, not started yet. It keeps to English and to what the test says.
///
/// # Panics
/// If there is no binary.
#[must_use]
pub fn outboard(args: &[&str]) -> Command {
    let binary = proc::outboard().unwrap_or_else(|e| panic!("{e}"));
    let mut command = Command::new(binary);
    command
        .args(args)
        .env_remove("RUST_LOG")
        .env_remove("RUST_BACKTRACE")
        .env_remove("LISTEN_FDS")
        .env("LC_ALL", "C");
    command
}

/// libnbd's binding for the system's Python, which need not be the first Python on the path.
///
/// # Errors
/// [`Missing`].
pub fn needs_nbdsh() -> Result<(), Missing> {
    let tried = Command::new(PYTHON).args(["-c", "import nbd"]).output();
    match tried {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Missing::new(
            "no libnbd for Python",
            "install python3-libnbd",
        )),
    }
}

/// A script of `tests/nbdsh` for libnbd's Python binding.
///
/// # Panics
/// As [`run`].
#[must_use]
#[track_caller]
pub fn nbdsh(script: &str, args: &[&str]) -> Said {
    let path = format!("{}/nbdsh/{script}.py", env!("CARGO_MANIFEST_DIR"));
    run(Command::new(PYTHON).arg(path).args(args))
}

fn words(command: &Command) -> String {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}
