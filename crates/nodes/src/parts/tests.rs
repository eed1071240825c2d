//! Tests of shares and of the composed geometry.

use std::sync::Arc;

use block::{Extent, ExtentKind, Geometry, IoBufs, Node, Range, Support};
use proptest::prelude::*;
use testkit::{MemDisk, gather};

use super::geometry::compose;
use super::share::{self, Lay, Share};
use super::{PARTS_MAX, PartError, Segment, extents};
use crate::Null;

/// Shares as a stripe of `count` parts with chunks of `chunk` deals them out: whole rows.
fn dealt(count: usize, chunk: u64, rows: u64) -> Vec<Share> {
    let part = |part: usize| Share {
        part,
        within: Range::new(0, rows * chunk),
        lay: Lay {
            start: part as u64 * chunk,
            first: chunk,
            gap: (count as u64 - 1) * chunk,
            chunk,
        },
    };
    (0..count).map(part).collect()
}

/// `len` bytes that count, cut into pieces of at most `piece`.
fn counting(len: u64, piece: usize) -> IoBufs {
    let bytes: Vec<u8> = (0..len).map(|at| at.to_le_bytes()[0]).collect();
    let pieces = bytes.chunks(piece.max(1));
    pieces.map(|piece| piece.to_vec().into()).collect()
}

proptest! {
    #[test]
    fn what_was_dealt_out_is_joined_as_it_was(
        count in 1..5_usize, chunk in 1..9_u64, rows in 0..6_u64, piece in 1..20_usize,
    ) {
        let shares = dealt(count, chunk, rows);
        let data = counting(count as u64 * chunk * rows, piece);
        let cut = share::cut(&shares, &data);
        for (share, data) in shares.iter().zip(&cut) {
            prop_assert_eq!(gather(data).len() as u64, share.within.len);
        }
        prop_assert_eq!(gather(&share::join(&shares, cut)), gather(&data));
    }

    #[test]
    fn extents_of_parts_are_reported_where_their_bytes_are(
        chunk in 1..7_u64,
        kinds in prop::collection::vec(prop::collection::vec(0..3_u8, 12), 1..4),
        start in 0..1000_u64,
    ) {
        let kind = |kind: u8| {
            [ExtentKind::Data, ExtentKind::Hole, ExtentKind::Zero][usize::from(kind)]
        };
        let shares = dealt(kinds.len(), chunk, 12 / chunk);
        // One extent for each byte: they meet chunks and each other in every way.
        let answers = shares.iter().zip(&kinds).map(|(share, kinds)| {
            let bytes = (0..share.within.len).zip(kinds);
            let extent = |(at, &of): (u64, &u8)| Extent { range: Range::new(at, 1), kind: kind(of) };
            block::merge_extents(bytes.map(extent).collect())
        });
        let len = kinds.len() as u64 * (12 / chunk) * chunk;
        let joined = extents::join(Range::new(start, len), &shares, answers.collect());
        let mut expected = Vec::new();
        for (share, kinds) in shares.iter().zip(&kinds) {
            let bytes = share.runs().flatten().zip(kinds);
            expected.extend(bytes.map(|(at, &of)| (start + at as u64, kind(of))));
        }
        expected.sort_by_key(|(at, _)| *at);
        let mut told = Vec::new();
        for extent in &joined {
            told.extend((extent.range.offset..extent.range.end()).map(|at| (at, extent.kind)));
        }
        prop_assert_eq!(told, expected);
        prop_assert!(joined.windows(2).all(|pair| pair[0].kind != pair[1].kind));
    }
}

#[test]
fn nothing_is_copied_on_the_way() {
    let data = counting(48, 48);
    let shares = dealt(3, 4, 4);
    let cut = share::cut(&shares, &data);
    let source = data[0].as_ptr() as usize..data[0].as_ptr() as usize + 48;
    assert!(
        cut.iter()
            .flatten()
            .all(|piece| source.contains(&(piece.as_ptr() as usize)))
    );
    let joined = share::join(&shares, cut);
    assert!(
        joined
            .iter()
            .all(|piece| source.contains(&(piece.as_ptr() as usize)))
    );
}

