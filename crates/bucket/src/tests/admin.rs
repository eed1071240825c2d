//! The commands: volumes that are made, shown, grown, checked and deleted.

use std::sync::Arc;

use block::BlockDevice as _;
use futures_util::StreamExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use super::unstable_store::{Faults, UnstableStore};
use super::volume::{
    SIZE, access, bytes_of, create_on, data_object, new_volume, open, run, stable, tags, write,
};
use crate::admin::{CheckOptions, check_on, delete_on, grow_on, status_on};
use crate::error::BucketError;
use crate::format::{BLOCK, RUN};
use crate::store::{StoreAccess, StoreOptions, probe};

#[test]
fn a_volume_is_made_only_where_nothing_is() {
    run(async {
        let inner = Arc::new(InMemory::new());
        let created = create_on(stable(&inner), SIZE).await.unwrap();
        assert_eq!((created.size, created.id.len()), (SIZE, 32));
        let error = create_on(stable(&inner), SIZE).await.unwrap_err();
        assert!(matches!(error, BucketError::Exists { .. }), "{error}");
    });
}

#[test]
fn a_place_without_a_volume_is_named() {
    run(async {
        let error = open(stable(&Arc::new(InMemory::new()))).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no volume at test:volume");
        assert!(error.next().is_some());
    });
}

#[test]
fn the_status_has_what_is_allocated_and_what_the_store_has() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 100, 1).await.unwrap();
        volume.flush().await.unwrap();
        write(&volume, 0, 50, 0).await.unwrap();
        volume.trim(super::blocks(60, 10)).await.unwrap();
        volume.flush().await.unwrap();
        let status = status_on(&stable(&inner)).await.unwrap();
        assert_eq!(status.size, SIZE);
        assert_eq!(status.allocated, 90 * BLOCK);
        assert_eq!(status.generation, 2);
        assert_eq!((status.data_objects, status.data_bytes), (1, 100 * BLOCK));
        assert!(status.index_objects > 0 && status.index_bytes > 0);
        volume.close().await.unwrap();
    });
}

#[test]
fn a_volume_grows_while_it_is_used_and_never_shrinks() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 1, 1).await.unwrap();
        assert!(volume.revalidate().await.unwrap().is_none());
        let grown = grow_on(&stable(&inner), 100 * RUN).await.unwrap();
        assert_eq!((grown.size_before, grown.size), (SIZE, 100 * RUN));
        let larger = volume.revalidate().await.unwrap().expect("it has grown");
        assert_eq!(larger.geometry().size, 100 * RUN);
        let behind = super::blocks(99 * 32, 1);
        let data = testkit::single(super::block_of(9).to_vec());
        larger
            .write(behind, data, block::WriteFlags::FUA)
            .await
            .unwrap();
        volume.close().await.unwrap();
        let error = grow_on(&stable(&inner), SIZE).await.unwrap_err();
        assert!(matches!(error, BucketError::Shrink { .. }), "{error}");
        let again = open(stable(&inner)).await.unwrap();
        assert_eq!(again.geometry().size, 100 * RUN);
        assert_eq!(tags(&again, 99 * 32, 1).await, [9]);
    });
}

#[test]
fn a_deleted_volume_leaves_what_is_not_its_own() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 100, 1).await.unwrap();
        volume.flush().await.unwrap();
        let foreign = Path::from("lab/volume/notes.txt");
        inner.put(&foreign, "mine".into()).await.unwrap();
        let other = Path::from("lab/volume2/x");
        inner.put(&other, "mine".into()).await.unwrap();
        let deleted = delete_on(&stable(&inner)).await.unwrap();
        assert!(deleted.objects > 3 && deleted.bytes > 100 * BLOCK);
        assert_eq!(deleted.left, ["lab/volume/notes.txt"]);
        let left: Vec<_> = futures_util::StreamExt::collect(inner.list(None)).await;
        assert_eq!(left.len(), 2, "{left:?}");
        let error = delete_on(&stable(&inner)).await.unwrap_err();
        assert!(matches!(error, BucketError::NoVolume { .. }), "{error}");
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert!(
            volume.read(super::blocks(0, 1)).await.is_err(),
            "it finds that it lost it"
        );
    });
}

/// A server that has a deleted volume open does nothing to another one that was made in its place.
#[test]
fn a_volume_in_the_place_of_a_deleted_one_is_its_own() {
    run(async {
        let (inner, old) = new_volume().await;
        delete_on(&stable(&inner)).await.unwrap();
        create_on(stable(&inner), SIZE).await.unwrap();
        let new = open(stable(&inner)).await.unwrap();
        for nth in 0..10 {
            write(&old, nth, 1, 1).await.ok();
            old.flush().await.ok();
            write(&new, nth, 1, 2).await.unwrap();
            new.flush().await.unwrap();
        }
        assert_eq!(tags(&new, 0, 10).await, [2; 10]);
        new.close().await.unwrap();
        let again = open(stable(&inner)).await.unwrap();
        assert_eq!(tags(&again, 0, 10).await, [2; 10]);
    });
}

