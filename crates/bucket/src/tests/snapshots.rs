//! Snapshots: of volumes that are open, closed, lost and deleted.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice as _, WriteFlags};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use testkit::single;

use super::unstable_store::{Faults, UnstableStore};
use super::volume::{
    SIZE, access, create_on, new_volume, open, open_with, run, stable, tags, write,
};
use super::{block_of, blocks};
use crate::admin::{
    CheckOptions, SnapshotOptions, check_on, create_snapshot_on, delete_on, delete_snapshot_on,
    grow_on, list_snapshots_on, status_on,
};
use crate::error::BucketError;
use crate::format::{BLOCK, RUN};
use crate::snapshot_name::SnapshotName;
use crate::store::StoreAccess;
use crate::volume::{BucketVolume, VolumeOptions};

pub(super) const COUNT: u64 = SIZE / BLOCK;

pub(super) fn name(text: &str) -> SnapshotName {
    text.parse().unwrap()
}

pub(super) async fn snapshot(access: &StoreAccess, text: &str) -> Result<(), BucketError> {
    let made = create_snapshot_on(access, &name(text), SnapshotOptions::default()).await?;
    assert_eq!(made.uri, format!("test:volume@{text}"));
    Ok(())
}

pub(super) async fn open_snapshot(
    inner: &Arc<InMemory>,
    text: &str,
) -> Result<BucketVolume, BucketError> {
    let options = VolumeOptions {
        snapshot: Some(name(text)),
        ..VolumeOptions::default()
    };
    open_with(stable(inner), &options).await
}

pub(super) async fn names(inner: &Arc<InMemory>) -> Vec<String> {
    let found = list_snapshots_on(&stable(inner)).await.unwrap();
    found.into_iter().map(|snapshot| snapshot.name).collect()
}

pub(super) async fn assert_clean(inner: &Arc<InMemory>) {
    let report = check_on(&stable(inner), CheckOptions { data: true }).await;
    let report = report.unwrap();
    assert_eq!(report.problem_count, 0, "{:?}", report.problems);
}

#[test]
fn a_snapshot_of_a_closed_volume_stays_as_it_was() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 100, 1).await.unwrap();
        write(&volume, 120, 1, 2).await.unwrap();
        volume.close().await.unwrap();
        let begin = tokio::time::Instant::now();
        snapshot(&stable(&inner), "first").await.unwrap();
        assert!(
            begin.elapsed() < Duration::from_secs(5),
            "nothing to wait for"
        );
        let volume = open(stable(&inner)).await.unwrap();
        write(&volume, 50, 100, 3).await.unwrap();
        volume.trim(blocks(0, 10)).await.unwrap();
        volume.close().await.unwrap();
        let first = open_snapshot(&inner, "first").await.unwrap();
        let mut expected = vec![0; usize::try_from(COUNT).unwrap()];
        expected[..100].fill(1);
        expected[120] = 2;
        assert_eq!(tags(&first, 0, COUNT).await, expected);
        assert!(first.geometry().read_only);
        let error = write(&first, 0, 1, 9).await.unwrap_err();
        assert!(
            error.to_string().contains("a snapshot is read-only"),
            "{error}"
        );
        let volume = open(stable(&inner)).await.unwrap();
        assert_ne!(
            first.identity(),
            volume.identity(),
            "they differ in content"
        );
        assert_eq!(tags(&volume, 0, 60).await[8..12], [0, 0, 1, 1]);
        assert_clean(&inner).await;
    });
}

