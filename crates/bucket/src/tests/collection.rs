//! Collections: what is deleted and when, what snapshots keep, reads that find no object, and old manifests of a volume in a folder.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use block::BlockDevice as _;
use futures_util::StreamExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _};

use super::snapshots::{assert_clean, name, open_snapshot, snapshot};
use super::unstable_store::{Faults, UnstableStore};
use super::volume::{
    access, create_on, data_object, new_volume, open, open_for_reading, open_with, run, stable,
    tags, write,
};
use crate::admin::{CheckOptions, GcReport, GcRun, check_on, delete_on, delete_snapshot_on, gc_on};
use crate::collection_plan::AGE;
use crate::error::BucketError;
use crate::format::{BLOCK, CollectionRecord, SnapshotRecord};
use crate::store::{StoreAccess, StoreOptions, read_header};
use crate::volume::{BucketVolume, IndexCheckpoints, VolumeOptions};

/// Blocks that go into an object.
pub(super) const LARGE: u64 = 100;

/// A collection at a time of its own.
pub(super) async fn collect_at(
    access: &StoreAccess,
    since_begin: Duration,
    dry_run: bool,
) -> Result<GcReport, BucketError> {
    let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let run = GcRun {
        dry_run,
        manifest_age: None,
        clock: move || begin + since_begin,
    };
    Box::pin(gc_on(access, &run)).await
}

/// Two collections, of which the second one deletes all that the first one found: no time is left to those that use it.
pub(super) async fn collect_at_once(inner: &Arc<InMemory>) -> GcReport {
    collect_twice(&stable(inner)).await
}

/// The same of any volume.
pub(super) async fn collect_twice(access: &StoreAccess) -> GcReport {
    let first = collect_at(access, Duration::ZERO, false).await.unwrap();
    let second = collect_at(access, AGE, false).await.unwrap();
    assert!(second.deleted >= first.waiting);
    second
}

pub(super) async fn objects(inner: &InMemory) -> Vec<(Path, u64)> {
    let objects = inner.list(None);
    let objects = objects.map(|object| object.map(|object| (object.location, object.size)));
    let mut objects: Vec<_> = objects.map(Result::unwrap).collect().await;
    objects.sort();
    objects
}

/// Removes what commands left that were interrupted, as three hours do.
pub(super) async fn remove_expiring(inner: &Arc<InMemory>) {
    remove_expiring_of(&stable(inner)).await;
}

/// The same of any volume.
pub(super) async fn remove_expiring_of(access: &StoreAccess) {
    let header = read_header(access).await.unwrap().header;
    let of_volume = access.of(&header);
    let checkpoints = IndexCheckpoints::of(&of_volume);
    for checkpoint in checkpoints.all().await.unwrap() {
        if checkpoint.expire_time.is_some() {
            checkpoints.remove(&checkpoint).await.unwrap();
        }
    }
}

/// There is no record of a collection.
pub(super) async fn assert_nothing_waits(inner: &InMemory) {
    let left = objects(inner).await;
    let mut paths = left.iter().map(|(path, _)| path.as_ref());
    assert!(
        paths.all(|path| !path.starts_with("lab/volume/gc/")),
        "{left:?}"
    );
}

/// The first blocks get a tag, durably, in an object of their own.
pub(super) async fn overwrite(volume: &BucketVolume, tag: u32) {
    write(volume, 0, LARGE, tag).await.unwrap();
    volume.flush().await.unwrap();
}

/// What nothing uses in the store, by `check`, which finds no problem.
pub(super) async fn unreferenced(inner: &Arc<InMemory>) -> u64 {
    let report = check_on(&stable(inner), CheckOptions { data: true }).await;
    let report = report.unwrap();
    assert_eq!(report.problem_count, 0, "{:?}", report.problems);
    report.unreferenced
}

