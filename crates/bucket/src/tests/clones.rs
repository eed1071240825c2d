//! Clones: of snapshots, and of snapshots of clones; what keeps their origins, and what is refused.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice as _, WriteFlags};
use futures_util::StreamExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore as _, ObjectStoreExt as _};
use testkit::single;

use super::collection::{collect_at_once, collect_twice};
use super::snapshots::{COUNT, assert_clean, name, open_snapshot, snapshot};
use super::volume::{
    SIZE, create_on, new_volume, open, open_for_reading, run, stable, tags, write,
};
use super::{block_of, blocks};
use crate::admin::{
    CheckOptions, ClonedVolume, SnapshotOptions, check_on, create_clone_on, create_snapshot_on,
    delete_on, delete_snapshot_on, ensure_clone_on, grow_on, status_on,
};
use crate::error::BucketError;
use crate::format::{RUN, VolumeHeader};
use crate::store::{StoreAccess, create_header, read_header, shares_store};
use crate::volume::BucketVolume;

pub(super) const VOLUME: &str = "lab/volume";
pub(super) const CLONE: &str = "lab/clone";

pub(super) fn at(inner: &Arc<InMemory>, folder: &str) -> StoreAccess {
    stable(inner).at(folder)
}

pub(super) async fn clone(
    origin: &StoreAccess,
    text: &str,
    folder: &str,
) -> Result<ClonedVolume, BucketError> {
    Box::pin(create_clone_on(origin, &name(text), folder)).await
}

pub(super) async fn objects(inner: &InMemory, folder: &str) -> Vec<ObjectMeta> {
    let folder = Path::from(folder);
    let listed = inner.list(Some(&folder));
    listed.map(Result::unwrap).collect().await
}

pub(super) async fn assert_clean_at(access: &StoreAccess) {
    let report = check_on(access, CheckOptions { data: true }).await;
    let report = report.unwrap();
    assert_eq!(report.problem_count, 0, "{:?}", report.problems);
}

/// A closed volume with 100 blocks of 1 in an object, one of 2 in the index, and the snapshot `a`; then 8 to 11 are 3.
async fn golden() -> Arc<InMemory> {
    let (inner, volume) = new_volume().await;
    write(&volume, 0, 100, 1).await.unwrap();
    volume.flush().await.unwrap();
    write(&volume, 120, 1, 2).await.unwrap();
    volume.close().await.unwrap();
    snapshot(&stable(&inner), "a").await.unwrap();
    let volume = open(stable(&inner)).await.unwrap();
    write(&volume, 8, 4, 3).await.unwrap();
    volume.close().await.unwrap();
    inner
}

async fn assert_golden(volume: &BucketVolume) {
    let found = tags(volume, 0, COUNT).await;
    assert!(found[..100].iter().all(|tag| *tag == 1), "{found:?}");
    assert_eq!(found[119..122], [0, 2, 0]);
}

#[test]
fn a_clone_has_the_blocks_of_its_snapshot_and_is_a_volume_of_its_own() {
    run(async {
        let inner = golden().await;
        let made = clone(&stable(&inner), "a", CLONE).await.unwrap();
        assert_eq!((made.uri.as_str(), made.size), ("test:lab/clone", SIZE));
        assert_eq!(made.origin, "test:volume@a");
        let bytes: u64 = objects(&inner, CLONE).await.iter().map(|o| o.size).sum();
        assert!(bytes < 16 << 10, "{bytes}: no data, no table");
        let access = at(&inner, CLONE);
        let unused = open_for_reading(access.clone()).await.unwrap();
        assert_golden(&unused).await;
        let first = open(access.clone()).await.unwrap();
        assert_golden(&first).await;
        let origin = open(stable(&inner)).await.unwrap();
        for (volume, tag) in [(&first, 5), (&origin, 6)] {
            write(volume, 20, 80, tag).await.unwrap();
            write(volume, 125, 1, tag).await.unwrap();
            volume.flush().await.unwrap();
        }
        assert_eq!(tags(&first, 7, 4).await, [1, 1, 1, 1]);
        assert_eq!(tags(&first, 19, 2).await, [1, 5]);
        assert_eq!(tags(&origin, 7, 4).await, [1, 3, 3, 3]);
        assert_eq!(tags(&origin, 124, 2).await, [0, 6]);
        let golden = open_snapshot(&inner, "a").await.unwrap();
        assert_golden(&golden).await;
        let identities = [first.identity(), origin.identity(), golden.identity()];
        assert!(identities[0] != identities[1] && identities[0] != identities[2]);
        first.close().await.unwrap();
        let status = status_on(&access).await.unwrap();
        assert_eq!(status.origin.as_deref(), Some("test:lab/volume@a"));
        assert_eq!((status.generation, status.data_objects), (1, 1));
        let status = status_on(&stable(&inner)).await.unwrap();
        assert_eq!(status.origin, None);
        assert_eq!(status.clones.len(), 1);
        assert_eq!(status.clones[0].uri, "test:lab/clone");
        assert_eq!(status.clones[0].snapshot, "a");
        assert_clean(&inner).await;
        assert_clean_at(&access).await;
    });
}

