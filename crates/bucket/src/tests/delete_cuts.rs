//! Deletes of a clone and of a snapshot that end at any of their requests to the store, each of which is tried twice: as one that was not
//! carried out, and as one of which the answer was lost.
//!
//! The origin, its other snapshots and its other clones are read back, the same command ends the work, collections leave no object
//! that nothing uses, and the deletes of all that is left leave nothing in the store.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use tokio::time::timeout;

use super::clones::{CLONE, VOLUME, at, clone, objects};
use super::collection::{LARGE, collect_twice, remove_expiring_of};
use super::snapshot_cuts::{cut_each, cut_every};
use super::snapshots::{COUNT, name, names, open_snapshot, snapshot};
use super::unstable_store::{Faults, RequestCut, UnstableStore};
use super::volume::{access, new_volume, open, open_for_reading, stable, tags, write};
use crate::admin::{CheckOptions, check_on, delete_on, delete_snapshot_on, status_on};
use crate::error::BucketError;
use crate::volume::BucketVolume;

/// A clone that stays.
const OTHER: &str = "lab/other";
/// When a command is killed that is not answered any more. The index that it has open polls meanwhile.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// Of so many requests of a delete of a clone one is tried in a short run.
const STEP: usize = 5;

/// What the blocks of a volume are.
type Blocks = Vec<u32>;

/// A volume with the snapshots `a` and `b`, and two clones of one of them, all closed and all different.
struct Family {
    inner: Arc<InMemory>,
    origin: Blocks,
    a: Blocks,
    b: Blocks,
    clone: Blocks,
    other: Blocks,
}

/// Changes blocks in an object, and one in the index.
async fn change(volume: &BucketVolume, blocks: &mut Blocks, (first, tag): (u64, u32)) {
    for (first, count, tag) in [(first, LARGE, tag), (first + LARGE + 5, 1, tag + 100)] {
        write(volume, first, count, tag).await.unwrap();
        let first = usize::try_from(first).unwrap();
        blocks[first..][..usize::try_from(count).unwrap()].fill(tag);
    }
}

impl Family {
    /// The clones are of the snapshot `of`.
    async fn new(of: &str) -> Self {
        let (inner, volume) = new_volume().await;
        let mut origin = vec![0; usize::try_from(COUNT).unwrap()];
        change(&volume, &mut origin, (0, 1)).await;
        volume.close().await.unwrap();
        snapshot(&stable(&inner), "a").await.unwrap();
        let a = origin.clone();
        let volume = open(stable(&inner)).await.unwrap();
        change(&volume, &mut origin, (10, 2)).await;
        volume.close().await.unwrap();
        snapshot(&stable(&inner), "b").await.unwrap();
        let b = origin.clone();
        let volume = open(stable(&inner)).await.unwrap();
        change(&volume, &mut origin, (20, 3)).await;
        volume.close().await.unwrap();
        let mut clones = [(CLONE, 4), (OTHER, 5)].map(|one| (one, Blocks::new()));
        for ((folder, tag), blocks) in &mut clones {
            *blocks = if of == "a" { a.clone() } else { b.clone() };
            clone(&stable(&inner), of, folder).await.unwrap();
            let volume = open(at(&inner, folder)).await.unwrap();
            change(&volume, blocks, (30, *tag)).await;
            change(&volume, blocks, (u64::from(*tag), *tag + 10)).await;
            volume.close().await.unwrap();
        }
        let [clone, other] = clones.map(|(_, blocks)| blocks);
        Self {
            inner,
            origin,
            a,
            b,
            clone,
            other,
        }
    }

    /// A command's view of the store, which is cut off.
    fn cut(&self, cut: RequestCut) -> Arc<UnstableStore> {
        let store = UnstableStore::new(self.inner.clone(), Faults::default(), 1);
        store.cut_at(cut);
        store
    }

    async fn assert_volume(&self, folder: &str, expected: &Blocks) {
        let volume = open_for_reading(at(&self.inner, folder)).await.unwrap();
        assert_blocks(volume, expected).await;
    }

    async fn assert_snapshot(&self, text: &str, expected: &Blocks) {
        let snapshot = open_snapshot(&self.inner, text).await.unwrap();
        assert_blocks(snapshot, expected).await;
    }

    /// What no command deletes.
    async fn assert_rest(&self) {
        self.assert_volume(VOLUME, &self.origin).await;
        self.assert_volume(OTHER, &self.other).await;
        self.assert_snapshot("b", &self.b).await;
    }

    /// Nothing is wrong with a volume, and two collections leave nothing that it does not use.
    async fn assert_collected(&self, folder: &str) {
        let access = at(&self.inner, folder);
        // As three hours do.
        remove_expiring_of(&access).await;
        collect_twice(&access).await;
        let report = check_on(&access, CheckOptions { data: true }).await;
        let report = report.unwrap();
        assert_eq!(report.problem_count, 0, "{:?}", report.problems);
        assert_eq!(report.unreferenced, 0, "of {folder}");
    }

