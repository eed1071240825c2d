//! Opening, creating, removing: what is refused, what waits, what a read-only origin leaves alone.

use std::pin::pin;
use std::sync::Arc;

use block::{Operation, Range};
use futures_util::future::poll_immediate;
use testkit::{HeldDisk, MemDisk, block_on};

use super::super::{Origin, SnapshotError, SnapshotState, wipe_store};
use super::{CHUNK, SIZE, base_bytes, base_of, new_store, open_one, read_all, store, write};

#[test]
fn a_snapshot_is_created_when_no_write_is_in_flight_and_all_is_flushed() {
    block_on(async {
        let base = HeldDisk::new(base_of(SIZE));
        let origin = Origin::open(base.clone(), Vec::new(), false).await.unwrap();
        let disk = origin.disk();
        let early = Range::new(0, 4096);
        let mut first = pin!(write(&*disk, early, 1));
        assert!(poll_immediate(first.as_mut()).await.is_none());
        let cow = new_store(SIZE, CHUNK);
        let mut creating = pin!(origin.create_snapshot(store("a", cow, CHUNK)));
        assert!(poll_immediate(creating.as_mut()).await.is_none());
        let late = Range::new(4096, 4096);
        let mut second = pin!(write(&*disk, late, 2));
        assert!(poll_immediate(second.as_mut()).await.is_none());
        assert_eq!(base.held().len(), 1, "the second write waits above");
        base.release_all().await;
        first.await.unwrap();
        assert!(poll_immediate(creating.as_mut()).await.is_none());
        assert_eq!(base.held()[0].operation, Operation::Flush);
        base.hold(false);
        base.release_all().await;
        let snapshot = creating.await.unwrap();
        second.await.unwrap();
        let mut expected = base_bytes(SIZE);
        expected[..4096].copy_from_slice(&testkit::pattern(1, early));
        assert!(read_all(&*snapshot).await == expected);
    });
}

#[test]
fn a_creation_that_was_dropped_lets_writes_go_on() {
    block_on(async {
        let base = HeldDisk::new(base_of(SIZE));
        let origin = Origin::open(base.clone(), Vec::new(), false).await.unwrap();
        let disk = origin.disk();
        {
            let new = store("a", new_store(SIZE, CHUNK), CHUNK);
            let mut creating = pin!(origin.create_snapshot(new));
            assert!(poll_immediate(creating.as_mut()).await.is_none());
        }
        base.hold(false);
        write(&*disk, Range::new(0, 4096), 1).await.unwrap();
        assert!(origin.status().is_empty());
    });
}

#[test]
fn nothing_lands_on_the_store_of_a_snapshot_that_was_removed() {
    block_on(async {
        let cow = new_store(SIZE, CHUNK);
        let origin = open_one(base_of(SIZE), cow.clone()).await.unwrap();
        let snapshot = origin.snapshot("a").unwrap();
        write(&*origin.disk(), Range::new(0, 4096), 1)
            .await
            .unwrap();
        origin.remove_snapshot("a").await.unwrap();
        let before = cow.snapshot();
        write(&*origin.disk(), Range::new(0, SIZE), 2)
            .await
            .unwrap();
        assert!(write(&*snapshot, Range::new(0, 512), 2).await.is_err());
        assert!(snapshot.read(Range::new(0, 512)).await.is_err());
        assert!(snapshot.flush().await.is_err());
        assert!(cow.snapshot() == before);
        assert!(matches!(
            origin.snapshot("a"),
            Err(SnapshotError::NotFound { .. })
        ));
        wipe_store(&(cow.clone() as block::Node)).await.unwrap();
        origin
            .create_snapshot(store("a", cow, CHUNK))
            .await
            .unwrap();
    });
}

#[test]
fn a_removal_waits_for_the_writes_of_the_snapshot() {
    block_on(async {
        let cow = HeldDisk::new(new_store(SIZE, CHUNK));
        cow.hold(false);
        let origin = open_one(base_of(SIZE), cow.clone()).await.unwrap();
        let snapshot = origin.snapshot("a").unwrap();
        cow.hold(true);
        let mut writing = pin!(write(&*snapshot, Range::new(0, 4096), 1));
        assert!(poll_immediate(writing.as_mut()).await.is_none());
        let mut removing = pin!(origin.remove_snapshot("a"));
        assert!(poll_immediate(removing.as_mut()).await.is_none());
        cow.hold(false);
        cow.release_all().await;
        writing.await.unwrap();
        removing.await.unwrap();
    });
}

