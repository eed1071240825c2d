//! Seeded worlds: requests at the same time on a store of which any request may fail, be late, conflict, or be carried out without an
//! answer; then a crash, which leaves what is in the store, or a close.
//!
//! With a local journal its machine loses power, too: writes of the journal that were not flushed survive or not, torn at
//! sectors, and flushes go on without the store.
//!
//! The promise: after it is opened again each block holds what the last flush that was acknowledged made durable, or a later
//! write of it, whole; and `check` finds nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block::{BlockDevice as _, Range, WriteFlags};
use fastrand::Rng;
use futures_util::future::join_all;
use object_store::memory::InMemory;
use testkit::{CrashDisk, single};

use super::journaled_volume::{JOURNAL, options};
use super::unstable_store::{Faults, UnstableStore};
use super::volume::{SIZE, access, create_on, open, open_with, run, stable, tags};
use super::{block_of, blocks, play_all};
use crate::admin::{CheckOptions, check_on};
use crate::format::BLOCK;
use crate::store::StoreAccess;
use crate::volume::BucketVolume;

/// Worlds of a test run.
const WORLDS: u64 = 60;
const LIVES: usize = 3;
const BATCHES: usize = 8;
const COUNT: u64 = SIZE / BLOCK;

/// What each block may hold: what is durable for certain, and what was written since.
struct Versions(Vec<Vec<u32>>);

impl Versions {
    fn written(&mut self, first: u64, count: u64, tag: u32) {
        for block in first..first + count {
            self.0[index(block)].push(tag);
        }
    }

    /// The versions before `marks` are not the content any more.
    fn durable(&mut self, marks: &[usize]) {
        for (versions, mark) in self.0.iter_mut().zip(marks) {
            versions.drain(..*mark);
        }
    }

    /// The last version of each block.
    fn marks(&self) -> Vec<usize> {
        self.0.iter().map(|versions| versions.len() - 1).collect()
    }

    fn last(&self) -> Vec<u32> {
        let last = |versions: &Vec<u32>| *versions.last().expect("one is certain");
        self.0.iter().map(last).collect()
    }
}

fn index(block: u64) -> usize {
    usize::try_from(block).expect("a small disk")
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Write,
    WriteThrough,
    Zero,
    Trim,
}

struct World {
    rng: Rng,
    inner: Arc<InMemory>,
    versions: Versions,
    next_tag: u32,
    /// What is on the journal, where there is one.
    journal: Option<Vec<u8>>,
    /// Flushes without the store.
    flushes: u64,
}

impl World {
    /// Opens the volume, and the journal as the last life left it.
    async fn open_life(&mut self, store: StoreAccess) -> (BucketVolume, Option<Arc<CrashDisk>>) {
        let Some(image) = &self.journal else {
            let volume = open(store).await.expect("requests are retried");
            return (volume, None);
        };
        let disk = CrashDisk::from_bytes(image.clone()).interleaved(self.rng.u64(..));
        let disk = Arc::new(disk);
        let volume = open_with(store, &options(disk.clone())).await;
        (volume.expect("requests are retried"), Some(disk))
    }

    async fn play(&mut self) {
        create_on(stable(&self.inner), SIZE)
            .await
            .expect("a store that works");
        for _ in 0..LIVES {
            let faults = Faults {
                fails: self.rng.u8(0..20),
                unanswered: self.rng.u8(0..15),
                late: self.rng.u8(0..40),
                conflicts: self.rng.u8(0..20),
                ..Faults::default()
            };
            let store = UnstableStore::new(self.inner.clone(), faults, self.rng.u64(..));
            let (volume, disk) = self.open_life(access(store.clone())).await;
            self.compare(&volume).await;
            for _ in 0..self.rng.usize(1..=BATCHES) {
                self.batch(&volume).await;
            }
            self.end(&store, volume).await;
            self.journal = disk.map(|disk| disk.crash(self.rng.u64(..)));
        }
        let (volume, _) = self.open_life(stable(&self.inner)).await;
        self.compare(&volume).await;
        volume.close().await.expect("a store that works");
        let report = check_on(&stable(&self.inner), CheckOptions { data: true }).await;
        let report = report.expect("a store that works");
        assert_eq!(report.problem_count, 0, "{:?}", report.problems);
    }

    /// What was found after an open is the content from now on.
    async fn compare(&mut self, volume: &BucketVolume) {
        let found = tags(volume, 0, COUNT).await;
        for (block, (tag, versions)) in found.iter().zip(&mut self.versions.0).enumerate() {
            assert!(
                versions.contains(tag),
                "block {block} has {tag}, not of {versions:?}"
            );
            *versions = vec![*tag];
        }
    }

