//! What is stored, as plain data. A report is a pure function of a [`RunRecord`].

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::checks::Finding;
use crate::checks::cache::{Dropped, DroppedThere};
use crate::checks::direct::{Residency, Traffic};
use crate::checks::noise::{Carried, Others};
use crate::fio::Engine;
use crate::host::{Machine, TargetFacts};
use crate::plan::Plan;
use crate::sensors::{CoreTimes, Sample};
use crate::units::{Bytes, Nanos};

/// The number of a run in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub i64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for RunId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Status {
    /// It has not: it is running, or its process died.
    Running,
    /// Every interval is narrow enough.
    Precise,
    /// The plan's last block was made.
    AllBlocks,
    /// The time was used up.
    OutOfTime,
    /// The bytes that it may write were used up.
    OutOfBytes,
    /// The user stopped it.
    Cancelled,
    /// A measurement failed.
    Failed {
        /// What, on what.
        reason: String,
    },
    /// It was not made here: it was read from files of fio.
    Imported,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("not ended"),
            Self::Precise => f.write_str("ended when every interval was narrow enough"),
            Self::AllBlocks => f.write_str("ended after the last block"),
            Self::OutOfTime => f.write_str("ended when its time was used up"),
            Self::OutOfBytes => {
                f.write_str("ended when it had written what it may (--written-max)")
            }
            Self::Cancelled => f.write_str("stopped by the user"),
            Self::Failed { reason } => write!(f, "failed: {reason}"),
            Self::Imported => f.write_str("imported"),
        }
    }
}

/// On what and how a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// This machine.
    pub machine: Machine,
    /// The other machines that were watched.
    pub agents: Vec<AgentRecord>,
    /// This program's version.
    pub outboard: String,
    /// fio's version, if fio was used.
    pub fio: Option<String>,
    /// How fio submitted.
    pub engine: Option<Engine>,
    /// Past the page cache, identical on every target.
    pub direct: bool,
    /// The test file's size, identical on every target.
    pub size: Bytes,
    /// The directory that the plan's own targets are built in.
    pub base: Option<PathBuf>,
    /// What was measured.
    pub targets: Vec<TargetFacts>,
    /// Which of them is the baseline.
    pub baseline: Option<usize>,
    /// Targets of the plan that could not be had here.
    pub left_out: Vec<LeftOutTarget>,
    /// Tests that were not made on a target.
    pub skipped: Vec<Skipped>,
}

/// Another machine that was watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// As given: `host:port`.
    pub address: String,
    /// What it is.
    pub machine: Machine,
    /// Its program's version.
    pub outboard: String,
    /// Its clock less ours, in nanoseconds.
    pub clock_offset_ns: i64,
    /// How far that may be wrong.
    pub clock_error: Nanos,
}

/// A target of the plan that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutTarget {
    /// Its name in the plan.
    pub name: String,
    /// For people.
    pub title: String,
    /// Why: one sentence without a full stop.
    pub reason: String,
}

/// A test that was not made on a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Index of the plan's workload.
    pub workload: usize,
    /// Index of the manifest's target.
    pub target: usize,
    /// Why; none where the plan does not ask for it.
    pub reason: Option<String>,
}

impl Manifest {
    /// Whether a test is made on a target.
    #[must_use]
    pub fn measures(&self, workload: usize, target: usize) -> bool {
        !self
            .skipped
            .iter()
            .any(|skipped| (skipped.workload, skipped.target) == (workload, target))
    }
}

/// A run as it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// What is measured.
    pub plan: Plan,
    /// Orders the blocks and the random requests.
    pub seed: u64,
    /// Milliseconds since 1970.
    pub started_unix_ms: u64,
    /// On what.
    pub manifest: Manifest,
}

/// A command that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// `lay-out`, `probe` or the test's name.
    pub purpose: String,
    /// As it can be pasted into a shell.
    pub line: String,
}

/// One measurement: a test on a target in a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Counted from 0.
    pub block: u32,
    /// Its place in its block.
    pub position: u32,
    /// Index of the plan's workload.
    pub workload: usize,
    /// Index of the manifest's target.
    pub target: usize,
    /// Since the run began.
    pub started: Nanos,
    /// From the start of fio or the tool to its end.
    pub elapsed: Nanos,
    /// What it says.
    pub outcome: Outcome,
    /// What else was seen.
    pub evidence: Evidence,
    /// What the checks say.
    pub findings: Vec<Finding>,
}

/// What was seen around one measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// CPU time of the server's processes on this machine.
    pub server_cpu: Option<Nanos>,
    /// CPU time of the client's processes.
    pub client_cpu: Option<Nanos>,
    /// CPU time of this program.
    pub lab_cpu: Option<Nanos>,
    /// CPU time of the programs that this one started, with all that they started, as far as they have ended.
    #[serde(default)]
    pub tool_cpu: Option<Nanos>,
    /// What each core did.
    pub cores: Vec<(u32, CoreTimes)>,
    /// What the target's own device did.
    pub traffic: Option<Traffic>,
    /// What was dropped before a read.
    pub dropped: Option<Dropped>,
    /// What was still in memory then.
    pub resident_before: Option<Residency>,
    /// What was in memory afterwards.
    pub resident_after: Option<Residency>,
    /// What other programs did.
    pub others: Option<Others>,
    /// What the interface that leads to the server carried.
    pub carried: Option<Carried>,
    /// What the agent of the server's machine did about the caches there.
    #[serde(default)]
    pub dropped_there: Option<DroppedThere>,
    /// What the agents' machines did, as far as they were there.
    #[serde(default)]
    pub agents: Vec<AgentEvidence>,
}

impl Evidence {
    /// CPU time of the server's processes, here or on the agent's machine.
    #[must_use]
    pub(crate) fn server_time(&self) -> Option<Nanos> {
        let there = || self.agents.iter().find_map(|agent| agent.server_cpu);
        self.server_cpu.or_else(there)
    }
}

/// What an agent's machine did during one measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEvidence {
    /// Its number, as samples have it.
    pub machine: u32,
    /// Between the two looks at it.
    pub elapsed: Nanos,
    /// What each core did.
    pub cores: Vec<(u32, CoreTimes)>,
    /// CPU time of the server's processes there.
    pub server_cpu: Option<Nanos>,
    /// CPU time of the agent.
    pub agent_cpu: Option<Nanos>,
}

/// Everything about one run but the raw output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its number.
    pub id: RunId,
    /// What was measured.
    pub plan: Plan,
    /// Orders the blocks and the random requests.
    pub seed: u64,
    /// Milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How long it took; none when it did not end.
    pub elapsed: Option<Nanos>,
    /// How it ended.
    pub status: Status,
    /// On what.
    pub manifest: Manifest,
    /// Every command, each once.
    pub commands: Vec<CommandLine>,
    /// In the order in which they were made.
    pub cells: Vec<Cell>,
    /// In the order in which they were taken.
    pub samples: Vec<Sample>,
    /// About the run as a whole.
    pub findings: Vec<Finding>,
}

impl RunRecord {
    /// The measurements of a test on a target, in their order.
    pub fn cells_of(&self, workload: usize, target: usize) -> impl Iterator<Item = &Cell> {
        let place = (workload, target);
        self.cells
            .iter()
            .filter(move |cell| (cell.workload, cell.target) == place)
    }
}

/// A line of `lab list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunLine {
    /// Its number.
    pub id: RunId,
    /// The plan's name.
    pub plan: String,
    /// The targets' names.
    pub targets: Vec<String>,
    /// Milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How it ended.
    pub status: Status,
    /// Measurements kept.
    pub cells: u64,
}
