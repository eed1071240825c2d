//! Tests of turns.

use std::task::Waker;

use block::Range;
use proptest::prelude::*;

use super::super::locks::{GivenUp, Kind, Place, Table, Turn};

const LANDED: GivenUp = GivenUp::Data { landed: true };
const LATE: GivenUp = GivenUp::Data { landed: false };

fn place(table: &mut Table, turn: Turn) -> Place {
    table.place(turn, Waker::noop())
}

fn enter(table: &mut Table, offset: u64, len: u64) -> Turn {
    table.enter(Range::new(offset, len), Kind::Change)
}

#[test]
fn bytes_under_way_are_those_of_changes_that_somebody_waits_for() {
    let mut table = Table::default();
    let first = enter(&mut table, 0, 10);
    let second = enter(&mut table, 5, 10);
    table.enter(Range::new(30, 100), Kind::Window);
    assert_eq!(table.under_way(), 20);
    drop(table.give_up(first, LATE));
    assert_eq!(table.under_way(), 10);
    drop(table.leave(second));
    assert_eq!(table.under_way(), 0);
    enter(&mut table, 200, u64::MAX - 200);
    enter(&mut table, 200, u64::MAX - 200);
    assert_eq!(table.under_way(), u64::MAX);
}

#[test]
fn changes_that_overlap_go_in_order_of_arrival_and_others_beside_them() {
    let mut table = Table::default();
    let first = enter(&mut table, 0, 10);
    let second = enter(&mut table, 5, 10);
    let third = enter(&mut table, 12, 10);
    let apart = enter(&mut table, 30, 10);
    let turns = [first, second, third, apart];
    let now = turns.map(|turn| place(&mut table, turn));
    assert_eq!(
        now,
        [Place::Ready, Place::Waits, Place::Waits, Place::Ready]
    );
    assert_eq!(table.leave(first).len(), 1);
    assert_eq!(place(&mut table, second), Place::Ready);
    assert_eq!(place(&mut table, third), Place::Waits);
    assert_eq!(table.try_enter(Range::new(20, 5)), None);
    assert!(table.try_enter(Range::new(22, 5)).is_some());
}

#[test]
fn nobody_comes_past_what_was_given_up_before_it_was_put_right() {
    let mut table = Table::default();
    let first = enter(&mut table, 0, 10);
    let second = enter(&mut table, 5, 10);
    assert_eq!(place(&mut table, second), Place::Waits);
    assert_eq!(table.give_up(first, LATE).len(), 1);
    assert_eq!(place(&mut table, second), Place::Haunted);
    assert!(table.go_over(second).is_empty());
    let [left] = table.take_abandoned().try_into().unwrap();
    assert_eq!(
        (left.turn, left.what, left.kind),
        (first, LATE, Kind::Change)
    );
    drop(table.leave(first));
    assert_eq!(
        (place(&mut table, second), table.abandoned_count()),
        (Place::Ready, 0)
    );
}

#[test]
fn who_fills_all_of_what_was_given_up_in_line_goes_over_it() {
    let mut table = Table::default();
    let first = enter(&mut table, 4, 4);
    drop(table.give_up(first, LANDED));
    let beside = enter(&mut table, 6, 10);
    assert!(table.go_over(beside).is_empty());
    assert_eq!(place(&mut table, beside), Place::Haunted);
    let over = enter(&mut table, 0, 8);
    assert_eq!(table.go_over(over).as_slice(), [Range::new(4, 4)]);
    assert_eq!(place(&mut table, beside), Place::Ready);
    assert_eq!(place(&mut table, over), Place::Waits);
    drop(table.leave(beside));
    assert_eq!(place(&mut table, over), Place::Ready);
}

#[test]
fn nobody_goes_over_what_is_being_put_right() {
    let mut table = Table::default();
    let first = enter(&mut table, 4, 4);
    drop(table.give_up(first, LANDED));
    assert_eq!(table.take_abandoned().len(), 1);
    let over = enter(&mut table, 0, 8);
    assert!(table.go_over(over).is_empty());
    assert_eq!(place(&mut table, over), Place::Haunted);
}

proptest! {
    #[test]
    fn everybody_gets_a_turn_and_no_two_that_overlap_at_once(
        ranges in prop::collection::vec((0..40_u64, 1..20_u64), 1..20),
        seed: u64,
    ) {
        let mut table = Table::default();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut waiting: Vec<(Turn, Range)> = ranges
            .iter()
            .map(|&(offset, len)| (enter(&mut table, offset, len), Range::new(offset, len)))
            .collect();
        while !waiting.is_empty() {
            let is_ready = |table: &mut Table, turn| place(table, turn) == Place::Ready;
            let ready: Vec<_> = waiting
                .iter()
                .copied()
                .filter(|(turn, _)| is_ready(&mut table, *turn))
                .collect();
            prop_assert!(!ready.is_empty());
            for (index, (turn, range)) in ready.iter().enumerate() {
                let apart = ready[..index].iter().all(|(_, other)| !other.overlaps(range));
                prop_assert!(apart);
                let earlier = waiting.iter().filter(|(other, _)| other < turn);
                prop_assert!(earlier.into_iter().all(|(_, other)| !other.overlaps(range)));
            }
            let (gone, _) = ready[rng.usize(0..ready.len())];
            drop(table.leave(gone));
            waiting.retain(|(turn, _)| *turn != gone);
        }
    }
}

#[test]
fn a_change_counts_until_it_ended_and_a_window_never() {
    let mut table = Table::default();
    let first = enter(&mut table, 0, 10);
    let window = table.enter(Range::new(20, 10), Kind::Window);
    let late = table.try_enter(Range::new(40, 10)).unwrap();
    assert_eq!((table.has_changes(), table.begun()), (true, 2));
    drop(table.leave(first));
    drop(table.give_up(late, LANDED));
    assert!(table.has_changes(), "what was given up has not ended");
    let over = enter(&mut table, 40, 10);
    assert_eq!(table.go_over(over).len(), 1);
    drop(table.leave(over));
    assert!(!table.has_changes());
    drop(table.leave(window));
    assert_eq!(table.begun(), 3);
}
