//! Seeded worlds of snapshots, on stores that fail: each is compared with a model of the volume at its time, and one that was made outlives
//! a delete at the same time. Collections come in between, and a reader of the volume finds what was there at some time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice as _;
use engine::clock;
use fastrand::Rng;
use object_store::memory::InMemory;

use super::collection::{collect_at, remove_expiring, unreferenced};
use super::play_all;
use super::snapshots::{COUNT, assert_clean, name, names, open_snapshot, snapshot};
use super::unstable_store::{Faults, UnstableStore};
use super::volume::{
    SIZE, access, create_on, new_volume, open, open_for_reading, run, stable, tags, write,
};
use crate::admin::{RelocateOptions, delete_on, delete_snapshot_on, relocate_on};
use crate::collection_plan::AGE;
use crate::error::BucketError;
use crate::relocation_plan::RelocatedPart;
use crate::volume::BucketVolume;

/// Worlds of a test run.
const WORLDS: u64 = 16;

/// A snapshot that is made while the volume is deleted is refused, or keeps the volume: also if the delete is interrupted anywhere, and
/// continued.
async fn delete_world(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let (inner, volume) = new_volume().await;
    write(&volume, 0, 100, 1).await.unwrap();
    volume.close().await.unwrap();
    let faults = Faults {
        fails: rng.u8(0..10),
        unanswered: rng.u8(0..10),
        late: rng.u8(0..60),
        conflicts: rng.u8(0..20),
        ..Faults::default()
    };
    let making = UnstableStore::new(inner.clone(), faults, rng.u64(..));
    let deleting = UnstableStore::new(inner.clone(), faults, rng.u64(..));
    let (pause, cut) = (rng.u64(0..3000), rng.u64(0..6000));
    let make = async {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        snapshot(&access(making), "kept").await
    };
    let delete = async {
        let deleted_from = access(deleting.clone());
        let deleted = delete_on(&deleted_from);
        let cut_off = async {
            tokio::time::sleep(Duration::from_millis(cut)).await;
            deleting.cut();
        };
        // A store that is cut off never answers.
        tokio::select! {
            deleted = deleted => Some(deleted),
            () = async { cut_off.await; tokio::time::sleep(Duration::from_secs(1)).await } => None,
        }
    };
    let (made, deleted) = tokio::join!(make, delete);
    if made.is_err() && deleted.is_none() {
        return;
    }
    let again = delete_on(&stable(&inner)).await;
    if made.is_ok() {
        assert!(!matches!(deleted, Some(Ok(_))), "both succeeded");
        assert!(
            matches!(again, Err(BucketError::HasSnapshots { .. })),
            "{again:?}"
        );
        let kept = open_snapshot(&inner, "kept").await.unwrap();
        assert_eq!(tags(&kept, 0, 101).await[98..], [1, 1, 0]);
        assert_clean(&inner).await;
    }
}

#[test]
fn a_snapshot_that_was_made_outlives_a_delete() {
    play_all(WORLDS, |seed| run(delete_world(seed)));
}

/// A volume, its model, and those of its snapshots.
struct World {
    rng: Rng,
    inner: Arc<InMemory>,
    /// What the volume held behind each write since the last flush, the flush first.
    states: Vec<Vec<u32>>,
    /// What it held behind each write.
    history: Vec<Vec<u32>>,
    /// What each snapshot may hold: one of the states at its time.
    snapshots: BTreeMap<String, Vec<Vec<u32>>>,
    next: u32,
}

impl World {
    fn store(&mut self) -> Arc<UnstableStore> {
        let faults = Faults {
            fails: self.rng.u8(0..15),
            unanswered: self.rng.u8(0..15),
            late: self.rng.u8(0..40),
            conflicts: self.rng.u8(0..20),
            ..Faults::default()
        };
        UnstableStore::new(self.inner.clone(), faults, self.rng.u64(..))
    }

    fn content(&self) -> &Vec<u32> {
        self.states.last().expect("one is certain")
    }

    fn flushed(&mut self) {
        self.states = vec![self.content().clone()];
    }

    async fn write(&mut self, volume: &BucketVolume) {
        for _ in 0..self.rng.usize(1..6) {
            let first = self.rng.u64(0..COUNT);
            let count_max = if self.rng.bool() { 2 } else { 90 };
            let count = self.rng.u64(1..=count_max);
            let count = count.min(COUNT - first);
            self.next += 1;
            let tag = if self.rng.u8(0..5) == 0 { 0 } else { self.next };
            write(volume, first, count, tag).await.unwrap();
            let first = usize::try_from(first).unwrap();
            let mut content = self.content().clone();
            content[first..first + usize::try_from(count).unwrap()].fill(tag);
            self.history.push(content.clone());
            self.states.push(content);
        }
    }