    /// The clones that the volume has.
    async fn clones(&self) -> Vec<String> {
        let status = status_on(&stable(&self.inner)).await.unwrap();
        status.clones.into_iter().map(|clone| clone.uri).collect()
    }

    /// Deletes all that is left.
    async fn end(&self, clones: &[&str]) {
        let snapshots = names(&self.inner).await;
        for folder in clones {
            delete_on(&at(&self.inner, folder)).await.unwrap();
        }
        for snapshot in snapshots {
            let deleted = delete_snapshot_on(&stable(&self.inner), &name(&snapshot)).await;
            deleted.unwrap();
        }
        self.assert_volume(VOLUME, &self.origin).await;
        self.assert_collected(VOLUME).await;
        delete_on(&stable(&self.inner)).await.unwrap();
        let left = objects(&self.inner, "lab").await;
        assert!(left.is_empty(), "{left:?}");
    }
}

async fn assert_blocks(volume: BucketVolume, expected: &Blocks) {
    assert_eq!(tags(&volume, 0, COUNT).await, *expected);
    volume.close().await.unwrap();
}

async fn delete_clone(cut: RequestCut) -> bool {
    let family = Family::new("a").await;
    let store = family.cut(cut);
    let command = access(store.clone()).at(CLONE);
    let deleted = timeout(COMMAND_LIMIT, delete_on(&command)).await;
    let is_deleted = matches!(deleted, Ok(Ok(_)));
    assert!(is_deleted || store.is_cut(), "a store that works");
    family.assert_rest().await;
    family.assert_snapshot("a", &family.a).await;
    let clone = at(&family.inner, CLONE);
    match open_for_reading(clone.clone()).await {
        Ok(volume) => {
            assert!(!is_deleted);
            assert_blocks(volume, &family.clone).await;
        }
        Err(BucketError::NoVolume { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    // As long as anything of it is there, its snapshot is not deleted, even without the other clone.
    if !objects(&family.inner, "lab/clone/index").await.is_empty() {
        let clones = family.clones().await;
        assert!(clones.contains(&"test:lab/clone".to_owned()), "{clones:?}");
    }
    match delete_on(&clone).await {
        Ok(_) => {}
        Err(BucketError::NoVolume { .. }) => assert!(store.is_cut() || is_deleted),
        Err(error) => panic!("{error}"),
    }
    let again = delete_on(&clone).await.unwrap_err();
    assert!(matches!(again, BucketError::NoVolume { .. }), "{again}");
    let left = objects(&family.inner, CLONE).await;
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(family.clones().await, ["test:lab/other"]);
    for folder in [VOLUME, OTHER] {
        family.assert_collected(folder).await;
    }
    family.assert_rest().await;
    family.assert_snapshot("a", &family.a).await;
    family.end(&[OTHER]).await;
    store.is_cut()
}

async fn delete_snapshot(cut: RequestCut) -> bool {
    let family = Family::new("b").await;
    let (store, a) = (family.cut(cut), name("a"));
    let command = access(store.clone());
    let deleted = timeout(COMMAND_LIMIT, delete_snapshot_on(&command, &a)).await;
    let is_deleted = matches!(deleted, Ok(Ok(_)));
    assert!(is_deleted || store.is_cut(), "a store that works");
    family.assert_rest().await;
    family.assert_volume(CLONE, &family.clone).await;
    let is_there = names(&family.inner).await == ["a", "b"];
    if is_there {
        assert!(!is_deleted);
        family.assert_snapshot("a", &family.a).await;
        delete_snapshot_on(&stable(&family.inner), &a)
            .await
            .unwrap();
    }
    assert_eq!(names(&family.inner).await, ["b"]);
    let again = delete_snapshot_on(&stable(&family.inner), &a).await;
    let again = again.unwrap_err();
    assert!(matches!(again, BucketError::NoSnapshot { .. }), "{again}");
    for folder in [VOLUME, CLONE, OTHER] {
        family.assert_collected(folder).await;
    }
    family.assert_rest().await;
    family.assert_volume(CLONE, &family.clone).await;
    family.end(&[CLONE, OTHER]).await;
    store.is_cut()
}

#[test]
fn a_delete_of_a_clone_that_ends_at_any_request_is_ended_by_the_next_one() {
    // It has many requests: it opens the clone for writing, and deletes each object. All are tried where the environment names a count.
    let step = match testkit::WorldSeeds::from_env().count {
        Some(_) => 1,
        None => STEP,
    };
    cut_every(step, async |cut| Box::pin(delete_clone(cut)).await);
}

#[test]
fn a_delete_of_a_snapshot_that_ends_at_any_request_takes_nothing_of_clones_and_snapshots() {
    cut_each(async |cut| Box::pin(delete_snapshot(cut)).await);
}
