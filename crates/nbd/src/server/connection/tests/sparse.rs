//! When holes are looked for, and what becomes of those that are found.

use block::{Extent, ExtentKind, Range};
use proptest::prelude::*;

use super::super::sparse::{HoleHeuristic, cut};

#[test]
fn where_no_hole_is_found_looks_become_few() {
    let mut hole_heuristic = HoleHeuristic::default();
    let mut looks = 0;
    for _ in 0..10_000 {
        if hole_heuristic.should_probe() {
            looks += 1;
            hole_heuristic.found(false);
        }
    }
    assert!((20..60).contains(&looks), "{looks}");
}

#[test]
fn where_holes_are_found_every_read_looks_until_one_looked_in_vain() {
    let mut hole_heuristic = HoleHeuristic::default();
    assert!(hole_heuristic.should_probe());
    assert!(
        !hole_heuristic.should_probe(),
        "until it is known what that one found"
    );
    hole_heuristic.found(true);
    assert!((0..100).all(|_| hole_heuristic.should_probe()));
    hole_heuristic.found(false);
    assert!(!hole_heuristic.should_probe());
    let passed = (0..).take_while(|_| !hole_heuristic.should_probe()).count();
    assert!(passed < 10, "{passed}");
}

fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let kind = prop_oneof![
        Just(ExtentKind::Data),
        Just(ExtentKind::Hole),
        Just(ExtentKind::Zero)
    ];
    prop::collection::vec((1u64..40_000, kind), 1..20).prop_map(|lens| {
        let mut offset = 0;
        let extent = |(len, kind)| {
            let range = Range::new(offset, len);
            offset += len;
            Extent { range, kind }
        };
        lens.into_iter().map(extent).collect()
    })
}

proptest! {
    #[test]
    fn every_byte_is_in_one_piece_and_no_data_is_called_a_hole(extents in extents()) {
        let pieces = cut(&extents);
        let mut at = 0;
        for (nth, (range, is_hole)) in pieces.iter().enumerate() {
            prop_assert_eq!(range.offset, at);
            prop_assert!(nth == 0 || pieces[nth - 1].1 != *is_hole, "two of a kind");
            at = range.end();
            let has_data = |e: &&Extent| e.kind == ExtentKind::Data && e.range.overlaps(range);
            prop_assert!(!is_hole || !extents.iter().any(|e| has_data(&e)));
        }
        prop_assert_eq!(at, extents.last().expect("one").range.end());
    }
}