    /// Changes that do not overlap, and perhaps a flush at the same time, or behind them.
    async fn batch(&mut self, volume: &BucketVolume) {
        let before = self.versions.marks();
        let flushes_meanwhile = self.rng.u8(0..4) == 0;
        let mut changes = Vec::new();
        let mut at = self.rng.u64(0..COUNT);
        while at < COUNT && changes.len() < 6 {
            let len_max = [2, 40, COUNT][self.rng.usize(0..3)];
            let count = self.rng.u64(1..=len_max).min(COUNT - at);
            let kinds = [
                Change::Write,
                Change::Write,
                Change::WriteThrough,
                Change::Zero,
                Change::Trim,
            ];
            let kind = kinds[self.rng.usize(0..kinds.len())];
            self.next_tag += 1;
            let tag = match kind {
                Change::Write | Change::WriteThrough => self.next_tag,
                Change::Zero | Change::Trim => 0,
            };
            self.versions.written(at, count, tag);
            changes.push((kind, blocks(at, count), tag));
            at += count + self.rng.u64(0..60);
        }
        let writes = join_all(changes.iter().map(|change| apply(volume, *change)));
        if flushes_meanwhile {
            let (_, flushed) = tokio::join!(writes, volume.flush());
            flushed.expect("requests are retried");
            self.versions.durable(&before);
        } else {
            writes.await;
        }
        match self.rng.u8(0..5) {
            0 | 1 => {
                let marks = self.versions.marks();
                volume.flush().await.expect("requests are retried");
                self.versions.durable(&marks);
            }
            2 => tokio::time::sleep(Duration::from_millis(self.rng.u64(0..9000))).await,
            3 => {
                let found = tags(volume, 0, COUNT).await;
                assert_eq!(
                    found,
                    self.versions.last(),
                    "reads see what was acknowledged"
                );
            }
            _ => {}
        }
        let through = changes
            .iter()
            .filter(|change| matches!(change.0, Change::WriteThrough));
        for (_, range, _) in through {
            for block in range.offset / BLOCK..range.end() / BLOCK {
                let versions = &mut self.versions.0[index(block)];
                versions.drain(..versions.len() - 1);
            }
        }
    }

    async fn end(&mut self, store: &UnstableStore, volume: BucketVolume) {
        match self.rng.u8(0..4) {
            0 => {
                let marks = self.versions.marks();
                volume.close().await.expect("requests are retried");
                self.versions.durable(&marks);
            }
            // In the middle of a commit.
            1 => {
                let cut = async {
                    tokio::time::sleep(Duration::from_millis(self.rng.u64(0..1500))).await;
                    store.cut();
                };
                let marks = self.versions.marks();
                let flush = tokio::time::timeout(Duration::from_secs(2), volume.flush());
                let (flushed, ()) = tokio::join!(flush, cut);
                if let Ok(Ok(())) = flushed {
                    self.versions.durable(&marks);
                }
            }
            _ => {
                store.cut();
                if self.journal.is_some() {
                    self.go_on(&volume).await;
                }
            }
        }
    }

    /// Writes and flushes without the store, until there is no space.
    async fn go_on(&mut self, volume: &BucketVolume) {
        for _ in 0..self.rng.usize(0..20) {
            let count = self.rng.u64(1..=20);
            let first = self.rng.u64(0..=COUNT - count);
            self.next_tag += 1;
            self.versions.written(first, count, self.next_tag);
            let change = (Change::Write, blocks(first, count), self.next_tag);
            let marks = self.versions.marks();
            let flush = async {
                apply(volume, change).await;
                volume.flush().await
            };
            match tokio::time::timeout(Duration::from_secs(2), flush).await {
                Ok(flushed) => flushed.expect("a journal needs no store"),
                Err(_) => return,
            }
            self.versions.durable(&marks);
            self.flushes += 1;
        }
    }
}

async fn apply(volume: &BucketVolume, (kind, range, tag): (Change, Range, u32)) {
    let count = range.len / BLOCK;
    let data = || single((0..count).flat_map(|_| block_of(tag)).collect::<Vec<u8>>());
    let done = match kind {
        Change::Write => volume.write(range, data(), WriteFlags::empty()).await,
        Change::WriteThrough => volume.write(range, data(), WriteFlags::FUA).await,
        Change::Zero => volume.write_zeroes(range, WriteFlags::empty()).await,
        Change::Trim => volume.trim(range).await,
    };
    done.expect("requests are retried");
}

fn play(seed: u64, journal: Option<Vec<u8>>) -> u64 {
    let mut world = World {
        rng: Rng::with_seed(seed),
        inner: Arc::new(InMemory::new()),
        versions: Versions(vec![vec![0]; index(COUNT)]),
        next_tag: 0,
        journal,
        flushes: 0,
    };
    run(world.play());
    world.flushes
}

#[test]
fn what_a_flush_acknowledged_survives_every_crash() {
    play_all(WORLDS, |seed| {
        play(seed, None);
    });
}

#[test]
fn what_a_flush_acknowledged_in_a_journal_survives_every_crash() {
    let flushes = AtomicU64::new(0);
    play_all(WORLDS, |seed| {
        let journal = vec![0; usize::try_from(JOURNAL).expect("1 MiB")];
        flushes.fetch_add(play(seed, Some(journal)), Ordering::Relaxed);
    });
    assert!(flushes.into_inner() > 0, "no flush went on without a store");
}
