//! Worlds by seed.
//!
//! In a world users write, drop writes, flush and read two volumes while extents move from disk to disk; then the power is cut, with
//! any subset of what was not flushed. Afterwards each sector holds what a flush has promised or something newer, the metadata
//! describe the move or its end, and our offline `pvmove` carries it to its end or ends it, without another byte.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use block::TryIo;
use futures_util::future::join_all;
use testkit::{WorldSeeds, block_on};

use super::*;
use crate::copy::CopyProgress;
use crate::volume::pvmove::PvmoveDisks;

/// Worlds of the test.
const WORLDS: u64 = 40;
/// Polls after which the power is cut, at most: enough for several moves.
const POLLS_MAX: u64 = 2500;
/// Users of each volume; each has every so-manieth run of sectors.
const USERS: u64 = 2;
const RUN: u64 = 64;

/// What each sector of a volume may hold, by its number: the first is certain.
type Versions = RefCell<Vec<Vec<u32>>>;

/// One user of a volume: no other writes some of its sectors.
struct User<'a> {
    disk: &'a Node,
    versions: &'a Versions,
    /// Which of the users.
    own: u64,
    rng: fastrand::Rng,
    next: u32,
}

impl User<'_> {
    /// Sectors of one run of its own.
    fn choose(&mut self) -> (u64, u64) {
        let sectors = self.disk.geometry().size / SECTOR;
        let runs = sectors / RUN / USERS;
        let run = self.rng.u64(0..runs) * USERS + self.own;
        let first = self.rng.u64(0..RUN);
        let count = self.rng.u64(1..=RUN - first);
        (run * RUN + first, count)
    }

    async fn act(&mut self) {
        let (first, count) = self.choose();
        let range = Range::new(first * SECTOR, count * SECTOR);
        match self.rng.u8(0..10) {
            0 => self.flush().await,
            1..4 => self.read(range).await,
            4 => {
                let flags = self.flags();
                self.change(range, 0, flags, self.disk.write_zeroes(range, flags))
                    .await;
            }
            _ => {
                self.next += 1;
                let number = self.next;
                let bytes = sector(number).repeat(index(count));
                let flags = self.flags();
                // These disks have no fast path: it leaves places that may differ, which the write goes over, or not.
                if self.rng.bool() {
                    assert_eq!(self.disk.try_write(range, &bytes), TryIo::WouldBlock);
                }
                let data = single(bytes);
                self.change(range, number, flags, self.disk.write(range, data, flags))
                    .await;
            }
        }
    }

    fn flags(&mut self) -> WriteFlags {
        match self.rng.u8(0..4) {
            0 => WriteFlags::FUA,
            _ => WriteFlags::empty(),
        }
    }

    /// Carries out a change, or drops it in flight.
    async fn change(
        &mut self,
        range: Range,
        number: u32,
        flags: WriteFlags,
        change: block::IoFuture<'_, ()>,
    ) {
        let sectors = index(range.offset / SECTOR)..index(range.end() / SECTOR);
        for versions in &mut self.versions.borrow_mut()[sectors.clone()] {
            versions.push(number);
        }
        if self.rng.u8(0..6) > 0 {
            change.await.unwrap();
            if flags.contains(WriteFlags::FUA) {
                self.make_certain(sectors);
            }
            return;
        }
        let polls = self.rng.u8(0..12);
        if drop_after(change, polls).await {
            return;
        }
        self.disk.settle().await.unwrap();
        // What is read now is what it holds from here on, unless the power is cut.
        let found = numbers(&gather(&self.disk.read(range).await.unwrap()));
        let mut all = self.versions.borrow_mut();
        for (versions, found) in all[sectors].iter_mut().zip(found) {
            assert!(versions.contains(&found), "{found} of {versions:?}");
            versions.push(found);
        }
    }

    async fn read(&self, range: Range) {
        let found = numbers(&gather(&self.disk.read(range).await.unwrap()));
        let all = self.versions.borrow();
        for (at, found) in (index(range.offset / SECTOR)..).zip(found) {
            assert_eq!(Some(&found), all[at].last(), "sector {at}: {:?}", all[at]);
        }
    }

    async fn flush(&self) {
        self.disk.flush().await.unwrap();
        let runs = self.versions.borrow().len() as u64 / RUN;
        for run in (self.own..runs).step_by(index(USERS)) {
            self.make_certain(index(run * RUN)..index((run + 1) * RUN));
        }
    }

    fn make_certain(&self, sectors: std::ops::Range<usize>) {
        for versions in &mut self.versions.borrow_mut()[sectors] {
            versions.drain(..versions.len() - 1);
        }
    }
}

/// Polls a change so often, then drops it; true if it was done before.
async fn drop_after(mut change: block::IoFuture<'_, ()>, polls: u8) -> bool {
    for _ in 0..polls {
        if poll_once(change.as_mut()).await {
            return true;
        }
        clock::sleep(Duration::from_millis(1)).await;
    }
    false
}

