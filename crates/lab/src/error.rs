//! [`LabError`]: what can stop a run or a report, each with one line that says what to do next.

use std::io;
use std::path::PathBuf;

use crate::store::RunId;
use crate::units::Bytes;

/// Why the lab could not fulfil a request. Every message is one line: what failed, on what, and
/// what to do next.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// An agent does not do its part.
    #[error("the agent {place}: {reason}")]
    Agent {
        /// Where it is.
        place: String,
        /// Its message, or that of the connection to it.
        reason: String,
    },
    /// There is no fio.
    #[error("fio is not installed; install it with: apt install fio")]
    NoFio,
    /// fio is there but too old, or does not say its version.
    #[error(
        "{found} is too old: version {needed} or later is needed; install it with: apt install fio"
    )]
    OldFio {
        /// The version that it printed.
        found: String,
        /// The oldest that will do.
        needed: &'static str,
    },
    /// None of the ways to submit I/O works on a target.
    #[error("fio has no engine that works on {path} (tried {tried}): {reason}")]
    NoEngine {
        /// The target.
        path: PathBuf,
        /// The engines, comma separated.
        tried: String,
        /// fio's own words for the last one.
        reason: String,
    },
    /// The target is not there.
    #[error("{0} does not exist; give an existing directory")]
    Missing(PathBuf),
    /// The target is a file or a device.
    #[error("{0} is not a directory; the lab writes its test files into directories only")]
    NotADirectory(PathBuf),
    /// The target cannot be written.
    #[error("cannot write to {path}: {source}; choose a directory you may write to")]
    NotWritable {
        /// As given.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Too little space on the target.
    #[error(
        "{path} has {free} free and the plan needs {needed}; free some space, or use a plan with a smaller file"
    )]
    NoSpace {
        /// The target.
        path: PathBuf,
        /// What is there.
        free: Bytes,
        /// What is needed, with the reserve.
        needed: Bytes,
    },
    /// Both targets are one directory.
    #[error("{a} and {b} are the same directory; there is nothing to compare")]
    SameDirectory {
        /// The first.
        a: PathBuf,
        /// The second.
        b: PathBuf,
    },
    /// Another run measures this directory.
    #[error("another run is measuring {0}; wait until it has ended")]
    Busy(PathBuf),
    /// The process to measure the CPU time of does not exist.
    #[error("there is no process {pid} to measure the {role} by; give the id of a running process")]
    NoProcess {
        /// Server or client.
        role: &'static str,
        /// The id given.
        pid: u32,
    },
    /// There is no such plan.
    #[error("there is no plan named {name:?}; the plans are: {known}")]
    UnknownPlan {
        /// As given.
        name: String,
        /// All names.
        known: String,
    },
    /// A plan's text is wrong.
    #[error("the plan is not valid: {0}")]
    BadPlan(String),
    /// A request that makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// The store is damaged or not a store.
    #[error(
        "{path} is damaged or is no store of the lab ({reason}); move it away and a new one is made"
    )]
    DamagedStore {
        /// The file.
        path: PathBuf,
        /// SQLite's message.
        reason: String,
    },
    /// The store was written by a later version.
    #[error(
        "{path} was written by a later version (schema {found}, this one knows {known}); use that version"
    )]
    NewerStore {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The store cannot be read or written.
    #[error("cannot use the store {path}: {reason}")]
    Store {
        /// The file.
        path: PathBuf,
        /// What failed.
        reason: String,
    },
    /// There is no such run.
    #[error("there is no run {0} in the store; `outboard lab list` shows them")]
    UnknownRun(RunId),
    /// A run cannot go on.
    #[error("run {run} cannot go on: {reason}; make a new one")]
    CannotResume {
        /// Which.
        run: RunId,
        /// Why: one sentence without a full stop.
        reason: String,
    },
    /// A file that cannot be imported.
    #[error("cannot import {file}: {reason}")]
    BadImport {
        /// As given.
        file: String,
        /// Why: one sentence without a full stop.
        reason: String,
    },
    /// The store is empty.
    #[error("no run was made yet; make one with: outboard lab run quick DIRECTORY")]
    NoRuns,
    /// The user requested a stop. What was measured is in the store.
    #[error("stopped; {blocks} whole blocks were kept as run {run}")]
    Cancelled {
        /// Under which name.
        run: RunId,
        /// Blocks in which every test ran.
        blocks: u32,
    },
    /// A measurement failed. What was measured before is in the store.
    #[error("{reason}; {blocks} whole blocks were kept as run {run}")]
    Stopped {
        /// Under which name.
        run: RunId,
        /// Blocks in which every test ran.
        blocks: u32,
        /// What failed, on what.
        reason: String,
    },
    /// Something of the system failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried, as a verb phrase.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl LabError {
    /// A failed system call.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System {
            what: what.into(),
            source: source.into(),
        }
    }

    /// The run under which something was kept although this happened.
    #[must_use]
    pub const fn kept_run(&self) -> Option<RunId> {
        match self {
            Self::Cancelled { run, .. } | Self::Stopped { run, .. } => Some(*run),
            _ => None,
        }
    }
}
