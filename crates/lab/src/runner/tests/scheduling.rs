//! Blocks: every variant once, in an order the seed gives, until the budget says stop.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::LabError;
use crate::checks::{Check, Finding};
use crate::plan::{Budget, Plan, builtin};
use crate::runner::Silent;
use crate::runner::blocks::{Course, Ended, Executor, Measured, Stop, run_blocks};
use crate::runner::progress::{CellProgress, Progress};
use crate::runner::schedule::{Figures, Slot, Standing, block_order, blocks_expected, next};
use crate::store::{Cell, Outcome, Status};
use crate::synthetic;
use crate::tools::ToolResult;
use crate::units::{Bytes, MIB, Nanos, SECOND};

fn plan() -> Plan {
    builtin("quick").unwrap()
}

/// Every test on so many targets.
fn pairs(plan: &Plan, targets: usize) -> Vec<(usize, usize)> {
    (0..plan.workloads.len())
        .flat_map(|workload| (0..targets).map(move |target| (workload, target)))
        .collect()
}

/// Two targets, the second of which is what the first is held against.
fn course<'a>(plan: &'a Plan, pairs: &'a [(usize, usize)]) -> Course<'a> {
    Course {
        plan,
        labels: &[],
        pairs,
        baseline: Some(1),
        layers: &[],
        seed: 3,
        made: &[],
    }
}

/// Each measurement takes this long and gives what `figure` says.
struct Mock<F> {
    now: Nanos,
    takes: Nanos,
    figure: F,
}

impl<F: FnMut(Slot) -> Result<u64, Stop>> Executor for Mock<F> {
    fn elapsed(&mut self) -> Nanos {
        self.now
    }

    fn measure(&mut self, slot: Slot) -> Result<Measured, Stop> {
        self.now = Nanos(self.now.0 + self.takes.0);
        let mut cell: Cell = synthetic::run(1).cells.remove(0);
        cell.fio_mut().unwrap().bytes = Bytes((self.figure)(slot)?);
        (cell.block, cell.workload, cell.target) = (slot.block, slot.workload, slot.target);
        Ok(Measured {
            cell,
            raw: String::new(),
            commands: Vec::new(),
            samples: Vec::new(),
            samples_full: false,
        })
    }
}

fn run(
    plan: &Plan,
    takes: Nanos,
    figure: impl FnMut(Slot) -> Result<u64, Stop>,
) -> (Ended, Vec<Cell>) {
    let mut kept = Vec::new();
    let mut mock = Mock {
        now: Nanos(0),
        takes,
        figure,
    };
    let pairs = pairs(plan, 2);
    let mut keep = |cell: crate::runner::measure::Kept<'_>| {
        kept.push(cell.cell.clone());
        Ok(())
    };
    let ended = run_blocks(&course(plan, &pairs), &mut mock, &mut Silent, &mut keep);
    (ended, kept)
}

#[test]
fn steady_figures_end_a_run_after_the_least_number_of_blocks() {
    let (ended, kept) = run(&plan(), Nanos(SECOND / 10), |slot| {
        Ok(MIB * (1 + slot.target as u64))
    });
    assert_eq!(
        ended,
        Ended {
            status: Status::Precise,
            blocks: 5
        }
    );
    assert_eq!(kept.len(), 5 * 8);
}

#[test]
fn figures_that_jump_go_on_until_the_plan_has_no_more_blocks() {
    let (ended, _) = run(&plan(), Nanos(1), |slot| {
        Ok(MIB * (1 + u64::from(slot.block % 2) * slot.target as u64))
    });
    assert_eq!(
        ended,
        Ended {
            status: Status::AllBlocks,
            blocks: plan().budget.blocks_max
        }
    );
}

/// What is asked for when target 0 stands on target 1; each measurement takes this long.
fn asked_of_layers(
    plan: &Plan,
    takes: Nanos,
    figure: impl Fn(Slot) -> u64,
) -> (Ended, Vec<(u32, usize, usize)>) {
    let mut kept = Vec::new();
    let mut mock = Mock {
        now: Nanos(0),
        takes,
        figure: |slot| Ok(figure(slot)),
    };
    let pairs = pairs(plan, 2);
    let course = Course {
        layers: &[(0, 1)],
        ..course(plan, &pairs)
    };
    let mut keep = |kept_one: crate::runner::measure::Kept<'_>| {
        let cell = kept_one.cell;
        kept.push((cell.block, cell.workload, cell.target));
        Ok(())
    };
    let ended = run_blocks(&course, &mut mock, &mut Silent, &mut keep);
    (ended, kept)
}

