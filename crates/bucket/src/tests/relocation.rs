//! Relocation: what is vacated and freed, and what is not; blocks that are overwritten meanwhile; blocks that cannot be read; and the end of
//! the server or of the command at any request.

use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice as _;
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt as _, PutPayload};
use tokio::time::timeout;

use super::collection::{assert_nothing_waits, collect_twice, objects, unreferenced};
use super::snapshot_cuts::cut_every;
use super::snapshots::{COUNT, assert_clean, snapshot};
use super::unstable_store::{Faults, RequestCut, UnstableStore};
use super::volume::{
    SIZE, access, bytes_of, create_on, data_object, new_volume, open, run, stable, tags, write,
};
use crate::admin::{RelocateOptions, RelocationReport, relocate_on};
use crate::error::BucketError;
use crate::format::BLOCK;
use crate::relocation_plan::RelocatedPart;
use crate::volume::BucketVolume;

/// Blocks of the first object, and those of them that are overwritten.
const FIRST: u64 = 150;
const OVERWRITTEN: u64 = 80;

/// One object of which 70 of 150 blocks are used, and one of which all 80 are.
async fn overwrite_half(volume: &BucketVolume) {
    write(volume, 0, FIRST, 1).await.unwrap();
    volume.flush().await.unwrap();
    write(volume, 0, OVERWRITTEN, 2).await.unwrap();
    volume.flush().await.unwrap();
}

/// The same of a volume of which the server can be cut off, in the tables of its index.
async fn served() -> (Arc<InMemory>, Arc<UnstableStore>, BucketVolume) {
    let inner = Arc::new(InMemory::new());
    create_on(stable(&inner), SIZE).await.unwrap();
    let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
    let volume = open(access(store.clone())).await.unwrap();
    overwrite_half(&volume).await;
    collect_twice(&stable(&inner)).await;
    (inner, store, volume)
}

/// What that leaves in the volume.
fn content() -> Vec<u32> {
    let tag = |block| match block {
        0..OVERWRITTEN => 2,
        OVERWRITTEN..FIRST => 1,
        _ => 0,
    };
    (0..COUNT).map(tag).collect()
}

async fn relocate(
    inner: &Arc<InMemory>,
    how: RelocateOptions,
) -> Result<RelocationReport, BucketError> {
    Box::pin(relocate_on(&stable(inner), how)).await
}

fn taking_over() -> RelocateOptions {
    RelocateOptions {
        take_over: true,
        ..RelocateOptions::default()
    }
}

#[test]
fn an_object_of_which_little_is_used_is_vacated_by_the_server_and_freed_by_a_collection() {
    run(async {
        let (inner, volume) = new_volume().await;
        // In the log alone.
        overwrite_half(&volume).await;
        let report = relocate(&inner, RelocateOptions::default()).await.unwrap();
        assert_eq!((report.objects, report.bytes), (1, FIRST * BLOCK));
        assert_eq!(report.used_bytes, (FIRST - OVERWRITTEN) * BLOCK);
        assert_eq!(unreferenced(&inner).await, 1);
        let freed = collect_twice(&stable(&inner)).await;
        assert_eq!((freed.deleted, freed.deleted_bytes), (1, FIRST * BLOCK));
        assert_eq!(unreferenced(&inner).await, 0);
        assert_nothing_waits(&inner).await;
        assert_eq!(tags(&volume, 0, COUNT).await, content());
        // Nothing more is to be done.
        let report = relocate(&inner, RelocateOptions::default()).await.unwrap();
        assert_eq!((report.objects, report.used_bytes), (0, 0));
        volume.close().await.unwrap();
        let again = open(stable(&inner)).await.unwrap();
        assert_eq!(tags(&again, 0, COUNT).await, content());
    });
}

#[test]
fn what_a_snapshot_holds_or_is_used_enough_is_not_vacated_and_a_dry_run_writes_nothing() {
    run(async {
        let (inner, volume) = new_volume().await;
        overwrite_half(&volume).await;
        snapshot(&stable(&inner), "a").await.unwrap();
        let all = RelocateOptions {
            part: RelocatedPart::new(100).unwrap(),
            ..RelocateOptions::default()
        };
        assert_eq!(relocate(&inner, all).await.unwrap().objects, 0);
        write(&volume, 0, OVERWRITTEN, 3).await.unwrap();
        write(&volume, 0, 4, 4).await.unwrap();
        volume.flush().await.unwrap();
        volume.close().await.unwrap();
        let before = objects(&inner).await;
        let dry = RelocateOptions {
            dry_run: true,
            ..all
        };
        let report = relocate(&inner, dry).await.unwrap();
        assert_eq!((report.objects, report.dry_run), (0, true));
        let volume = open(stable(&inner)).await.unwrap();
        write(&volume, 0, 70, 5).await.unwrap();
        volume.close().await.unwrap();
        assert_ne!(objects(&inner).await, before);
        let before = objects(&inner).await;
        let report = relocate(&inner, dry).await.unwrap();
        assert_eq!((report.objects, report.used_bytes), (1, 10 * BLOCK));
        assert_eq!(objects(&inner).await, before);
        let few = RelocateOptions {
            part: RelocatedPart::new(12).unwrap(),
            ..dry
        };
        assert_eq!(relocate(&inner, few).await.unwrap().objects, 0);
    });
}

