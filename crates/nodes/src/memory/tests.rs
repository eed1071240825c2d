//! Tests of `memory`.

use block::{BlockDevice, ExtentKind, Range, TryIo, WriteFlags};
use proptest::prelude::*;
use testkit::{
    OpSpace, block_on, check_against_model, check_in_batches, gather, ops, pattern, single,
};

use super::Memory;
use super::pieces::{Freeing, MemoryPieces, PIECE};

const TIB: u64 = 1 << 40;

#[test]
fn a_terabyte_costs_nothing_until_it_is_written() {
    let disk = Memory::new(TIB);
    let whole = Range::new(0, TIB);
    assert_eq!(block_on(disk.extents(whole)).unwrap().len(), 1);
    let range = Range::new(TIB / 2 - 100, 200);
    block_on(disk.write(range, single(pattern(1, range)), WriteFlags::empty())).unwrap();
    assert_eq!(disk.pieces.count(), 2);
    assert_eq!(
        gather(&block_on(disk.read(range)).unwrap()),
        pattern(1, range)
    );
    block_on(disk.trim(whole)).unwrap();
    assert_eq!(disk.pieces.count(), 0);
    assert_eq!(gather(&block_on(disk.read(range)).unwrap()), vec![0; 200]);
}

#[test]
fn what_is_never_written_refuses_each_change() {
    let disk = Memory::new(2 * PIECE).read_only();
    let piece = Range::new(0, PIECE);
    let data = pattern(1, piece);
    assert_eq!(disk.try_write(piece, &data), TryIo::WouldBlock);
    let flags = WriteFlags::empty();
    let changes = [
        block_on(disk.write(piece, single(data), flags)),
        block_on(disk.write_zeroes(piece, flags)),
        block_on(disk.trim(piece)),
    ];
    for changed in changes {
        assert_eq!(changed.unwrap_err().errno, block::Errno::NotPermitted);
    }
    assert_eq!(disk.pieces.count(), 0);
}

#[test]
fn a_part_of_a_piece_is_zeroed_and_not_freed() {
    let disk = Memory::new(4 * PIECE);
    let piece = Range::new(PIECE, PIECE);
    assert_eq!(disk.try_write(piece, &pattern(1, piece)), TryIo::Done);
    let half = Range::new(PIECE, PIECE / 2);
    block_on(disk.trim(half)).unwrap();
    assert_eq!(disk.pieces.count(), 1);
    let mut found = vec![9; piece.len_usize()];
    assert_eq!(disk.try_read(piece, &mut found), TryIo::Done);
    assert!(found[..half.len_usize()].iter().all(|&byte| byte == 0));
    assert_eq!(
        found[half.len_usize()..],
        pattern(1, piece)[half.len_usize()..]
    );
}

#[test]
fn zeroing_without_holes_keeps_what_is_allocated() {
    let disk = Memory::new(4 * PIECE);
    let piece = Range::new(0, PIECE);
    assert_eq!(disk.try_write(piece, &pattern(1, piece)), TryIo::Done);
    block_on(disk.write_zeroes(piece, WriteFlags::NO_HOLE)).unwrap();
    assert_eq!(disk.pieces.count(), 1);
    assert_eq!(gather(&block_on(disk.read(piece)).unwrap()), vec![0; 65536]);
    block_on(disk.write_zeroes(piece, WriteFlags::empty())).unwrap();
    assert_eq!(disk.pieces.count(), 0);
}

#[test]
fn zeroing_reaches_every_shard_once() {
    for pieces in [1, 255, 256, 257, 1000] {
        let range = Range::new(7 * PIECE + 1, pieces * PIECE);
        let mut shards: Vec<u64> = MemoryPieces::shards_of(range).collect();
        let asked = shards.len();
        shards.sort_unstable();
        shards.dedup();
        assert_eq!(shards.len(), asked);
        assert_eq!(asked as u64, (pieces + 1).min(256));
    }
    let all = MemoryPieces::new();
    all.write(0, &vec![1; 300 * 65536]).unwrap();
    let range = Range::new(0, 300 * PIECE);
    for shard in MemoryPieces::shards_of(range) {
        all.zero(shard, range, Freeing::Free);
    }
    assert_eq!(all.count(), 0);
}

#[test]
fn extents_are_data_where_something_was_written() {
    let disk = Memory::new(8 * PIECE);
    for piece in [2, 3, 6] {
        assert_eq!(
            disk.try_write(Range::new(piece * PIECE + 5, 1), &[1]),
            TryIo::Done
        );
    }
    let extents = block_on(disk.extents(Range::new(PIECE / 2, 6 * PIECE))).unwrap();
    let kinds: Vec<_> = extents
        .iter()
        .map(|e| (e.range.offset, e.range.end(), e.kind))
        .collect();
    let half = PIECE / 2;
    assert_eq!(
        kinds,
        [
            (half, 2 * PIECE, ExtentKind::Hole),
            (2 * PIECE, 4 * PIECE, ExtentKind::Data),
            (4 * PIECE, 6 * PIECE, ExtentKind::Hole),
            (6 * PIECE, 6 * PIECE + half, ExtentKind::Data),
        ]
    );
}

fn space() -> OpSpace {
    OpSpace {
        size: 5 * PIECE,
        block_size: 1,
        len_max: 2 * PIECE,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn memory_passes_the_model(list in ops(space(), 0..40), width in 2_usize..9) {
        block_on(check_against_model(&Memory::new(5 * PIECE), &list)).unwrap();
        block_on(check_in_batches(&Memory::new(5 * PIECE), &list, width)).unwrap();
    }
}
