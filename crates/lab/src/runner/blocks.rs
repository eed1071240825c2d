//! The loop over blocks, with an executor that a test can replace.

use super::measure::Kept;
use super::progress::{CellProgress, Progress};
use super::schedule::{Rates, Slot, Standing, block_order, blocks_expected, next};
use crate::LabError;
use crate::plan::Plan;
use crate::store::{Cell, Status};
use crate::units::Nanos;

/// Makes single measurements and knows the time.
pub(super) trait Executor {
    /// Since the run began.
    fn elapsed(&mut self) -> Nanos;
    /// Measures.
    fn measure(&mut self, slot: Slot) -> Result<Measured, Stop>;
}

/// One measurement and what is kept of it besides.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) cell: Cell,
    pub(super) fio_json: String,
    pub(super) command: crate::store::CommandLine,
    pub(super) samples: Vec<crate::sensors::Sample>,
    pub(super) samples_full: bool,
}

/// Why there is no measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// The user asked.
    Cancelled,
    /// Something failed; what, on what.
    Failed(String),
}

/// How the loop ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) status: Status,
    /// Whole blocks made.
    pub(super) blocks: u32,
}

/// Makes blocks until the plan's budget says stop, someone asks to, or a measurement fails. Each
/// measurement is handed to `keep` before the next one begins.
pub(super) fn run_blocks(
    plan: &Plan,
    targets: usize,
    seed: u64,
    executor: &mut dyn Executor,
    progress: &mut dyn Progress,
    keep: &mut dyn FnMut(Kept<'_>) -> Result<(), LabError>,
) -> Result<Ended, LabError> {
    let mut rates = Rates::new(targets);
    let mut at = Standing {
        blocks: 0,
        elapsed: executor.elapsed(),
        longest: Nanos(0),
        precise: false,
    };
    loop {
        if let Some(status) = next(&plan.budget, at) {
            return Ok(Ended {
                status,
                blocks: at.blocks,
            });
        }
        let order = block_order(plan, targets, seed, at.blocks);
        for slot in &order {
            let shown = shown(plan, slot, order.len(), at);
            progress.cell_started(&shown);
            let measured = match executor.measure(*slot) {
                Ok(measured) => measured,
                Err(Stop::Cancelled) => {
                    return Ok(Ended {
                        status: Status::Cancelled,
                        blocks: at.blocks,
                    });
                }
                Err(Stop::Failed(reason)) => {
                    return Ok(Ended {
                        status: Status::Failed { reason },
                        blocks: at.blocks,
                    });
                }
            };
            let usable = measured.cell.is_usable().then(|| measured.cell.rate().0);
            rates.keep(slot, plan.workloads.len(), usable);
            progress.cell_finished(&shown, measured.cell.rate());
            keep(Kept::of(&measured))?;
        }
        let now = executor.elapsed();
        at = Standing {
            blocks: at.blocks + 1,
            longest: Nanos(at.longest.0.max(now.0.saturating_sub(at.elapsed.0))),
            elapsed: now,
            precise: rates.are_precise(plan.workloads.len(), plan.budget.precision, seed),
        };
    }
}

fn shown<'a>(plan: &'a Plan, slot: &Slot, per_block: usize, at: Standing) -> CellProgress<'a> {
    let blocks = blocks_expected(&plan.budget, at);
    let per_block = u32::try_from(per_block).unwrap_or(u32::MAX);
    let done = at
        .blocks
        .saturating_mul(per_block)
        .saturating_add(slot.position);
    let cells = blocks.saturating_mul(per_block);
    let one = match at.blocks {
        0 => plan.workloads[slot.workload].runtime().0,
        _ => at.longest.0 / u64::from(per_block.max(1)),
    };
    CellProgress {
        workload: &plan.workloads[slot.workload].title,
        target: slot.target,
        block: slot.block + 1,
        blocks,
        done,
        cells,
        left: Nanos(one.saturating_mul(u64::from(cells.saturating_sub(done)))),
    }
}