#[test]
fn overwritten_data_is_deleted_by_a_second_collection() {
    run(async {
        let (inner, volume) = new_volume().await;
        for tag in 1..4 {
            overwrite(&volume, tag).await;
        }
        let stable = stable(&inner);
        let at = |age| collect_at(&stable, age, false);
        let first = at(Duration::ZERO).await.unwrap();
        let bytes = LARGE * BLOCK;
        assert_eq!((first.deleted, first.waiting), (0, 2));
        assert_eq!((first.waiting_bytes, first.wait_s), (2 * bytes, 900));
        let early = at(AGE - Duration::from_millis(1)).await.unwrap();
        assert_eq!((early.deleted, early.waiting, early.wait_s), (0, 2, 1));
        assert_eq!(unreferenced(&inner).await, 2);
        // One more, which waits.
        overwrite(&volume, 4).await;
        let second = at(AGE).await.unwrap();
        assert_eq!((second.deleted, second.waiting), (2, 1));
        assert_eq!(
            (second.deleted_bytes, second.waiting_bytes),
            (2 * bytes, bytes)
        );
        assert_eq!(unreferenced(&inner).await, 1);
        let third = at(2 * AGE).await.unwrap();
        assert_eq!((third.deleted, third.waiting), (1, 0));
        assert_eq!(unreferenced(&inner).await, 0);
        assert_nothing_waits(&inner).await;
        assert_eq!(at(3 * AGE).await.unwrap().deleted, 0);
        write(&volume, 0, 1, 5).await.unwrap();
        volume.close().await.unwrap();
        let again = open(stable.clone()).await.unwrap();
        assert_eq!(tags(&again, 0, LARGE + 1).await[98..], [4, 4, 0]);
        assert_eq!(tags(&again, 0, 2).await, [5, 4]);
    });
}

#[test]
fn a_dry_run_lists_the_objects_and_changes_nothing() {
    run(async {
        let (inner, volume) = new_volume().await;
        for tag in 1..3 {
            overwrite(&volume, tag).await;
        }
        // It polls its index, and compacts.
        volume.close().await.unwrap();
        let stable = stable(&inner);
        let before = objects(&inner).await;
        let dry = collect_at(&stable, AGE, true).await.unwrap();
        assert_eq!((dry.dry_run, dry.deleted, dry.waiting), (true, 0, 1));
        assert_eq!(objects(&inner).await, before);
        collect_at(&stable, Duration::ZERO, false).await.unwrap();
        let before = objects(&inner).await;
        let dry = collect_at(&stable, AGE, true).await.unwrap();
        assert_eq!((dry.deleted, dry.deleted_bytes), (1, LARGE * BLOCK));
        assert_eq!(dry.objects.len(), 1);
        let object = &dry.objects[0];
        assert_eq!(object.name, "00000002-0000000000000000");
        assert!(object.recorded && object.wait_s == 0);
        assert_eq!(objects(&inner).await, before);
    });
}

#[test]
fn what_a_snapshot_needs_is_kept_until_it_is_deleted() {
    run(async {
        let (inner, volume) = new_volume().await;
        overwrite(&volume, 1).await;
        snapshot(&stable(&inner), "a").await.unwrap();
        overwrite(&volume, 2).await;
        snapshot(&stable(&inner), "b").await.unwrap();
        overwrite(&volume, 3).await;
        assert_eq!(collect_at_once(&inner).await.deleted, 0);
        for (text, tag) in [("a", 1), ("b", 2)] {
            let snapshot = open_snapshot(&inner, text).await.unwrap();
            assert_eq!(tags(&snapshot, 0, LARGE + 1).await[99..], [tag, 0]);
            snapshot.close().await.unwrap();
        }
        assert_clean(&inner).await;
        let a = name("a");
        delete_snapshot_on(&stable(&inner), &a).await.unwrap();
        assert_eq!(collect_at_once(&inner).await.deleted, 1);
        let b = open_snapshot(&inner, "b").await.unwrap();
        assert_eq!(tags(&b, 0, LARGE + 1).await[99..], [2, 0]);
        assert_clean(&inner).await;
        assert_eq!(tags(&volume, 0, 1).await, [3]);
    });
}

/// A checkpoint has the tables of the index and not the log behind them: it was made after the collection, which had read the log, and
/// its data was deleted.
#[test]
fn what_is_overwritten_in_the_log_alone_is_kept() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, LARGE, 1).await.unwrap();
        volume.close().await.unwrap();
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let volume = open(access(store.clone())).await.unwrap();
        overwrite(&volume, 2).await;
        store.cut();
        assert_eq!(collect_at_once(&inner).await.deleted, 0);
        let header = read_header(&stable(&inner)).await.unwrap().header;
        let of_volume = stable(&inner).of(&header);
        let checkpoints = IndexCheckpoints::of(&of_volume);
        let pending = checkpoints.create_pending().await.unwrap();
        let record = SnapshotRecord {
            name: name("late"),
            size: header.size,
        };
        let made = checkpoints.create_snapshot(&record, &pending).await;
        made.unwrap();
        let late = open_snapshot(&inner, "late").await.unwrap();
        assert_eq!(tags(&late, 0, LARGE + 1).await[99..], [1, 0]);
        assert_clean(&inner).await;
    });
}