/// The first server does not know that it is fenced, and writes below the id of the clone that is deleted.
#[test]
fn a_clone_has_one_identity_until_it_is_made_again() {
    run(async {
        let inner = golden().await;
        let mut identities = Vec::new();
        for folder in [CLONE, "lab/other", CLONE] {
            let access = at(&inner, folder);
            let made = ensure_clone_on(&stable(&inner), &name("a"), folder).await;
            made.unwrap();
            let first = open(access.clone()).await.unwrap();
            let second = open(access.clone()).await.unwrap();
            assert_eq!(first.identity(), second.identity(), "of two servers");
            identities.push(first.identity().unwrap());
            second.close().await.unwrap();
            delete_on(&access).await.unwrap();
        }
        let [first, other, again] = identities.try_into().unwrap();
        assert!(first != other && first != again && other != again);
    });
}

/// The server of a clone is fenced by another one of the clone, and by none of its origin.
#[test]
fn a_clone_of_a_served_volume_has_its_own_writers() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 100, 1).await.unwrap();
        write(&volume, 110, 1, 2).await.unwrap();
        snapshot(&stable(&inner), "a").await.unwrap();
        clone(&stable(&inner), "a", CLONE).await.unwrap();
        let first = open(at(&inner, CLONE)).await.unwrap();
        assert_eq!(tags(&first, 98, 3).await, [1, 1, 0]);
        assert_eq!(tags(&first, 110, 2).await, [2, 0]);
        write(&first, 0, 1, 3).await.unwrap();
        first.flush().await.unwrap();
        let second = open(at(&inner, CLONE)).await.unwrap();
        write(&second, 1, 1, 4).await.unwrap();
        second.flush().await.unwrap();
        write(&first, 2, 1, 5).await.ok();
        assert!(first.flush().await.is_err(), "it has lost the clone");
        write(&volume, 2, 1, 6).await.unwrap();
        volume.flush().await.unwrap();
        assert_eq!(tags(&second, 0, 3).await, [3, 4, 1]);
        assert_eq!(tags(&volume, 0, 3).await, [1, 1, 6]);
        second.close().await.unwrap();
        assert_clean_at(&at(&inner, CLONE)).await;
    });
}

/// The generations of the two, and of the third one's writers, follow each other; also where the one in the middle had no writer.
#[test]
fn a_clone_of_a_clone_finds_the_objects_of_both_origins() {
    for has_writer in [false, true] {
        run(async {
            let inner = golden().await;
            clone(&stable(&inner), "a", CLONE).await.unwrap();
            let middle = at(&inner, CLONE);
            if has_writer {
                let volume = open(middle.clone()).await.unwrap();
                write(&volume, 40, 100, 4).await.unwrap();
                volume.close().await.unwrap();
            }
            let how = SnapshotOptions::default();
            create_snapshot_on(&middle, &name("b"), how).await.unwrap();
            clone(&middle, "b", "third").await.unwrap();
            let header = read_header(&at(&inner, "third")).await.unwrap().header;
            let paths: Vec<&str> = header.origins.iter().map(|one| one.path.as_str()).collect();
            assert_eq!(paths, [VOLUME, CLONE]);
            let third = open(at(&inner, "third")).await.unwrap();
            let after = if has_writer { 4 } else { 1 };
            assert_eq!(tags(&third, 39, 2).await, [1, after]);
            write(&third, 39, 2, 7).await.unwrap();
            third.close().await.unwrap();
            // Objects of the same generation as the third one's.
            for folder in [VOLUME, CLONE] {
                let volume = open(at(&inner, folder)).await.unwrap();
                write(&volume, 0, 100, 9).await.unwrap();
                volume.close().await.unwrap();
            }
            let third = open(at(&inner, "third")).await.unwrap();
            assert_eq!(tags(&third, 38, 4).await, [1, 7, 7, after]);
            third.close().await.unwrap();
            for folder in [VOLUME, CLONE, "third"] {
                assert_clean_at(&at(&inner, folder)).await;
            }
            let error = delete_on(&middle).await.unwrap_err();
            assert_eq!(
                error.to_string(),
                "test:lab/clone is not deleted: it has clones: test:third"
            );
            delete_on(&at(&inner, "third")).await.unwrap();
            delete_snapshot_on(&middle, &name("b")).await.unwrap();
            delete_on(&middle).await.unwrap();
            delete_snapshot_on(&stable(&inner), &name("a"))
                .await
                .unwrap();
            delete_on(&stable(&inner)).await.unwrap();
            assert_eq!(inner.list(None).count().await, 0, "nothing is left");
        });
    }
}