#[test]
fn a_check_finds_what_is_missing_short_or_changed() {
    run(async {
        let (inner, volume) = new_volume().await;
        for nth in 0..3 {
            write(&volume, nth, 100, 1).await.unwrap();
            volume.flush().await.unwrap();
        }
        volume.close().await.unwrap();
        let check = async |data| {
            check_on(&stable(&inner), CheckOptions { data })
                .await
                .unwrap()
        };
        let clean = check(true).await;
        assert_eq!(
            (clean.problem_count, clean.blocks, clean.compared),
            (0, 102, 102)
        );
        assert_eq!(clean.objects + clean.unreferenced, 3);
        let object = data_object(&inner, 2).await;
        let mut bytes = bytes_of(&inner, &object).await;
        bytes[5] ^= 1;
        bytes[4096 * 7] ^= 1;
        inner.put(&object, bytes.clone().into()).await.unwrap();
        assert_eq!(check(false).await.problem_count, 0);
        let changed = check(true).await;
        assert_eq!(changed.problem_count, 2, "{:?}", changed.problems);
        for (problem, block) in changed.problems.iter().zip([2, 9]) {
            let begin = format!("the data at {}: ", block * BLOCK);
            assert!(problem.starts_with(&begin), "{problem}");
        }
        bytes.truncate(50 * 4096);
        inner.put(&object, bytes.into()).await.unwrap();
        assert_eq!(check(false).await.problem_count, 1);
        inner.delete(&object).await.unwrap();
        let missing = check(false).await;
        assert!(
            missing.problems[0].contains("is missing"),
            "{:?}",
            missing.problems
        );
    });
}

/// Data that lies together is read together: a request for each run would take 15 ms for each 128 KiB.
#[test]
fn a_check_reads_data_in_large_requests() {
    run(async {
        let inner = Arc::new(InMemory::new());
        let blocks = 1024;
        create_on(stable(&inner), blocks * BLOCK).await.unwrap();
        let volume = open(stable(&inner)).await.unwrap();
        write(&volume, 0, blocks, 1).await.unwrap();
        volume.close().await.unwrap();
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let report = check_on(&access(store.clone()), CheckOptions { data: true }).await;
        let report = report.unwrap();
        assert_eq!((report.problem_count, report.compared), (0, blocks));
        assert_eq!(store.data_reads(), 1, "4 MiB of one object");
    });
}

/// A folder that cannot be made has nothing to do with credentials.
#[test]
fn a_folder_that_cannot_be_made_has_no_hint_about_s3() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let uri = format!("file://{}/volume", file.path().display());
    let uri = uri.parse().unwrap();
    let error = StoreAccess::connect(&uri, &StoreOptions::default(), true).unwrap_err();
    assert!(matches!(error, BucketError::Folder { .. }), "{error}");
    assert_eq!(error.next(), None);
}

/// What a program is advised that others overtake each time has nothing to do with credentials.
#[test]
fn a_volume_that_others_grow_faster_is_to_be_tried_again() {
    run(async {
        let inner = Arc::new(InMemory::new());
        create_on(stable(&inner), SIZE).await.unwrap();
        let late = Faults {
            late: 100,
            ..Faults::default()
        };
        let slow = access(UnstableStore::new(inner.clone(), late, 1));
        let others = async {
            for nth in 1.. {
                let size = SIZE + nth * BLOCK;
                grow_on(&stable(&inner), size).await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let error = tokio::select! {
            grown = grow_on(&slow, 1000 * RUN) => grown.unwrap_err(),
            () = others => unreachable!("they grow it for ever"),
        };
        assert!(matches!(error, BucketError::Contended { .. }), "{error}");
        assert_eq!(error.next(), Some("try again"));
    });
}

/// S3 answers 409 to a create while another one of that name is under way, and wants it made again.
#[test]
fn a_header_is_written_again_where_the_store_answers_with_a_conflict() {
    run(async {
        let inner = Arc::new(InMemory::new());
        create_on(stable(&inner), SIZE).await.unwrap();
        let conflicts = Faults {
            conflicts: 50,
            ..Faults::default()
        };
        let store = access(UnstableStore::new(inner.clone(), conflicts, 1));
        for nth in 1..=10 {
            grow_on(&store, SIZE + nth * RUN).await.unwrap();
        }
    });
}

/// Probes a store of which creates are answered with 409, in percent, and returns how many objects are left.
async fn probe_with_conflicts(conflicts: u8, seed: u64) -> Result<usize, BucketError> {
    let inner = Arc::new(InMemory::new());
    let faults = Faults {
        conflicts,
        ..Faults::default()
    };
    probe(&access(UnstableStore::new(inner.clone(), faults, seed))).await?;
    Ok(inner.list(None).count().await)
}

/// A conflict of the first create was taken for the object, which the second one then made: the store was refused as one that overwrites.
#[test]
fn a_probe_that_is_answered_with_a_conflict_is_made_again() {
    run(async {
        for seed in 0..20 {
            let left = probe_with_conflicts(50, seed).await.unwrap();
            assert_eq!(left, 0, "the probe is deleted");
        }
    });
}

/// It was taken for a store that refuses to overwrite: nothing is known of one that answers with conflicts only.
#[test]
fn a_store_that_answers_with_conflicts_only_is_not_written() {
    run(async {
        let error = probe_with_conflicts(100, 1).await.unwrap_err();
        assert!(matches!(error, BucketError::Store { .. }), "{error}");
        assert!(error.to_string().contains("409"), "{error}");
    });
}
