//! A tool's process: started in a group of its own, watched, and ended with all it started.
//!
//! Invariants: while it runs, `tick` is called every [`POLL`] and nothing else waits. What it prints
//! goes into files of the working directory and is looked at while it runs: a tool that prints more
//! than [`OUTPUT_MAX`] is ended. A [`Running`] that is dropped takes its whole group with it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::programs::Missing;
use super::{Tick, ToolDirs};
use crate::fio::command::shown;
use crate::supervisor::{NotEnded, Supervised, Terminate, Termination};
use crate::units::{Bytes, Nanos};

/// How often a running tool is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How long a tool may take to end after it was sent SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(1);
/// How lines begin that come after the one that says why, and say where more is written.
const ADVICE: [&str; 3] = ["Refer to the ", "Try '", "dmesg(1) may have "];
/// Has a program print line by line; from Debian's coreutils.
const LINE_BY_LINE: &str = "stdbuf";
/// The most that a tool may print.
pub(crate) const OUTPUT_MAX: Bytes = Bytes(4 << 20);

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// What is started.
    pub program: PathBuf,
    /// With what.
    pub args: Vec<OsString>,
    /// Its name, also where a wrapper starts it.
    name: String,
}

/// Why one start of a tool gave no result. Every message is one line.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is not installed.
    #[error("{0}")]
    Missing(Missing),
    /// The caller's `tick` returned false.
    #[error("stopped")]
    Cancelled,
    /// It took longer than it may.
    #[error("{tool} did not end within {seconds} s; the target does not answer")]
    TimedOut {
        /// Its name.
        tool: String,
        /// The limit.
        seconds: u64,
    },
    /// It ended with an error; its own words.
    #[error("{tool} failed: {reason}")]
    Failed {
        /// Its name.
        tool: String,
        /// The last line that it printed on its standard error.
        reason: String,
    },
    /// It printed more than is kept.
    #[error("{tool} printed more than {OUTPUT_MAX} and was ended")]
    TooMuch {
        /// Its name.
        tool: String,
    },
    /// What it printed is no result.
    #[error("{tool}'s output has no usable {what}")]
    Unreadable {
        /// Its name.
        tool: &'static str,
        /// What is missing.
        what: &'static str,
    },
    /// It has nothing to work on.
    #[error("{0}")]
    NoSubject(String),
    /// Something of the system failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried, as a verb phrase.
        what: String,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl ToolError {
    pub(crate) fn system(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::System {
            what: what.into(),
            source,
        }
    }
}

/// What a tool printed, and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// On its standard output.
    pub output: String,
    /// On its standard error.
    pub errors: String,
    /// From its start to its end.
    pub elapsed: Nanos,
}

impl Invocation {
    /// A program with arguments.
    #[must_use]
    pub fn new(program: &Path, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            program: program.to_owned(),
            args: args.into_iter().map(Into::into).collect(),
            name: name_of(program),
        }
    }

    /// The same, with each line that it prints seen as soon as it is whole. A program that prints into a file
    /// keeps some KiB to itself otherwise.
    #[must_use]
    pub(crate) fn by_lines(self) -> Self {
        let itself = ["-oL".into(), self.program.into_os_string()];
        Self {
            program: LINE_BY_LINE.into(),
            args: itself.into_iter().chain(self.args).collect(),
            name: self.name,
        }
    }

    /// As it can be pasted into a shell.
    #[must_use]
    pub fn shown(&self) -> String {
        shown(&self.program.to_string_lossy(), &self.args)
    }

    /// Starts it; it works in `place.directory` and prints into `place.work`.
    ///
    /// # Errors
    /// [`ToolError::System`].
    pub fn start(&self, place: &ToolDirs<'_>) -> Result<Running, ToolError> {
        self.start_with(place, Stdio::null())
    }

    /// The same, with an input of its own.
    ///
    /// # Errors
    /// [`ToolError::System`].
    pub fn start_with(&self, place: &ToolDirs<'_>, input: Stdio) -> Result<Running, ToolError> {
        let name = self.name.clone();
        let printed = ["output", "errors"].map(|kind| place.work.join(format!("{name}.{kind}")));
        let failed = |error| ToolError::system(format!("start {name}"), error);
        let [output, errors] = printed.each_ref().map(|path| {
            let mut options = OpenOptions::new();
            options.create(true).write(true).truncate(true).open(path)
        });
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .current_dir(place.directory)
            // Decimal commas are no numbers to a parser.
            .env("LC_ALL", "C")
            .stdin(input)
            .stdout(output.map_err(failed)?)
            .stderr(errors.map_err(failed)?);
        Ok(Running {
            child: Supervised::spawn(&mut command).map_err(failed)?,
            name,
            printed,
            started: engine::clock::now(),
        })
    }

    /// Starts it and waits until it ends, `tick` says stop or `limit` has passed.
    ///
    /// # Errors
    /// [`ToolError`]; its process group has ended.
    pub fn run(
        &self,
        place: &ToolDirs<'_>,
        limit: Duration,
        tick: Tick<'_>,
    ) -> Result<Printed, ToolError> {
        self.start(place)?.wait(limit, tick)
    }
}

/// A started tool.
#[derive(Debug)]
pub struct Running {
    child: Supervised,
    name: String,
    /// Standard output, standard error.
    printed: [PathBuf; 2],
    started: Instant,
}

/// What a program is called.
fn name_of(program: &Path) -> String {
    let name = program.file_name().unwrap_or(program.as_os_str());
    name.to_string_lossy().into_owned()
}