#[test]
fn a_snapshot_or_a_volume_with_clones_is_not_deleted() {
    run(async {
        let inner = golden().await;
        for folder in ["one", "lab/two"] {
            clone(&stable(&inner), "a", folder).await.unwrap();
        }
        snapshot(&stable(&inner), "b").await.unwrap();
        let server = open(stable(&inner)).await.unwrap();
        let error = delete_snapshot_on(&stable(&inner), &name("a")).await;
        let text = "test:volume@a is not deleted: it has clones: test:one, test:lab/two";
        assert_eq!(error.unwrap_err().to_string(), text);
        let error = delete_on(&stable(&inner)).await.unwrap_err();
        assert!(matches!(error, BucketError::HasClones { .. }), "{error}");
        assert!(error.next().unwrap().contains("bucket delete"));
        write(&server, 0, 1, 4).await.unwrap();
        server.close().await.unwrap();
        delete_snapshot_on(&stable(&inner), &name("b"))
            .await
            .unwrap();
        delete_on(&at(&inner, "one")).await.unwrap();
        let two = open(at(&inner, "lab/two")).await.unwrap();
        assert_golden(&two).await;
        two.close().await.unwrap();
        let error = delete_snapshot_on(&stable(&inner), &name("a")).await;
        assert!(
            error
                .unwrap_err()
                .to_string()
                .ends_with("clones: test:lab/two")
        );
        delete_on(&at(&inner, "lab/two")).await.unwrap();
        delete_snapshot_on(&stable(&inner), &name("a"))
            .await
            .unwrap();
        let admin = slatedb::admin::Admin::builder(
            stable(&inner)
                .of(&read_header(&stable(&inner)).await.unwrap().header)
                .names
                .index(),
            inner.clone() as Arc<dyn object_store::ObjectStore>,
        );
        let left = admin.build().list_checkpoints(None).await.unwrap();
        assert!(left.is_empty(), "a clone's checkpoints are gone: {left:?}");
        delete_on(&stable(&inner)).await.unwrap();
        assert_eq!(inner.list(None).count().await, 0);
    });
}

/// A program of before clones deletes a snapshot without a search for them: what the clone needs stays.
#[test]
fn a_clone_outlives_a_snapshot_that_another_program_deleted() {
    run(async {
        let inner = golden().await;
        clone(&stable(&inner), "a", CLONE).await.unwrap();
        let header = read_header(&stable(&inner)).await.unwrap().header;
        let access = stable(&inner).of(&header);
        let checkpoints = crate::volume::IndexCheckpoints::of(&access);
        checkpoints.remove_snapshot(&name("a")).await.unwrap();
        let volume = open(stable(&inner)).await.unwrap();
        for round in 0..20_u32 {
            write(&volume, 0, COUNT, 10 + round).await.unwrap();
            write(&volume, 3, 1, 20 + round).await.unwrap();
            volume.flush().await.unwrap();
            tokio::time::sleep(Duration::from_secs(900)).await;
        }
        volume.close().await.unwrap();
        let error = delete_on(&stable(&inner)).await.unwrap_err();
        assert!(matches!(error, BucketError::HasClones { .. }), "{error}");
        let clone = open(at(&inner, CLONE)).await.unwrap();
        assert_golden(&clone).await;
        clone.close().await.unwrap();
        delete_on(&at(&inner, CLONE)).await.unwrap();
    });
}

