//! Commits at the same time, on a store of which each write takes a second: which of them wait for which.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice as _, WriteFlags};
use engine::clock;
use futures_util::future::join_all;
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use testkit::single;

use super::volume::{SIZE, create_on, open, run, stable, tags};
use super::{block_of, blocks};
use crate::format::{BLOCK, BLOCK_LEN, DataObject};
use crate::store::StoreAccess;
use crate::volume::BucketVolume;

/// Blocks that a commit writes into an object.
const MANY: u64 = 80;

/// A volume on a store where each write takes a second.
async fn slow_volume() -> (Arc<InMemory>, BucketVolume) {
    let inner = Arc::new(InMemory::new());
    create_on(stable(&inner), SIZE).await.unwrap();
    let config = ThrottleConfig {
        wait_put_per_call: Duration::from_secs(1),
        ..ThrottleConfig::default()
    };
    let slow = StoreAccess::new(
        "test:volume".to_owned(),
        "test:".to_owned(),
        Arc::new(ThrottledStore::new(inner.clone(), config)),
        "lab/volume".to_owned(),
    );
    let volume = open(slow).await.unwrap();
    (inner, volume)
}

/// Writes through the volume at a time, in milliseconds, with tags from 1 on; when each is durable.
async fn durable_at(volume: &BucketVolume, writes: &[(u64, u64, u64)]) -> Vec<u128> {
    durable_with(volume, 1, writes).await
}

async fn durable_with(
    volume: &BucketVolume,
    first_tag: u32,
    writes: &[(u64, u64, u64)],
) -> Vec<u128> {
    let begin = clock::now();
    let write = |(tag, (at, first, count)): (u32, &(u64, u64, u64))| {
        let (at, range) = (*at, blocks(*first, *count));
        let len = usize::try_from(*count).unwrap();
        async move {
            clock::sleep(Duration::from_millis(at)).await;
            let data = single(vec![block_of(tag); len].concat());
            assert_eq!(range.len_usize(), len * BLOCK_LEN);
            volume.write(range, data, WriteFlags::FUA).await.unwrap();
            clock::now().duration_since(begin).as_millis()
        }
    };
    join_all((first_tag..).zip(writes).map(write)).await
}

async fn holds(inner: &Arc<InMemory>, volume: BucketVolume, expected: &[(u64, u32)]) {
    volume.close().await.unwrap();
    let volume = open(stable(inner)).await.unwrap();
    let found = tags(&volume, 0, SIZE / BLOCK).await;
    for (block, tag) in expected {
        assert_eq!(found[usize::try_from(*block).unwrap()], *tag, "{block}");
    }
}

#[test]
fn the_objects_of_a_commit_are_written_while_the_index_of_the_one_before_is() {
    run(async {
        let (inner, volume) = slow_volume().await;
        // The second one begins while the index of the first is written, and has half of the blocks of it.
        let writes = [(0, 0, MANY), (1500, MANY / 2, MANY)];
        assert_eq!(durable_at(&volume, &writes).await, [2000, 3500]);
        // One that begins while the objects of another are written waits for them.
        let writes = [(0, 0, MANY), (500, MANY / 2, MANY)];
        assert_eq!(durable_at(&volume, &writes).await, [2000, 3000]);
        holds(&inner, volume, &[(0, 1), (MANY / 2, 2), (MANY, 2)]).await;
    });
}

#[test]
fn a_small_commit_waits_and_takes_what_is_written_meanwhile() {
    run(async {
        let (inner, volume) = slow_volume().await;
        let writes = [(0, 0, 1), (100, 1, 1), (900, 2, 1), (1100, 3, 1)];
        let durable = durable_at(&volume, &writes).await;
        assert_eq!(durable, [1000, 2000, 2000, 3000]);
        holds(&inner, volume, &[(0, 1), (1, 2), (2, 3), (3, 4)]).await;
    });
}

#[test]
fn what_a_block_holds_last_is_written_last() {
    run(async {
        let (inner, volume) = slow_volume().await;
        // The first two are in the store at once, of the same blocks; the third one is in the index itself.
        let writes = [(0, 0, MANY), (1100, 0, MANY), (2100, 0, 1)];
        let durable = durable_at(&volume, &writes).await;
        assert!(durable.is_sorted(), "{durable:?}");
        assert_eq!(tags(&volume, 0, 2).await, [3, 2]);
        holds(&inner, volume, &[(0, 3), (1, 2), (MANY - 1, 2)]).await;
    });
}

#[test]
fn what_is_relocated_is_compared_with_the_index_behind_all_commits() {
    run(async {
        let (inner, volume) = slow_volume().await;
        durable_at(&volume, &[(0, 0, 150), (2000, 0, MANY)]).await;
        let first = DataObject {
            generation: 2,
            number: 0,
        };
        // A commit has overwritten a part of what is left of the first object, and its index is being written.
        let overwrite = durable_with(&volume, 9, &[(0, 90, 70)]);
        let relocate = async {
            clock::sleep(Duration::from_millis(1500)).await;
            volume.relocate(&[first].into()).await.unwrap()
        };
        let (durable, problem) = tokio::join!(overwrite, relocate);
        assert_eq!((durable, problem), (vec![2000], None));
        holds(
            &inner,
            volume,
            &[(79, 2), (80, 1), (89, 1), (90, 9), (159, 9)],
        )
        .await;
    });
}
