//! Which measurement comes next and when to stop. Pure.

use crate::plan::{Budget, Plan};
use crate::stats::{Rng, compare, interval};
use crate::store::Status;
use crate::units::Nanos;

/// A measurement to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    pub(super) block: u32,
    pub(super) position: u32,
    pub(super) workload: usize,
    pub(super) target: usize,
}

/// Every workload on every target once, in an order that `seed` and `block` give: what drifts during
/// a run then hits each of them alike.
pub(super) fn block_order(plan: &Plan, targets: usize, seed: u64, block: u32) -> Vec<Slot> {
    let mut variants: Vec<(usize, usize)> = (0..plan.workloads.len())
        .flat_map(|workload| (0..targets).map(move |target| (workload, target)))
        .collect();
    // Blocks far apart in the generator's sequence, or block 2 would repeat block 1 shifted by one.
    Rng::new(Rng::new(seed ^ (u64::from(block) << 32)).next()).shuffle(&mut variants);
    variants
        .into_iter()
        .zip(0u32..)
        .map(|((workload, target), position)| Slot {
            block,
            position,
            workload,
            target,
        })
        .collect()
}

/// The usable rates so far.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    targets: usize,
    /// For each block, each workload and each target.
    blocks: Vec<Vec<Option<f64>>>,
}

impl Rates {
    pub(super) const fn new(targets: usize) -> Self {
        Self {
            targets,
            blocks: Vec::new(),
        }
    }

    pub(super) fn keep(&mut self, slot: &Slot, workloads: usize, rate: Option<f64>) {
        let block = slot.block as usize;
        if self.blocks.len() <= block {
            self.blocks
                .resize(block + 1, vec![None; workloads * self.targets]);
        }
        self.blocks[block][slot.workload * self.targets + slot.target] = rate;
    }

    /// Whether every workload's interval is narrow enough: that of the ratio where two targets are
    /// compared, that of the rate itself where there is one.
    pub(super) fn are_precise(&self, workloads: usize, precision: f64, seed: u64) -> bool {
        (0..workloads).all(|workload| {
            let values: Vec<f64> = self
                .blocks
                .iter()
                .filter_map(|block| self.value(block, workload))
                .collect();
            let found = if self.targets == 2 {
                compare(&values, seed).map(|found| found.ratio)
            } else {
                interval(&values, seed)
            };
            found.is_some_and(|found| found.n >= 5 && found.relative_half_width() <= precision)
        })
    }

    fn value(&self, block: &[Option<f64>], workload: usize) -> Option<f64> {
        let first = block[workload * self.targets]?;
        if self.targets != 2 {
            return Some(first);
        }
        Some(first / block[workload * self.targets + 1]?)
    }
}

/// Where a run stands between two blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// Whole blocks made.
    pub(super) blocks: u32,
    /// Since the run began, its preparation included.
    pub(super) elapsed: Nanos,
    /// The longest block so far.
    pub(super) longest: Nanos,
    /// Whether every interval is narrow enough.
    pub(super) precise: bool,
}

/// Whether another block is made; if not, how the run ended.
pub(super) fn next(budget: &Budget, at: Standing) -> Option<Status> {
    if at.blocks >= budget.blocks_max {
        return Some(Status::AllBlocks);
    }
    if at.blocks >= budget.blocks_min && at.precise {
        return Some(Status::Precise);
    }
    let end = at.elapsed.0.saturating_add(at.longest.0);
    // The first block is always begun: without it there would be nothing to show.
    if at.blocks > 0 && end > limit(budget, at.blocks).0 {
        return Some(Status::OutOfTime);
    }
    None
}

/// How many blocks there will be, as far as can be told.
pub(super) fn blocks_expected(budget: &Budget, at: Standing) -> u32 {
    if at.blocks == 0 {
        return budget.blocks_min;
    }
    let left = limit(budget, at.blocks).0.saturating_sub(at.elapsed.0);
    let fit = u32::try_from(left / at.longest.0.max(1)).unwrap_or(u32::MAX);
    at.blocks
        .saturating_add(fit)
        .min(budget.blocks_max.max(at.blocks))
}

/// When the block after so many must have ended: the least number has more time than the rest.
const fn limit(budget: &Budget, blocks: u32) -> Nanos {
    Nanos::from_ms(if blocks < budget.blocks_min {
        budget.limit_ms
    } else {
        budget.time_ms
    })
}
