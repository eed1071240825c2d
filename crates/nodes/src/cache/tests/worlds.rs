//! Seeded worlds: requests side by side, futures that are dropped, errors of either disk, checkpoints, and then an end:
//! a close, a kill, a power cut of the client, or of the server.
//!
//! The promise: when nothing is in flight, and after every end, a read through the cache gives what the disk holds; what a flush
//! acknowledged is durable on the disk; an error of the cache file is an error of no request.

use std::sync::Arc;

use block::{BlockDevice, Errno, IoError, Node, Operation, Range, WriteFlags};
use fastrand::Rng;
use futures_util::future::join_all;
use testkit::{
    CrashDisk, Effect, Fault, FaultDisk, WorldSeeds, block_on, first_difference, moments, pattern,
    single,
};

use super::super::format::{GRANULE, SLOTS_MIN};
use super::super::open::sampled;
use super::super::{Cache, CacheOptions};
use super::{file_size, others};

/// Worlds of a test run.
const WORLDS: u64 = 100;
/// Most requests of a batch, and batches before an end.
const BATCH_MAX: usize = 6;
const BATCHES: usize = 5;
/// Lives of a cache file in a world.
const LIVES: usize = 4;

struct World {
    rng: Rng,
    size: u64,
    disk: Arc<CrashDisk>,
    file: Arc<CrashDisk>,
}

/// One life of a cache file: the disks with their errors, and the cache on them.
struct Life {
    child: Arc<FaultDisk>,
    store: Arc<FaultDisk>,
    cache: Cache,
    /// Requests that fail are expected.
    disk_fails: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let granules = rng.u64(3..2 * SLOTS_MIN);
        let tail = rng.u64(0..40) * 512;
        let size = granules * GRANULE + tail;
        let slots = rng.u64(SLOTS_MIN..=SLOTS_MIN + 2);
        let file = vec![0; usize::try_from(file_size(size, slots)).unwrap()];
        let disk = pattern(rng.u8(..), Range::new(0, size));
        Self {
            disk: crash_disk(disk, &mut rng),
            file: crash_disk(file, &mut rng),
            rng,
            size,
        }
    }

    async fn play(&mut self) {
        for _ in 0..LIVES {
            let life = self.open().await;
            self.compare(&life.cache).await;
            for _ in 0..self.rng.usize(0..=BATCHES) {
                self.batch(&life).await;
            }
            self.end(life).await;
        }
    }

    /// Opens the cache without comparing a sample, which would hide what this test looks for.
    async fn open(&mut self) -> Life {
        let child = FaultDisk::new(self.disk.clone(), self.rng.u64(..), Vec::new());
        let store = FaultDisk::new(self.file.clone(), self.rng.u64(..), Vec::new());
        let options = CacheOptions::default();
        let cache = sampled(child.clone() as Node, store.clone(), options, 0).await;
        let cache = cache.unwrap_or_else(|error| panic!("every end leaves a cache: {error}"));
        let disk_fails = self.rng.u8(0..3) == 0;
        if disk_fails {
            let effect = [
                Effect::Fail(Errno::Io),
                Effect::FailAfter(Errno::Io),
                Effect::Tear(Errno::Io),
            ][self.rng.usize(0..3)];
            child.inject(Fault::new(effect).on(Operation::Write).rate(100_000));
            child.inject(
                Fault::new(Effect::Fail(Errno::Io))
                    .on(Operation::Read)
                    .rate(20_000),
            );
        }
        if self.rng.u8(0..4) == 0 {
            let operation =
                [Operation::Read, Operation::Write, Operation::Flush][self.rng.usize(0..3)];
            let errno = [Errno::Io, Errno::NoSpace][self.rng.usize(0..2)];
            let effect = Effect::Fail(errno);
            let after = self.rng.u64(0..40);
            store.inject(
                Fault::new(effect)
                    .on(operation)
                    .after(after)
                    .times(self.rng.u64(1..4)),
            );
        }
        Life {
            child,
            store,
            cache,
            disk_fails,
        }
    }

    fn range(&mut self) -> Range {
        let unit = if self.rng.bool() { 512 } else { 4096 };
        let offset = self.rng.u64(0..self.size / unit) * unit;
        let most = [8192, 40_960, 300_000][self.rng.usize(0..3)];
        let len = self.rng.u64(1..=most / unit) * unit;
        Range::new(offset, len.min((self.size - offset) / unit * unit))
    }

    /// Requests side by side. When none is in flight any more, all reads give what the disk holds.
    async fn batch(&mut self, life: &Life) {
        let count = self.rng.usize(1..=BATCH_MAX);
        let requests = (0..count).map(|_| {
            let (range, kind, fill) = (self.range(), self.rng.u8(0..12), self.rng.u8(..));
            // Some are dropped after so many polls.
            let polls = (self.rng.u8(0..8) == 0).then(|| self.rng.u8(0..12));
            dropped_after(polls, request(&life.cache, kind, range, fill))
        });
        let requests: Vec<_> = requests.collect();
        for result in join_all(requests).await.into_iter().flatten() {
            assert!(life.disk_fails || result.is_ok(), "{result:?}");
        }
        match self.rng.u8(0..6) {
            0 => life.cache.shared.checkpoint(u64::MAX).await,
            1 => others().await,
            _ => {}
        }
        // What was dropped may land until then.
        life.cache.settle().await.unwrap();
        if self.rng.bool() {
            self.compare(&life.cache).await;
        }
        if !life.disk_fails && self.rng.u8(0..4) == 0 {
            life.cache.flush().await.unwrap();
            assert!(
                self.disk.durable() == self.disk.live(),
                "a flush makes all of it durable"
            );
        }
    }

    /// Reads everything, in ranges of its own.
    async fn compare(&mut self, cache: &dyn BlockDevice) {
        let there = self.disk.live();
        let mut at = 0;
        while at < self.size {
            let len = (self.rng.u64(1..=80) * 4096).min(self.size - at);
            let range = Range::new(at, len);
            let expected =
                &there[Range::new(0, at).len_usize()..Range::new(0, at + len).len_usize()];
            if let Ok(found) = cache.read(range).await {
                let found = found.concat();
                let wrong = first_difference(&found, expected);
                assert_eq!(wrong, None, "a stale byte in {range}");
            }
            at += len;
        }
    }

    async fn end(&mut self, life: Life) {
        life.child.heal();
        let kind = self.rng.u8(0..7);
        if kind == 0 {
            life.store.heal();
            life.cache.close().await;
        }
        match kind {
            0 | 1 => {}
            // In the middle of requests.
            2..=4 => self.interrupt(&life).await,
            // Between requests, when marks were just cleared.
            _ => self.settle_and_clear(&life).await,
        }
        let failed = life.cache.status().failure.is_some();
        let is_retired = life.cache.shared.is_retired();
        drop(life);
        if matches!(kind, 4 | 6) {
            let disk = self.disk.crash(self.rng.u64(..));
            self.disk = crash_disk(disk, &mut self.rng);
        } else {
            // The server goes on, with what was not flushed.
            self.disk.settle().await.unwrap();
        }
        let file = match kind {
            // The file is closed, or the process was killed: the kernel has what was written.
            0..=2 | 4 | 6 => self.file.live(),
            _ => self.file.crash(self.rng.u64(..)),
        };
        // A medium that did not take the header is the user's to remove, as the log says.
        let is_removed = failed && !is_retired;
        let len = file.len();
        let file = if is_removed { vec![0; len] } else { file };
        self.file = crash_disk(file, &mut self.rng);
    }

    /// A change of what may be cached, and a checkpoint.
    async fn settle_and_clear(&mut self, life: &Life) {
        let (range, kind) = (self.range(), self.rng.u8(6..10));
        let changed = request(&life.cache, kind, range, 1).await;
        assert!(life.disk_fails || changed.is_ok(), "{changed:?}");
        life.cache.settle().await.unwrap();
        life.cache.shared.checkpoint(u64::MAX).await;
    }

    /// Starts requests, and leaves them at any moment.
    async fn interrupt(&mut self, life: &Life) {
        let polls = self.rng.u8(0..30);
        let (one, other) = (self.range(), self.range());
        let kind = self.rng.u8(0..12);
        let requests = async {
            let both = [
                request(&life.cache, kind, one, 1),
                request(&life.cache, 6, other, 2),
            ];
            drop(join_all(both).await);
        };
        dropped_after(Some(polls), requests).await;
    }
}

