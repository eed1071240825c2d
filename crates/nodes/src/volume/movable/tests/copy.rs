//! How the copy shares the disks with users.

use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use block::{BlockDevice as _, Operation, TryIo};
use engine::clock;
use futures_util::future::{Either, select};
use testkit::{HeldDisk, block_on};

use super::super::{CopyPace, MovableDisk, UserActivity};
use super::*;
use crate::Segment;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 256 * MIB;

/// Windows that are in flight, by the reads that wait on the old disk.
fn windows(old: &HeldDisk) -> Vec<u64> {
    let held = old.held().into_iter();
    let reads = held.filter(|held| held.operation == Operation::Read);
    reads.map(|held| held.range.unwrap().len).collect()
}

/// The story: a copy kept up to sixteen windows of 1 MiB before each disk, and every user's request waited behind them: the slowest
/// hundredth of them took 13 times as long as without a move.
#[test]
fn while_users_are_there_three_short_windows_are_copied_at_a_time_without_pauses() {
    block_on(async {
        let old = HeldDisk::new(mem(SIZE));
        let range = Range::new(0, SIZE);
        let segment = Segment {
            disk: old.clone(),
            range,
        };
        let users = Arc::<UserActivity>::default();
        let disk = MovableDisk::new(vec![(0, segment)], users.clone()).unwrap();
        let begun = disk.begin(range, Place::new(mem(SIZE), 1, 0)).await;
        begun.unwrap();
        let copied = AtomicU64::new(0);
        let mut pace = CopyPace::new(None, &users);
        let copy = pin!(disk.copy(&mut pace, &copied, || true));
        let mut block = [0; 4096];
        let scenario = pin!(async {
            // Alone: several long ones at a time.
            old.arrivals(3).await;
            assert_eq!(windows(&old), [MIB; 3]);
            for step in 0..20 {
                // The fast path counts, too: of users with their bytes in memory nothing else is seen.
                let read = disk.try_read(Range::new(0, 4096), &mut block);
                assert_eq!(read, TryIo::WouldBlock, "the old disk holds requests");
                clock::sleep(Duration::from_millis(10)).await;
                if step > 3 {
                    assert_eq!(windows(&old), [MIB / 8; 3], "step {step}");
                }
                old.release_all().await;
                // The next one is begun at once.
                clock::sleep(Duration::from_millis(1)).await;
                assert!(!windows(&old).is_empty(), "step {step}");
            }
            for _ in 0..10 {
                clock::sleep(Duration::from_millis(10)).await;
                old.release_all().await;
            }
            old.arrivals(3).await;
            assert!(windows(&old).iter().all(|len| *len == MIB));
        });
        let ended = select(copy, scenario).await;
        assert!(matches!(ended, Either::Right(_)), "there is more to copy");
    });
}