#[test]
fn without_a_server_it_is_refused_unless_the_volume_may_be_taken_over() {
    run(async {
        let (inner, volume) = new_volume().await;
        overwrite_half(&volume).await;
        volume.close().await.unwrap();
        let error = relocate(&inner, RelocateOptions::default()).await;
        assert!(
            matches!(error, Err(BucketError::NoRelocation { .. })),
            "{error:?}"
        );
        assert_nothing_waits(&inner).await;
        assert_eq!(relocate(&inner, taking_over()).await.unwrap().objects, 1);
        assert_eq!(collect_twice(&stable(&inner)).await.deleted, 1);
        let again = open(stable(&inner)).await.unwrap();
        assert_eq!(tags(&again, 0, COUNT).await, content());
        assert_clean(&inner).await;
    });
}

/// Between any two requests of the server a block that is moved is overwritten, durably.
#[test]
fn a_block_that_is_overwritten_meanwhile_keeps_what_was_written_last() {
    let mut reached = 0;
    for after in 0..60 {
        run(async {
            let (inner, store, volume) = served().await;
            let other = volume.clone();
            store.before_request(after, async move {
                // It may wait for this request.
                drop(tokio::runtime::Handle::current().spawn(async move {
                    write(&other, 100, 1, 9).await.unwrap();
                    write(&other, 101, 1, 0).await.unwrap();
                    other.flush().await.unwrap();
                }));
                tokio::time::sleep(Duration::from_millis(100)).await;
            });
            relocate(&inner, RelocateOptions::default()).await.unwrap();
            if store.is_waiting() {
                return;
            }
            reached += 1;
            volume.flush().await.unwrap();
            let mut expected = content();
            expected[100..102].copy_from_slice(&[9, 0]);
            assert_eq!(tags(&volume, 0, COUNT).await, expected, "{after}");
            store.cut();
            let again = open(stable(&inner)).await.unwrap();
            assert_eq!(tags(&again, 0, COUNT).await, expected, "{after}");
            assert_clean(&inner).await;
        });
    }
    assert!((5..60).contains(&reached), "{reached} requests");
}

#[test]
fn a_block_that_cannot_be_read_is_named_and_stays_where_it_is() {
    run(async {
        let (inner, volume) = new_volume().await;
        overwrite_half(&volume).await;
        collect_twice(&stable(&inner)).await;
        let first = data_object(&inner, 0).await;
        let good = bytes_of(&inner, &first).await;
        let mut bad = good.clone();
        bad[120 * 4096] ^= 1;
        inner.put(&first, PutPayload::from(bad)).await.unwrap();
        let error = relocate(&inner, RelocateOptions::default()).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("does not match its checksum"), "{error}");
        assert_nothing_waits(&inner).await;
        // The volume goes on, and the data is there once the object is right again.
        write(&volume, 0, 1, 7).await.unwrap();
        volume.flush().await.unwrap();
        inner.put(&first, PutPayload::from(good)).await.unwrap();
        relocate(&inner, RelocateOptions::default()).await.unwrap();
        let mut expected = content();
        expected[0] = 7;
        assert_eq!(tags(&volume, 0, COUNT).await, expected);
        assert_clean(&inner).await;
    });
}

/// The server is gone at some request; another one has the same data, and the same command continues.
async fn cut_server(cut: RequestCut) -> bool {
    let (inner, store, _volume) = served().await;
    store.cut_at(cut);
    let first = relocate(&inner, RelocateOptions::default()).await;
    assert!(first.is_ok() || store.is_cut(), "{first:?}");
    assert_nothing_waits(&inner).await;
    let again = open(stable(&inner)).await.unwrap();
    assert_eq!(tags(&again, 0, COUNT).await, content());
    assert_clean(&inner).await;
    relocate(&inner, RelocateOptions::default()).await.unwrap();
    collect_twice(&stable(&inner)).await;
    assert_eq!(unreferenced(&inner).await, 0);
    assert_eq!(tags(&again, 0, COUNT).await, content());
    store.is_cut()
}

#[test]
fn a_server_that_ends_at_any_request_leaves_all_data() {
    cut_every(1, async |cut| Box::pin(cut_server(cut)).await);
}

/// The command is gone at some request; the next one leaves nothing of it.
async fn cut_command(cut: RequestCut) -> bool {
    let (inner, volume) = new_volume().await;
    overwrite_half(&volume).await;
    collect_twice(&stable(&inner)).await;
    let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
    store.cut_at(cut);
    let command = access(store.clone());
    let relocated = timeout(
        Duration::from_secs(600),
        Box::pin(relocate_on(&command, taking_over())),
    );
    let is_done = matches!(relocated.await, Ok(Ok(_)));
    assert!(is_done || store.is_cut(), "a store that works");
    assert_eq!(tags(&volume, 0, COUNT).await, content());
    // The first one may have moved all: another request to the server, as by any command.
    write(&volume, 0, OVERWRITTEN, 2).await.unwrap();
    write(&volume, 140, 1, 1).await.unwrap();
    volume.flush().await.unwrap();
    snapshot(&stable(&inner), "a").await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_nothing_waits(&inner).await;
    assert_eq!(tags(&volume, 0, COUNT).await, content());
    assert_clean(&inner).await;
    store.is_cut()
}

#[test]
fn a_command_that_ends_at_any_request_leaves_all_data_and_no_request() {
    cut_every(1, async |cut| Box::pin(cut_command(cut)).await);
}
