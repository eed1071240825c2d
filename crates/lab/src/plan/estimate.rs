//! What a plan will cost before it runs: bytes written and time.

use super::{Direction, Plan, Target, Workload};
use crate::tools::{Tool, Writes};
use crate::units::{Bytes, Nanos};

/// Starting fio, syncing and dropping caches around one measurement: 0.4 s were seen on two cores.
const CELL_OVERHEAD: Nanos = Nanos::from_ms(500);
/// Finding fio's engine and measuring ceilings.
const SETUP: Nanos = Nanos::from_ms(3000);

/// Upper bounds for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes written to all targets together, at most; tools without a bound write besides.
    pub written_max: Bytes,
    /// The largest space taken on one target, the same not counted.
    pub space: Bytes,
    /// When it usually has ended.
    pub time_typical: Nanos,
    /// When it stops at the latest (a flush already begun may end a little later).
    pub time_max: Nanos,
}

/// The cost of `plan` on `targets` targets; a test that is for some of the plan's own counts on those
/// alone, and one that is only read is not written. What a tool writes is in it where that has a bound: see
/// [`ToolKind::writes`](crate::tools::ToolKind::writes).
#[must_use]
pub(crate) fn estimate(plan: &Plan, targets: u32) -> Estimate {
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
    let size = plan.data.size;
    let of_block = plan.workloads.iter().filter_map(|workload| {
        let job = workload
            .fio()
            .filter(|job| job.direction == Direction::Write)?;
        Some(job.moved_max(size).0.saturating_mul(on(workload, true)))
    });
    let of_block = of_block.fold(0, u64::saturating_add);
    let by_fio = plan
        .workloads
        .iter()
        .any(|workload| workload.fio().is_some());
    let laid_out = size.0.saturating_mul(if by_fio { laid_out } else { 0 });
    let in_all = of_block.saturating_mul(u64::from(plan.budget.blocks_max));
    // The first block is always made.
    let bound = plan.budget.written_max.map_or(u64::MAX, |most| {
        most.0.saturating_sub(laid_out).max(of_block)
    });
    let blocks = u64::from(plan.budget.blocks_max);
    let tools = plan.workloads.iter().filter_map(|workload| {
        let tool = workload.tool()?;
        let each = written(tool).0.saturating_mul(blocks);
        let on_one = tool.kind().laid_out().0.saturating_add(each);
        Some(on_one.saturating_mul(on(workload, true)))
    });
    let tools = tools.fold(0, u64::saturating_add);
    let taken = plan.workloads.iter().filter_map(Workload::tool);
    let taken = taken.map(|tool| tool.kind().laid_out().0.saturating_add(written(tool).0));
    let file = if by_fio { plan.data.size.0 } else { 0 };
    let block: u64 = plan
        .workloads
        .iter()
        .map(|workload| (workload.usual().0 + CELL_OVERHEAD.0) * on(workload, false))
        .sum();
    let typical = SETUP.0 + block * u64::from(plan.budget.blocks_min);
    let time_max = Nanos::from_ms(plan.budget.limit_ms);
    let usual = typical.max(Nanos::from_ms(plan.budget.time_ms).0);
    Estimate {
        written_max: Bytes(
            laid_out
                .saturating_add(in_all.min(bound))
                .saturating_add(tools),
        ),
        space: Bytes(file.saturating_add(taken.max().unwrap_or(0))),
        time_typical: Nanos(usual.min(time_max.0)),
        time_max,
    }
}

/// What one start writes, where that has a bound.
fn written(tool: &Tool) -> Bytes {
    match tool.kind().writes() {
        Writes::AtMost(bytes) => bytes,
        Writes::Nothing | Writes::AsMuchAsItCan => Bytes(0),
    }
}