    /// Collections, and perhaps a relocation of all that can be, at the same time as what follows, `elapsed` since the begin of the world.
    fn collect(&mut self, elapsed: Duration) -> impl Future<Output = ()> + use<> {
        let access = access(self.store());
        let pause = Duration::from_millis(self.rng.u64(0..2000));
        let count = self.rng.usize(0..2);
        let relocates = self.rng.u8(0..3) == 0;
        async move {
            for _ in 0..count {
                clock::sleep(pause).await;
                collect_at(&access, elapsed + pause, false).await.unwrap();
            }
            if relocates {
                let how = RelocateOptions {
                    part: RelocatedPart::new(100).unwrap(),
                    ..RelocateOptions::default()
                };
                Box::pin(relocate_on(&access, how)).await.unwrap();
            }
        }
    }

    async fn change_snapshots(&mut self) {
        let access = access(self.store());
        let text = format!("s{}", self.rng.u8(0..6));
        if self.snapshots.contains_key(&text) && self.rng.bool() {
            match delete_snapshot_on(&access, &name(&text)).await {
                Ok(_) => {}
                // A request of it may have been carried out without an answer.
                Err(error) => assert!(matches!(error, BucketError::NoSnapshot { .. }), "{error}"),
            }
            self.snapshots.remove(&text);
            return;
        }
        match snapshot(&access, &text).await {
            Ok(()) => {
                let was_there = self.snapshots.insert(text, self.states.clone());
                assert_eq!(was_there, None, "a name is used once");
            }
            Err(BucketError::SnapshotExists { .. }) => {
                assert!(self.snapshots.contains_key(&text));
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// All snapshots are what they were made of.
    async fn compare(&mut self) {
        let mut found = names(&self.inner).await;
        found.sort();
        let expected: Vec<&String> = self.snapshots.keys().collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        for (text, states) in &mut self.snapshots {
            let snapshot = open_snapshot(&self.inner, text).await.unwrap();
            let found = tags(&snapshot, 0, COUNT).await;
            assert!(states.contains(&found), "{text}: {found:?} of {states:?}");
            // It stays so.
            *states = vec![found];
            snapshot.close().await.unwrap();
        }
    }

    async fn play(&mut self) {
        create_on(stable(&self.inner), SIZE).await.unwrap();
        let begin = clock::now();
        let reader = open_for_reading(stable(&self.inner)).await.unwrap();
        for _ in 0..3 {
            let store = self.store();
            let volume = open(access(store.clone())).await.unwrap();
            assert_eq!(tags(&volume, 0, COUNT).await, *self.content());
            for _ in 0..self.rng.usize(2..6) {
                // Pauses are for hours, and more than one between the clocks of two writers is refused.
                let elapsed = 6 * (clock::now() - begin);
                let collect = self.collect(elapsed);
                tokio::join!(collect, self.change(&volume));
                let found = tags(&reader, 0, COUNT).await;
                assert!(self.history.contains(&found), "a reader has {found:?}");
                let pause = [0, 3_000, 90_000, 150_000][self.rng.usize(0..4)];
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            volume.flush().await.unwrap();
            self.flushed();
            if self.rng.bool() {
                volume.close().await.unwrap();
                self.change_snapshots().await;
            } else {
                store.cut();
            }
            self.compare().await;
        }
        assert_clean(&self.inner).await;
        // With no snapshot and no writer since nothing unused is left.
        for text in names(&self.inner).await {
            let access = stable(&self.inner);
            delete_snapshot_on(&access, &name(&text)).await.unwrap();
        }
        remove_expiring(&self.inner).await;
        let volume = open(stable(&self.inner)).await.unwrap();
        for elapsed in [
            12 * (clock::now() - begin),
            12 * (clock::now() - begin) + AGE,
        ] {
            let access = stable(&self.inner);
            collect_at(&access, elapsed, false).await.unwrap();
        }
        assert_eq!(unreferenced(&self.inner).await, 0);
        assert_eq!(tags(&volume, 0, COUNT).await, *self.content());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(tags(&reader, 0, COUNT).await, *self.content());
    }

    async fn change(&mut self, volume: &BucketVolume) {
        self.write(volume).await;
        if self.rng.bool() {
            volume.flush().await.unwrap();
            self.flushed();
        }
        if self.rng.u8(0..3) > 0 {
            self.change_snapshots().await;
        }
    }
}

#[test]
fn each_snapshot_is_the_volume_as_it_was() {
    play_all(WORLDS, |seed| {
        let mut world = World {
            rng: Rng::with_seed(seed),
            inner: Arc::new(InMemory::new()),
            states: vec![vec![0; usize::try_from(COUNT).unwrap()]],
            history: vec![vec![0; usize::try_from(COUNT).unwrap()]],
            snapshots: BTreeMap::new(),
            next: 0,
        };
        run(world.play());
    });
}
