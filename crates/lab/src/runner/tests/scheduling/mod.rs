//! Blocks: every variant once, in an order the seed gives, until the budget says stop.

mod ends;
mod layers;
mod order;

use crate::plan::{Direction, Plan, builtin};
use crate::runner::Silent;
use crate::runner::blocks::{BlockPlan, CellResult, Ended, Executor, StopReason, run_blocks};
use crate::runner::schedule::CellSlot;
use crate::store::Cell;
use crate::synthetic;
use crate::units::{Bytes, Nanos};

fn plan() -> Plan {
    let mut plan = builtin("quick").unwrap();
    plan.workloads.truncate(4);
    plan
}

/// Every test on so many targets.
pub(super) fn pairs(plan: &Plan, targets: usize) -> Vec<(usize, usize)> {
    (0..plan.workloads.len())
        .flat_map(|workload| (0..targets).map(move |target| (workload, target)))
        .collect()
}

/// Two targets, the second of which is what the first is held against.
pub(super) fn course<'a>(plan: &'a Plan, pairs: &'a [(usize, usize)]) -> BlockPlan<'a> {
    BlockPlan {
        plan,
        labels: &[],
        pairs,
        baseline: Some(1),
        layers: &[],
        seed: 3,
        laid_out: Bytes(0),
        made: &[],
    }
}

/// What was measured in `slot`.
pub(super) fn cell(slot: CellSlot) -> Cell {
    placed(synthetic::run(1).cells.remove(0), slot)
}

/// `cell` as what was measured in `slot`.
pub(super) fn placed(mut cell: Cell, slot: CellSlot) -> Cell {
    (cell.block, cell.position) = (slot.block, slot.position);
    (cell.workload, cell.target) = (slot.workload, slot.target);
    cell
}

/// `cell` as the runner gets it to keep, alone.
pub(super) fn kept(cell: Cell) -> CellResult {
    CellResult {
        cell,
        raw: String::new(),
        commands: Vec::new(),
        samples: Vec::new(),
        samples_full: false,
    }
}

/// Each measurement takes this long and gives what `figure` says.
pub(super) struct Mock<F> {
    pub(super) now: Nanos,
    pub(super) takes: Nanos,
    pub(super) figure: F,
}

impl<F: FnMut(CellSlot) -> Result<u64, StopReason>> Executor for Mock<F> {
    fn elapsed(&mut self) -> Nanos {
        self.now
    }

    fn measure(&mut self, slot: CellSlot) -> Result<CellResult, StopReason> {
        self.now = Nanos(self.now.0 + self.takes.0);
        let mut cell = cell(slot);
        let result = cell.fio_mut().unwrap();
        result.bytes = Bytes((self.figure)(slot)?);
        if slot.workload % 2 == 1 {
            result.direction = Direction::Write;
        }
        Ok(kept(cell))
    }
}

/// A run on two targets, and what was kept of it.
fn run(
    plan: &Plan,
    takes: Nanos,
    figure: impl FnMut(CellSlot) -> Result<u64, StopReason>,
) -> (Ended, Vec<Cell>) {
    run_on(&[], plan, takes, figure)
}

/// The same with targets that stand on others.
fn run_on(
    layers: &[(usize, usize)],
    plan: &Plan,
    takes: Nanos,
    figure: impl FnMut(CellSlot) -> Result<u64, StopReason>,
) -> (Ended, Vec<Cell>) {
    let mut kept = Vec::new();
    let mut mock = Mock {
        now: Nanos(0),
        takes,
        figure,
    };
    let pairs = pairs(plan, 2);
    let mut keep = |kept_one: &CellResult| {
        kept.push(kept_one.cell.clone());
        Ok(())
    };
    let course = BlockPlan {
        layers,
        ..course(plan, &pairs)
    };
    let ended = run_blocks(&course, &mut mock, &mut Silent, &mut keep);
    (ended, kept)
}
