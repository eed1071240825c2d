//! Power cuts: an origin keeps what was flushed, and a snapshot reads as the origin was, wherever the power was cut.

use std::sync::Arc;

use block::{IoError, Node, Range, WriteFlags};
use proptest::prelude::*;
use testkit::{CrashDisk, MemDisk, OpSpace, block_on, check_crashes, ops, pattern, single};

use super::super::{Origin, SnapshotState};
use super::{BASE, CHUNK, base_bytes, read_all, store, store_size};
use crate::Linear;

/// Size of the origin: more chunks than one small table holds would need a larger one.
const DISK: u64 = 40 * 1024;
/// A disk that says whether the others hold something.
const MARK: u64 = 512;
/// Chunks of the two snapshots.
const CHUNKS: [u32; 2] = [CHUNK, 2 * CHUNK];

/// Gives the base its bytes once.
async fn fill_base(base: &Node, mark: &Node) -> Result<(), IoError> {
    let whole = Range::new(0, MARK);
    if mark.read(whole).await?.concat() != [0; 512] {
        return Ok(());
    }
    let all = Range::new(0, DISK);
    base.write(all, single(base_bytes(DISK)), WriteFlags::FUA)
        .await?;
    mark.write(whole, single(vec![1; 512]), WriteFlags::FUA)
        .await
}

/// An origin and its snapshots on what a cut left.
async fn open(disks: Vec<Node>) -> Result<Origin, IoError> {
    let [mark, base, a, b] = disks.try_into().expect("four disks");
    fill_base(&base, &mark).await?;
    let stores = vec![store("a", a, CHUNKS[0]), store("b", b, CHUNKS[1])];
    let origin = Origin::open(base, stores, false).await;
    Ok(origin.unwrap_or_else(|error| panic!("what a cut left is refused: {error}")))
}

fn sizes(room: u64) -> [u64; 4] {
    let stores = CHUNKS.map(|chunk| store_size(DISK, chunk));
    [MARK, DISK, stores[0].min(room), stores[1].min(room)]
}

/// All snapshots that are valid read as the origin was.
async fn check_snapshots(origin: &Origin) {
    for status in origin.status() {
        if status.state == SnapshotState::Valid {
            let found = read_all(&*origin.snapshot(&status.name).unwrap()).await;
            assert!(found == base_bytes(DISK), "{status:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_snapshot_reads_as_the_origin_was_after_any_power_cut(
        list in ops(OpSpace { size: DISK, block_size: 512, len_max: 12_000 }, 0..14), seed: u64,
    ) {
        let opened = async |disks| {
            let origin = open(disks).await?;
            check_snapshots(&origin).await;
            Ok(origin.disk())
        };
        block_on(check_crashes(opened, &sizes(u64::MAX), &list, seed)).unwrap();
    }

    /// Stores of few chunks are full soon: a snapshot is as it was, or invalid.
    #[test]
    fn a_snapshot_whose_store_was_full_is_invalid_after_any_power_cut(
        list in ops(OpSpace { size: DISK, block_size: 512, len_max: 12_000 }, 0..14), seed: u64,
    ) {
        let opened = async |disks| {
            let origin = open(disks).await?;
            check_snapshots(&origin).await;
            Ok(origin.disk())
        };
        block_on(check_crashes(opened, &sizes(9 * 4096), &list, seed)).unwrap();
    }

    /// Origin and snapshots are all written: what was flushed of each is there.
    #[test]
    fn what_was_flushed_of_origin_and_snapshots_survives_a_power_cut(
        list in ops(OpSpace { size: 3 * DISK, block_size: 512, len_max: 12_000 }, 0..14), seed: u64,
    ) {
        let opened = async |disks| {
            let origin = open(disks).await?;
            let mut all = vec![origin.disk()];
            all.extend(["a", "b"].map(|name| origin.snapshot(name).unwrap()));
            Ok(Arc::new(Linear::of_disks(all).unwrap()) as Node)
        };
        block_on(check_crashes(opened, &sizes(u64::MAX), &list, seed)).unwrap();
    }
}

/// Every image that a cut may leave of the first writes of two chunks: not by seed, all of them.
#[test]
fn a_first_write_can_be_cut_anywhere() {
    const SIZE: u64 = 4 * 512 * 8;
    block_on(async {
        let mut polls = 0;
        let mut images = 0;
        loop {
            let base = Arc::new(CrashDisk::from_bytes(base_bytes(SIZE)).interleaved(polls));
            let cow = CrashDisk::new(store_size(SIZE, CHUNK)).interleaved(polls + 1);
            let cow = Arc::new(cow);
            let list = vec![store("a", cow.clone(), CHUNK)];
            let origin = Origin::open(base.clone(), list, false).await.unwrap();
            let disk = origin.disk();
            let range = Range::new(4096, 1024);
            let mut writing = Box::pin(async {
                let data = single(pattern(1, range));
                disk.write(range, data, WriteFlags::empty()).await.unwrap();
                disk.flush().await.unwrap();
            });
            let mut is_done = false;
            for _ in 0..polls {
                is_done |= futures_util::future::poll_immediate(writing.as_mut())
                    .await
                    .is_some();
                if is_done {
                    break;
                }
            }
            let pairs = base.crash_images(64).unwrap().into_iter().flat_map(|base| {
                let stores = cow.crash_images(4096).unwrap();
                stores.into_iter().map(move |cow| (base.clone(), cow))
            });
            for (base, cow) in pairs {
                let list = vec![store("a", Arc::new(MemDisk::from_bytes(cow)), CHUNK)];
                let base = Arc::new(MemDisk::from_bytes(base));
                let origin = Origin::open(base, list, false).await.unwrap();
                let found = read_all(&*origin.snapshot("a").unwrap()).await;
                assert!(
                    found == pattern(BASE, Range::new(0, SIZE)),
                    "cut after {polls} polls"
                );
                images += 1;
            }
            if is_done {
                break;
            }
            polls += 1;
        }
        assert!(images > 20, "nothing was at stake");
    });
}