#[test]
fn a_read_only_origin_writes_nothing_and_reads_all() {
    block_on(async {
        let (base, cow, new) = (
            base_of(SIZE),
            new_store(SIZE, CHUNK),
            new_store(SIZE, CHUNK),
        );
        let origin = open_one(base.clone(), cow.clone()).await.unwrap();
        write(&*origin.disk(), Range::new(0, 4096), 1)
            .await
            .unwrap();
        origin.disk().flush().await.unwrap();
        let before = (base.snapshot(), cow.snapshot());
        drop(origin);
        let stores = vec![
            store("a", cow.clone(), CHUNK),
            store("new", new.clone(), CHUNK),
        ];
        let origin = Origin::open(base.clone(), stores, true).await.unwrap();
        assert!(origin.disk().geometry().read_only);
        assert_eq!(
            read_all(&*origin.snapshot("a").unwrap()).await,
            base_bytes(SIZE)
        );
        assert_eq!(
            read_all(&*origin.snapshot("new").unwrap()).await,
            base.snapshot()
        );
        assert!(write(&*origin.disk(), Range::new(0, 512), 2).await.is_err());
        assert!(
            write(&*origin.snapshot("a").unwrap(), Range::new(0, 512), 2)
                .await
                .is_err()
        );
        let refused = origin.create_snapshot(store("b", cow.clone(), CHUNK)).await;
        assert!(matches!(refused, Err(SnapshotError::ReadOnly)));
        assert!((base.snapshot(), cow.snapshot()) == before);
        assert!(new.snapshot().iter().all(|&byte| byte == 0));
    });
}

#[test]
fn what_cannot_be_together_is_refused_by_name() {
    block_on(async {
        let one = || store("a", new_store(SIZE, CHUNK), CHUNK);
        let twice = Origin::open(base_of(SIZE), vec![one(), one()], false).await;
        assert!(matches!(twice, Err(SnapshotError::Exists { name }) if name == "a"));
        let merging = |name: &str| super::SnapshotStore {
            merging: true,
            ..store(name, new_store(SIZE, CHUNK), CHUNK)
        };
        let both = Origin::open(base_of(SIZE), vec![merging("x"), merging("y")], false).await;
        assert!(matches!(both, Err(SnapshotError::TwoMerging { first, .. }) if first == "x"));
        let chunk = Origin::open(
            base_of(SIZE),
            vec![store("a", new_store(SIZE, CHUNK), 1000)],
            false,
        );
        assert!(matches!(
            chunk.await,
            Err(SnapshotError::Chunk { chunk: 1000, .. })
        ));
        let garbage = Arc::new(MemDisk::from_bytes(base_bytes(SIZE)));
        let before = garbage.snapshot();
        let refused = open_one(base_of(SIZE), garbage.clone()).await.unwrap_err();
        assert!(refused.to_string().starts_with("snapshot a: "), "{refused}");
        assert!(garbage.snapshot() == before);

        let origin = open_one(base_of(SIZE), new_store(SIZE, CHUNK))
            .await
            .unwrap();
        let exists = origin.create_snapshot(one()).await;
        assert!(matches!(exists, Err(SnapshotError::Exists { .. })));
        assert!(matches!(
            origin.merge_step().await,
            Err(SnapshotError::NothingToMerge)
        ));
        assert!(matches!(
            origin.remove_snapshot("b").await,
            Err(SnapshotError::NotFound { .. })
        ));
        let used = new_store(SIZE, CHUNK);
        let other = open_one(base_of(SIZE), used.clone()).await.unwrap();
        write(&*other.disk(), Range::new(0, 512), 1).await.unwrap();
        other.disk().flush().await.unwrap();
        let in_use = origin.create_snapshot(store("b", used, CHUNK)).await;
        assert!(matches!(in_use, Err(SnapshotError::NotEmpty { .. })));
    });
}

#[test]
fn the_status_counts_what_is_used() {
    block_on(async {
        let origin = open_one(base_of(SIZE), new_store(SIZE, CHUNK))
            .await
            .unwrap();
        write(&*origin.disk(), Range::new(0, 3 * 4096), 1)
            .await
            .unwrap();
        let [status] = &origin.status()[..] else {
            panic!("one snapshot");
        };
        assert_eq!(status.state, SnapshotState::Valid);
        assert_eq!((status.copied, status.used, status.total), (3, 5, 21));
        assert_eq!(status.per_mille(), 5000 / 21);
    });
}