/// The server is not disturbed, and what it has not flushed is in the snapshot.
#[test]
fn a_served_volume_gets_a_snapshot_by_its_server() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 100, 1).await.unwrap();
        volume.flush().await.unwrap();
        write(&volume, 110, 1, 2).await.unwrap();
        snapshot(&stable(&inner), "served").await.unwrap();
        write(&volume, 0, 120, 3).await.unwrap();
        volume.flush().await.unwrap();
        snapshot(&stable(&inner), "later").await.unwrap();
        assert_eq!(names(&inner).await, ["served", "later"]);
        let served = open_snapshot(&inner, "served").await.unwrap();
        assert_eq!(tags(&served, 98, 3).await, [1, 1, 0]);
        assert_eq!(tags(&served, 110, 1).await, [2]);
        let later = open_snapshot(&inner, "later").await.unwrap();
        assert_eq!(tags(&later, 98, 3).await, [3, 3, 3]);
        write(&volume, 0, 1, 4).await.unwrap();
        volume.flush().await.unwrap();
        volume.close().await.unwrap();
        assert_clean(&inner).await;
    });
}

/// A machine that failed left changes in the log which no table has: only a writer can bring them into a snapshot.
#[test]
fn a_volume_that_was_not_closed_is_taken_over_only_if_that_is_permitted() {
    run(async {
        let inner = Arc::new(InMemory::new());
        create_on(stable(&inner), SIZE).await.unwrap();
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let lost = open(access(store.clone())).await.unwrap();
        write(&lost, 0, 3, 1).await.unwrap();
        lost.flush().await.unwrap();
        store.cut();
        let error = snapshot(&stable(&inner), "one").await.unwrap_err();
        assert!(matches!(error, BucketError::NoAnswer { .. }), "{error}");
        assert!(error.next().unwrap().contains("--take-over"));
        assert!(names(&inner).await.is_empty());
        let how = SnapshotOptions { take_over: true };
        let made = create_snapshot_on(&stable(&inner), &name("one"), how).await;
        assert_eq!(made.unwrap().size, SIZE);
        let one = open_snapshot(&inner, "one").await.unwrap();
        assert_eq!(tags(&one, 0, 4).await, [1, 1, 1, 0]);
    });
}

/// A server that is used all the time has always a newer log than its tables.
#[test]
fn a_snapshot_of_a_volume_under_load_ends() {
    run(async {
        let (inner, volume) = new_volume().await;
        let load = async {
            for tag in 1.. {
                write(&volume, u64::from(tag) % COUNT, 1, tag)
                    .await
                    .unwrap();
                volume.flush().await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            made = async { snapshot(&stable(&inner), "busy").await } => made.unwrap(),
            () = load => unreachable!("it never ends"),
        }
        assert_clean(&inner).await;
    });
}

#[test]
fn a_snapshot_has_the_size_that_the_volume_had() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 1, 1).await.unwrap();
        snapshot(&stable(&inner), "small").await.unwrap();
        grow_on(&stable(&inner), 100 * RUN).await.unwrap();
        let larger = volume.revalidate().await.unwrap().expect("it has grown");
        let data = single(block_of(9).to_vec());
        let behind = blocks(99 * 32, 1);
        larger.write(behind, data, WriteFlags::FUA).await.unwrap();
        snapshot(&stable(&inner), "large").await.unwrap();
        let small = open_snapshot(&inner, "small").await.unwrap();
        assert_eq!(small.geometry().size, SIZE);
        assert!(
            small.revalidate().await.unwrap().is_none(),
            "it never grows"
        );
        let large = open_snapshot(&inner, "large").await.unwrap();
        assert_eq!(large.geometry().size, 100 * RUN);
        assert_eq!(tags(&large, 99 * 32, 1).await, [9]);
        volume.close().await.unwrap();
        assert_clean(&inner).await;
    });
}

