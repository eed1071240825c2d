//! What is kept is what is below: changes that end, fail, are dropped, and land late.

use std::pin::pin;
use std::sync::Arc;

use block::{BlockDevice, Range, WriteFlags};
use testkit::{HeldDisk, MemDisk, block_on, gather, pattern, single};

use super::super::ReadAhead;
use super::{KIB, SIZE, WINDOW, expect, fill, others};
use crate::test_runtime::is_ready;

const PIECE: u64 = 64 * KIB;

/// A disk with a sequential reader, over one that holds requests from now on.
async fn reading() -> (Arc<MemDisk>, Arc<HeldDisk>, ReadAhead) {
    let below = Arc::new(MemDisk::new(SIZE));
    let child = HeldDisk::new(below.clone());
    child.hold(false);
    let disk = ReadAhead::new(child.clone(), WINDOW).unwrap();
    fill(&disk).await;
    for n in 0..2 {
        expect(&disk, 1, Range::new(n * 4096, 4096)).await;
    }
    child.hold(true);
    (below, child, disk)
}

/// Its next read, with the pieces that it requests held below.
async fn go_on(child: &HeldDisk, disk: &ReadAhead) {
    let mut read = pin!(expect(disk, 1, Range::new(2 * 4096, 4096)));
    assert!(!is_ready(read.as_mut()).await);
    others().await;
    assert!(child.held().len() > 1, "pieces are under way");
    child.release_oldest().await;
    read.await;
}

async fn write(disk: &ReadAhead, range: Range, fill: u8) {
    let data = single(pattern(fill, range));
    disk.write(range, data, WriteFlags::empty()).await.unwrap();
}

/// The piece that the reader has requested is read below before a write, and returned after it.
#[test]
fn a_piece_that_was_read_before_a_write_is_not_returned_to_a_read_after_it() {
    block_on(async {
        let (_, child, disk) = reading().await;
        go_on(&child, &disk).await;
        let range = Range::new(4 * 4096, 4096);
        let pieces = child.held();
        {
            let mut write = pin!(write(&disk, range, 2));
            assert!(!is_ready(write.as_mut()).await);
            child.release(pieces[0].id).await;
            others().await;
            child.hold(false);
            child.release_all().await;
            write.await;
        }
        expect(&disk, 2, range).await;
        expect(&disk, 1, Range::new(5 * 4096, 4096)).await;
    });
}

#[test]
fn no_piece_begins_where_a_change_is_under_way() {
    block_on(async {
        let (_, child, disk) = reading().await;
        let range = Range::new(PIECE - 4096, 4096);
        let mut write = pin!(write(&disk, range, 2));
        assert!(!is_ready(write.as_mut()).await);
        let mut read = pin!(expect(&disk, 1, Range::new(2 * 4096, 4096)));
        assert!(!is_ready(read.as_mut()).await);
        others().await;
        let touches = |held: &testkit::Held| {
            let is_read = held.operation == block::Operation::Read;
            is_read && held.range.is_some_and(|there| there.overlaps(&range))
        };
        assert!(!child.held().iter().any(touches));
        child.hold(false);
        child.release_all().await;
        write.await;
        read.await;
        expect(&disk, 2, range).await;
    });
}

/// The write is dropped, the reader goes on, the write lands. Had the reader's pieces been kept, the
/// old bytes would come back for a while.
#[test]
fn a_dropped_write_that_lands_late_is_seen_after_settle() {
    block_on(async {
        for begun_before in [false, true] {
            let (below, child, disk) = reading().await;
            let range = Range::new(4 * 4096, 4096);
            if begun_before {
                go_on(&child, &disk).await;
            }
            {
                let mut write = pin!(write(&disk, range, 2));
                assert!(!is_ready(write.as_mut()).await);
            }
            if !begun_before {
                let mut read = pin!(expect(&disk, 1, Range::new(2 * 4096, 4096)));
                assert!(!is_ready(read.as_mut()).await);
                others().await;
                let reads = child.held();
                for held in reads.iter().filter(|held| !held.abandoned) {
                    child.release(held.id).await;
                }
                read.await;
            }
            child.hold(false);
            child.release_all().await;
            others().await;
            disk.settle().await.unwrap();
            assert_eq!(child.late_changes(), [range]);
            let found = gather(&disk.read(range).await.unwrap());
            assert_eq!(found, below.snapshot()[4 * 4096..5 * 4096]);
            assert_eq!(found, pattern(2, range));
        }
    });
}

#[test]
fn after_a_settle_it_is_read_ahead_again_where_a_write_was_dropped() {
    block_on(async {
        let (_, child, disk) = reading().await;
        {
            let mut write = pin!(write(&disk, Range::new(4 * 4096, 4096), 1));
            assert!(!is_ready(write.as_mut()).await);
        }
        child.release_all().await;
        disk.settle().await.unwrap();
        go_on(&child, &disk).await;
        let covers =
            |held: &testkit::Held| held.range == Some(Range::new(3 * 4096, PIECE - 3 * 4096));
        assert!(child.held().iter().any(covers));
        child.hold(false);
        child.release_all().await;
    });
}

/// A server that lost a client drops its writes, and settles when it stops. Until then its other
/// clients read.
#[test]
fn where_a_write_was_dropped_it_is_read_ahead_again_once_it_has_landed() {
    block_on(async {
        let (_, child, disk) = reading().await;
        {
            let mut write = pin!(write(&disk, Range::new(4 * 4096, 4096), 1));
            assert!(!is_ready(write.as_mut()).await);
        }
        let mut read = pin!(expect(&disk, 1, Range::new(2 * 4096, 4096)));
        assert!(!is_ready(read.as_mut()).await);
        others().await;
        let piece = Range::new(3 * 4096, PIECE - 3 * 4096);
        let covers = |held: &testkit::Held| held.range == Some(piece);
        assert!(!child.held().iter().any(covers), "it would be abandoned");
        child.release_all().await;
        read.await;
        others().await;
        let next = Range::new(3 * 4096, 4096);
        let mut read = pin!(expect(&disk, 1, next));
        assert!(!is_ready(read.as_mut()).await);
        others().await;
        let ahead = Range::new(next.end(), PIECE - next.end());
        assert!(child.held().iter().any(|held| held.range == Some(ahead)));
        child.hold(false);
        child.release_all().await;
        read.await;
    });
}

#[test]
fn settle_waits_for_the_pieces_that_are_under_way() {
    block_on(async {
        let (_, child, disk) = reading().await;
        go_on(&child, &disk).await;
        let mut settle = pin!(disk.settle());
        assert!(!is_ready(settle.as_mut()).await);
        child.release_all().await;
        others().await;
        assert!(is_ready(settle.as_mut()).await);
    });
}

#[test]
fn a_write_in_line_takes_out_what_was_kept() {
    block_on(async {
        let (_, disk) = {
            let below = Arc::new(MemDisk::new(SIZE));
            let disk = ReadAhead::new(below.clone(), WINDOW).unwrap();
            (below, disk)
        };
        fill(&disk).await;
        for n in 0..4 {
            expect(&disk, 1, Range::new(n * 4096, 4096)).await;
        }
        others().await;
        let range = Range::new(4 * 4096, 4096);
        assert_eq!(
            disk.try_write(range, &pattern(2, range)),
            block::TryIo::Done
        );
        expect(&disk, 2, range).await;
        disk.trim(range).await.unwrap();
        disk.write_zeroes(range, WriteFlags::empty()).await.unwrap();
        assert_eq!(gather(&disk.read(range).await.unwrap()), vec![0; 4096]);
    });
}
