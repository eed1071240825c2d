//! When holes are looked for, and what becomes of those that are found.

use block::{Extent, ExtentKind, Range};
use proptest::prelude::*;

use super::super::sparse::{Nose, cut};

#[test]
fn where_no_hole_is_found_looks_become_few() {
    let mut nose = Nose::default();
    let looks = (0..10_000).filter(|_| nose.looks()).count();
    assert!((5..60).contains(&looks), "{looks}");
}

#[test]
fn a_hole_makes_the_next_read_look() {
    let mut nose = Nose::default();
    for _ in 0..1000 {
        nose.looks();
    }
    nose.found();
    assert!(nose.looks());
    assert!(!nose.looks(), "until it is known what that one found");
    nose.found();
    assert!(nose.looks());
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
