//! Sensors: CPU per core, CPU of the server and the client, and the devices, once a second.
//!
//! Invariants: parsing is pure ([`stat`], [`process`], [`disks`]); reading is in [`read`]. Counters
//! are kept as the kernel gives them and turned into differences here, so a counter that went back
//! gives zero, not a huge figure. A sensor that is not there gives no samples rather than zeroes.

pub mod disks;
pub mod process;
pub mod read;
mod sampler;
pub mod stat;

pub use disks::DiskCounters;
pub use process::ProcessCpu;
pub use sampler::{SAMPLES_MAX, Sampler};
pub use stat::CoreTimes;

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// One value at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Since the run began.
    pub at: Nanos,
    /// `cpu`, `process` or `disk`.
    pub sensor: String,
    /// Which one and what of it: `0/user`, `server`, `vda/read`.
    pub item: String,
    /// Parts of one core for `cpu` and `process`, bytes per second for `disk`.
    pub value: f64,
}

#[cfg(test)]
mod tests;
