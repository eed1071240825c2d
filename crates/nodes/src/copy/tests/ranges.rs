//! Tests of copies of some ranges: they arrive, and nothing else of the target changes.

use std::sync::Arc;

use block::{Errno, Node, Operation, Range, Support};
use proptest::prelude::*;
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on, pattern};

use crate::copy::plan::whole_blocks;
use crate::copy::{CopyError, CopyOptions, CopyProgress, copy, verify};

const MIB: u64 = 1 << 20;

fn full(size: u64, seed: u8) -> MemDisk {
    MemDisk::from_bytes(pattern(seed, Range::new(0, size)))
}

fn options(ranges: &[Range]) -> CopyOptions {
    CopyOptions {
        in_flight: 4,
        ranges: Some(ranges.to_vec()),
        ..CopyOptions::default()
    }
}

/// Gaps and lengths, as ranges that rise and end before `size`.
fn rising(pairs: &[(u64, u64)], size: u64) -> Vec<Range> {
    let mut at = 0;
    let ranges = pairs.iter().map(|(gap, len)| {
        let start = (at + gap).min(size);
        at = (start + len).min(size);
        Range::new(start, at - start)
    });
    ranges.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ranges_are_copied_in_whole_blocks_and_the_rest_of_the_target_is_untouched(
        pairs in prop::collection::vec((0..500_000_u64, 0..700_000_u64), 0..8),
        holes in prop::collection::vec((0..500_000_u64, 0..700_000_u64), 0..4),
        sizes in (0..4_usize, 0..4_usize),
        zeroing in prop_oneof![Just(Support::None), Just(Support::Native)],
        detect_zeroes: bool,
    ) {
        let size = 3 * MIB;
        let blocks = [1, 512, 4096, 65_536];
        let (source_block, target_block) = (blocks[sizes.0], blocks[sizes.1]);
        let mut content = pattern(1, Range::new(0, size));
        for hole in rising(&holes, size) {
            content[Range::new(0, hole.offset).len_usize()..][..hole.len_usize()].fill(0);
        }
        let source = MemDisk::from_bytes(content.clone()).with_geometry(|g| g.block_size = source_block);
        let target = Arc::new(full(size, 9).with_geometry(|g| {
            g.block_size = target_block;
            g.write_zeroes = zeroing;
        }));
        let before = target.snapshot();
        let ranges = rising(&pairs, size);
        let options = CopyOptions { detect_zeroes, ..options(&ranges) };
        let nodes: (Node, Node) = (Arc::new(source), target.clone());
        let progress = CopyProgress::default();
        block_on(copy(nodes.0.clone(), nodes.1.clone(), &options, &progress)).unwrap();
        let copied = whole_blocks(&ranges, u64::from(source_block.max(target_block)), size);
        let mut expected = before;
        for range in &copied {
            let place = Range::new(0, range.offset).len_usize()..Range::new(0, range.end()).len_usize();
            expected[place.clone()].copy_from_slice(&content[place]);
        }
        prop_assert!(target.snapshot() == expected);
        let bytes: u64 = copied.iter().map(|range| range.len).sum();
        prop_assert_eq!(progress.counts().done(), bytes);
        block_on(verify(nodes.0, nodes.1, &options, &progress)).unwrap();
        prop_assert_eq!(progress.counts().verified, bytes);
    }

    #[test]
    fn whole_blocks_cover_their_ranges_and_no_block_more(
        pairs in prop::collection::vec((0..3000_u64, 0..3000_u64), 0..20), power in 0..13_u32,
    ) {
        let (size, block) = (60_000, 1 << power);
        let ranges = rising(&pairs, size);
        let whole = whole_blocks(&ranges, block, size);
        for pair in whole.windows(2) {
            prop_assert!(pair[0].end() < pair[1].offset, "joined where they meet");
        }
        // An empty range within a block covers nothing of it.
        let overlaps = |ranges: &[Range], one: Range| {
            let mut ranges = ranges.iter().filter(|range| !range.is_empty());
            ranges.any(|range| range.overlaps(&one))
        };
        for start in (0..size).step_by(1 << power) {
            let one = Range::new(start, block.min(size - start));
            prop_assert_eq!(overlaps(&whole, one), overlaps(&ranges, one), "block at {}", start);
        }
        prop_assert!(whole.iter().all(|range| !range.is_empty() && range.offset % block == 0));
    }
}

#[test]
fn an_empty_range_has_no_block() {
    let ranges = [Range::new(700, 0), Range::new(1300, 0), Range::new(2000, 0)];
    assert_eq!(whole_blocks(&ranges, 512, 2000), []);
    let ranges = [Range::new(100, 1), Range::new(1300, 0)];
    assert_eq!(whole_blocks(&ranges, 512, 2000), [Range::new(0, 512)]);
}

#[test]
fn nothing_outside_of_the_ranges_is_read_written_or_compared() {
    let ranges = [Range::new(MIB, 65_536), Range::new(5 * MIB, MIB)];
    let outside = [
        Range::new(0, MIB),
        Range::new(MIB + 65_536, 4 * MIB - 65_536),
        Range::new(6 * MIB, 2 * MIB),
    ];
    let operations = [Operation::Read, Operation::Write, Operation::WriteZeroes];
    let faults = operations.into_iter().flat_map(|operation| {
        let fault =
            move |range: &Range| Fault::new(Effect::Fail(Errno::Io)).on(operation).at(*range);
        outside.iter().map(fault)
    });
    let faults: Vec<Fault> = faults.collect();
    let source: Node = FaultDisk::new(Arc::new(full(8 * MIB, 1)), 1, faults.clone());
    let target: Node = FaultDisk::new(Arc::new(full(8 * MIB, 2)), 1, faults);
    let progress = CopyProgress::default();
    block_on(copy(
        source.clone(),
        target.clone(),
        &options(&ranges),
        &progress,
    ))
    .unwrap();
    block_on(verify(source, target, &options(&ranges), &progress)).unwrap();
    let counts = progress.counts();
    assert_eq!((counts.read, counts.written), (MIB + 65_536, MIB + 65_536));
}

#[test]
fn no_range_is_no_work_and_a_difference_in_a_range_is_found() {
    let source: Node = Arc::new(full(8 * MIB, 1));
    let target: Node = Arc::new(full(8 * MIB, 2));
    let progress = CopyProgress::default();
    let nothing = options(&[]);
    block_on(copy(source.clone(), target.clone(), &nothing, &progress)).unwrap();
    block_on(verify(source.clone(), target.clone(), &nothing, &progress)).unwrap();
    assert_eq!(progress.counts().done(), 0);
    let one = options(&[Range::new(3 * MIB + 512, 512)]);
    let error = block_on(verify(source, target, &one, &progress)).unwrap_err();
    assert!(
        matches!(error, CopyError::Differs { offset } if (3 * MIB + 512..3 * MIB + 1024).contains(&offset)),
        "{error}"
    );
}
