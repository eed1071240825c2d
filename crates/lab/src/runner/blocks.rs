//! The loop over blocks, with an executor that a test can replace.

use super::progress::{CellProgress, Progress};
use super::resume::standing;
use super::schedule::{CellSlot, Figures, RunState, block_order, blocks_expected, fits, next};
use crate::LabError;
use crate::plan::{Direction, Plan};
use crate::store::{Cell, Status};
use crate::units::{Bytes, Nanos};

/// Blocks in which a layer is measured again: as many as an interval takes.
const AGAIN: usize = 5;

/// Makes single measurements and knows the time.
pub(super) trait Executor {
    /// Since the run began.
    fn elapsed(&mut self) -> Nanos;
    /// Measures.
    fn measure(&mut self, slot: CellSlot) -> Result<CellResult, StopReason>;
}

/// One measurement and what is kept of it besides.
#[derive(Debug)]
pub(super) struct CellResult {
    pub(super) cell: Cell,
    /// As fio or the tool wrote it.
    pub(super) raw: String,
    pub(super) commands: Vec<crate::store::CommandLine>,
    pub(super) samples: Vec<crate::sensors::Sample>,
    pub(super) samples_full: bool,
}

/// Why there is no measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The user requested it.
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

/// What is to be measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockPlan<'a> {
    pub(super) plan: &'a Plan,
    /// What the targets are called.
    pub(super) labels: &'a [String],
    /// Each test on each target that it is made on.
    pub(super) pairs: &'a [(usize, usize)],
    /// What the others are compared with.
    pub(super) baseline: Option<usize>,
    /// Targets that stand on others, the upper one first.
    pub(super) layers: &'a [(usize, usize)],
    pub(super) seed: u64,
    /// What writing the test files took.
    pub(super) laid_out: Bytes,
    /// What was measured before, when the run goes on.
    pub(super) made: &'a [Cell],
}

impl BlockPlan<'_> {
    /// Whether a measurement was made before.
    fn has(&self, slot: &CellSlot) -> bool {
        let place = (slot.block, slot.workload, slot.target);
        self.made
            .iter()
            .any(|cell| (cell.block, cell.workload, cell.target) == place)
    }
}

/// Makes blocks until the plan's budget says stop, the user requests it, or a target fails. Each measurement is
/// handed to `keep` before the next one begins. Layers that are then faster than what they stand on are
/// measured again, as far as there is time.
pub(super) fn run_blocks(
    course: &BlockPlan<'_>,
    executor: &mut dyn Executor,
    progress: &mut dyn Progress,
    keep: &mut Keep<'_>,
) -> Ended {
    let mut figures = Figures::new(course.pairs, course.baseline);
    for cell in course.made {
        figures.keep(cell);
    }
    let mut at = standing(course.made, course.pairs, executor.elapsed());
    at.written = written(course.made);
    at.written.0 = at.written.0.saturating_add(course.laid_out.0);
    at.precise = figures.are_precise(course.plan.budget.precision);
    let mut blocks = Blocks {
        course,
        executor,
        progress,
        keep,
        figures,
        at,
        block_written: Bytes(0),
    };
    let status = blocks.all();
    Ended {
        status,
        blocks: blocks.at.blocks,
    }
}

/// Where measurements are handed to.
pub(super) type Keep<'a> = dyn FnMut(&CellResult) -> Result<(), LabError> + 'a;

/// A run between its first block and its last.
struct Blocks<'a> {
    course: &'a BlockPlan<'a>,
    executor: &'a mut dyn Executor,
    progress: &'a mut dyn Progress,
    keep: &'a mut Keep<'a>,
    figures: Figures,
    at: RunState,
    /// By fio, in the block that is made.
    block_written: Bytes,
}

/// Bytes that fio wrote in these measurements.
fn written(cells: &[Cell]) -> Bytes {
    let results = cells.iter().filter_map(Cell::fio);
    let writes = results.filter(|result| result.direction == Direction::Write);
    Bytes(writes.map(|result| result.bytes.0).sum())
}