/// Objects are written before their entries, and those of a writer that failed are left.
#[test]
fn objects_of_a_commit_under_way_are_kept_until_another_writer_has_the_volume() {
    run(async {
        let (inner, volume) = new_volume().await;
        overwrite(&volume, 1).await;
        for number in [1, 7] {
            let object = data_object(&inner, number).await;
            inner.put(&object, vec![0; 4096].into()).await.unwrap();
        }
        assert_eq!(collect_at_once(&inner).await.deleted, 0);
        let second = open(stable(&inner)).await.unwrap();
        assert_eq!(collect_at_once(&inner).await.deleted, 2);
        assert_eq!(tags(&second, 0, 1).await, [1]);
        assert_eq!(unreferenced(&inner).await, 0);
    });
}

/// It failed in a soak: a command whose store failed left its request, and a collection kept for three hours what that referred to.
#[test]
fn a_request_that_is_left_keeps_no_object_and_a_snapshot_in_the_making_does() {
    run(async {
        let (inner, volume) = new_volume().await;
        overwrite(&volume, 1).await;
        volume.close().await.unwrap();
        let access = stable(&inner);
        let access = access.of(&read_header(&access).await.unwrap().header);
        let checkpoints = IndexCheckpoints::of(&access);
        let request = checkpoints.request_flush().await.unwrap();
        let volume = open(stable(&inner)).await.unwrap();
        overwrite(&volume, 2).await;
        volume.close().await.unwrap();
        let collected = collect_at_once(&inner).await;
        assert_eq!((collected.deleted, collected.held_s), (1, 0));
        checkpoints.remove(&request).await.unwrap();

        let pending = checkpoints.create_pending().await.unwrap();
        let volume = open(stable(&inner)).await.unwrap();
        overwrite(&volume, 3).await;
        volume.close().await.unwrap();
        let collected = collect_at_once(&inner).await;
        assert_eq!(collected.deleted, 0);
        assert!(collected.held_s > 0, "{collected:?}");
        checkpoints.remove(&pending).await.unwrap();
        let collected = collect_at_once(&inner).await;
        assert_eq!((collected.deleted, collected.held_s), (1, 0));
        assert_clean(&inner).await;
    });
}

/// It failed: a reader has the index as it polled it last, up to 15 s ago, or before its machine was suspended.
#[test]
fn a_read_that_finds_no_object_scans_the_index_again() {
    run(async {
        let (inner, volume) = new_volume().await;
        overwrite(&volume, 1).await;
        let reader = open_for_reading(stable(&inner)).await.unwrap();
        overwrite(&volume, 2).await;
        assert_eq!(collect_at_once(&inner).await.deleted, 1);
        assert_eq!(tags(&reader, 0, LARGE).await, vec![2; 100]);
        // An object that is lost is an error all the same.
        let lost = data_object(&inner, 1).await;
        inner.delete(&lost).await.unwrap();
        for volume in [reader, volume] {
            let error = volume.read(super::blocks(0, 1)).await.unwrap_err();
            assert!(error.to_string().contains("000001"), "{error}");
        }
    });
}

/// A read of the writer's may take longer than a collection lets an object be: then the index has what overwrote it.
#[test]
fn a_read_of_the_writer_that_is_overtaken_by_a_collection_finds_what_was_written_since() {
    run(async {
        let inner = Arc::new(InMemory::new());
        create_on(stable(&inner), super::volume::SIZE)
            .await
            .unwrap();
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let volume = open(access(store.clone())).await.unwrap();
        overwrite(&volume, 1).await;
        let before = store.data_reads();
        let (writer, collected) = (volume.clone(), inner.clone());
        store.before_request(0, async move {
            write(&writer, 0, LARGE, 2).await.unwrap();
            writer.flush().await.unwrap();
            assert_eq!(collect_at_once(&collected).await.deleted, 1);
        });
        assert_eq!(tags(&volume, 0, LARGE).await, vec![2; 100]);
        assert!(!store.is_waiting());
        assert_eq!(store.data_reads() - before, 2, "the first was in vain");
    });
}

#[test]
fn a_volume_that_was_deleted_meanwhile_leaves_no_record() {
    run(async {
        for after in 0..200 {
            let (inner, volume) = new_volume().await;
            for tag in 1..3 {
                overwrite(&volume, tag).await;
            }
            let stable_access = stable(&inner);
            let first = collect_at(&stable_access, Duration::ZERO, false).await;
            assert_eq!(first.unwrap().waiting, 1);
            write(&volume, 0, LARGE, 3).await.unwrap();
            volume.close().await.unwrap();
            let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
            let deleted = inner.clone();
            store.before_request(after, async move {
                delete_on(&stable(&deleted)).await.unwrap();
            });
            let collected = collect_at(&access(store.clone()), AGE, false).await;
            if store.is_waiting() {
                assert!(after > 10, "{after} requests");
                let report = collected.unwrap();
                assert_eq!((report.deleted, report.waiting), (1, 1));
                delete_on(&stable_access).await.unwrap();
                assert_eq!(objects(&inner).await, []);
                return;
            }
            assert_eq!(objects(&inner).await, [], "before request {after}");
        }
        panic!("a collection has fewer requests");
    });
}