#[test]
fn a_name_is_used_once_and_again_when_its_snapshot_is_deleted() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 1, 1).await.unwrap();
        snapshot(&stable(&inner), "a").await.unwrap();
        let error = snapshot(&stable(&inner), "a").await.unwrap_err();
        assert!(
            matches!(error, BucketError::SnapshotExists { .. }),
            "{error}"
        );
        write(&volume, 0, 1, 2).await.unwrap();
        volume.flush().await.unwrap();
        delete_snapshot_on(&stable(&inner), &name("a"))
            .await
            .unwrap();
        let error = delete_snapshot_on(&stable(&inner), &name("a"))
            .await
            .unwrap_err();
        assert!(matches!(error, BucketError::NoSnapshot { .. }), "{error}");
        let error = open_snapshot(&inner, "a").await.unwrap_err();
        assert_eq!(error.to_string(), "test:volume has no snapshot a");
        snapshot(&stable(&inner), "a").await.unwrap();
        let again = open_snapshot(&inner, "a").await.unwrap();
        assert_eq!(tags(&again, 0, 1).await, [2]);
        assert_eq!(status_on(&stable(&inner)).await.unwrap().snapshots, 1);
    });
}

/// Each of several commands at the same time makes its own checkpoint, and one of them has the name.
#[test]
fn one_of_several_commands_makes_the_snapshot_of_a_name() {
    run(async {
        let (inner, volume) = new_volume().await;
        volume.close().await.unwrap();
        let late = Faults {
            late: 60,
            ..Faults::default()
        };
        for round in 0..8 {
            let text = format!("r{round}");
            let commands = (0..4).map(|nth| {
                let store = UnstableStore::new(inner.clone(), late, round * 10 + nth);
                let text = text.clone();
                async move { snapshot(&access(store), &text).await }
            });
            let made = futures_util::future::join_all(commands).await;
            let count = made.iter().filter(|made| made.is_ok()).count();
            assert_eq!(count, 1, "{made:?}");
            for error in made.into_iter().filter_map(Result::err) {
                assert!(
                    matches!(error, BucketError::SnapshotExists { .. }),
                    "{error}"
                );
            }
            delete_snapshot_on(&stable(&inner), &name(&text))
                .await
                .unwrap();
            assert!(names(&inner).await.is_empty());
        }
    });
}

/// A refused delete takes the volume from no server.
#[test]
fn a_volume_with_snapshots_is_not_deleted() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 100, 1).await.unwrap();
        snapshot(&stable(&inner), "a").await.unwrap();
        snapshot(&stable(&inner), "b").await.unwrap();
        let error = delete_on(&stable(&inner)).await.unwrap_err();
        let text = "test:volume is not deleted: it has snapshots: a, b";
        assert_eq!(error.to_string(), text);
        write(&volume, 0, 1, 2).await.unwrap();
        volume.flush().await.unwrap();
        for text in ["a", "b"] {
            delete_snapshot_on(&stable(&inner), &name(text))
                .await
                .unwrap();
        }
        let deleted = delete_on(&stable(&inner)).await.unwrap();
        assert!(deleted.left.is_empty());
        let left: Vec<_> = futures_util::StreamExt::collect(inner.list(None)).await;
        assert!(left.is_empty(), "{left:?}");
    });
}

/// What a snapshot needs lies in tables and logs that the index itself needs no more: its collection must leave them.
#[test]
fn the_collection_of_the_index_leaves_what_a_snapshot_needs() {
    run(async {
        let (inner, volume) = new_volume().await;
        for nth in 0..COUNT {
            write(&volume, nth, 1, 7).await.unwrap();
        }
        snapshot(&stable(&inner), "old").await.unwrap();
        for round in 1..30_u32 {
            for nth in (0..COUNT).step_by(3) {
                write(&volume, nth, 1, 100 + round).await.unwrap();
            }
            snapshot(&stable(&inner), &format!("s{round}"))
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_secs(900)).await;
            if round > 3 {
                let gone = name(&format!("s{}", round - 2));
                delete_snapshot_on(&stable(&inner), &gone).await.unwrap();
            }
        }
        let old = open_snapshot(&inner, "old").await.unwrap();
        let expected = vec![7; usize::try_from(COUNT).unwrap()];
        assert_eq!(tags(&old, 0, COUNT).await, expected);
        volume.close().await.unwrap();
        assert_clean(&inner).await;
    });
}

