//! Writes on the fast path of bytes that are being moved.

use std::sync::atomic::AtomicU64;

use block::{BlockDevice as _, TryIo, WriteFlags};
use futures_util::future::{join, select};
use testkit::{HeldDisk, block_on, gather, single};

use super::super::{CopyPace, MovableDisk, UserActivity};
use super::*;
use crate::{Delay, DelayTimes, Segment};

const SIZE: u64 = 4 << 20;
const BLOCK: Range = Range::new(4096, 4096);
const OLD: [u8; 4096] = [1; 4096];
const NEW: [u8; 4096] = [2; 4096];

struct Moving {
    disk: MovableDisk,
    users: Arc<UserActivity>,
    new: Node,
}

impl Moving {
    /// A disk on `old` that is being moved to `new`; nothing is copied yet.
    async fn begin(old: Node, new: Node) -> Self {
        let range = Range::new(0, SIZE);
        let users = Arc::<UserActivity>::default();
        let segment = Segment { disk: old, range };
        let disk = MovableDisk::new(vec![(0, segment)], users.clone()).unwrap();
        let begun = disk.begin(range, Place::new(new.clone(), 1, 0)).await;
        begun.unwrap();
        Self { disk, users, new }
    }

    async fn copy(&self) {
        let mut pace = CopyPace::new(None, &self.users);
        let copied = AtomicU64::new(0);
        let all = self.disk.copy(&mut pace, &copied, || true).await;
        assert!(all.unwrap());
    }

    async fn switch(&self) {
        self.disk.require_target().await.unwrap();
        self.disk.switch().await;
    }

    async fn write(&self, data: [u8; 4096]) {
        let written = self
            .disk
            .write(BLOCK, single(data.to_vec()), WriteFlags::empty());
        written.await.unwrap();
    }
}

async fn content(disk: &dyn block::BlockDevice) -> Vec<u8> {
    gather(&disk.read(BLOCK).await.unwrap()).to_vec()
}

/// A disk that is written the waiting way only.
fn slow() -> Node {
    let times = DelayTimes {
        write: std::time::Duration::from_millis(1),
        ..DelayTimes::default()
    };
    Arc::new(Delay::new(mem(SIZE), times))
}

/// The story: every write of bytes that were to be moved took the waiting path, to both places, although both had its blocks in memory.
#[test]
fn a_write_is_done_on_the_fast_path_at_the_old_place_and_where_it_was_copied_at_both() {
    block_on(async {
        let moving = Moving::begin(mem(SIZE), mem(SIZE)).await;
        assert_eq!(moving.disk.try_write(BLOCK, &OLD), TryIo::Done);
        assert_eq!(content(&moving.disk).await, OLD);
        assert_eq!(content(&*moving.new).await, [0; 4096]);
        moving.copy().await;
        assert_eq!(content(&*moving.new).await, OLD);
        assert_eq!(moving.disk.try_write(BLOCK, &NEW), TryIo::Done);
        assert_eq!(content(&moving.disk).await, NEW);
        assert_eq!(content(&*moving.new).await, NEW);
    });
}

#[test]
fn a_write_of_bytes_that_are_being_copied_takes_the_waiting_path() {
    block_on(async {
        let old = HeldDisk::new(mem(SIZE));
        let moving = Moving::begin(old.clone(), mem(SIZE)).await;
        let users = async {
            old.arrival().await;
            assert_eq!(moving.disk.try_write(BLOCK, &NEW), TryIo::WouldBlock);
            old.hold(false);
            old.release_all().await;
        };
        join(moving.copy(), users).await;
    });
}

/// The old place has the bytes, the new one not: the waiting path writes both again, and nothing is left to be repaired.
#[test]
fn what_was_written_at_one_place_only_is_gone_over_by_the_waiting_path() {
    block_on(async {
        let moving = Moving::begin(mem(SIZE), slow()).await;
        moving.write(OLD).await;
        moving.copy().await;
        assert_eq!(moving.disk.try_write(BLOCK, &NEW), TryIo::WouldBlock);
        assert_eq!(moving.disk.state().locks.cancelled_count(), 1);
        moving.write(NEW).await;
        assert_eq!(moving.disk.state().locks.cancelled_count(), 0);
        assert_eq!(content(&*moving.new).await, NEW);
        // One that is dropped before it was sent keeps the places in mind.
        assert_eq!(moving.disk.try_write(BLOCK, &OLD), TryIo::WouldBlock);
        drop(
            moving
                .disk
                .write(BLOCK, single(NEW.to_vec()), WriteFlags::empty()),
        );
        let write = moving
            .disk
            .write(BLOCK, single(NEW.to_vec()), WriteFlags::empty());
        select(write, Box::pin(std::future::ready(()))).await;
        assert_eq!(moving.disk.state().locks.cancelled_count(), 1);
    });
}

/// A reader has seen what the fast path wrote at the old place; its writer never came back.
#[test]
fn what_was_written_at_one_place_only_is_at_both_after_the_switch() {
    block_on(async {
        let moving = Moving::begin(mem(SIZE), slow()).await;
        moving.write(OLD).await;
        moving.copy().await;
        assert_eq!(moving.disk.try_write(BLOCK, &NEW), TryIo::WouldBlock);
        let before = content(&moving.disk).await;
        moving.switch().await;
        assert_eq!(content(&moving.disk).await, before);
        assert_eq!(content(&*moving.new).await, before);
    });
}

/// A trim may do nothing, and so does not make places equal.
#[test]
fn a_trim_does_not_go_over_what_was_written_at_one_place_only() {
    block_on(async {
        let moving = Moving::begin(mem(SIZE), slow()).await;
        moving.write(OLD).await;
        moving.copy().await;
        assert_eq!(moving.disk.try_write(BLOCK, &NEW), TryIo::WouldBlock);
        let (admitted, cancelled) = {
            let mut state = moving.disk.lock();
            let admitted = state.admit(BLOCK, false);
            (admitted, state.locks.cancelled_count())
        };
        assert_eq!((admitted.over, cancelled), (false, 1));
    });
}
