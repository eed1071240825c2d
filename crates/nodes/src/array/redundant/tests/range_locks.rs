//! Tests of turns.

use std::task::Waker;

use block::Range;
use proptest::prelude::*;

use super::super::range_locks::{Cancelled, Kind, RangeLocks, Turn, TurnState};

const LANDED: Cancelled = Cancelled::Data { landed: true };
const LATE: Cancelled = Cancelled::Data { landed: false };

fn place(locks: &mut RangeLocks, turn: Turn) -> TurnState {
    locks.place(turn, Waker::noop())
}

fn enter(locks: &mut RangeLocks, offset: u64, len: u64) -> Turn {
    locks.enter(Range::new(offset, len), Kind::Change)
}

#[test]
fn bytes_in_flight_are_those_of_changes_that_a_caller_waits_for() {
    let mut locks = RangeLocks::default();
    let first = enter(&mut locks, 0, 10);
    let second = enter(&mut locks, 5, 10);
    locks.enter(Range::new(30, 100), Kind::Window);
    assert_eq!(locks.under_way(), 20);
    drop(locks.cancel(first, LATE));
    assert_eq!(locks.under_way(), 10);
    drop(locks.leave(second));
    assert_eq!(locks.under_way(), 0);
    enter(&mut locks, 200, u64::MAX - 200);
    enter(&mut locks, 200, u64::MAX - 200);
    assert_eq!(locks.under_way(), u64::MAX);
}

#[test]
fn changes_that_overlap_go_in_order_of_arrival_and_others_beside_them() {
    let mut locks = RangeLocks::default();
    let first = enter(&mut locks, 0, 10);
    let second = enter(&mut locks, 5, 10);
    let third = enter(&mut locks, 12, 10);
    let apart = enter(&mut locks, 30, 10);
    let turns = [first, second, third, apart];
    let now = turns.map(|turn| place(&mut locks, turn));
    assert_eq!(
        now,
        [
            TurnState::Ready,
            TurnState::Waiting,
            TurnState::Waiting,
            TurnState::Ready
        ]
    );
    assert_eq!(locks.leave(first).len(), 1);
    assert_eq!(place(&mut locks, second), TurnState::Ready);
    assert_eq!(place(&mut locks, third), TurnState::Waiting);
    assert_eq!(locks.try_enter(Range::new(20, 5)), None);
    assert!(locks.try_enter(Range::new(22, 5)).is_some());
}

#[test]
fn no_change_passes_what_was_cancelled_before_it_was_repaired() {
    let mut locks = RangeLocks::default();
    let first = enter(&mut locks, 0, 10);
    let second = enter(&mut locks, 5, 10);
    assert_eq!(place(&mut locks, second), TurnState::Waiting);
    assert_eq!(locks.cancel(first, LATE).len(), 1);
    assert_eq!(place(&mut locks, second), TurnState::Blocked);
    assert!(locks.go_over(second).is_empty());
    let [left] = locks.take_cancelled().try_into().unwrap();
    assert_eq!(
        (left.turn, left.what, left.kind),
        (first, LATE, Kind::Change)
    );
    drop(locks.leave(first));
    assert_eq!(
        (place(&mut locks, second), locks.cancelled_count()),
        (TurnState::Ready, 0)
    );
}

#[test]
fn who_fills_all_of_what_was_given_up_in_line_goes_over_it() {
    let mut locks = RangeLocks::default();
    let first = enter(&mut locks, 4, 4);
    drop(locks.cancel(first, LANDED));
    let beside = enter(&mut locks, 6, 10);
    assert!(locks.go_over(beside).is_empty());
    assert_eq!(place(&mut locks, beside), TurnState::Blocked);
    let over = enter(&mut locks, 0, 8);
    assert_eq!(locks.go_over(over).as_slice(), [Range::new(4, 4)]);
    assert_eq!(place(&mut locks, beside), TurnState::Ready);
    assert_eq!(place(&mut locks, over), TurnState::Waiting);
    drop(locks.leave(beside));
    assert_eq!(place(&mut locks, over), TurnState::Ready);
}

#[test]
fn no_change_overlaps_what_is_being_repaired() {
    let mut locks = RangeLocks::default();
    let first = enter(&mut locks, 4, 4);
    drop(locks.cancel(first, LANDED));
    assert_eq!(locks.take_cancelled().len(), 1);
    let over = enter(&mut locks, 0, 8);
    assert!(locks.go_over(over).is_empty());
    assert_eq!(place(&mut locks, over), TurnState::Blocked);
}

proptest! {
    #[test]
    fn every_change_gets_a_turn_and_no_two_that_overlap_at_once(
        ranges in prop::collection::vec((0..40_u64, 1..20_u64), 1..20),
        seed: u64,
    ) {
        let mut locks = RangeLocks::default();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut waiting: Vec<(Turn, Range)> = ranges
            .iter()
            .map(|&(offset, len)| (enter(&mut locks, offset, len), Range::new(offset, len)))
            .collect();
        while !waiting.is_empty() {
            let is_ready = |locks: &mut RangeLocks, turn| place(locks, turn) == TurnState::Ready;
            let ready: Vec<_> = waiting
                .iter()
                .copied()
                .filter(|(turn, _)| is_ready(&mut locks, *turn))
                .collect();
            prop_assert!(!ready.is_empty());
            for (index, (turn, range)) in ready.iter().enumerate() {
                let apart = ready[..index].iter().all(|(_, other)| !other.overlaps(range));
                prop_assert!(apart);
                let earlier = waiting.iter().filter(|(other, _)| other < turn);
                prop_assert!(earlier.into_iter().all(|(_, other)| !other.overlaps(range)));
            }
            let (gone, _) = ready[rng.usize(0..ready.len())];
            drop(locks.leave(gone));
            waiting.retain(|(turn, _)| *turn != gone);
        }
    }
}

#[test]
fn a_change_counts_until_it_ended_and_a_window_never() {
    let mut locks = RangeLocks::default();
    let first = enter(&mut locks, 0, 10);
    let window = locks.enter(Range::new(20, 10), Kind::Window);
    let late = locks.try_enter(Range::new(40, 10)).unwrap();
    assert_eq!((locks.has_changes(), locks.begun()), (true, 2));
    drop(locks.leave(first));
    drop(locks.cancel(late, LANDED));
    assert!(locks.has_changes(), "what was cancelled has not ended");
    let over = enter(&mut locks, 40, 10);
    assert_eq!(locks.go_over(over).len(), 1);
    drop(locks.leave(over));
    assert!(!locks.has_changes());
    drop(locks.leave(window));
    assert_eq!(locks.begun(), 3);
}
