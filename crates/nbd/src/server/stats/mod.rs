//! Figures of a running server: the requests of each client, their results and their
//! latency.
//!
//! ```text
//! Meter (plain integers of one connection) ─ end of a step ─► Counters (shared) ─► Figures (plain data)
//! ```
//!
//! # Invariants
//!
//! * A request answered on the fast path costs the data path two additions: no clock, no atomic operation,
//!   no allocation. What it took is the step's time, which the step's replies share.
//! * Shared counters have one writer, the connection's [`Meter`]; readers may be a step late.
//! * A histogram is allocated when its command first ends, so an idle connection has none.
//! * Latencies are those of the server: from the step that took the request in to the one that
//!   answered it. The way over the network is not in them.

mod counters;
mod figures;
mod histogram;
mod meter;
#[cfg(test)]
mod tests;

pub use figures::{
    ClientFigures, CommandFigures, ExportFigures, Figures, ServerFigures, StandbyFigures,
    WriterFigures, WritersFigures,
};
pub use histogram::{BUCKETS, bucket_limit};

pub(super) use counters::Counters;
pub(super) use meter::{Meter, StartedRequest};

use nbd_proto::Command;
use serde::{Deserialize, Serialize};

/// What requests are counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Trim.
    Trim,
    /// Fetch into the cache.
    Cache,
    /// Write zeroes.
    WriteZeroes,
    /// Report the status of bytes.
    BlockStatus,
    /// Anything else, which is refused.
    Other,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Trim,
        Self::Cache,
        Self::WriteZeroes,
        Self::BlockStatus,
        Self::Other,
    ];

    /// Its name for people and for Prometheus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::Cache => "cache",
            Self::WriteZeroes => "write_zeroes",
            Self::BlockStatus => "block_status",
            Self::Other => "other",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

impl From<Command> for Op {
    fn from(command: Command) -> Self {
        match command {
            Command::Read => Self::Read,
            Command::Write => Self::Write,
            Command::Flush => Self::Flush,
            Command::Trim => Self::Trim,
            Command::Cache => Self::Cache,
            Command::WriteZeroes => Self::WriteZeroes,
            Command::BlockStatus => Self::BlockStatus,
            Command::Disconnect | Command::Unknown(_) => Self::Other,
        }
    }
}