#[test]
fn a_layer_that_is_faster_than_what_it_stands_on_is_measured_again_with_it_and_nothing_else_is() {
    let plan = plan();
    // The second test is out of order; so is the third, once.
    let figure = |slot: Slot| match (slot.workload, slot.target, slot.block) {
        (1, 0, _) | (2, 0, 0) => 3 * MIB,
        _ => 2 * MIB,
    };
    let (ended, kept) = asked_of_layers(&plan, Nanos(SECOND / 10), figure);
    assert_eq!(
        ended.status,
        Status::Precise,
        "what ends a run is as it was"
    );
    let again: Vec<_> = kept.iter().filter(|cell| cell.0 >= ended.blocks).collect();
    assert_eq!(again.len(), 5 * 2);
    for block in ended.blocks..ended.blocks + 5 {
        for target in 0..2 {
            assert!(again.contains(&&(block, 1, target)), "{again:?}");
        }
    }
    let (_, kept) = asked_of_layers(&plan, Nanos(SECOND / 10), |slot| {
        MIB * (2 + slot.target as u64)
    });
    assert_eq!(
        kept.len(),
        5 * 8,
        "a layer that costs something is in order"
    );
}

#[test]
fn nothing_is_measured_again_beyond_the_time_of_a_run() {
    let mut plan = plan();
    let block = 8 * 3000;
    (plan.budget.time_ms, plan.budget.limit_ms) = (5 * block, 5 * block + 2 * 8 * 3000 + 1000);
    let faster = |slot: Slot| MIB * (2 - slot.target as u64);
    let (_, kept) = asked_of_layers(&plan, Nanos(3 * SECOND), faster);
    // All four tests are out of order, so each block again is a whole one.
    assert_eq!(kept.len(), (5 + 2) * 8);
}

#[test]
fn a_slow_target_ends_with_its_time_and_within_it() {
    let mut plan = plan();
    (plan.budget.time_ms, plan.budget.limit_ms) = (30_000, 60_000);
    let (ended, kept) = run(&plan, Nanos(3 * SECOND), |_| Ok(MIB));
    assert_eq!(
        ended,
        Ended {
            status: Status::OutOfTime,
            blocks: 2
        }
    );
    assert_eq!(kept.len(), 16);
}

#[test]
fn the_least_number_of_blocks_may_take_longer_than_the_time_for_more() {
    let mut plan = plan();
    (plan.budget.time_ms, plan.budget.limit_ms) = (30_000, 200_000);
    let (ended, _) = run(&plan, Nanos(3 * SECOND), |slot| {
        Ok(MIB * (1 + u64::from(slot.block % 2) * slot.target as u64))
    });
    let expected = Ended {
        status: Status::OutOfTime,
        blocks: plan.budget.blocks_min,
    };
    assert_eq!(ended, expected);
}

#[test]
fn a_target_slower_than_its_time_still_gets_one_block() {
    let mut plan = plan();
    (plan.budget.time_ms, plan.budget.limit_ms) = (1, 1);
    let (ended, _) = run(&plan, Nanos(SECOND), |_| Ok(MIB));
    assert_eq!(
        ended,
        Ended {
            status: Status::OutOfTime,
            blocks: 1
        }
    );
}

#[test]
fn a_failure_in_the_third_block_keeps_two_blocks_and_a_part() {
    let mut made = 0;
    let (ended, kept) = run(&plan(), Nanos(1), |_| {
        made += 1;
        if made > 19 {
            Err(Stop::Failed("the mount is gone".into()))
        } else {
            Ok(MIB)
        }
    });
    assert_eq!(ended.blocks, 2);
    assert_eq!(
        ended.status,
        Status::Failed {
            reason: "the mount is gone".into()
        }
    );
    assert_eq!(kept.len(), 19);
}

/// Once the store's own error ended everything, and no word was said of what had been kept.
#[test]
fn what_cannot_be_kept_ends_the_run_with_the_blocks_that_were() {
    let mut mock = Mock {
        now: Nanos(0),
        takes: Nanos(1),
        figure: |_| Ok(MIB),
    };
    let plan = plan();
    let pairs = pairs(&plan, 2);
    let mut room = 2 * pairs.len() + 3;
    let mut keep = |_: crate::runner::measure::Kept<'_>| {
        room = room.checked_sub(1).ok_or(LabError::NoRuns)?;
        Ok(())
    };
    let ended = run_blocks(&course(&plan, &pairs), &mut mock, &mut Silent, &mut keep);
    let reason = LabError::NoRuns.to_string();
    assert_eq!(
        ended,
        Ended {
            status: Status::Failed { reason },
            blocks: 2
        }
    );
}

#[test]
fn a_cancelled_run_keeps_what_was_made() {
    let mut made = 0;
    let (ended, kept) = run(&plan(), Nanos(1), |_| {
        made += 1;
        if made > 3 {
            Err(Stop::Cancelled)
        } else {
            Ok(MIB)
        }
    });
    assert_eq!(
        ended,
        Ended {
            status: Status::Cancelled,
            blocks: 0
        }
    );
    assert_eq!(kept.len(), 3);
}

#[test]
fn invalid_figures_do_not_make_a_run_precise() {
    let mut plan = plan();
    plan.budget.blocks_max = 6;
    // A figure of zero has no ratio: nothing can be said, so the run goes on to its last block.
    let (ended, _) = run(&plan, Nanos(1), |_| Ok(0));
    assert_eq!(ended.status, Status::AllBlocks);
}

