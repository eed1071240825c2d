//! Stores that are full, fail, or were marked invalid: the snapshot is lost and known to be, the origin goes on.

use std::sync::Arc;

use block::{Errno, Operation, Range, WriteFlags};
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on, pattern};

use super::super::{Origin, SnapshotError, SnapshotState};
use super::{CHUNK, SIZE, base_of, new_store, open_one, read_all, store, write};

/// A store of four chunks of data.
fn small_store() -> Arc<MemDisk> {
    Arc::new(MemDisk::new(6 * 4096))
}

fn is_invalid(origin: &Origin) -> bool {
    matches!(origin.status()[0].state, SnapshotState::Invalid(_))
}

#[test]
fn a_full_store_costs_its_snapshot_and_not_the_write() {
    block_on(async {
        let (base, cow) = (base_of(SIZE), small_store());
        let origin = open_one(base.clone(), cow.clone()).await.unwrap();
        let (disk, snapshot) = (origin.disk(), origin.snapshot("a").unwrap());
        for n in 0..4 {
            write(&*disk, Range::new(n * 4096, 4096), 1).await.unwrap();
        }
        assert!(!is_invalid(&origin));
        assert_eq!(read_all(&*snapshot).await, super::base_bytes(SIZE));
        write(&*disk, Range::new(4 * 4096, 4096), 1).await.unwrap();
        assert!(is_invalid(&origin));
        disk.flush().await.unwrap();
        let error = snapshot.read(Range::new(0, 512)).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        let error = write(&*snapshot, Range::new(0, 512), 3).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        assert!(snapshot.flush().await.is_err());
        assert_eq!(
            cow.snapshot()[4..8],
            [0; 4],
            "the header says that it is invalid"
        );
        for n in 0..SIZE / 4096 {
            write(&*disk, Range::new(n * 4096, 4096), 2).await.unwrap();
        }
        assert_eq!(read_all(&*disk).await, pattern_of_chunks(2));

        disk.flush().await.unwrap();
        drop((disk, snapshot));
        let origin = open_one(base, cow).await.unwrap();
        assert!(is_invalid(&origin));
        let snapshot = origin.snapshot("a").unwrap();
        let error = snapshot.read(Range::new(0, 512)).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        write(&*origin.disk(), Range::new(0, 4096), 5)
            .await
            .unwrap();
        origin.remove_snapshot("a").await.unwrap();
        assert!(origin.status().is_empty());
    });
}

fn pattern_of_chunks(fill: u8) -> Vec<u8> {
    pattern(fill, Range::new(0, SIZE))
}

#[test]
fn another_snapshot_of_the_origin_stays_valid() {
    block_on(async {
        let stores = vec![
            store("small", small_store(), CHUNK),
            store("large", new_store(SIZE, CHUNK), CHUNK),
        ];
        let origin = Origin::open(base_of(SIZE), stores, false).await.unwrap();
        write(&*origin.disk(), Range::new(0, SIZE), 1)
            .await
            .unwrap();
        let status = origin.status();
        assert!(matches!(status[0].state, SnapshotState::Invalid(_)));
        assert_eq!(status[1].state, SnapshotState::Valid);
        let large = origin.snapshot("large").unwrap();
        assert_eq!(read_all(&*large).await, super::base_bytes(SIZE));
    });
}

#[test]
fn a_write_of_the_snapshot_that_finds_no_room_fails_alone() {
    block_on(async {
        let origin = open_one(base_of(SIZE), small_store()).await.unwrap();
        let snapshot = origin.snapshot("a").unwrap();
        let error = write(&*snapshot, Range::new(0, 5 * 4096), 1)
            .await
            .unwrap_err();
        assert_eq!(error.errno, Errno::NoSpace);
        assert!(!is_invalid(&origin));
        assert_eq!(read_all(&*snapshot).await, super::base_bytes(SIZE));
    });
}

#[test]
fn a_store_that_fails_costs_its_snapshot_and_not_the_write() {
    for operation in [Operation::Write, Operation::Flush] {
        block_on(async {
            // Opening flushes three times and writes twice.
            let fault = Fault::new(Effect::Fail(Errno::Io)).on(operation).after(3);
            let cow = FaultDisk::new(new_store(SIZE, CHUNK), 1, vec![fault]);
            let origin = open_one(base_of(SIZE), cow).await.unwrap();
            let disk = origin.disk();
            for n in 0..4 {
                write(&*disk, Range::new(n * 4096, 4096), 1).await.unwrap();
            }
            disk.flush().await.unwrap();
            disk.settle().await.unwrap();
            assert!(is_invalid(&origin));
            let snapshot = origin.snapshot("a").unwrap();
            assert!(snapshot.read(Range::new(0, 512)).await.is_err());
        });
    }
}