/// They were there until the volume was deleted.
#[test]
fn what_is_left_of_an_interrupted_probe_is_deleted_when_it_is_old() {
    run(async {
        let (inner, volume) = new_volume().await;
        volume.close().await.unwrap();
        let probe = Path::from("lab/volume/probe/left");
        inner.put(&probe, "a probe".into()).await.unwrap();
        let made = SystemTime::from(inner.head(&probe).await.unwrap().last_modified);
        let collect = async |age, dry_run| {
            let run = GcRun {
                dry_run,
                manifest_age: None,
                clock: move || made + age,
            };
            let access = stable(&inner);
            Box::pin(gc_on(&access, &run)).await.unwrap().probes
        };
        let second = Duration::from_secs(1);
        assert_eq!(collect(AGE - second, false).await, 0);
        assert_eq!(collect(AGE, true).await, 1, "a dry run");
        assert_eq!(collect(AGE, false).await, 1);
        assert_eq!(collect(AGE, false).await, 0);
        assert!(inner.head(&probe).await.is_err());
    });
}

#[test]
fn a_record_that_is_not_understood_stops_the_collection() {
    run(async {
        let (inner, volume) = new_volume().await;
        volume.close().await.unwrap();
        let id = crate::admin::status_on(&stable(&inner)).await.unwrap().id;
        let path = Path::from(format!("lab/volume/gc/{id}"));
        let text = String::from_utf8(CollectionRecord::default().encode()).unwrap();
        let text = text.replace("\"version\": 1", "\"version\": 2");
        inner.put(&path, text.into_bytes().into()).await.unwrap();
        let error = collect_at(&stable(&inner), AGE, false).await.unwrap_err();
        assert!(error.to_string().contains("it has version 2"), "{error}");
        delete_on(&stable(&inner)).await.unwrap();
        assert_eq!(objects(&inner).await, []);
    });
}

/// The ages of two collections are of two clocks, which must be the store's.
#[test]
fn a_store_that_cannot_be_probed_is_not_collected() {
    run(async {
        let (inner, volume) = new_volume().await;
        volume.close().await.unwrap();
        let faults = Faults {
            ignores_conditions: true,
            ..Faults::default()
        };
        let store = access(UnstableStore::new(inner.clone(), faults, 1));
        let error = collect_at(&store, AGE, false).await.unwrap_err();
        assert!(
            matches!(error, BucketError::ConditionalPut { .. }),
            "{error}"
        );
        assert_eq!(collect_at(&store, AGE, true).await.unwrap().deleted, 0);
    });
}

/// The index deletes its old manifests only where it can overwrite an object on condition, which a folder does not offer: there were
/// as many as changes.
#[test]
fn old_manifests_of_a_volume_in_a_folder_are_deleted() {
    // With real time: a file takes some.
    crate::runtime::handle().block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let uri = format!("file://{}/volume", folder.path().display());
        let uri = uri.parse().unwrap();
        let access = StoreAccess::connect(&uri, &StoreOptions::default(), true).unwrap();
        create_on(access.clone(), super::volume::SIZE)
            .await
            .unwrap();
        for tag in 1..6 {
            let volume = open(access.clone()).await.unwrap();
            write(&volume, 0, LARGE, tag).await.unwrap();
            volume.close().await.unwrap();
            if tag == 2 {
                let how = crate::admin::SnapshotOptions::default();
                let old = name("old");
                let made = crate::admin::create_snapshot_on(&access, &old, how);
                made.await.unwrap();
            }
        }
        let run = |age| GcRun {
            dry_run: false,
            manifest_age: Some(Duration::from_secs(age)),
            clock: engine::clock::wall,
        };
        assert_eq!(gc_on(&access, &run(3600)).await.unwrap().manifests, 0);
        let report = gc_on(&access, &run(0)).await.unwrap();
        assert!(report.manifests > 10, "{}", report.manifests);
        let of_old = VolumeOptions {
            snapshot: Some(name("old")),
            ..VolumeOptions::default()
        };
        let old = open_with(access.clone(), &of_old).await.unwrap();
        assert_eq!(tags(&old, 0, LARGE + 1).await[99..], [2, 0]);
        let volume = open(access.clone()).await.unwrap();
        assert_eq!(tags(&volume, 0, LARGE + 1).await[99..], [5, 0]);
        volume.close().await.unwrap();
        let checked = check_on(&access, CheckOptions { data: true }).await;
        assert_eq!(checked.unwrap().problem_count, 0);
    });
}