/// A tool that fails all the time is no reason to go on until the time is used up, and one that fails once
/// is.
#[test]
fn a_pair_that_only_ever_failed_is_not_waited_for() {
    let found = |fails: fn(u32) -> bool| {
        let mut figures = Figures::new(&[(0, 0), (0, 1), (1, 0), (1, 1)], Some(1));
        for block in 0..6 {
            for slot in block_order(&[(0, 0), (0, 1), (1, 0), (1, 1)], 3, block) {
                let mut cell: Cell = synthetic::run(1).cells.remove(0);
                (cell.block, cell.workload, cell.target) = (block, slot.workload, slot.target);
                if (slot.workload, slot.target) == (1, 1) && fails(block) {
                    let failed = ToolResult::failed("dbench", "4.00", Nanos(1));
                    cell.outcome = Outcome::Tool(failed);
                    cell.findings
                        .push(Finding::invalid(Check::Run, "dbench failed"));
                }
                figures.keep(&cell);
            }
        }
        figures.are_precise(0.03, 1)
    };
    assert!(found(|_| true), "the other target is known by itself");
    assert!(!found(|block| block > 2), "three blocks are not five");
    assert!(found(|_| false));
}

/// What a listener hears must add up.
#[derive(Default)]
struct Heard {
    done: Vec<u32>,
    left: Vec<Nanos>,
}

impl Progress for Heard {
    fn phase(&mut self, _: &str) {}
    fn cell_started(&mut self, cell: &CellProgress<'_>) {
        assert!(cell.block >= 1 && cell.block <= cell.blocks, "{cell:?}");
        assert!(cell.done < cell.cells);
        self.left.push(cell.left);
    }
    fn cell_finished(&mut self, cell: &CellProgress<'_>, figure: &str) {
        assert!(figure.contains("MB/s"), "{figure}");
        self.done.push(cell.done);
    }
}

#[test]
fn a_listener_hears_every_measurement_once_and_in_order() {
    let mut heard = Heard::default();
    let mut mock = Mock {
        now: Nanos(0),
        takes: Nanos(SECOND),
        figure: |_| Ok(MIB),
    };
    let plan = plan();
    let pairs = pairs(&plan, 2);
    run_blocks(&course(&plan, &pairs), &mut mock, &mut heard, &mut |_| {
        Ok(())
    });
    assert_eq!(heard.done, (0..40).collect::<Vec<u32>>());
    assert!(heard.left.iter().all(|left| left.0 > 0));
}

fn standings() -> impl Strategy<Value = (Budget, Standing)> {
    (
        1u32..20,
        0u32..20,
        1u64..300_000,
        0u32..60,
        0u64..400,
        1u64..40,
        any::<bool>(),
    )
        .prop_map(
            |(least, more, time_ms, blocks, elapsed, longest, precise)| {
                let budget = Budget {
                    blocks_min: least,
                    blocks_max: least + more,
                    time_ms,
                    limit_ms: time_ms * 2,
                    precision: 0.03,
                };
                let at = Standing {
                    blocks,
                    elapsed: Nanos(elapsed * SECOND),
                    longest: Nanos(longest * SECOND),
                    precise,
                };
                (budget, at)
            },
        )
}

proptest! {
    #[test]
    fn a_block_has_every_variant_once_and_the_seed_gives_its_order(
        seed in any::<u64>(), block in 0u32..1000, targets in 1usize..6
    ) {
        let pairs = pairs(&plan(), targets);
        let order = block_order(&pairs, seed, block);
        let variants: BTreeSet<(usize, usize)> = order.iter().map(|slot| (slot.workload, slot.target)).collect();
        prop_assert_eq!(variants.len(), 4 * targets);
        prop_assert_eq!(order.len(), 4 * targets);
        prop_assert!(order.iter().zip(0u32..).all(|(slot, at)| slot.position == at && slot.block == block));
        prop_assert_eq!(order, block_order(&pairs, seed, block));
    }

    #[test]
    fn orders_of_neighbouring_blocks_differ_for_most_seeds(seed in any::<u64>()) {
        let orders: BTreeSet<Vec<(usize, usize)>> = (0..8)
            .map(|block| block_order(&pairs(&plan(), 2), seed, block).iter().map(|s| (s.workload, s.target)).collect())
            .collect();
        prop_assert!(orders.len() >= 6);
    }

    #[test]
    fn no_block_is_begun_that_would_end_after_the_time_but_the_first((budget, at) in standings()) {
        if next(&budget, at).is_none() && at.blocks > 0 {
            prop_assert!(at.elapsed.0 + at.longest.0 <= Nanos::from_ms(budget.limit_ms).0);
            prop_assert!(at.blocks < budget.blocks_max);
        }
        prop_assert!(blocks_expected(&budget, at) >= at.blocks.min(budget.blocks_max));
    }
}
