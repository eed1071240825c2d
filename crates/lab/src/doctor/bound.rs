//! [`Bound`]: what a part carries at most, and how that is known. Pure.

use serde::{Deserialize, Serialize};

use super::Stage;
use crate::agent::protocol::Counters;
use crate::plan::Direction;
use crate::units::{BitRate, Bytes, Nanos, Rate};

/// Less of a core than this in use says nothing about where its end is.
const UTILISATION_MIN: f64 = 0.001;

/// A disk that moved less than this part of what the target moved is not the target's.
const DEVICE_PART_MIN: f64 = 0.5;

/// What a part carries at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The part.
    pub part: Stage,
    /// No more than this.
    pub rate: Rate,
    /// How that is known.
    pub evidence: Evidence,
}

/// How a bound is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Evidence {
    /// It was measured without the rest of the I/O path.
    Alone {
        /// What was measured.
        how: String,
    },
    /// Something that the part had to do with went at this rate: it carries that, and maybe far more.
    AtLeast {
        /// What was measured.
        how: String,
    },
    /// The processor time that it took while the target was measured.
    Busy(CpuUse),
    /// What is requested at once, over the time of one request when nothing else is in flight.
    InFlight {
        /// Bytes at once.
        in_flight: Bytes,
        /// The time of one request.
        latency: Nanos,
    },
    /// For which part of the time the server's busiest disk had something to do.
    DeviceBusy {
        /// The device, on the server's machine.
        device: String,
        /// Part of the time.
        busy: f64,
    },
    /// Computed of the speed of a link.
    Link {
        /// The interface.
        interface: String,
        /// As it says of itself.
        speed: BitRate,
    },
}

/// What the busiest thread of a part wanted of a core, and got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// The thread's process: `outboard (process 4711)`.
    pub who: String,
    /// Part of the time for which it ran.
    pub running: f64,
    /// Part of the time for which it could have run, and something else had the core.
    pub waiting: f64,
    /// How much of its running was encryption, where that is known.
    pub cipher: Option<f64>,
    /// The quota of its cgroup, if it has one.
    #[serde(default)]
    pub quota: Option<Quota>,
    /// How long anything waited for a core, by the kernel's account of pressure.
    #[serde(default)]
    pub pressure: Option<Pressure>,
}

/// Part of the time for which some task waited for a core. Source: the kernel's psi.rst.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// The file that says so: `/proc/pressure/cpu`, or that of the process's cgroup.
    pub file: String,
    /// Part of the time.
    pub part: f64,
}

/// How much of the processors a cgroup may use, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// The file that sets it: `/sys/fs/cgroup/nbd.slice/cpu.max`.
    pub file: String,
    /// Cores at most.
    pub cores: f64,
    /// In which part of the quota's periods it stopped the processes.
    pub throttled: f64,
}

impl CpuUse {
    /// Part of the time for which it had work, or was stopped by a quota, or part of that quota that it used: 1.0 is a thread
    /// that cannot do more.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let of_quota = self.quota.as_ref().map_or(0.0, |quota| self.part_of(quota));
        (self.running + self.waiting).max(of_quota)
    }

    /// The quota that is nearer to its end than the thread is to that of a core.
    pub(super) fn nearest_quota(&self) -> Option<&Quota> {
        let is_nearer = |quota: &&Quota| self.part_of(quota) > self.running + self.waiting;
        self.quota.as_ref().filter(is_nearer)
    }

    /// Part of a quota that it used, or for which the quota stopped it.
    fn part_of(&self, quota: &Quota) -> f64 {
        quota.throttled.max(self.used_of(quota))
    }

    /// Part of a quota that it used.
    pub(super) fn used_of(&self, quota: &Quota) -> f64 {
        (self.running / quota.cores.max(f64::MIN_POSITIVE)).min(1.0)
    }
}

impl Bound {
    /// What was measured by itself.
    #[must_use]
    pub fn alone(part: Stage, rate: Rate, how: impl Into<String>) -> Self {
        let how = how.into();
        Self {
            part,
            rate,
            evidence: Evidence::Alone { how },
        }
    }

    /// What it carried together with others that may have held it.
    #[must_use]
    pub fn at_least(part: Stage, rate: Rate, how: impl Into<String>) -> Self {
        let how = how.into();
        Self {
            part,
            rate,
            evidence: Evidence::AtLeast { how },
        }
    }

    /// Whether it says where the part's end is, and not only where it is not.
    #[must_use]
    pub(crate) const fn is_an_end(&self) -> bool {
        !matches!(self.evidence, Evidence::AtLeast { .. })
    }

    /// Whether it was found by the load of a processor.
    #[must_use]
    pub(crate) const fn is_of_processor(&self) -> bool {
        matches!(self.evidence, Evidence::Busy(_))
    }

    /// The law of utilisation: at `rate` the thread was busy so much, at 1.0 it can do no more. None if
    /// it was as good as idle.
    #[must_use]
    pub fn busy(part: Stage, rate: Rate, cpu: CpuUse) -> Option<Self> {
        let demand = cpu.utilisation().min(1.0);
        (demand >= UTILISATION_MIN).then(|| Self {
            part,
            rate: Rate(rate.0 / demand),
            evidence: Evidence::Busy(cpu),
        })
    }

    /// The law of utilisation for a device that was busy for a part of the time.
    #[must_use]
    pub fn device_busy(rate: Rate, device: String, busy: f64) -> Self {
        Self {
            part: Stage::Disk,
            rate: Rate(rate.0 / busy.clamp(UTILISATION_MIN, 1.0)),
            evidence: Evidence::DeviceBusy { device, busy },
        }
    }

    /// The busiest disk of the server's machine between two readings of its agent, of those that moved most of what the
    /// target moved at `rate`. None where none did: its memory answered, or what the agent does not see.
    #[must_use]
    pub fn of_disks(
        before: &Counters,
        after: &Counters,
        rate: Rate,
        direction: Direction,
    ) -> Option<Self> {
        let elapsed = Nanos(after.at.0.checked_sub(before.at.0)?).seconds();
        let least = rate.0 * elapsed * DEVICE_PART_MIN;
        let busy = after.disks.iter().filter_map(|later| {
            let earlier = before.disks.iter().find(|disk| disk.name == later.name)?;
            let moved = later.since(earlier, direction).bytes;
            let busy_ms = later.busy_ms.saturating_sub(earlier.busy_ms);
            let busy = Nanos::from_ms(busy_ms).seconds() / elapsed;
            (moved.0 as f64 >= least).then(|| (busy, later.name.clone()))
        });
        let (busy, device) = busy.max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Self::device_busy(rate, device, busy))
    }

    /// Little's law: so much at once, each for at least the time that one takes alone.
    #[must_use]
    pub fn in_flight(in_flight: Bytes, latency: Nanos) -> Option<Self> {
        Rate::of(in_flight, latency).map(|rate| Self {
            part: Stage::Queue,
            rate,
            evidence: Evidence::InFlight { in_flight, latency },
        })
    }

    /// What TCP carries over a link that says how fast it is.
    #[must_use]
    pub fn link(interface: String, speed: BitRate) -> Self {
        Self {
            part: Stage::Wire,
            rate: speed.tcp_goodput(),
            evidence: Evidence::Link { interface, speed },
        }
    }
}
