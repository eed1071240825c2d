//! Sensors: what a machine does while something is measured on it, once a second.
//!
//! | sensor | item | value |
//! |---|---|---|
//! | `cpu` | `0/user`, `system`, `irq`, `softirq`, `steal` | part of that core |
//! | `process` | `server`, `client` | cores, its children among them |
//! | `disk` | `vda/read`, `write` | bytes per second |
//! | | `vda/reads`, `writes` | requests per second |
//! | | `vda/busy`, `queue` | part of the time; requests waiting on average |
//! | `net` | `eth0/rx-bytes`, `rx-packets`, `rx-errors`, `rx-drops`, and `tx-` | per second |
//! | `interrupts` | `core/0`, `source/eth0` | per second; the busiest sources |
//! | `pressure` | `cpu/some`, `io/some`, `io/full`, `memory/some`, `memory/full` | part of the time |
//! | `temperature` | `cpu-thermal`, `k10temp/Tctl` | degrees Celsius |
//! | `clock` | `0` | hertz of that core |
//! | `throttle` | `throttled`, `under-voltage`, … and `-since-boot` | 1 or 0 |
//! | | `core/0` | times per second that it slowed down |
//! | `load` | `minute`, `running` | processes |
//! | `memory` | `available`, `cached`, `dirty`, `writeback` | bytes |
//! | `offset` | `ahead`, `uncertainty` | nanoseconds, of an agent's clock |
//!
//! Invariants: parsing is pure (a file for each source); reading is in [`read`] and `sysfs`. Counters
//! are kept as the kernel gives them and turned into differences here, so a counter that went back
//! gives zero, not a huge figure. A sensor that is not there gives no samples rather than zeroes.

pub mod cgroup;
mod counter;
pub mod disks;
pub mod interrupts;
pub mod load;
pub mod net;
pub mod others;
mod permissions;
pub mod pressure;
pub mod process;
pub mod read;
mod sampler;
pub mod stat;
mod sysfs;
pub mod thermal;

pub use cgroup::{PressureCounter, QuotaCounters};
pub use counter::{Counter, Gauge};
pub use disks::DiskCounters;
pub use interrupts::Interrupts;
pub use net::{LinkCounters, NetCounters};
pub use permissions::refused;
pub use process::ProcessCpu;
pub use sampler::{Disks, INTERVAL, SAMPLES_MAX, Sampler};
pub use stat::CoreTimes;

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// One value at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Of which machine: 0 for this one, else the place of its agent in the manifest, counted from 1.
    #[serde(default)]
    pub machine: u32,
    /// Since the run began.
    pub at: Nanos,
    /// A name of the table above.
    pub sensor: String,
    /// Which one and what of it.
    pub item: String,
    /// In the unit of the table.
    pub value: f64,
}

impl Sample {
    /// A value of this machine.
    pub(crate) fn new(
        at: Nanos,
        sensor: impl Into<String>,
        item: impl Into<String>,
        value: f64,
    ) -> Self {
        Self {
            machine: 0,
            at,
            sensor: sensor.into(),
            item: item.into(),
            value,
        }
    }
}

#[cfg(test)]
mod tests;