#[test]
fn a_clone_grows_by_itself_and_has_the_size_of_its_snapshot_before() {
    run(async {
        let inner = golden().await;
        grow_on(&stable(&inner), 50 * RUN).await.unwrap();
        clone(&stable(&inner), "a", CLONE).await.unwrap();
        let small = open(at(&inner, CLONE)).await.unwrap();
        assert_eq!(small.geometry().size, SIZE);
        grow_on(&at(&inner, CLONE), 100 * RUN).await.unwrap();
        let large = small.revalidate().await.unwrap().expect("it has grown");
        let data = single(block_of(9).to_vec());
        let behind = blocks(99 * 32, 1);
        large.write(behind, data, WriteFlags::FUA).await.unwrap();
        small.close().await.unwrap();
        let again = open(at(&inner, CLONE)).await.unwrap();
        assert_eq!(again.geometry().size, 100 * RUN);
        assert_eq!(tags(&again, 99 * 32 - 1, 2).await, [0, 9]);
        assert_golden(&again).await;
        again.close().await.unwrap();
        let header = read_header(&at(&inner, CLONE)).await.unwrap().header;
        assert_eq!(header.origins.len(), 1, "it is a clone still");
        assert_clean_at(&at(&inner, CLONE)).await;
    });
}

/// The collection of the origin's index leaves the tables that a clone needs; and a clone that has merged all of them into its own gives
/// them up, and nothing else.
#[test]
fn the_collections_of_both_indexes_leave_what_a_clone_needs() {
    run(async {
        let (inner, volume) = new_volume().await;
        for nth in 0..COUNT {
            write(&volume, nth, 1, 7).await.unwrap();
        }
        volume.flush().await.unwrap();
        write(&volume, 10, 40, 8).await.unwrap();
        snapshot(&stable(&inner), "a").await.unwrap();
        clone(&stable(&inner), "a", CLONE).await.unwrap();
        let cloned = open(at(&inner, CLONE)).await.unwrap();
        let how = SnapshotOptions::default();
        for round in 1..20_u32 {
            for (access, volume) in [(stable(&inner), &volume), (at(&inner, CLONE), &cloned)] {
                for nth in (60..COUNT).step_by(3) {
                    write(volume, nth, 1, 100 + round).await.unwrap();
                }
                // Its server writes a table for it.
                let text = name(&format!("s{round}"));
                create_snapshot_on(&access, &text, how).await.unwrap();
                delete_snapshot_on(&access, &text).await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(900)).await;
        }
        for volume in [&volume, &cloned] {
            let found = tags(volume, 0, 62).await;
            assert_eq!(found[8..12], [7, 7, 8, 8]);
            assert_eq!(found[48..], [8, 8, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 119, 7]);
        }
        cloned.close().await.unwrap();
        volume.close().await.unwrap();
        assert_clean_at(&at(&inner, CLONE)).await;
        let golden = open_snapshot(&inner, "a").await.unwrap();
        assert_eq!(tags(&golden, 60, 2).await, [7, 7]);
        golden.close().await.unwrap();
        clone(&stable(&inner), "a", "again").await.unwrap();
        let again = open(at(&inner, "again")).await.unwrap();
        assert_eq!(tags(&again, 9, 2).await, [7, 8]);
        again.close().await.unwrap();
        assert_clean(&inner).await;
    });
}

#[test]
fn a_clone_is_made_where_nothing_is_of_a_snapshot_that_is_there() {
    run(async {
        let inner = golden().await;
        let error = clone(&stable(&inner), "none", CLONE).await.unwrap_err();
        assert!(matches!(error, BucketError::NoSnapshot { .. }), "{error}");
        let error = clone(&at(&inner, "none"), "a", CLONE).await.unwrap_err();
        assert!(matches!(error, BucketError::NoVolume { .. }), "{error}");
        assert!(objects(&inner, CLONE).await.is_empty());
        create_on(at(&inner, CLONE), SIZE).await.unwrap();
        for folder in [CLONE, VOLUME] {
            let error = clone(&stable(&inner), "a", folder).await.unwrap_err();
            assert!(matches!(error, BucketError::Exists { .. }), "{error}");
        }
        let mark = Path::from("left/unfinished/00");
        inner.put(&mark, "x".into()).await.unwrap();
        let error = clone(&stable(&inner), "a", "left").await.unwrap_err();
        assert!(matches!(error, BucketError::Unfinished { .. }), "{error}");
        assert!(error.next().unwrap().contains("bucket delete"));
        assert!(status_on(&stable(&inner)).await.unwrap().clones.is_empty());
    });
}