#[test]
fn an_origin_that_cannot_be_read_costs_the_snapshot_too() {
    block_on(async {
        let bad = Fault::new(Effect::Fail(Errno::Io))
            .on(Operation::Read)
            .at(Range::new(0, 512));
        let base = FaultDisk::new(base_of(SIZE), 1, vec![bad]);
        let origin = open_one(base, new_store(SIZE, CHUNK)).await.unwrap();
        write(&*origin.disk(), Range::new(4096, 4096), 1)
            .await
            .unwrap();
        assert!(!is_invalid(&origin));
        write(&*origin.disk(), Range::new(0, 4096), 1)
            .await
            .unwrap();
        assert!(is_invalid(&origin));
    });
}

#[test]
fn a_failed_flush_of_the_origin_stays_failed() {
    block_on(async {
        let fault = Fault::new(Effect::Fail(Errno::Io))
            .on(Operation::Flush)
            .times(1);
        let base = FaultDisk::new(base_of(SIZE), 1, vec![fault]);
        let origin = open_one(base, new_store(SIZE, CHUNK)).await.unwrap();
        let disk = origin.disk();
        write(&*disk, Range::new(0, 4096), 1).await.unwrap();
        assert!(disk.flush().await.is_err());
        assert!(disk.flush().await.is_err());
        let new = store("b", new_store(SIZE, CHUNK), CHUNK);
        let refused = origin.create_snapshot(new).await.unwrap_err();
        assert!(matches!(refused, SnapshotError::Origin(_)));
        write(&*disk, Range::new(0, 4096), 2).await.unwrap();
    });
}

#[test]
fn zeroes_and_trims_are_preserved_like_writes() {
    block_on(async {
        let origin = open_one(base_of(SIZE), new_store(SIZE, CHUNK))
            .await
            .unwrap();
        let (disk, snapshot) = (origin.disk(), origin.snapshot("a").unwrap());
        disk.write_zeroes(Range::new(100, 5000), WriteFlags::empty())
            .await
            .unwrap();
        disk.trim(Range::new(20_000, 30_000)).await.unwrap();
        assert_eq!(read_all(&*snapshot).await, super::base_bytes(SIZE));
    });
}

/// What was acknowledged and cannot be written below is reported by every later flush.
#[test]
fn a_buffered_write_that_fails_below_fails_every_flush() {
    block_on(async {
        let fault = Fault::new(Effect::Fail(Errno::NoSpace))
            .on(Operation::Write)
            .times(1);
        let base = FaultDisk::new(base_of(SIZE), 1, vec![fault]);
        let origin = open_one(base, new_store(SIZE, CHUNK)).await.unwrap();
        let disk = origin.disk();
        write(&*disk, Range::new(0, 4096), 1).await.unwrap();
        for _ in 0..2 {
            assert_eq!(disk.flush().await.unwrap_err().errno, Errno::NoSpace);
        }
        let snapshot = origin.snapshot("a").unwrap();
        assert_eq!(read_all(&*snapshot).await, super::base_bytes(SIZE));
    });
}

/// The extents of the base are looked up before a trim of the origin, which makes a hole of a chunk that the snapshot
/// still has.
#[test]
fn a_snapshot_is_zeroed_where_its_origin_became_a_hole() {
    block_on(async {
        let base = testkit::HeldDisk::new(base_of(SIZE));
        base.hold(false);
        let origin = open_one(base.clone(), new_store(SIZE, CHUNK))
            .await
            .unwrap();
        let (disk, snapshot) = (origin.disk(), origin.snapshot("a").unwrap());
        let range = Range::new(0, 4096);
        base.hold(true);
        let mut zeroing = std::pin::pin!(snapshot.write_zeroes(range, WriteFlags::empty()));
        assert!(
            futures_util::future::poll_immediate(zeroing.as_mut())
                .await
                .is_none()
        );
        base.hold(false);
        disk.write_zeroes(range, WriteFlags::empty()).await.unwrap();
        base.release_all().await;
        zeroing.await.unwrap();
        assert_eq!(super::read(&*snapshot, range).await, vec![0; 4096]);
    });
}
