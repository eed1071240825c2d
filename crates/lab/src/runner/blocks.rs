//! The loop over blocks, with an executor that a test can replace.

use super::measure::Kept;
use super::progress::{CellProgress, Progress};
use super::resume::standing;
use super::schedule::{Figures, Slot, Standing, block_order, blocks_expected, next};
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
    /// As fio or the tool wrote it.
    pub(super) raw: String,
    pub(super) commands: Vec<crate::store::CommandLine>,
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

/// What is to be measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Course<'a> {
    pub(super) plan: &'a Plan,
    /// What the targets are called.
    pub(super) labels: &'a [String],
    /// Each test on each target that it is made on.
    pub(super) pairs: &'a [(usize, usize)],
    /// What the others are held against.
    pub(super) baseline: Option<usize>,
    pub(super) seed: u64,
    /// What was measured before, when the run goes on.
    pub(super) made: &'a [Cell],
}

impl Course<'_> {
    /// Whether a measurement was made before.
    fn has(&self, slot: &Slot) -> bool {
        let place = (slot.block, slot.workload, slot.target);
        self.made
            .iter()
            .any(|cell| (cell.block, cell.workload, cell.target) == place)
    }
}

/// Makes blocks until the plan's budget says stop, someone asks to, or a target fails. Each
/// measurement is handed to `keep` before the next one begins.
pub(super) fn run_blocks(
    course: &Course<'_>,
    executor: &mut dyn Executor,
    progress: &mut dyn Progress,
    keep: &mut dyn FnMut(Kept<'_>) -> Result<(), LabError>,
) -> Result<Ended, LabError> {
    let mut figures = Figures::new(course.pairs, course.baseline);
    let mut at = standing(course.made, course.pairs, executor.elapsed());
    for cell in course.made {
        figures.keep(cell);
    }
    at.precise = figures.are_precise(course.plan.budget.precision, course.seed);
    loop {
        let ended = |status| {
            Ok(Ended {
                status,
                blocks: at.blocks,
            })
        };
        if let Some(status) = next(&course.plan.budget, at) {
            return ended(status);
        }
        for slot in &block_order(course.pairs, course.seed, at.blocks) {
            if course.has(slot) {
                continue;
            }
            let shown = shown(course, slot, at);
            progress.cell_started(&shown);
            let measured = match executor.measure(*slot) {
                Ok(measured) => measured,
                Err(Stop::Cancelled) => return ended(Status::Cancelled),
                Err(Stop::Failed(reason)) => return ended(Status::Failed { reason }),
            };
            figures.keep(&measured.cell);
            progress.cell_finished(&shown, &figure(&measured.cell));
            keep(Kept::of(&measured))?;
        }
        let now = executor.elapsed();
        at = Standing {
            blocks: at.blocks + 1,
            longest: Nanos(at.longest.0.max(now.0.saturating_sub(at.elapsed.0))),
            elapsed: now,
            precise: figures.are_precise(course.plan.budget.precision, course.seed),
        };
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

fn shown<'a>(course: &Course<'a>, slot: &Slot, at: Standing) -> CellProgress<'a> {
    let plan = course.plan;
    let blocks = blocks_expected(&plan.budget, at);
    let per_block = u32::try_from(course.pairs.len()).unwrap_or(u32::MAX);
    let done = at
        .blocks
        .saturating_mul(per_block)
        .saturating_add(slot.position);
    let cells = blocks.saturating_mul(per_block);
    let one = match at.blocks {
        0 => plan.workloads[slot.workload].usual().0,
        _ => at.longest.0 / u64::from(per_block.max(1)),
    };
    CellProgress {
        workload: &plan.workloads[slot.workload].title,
        on: course.labels.get(slot.target).map_or("", String::as_str),
        target: slot.target,
        block: slot.block + 1,
        blocks,
        done,
        cells,
        left: Nanos(one.saturating_mul(u64::from(cells.saturating_sub(done)))),
    }
}
