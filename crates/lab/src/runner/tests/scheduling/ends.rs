//! When a run ends, and with what.

use proptest::prelude::*;

use super::{Mock, cell, course, pairs, plan, run};
use crate::LabError;
use crate::checks::{Check, Finding};
use crate::plan::{Budget, Direction};
use crate::runner::Silent;
use crate::runner::blocks::{CellResult, Ended, StopReason, run_blocks};
use crate::runner::schedule::{CellSlot, Figures, RunState, block_order, blocks_expected, next};
use crate::store::{Cell, Outcome, Status};
use crate::tools::ToolResult;
use crate::units::{Bytes, MIB, Nanos, SECOND};

fn after(blocks: u32, status: Status) -> Ended {
    Ended { status, blocks }
}

/// So many measurements, and then no more: `stop`.
fn stops_behind(
    measurements: usize,
    stop: StopReason,
) -> impl FnMut(CellSlot) -> Result<u64, StopReason> {
    let made = std::iter::repeat_with(|| Ok(MIB)).take(measurements);
    let mut figures = made.chain([Err(stop)]);
    move |_| figures.next().expect("nothing is asked for behind a stop")
}

#[test]
fn steady_figures_end_a_run_after_the_least_number_of_blocks() {
    let (ended, kept) = run(&plan(), Nanos(SECOND / 10), |slot| {
        Ok(MIB * (1 + slot.target as u64))
    });
    assert_eq!(ended, after(5, Status::Precise));
    assert_eq!(kept.len(), 5 * 8);
}

#[test]
fn figures_that_jump_go_on_until_the_plan_has_no_more_blocks() {
    let (ended, _) = run(&plan(), Nanos(1), |slot| {
        Ok(MIB * (1 + u64::from(slot.block % 2) * slot.target as u64))
    });
    assert_eq!(ended, after(plan().budget.blocks_max, Status::AllBlocks));
}

#[test]
fn a_slow_target_ends_with_its_time_and_within_it() {
    let mut plan = plan();
    (plan.budget.time_ms, plan.budget.limit_ms) = (30_000, 60_000);
    let (ended, kept) = run(&plan, Nanos(3 * SECOND), |_| Ok(MIB));
    assert_eq!(ended, after(2, Status::OutOfTime));
    assert_eq!(kept.len(), 16);
}

#[test]
fn the_least_number_of_blocks_may_take_longer_than_the_time_for_more() {
    let mut plan = plan();
    (plan.budget.time_ms, plan.budget.limit_ms) = (30_000, 200_000);
    let (ended, _) = run(&plan, Nanos(3 * SECOND), |slot| {
        Ok(MIB * (1 + u64::from(slot.block % 2) * slot.target as u64))
    });
    assert_eq!(ended, after(plan.budget.blocks_min, Status::OutOfTime));
}

#[test]
fn the_bytes_that_may_be_written_end_a_run_before_the_block_that_would_exceed_them() {
    // Two tests that write on two targets: 4 MiB in each block.
    let mut plan = plan();
    let jumping = |slot: CellSlot| {
        let factor = 1 + u64::from(slot.block % 2) * slot.target as u64;
        let is_write = slot.workload % 2 == 1;
        Ok(if is_write { MIB } else { MIB * factor })
    };
    plan.budget.written_max = Some(Bytes(27 * MIB));
    let (ended, kept) = run(&plan, Nanos(1), jumping);
    let written = kept.iter().filter_map(Cell::fio);
    let written = written.filter(|one| one.direction == Direction::Write);
    assert_eq!(written.map(|one| one.bytes.0).sum::<u64>(), 24 * MIB);
    assert_eq!(ended, after(6, Status::OutOfBytes));
    plan.budget.written_max = Some(Bytes(1));
    assert_eq!(
        run(&plan, Nanos(1), jumping).0,
        after(1, Status::OutOfBytes)
    );
}

#[test]
fn a_target_slower_than_its_time_still_gets_one_block() {
    let mut plan = plan();
    (plan.budget.time_ms, plan.budget.limit_ms) = (1, 1);
    let (ended, _) = run(&plan, Nanos(SECOND), |_| Ok(MIB));
    assert_eq!(ended, after(1, Status::OutOfTime));
}

#[test]
fn a_failure_in_the_third_block_keeps_two_blocks_and_a_part() {
    let reason = "the mount is gone".to_owned();
    let stops = stops_behind(19, StopReason::Failed(reason.clone()));
    let (ended, kept) = run(&plan(), Nanos(1), stops);
    assert_eq!(ended, after(2, Status::Failed { reason }));
    assert_eq!(kept.len(), 19);
}

/// Once the store's own error ended everything, and the message did not name what had been kept.
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
    let mut keep = |_: &CellResult| {
        room = room.checked_sub(1).ok_or(LabError::NoRuns)?;
        Ok(())
    };
    let ended = run_blocks(&course(&plan, &pairs), &mut mock, &mut Silent, &mut keep);
    let reason = LabError::NoRuns.to_string();
    assert_eq!(ended, after(2, Status::Failed { reason }));
}

#[test]
fn a_cancelled_run_keeps_what_was_made() {
    let (ended, kept) = run(&plan(), Nanos(1), stops_behind(3, StopReason::Cancelled));
    assert_eq!(ended, after(0, Status::Cancelled));
    assert_eq!(kept.len(), 3);
}

#[test]
fn invalid_figures_do_not_make_a_run_precise() {
    let mut plan = plan();
    plan.budget.blocks_max = 6;
    // A figure of zero has no ratio: there is no verdict, so the run goes on to its last block.
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
                let mut cell = cell(slot);
                if (slot.workload, slot.target) == (1, 1) && fails(block) {
                    let failed = ToolResult::failed("dbench", "4.00", Nanos(1));
                    cell.outcome = Outcome::Tool(failed);
                    cell.findings
                        .push(Finding::invalid(Check::Run, "dbench failed"));
                }
                figures.keep(&cell);
            }
        }
        figures.are_precise(0.03)
    };
    assert!(found(|_| true), "the other target is known by itself");
    assert!(!found(|block| block > 2), "three blocks are not five");
    assert!(found(|_| false));
}

fn standings() -> impl Strategy<Value = (Budget, RunState)> {
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
                    written_max: None,
                };
                let at = RunState {
                    blocks,
                    elapsed: Nanos(elapsed * SECOND),
                    longest: Nanos(longest * SECOND),
                    precise,
                    written: Bytes(0),
                    most: Bytes(0),
                };
                (budget, at)
            },
        )
}

proptest! {
    #[test]
    fn no_block_is_begun_that_would_end_after_the_time_but_the_first((budget, at) in standings()) {
        if next(&budget, at).is_none() && at.blocks > 0 {
            prop_assert!(at.elapsed.0 + at.longest.0 <= Nanos::from_ms(budget.limit_ms).0);
            prop_assert!(at.blocks < budget.blocks_max);
        }
        prop_assert!(blocks_expected(&budget, at) >= at.blocks.min(budget.blocks_max));
    }
}
