//! Seeded worlds of volumes, snapshots, clones and clones of clones, on stores that fail: each is compared with a model of its own, block by
//! block; and commands on one clone, its snapshot and its origin at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice as _;
use fastrand::Rng;
use futures_util::StreamExt as _;
use object_store::ObjectStore as _;
use object_store::memory::InMemory;

use super::clones::{CLONE, VOLUME, assert_clean_at, at, clone, objects};
use super::play_all;
use super::snapshots::{COUNT, name, snapshot};
use super::unstable_store::{Faults, UnstableStore};
use super::volume::{
    SIZE, access, create_on, new_volume, open, open_with, run, stable, tags, write,
};
use crate::admin::{SnapshotOptions, create_snapshot_on, delete_on, delete_snapshot_on, status_on};
use crate::error::BucketError;
use crate::store::StoreAccess;
use crate::volume::VolumeOptions;

/// Worlds of a test run.
const WORLDS: u64 = 6;
/// Changes of a world.
const STEPS: usize = 20;

/// What a volume or a snapshot holds, a tag for each block.
type Content = Vec<u32>;

/// A volume and its snapshots.
#[derive(Debug, Clone)]
struct Model {
    content: Content,
    snapshots: BTreeMap<String, Content>,
    /// The folder and the snapshot that it was made of.
    origin: Option<(String, String)>,
}

struct World {
    rng: Rng,
    inner: Arc<InMemory>,
    /// By folder.
    volumes: BTreeMap<String, Model>,
    next: u32,
}

impl World {
    fn faulty(&mut self, folder: &str) -> (Arc<UnstableStore>, StoreAccess) {
        let faults = Faults {
            fails: self.rng.u8(0..12),
            unanswered: self.rng.u8(0..12),
            late: self.rng.u8(0..30),
            conflicts: self.rng.u8(0..15),
            ..Faults::default()
        };
        let store = UnstableStore::new(self.inner.clone(), faults, self.rng.u64(..));
        (store.clone(), access(store).at(folder))
    }

    fn any_folder(&mut self) -> String {
        let nth = self.rng.usize(0..self.volumes.len());
        let mut folders = self.volumes.keys();
        folders.nth(nth).expect("a volume").clone()
    }

