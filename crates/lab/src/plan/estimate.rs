//! What a plan will cost before it runs: bytes written and time.

use super::{Direction, Plan, Target, Workload};
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

/// The cost of `plan` on `targets` targets; a test that is for some of the plan's own counts on those
/// alone, and one that is only read is not written. What other tools write is not in it: they write as
/// much as they can in their time.
#[must_use]
pub fn estimate(plan: &Plan, targets: u32) -> Estimate {
    let on = |workload: &Workload, writes: bool| match plan.targets.is_empty() {
        true => u64::from(targets),
        false => {
            let is_for = |target: &&Target| workload.is_for(&target.name);
            let own = plan.targets.iter().filter(is_for);
            own.filter(|target| !writes || !target.is_read_only())
                .count() as u64
        }
    };
    let laid_out = match plan.targets.is_empty() {
        true => u64::from(targets),
        false => plan
            .targets
            .iter()
            .filter(|target| !target.is_read_only())
            .count() as u64,
    };
    let writes: u64 = plan
        .workloads
        .iter()
        .filter(|workload| workload.direction() == Some(Direction::Write))
        .map(|workload| on(workload, true))
        .sum();
    let passes = laid_out + writes * u64::from(plan.budget.blocks_max);
    let block: u64 = plan
        .workloads
        .iter()
        .map(|workload| (workload.usual().0 + CELL_OVERHEAD.0) * on(workload, false))
        .sum();
    let typical = SETUP.0 + block * u64::from(plan.budget.blocks_min);
    let time_max = Nanos::from_ms(plan.budget.limit_ms);
    let usual = typical.max(Nanos::from_ms(plan.budget.time_ms).0);
    Estimate {
        written_max: Bytes(plan.data.size.0.saturating_mul(passes)),
        space: plan.data.size,
        time_typical: Nanos(usual.min(time_max.0)),
        time_max,
    }
}
