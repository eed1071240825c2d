//! Commands on snapshots that end at any of their requests to the store: the snapshot is there or is not, and everything else is as before.
//!
//! Each request of a command is tried twice: as one that was not carried out, and as one of which the answer was lost.

use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice as _;
use object_store::memory::InMemory;
use tokio::time::timeout;

use super::snapshots::{assert_clean, name, names, open_snapshot, snapshot};
use super::unstable_store::{Faults, RequestCut, UnstableStore};
use super::volume::{access, new_volume, open, run, stable, tags, write};
use crate::admin::{SnapshotOptions, create_snapshot_on, delete_on, delete_snapshot_on};
use crate::error::BucketError;

/// When a command is killed that is not answered any more.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);
/// Requests of a command, at least and at most.
const REQUESTS: std::ops::Range<u64> = 6..500;

/// Plays a world for each request of a command; `world` returns whether the command came as far as the cut.
pub(super) fn cut_each(world: impl AsyncFn(RequestCut) -> bool) {
    cut_every(1, world);
}

/// The same, for one of `step` requests.
pub(super) fn cut_every(step: usize, world: impl AsyncFn(RequestCut) -> bool) {
    for (begin, is_carried_out) in [(0, false), (step as u64 / 2, true)] {
        let reaches = |after: &u64| {
            run(world(RequestCut {
                after: *after,
                is_carried_out,
            }))
        };
        let cuts = (begin..REQUESTS.end).step_by(step);
        let count = (cuts.take_while(reaches).count() * step) as u64;
        assert!(REQUESTS.contains(&count), "a command of {count} requests");
    }
}

/// What is left of a volume whose first block was 7 and is 8 now, with the snapshot `a` of the one or the other.
async fn assert_in_order(inner: &Arc<InMemory>, snapshot_has: u32) {
    let snapshot = open_snapshot(inner, "a").await.unwrap();
    assert_eq!(tags(&snapshot, 0, 2).await, [snapshot_has, 7]);
    snapshot.close().await.unwrap();
    assert_clean(inner).await;
    delete_snapshot_on(&stable(inner), &name("a"))
        .await
        .unwrap();
    assert_eq!(names(inner).await, [""; 0]);
    let volume = open(stable(inner)).await.unwrap();
    assert_eq!(tags(&volume, 0, 2).await, [8, 7]);
    volume.close().await.unwrap();
    // What a command leaves does not keep the volume.
    delete_on(&stable(inner)).await.unwrap();
}

async fn create(cut: RequestCut, is_served: bool) -> bool {
    let (inner, mut volume) = new_volume().await;
    write(&volume, 0, 2, 7).await.unwrap();
    volume.flush().await.unwrap();
    if !is_served {
        volume.close().await.unwrap();
    }
    let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
    store.cut_at(cut);
    let (command, a) = (access(store.clone()), name("a"));
    let created = create_snapshot_on(&command, &a, SnapshotOptions::default());
    let is_created = matches!(timeout(COMMAND_LIMIT, created).await, Ok(Ok(_)));
    assert!(is_created || store.is_cut(), "a store that works");
    if !is_served {
        volume = open(stable(&inner)).await.unwrap();
    }
    write(&volume, 0, 1, 8).await.unwrap();
    volume.flush().await.unwrap();
    let found = names(&inner).await;
    assert!(found == ["a"] || found.is_empty() && !is_created);
    if found.is_empty() {
        snapshot(&stable(&inner), "a").await.unwrap();
    }
    volume.close().await.unwrap();
    assert_in_order(&inner, if found.is_empty() { 8 } else { 7 }).await;
    store.is_cut()
}

async fn delete(cut: RequestCut) -> bool {
    let (inner, volume) = new_volume().await;
    write(&volume, 0, 2, 7).await.unwrap();
    snapshot(&stable(&inner), "a").await.unwrap();
    write(&volume, 0, 1, 8).await.unwrap();
    volume.flush().await.unwrap();
    let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
    store.cut_at(cut);
    let (command, a) = (access(store.clone()), name("a"));
    let deleted = timeout(COMMAND_LIMIT, delete_snapshot_on(&command, &a)).await;
    let is_deleted = matches!(deleted, Ok(Ok(_)));
    assert!(is_deleted || store.is_cut(), "a store that works");
    let found = names(&inner).await;
    assert!(found.is_empty() || found == ["a"] && !is_deleted);
    volume.close().await.unwrap();
    let mut snapshot_has = 7;
    if found.is_empty() {
        let error = delete_snapshot_on(&stable(&inner), &a).await.unwrap_err();
        assert!(matches!(error, BucketError::NoSnapshot { .. }), "{error}");
        snapshot(&stable(&inner), "a").await.unwrap();
        snapshot_has = 8;
    }
    assert_in_order(&inner, snapshot_has).await;
    store.is_cut()
}

#[test]
fn a_create_of_a_served_volume_that_ends_at_any_request_made_the_snapshot_or_did_not() {
    cut_each(async |cut| Box::pin(create(cut, true)).await);
}

#[test]
fn a_create_of_a_closed_volume_that_ends_at_any_request_made_the_snapshot_or_did_not() {
    cut_each(async |cut| Box::pin(create(cut, false)).await);
}

#[test]
fn a_delete_that_ends_at_any_request_deleted_the_snapshot_or_did_not() {
    cut_each(delete);
}
