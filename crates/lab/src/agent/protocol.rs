//! What the lab and an agent say to each other: HTTP/1.1, JSON in it, the agent's token in each request.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/about` | [`About`] |
//! | `GET /v1/clock` | [`Clock`] |
//! | `GET /v1/counters?port=N` | [`Counters`] |
//! | `GET /v1/samples?port=N` | a [`SampleLine`] a second, each a line of JSON, until one side hangs up |
//! | `POST /v1/drop-caches?port=N` | [`DroppedThere`]; 403 unless the agent was started with that right |
//! | `POST /v1/fio?in=DIR&in=DIR` | [`FioReady`], then an empty line a second; fio ends with the connection |
//! | `POST /v1/iperf3` | [`Iperf3Ready`], then an empty line a second; iperf3 ends with the connection |
//!
//! `in` names a directory of the agent's machine, in which a folder for fio is made and removed again
//! ([`super::query`]). `port` names the process that listens on that TCP port of the agent's machine: the server that is
//! measured. Requests have no body. Anything but 200 comes with one line of text that says why.
//!
//! Invariants: times are the agent's own clock, which counts from its start; nothing here is a command or a
//! name of a file, and a directory is named only to an agent that may run fio, which could do all that.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use crate::checks::cache::DroppedThere;
use crate::doctor::ServedReading;
use crate::doctor::cpu::ProcessorReading;
use crate::host::{Machine, boot_id};
use crate::sensors::{CoreTimes, DiskCounters, ProcessCpu};
use crate::units::{Bytes, Nanos};

/// The version of this protocol, and the first part of each path.
pub const VERSION: u32 = 1;
/// The default port of an agent.
pub const PORT: u16 = 10811;
/// [`About`]
pub const ABOUT: &str = "/v1/about";
/// [`Clock`]
pub const CLOCK: &str = "/v1/clock";
/// [`Counters`]
pub const COUNTERS: &str = "/v1/counters";
/// [`SampleLine`]
pub const SAMPLES: &str = "/v1/samples";
/// [`DroppedThere`]
pub const DROP_CACHES: &str = "/v1/drop-caches";
/// [`FioReady`]
pub const FIO: &str = "/v1/fio";
/// [`Iperf3Ready`]
pub const IPERF3: &str = "/v1/iperf3";

/// The most bytes of one answer, and of one line of samples.
pub(crate) const ANSWER_LEN_MAX: usize = 1 << 20;
/// The most bytes of the head of a request or an answer.
pub const HEAD_LEN_MAX: usize = 16 << 10;

/// The machine of an agent and what it may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// [`VERSION`]
    pub protocol: u32,
    /// Its program's version.
    pub outboard: String,
    /// Drawn when it was started: another one means that its clock started again.
    pub session: String,
    /// The kernel's name of this boot; two agents of one machine have the same.
    pub boot: String,
    /// Its machine.
    pub machine: Machine,
    /// Whether it may drop caches.
    pub drops_caches: bool,
    /// Whether it may start fio.
    pub runs_fio: bool,
    /// Whether it may start iperf3.
    #[serde(default)]
    pub runs_iperf3: bool,
}

impl About {
    /// Whether the agent runs on this machine. One without a known boot runs elsewhere.
    #[must_use]
    pub fn is_here(&self) -> bool {
        !self.boot.is_empty() && self.boot == boot_id()
    }
}

/// What time it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// As the request was taken in.
    pub received: Nanos,
    /// As the answer was made.
    pub answered: Nanos,
}

/// What was spent until now, for the difference of two of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// When.
    pub at: Nanos,
    /// Ticks of each core.
    pub cores: Vec<(u32, CoreTimes)>,
    /// Length of a tick there.
    pub tick: Nanos,
    /// Of the process behind the port that was requested, and those below it.
    pub server: Option<ProcessCpu>,
    /// Of the agent itself.
    pub agent: Option<ProcessCpu>,
    /// The threads and quotas of the process behind the port; an agent that is older does not report them.
    #[serde(default)]
    pub processor: Option<ProcessorReading>,
    /// The disks of its machine that did anything.
    #[serde(default)]
    pub disks: Vec<DiskCounters>,
    /// What the server behind the port reports of itself, where it is outboard's.
    #[serde(default)]
    pub served: Option<ServedReading>,
}

/// The samples of one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleLine {
    /// When.
    pub at: Nanos,
    /// Sensor, item, value: see [`crate::sensors`].
    pub samples: Vec<(String, String, f64)>,
}

/// A fio that waits for a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FioReady {
    /// Its version.
    pub version: String,
    /// The port that it listens on, at the agent's address.
    pub port: u16,
    /// Folders in the directories that were requested, in their order.
    #[serde(default)]
    pub folders: Vec<FioFolder>,
}

/// A folder of the agent's machine that fio works in, and what it is on. Removed when fio ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FioFolder {
    /// Where it is there.
    pub path: PathBuf,
    /// `ext4`.
    pub filesystem: String,
    /// What is mounted there.
    pub source: String,
    /// How.
    pub options: String,
    /// The number of its device: folders of one filesystem have the same.
    pub device: u64,
    /// What may be written before it is full.
    pub free: Bytes,
}

/// An iperf3 that waits for tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iperf3Ready {
    /// Its version.
    pub version: String,
    /// The port that it listens on, at the agent's address.
    pub port: u16,
}

/// The path with the port of the server.
#[must_use]
pub(crate) fn with_port(path: &str, port: Option<u16>) -> String {
    match port {
        Some(port) => format!("{path}?port={port}"),
        None => path.to_owned(),
    }
}