#[test]
fn volumes_of_one_bucket_or_filesystem_share_a_store() {
    let shares =
        |one: &str, other: &str| shares_store(&one.parse().unwrap(), &other.parse().unwrap());
    assert!(shares("s3://disks/a", "s3://disks/b/c"));
    assert!(!shares("s3://disks/a", "s3://other/a"));
    assert!(!shares("s3://disks/a", "file:///disks/a"));
    assert!(shares("file:///proc/a", "file:///proc/b/c"));
    assert!(!shares("file:///proc/a", "file:///etc/a"), "a link cannot");
}

/// Two commands that are interrupted at the same moment could leave it: it was opened as a volume of zeroes.
#[test]
fn a_clone_without_its_index_is_no_volume_of_zeroes() {
    run(async {
        let inner = golden().await;
        clone(&stable(&inner), "a", CLONE).await.unwrap();
        let access = at(&inner, CLONE);
        let index = objects(&inner, "lab/clone/index").await;
        assert!(!index.is_empty());
        for object in index {
            inner.delete(&object.location).await.unwrap();
        }
        let error = open(access.clone()).await.unwrap_err();
        assert!(matches!(error, BucketError::NoRecord { .. }), "{error}");
        delete_on(&access).await.unwrap();
        assert!(objects(&inner, CLONE).await.is_empty());
        delete_snapshot_on(&stable(&inner), &name("a"))
            .await
            .unwrap();
        delete_on(&stable(&inner)).await.unwrap();
    });
}

/// An index that is that of another clone of the same snapshot but for its record is not the header's.
#[test]
fn an_index_with_the_record_of_another_volume_is_refused() {
    run(async {
        let inner = golden().await;
        clone(&stable(&inner), "a", CLONE).await.unwrap();
        let header = read_header(&at(&inner, CLONE)).await.unwrap().header;
        let mut other = header.origins[0].clone();
        other.generation += 1;
        let changed = VolumeHeader {
            origins: vec![other],
            ..header
        };
        let access = at(&inner, CLONE);
        assert!(create_header(&access, 2, &changed).await.unwrap());
        let error = open(access).await.unwrap_err();
        assert!(matches!(error, BucketError::Foreign { .. }), "{error}");
    });
}

#[test]
fn a_check_of_a_clone_finds_what_is_missing_at_its_origin() {
    run(async {
        let inner = golden().await;
        clone(&stable(&inner), "a", CLONE).await.unwrap();
        let access = at(&inner, CLONE);
        let report = check_on(&access, CheckOptions { data: true })
            .await
            .unwrap();
        assert_eq!((report.blocks, report.compared), (101, 100));
        assert_eq!((report.objects, report.unreferenced), (1, 0));
        let object = super::volume::data_object(&inner, 0).await;
        inner.delete(&object).await.unwrap();
        let report = check_on(&access, CheckOptions::default()).await.unwrap();
        assert_eq!(report.problem_count, 1);
        let problem = &report.problems[0];
        let is_named = problem.contains("is missing") && problem.contains(VOLUME);
        assert!(is_named, "{problem}");
    });
}

/// What the snapshot has is deleted neither while it is there nor while a clone is, and by no collection of the clone.
#[test]
fn a_collection_keeps_what_a_clone_has_of_its_origin() {
    run(async {
        let inner = golden().await;
        let access = at(&inner, CLONE);
        clone(&stable(&inner), "a", CLONE).await.unwrap();
        let volume = open(access.clone()).await.unwrap();
        for tag in 7..9 {
            write(&volume, 50, 70, tag).await.unwrap();
            volume.flush().await.unwrap();
        }
        volume.close().await.unwrap();
        let origin = open(stable(&inner)).await.unwrap();
        for tag in 9..11 {
            write(&origin, 0, 128, tag).await.unwrap();
            origin.flush().await.unwrap();
        }
        origin.close().await.unwrap();
        assert_eq!(collect_at_once(&inner).await.deleted, 1);
        assert_eq!(collect_twice(&access).await.deleted, 1);
        let again = open(access.clone()).await.unwrap();
        let found = tags(&again, 0, COUNT).await;
        assert!(found[..50].iter().all(|tag| *tag == 1), "{found:?}");
        assert_eq!(found[119..122], [8, 2, 0]);
        again.close().await.unwrap();
        assert_clean_at(&access).await;
        delete_on(&access).await.unwrap();
        delete_snapshot_on(&stable(&inner), &name("a"))
            .await
            .unwrap();
        assert_eq!(collect_at_once(&inner).await.deleted, 1);
        assert_clean(&inner).await;
    });
}
