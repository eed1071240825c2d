//! Reads of arrays with parity that are under way while something becomes of a member.

use std::pin::pin;

use block::{Errno, Node, Operation, Range};
use futures_util::future::{self, Either};
use testkit::{Effect, Fault, FaultDisk, HeldDisk, block_on, pattern};

use super::disks;
use super::kit::{MEMBER, Recipe, SUPERBLOCK, open, put, read, write};
use crate::array::format::{self, Changes, Level, Version};

const FIRST: Range = Range::new(0, 4096);

/// A write of a row waited for a member that hung; meanwhile another one was rebuilt, and the write failed as if that were missing still (world
/// 34389743416).
#[test]
fn a_read_that_fails_while_a_member_was_rebuilt_is_tried_with_that() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 4);
        let below = disks(4);
        let array = recipe.open(&below).await;
        write(&array, FIRST, 1).await.unwrap();
        array.stop().await.unwrap();
        let changes = Changes {
            rebuilt_to: Some(Some(0)),
            ..Changes::default()
        };
        let superblock = below[0].read(Range::new(SUPERBLOCK, 4096)).await.unwrap();
        let superblock = format::patch(&superblock.concat(), Version::V1_2, &changes);
        put(&below[0], SUPERBLOCK, superblock).await;

        let faults = FaultDisk::new(below[1].clone(), 1, Vec::new());
        let held = HeldDisk::new(faults.clone());
        held.hold(false);
        let mut disks = below.clone();
        disks[1] = held.clone() as Node;
        let array = open(&disks).await;
        assert_eq!(array.rebuilding(), [(0, 0, false)]);
        held.hold(true);
        let mut reading = pin!(read(&array, FIRST));
        // It is computed.
        while held.held().is_empty() {
            assert!(!crate::test_runtime::is_ready(reading.as_mut()).await);
            tokio::task::yield_now().await;
        }

        let rebuilt = pin!(async {
            array.rebuilt(0, MEMBER);
            array.in_sync(0).await.unwrap();
        });
        let committed = pin!(async {
            loop {
                let all = held.held();
                for other in all.iter().filter(|one| one.operation != Operation::Read) {
                    held.release(other.id).await;
                }
                tokio::task::yield_now().await;
            }
        });
        let Either::Left(_) = future::select(rebuilt, committed).await;
        faults.inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read));
        held.hold(false);
        held.release_all().await;
        assert_eq!(reading.await, pattern(1, FIRST));
    });
}
