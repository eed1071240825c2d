//! The reported allocation of a disk.

use std::sync::Arc;

use block::{Extent, ExtentKind, Node, Range};
use proptest::prelude::*;
use testkit::MemDisk;

use super::super::status::{EXTENTS_MAX, collect, in_blocks, memory, next_window};
use super::on_engine;

fn extent(offset: u64, len: u64, kind: ExtentKind) -> Extent {
    let range = Range::new(offset, len);
    Extent { range, kind }
}

fn kind() -> impl Strategy<Value = ExtentKind> {
    prop_oneof![
        Just(ExtentKind::Data),
        Just(ExtentKind::Hole),
        Just(ExtentKind::Zero)
    ]
}

proptest! {
    /// For every answer of the disk: all of the range, nothing else, in blocks, and no byte called zero
    /// that the disk did not call so.
    #[test]
    fn all_of_the_range_is_reported_and_no_byte_wrongly_called_zero(
        shift in 0u32..13, first in 0u64..50, count in 1u64..200,
        lens in prop::collection::vec((0u64..30_000, kind()), 0..30),
    ) {
        let align = 1u64 << shift;
        let range = Range::new(first * align, count * align);
        // From before the range, and perhaps not to its end.
        let mut at = range.offset.saturating_sub(1000);
        let mut found = Vec::new();
        for (len, kind) in lens {
            found.push(extent(at, len, kind));
            at += len;
        }
        let told = in_blocks(&found, range, 1 << shift);
        let mut at = range.offset;
        for (nth, one) in told.iter().enumerate() {
            prop_assert_eq!(one.range.offset, at);
            prop_assert!(!one.range.is_empty() && one.range.len % align == 0);
            prop_assert!(nth == 0 || told[nth - 1].kind != one.kind, "two of a kind");
            at = one.range.end();
            if one.kind != ExtentKind::Data {
                let same: u64 = found
                    .iter()
                    .filter(|e| e.kind == one.kind && e.range.overlaps(&one.range))
                    .map(|e| e.range.end().min(at) - e.range.offset.max(one.range.offset))
                    .sum();
                prop_assert_eq!(same, one.range.len);
            }
        }
        prop_assert_eq!(at, range.end());
    }
}

#[test]
fn a_disk_of_one_kind_is_reported_in_one_extent_however_large() {
    on_engine(|| async {
        let disk: Node = Arc::new(nodes::Null::new(1 << 50));
        let all = Range::new(0, 1 << 50);
        for one in [true, false] {
            let told = collect(&disk, all, one).await.expect("told");
            assert_eq!(told, [extent(0, 1 << 50, ExtentKind::Hole)]);
        }
    });
}

#[test]
fn only_the_first_extent_is_reported_where_one_is_requested() {
    on_engine(|| async {
        let disk = Arc::new(MemDisk::new(1 << 20));
        let node: Node = disk.clone();
        let data = block::IoBufs::from_iter([bytes::Bytes::from(vec![1; 4096])]);
        let write = node.write(Range::new(8192, 4096), data, block::WriteFlags::empty());
        write.await.expect("written");
        let told = collect(&node, Range::new(512, 100_000), true).await;
        let expected = extent(512, 8192 - 512, ExtentKind::Hole);
        assert_eq!(told.expect("told"), [expected]);
        let told = collect(&node, Range::new(8192, 100), true).await;
        assert_eq!(told.expect("told"), [extent(8192, 100, ExtentKind::Data)]);
    });
}

/// CVE-2025-47711: an answer of one extent more than there was room for.
#[test]
fn an_answer_is_cut_at_its_maximum() {
    on_engine(|| async {
        // Every other sector is data.
        let sectors = EXTENTS_MAX as u64 + 1000;
        let disk = Arc::new(MemDisk::new(sectors * 512));
        let node: Node = disk.clone();
        for sector in (0..sectors).step_by(2) {
            let data = block::IoBufs::from_iter([bytes::Bytes::from_static(&[1; 512])]);
            let write = node.write(
                Range::new(sector * 512, 512),
                data,
                block::WriteFlags::empty(),
            );
            write.await.expect("written");
        }
        let all = Range::new(0, sectors * 512);
        let told = collect(&node, all, false).await.expect("told");
        assert_eq!(told.len(), EXTENTS_MAX);
        assert!(told.iter().all(|e| e.range.len == 512));
        assert!(memory(all) >= EXTENTS_MAX * size_of::<Extent>());
        // From where it was cut, the rest.
        let end = told.last().expect("some").range.end();
        let rest = collect(&node, Range::new(end, all.end() - end), false).await;
        assert_eq!(rest.expect("told").len(), 1000);
    });
}

/// A window of a gibibyte had 131,072 extents, of which the answer took a few.
#[test]
fn a_window_has_about_the_extents_that_are_wanted() {
    for extent_len in [4096, 65_536, 10 << 20] {
        let mut window = 16 << 20;
        let (mut found, mut counted) = (0, 0);
        while found < EXTENTS_MAX {
            let here = usize::try_from(window / extent_len).expect("few").max(1);
            (found, counted) = (found + here, counted + 1);
            window = next_window(window, here, EXTENTS_MAX.saturating_sub(found) + 1);
        }
        assert!(
            found <= EXTENTS_MAX * 5 / 4,
            "{found} extents of {extent_len}"
        );
        assert!(counted <= 8, "{counted} windows");
    }
    assert_eq!(next_window(u64::MAX, 1, EXTENTS_MAX), u64::MAX);
    // The last of the extents that are wanted goes on and on.
    assert_eq!(next_window(4096, 1, 1), 8 * 4096);
}