async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// Moves, from one disk to the others, now and then aborted or stopped and resumed.
async fn move_about(
    set: &Arc<VolumeSet>,
    rng: &mut fastrand::Rng,
    ends: &RefCell<Vec<LiveMoveState>>,
) {
    loop {
        let from = format!("pv{}", rng.usize(0..DISKS));
        let sequence = set.group().group.sequence;
        let request = request(&from);
        let begun = set.begin_move(sequence, Some(&request), options()).await;
        let Ok(live) = begun else {
            // Nothing is there, or there is no room.
            clock::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let interruption = rng.u8(0..4);
        let after = Duration::from_millis(rng.u64(0..60));
        join(set.run_move(&live), async {
            if interruption > 1 {
                return;
            }
            clock::sleep(after).await;
            match interruption {
                0 => set.abort_move(&stamp()).await.unwrap(),
                _ => set.stop_move().await,
            }
        })
        .await;
        ends.borrow_mut().push(live.state());
        if live.state() == LiveMoveState::Stopped {
            let sequence = set.group().group.sequence;
            let live = set.begin_move(sequence, None, options()).await.unwrap();
            set.run_move(&live).await;
            ends.borrow_mut().push(live.state());
        }
    }
}

/// Carries the move on these disks to its end, or ends it.
async fn finish_offline(disks: &[Node], aborts: bool) {
    let group = group_on(disks).await;
    let members = group.group.members.iter().zip(disks).enumerate();
    let members = members.map(|(number, (member, disk))| {
        (member.name.clone(), (format!("disk{number}"), disk.clone()))
    });
    let mover = PvmoveDisks {
        members: members.collect(),
        areas: areas(disks),
        stamp: stamp(),
    };
    let mut edit = GroupEdit::open(group.group.clone()).unwrap();
    let Some(begun) = edit.moves().unwrap().pop() else {
        return;
    };
    if aborts {
        edit.end_move(&begun.name).unwrap();
        mover.commit(edit).await.unwrap();
    } else {
        let progress = CopyProgress::default();
        mover
            .run(group.group, &begun.name, &progress)
            .await
            .unwrap();
    }
    let group = group_on(disks).await.group;
    let used = used_runs(&group).unwrap();
    assert_eq!(used.iter().map(|used| used.run.count).sum::<u64>(), 17);
    assert!(group.volumes.iter().all(|one| !one.has_flag("LOCKED")));
}

/// What worlds have seen.
#[derive(Debug, Default)]
struct Seen {
    begun: usize,
    done: usize,
    aborted: usize,
}

impl Seen {
    fn note(&mut self, seed: u64, ends: &[LiveMoveState]) {
        let count = |state| ends.iter().filter(|end| **end == state).count();
        self.done += count(LiveMoveState::Done);
        self.aborted += count(LiveMoveState::Aborted);
        let mut ends = ends.iter();
        let failed = ends.find(|end| matches!(end, LiveMoveState::Failed(_)));
        assert_eq!(failed, None, "seed {seed}");
    }
}

async fn play(seed: u64, seen: &mut Seen) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let images = start().await;
    let crash: Vec<Arc<CrashDisk>> = images
        .into_iter()
        .map(|image| Arc::new(CrashDisk::from_bytes(image).interleaved(rng.u64(..))))
        .collect();
    let disks: Vec<Node> = crash.iter().map(|disk| disk.clone() as Node).collect();
    let set = set_on(&disks).await;
    let mut volumes = Vec::new();
    for name in ["media", "fast"] {
        let disk = set.open(name).await.unwrap().disk;
        let sectors = disk.geometry().size / SECTOR;
        let versions: Versions = RefCell::new(vec![vec![0]; index(sectors)]);
        volumes.push((disk, versions));
    }
    let ends = RefCell::default();
    let mut users: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    for ((disk, versions), own) in volumes
        .iter()
        .flat_map(|volume| (0..USERS).map(move |own| (volume, own)))
    {
        let mut user = User {
            disk,
            versions,
            own,
            rng: fastrand::Rng::with_seed(rng.u64(..)),
            next: u32::try_from(own).unwrap() << 24,
        };
        users.push(Box::pin(async move {
            loop {
                user.act().await;
            }
        }));
    }
    let mut mover_rng = fastrand::Rng::with_seed(rng.u64(..));
    let polls = rng.u64(1..POLLS_MAX);
    {
        let all = join(join_all(users), move_about(&set, &mut mover_rng, &ends));
        let mut all = std::pin::pin!(all);
        for _ in 0..polls {
            assert!(!poll_once(all.as_mut()).await, "users never end");
            clock::sleep(Duration::from_millis(1)).await;
        }
    }
    seen.note(seed, &ends.into_inner());
    for aborts in [true, false] {
        let left = crash.iter().map(|disk| disk.crash(rng.u64(..)));
        let left = mem_disks(&left.collect::<Vec<_>>());
        let group = group_on(&left).await.group;
        seen.begun += usize::from(group.volumes.iter().any(|one| one.has_flag("PVMOVE")));
        let found = contents(&left).await;
        for ((_, versions), found) in volumes.iter().zip(&found) {
            assert_allowed(seed, versions, found);
        }
        finish_offline(&left, aborts).await;
        let after = contents(&left).await;
        assert!(after == found, "seed {seed}: other data after the move");
    }
}

/// Each sector holds what a flush has promised, or something newer.
fn assert_allowed(seed: u64, versions: &Versions, found: &[u32]) {
    for (at, (versions, found)) in versions.borrow().iter().zip(found).enumerate() {
        assert!(
            versions.contains(found),
            "seed {seed}, sector {at}: {found} of {versions:?}"
        );
    }
}

#[test]
fn moves_under_users_are_cut_anywhere_and_lose_nothing_that_was_flushed() {
    let seeds = WorldSeeds::from_env();
    let count = seeds.count.unwrap_or(WORLDS);
    let worlds = match seeds.only {
        Some(only) => only..only + 1,
        None => seeds.from..seeds.from + count,
    };
    let mut seen = Seen::default();
    let mut played = 0;
    for seed in worlds {
        block_on(play(seed, &mut seen));
        played += 1;
    }
    if played == WORLDS {
        let all = [seen.begun, seen.done, seen.aborted];
        assert!(
            all.iter().all(|&count| count > 5),
            "too little was seen: {seen:?}"
        );
    }
}