#[test]
fn a_part_that_says_too_little_of_itself_is_taken_for_data() {
    let shares = [Share::single(0, Range::new(0, 10), 0)];
    let hole = Extent {
        range: Range::new(0, 4),
        kind: ExtentKind::Hole,
    };
    let joined = extents::join(Range::new(100, 10), &shares, vec![vec![hole]]);
    let told: Vec<_> = joined.iter().map(|e| (e.range, e.kind)).collect();
    let expected = [
        (Range::new(100, 4), ExtentKind::Hole),
        (Range::new(104, 6), ExtentKind::Data),
    ];
    assert_eq!(told, expected);
}

fn disk(size: u64, change: impl FnOnce(&mut Geometry)) -> Segment {
    Segment::whole(Arc::new(MemDisk::new(size).with_geometry(change)))
}

fn blocks_of(size: u64, block_size: u32) -> Segment {
    disk(size, |geometry| geometry.block_size = block_size)
}

#[test]
fn the_whole_is_as_able_as_its_weakest_part() {
    let able = disk(8192, |_| {});
    let weak = disk(8192, |geometry| {
        geometry.block_size = 512;
        geometry.preferred_block_size = 16_384;
        geometry.read_only = true;
        geometry.rotational = true;
        geometry.fua = Support::Emulated;
        geometry.trim = Support::None;
        geometry.write_zeroes = Support::Emulated;
    });
    let expected = Geometry {
        size: 16_384,
        ..weak.disk.geometry().clone()
    };
    assert_eq!(compose(&[able.clone(), weak.clone()]), Ok(expected.clone()));
    assert_eq!(compose(&[weak, able]), Ok(expected));
}

#[test]
fn one_cache_is_enough_to_need_a_flush() {
    let without = disk(8192, |geometry| {
        geometry.flush = Support::None;
        geometry.fua = Support::None;
    });
    let both = compose(&[without.clone(), disk(8192, |_| {})]).unwrap();
    assert_eq!((both.flush, both.fua), (Support::Native, Support::None));
    let neither = compose(&[without.clone(), without]).unwrap();
    assert_eq!(neither.flush, Support::None);
}

#[test]
fn the_largest_blocks_are_everybodys() {
    let whole = compose(&[blocks_of(8192, 512), blocks_of(8192, 4096)]).unwrap();
    assert_eq!(whole.block_size, 4096);
    let refused = compose(&[blocks_of(8192, 4096), blocks_of(6144, 512)]);
    let range = Range::new(0, 6144);
    let expected = PartError::Unaligned {
        number: 2,
        range,
        block_size: 4096,
        largest: 1,
    };
    assert_eq!(refused, Err(expected));
    assert_eq!(
        expected.to_string(),
        "part 2 (6144 bytes at 0) is not made of whole blocks of 4096 bytes, as part 1 needs: put \
         smaller blocks on part 1: blocks(DISK, size=512)"
    );
}

#[test]
fn parts_that_lie_nowhere_are_refused() {
    let of = |offset, len| {
        let Segment { disk, .. } = blocks_of(8192, 512);
        Segment {
            disk,
            range: Range::new(offset, len),
        }
    };
    assert_eq!(compose(&[]), Err(PartError::None));
    assert_eq!(compose(&[of(0, 512), of(512, 0)]), Err(PartError::Empty(2)));
    for range in [Range::new(8192, 512), Range::new(u64::MAX - 511, 1024)] {
        let past = compose(&[of(range.offset, range.len)]);
        let size = 8192;
        assert_eq!(
            past,
            Err(PartError::PastEnd {
                number: 1,
                range,
                size
            })
        );
    }
    assert!(matches!(
        compose(&[of(100, 512)]),
        Err(PartError::Unaligned { .. })
    ));
}

#[test]
fn more_than_a_disk_can_hold_is_refused() {
    let half: Node = Arc::new(Null::new(1 << 62));
    let halves = |count| vec![Segment::whole(half.clone()); count];
    assert!(compose(&halves(1)).is_ok());
    assert_eq!(compose(&halves(2)), Err(PartError::TooLarge));
    let small = Segment::whole(Arc::new(Null::new(1)));
    let many = vec![small; PARTS_MAX + 1];
    assert_eq!(compose(&many), Err(PartError::TooMany(PARTS_MAX + 1)));
}
