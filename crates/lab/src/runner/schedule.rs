//! Which measurement comes next and when to stop. Pure.

use std::collections::BTreeMap;

use crate::checks::order;
use crate::plan::Budget;
use crate::stats::{Interval, Rng, compare, compare_family, repeat_interval};
use crate::store::{Cell, Status};
use crate::units::{Bytes, Nanos};

/// A pair that failed so often and never did anything else is not waited for.
const TRIES: u32 = 3;

/// A measurement to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CellSlot {
    pub(crate) block: u32,
    pub(crate) position: u32,
    pub(crate) workload: usize,
    pub(crate) target: usize,
}

/// Every pair of a workload and a target once, in an order that `seed` and `block` give: what drifts
/// during a run then hits each of them equally.
pub(crate) fn block_order(pairs: &[(usize, usize)], seed: u64, block: u32) -> Vec<CellSlot> {
    let mut variants = pairs.to_vec();
    // Blocks far apart in the generator's sequence, or block 2 would repeat block 1 shifted by one.
    Rng::new(Rng::new(seed ^ (u64::from(block) << 32)).next()).shuffle(&mut variants);
    variants
        .into_iter()
        .zip(0u32..)
        .map(|((workload, target), position)| CellSlot {
            block,
            position,
            workload,
            target,
        })
        .collect()
}

/// The usable figures so far.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pairs: Vec<(usize, usize)>,
    baseline: Option<usize>,
    /// By pair and block: more is better.
    found: BTreeMap<(usize, usize), BTreeMap<u32, f64>>,
    /// How often a pair gave no figure at all.
    failed: BTreeMap<(usize, usize), u32>,
}

impl Figures {
    pub(super) fn new(pairs: &[(usize, usize)], baseline: Option<usize>) -> Self {
        Self {
            pairs: pairs.to_vec(),
            baseline,
            found: BTreeMap::new(),
            failed: BTreeMap::new(),
        }
    }

    /// Counts a measurement, if it may be believed.
    pub(super) fn keep(&mut self, cell: &Cell) {
        let pair = (cell.workload, cell.target);
        if cell.has_failed() {
            *self.failed.entry(pair).or_default() += 1;
        }
        let Some(headline) = cell.headline().filter(|_| cell.is_usable()) else {
            return;
        };
        let goodness = headline.better.goodness(headline.value);
        self.found
            .entry(pair)
            .or_default()
            .insert(cell.block, goodness);
    }

    /// Whether every interval is narrow enough: that of the ratio where a target is compared with the
    /// baseline, as wide as all ratios together make it, that of the figure itself where it is not.
    pub(super) fn are_precise(&self, precision: f64) -> bool {
        let pairs = self.pairs.iter().copied();
        let waited_for = pairs.filter(|pair| !self.is_hopeless(*pair));
        let values = waited_for.filter_map(|pair| Some((self.against(pair), self.values(pair)?)));
        let (compared, alone): (Vec<_>, Vec<_>) =
            values.partition(|(against, _)| against.is_some());
        let ratios: Vec<Vec<f64>> = compared.into_iter().map(|(_, ratios)| ratios).collect();
        let ratios = compare_family(&ratios).into_iter();
        let ratios = ratios.map(|found| found.map(|found| found.ratio));
        let figures = alone.iter().map(|(_, values)| repeat_interval(values));
        let is_narrow =
            |found: Interval| found.is_known() && found.relative_half_width() <= precision;
        ratios
            .chain(figures)
            .all(|found| found.is_some_and(is_narrow))
    }

    /// The pairs of a test with a layer and with the one below it where the layer is surely the faster one.
    /// `layers` are targets, the upper one first.
    pub(super) fn reversed(&self, layers: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for &(workload, target) in &self.pairs {
            let below = layers.iter().filter(|(upper, _)| *upper == target);
            for &(_, lower) in below {
                let ratios = self.ratios((workload, target), (workload, lower));
                if compare(&ratios).is_some_and(|ratio| order::is_reversed(&ratio)) {
                    found.extend([(workload, target), (workload, lower)]);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// One pair over another, in each block that has both.
    fn ratios(&self, pair: (usize, usize), base: (usize, usize)) -> Vec<f64> {
        let (Some(over), Some(base)) = (self.found.get(&pair), self.found.get(&base)) else {
            return Vec::new();
        };
        let ratios = over
            .iter()
            .map(|(block, value)| Some(value / base.get(block)?));
        ratios.flatten().collect()
    }

    /// Whether it gave nothing in all of several tries: no number of blocks makes it precise.
    fn is_hopeless(&self, pair: (usize, usize)) -> bool {
        let failed = self.failed.get(&pair).copied().unwrap_or(0);
        failed >= TRIES && !self.found.contains_key(&pair)
    }

    /// The pair of the baseline in the same test, unless it is this one.
    fn against(&self, (workload, target): (usize, usize)) -> Option<(usize, usize)> {
        let pair = (workload, self.baseline?);
        let is_there = self.pairs.contains(&pair) && !self.is_hopeless(pair);
        (target != pair.1 && is_there).then_some(pair)
    }

    /// What has to be precise; none for a baseline that others are compared with.
    fn values(&self, pair: (usize, usize)) -> Option<Vec<f64>> {
        if let Some(against) = self.against(pair) {
            return Some(self.ratios(pair, against));
        }
        let held = self
            .pairs
            .iter()
            .any(|other| self.against(*other) == Some(pair));
        let alone = || self.found.get(&pair).into_iter().flat_map(BTreeMap::values);
        (!held).then(|| alone().copied().collect())
    }
}

/// The progress of a run between two blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunState {
    /// Whole blocks made.
    pub(super) blocks: u32,
    /// Since the run began, its preparation included.
    pub(super) elapsed: Nanos,
    /// The longest block so far.
    pub(super) longest: Nanos,
    /// Written by fio, test files included.
    pub(super) written: Bytes,
    /// The most that one block has written.
    pub(super) most: Bytes,
    /// Whether every interval is narrow enough.
    pub(super) precise: bool,
}

/// Whether another block is made; if not, how the run ended.
pub(super) fn next(budget: &Budget, at: RunState) -> Option<Status> {
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
    let written = at.written.0.saturating_add(at.most.0);
    if at.blocks > 0 && budget.written_max.is_some_and(|most| written > most.0) {
        return Some(Status::OutOfBytes);
    }
    None
}

/// Whether so much more ends before the run has to.
pub(super) fn fits(budget: &Budget, elapsed: Nanos, more: Nanos) -> bool {
    elapsed.0.saturating_add(more.0) <= Nanos::from_ms(budget.limit_ms).0
}

/// How many blocks there will be: an estimate.
pub(super) fn blocks_expected(budget: &Budget, at: RunState) -> u32 {
    if at.blocks == 0 {
        return budget.blocks_min;
    }
    let left = limit(budget, at.blocks).0.saturating_sub(at.elapsed.0);
    let fit = left / at.longest.0.max(1);
    let bytes = budget.written_max.filter(|_| at.most.0 > 0);
    let fit = bytes.map_or(fit, |most| {
        fit.min(most.0.saturating_sub(at.written.0) / at.most.0)
    });
    at.blocks
        .saturating_add(u32::try_from(fit).unwrap_or(u32::MAX))
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
