//! Power cuts: what was flushed is there, and the store is never refused.

use std::sync::Arc;

use block::{BlockDevice, IoError, Node, Range, WriteFlags};
use proptest::prelude::*;
use testkit::{CrashDisk, MemDisk, Op, OpSpace, block_on, check_crashes, ops, single};

use super::super::Overlay;
use super::{
    BASE, SIZE, SMALL, base_bytes, base_of, data, layout, over, read, read_all, store_of,
    store_size, write,
};

/// Opens an overlay on two disks of zeroes or of what a cut left: the base gets its bytes and the
/// store a header of small chunks when they are new.
async fn open(disks: Vec<Node>) -> Result<Node, IoError> {
    let [base, store] = disks.try_into().expect("two disks");
    if base.read(Range::new(0, 512)).await?.concat() == [0; 512] {
        let whole = Range::new(0, base.geometry().size);
        base.write(whole, data(whole, BASE), WriteFlags::empty())
            .await?;
        base.flush().await?;
        let header = layout(SMALL).header();
        let mut sector = vec![0; 512];
        sector[..header.len()].copy_from_slice(&header);
        store
            .write(Range::new(0, 512), single(sector), WriteFlags::empty())
            .await?;
        store.flush().await?;
    }
    Ok(Arc::new(reopened(base, store).await))
}

/// A store that any power cut left is opened.
async fn reopened(base: Node, store: Node) -> Overlay {
    let opened = over(base, store).await;
    opened.unwrap_or_else(|error| panic!("a store that was cut from power is refused: {error}"))
}

/// Not whole tables only: 40 chunks of 512 bytes are one table and a part of the next.
const DISK: u64 = 20 * 1024;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_was_flushed_survives_a_power_cut(
        list in ops(OpSpace { size: DISK, block_size: 512, len_max: 9000 }, 0..14), seed: u64,
    ) {
        let sizes = [DISK, store_size(DISK, SMALL)];
        block_on(check_crashes(open, &sizes, &list, seed)).unwrap();
    }

    #[test]
    fn parts_of_chunks_survive_a_power_cut(
        list in ops(OpSpace { size: DISK, block_size: 1, len_max: 1500 }, 0..14), seed: u64,
    ) {
        let sizes = [DISK, store_size(DISK, SMALL)];
        block_on(check_crashes(open, &sizes, &list, seed)).unwrap();
    }

    #[test]
    fn a_store_that_was_being_made_is_made_again_or_there(seed: u64) {
        let space = OpSpace { size: SIZE, block_size: 512, len_max: 9000 };
        let make = async |disks: Vec<Node>| {
            let [base, store] = disks.try_into().expect("two disks");
            Ok(Arc::new(reopened(base, store).await) as Node)
        };
        let list = [
            Op::Write { range: Range::new(0, 512), fill: 1, flags: WriteFlags::FUA, now: false },
            Op::Flush,
        ];
        assert!(list.iter().all(|op| op.range().is_none_or(|range| range.end() <= space.size)));
        block_on(check_crashes(make, &[SIZE, store_size(SIZE, 4096)], &list, seed)).unwrap();
    }
}

/// Every image that a cut may leave in the middle of a flush that fills a table, and the flush after
/// it: not by seed, all of them.
#[test]
fn a_flush_over_the_end_of_a_table_can_be_cut_anywhere() {
    block_on(async {
        let image = store_of(SMALL, store_size(DISK, SMALL)).snapshot();
        let store = Arc::new(CrashDisk::from_bytes(image));
        let disk = over(base_of(DISK), store.clone()).await.unwrap();
        for n in 0..30 {
            write(&disk, Range::new(n * 512, 512), 1).await.unwrap();
        }
        disk.flush().await.unwrap();
        for n in 30..36 {
            write(&disk, Range::new(n * 512, 512), 2).await.unwrap();
        }
        let mut flush = Box::pin(disk.flush());
        let mut looked = 0;
        for image in store.crash_images(4096).unwrap() {
            check_durable(image).await;
            looked += 1;
        }
        flush.as_mut().await.unwrap();
        for image in store.crash_images(4096).unwrap() {
            let again = reopened(base_of(DISK), Arc::new(MemDisk::from_bytes(image))).await;
            assert_eq!(again.usage().changed, 36);
            assert_eq!(read_all(&again).await, read_all(&disk).await);
        }
        assert!(looked > 1, "nothing was at stake");
    });
}

/// The first 30 chunks are there for certain, and all others are the base's or what was written.
async fn check_durable(image: Vec<u8>) {
    let disk = reopened(base_of(DISK), Arc::new(MemDisk::from_bytes(image))).await;
    for n in 0..DISK / 512 {
        let range = Range::new(n * 512, 512);
        let found = read(&disk, range).await;
        let fills: &[u8] = match n {
            0..30 => &[1],
            30..36 => &[2, BASE],
            _ => &[BASE],
        };
        let any = fills
            .iter()
            .any(|&fill| found == testkit::pattern(fill, range));
        assert!(any, "chunk {n} is none of {fills:?}");
    }
}

/// A torn write of a table leaves exceptions behind its end. The kernel would find them there once
/// the table is filled up to them, when their chunks belong to others: they are cleared first.
#[test]
fn what_a_torn_write_left_behind_the_end_of_a_table_is_cleared() {
    const CHUNK: u32 = 4096;
    block_on(async {
        let store = Arc::new(store_of(CHUNK, store_size(SIZE * 16, CHUNK)));
        let base = base_of(SIZE * 16);
        let disk = over(base.clone(), store.clone()).await.unwrap();
        for n in 0..80 {
            write(&disk, Range::new(n * 4096, 4096), 1).await.unwrap();
        }
        disk.flush().await.unwrap();
        let mut torn = store.snapshot();
        // The second sector of the table was not written, the third was.
        torn[4096 + 512..4096 + 1024].fill(0);
        let torn = Arc::new(MemDisk::from_bytes(torn));
        let disk = reopened(base.clone(), torn.clone()).await;
        assert_eq!(disk.usage().changed, 32);
        let table = &torn.snapshot()[4096..8192];
        assert!(table[512..].iter().all(|&byte| byte == 0), "it was cleared");
        assert!(table[..512].iter().any(|&byte| byte != 0));
        let read_only = super::OverlayOptions {
            read_only: true,
            ..super::options(CHUNK)
        };
        let before = store.snapshot();
        Overlay::over(base, store.clone(), read_only).await.unwrap();
        assert_eq!(store.snapshot(), before, "who only reads writes nothing");
    });
}

/// The base never changes, wherever the power is cut.
#[test]
fn a_base_is_what_it_was() {
    block_on(async {
        let base = base_of(DISK);
        let store = Arc::new(store_of(SMALL, store_size(DISK, SMALL)));
        let disk = over(base.clone(), store).await.unwrap();
        let whole = Range::new(0, DISK);
        disk.write(whole, data(whole, 3), WriteFlags::FUA)
            .await
            .unwrap();
        disk.write_zeroes(whole, WriteFlags::FUA).await.unwrap();
        disk.trim(whole).await.unwrap();
        disk.flush().await.unwrap();
        assert_eq!(base.snapshot(), base_bytes(DISK));
    });
}
