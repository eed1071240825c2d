//! Commands that make a clone and end at any of their requests to the store: the clone is there or is not, what is left of it `delete`
//! removes, and the origin is as before. Deletes are in `delete_cuts`.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use tokio::time::timeout;

use super::clones::{CLONE, at, clone, objects};
use super::snapshot_cuts::cut_each;
use super::snapshots::{name, open_snapshot, snapshot};
use super::unstable_store::{Faults, RequestCut, UnstableStore};
use super::volume::{access, new_volume, open, open_for_reading, stable, tags, write};
use crate::admin::{delete_on, delete_snapshot_on, ensure_clone_on, status_on};
use crate::error::BucketError;

/// When a command is killed that is not answered any more. The index that it has open polls meanwhile.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// A closed volume with the snapshot `a`, in which two blocks are 7; one is 8 now.
async fn origin() -> Arc<InMemory> {
    let (inner, volume) = new_volume().await;
    write(&volume, 0, 2, 7).await.unwrap();
    write(&volume, 20, 100, 7).await.unwrap();
    volume.close().await.unwrap();
    snapshot(&stable(&inner), "a").await.unwrap();
    let volume = open(stable(&inner)).await.unwrap();
    write(&volume, 0, 1, 8).await.unwrap();
    volume.close().await.unwrap();
    inner
}

/// The first blocks of the clone, if there is one.
async fn first_blocks(inner: &Arc<InMemory>) -> Option<Vec<u32>> {
    let clone = match open_for_reading(at(inner, CLONE)).await {
        Ok(clone) => clone,
        Err(BucketError::NoVolume { .. }) => return None,
        Err(error) => panic!("{error}"),
    };
    let found = tags(&clone, 0, 21).await;
    assert_eq!(found[19..], [0, 7]);
    clone.close().await.unwrap();
    Some(found[..2].to_vec())
}

/// What is left of the clone is deleted without a rest, and the origin is as before.
async fn assert_ends(inner: &Arc<InMemory>) {
    match delete_on(&at(inner, CLONE)).await {
        Ok(_) | Err(BucketError::NoVolume { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let left = objects(inner, CLONE).await;
    assert!(left.is_empty(), "{left:?}");
    assert!(status_on(&stable(inner)).await.unwrap().clones.is_empty());
    let golden = open_snapshot(inner, "a").await.unwrap();
    assert_eq!(tags(&golden, 0, 2).await, [7, 7]);
    golden.close().await.unwrap();
    delete_snapshot_on(&stable(inner), &name("a"))
        .await
        .unwrap();
}

async fn create(cut: RequestCut) -> bool {
    let inner = origin().await;
    let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
    store.cut_at(cut);
    let command = access(store.clone());
    let made = timeout(COMMAND_LIMIT, clone(&command, "a", CLONE)).await;
    let is_made = matches!(made, Ok(Ok(_)));
    assert!(is_made || store.is_cut(), "a store that works");
    match first_blocks(&inner).await {
        Some(found) => assert_eq!(found, [7, 7]),
        None => assert!(!is_made),
    }
    assert_ends(&inner).await;
    store.is_cut()
}

/// A server is killed while it makes the clone, and the next one makes it.
async fn create_again(cut: RequestCut) -> bool {
    let inner = origin().await;
    let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
    store.cut_at(cut);
    let command = access(store.clone());
    let (origin, of) = (stable(&inner), name("a"));
    let killed = Box::pin(ensure_clone_on(&command, &of, CLONE));
    drop(timeout(COMMAND_LIMIT, killed).await);
    let again = Box::pin(ensure_clone_on(&origin, &of, CLONE));
    again.await.unwrap();
    assert_eq!(first_blocks(&inner).await, Some(vec![7, 7]));
    let cloned = open(at(&inner, CLONE)).await.unwrap();
    write(&cloned, 0, 1, 9).await.unwrap();
    cloned.close().await.unwrap();
    // There is one.
    let again = Box::pin(ensure_clone_on(&origin, &of, CLONE));
    again.await.unwrap();
    assert_eq!(first_blocks(&inner).await, Some(vec![9, 7]));
    assert_ends(&inner).await;
    store.is_cut()
}

#[test]
fn a_clone_command_that_ends_at_any_request_made_the_clone_or_did_not() {
    cut_each(async |cut| Box::pin(create(cut)).await);
}

#[test]
fn what_an_interrupted_clone_left_is_no_obstacle_to_the_next_server() {
    cut_each(async |cut| Box::pin(create_again(cut)).await);
}
