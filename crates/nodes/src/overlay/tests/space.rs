//! Full stores, full disks and quotas: the write that finds no room fails, and nothing else.

use std::sync::Arc;

use block::{BlockDevice, Errno, Node, Operation, Range, WriteFlags};
use futures_util::FutureExt;
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on, pattern};

use super::super::{Overlay, OverlayError, OverlayOptions};
use super::{BASE, SIZE, SMALL, base_of, held, over, read, read_all, store_of, store_size, write};

/// Writes every chunk of 512 bytes until one fails; how many there are, and with what it failed.
async fn fill(disk: &Overlay, fill: u8) -> (u64, Errno) {
    for n in 0..SIZE / 512 {
        if let Err(error) = write(disk, Range::new(n * 512, 512), fill).await {
            return (n, error.errno);
        }
    }
    panic!("all of it fitted");
}

async fn check_filled(disk: &Overlay, count: u64) {
    for n in 0..SIZE / 512 {
        let range = Range::new(n * 512, 512);
        let fill = if n < count { 7 } else { BASE };
        assert_eq!(read(disk, range).await, pattern(fill, range), "chunk {n}");
    }
}

#[test]
fn a_full_store_fails_the_write_and_keeps_everything_else() {
    // With room for one table of 32 and a part of the next, with a table and nothing behind it, with
    // no room for the table that must follow a full one.
    for (chunks, fits) in [(40, 37), (35, 32), (34, 31), (4, 2), (3, 1)] {
        block_on(async {
            let store = Arc::new(store_of(SMALL, chunks * 512));
            let disk = over(base_of(SIZE), store.clone()).await.unwrap();
            let (count, errno) = fill(&disk, 7).await;
            assert_eq!((count, errno), (fits, Errno::NoSpace), "{chunks} chunks");
            // What is in the store is written on, what is not stays as it is.
            write(&disk, Range::new(0, 100), 7).await.unwrap();
            let wide = Range::new((count - 1) * 512, 1024);
            assert_eq!(
                write(&disk, wide, 9).await.unwrap_err().errno,
                Errno::NoSpace
            );
            check_filled(&disk, count).await;
            disk.flush().await.unwrap();
            let again = Arc::new(MemDisk::from_bytes(store.snapshot()));
            let again = over(base_of(SIZE), again).await.unwrap();
            check_filled(&again, count).await;
            assert_eq!(again.usage(), disk.usage());
            assert_eq!(again.usage().changed, count);
        });
    }
}

#[test]
fn a_quota_is_kept_to_and_may_be_raised() {
    block_on(async {
        let store = Arc::new(store_of(SMALL, store_size(SIZE, SMALL)));
        let with = async |size_max| {
            let options = OverlayOptions {
                size_max,
                ..OverlayOptions::default()
            };
            let store: Node = store.clone();
            Overlay::over(base_of(SIZE), store, options).await
        };
        let disk = with(Some(20 * 512 + 100)).await.unwrap();
        let (count, errno) = fill(&disk, 7).await;
        assert_eq!((count, errno), (18, Errno::NoSpace));
        assert_eq!((disk.usage().used, disk.usage().size), (20 * 512, 20 * 512));
        let error = write(&disk, Range::new(SIZE - 512, 512), 1)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("10240 bytes"), "{error}");
        disk.flush().await.unwrap();
        drop(disk);
        // Lowered below what is used: everything is there, nothing more goes in.
        let disk = with(Some(5 * 512)).await.unwrap();
        check_filled(&disk, 18).await;
        assert!(write(&disk, Range::new(SIZE - 512, 512), 1).await.is_err());
        drop(disk);
        let disk = with(None).await.unwrap();
        write(&disk, Range::new(0, SIZE), 3).await.unwrap();
        assert_eq!(read_all(&disk).await, pattern(3, Range::new(0, SIZE)));
        let tiny = with(Some(1024)).await.unwrap_err();
        assert!(
            matches!(tiny, OverlayError::TooSmall { needed: 1536, .. }),
            "{tiny}"
        );
    });
}

/// The disk under the store is full: its writes fail, for data and for tables.
#[test]
fn a_full_disk_fails_the_write_and_leaves_a_store_that_goes_on() {
    let data = Range::new(10 * 512, 512);
    let second_table = Range::new(34 * 512, 512);
    for (place, count) in [(data, 8), (second_table, 31)] {
        block_on(async {
            let memory = Arc::new(store_of(SMALL, store_size(SIZE, SMALL)));
            let store = FaultDisk::new(memory.clone(), 1, Vec::new());
            let disk = over(base_of(SIZE), store.clone()).await.unwrap();
            let full = Fault::new(Effect::Tear(Errno::NoSpace)).on(Operation::Write);
            store.inject(full.at(place));
            assert_eq!(fill(&disk, 7).await, (count, Errno::NoSpace));
            assert_eq!(fill(&disk, 7).await, (count, Errno::NoSpace), "and again");
            check_filled(&disk, count).await;
            disk.flush().await.unwrap();
            store.heal();
            // There is room again: no chunk was lost to the failures.
            write(&disk, Range::new(0, SIZE), 3).await.unwrap();
            disk.flush().await.unwrap();
            let again = Arc::new(MemDisk::from_bytes(memory.snapshot()));
            let again = over(base_of(SIZE), again).await.unwrap();
            assert_eq!(read_all(&again).await, pattern(3, Range::new(0, SIZE)));
        });
    }
}

#[test]
fn chunks_of_dropped_writes_are_used_again_once_the_store_has_settled() {
    block_on(async {
        let chunks = 12;
        let store = held(Arc::new(store_of(SMALL, chunks * 512)));
        let disk = over(base_of(SIZE), store.clone()).await.unwrap();
        store.hold(true);
        for n in 0..10 {
            let range = Range::new(n * 512, 512);
            let mut dropped = Box::pin(write(&disk, range, 1));
            let pending = dropped.as_mut().now_or_never();
            assert!(pending.is_none());
        }
        store.hold(false);
        // Every chunk of the store waits for a write that was abandoned.
        let mut writing = Box::pin(write(&disk, Range::new(0, 512), 2));
        assert!(writing.as_mut().now_or_never().is_none());
        store.release_all().await;
        writing.await.unwrap();
        assert_eq!(
            read(&disk, Range::new(0, 512)).await,
            pattern(2, Range::new(0, 512))
        );
        let wide = Range::new(512, 9 * 512);
        disk.write_zeroes(wide, WriteFlags::FUA).await.unwrap();
        assert_eq!(disk.usage().changed, 10);
    });
}
