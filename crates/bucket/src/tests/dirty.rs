//! [`DirtyMap`] against an array of tags, and how writes are cut into blocks.

use bytes::Bytes;
use proptest::prelude::*;

use super::{block_of, blocks, tag_of};
use crate::dirty::{DirtyBlock, DirtyMap, RunPart, copy_blocks};
use crate::format::{BLOCK, RUN_BLOCKS};

const BLOCKS: u64 = 100;

/// A change: where, and a tag; 0: zeroes.
type Change = (u64, u64, u32);

fn change() -> impl Strategy<Value = Change> {
    (0..BLOCKS, 1..=BLOCKS, 0..20_u32).prop_map(|(first, count, tag)| {
        let count = count.min(BLOCKS - first);
        (first, count, if tag < 5 { 0 } else { tag })
    })
}

fn apply(map: &mut DirtyMap, (first, count, tag): Change) {
    let range = blocks(first, count);
    match tag {
        0 => RunPart::all(range).for_each(|part| map.zero(part)),
        tag => map.write(range, (0..count).map(|_| block_of(tag)).collect()),
    }
}

fn tags(map: &DirtyMap) -> Vec<Option<u32>> {
    let parts = RunPart::all(blocks(0, BLOCKS));
    let found = parts.flat_map(|part| part.blocks().map(move |block| (part.run, block)));
    let tag = |block| match block {
        DirtyBlock::Zero => 0,
        DirtyBlock::Data(data) => tag_of(&data),
    };
    found
        .map(|(run, block)| map.get(run, block).map(tag))
        .collect()
}

fn data_len(tags: &[Option<u32>]) -> u64 {
    BLOCK
        * tags
            .iter()
            .filter(|tag| tag.is_some_and(|tag| tag != 0))
            .count() as u64
}

proptest! {
    #[test]
    fn it_has_the_last_change_of_each_block(
        first in prop::collection::vec(change(), 0..12),
        second in prop::collection::vec(change(), 0..12),
    ) {
        let mut model = vec![None; 100];
        let (mut earlier, mut later) = (DirtyMap::default(), DirtyMap::default());
        for (map, changes) in [(&mut earlier, &first), (&mut later, &second)] {
            for change in changes {
                apply(map, *change);
                let begin = usize::try_from(change.0).unwrap();
                let count = usize::try_from(change.1).unwrap();
                model[begin..begin + count].fill(Some(change.2));
            }
        }
        earlier.apply(&later);
        prop_assert_eq!(tags(&earlier), &model[..]);
        prop_assert_eq!(earlier.data_len(), data_len(&model));
        prop_assert!(earlier.cost() >= earlier.data_len());
        earlier.retain_data();
        for tag in &mut model {
            *tag = tag.filter(|tag| *tag != 0);
        }
        prop_assert_eq!(tags(&earlier), &model[..]);
        prop_assert_eq!(earlier.data_len(), data_len(&model));
    }

    #[test]
    fn parts_of_a_range_are_all_of_it_in_order(first in 0..1000_u64, count in 0..500_u64) {
        let mut next = first;
        for part in RunPart::all(blocks(first, count)) {
            let begin = part.run * RUN_BLOCKS as u64 + part.first as u64;
            prop_assert_eq!(begin, next);
            prop_assert!(part.count > 0 && part.first + part.count <= RUN_BLOCKS);
            next += part.count as u64;
        }
        prop_assert_eq!(next, first + count);
    }

    #[test]
    fn a_write_in_any_slices_is_the_same_blocks(cuts in prop::collection::vec(0..20_000_usize, 0..6)) {
        let whole: Bytes = (1..=5).flat_map(|tag| block_of(tag).to_vec()).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        let slices: Vec<Bytes> = cuts.windows(2).map(|pair| whole.slice(pair[0]..pair[1])).collect();
        let found: Vec<u32> = copy_blocks(&slices).iter().map(|block| tag_of(block)).collect();
        prop_assert_eq!(found, [1, 2, 3, 4, 5]);
    }
}
