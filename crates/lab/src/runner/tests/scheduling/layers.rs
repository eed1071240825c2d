//! A layer that looks faster than what it stands on, which none is, is measured again.

use super::{plan, run_on};
use crate::plan::Plan;
use crate::runner::blocks::Ended;
use crate::runner::schedule::CellSlot;
use crate::store::Status;
use crate::units::{MIB, Nanos, SECOND};

/// What is requested when target 0 stands on target 1; each measurement takes this long.
fn asked_of_layers(
    plan: &Plan,
    takes: Nanos,
    figure: impl Fn(CellSlot) -> u64,
) -> (Ended, Vec<(u32, usize, usize)>) {
    let (ended, kept) = run_on(&[(0, 1)], plan, takes, |slot| Ok(figure(slot)));
    let kept = kept
        .iter()
        .map(|cell| (cell.block, cell.workload, cell.target));
    (ended, kept.collect())
}

#[test]
fn a_layer_that_is_faster_than_what_it_stands_on_is_measured_again_with_it_and_nothing_else_is() {
    let plan = plan();
    // The second test is out of order; so is the third, once.
    let figure = |slot: CellSlot| match (slot.workload, slot.target, slot.block) {
        (1, 0, _) => 3 * MIB,
        (2, 0, 0) => 2 * MIB + MIB / 10,
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
    let faster = |slot: CellSlot| MIB * (2 - slot.target as u64);
    let (_, kept) = asked_of_layers(&plan, Nanos(3 * SECOND), faster);
    // All four tests are out of order, so each block again is a whole one.
    assert_eq!(kept.len(), (5 + 2) * 8);
}