impl Running {
    /// What it reads from, if it was started with a pipe; once.
    pub fn input(&mut self) -> Option<ChildStdin> {
        self.child.take_stdin()
    }

    /// The files that hold what it prints: on its standard output, and on its standard error.
    #[must_use]
    pub(crate) const fn printed_to(&self) -> &[PathBuf; 2] {
        &self.printed
    }

    /// Waits until it ends, `tick` says stop or `limit` has passed.
    ///
    /// # Errors
    /// [`ToolError`]; its process group has ended.
    pub fn wait(mut self, limit: Duration, tick: Tick<'_>) -> Result<Printed, ToolError> {
        let mut kept = Ok(());
        let mut bounded = |now| {
            kept = self.bounded();
            kept.is_ok() && tick(now)
        };
        let left = limit.saturating_sub(engine::clock::now().duration_since(self.started));
        let waited = self.child.wait_ended(left, POLL, &mut bounded);
        kept?;
        waited.map_err(|why| match why {
            NotEnded::Cancelled => ToolError::Cancelled,
            NotEnded::TimedOut => ToolError::TimedOut {
                tool: self.name.clone(),
                seconds: limit.as_secs(),
            },
        })?;
        self.ended(engine::clock::now())
    }

    /// Waits until `look` finds something; none if it ends before that, or `limit` has passed.
    ///
    /// # Errors
    /// [`ToolError::Cancelled`].
    pub fn wait_until<T>(
        &self,
        limit: Duration,
        tick: Tick<'_>,
        look: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, ToolError> {
        let mut is_cancelled = false;
        let mut tick = |now| {
            is_cancelled = !tick(now);
            !is_cancelled
        };
        let found = self.child.wait_ready(limit, POLL, &mut tick, look);
        match is_cancelled {
            true => Err(ToolError::Cancelled),
            false => Ok(found),
        }
    }

    /// Sends SIGINT and returns its output, with any exit status.
    ///
    /// # Errors
    /// [`ToolError`] when it cannot be signalled or reaped.
    pub fn interrupt(mut self) -> Result<Printed, ToolError> {
        let failed = |error| ToolError::system("end a tool", error);
        if !self.has_ended() {
            self.child.signal_group(Signal::INT).map_err(failed)?;
        }
        self.child.wait_timeout(GRACE);
        let elapsed = engine::clock::now().duration_since(self.started);
        self.end_group().map_err(failed)?;
        self.bounded()?;
        Ok(self.printed(Nanos::from_duration(elapsed)))
    }

    fn ended(&mut self, now: Instant) -> Result<Printed, ToolError> {
        let elapsed = Nanos::from_duration(now.duration_since(self.started));
        let ended = self
            .end_group()
            .map_err(|error| ToolError::system(format!("wait for {}", self.name), error))?;
        self.bounded()?;
        let printed = self.printed(elapsed);
        match ended.status.is_some_and(|status| status.success()) {
            true => Ok(printed),
            false => Err(ToolError::Failed {
                tool: self.name.clone(),
                reason: reason(&printed),
            }),
        }
    }

    /// Whether it has ended. It is not reaped, so that nothing else gets its id and its group's.
    #[must_use]
    pub(crate) fn has_ended(&self) -> bool {
        self.child.has_ended()
    }

    /// The last line that it has printed so far, on its standard error if there is any.
    #[must_use]
    pub fn last_line(&self) -> Option<String> {
        let printed = self.printed(Nanos(0));
        let said = printed.output + &printed.errors;
        let line = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        line.map(str::to_owned)
    }

    fn bounded(&self) -> Result<(), ToolError> {
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |found| found.len());
        match self.printed.iter().any(|path| size(path) > OUTPUT_MAX.0) {
            true => Err(ToolError::TooMuch {
                tool: self.name.clone(),
            }),
            false => Ok(()),
        }
    }

    fn printed(&self, elapsed: Nanos) -> Printed {
        let read = |path: &PathBuf| {
            let bytes = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let [output, errors] = self.printed.each_ref().map(read);
        Printed {
            output,
            errors,
            elapsed,
        }
    }

    /// Ends it with all that it started.
    fn end_group(&mut self) -> std::io::Result<Termination> {
        self.child.end(Terminate::Group, GRACE)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.end_group() {
            tracing::warn!(tool = %self.name, %error, "a tool could not be ended");
        }
    }
}

/// The last line that it complained in, else the last that it printed.
fn reason(printed: &Printed) -> String {
    let is_advice = |line: &str| ADVICE.iter().any(|begin| line.starts_with(begin));
    let last = |text: &str| {
        let mut lines = text.lines().map(str::trim);
        let line = lines.rfind(|line| !line.is_empty() && !is_advice(line));
        line.map(|line| line.chars().take(300).collect::<String>())
    };
    last(&printed.errors)
        .or_else(|| last(&printed.output))
        .unwrap_or_else(|| "it did not say why".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_of(errors: &str) -> String {
        reason(&Printed {
            output: "printed\n".into(),
            errors: errors.into(),
            elapsed: Nanos(0),
        })
    }

    #[test]
    fn the_reason_is_the_last_line_that_is_no_advice_where_to_read_on() {
        let cifs = "mount error(13): Permission denied\nRefer to the mount.cifs(8) manual page (e.g. \
                    man mount.cifs) and kernel log messages (dmesg)\n";
        assert_eq!(reason_of(cifs), "mount error(13): Permission denied");
        let mount = "mount: /m: wrong fs type.\n       dmesg(1) may have more information after \
                     failed mount system call.\n";
        assert_eq!(reason_of(mount), "mount: /m: wrong fs type.");
        assert_eq!(reason_of("\n \n"), "printed");
    }
}
