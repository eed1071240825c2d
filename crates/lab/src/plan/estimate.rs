//! What a plan will cost before it runs: bytes written and time.

use super::{Direction, Plan};
use crate::units::{Bytes, Nanos};

/// Starting fio, syncing and dropping caches around one measurement: 0.4 s were seen on two cores.
const CELL_OVERHEAD: Nanos = Nanos::from_ms(500);
/// Finding fio's engine and measuring ceilings.
const SETUP: Nanos = Nanos::from_ms(3000);

/// Upper bounds for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes written to all targets together, at most.
    pub written_max: Bytes,
    /// The largest space taken on one target.
    pub space: Bytes,
    /// When it usually has ended.
    pub time_typical: Nanos,
    /// When it stops at the latest (a flush already begun may end a little later).
    pub time_max: Nanos,
}

/// The cost of `plan` on `targets` directories.
#[must_use]
pub fn estimate(plan: &Plan, targets: u32) -> Estimate {
    let targets = u64::from(targets);
    let writes = plan
        .workloads
        .iter()
        .filter(|workload| workload.direction() == Some(Direction::Write))
        .count() as u64;
    let passes = 1 + writes * u64::from(plan.budget.blocks_max);
    let block: u64 = plan
        .workloads
        .iter()
        .map(|workload| (workload.usual().0 + CELL_OVERHEAD.0) * targets)
        .sum();
    let typical = SETUP.0 + block * u64::from(plan.budget.blocks_min);
    let time_max = Nanos::from_ms(plan.budget.limit_ms);
    let usual = typical.max(Nanos::from_ms(plan.budget.time_ms).0);
    Estimate {
        written_max: Bytes(plan.data.size.0 * targets * passes),
        space: plan.data.size,
        time_typical: Nanos(usual.min(time_max.0)),
        time_max,
    }
}
