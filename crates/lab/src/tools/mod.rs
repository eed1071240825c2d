//! Workloads that are not fio: dbench, bonnie++, tar of a source tree, a compilation, stress-ng and iperf3;
//! and scenarios: [`clients`], [`pull`], [`resync`], in which something happens to a disk of our own, and
//! [`together`], in which all drives of a run work at once.
//!
//! Each tool has a file with the same three parts: `Options` (plain data, read from a plan), a
//! command (pure) and a parser of what the tool prints (pure). [`run`] alone starts anything; what it would
//! start is in [`Tool::shown`].
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
pub mod dbench;
pub mod installed;
pub mod iperf3;
mod layout;
pub mod process;
pub mod pull;
pub mod result;
pub mod resync;
mod rig;
mod shown;
pub mod stress_ng;
pub mod tar;
pub mod together;
pub mod tree;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::checks::Finding;
use crate::checks::emulation::is_emulated;
use crate::units::Nanos;

use process::Printed;

pub use installed::{Installed, Program, find};
pub use process::{Invocation, ToolError};
pub use result::{Better, ToolFigure, ToolResult, Unit};
pub use shown::Writes;

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
    /// A scenario: a half of a mirror is resynced.
    #[serde(rename = "resync")]
    Resync(resync::ResyncOptions),
    /// A scenario: all drives of the run at once.
    #[serde(rename = "together")]
    Together(together::TogetherOptions),
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
struct Start<'a> {
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

    /// What `tool` measured: no bytes are counted, and no subject is named.
    fn result(&self, tool: &str, figures: Vec<ToolFigure>, elapsed: Nanos) -> ToolResult {
        ToolResult {
            tool: tool.to_owned(),
            version: self.version.to_owned(),
            figures,
            elapsed,
            bytes: None,
            subject: None,
        }
    }
}

impl Tool {
    /// What has to be installed for it.
    #[must_use]
    pub const fn program(&self) -> Program {
        match self {
            Self::Dbench(_) => dbench::PROGRAM,
            Self::Bonnie(_) => bonnie::PROGRAM,
            Self::Tar(_) => tar::PROGRAM,
            Self::Compile(_) => compile::PROGRAM,
            Self::StressNg(_) => stress_ng::PROGRAM,
            Self::Iperf3(_) => iperf3::PROGRAM,
            Self::Clients(_) => clients::PROGRAM,
            Self::Pull(_) => pull::PROGRAM,
            Self::Resync(_) => resync::PROGRAM,
            Self::Together(_) => together::PROGRAM,
        }
    }

    /// What it is called in a plan and in its results.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Compile(_) => "compile",
            Self::Together(_) => "together",
            Self::Clients(_) => "clients",
            Self::Pull(_) => "pull",
            Self::Resync(_) => "resync",
            _ => self.program().name,
        }
    }

    /// Checks the options.
    ///
    /// # Errors
    /// One line on the first value that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Dbench(options) => options.check(),
            Self::Bonnie(options) => options.check(),
            Self::Tar(options) => options.check(),
            Self::Compile(options) => options.check(),
            Self::StressNg(options) => options.check(),
            Self::Iperf3(options) => options.check(),
            Self::Clients(options) => options.check(),
            Self::Pull(options) => options.check(),
            Self::Resync(options) => options.check(),
            Self::Together(options) => options.check(),
        }
    }

    /// Whether the target's directory is used at all.
    #[must_use]
    pub(crate) const fn uses_storage(&self) -> bool {
        !matches!(self, Self::StressNg(_) | Self::Iperf3(_))
    }

    /// How many of its processes work at the same time; none where that is one for each core, or not known.
    #[must_use]
    pub const fn at_once(&self) -> Option<u32> {
        match self {
            Self::Bonnie(_) | Self::Tar(_) => Some(1),
            Self::Dbench(options) => Some(options.clients),
            Self::Compile(options) if options.jobs > 0 => Some(options.jobs),
            Self::StressNg(options) if options.workers > 0 => Some(options.workers),
            _ => None,
        }
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

    /// How long one start usually takes, for estimates.
    #[must_use]
    pub const fn usual(&self) -> Nanos {
        match self {
            Self::Dbench(options) => Nanos::from_ms(options.runtime_ms),
            Self::Bonnie(options) => options.usual(),
            Self::Tar(options) => options.usual(),
            Self::Compile(options) => options.usual(),
            Self::StressNg(options) => Nanos::from_ms(options.runtime_ms),
            Self::Iperf3(options) => Nanos::from_ms(options.runtime_ms),
            Self::Clients(options) => options.usual(),
            Self::Pull(options) => options.usual(),
            Self::Resync(options) => options.usual(),
            Self::Together(options) => Nanos::from_ms(options.runtime_ms),
        }
    }

    /// The timeout of a start.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        const SLOWER_MAX: u32 = 20;
        let usual = Duration::from_nanos(self.usual().0);
        match self {
            // These end by themselves when their time is over, but for what is flushed.
            Self::Dbench(_) | Self::StressNg(_) | Self::Iperf3(_) | Self::Together(_) => {
                usual.saturating_add(MARGIN)
            }
            // These have an amount of work, and a slow target takes its time for it.
            _ => usual.saturating_mul(SLOWER_MAX).saturating_add(MARGIN),
        }
    }
}

/// Beyond the time that a tool was given: starting, flushing and tidying up.
const MARGIN: Duration = Duration::from_secs(60);

/// The timeout of a start of `tool` on a processor of this name: an emulated one takes ten
/// times as long and more.
fn limit_on(processor: &str, tool: &Tool) -> Duration {
    const SLOWER: u32 = 10;
    match is_emulated(processor) {
        true => tool.limit().saturating_mul(SLOWER),
        false => tool.limit(),
    }
}

/// Puts onto the target what `tool` works on, if it is not there yet. Returns the command that does
/// the same.
///
/// # Errors
/// [`ToolError`].
pub fn prepare(
    tool: &Tool,
    place: &ToolDirs<'_>,
    tick: Tick<'_>,
) -> Result<Option<String>, ToolError> {
    match tool {
        Tool::Tar(options) => tar::prepare(options, place, tick).map(Some),
        Tool::Compile(options) => compile::prepare(options, place, tick).map(Some),
        Tool::Together(options) => together::prepare(options, place, tick).map(Some),
        _ => Ok(None),
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
        version: tool.version(installed),
        place,
        limit: limit_on(&crate::host::machine().processor, tool),
        tick,
    };
    match tool {
        Tool::Dbench(options) => dbench::run(options, start),
        Tool::Bonnie(options) => bonnie::run(options, start),
        Tool::Tar(options) => tar::run(options, start),
        Tool::Compile(options) => compile::run(options, start),
        Tool::StressNg(options) => stress_ng::run(options, start),
        Tool::Iperf3(options) => iperf3::run(options, start),
        Tool::Clients(options) => clients::run(options, start),
        Tool::Pull(options) => pull::run(options, start),
        Tool::Resync(options) => resync::run(options, start),
        Tool::Together(options) => together::run(options, start),
    }
}

#[cfg(test)]
mod tests;
