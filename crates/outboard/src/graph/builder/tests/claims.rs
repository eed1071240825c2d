//! Tests of footprints, and of collisions against their plain definition.

use std::path::PathBuf;
use std::sync::Arc;

use block::Range;
use nodes::FileOptions;
use proptest::prelude::*;

use crate::graph::builder::claims::{FileClaim, FileIdentity, Footprint, Leaf, collision};
use crate::graph::error::SourceMark;
use crate::graph::syntax::Span;

fn leaf(inode: u64, read_only: bool) -> Arc<Leaf> {
    Arc::new(Leaf {
        identity: FileIdentity::File(1, inode),
        path: PathBuf::from(format!("{inode}.img")),
        mark: SourceMark {
            text: String::new(),
            span: Span::default(),
        },
        options: FileOptions {
            read_only,
            direct: false,
        },
        node: None,
    })
}

fn claim(inode: u64, offset: u64, len: u64, writes: bool) -> FileClaim {
    FileClaim {
        leaf: leaf(inode, !writes),
        range: Range::new(offset, len),
        writes,
    }
}

fn ranges(footprint: Footprint) -> Vec<(FileIdentity, u64, u64)> {
    let claims = footprint.into_claims().into_iter();
    claims
        .map(|c| (c.leaf.identity, c.range.offset, c.range.len))
        .collect()
}

#[test]
fn a_window_of_a_window_claims_only_its_bytes() {
    let disk = Footprint::of(leaf(1, false));
    let window = disk.window(Range::new(100, 50)).window(Range::new(10, 5));
    assert_eq!(ranges(window), [(FileIdentity::File(1, 1), 110, 5)]);
}

#[test]
fn a_window_over_a_border_claims_of_both_sides() {
    let mut both = Footprint::of(leaf(1, false)).window(Range::new(0, 100));
    both.add(100, Footprint::of(leaf(2, false)));
    let expected = [
        (FileIdentity::File(1, 1), 90, 10),
        (FileIdentity::File(1, 2), 0, 20),
    ];
    assert_eq!(ranges(both.window(Range::new(90, 30))), expected);
    let second = [(FileIdentity::File(1, 2), 5, 7)];
    assert_eq!(ranges(both.window(Range::new(105, 7))), second);
}

#[test]
fn what_is_scattered_is_in_every_window() {
    let striped = Footprint::of(leaf(1, false))
        .window(Range::new(0, 64))
        .scattered();
    let expected = [(FileIdentity::File(1, 1), 0, 64)];
    assert_eq!(ranges(striped.window(Range::new(5, 1))), expected);
    assert!(striped.has(FileIdentity::File(1, 1)) && !striped.has(FileIdentity::File(1, 2)));
}

#[test]
fn two_readers_never_collide_and_all_of_a_file_meets_every_part_of_it() {
    let read = Footprint::of(leaf(1, true)).into_claims();
    let both = [read[0].clone(), read[0].clone()];
    assert!(collision(&both).is_none());
    let met = [read[0].clone(), claim(1, 1 << 40, 1, true)];
    assert!(collision(&met).is_some());
}

fn any_claim() -> impl Strategy<Value = FileClaim> {
    (0..3_u64, 0..40_u64, 1..12_u64, any::<bool>())
        .prop_map(|(inode, offset, len, writes)| claim(inode, offset, len, writes))
}

proptest! {
    #[test]
    fn a_collision_is_found_if_and_only_if_there_is_one(
        claims in prop::collection::vec(any_claim(), 0..9),
    ) {
        let collide = |a: &FileClaim, b: &FileClaim| {
            a.leaf.identity == b.leaf.identity
                && (a.writes || b.writes)
                && a.range.overlaps(&b.range)
        };
        let found = collision(&claims);
        if let Some((first, second)) = found {
            prop_assert!(collide(first, second));
        }
        let mut pairs = claims
            .iter()
            .enumerate()
            .flat_map(|(n, a)| claims[..n].iter().map(move |b| (a, b)));
        prop_assert_eq!(found.is_some(), pairs.any(|(a, b)| collide(a, b)));
    }
}