    fn next_tag(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// The folders of the clones of a volume, or of a snapshot of it.
    fn clones_of(&self, folder: &str, snapshot: Option<&str>) -> Vec<String> {
        let clones = self.volumes.iter().filter(|(_, model)| {
            let origin = model.origin.as_ref();
            origin.is_some_and(|(path, name)| {
                path == folder && snapshot.is_none_or(|snapshot| snapshot == name)
            })
        });
        clones.map(|(folder, _)| folder.clone()).collect()
    }

    /// Writes, flushes, and closes the volume or loses its server.
    async fn write(&mut self, folder: &str) {
        let (store, access) = self.faulty(folder);
        let volume = open(access).await.unwrap();
        let mut content = self.volumes[folder].content.clone();
        assert_eq!(tags(&volume, 0, COUNT).await, content, "{folder}");
        for _ in 0..self.rng.usize(1..5) {
            let first = self.rng.u64(0..COUNT);
            let count_max = if self.rng.bool() { 2 } else { 90 };
            let count = self.rng.u64(1..=count_max).min(COUNT - first);
            let tag = if self.rng.u8(0..5) == 0 {
                0
            } else {
                self.next_tag()
            };
            write(&volume, first, count, tag).await.unwrap();
            let first = usize::try_from(first).unwrap();
            content[first..first + usize::try_from(count).unwrap()].fill(tag);
            if self.rng.bool() {
                volume.flush().await.unwrap();
            }
        }
        volume.flush().await.unwrap();
        let pause = [0, 3_000, 90_000][self.rng.usize(0..3)];
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if self.rng.u8(0..4) == 0 {
            store.cut();
        } else {
            volume.close().await.unwrap();
        }
        self.volumes.get_mut(folder).expect("a volume").content = content;
    }

    async fn snapshot(&mut self, folder: &str) {
        let (_, access) = self.faulty(folder);
        let text = format!("s{}", self.next_tag());
        let how = SnapshotOptions { take_over: true };
        let made = create_snapshot_on(&access, &name(&text), how).await;
        made.unwrap();
        let model = self.volumes.get_mut(folder).expect("a volume");
        model.snapshots.insert(text, model.content.clone());
    }

    async fn clone(&mut self, folder: &str) {
        let snapshots = &self.volumes[folder].snapshots;
        let Some(text) = self.rng.choice(snapshots.keys()).cloned() else {
            return;
        };
        let (_, access) = self.faulty(folder);
        let new = format!("clones/{}", self.next_tag());
        clone(&access, &text, &new).await.unwrap();
        let model = Model {
            content: self.volumes[folder].snapshots[&text].clone(),
            snapshots: BTreeMap::new(),
            origin: Some((folder.to_owned(), text)),
        };
        self.volumes.insert(new, model);
    }

    async fn delete_snapshot(&mut self, folder: &str) {
        let snapshots = &self.volumes[folder].snapshots;
        let Some(text) = self.rng.choice(snapshots.keys()).cloned() else {
            return;
        };
        let (_, access) = self.faulty(folder);
        let deleted = delete_snapshot_on(&access, &name(&text)).await;
        if !self.clones_of(folder, Some(&text)).is_empty() {
            let error = deleted.unwrap_err();
            assert!(matches!(error, BucketError::HasClones { .. }), "{error}");
            return;
        }
        deleted.unwrap();
        let model = self.volumes.get_mut(folder).expect("a volume");
        model.snapshots.remove(&text);
    }

    async fn delete(&mut self, folder: &str) {
        let (_, access) = self.faulty(folder);
        let deleted = delete_on(&access).await;
        let expected = match (&deleted, self.clones_of(folder, None).is_empty()) {
            (Err(BucketError::HasClones { .. }), is_alone) => !is_alone,
            (Err(BucketError::HasSnapshots { .. }), true) => {
                !self.volumes[folder].snapshots.is_empty()
            }
            (Ok(_), true) => self.volumes[folder].snapshots.is_empty(),
            _ => false,
        };
        assert!(expected, "{folder}: {deleted:?}");
        if deleted.is_ok() {
            self.volumes.remove(folder);
            let left = objects(&self.inner, folder).await;
            assert!(left.is_empty(), "{left:?}");
        }
    }

    async fn step(&mut self) {
        let folder = self.any_folder();
        match self.rng.u8(0..12) {
            0..5 => self.write(&folder).await,
            5 | 6 => self.snapshot(&folder).await,
            7..10 => self.clone(&folder).await,
            10 => self.delete_snapshot(&folder).await,
            // The others would be gone soon.
            _ if self.volumes.len() > 1 => self.delete(&folder).await,
            _ => {}
        }
    }

    /// Everything is what its model is.
    async fn compare(&self) {
        for (folder, model) in &self.volumes {
            let access = at(&self.inner, folder);
            let contents = model.snapshots.iter();
            let contents = contents.map(|(text, content)| (Some(name(text)), content));
            for (snapshot, content) in contents.chain([(None, &model.content)]) {
                let options = VolumeOptions {
                    read_only: true,
                    snapshot,
                    ..VolumeOptions::default()
                };
                let volume = open_with(access.clone(), &options).await.unwrap();
                let found = tags(&volume, 0, COUNT).await;
                assert!(found == *content, "{folder} {:?}", options.snapshot);
                volume.close().await.unwrap();
            }
            assert_clean_at(&access).await;
            let status = status_on(&access).await.unwrap();
            let mut clones: Vec<&str> = status.clones.iter().map(|one| &one.uri[5..]).collect();
            clones.sort_unstable();
            assert_eq!(clones, self.clones_of(folder, None));
        }
    }

    /// Clones before their origins, without a rest.
    async fn delete_all(&mut self) {
        while !self.volumes.is_empty() {
            for folder in self.volumes.keys().cloned().collect::<Vec<_>>() {
                if !self.clones_of(&folder, None).is_empty() {
                    continue;
                }
                let access = at(&self.inner, &folder);
                let model = self.volumes.remove(&folder).expect("a volume");
                for text in model.snapshots.keys() {
                    delete_snapshot_on(&access, &name(text)).await.unwrap();
                }
                delete_on(&access).await.unwrap();
            }
        }
        let left: Vec<_> = self.inner.list(None).collect().await;
        assert!(left.is_empty(), "{left:?}");
    }

    async fn play(&mut self) {
        create_on(stable(&self.inner), SIZE).await.unwrap();
        let model = Model {
            content: vec![0; usize::try_from(COUNT).unwrap()],
            snapshots: BTreeMap::new(),
            origin: None,
        };
        self.volumes.insert(VOLUME.to_owned(), model);
        for _ in 0..STEPS {
            Box::pin(self.step()).await;
        }
        Box::pin(self.compare()).await;
        Box::pin(self.delete_all()).await;
    }
}

#[test]
fn each_clone_is_a_volume_of_its_own_that_began_as_its_snapshot() {
    play_all(WORLDS, |seed| {
        let mut world = World {
            rng: Rng::with_seed(seed),
            inner: Arc::new(InMemory::new()),
            volumes: BTreeMap::new(),
            next: 0,
        };
        run(world.play());
    });
}

/// A clone that is made while its snapshot, its origin or itself is deleted: it is whole, or it is not there, and no rest keeps the others.
async fn race(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let (inner, volume) = new_volume().await;
    write(&volume, 0, 100, 1).await.unwrap();
    volume.close().await.unwrap();
    snapshot(&stable(&inner), "a").await.unwrap();
    let late = Faults {
        late: rng.u8(20..100),
        ..Faults::default()
    };
    let mut slow = || access(UnstableStore::new(inner.clone(), late, rng.u64(..)));
    let (making, deleting) = (slow(), slow());
    let (pause, deletes_clone) = (rng.u64(0..6000), rng.bool());
    let delete = async {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if !deletes_clone {
            delete_snapshot_on(&deleting, &name("a")).await?;
            return delete_on(&deleting).await;
        }
        delete_on(&deleting.at(CLONE)).await
    };
    let (made, deleted) = tokio::join!(clone(&making, "a", CLONE), delete);
    match open(at(&inner, CLONE)).await {
        Ok(clone) => {
            // A delete of the clone that was before it found the mark alone.
            assert!(made.is_ok(), "{made:?}");
            assert!(deletes_clone || deleted.is_err(), "{deleted:?}");
            let status = status_on(&stable(&inner)).await.unwrap();
            assert_eq!(status.clones.len(), 1, "its origin knows it");
            assert_eq!(tags(&clone, 98, 3).await, [1, 1, 0]);
            clone.close().await.unwrap();
        }
        Err(BucketError::NoVolume { .. }) => {
            // A delete that fails because the other command changes the same is continued below.
            let is_deleted = !matches!(deleted, Err(BucketError::NoVolume { .. }));
            assert!(
                made.is_err() || deletes_clone && is_deleted,
                "{made:?}, {deleted:?}"
            );
        }
        Err(error) => panic!("{error}"),
    }
    for access in [at(&inner, CLONE), stable(&inner)] {
        delete_snapshot_on(&access, &name("a")).await.ok();
        match delete_on(&access).await {
            Ok(_) | Err(BucketError::NoVolume { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let left: Vec<_> = inner.list(None).collect().await;
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_clone_is_made_or_not_while_what_it_is_made_of_is_deleted() {
    play_all(3 * WORLDS, |seed| run(Box::pin(race(seed))));
}