impl Blocks<'_> {
    /// How the run ended.
    fn all(&mut self) -> Status {
        let plan = self.course.plan;
        loop {
            if let Some(status) = next(&plan.budget, self.at) {
                return self.look_again().unwrap_or(status);
            }
            if let Some(stopped) = self.block(self.course.pairs, self.at.blocks) {
                return stopped;
            }
            let now = self.executor.elapsed();
            let written = self.at.written.0 + self.block_written.0;
            self.at = RunState {
                written: Bytes(written),
                most: self.at.most.max(self.block_written),
                blocks: self.at.blocks + 1,
                longest: Nanos(
                    self.at
                        .longest
                        .0
                        .max(now.0.saturating_sub(self.at.elapsed.0)),
                ),
                elapsed: now,
                precise: self.figures.are_precise(plan.budget.precision),
            };
        }
    }

    /// Measures each pair once; how the run ended if it did. What cannot be kept ends it: measuring on would be
    /// for nothing.
    fn block(&mut self, pairs: &[(usize, usize)], block: u32) -> Option<Status> {
        self.block_written = Bytes(0);
        for slot in &block_order(pairs, self.course.seed, block) {
            if self.course.has(slot) {
                continue;
            }
            let shown = shown(self.course, slot, self.at);
            self.progress.cell_started(&shown);
            let measured = match self.executor.measure(*slot) {
                Ok(measured) => measured,
                Err(StopReason::Cancelled) => return Some(Status::Cancelled),
                Err(StopReason::Failed(reason)) => return Some(Status::Failed { reason }),
            };
            self.figures.keep(&measured.cell);
            self.block_written.0 += written(std::slice::from_ref(&measured.cell)).0;
            self.progress.cell_finished(&shown, &figure(&measured.cell));
            if let Err(error) = (self.keep)(&measured) {
                let reason = error.to_string();
                return Some(Status::Failed { reason });
            }
        }
        None
    }

    /// Blocks of the layers alone that are faster than what they stand on, with the latter. No layer is: what
    /// made it look so either goes on or was the moment.
    fn look_again(&mut self) -> Option<Status> {
        let course = self.course;
        let pairs = self.figures.reversed(course.layers);
        if pairs.is_empty() {
            return None;
        }
        let all = course.pairs.len().max(1) as u64;
        let mut longest = Nanos(self.at.longest.0 / all * pairs.len() as u64);
        for block in (self.at.blocks..).take(AGAIN) {
            let begun = self.executor.elapsed();
            if !fits(&course.plan.budget, begun, longest) {
                break;
            }
            if let Some(stopped) = self.block(&pairs, block) {
                return Some(stopped);
            }
            let took = self.executor.elapsed().0.saturating_sub(begun.0);
            longest = Nanos(longest.0.max(took));
        }
        None
    }
}

/// A measurement in a few words.
fn figure(cell: &Cell) -> String {
    if cell.has_failed() {
        return "failed".into();
    }
    cell.headline().map_or_else(
        || "no figure".into(),
        |headline| headline.unit.shown(headline.value),
    )
}

fn shown<'a>(course: &BlockPlan<'a>, slot: &CellSlot, at: RunState) -> CellProgress<'a> {
    let plan = course.plan;
    let blocks = blocks_expected(&plan.budget, at);
    let per_block = u32::try_from(course.pairs.len()).unwrap_or(u32::MAX);
    let done = at
        .blocks
        .saturating_mul(per_block)
        .saturating_add(slot.position);
    let cells = blocks.saturating_mul(per_block).max(done + 1);
    let one = match at.blocks {
        0 => plan.workloads[slot.workload].usual().0,
        _ => at.longest.0 / u64::from(per_block.max(1)),
    };
    CellProgress {
        workload: &plan.workloads[slot.workload].title,
        on: course.labels.get(slot.target).map_or("", String::as_str),
        target: slot.target,
        block: slot.block + 1,
        blocks: blocks.max(slot.block + 1),
        done,
        cells,
        left: Nanos(one.saturating_mul(u64::from(cells.saturating_sub(done)))),
    }
}