fn crash_disk(bytes: Vec<u8>, rng: &mut Rng) -> Arc<CrashDisk> {
    Arc::new(CrashDisk::from_bytes(bytes).interleaved(rng.u64(..)))
}

async fn request(disk: &dyn BlockDevice, kind: u8, range: Range, fill: u8) -> Result<(), IoError> {
    let flags = match fill.is_multiple_of(4) {
        true => WriteFlags::FUA,
        false => WriteFlags::empty(),
    };
    match kind {
        0..=4 => disk.read(range).await.map(drop),
        5 => disk.trim(range).await,
        6 => disk.write_zeroes(range, flags).await,
        7 => disk.flush().await,
        _ => disk.write(range, single(pattern(fill, range)), flags).await,
    }
}

/// `None`: it was dropped after so many polls.
async fn dropped_after<T>(polls: Option<u8>, request: impl Future<Output = T>) -> Option<T> {
    let Some(polls) = polls else {
        return Some(request.await);
    };
    tokio::select! {
        biased;
        done = request => Some(done),
        () = moments(polls) => None,
    }
}

#[test]
fn reads_give_what_the_disk_holds_after_any_end() {
    let seeds = WorldSeeds::from_env();
    let count = seeds.count.unwrap_or(WORLDS);
    let worlds = match seeds.only {
        Some(seed) => seed..seed + 1,
        None => seeds.from..seeds.from + count,
    };
    for seed in worlds {
        let played = std::panic::catch_unwind(|| block_on(World::new(seed).play()));
        assert!(
            played.is_ok(),
            "world {seed} fails: OUTBOARD_WORLD={seed} plays it again"
        );
    }
}