/// A checkpoint that is kept for ever is a snapshot of another version of this program.
#[test]
fn a_snapshot_that_is_not_understood_keeps_the_volume() {
    run(async {
        let (inner, volume) = new_volume().await;
        volume.close().await.unwrap();
        let id = status_on(&stable(&inner)).await.unwrap().id;
        let index = Path::from(format!("lab/volume/index/{id}"));
        let admin = slatedb::admin::Admin::builder(index, inner.clone()).build();
        let options = slatedb::config::CheckpointOptions {
            name: Some("outboard-snapshot/2/x".to_owned()),
            ..Default::default()
        };
        admin.create_detached_checkpoint(&options).await.unwrap();
        assert!(names(&inner).await.is_empty());
        let error = delete_on(&stable(&inner)).await.unwrap_err();
        assert!(
            error.to_string().contains("outboard-snapshot/2/x"),
            "{error}"
        );
        let header = Path::from("lab/volume/volume/00000000000000000001");
        assert!(inner.head(&header).await.is_ok());
    });
}

/// A delete that was interrupted behind the headers, when a snapshot had been made meanwhile: what is left is no volume, and its snapshot
/// was reported.
#[test]
fn an_interrupted_delete_gives_a_volume_with_a_snapshot_its_header_back() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 100, 1).await.unwrap();
        volume.close().await.unwrap();
        let id = status_on(&stable(&inner)).await.unwrap().id;
        let header = Path::from("lab/volume/volume/00000000000000000001");
        let mark = Path::from(format!("lab/volume/deleting/{id}"));
        let interrupt = async || {
            let bytes = inner.get(&header).await.unwrap().bytes().await.unwrap();
            inner.put(&mark, bytes.into()).await.unwrap();
            inner.delete(&header).await.unwrap();
        };
        snapshot(&stable(&inner), "kept").await.unwrap();
        interrupt().await;
        let error = open_snapshot(&inner, "kept").await.unwrap_err();
        assert!(matches!(error, BucketError::NoVolume { .. }), "{error}");
        let error = delete_on(&stable(&inner)).await.unwrap_err();
        assert!(matches!(error, BucketError::HasSnapshots { .. }), "{error}");
        assert!(inner.head(&mark).await.is_err(), "the mark is gone");
        let kept = open_snapshot(&inner, "kept").await.unwrap();
        assert_eq!(tags(&kept, 98, 3).await, [1, 1, 0]);
        assert_clean(&inner).await;
        let removed = delete_snapshot_on(&stable(&inner), &name("kept")).await;
        removed.unwrap();
        interrupt().await;
        let deleted = delete_on(&stable(&inner)).await.unwrap();
        assert!(
            deleted.objects > 0 && deleted.left.is_empty(),
            "{deleted:?}"
        );
    });
}

/// The clocks of two servers differ. SlateDB publishes no table that is older than one that is there: the index was out of use with the
/// first table of a server behind the other one. Its log was written all the same, so only a snapshot needs that table.
#[test]
fn a_writer_with_a_clock_behind_that_of_the_last_table_writes_tables() {
    run(async {
        let (inner, ahead) = new_volume().await;
        // The clock of a volume passes with the runtime, and begins at the real time.
        tokio::time::sleep(Duration::from_secs(100)).await;
        ahead.close().await.unwrap();
        let behind = open(stable(&inner)).await.unwrap();
        write(&behind, 0, 1, 1).await.unwrap();
        behind.close().await.unwrap();
        let begin = tokio::time::Instant::now();
        snapshot(&stable(&inner), "a").await.unwrap();
        assert!(
            begin.elapsed() < Duration::from_secs(5),
            "its tables are there"
        );
        let behind = open(stable(&inner)).await.unwrap();
        assert_eq!(tags(&behind, 0, 1).await, [1]);
    });
}
