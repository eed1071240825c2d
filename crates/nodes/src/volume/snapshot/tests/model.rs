//! Random requests on an origin and its snapshots, against one byte vector: the disks in a row are one disk, of which no
//! part may change when another one is written.

use std::sync::Arc;

use block::{Node, Range};
use proptest::prelude::*;
use testkit::{
    CrashDisk, MemDisk, Model, OpSpace, TrimLeaves, block_on, check_against_model,
    check_in_batches, ops,
};

use super::super::Origin;
use super::{BASE, SIZE, base_bytes, base_of, new_store, read_all, store, store_size};
use crate::Linear;

/// Chunks of the snapshots: different ones.
const CHUNKS: [u32; 3] = [4096, 8192, 16384];

async fn all_in_a_row(base: Node, stores: Vec<Node>) -> (Origin, Node) {
    let names = ["a", "b", "c"];
    let stores = stores.into_iter().zip(names).zip(CHUNKS);
    let stores = stores.map(|((cow, name), chunk)| store(name, cow, chunk));
    let origin = Origin::open(base, stores.collect(), false).await.unwrap();
    let mut disks = vec![origin.disk()];
    disks.extend(names.map(|name| origin.snapshot(name).unwrap()));
    let row = Linear::of_disks(disks).unwrap();
    (origin, Arc::new(row))
}

const fn space() -> OpSpace {
    OpSpace {
        size: 4 * SIZE,
        block_size: 1,
        len_max: 20_000,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_write_of_one_disk_changes_no_other_one(list in ops(space(), 0..60), garbage: bool) {
        block_on(async {
            let leaves = if garbage { TrimLeaves::Garbage } else { TrimLeaves::default() };
            let base = MemDisk::from_bytes(base_bytes(SIZE)).trims_leave(leaves);
            let stores = CHUNKS.map(|chunk| new_store(SIZE, chunk) as Node);
            let (_origin, row) = all_in_a_row(Arc::new(base), stores.to_vec()).await;
            check_against_model(&*row, &list).await.unwrap();
        });
    }

    #[test]
    fn requests_in_flight_together_change_no_other_disk(
        list in ops(space(), 0..60), width in 2_usize..16, seed: u64,
    ) {
        block_on(async {
            let base = CrashDisk::from_bytes(base_bytes(SIZE)).interleaved(seed);
            let stores = CHUNKS.map(|chunk| {
                let size = store_size(SIZE, chunk);
                Arc::new(CrashDisk::new(size).interleaved(seed ^ u64::from(chunk))) as Node
            });
            let (_origin, row) = all_in_a_row(Arc::new(base), stores.to_vec()).await;
            check_in_batches(&*row, &list, width).await.unwrap();
        });
    }

    #[test]
    fn what_was_written_is_there_when_all_is_opened_again(list in ops(space(), 0..30)) {
        block_on(async {
            let base = base_of(SIZE);
            let stores = CHUNKS.map(|chunk| new_store(SIZE, chunk) as Node);
            let (_, row) = all_in_a_row(base.clone(), stores.to_vec()).await;
            check_against_model(&*row, &list).await.unwrap();
            row.flush().await.unwrap();
            let before = read_all(&*row).await;
            drop(row);
            let (_, row) = all_in_a_row(base, stores.to_vec()).await;
            assert!(read_all(&*row).await == before);
        });
    }

    /// Snapshots come and go while the origin is written.
    #[test]
    fn snapshots_that_come_and_go_read_as_the_origin_was(
        list in ops(OpSpace { size: SIZE, block_size: 1, len_max: 20_000 }, 0..60), seed: u64,
    ) {
        block_on(async {
            let mut rng = fastrand::Rng::with_seed(seed);
            let base = CrashDisk::from_bytes(base_bytes(SIZE)).interleaved(seed);
            let origin = Origin::open(Arc::new(base), Vec::new(), false).await.unwrap();
            let disk = origin.disk();
            let mut model = Model::from_bytes(base_bytes(SIZE));
            let mut snapshots: Vec<(String, Model)> = Vec::new();
            for (index, op) in list.iter().enumerate() {
                match rng.u8(0..8) {
                    0 if snapshots.len() < 4 => {
                        let name = format!("s{index}");
                        let chunk = CHUNKS[rng.usize(0..3)];
                        let cow = new_store(SIZE, chunk);
                        origin.create_snapshot(store(&name, cow, chunk)).await.unwrap();
                        snapshots.push((name, model.clone()));
                    }
                    1 if !snapshots.is_empty() => {
                        let (name, _) = snapshots.swap_remove(rng.usize(0..snapshots.len()));
                        origin.remove_snapshot(&name).await.unwrap();
                    }
                    _ => {}
                }
                let one = std::slice::from_ref(op);
                check_against_model(&*disk, one).await.unwrap();
                if op.range().is_some() && op.changes() {
                    // Zeroing that is refused as too slow is repeated by the check.
                    model.apply(op);
                }
            }
            for (name, model) in snapshots {
                let found = read_all(&*origin.snapshot(&name).unwrap()).await;
                assert!(model.agrees(Range::new(0, SIZE), &found), "{name}");
            }
        });
    }
}

#[test]
fn a_snapshot_of_a_new_store_reads_as_the_origin() {
    block_on(async {
        let cow = new_store(SIZE, 4096);
        let origin = super::open_one(base_of(SIZE), cow.clone()).await.unwrap();
        super::write(&*origin.disk(), Range::new(5000, 9000), 1)
            .await
            .unwrap();
        let snapshot = origin.snapshot("a").unwrap();
        assert_eq!(
            read_all(&*snapshot).await,
            testkit::pattern(BASE, Range::new(0, SIZE))
        );
        let status = origin.status();
        assert_eq!((status[0].copied, status[0].chunk), (3, 4096));
        assert_eq!(&cow.snapshot()[..4], b"SnAp");
    });
}
