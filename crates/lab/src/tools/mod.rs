//! Workloads that are not fio: dbench, bonnie++, tar of a source tree, a compilation, stress-ng and iperf3;
//! and scenarios: [`clients`], [`pull`], [`resync`], in which something happens to a disk of our own, and
//! [`concurrent_drives`], in which all drives of a run work at once.
//!
//! Each tool has a file with the same parts: `Options` (plain data, read from a plan), a command (pure), a parser of
//! what the tool prints (pure), and [`ToolKind`]; and a line in [`Tool`] and in [`Tool::kind`]. [`run`] alone starts
//! anything; what it would start is in [`Tool::shown`].
//!
//! # Invariants
//!
//! * A tool works in the directory it is given (a scenario of all drives in that of each) and nowhere else, and
//!   its whole process group is ended on every way out.
//! * What a tool prints is bounded ([`process::OUTPUT_MAX`]), and any text is an error value at worst.
//! * The first figure of a result is its headline, and is the same figure for every run with the same
//!   options: statistics compare it. A start that failed has no figure at all. Rates are bytes per second
//!   here, in any unit that the tool prints.
//!
//! # What it deliberately does not do
//!
//! It drops no caches, reads no sensors and judges little: the runner does that around it.

pub mod bonnie;
pub mod clients;
pub mod compile;
pub mod concurrent_drives;
pub mod dbench;
mod files;
pub mod iperf3;
mod layout;
pub mod process;
pub mod programs;
pub mod pull;
pub mod result;
pub mod resync;
mod rig;
pub mod stress_ng;
pub mod sync_action;
pub mod tar;
pub mod tree;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::checks::Finding;
use crate::checks::emulation::is_emulated;
use crate::units::{Bytes, Nanos};

use process::Printed;

pub use layout::quoted;
pub use process::{Invocation, ToolError};
pub use programs::{Installed, Program, find};
pub use result::{Better, ToolFigure, ToolResult, Unit};

/// A tool with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tool")]
pub enum Tool {
    /// The file operations of a Samba server.
    #[serde(rename = "dbench")]
    Dbench(dbench::DbenchOptions),
    /// Block writes, rewrites, reads and seeks; small files made, read and removed.
    #[serde(rename = "bonnie++")]
    Bonnie(bonnie::BonnieOptions),
    /// Many small files read, one large one written.
    #[serde(rename = "tar")]
    Tar(tar::TarOptions),
    /// Many small files read, a busy processor, objects written.
    #[serde(rename = "compile")]
    Compile(compile::CompileOptions),
    /// Load on the processor, without storage.
    #[serde(rename = "stress-ng")]
    StressNg(stress_ng::StressNgOptions),
    /// The bare wire.
    #[serde(rename = "iperf3")]
    Iperf3(iperf3::Iperf3Options),
    /// A scenario: clients of one server at once.
    #[serde(rename = "clients")]
    Clients(clients::ClientsOptions),
    /// A scenario: a drive of several is pulled.
    #[serde(rename = "pull")]
    Pull(pull::PullOptions),
    /// A scenario: an array copies under load.
    #[serde(rename = "resync")]
    Resync(resync::ResyncOptions),
    /// A scenario: all drives of the run at once.
    #[serde(rename = "together")]
    Together(concurrent_drives::TogetherOptions),
}

/// Where a tool works.
#[derive(Debug, Clone, Copy)]
pub struct ToolDirs<'a> {
    /// On the target: a directory of our own. Tools of the wire and the processor leave it alone.
    pub directory: &'a Path,
    /// The same of every other target that has this test.
    pub beside: &'a [PathBuf],
    /// For what it prints, not on the target.
    pub work: &'a Path,
    /// For tools that draw.
    pub seed: u64,
}

/// What came of one start.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// The figures.
    pub result: ToolResult,
    /// What the tool printed, to be kept.
    pub output: String,
    /// What was started, as it can be pasted into a shell.
    pub commands: Vec<String>,
    /// What the output itself says against the figures.
    pub findings: Vec<Finding>,
}

/// Called while waiting, with the time; false stops.
pub type Tick<'a> = &'a mut dyn FnMut(Instant) -> bool;

/// One start of a tool: of what, where, its timeout, and its cancellation.
pub(crate) struct Start<'a> {
    name: &'static str,
    installed: &'a Installed,
    version: &'a str,
    place: &'a ToolDirs<'a>,
    limit: Duration,
    tick: Tick<'a>,
}

impl Start<'_> {
    /// Runs a program to its end.
    fn run(&mut self, command: &Invocation) -> Result<Printed, ToolError> {
        command.run(self.place, self.limit, self.tick)
    }

    /// Runs programs one after the other within the one limit: the time of all, and what they printed.
    fn run_all(&mut self, commands: &[Invocation]) -> Result<(Nanos, String), ToolError> {
        let mut elapsed = Nanos(0);
        let mut output = String::new();
        for command in commands {
            let left = self.limit.saturating_sub(Duration::from_nanos(elapsed.0));
            let printed = command.run(self.place, left, self.tick)?;
            elapsed.0 += printed.elapsed.0;
            output = output + &printed.output + &printed.errors;
        }
        Ok((elapsed, output))
    }

    /// What it measured: no bytes are counted, and no subject is named.
    fn result(&self, figures: Vec<ToolFigure>, elapsed: Nanos) -> ToolResult {
        ToolResult {
            figures,
            ..ToolResult::failed(self.name, self.version, elapsed)
        }
    }
}

/// What one start writes to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Nothing.
    Nothing,
    /// So much at most, what its filesystem writes besides not counted.
    AtMost(Bytes),
    /// As much as the target takes in the time that it is given.
    AsMuchAsItCan,
}

/// A tool: its options, with all that the lab does with them.
pub(crate) trait ToolKind {
    /// What has to be installed for it.
    fn program(&self) -> Program;

    /// What it is called in a plan and in its results.
    fn name(&self) -> &'static str {
        self.program().name
    }

    /// Checks the options. The error is one line on the first value that makes no sense.
    fn check(&self) -> Result<(), String>;

    /// How long one start usually takes, for estimates.
    fn usual(&self) -> Nanos;

    /// Whether it ends by itself when its time is over, but for what is flushed. The others have an amount of work, and
    /// a slow target takes its time for it.
    fn is_timed(&self) -> bool {
        false
    }

    /// How many of its processes work at the same time; none where that is one for each core, or not known.
    fn at_once(&self) -> Option<u32> {
        None
    }

    /// What one start writes.
    fn writes(&self) -> Writes;

    /// What is written once to each target, before the first start.
    fn laid_out(&self) -> Bytes {
        Bytes(0)
    }

    /// The commands of one start in `place`, as far as they are known before it, as they can be pasted into
    /// a shell.
    fn shown(&self, installed: &Installed, place: &ToolDirs<'_>) -> Vec<String>;

    /// Puts onto the target what it works on, if it is not there yet. Returns the command that does the same.
    fn prepare(&self, _: &ToolDirs<'_>, _: Tick<'_>) -> Result<Option<String>, ToolError> {
        Ok(None)
    }

    /// Runs it once and reads what it says.
    fn run(&self, start: Start<'_>) -> Result<Ran, ToolError>;
}

impl Tool {
    /// What it does.
    #[must_use]
    pub(crate) fn kind(&self) -> &dyn ToolKind {
        match self {
            Self::Dbench(options) => options,
            Self::Bonnie(options) => options,
            Self::Tar(options) => options,
            Self::Compile(options) => options,
            Self::StressNg(options) => options,
            Self::Iperf3(options) => options,
            Self::Clients(options) => options,
            Self::Pull(options) => options,
            Self::Resync(options) => options,
            Self::Together(options) => options,
        }
    }

    /// Whether the target's directory is used at all.
    #[must_use]
    pub(crate) const fn uses_storage(&self) -> bool {
        !matches!(self, Self::StressNg(_) | Self::Iperf3(_))
    }

    /// Whether the server that it works on is one of its own processes.
    #[must_use]
    pub(crate) const fn brings_its_server(&self) -> bool {
        match self {
            Self::Clients(_) => true,
            Self::Iperf3(options) => options.host.is_none(),
            _ => false,
        }
    }

    /// Whether it reads files through the page cache that were there before it began.
    #[must_use]
    pub(crate) const fn reads_what_was_there(&self) -> bool {
        matches!(self, Self::Tar(_) | Self::Compile(_))
    }

    /// The version that its results are distinguished by: that of the load generator. A scenario's own
    /// steps are ours, and what it needs besides makes no figure.
    #[must_use]
    pub fn version<'a>(&self, installed: &'a Installed) -> &'a str {
        match self {
            Self::Pull(_) => "",
            _ => &installed.version,
        }
    }

    /// The timeout of a start.
    #[must_use]
    pub fn limit(&self) -> Duration {
        const SLOWER_MAX: u32 = 20;
        let usual = Duration::from_nanos(self.kind().usual().0);
        let longest = match self.kind().is_timed() {
            true => usual,
            false => usual.saturating_mul(SLOWER_MAX),
        };
        longest.saturating_add(MARGIN)
    }

    /// [`ToolKind::shown`] of the program of that name, wherever it is.
    #[must_use]
    pub fn shown(&self, place: &ToolDirs<'_>) -> Vec<String> {
        let installed = Installed {
            program: self.kind().program().name.into(),
            version: String::new(),
        };
        self.kind().shown(&installed, place)
    }
}

/// Beyond the time that a tool was given: starting, flushing and tidying up. Where others write to the same disk a flush of a few MiB
/// took more than a minute.
const MARGIN: Duration = Duration::from_secs(240);

/// The timeout of a start of `tool` on a processor of this name: an emulated one takes ten
/// times as long and more.
fn limit_on(processor: &str, tool: &Tool) -> Duration {
    const SLOWER: u32 = 10;
    match is_emulated(processor) {
        true => tool.limit().saturating_mul(SLOWER),
        false => tool.limit(),
    }
}

/// Runs `tool` once and reads what it says.
///
/// # Errors
/// [`ToolError`]; every process that was started has ended.
pub fn run(
    tool: &Tool,
    installed: &Installed,
    place: &ToolDirs<'_>,
    tick: Tick<'_>,
) -> Result<Ran, ToolError> {
    let start = Start {
        installed,
        name: tool.kind().name(),
        version: tool.version(installed),
        place,
        limit: limit_on(&crate::host::machine().processor, tool),
        tick,
    };
    tool.kind().run(start)
}

#[cfg(test)]
mod tests;
