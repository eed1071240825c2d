//! Commits without a task that waits for them.
//!
//! A commit went on only while a task that waited for it was polled. The user that had begun one left, a disk
//! had hung, all others waited for that: the commit stood still until a timeout woke a task that looked at it again, and
//! the answer of a good member, which had been there all the time, came too late by then.

use std::pin::pin;
use std::sync::Arc;

use block::{Node, Range};
use testkit::{HeldDisk, block_on};

use super::disks;
use super::kit::{Heard, Recipe, SUPERBLOCK, bits, heard, open, put, recorded, superblock, write};
use crate::array::format::{self, Changes, Version};
use crate::array::redundant::RedundantArray;
use crate::test_runtime::is_ready;

const FIRST: Range = Range::new(0, 4096);

/// A mirror with members that hold their requests, and a commit of it that no task waits for.
async fn left(below: &[Node]) -> (Vec<Arc<HeldDisk>>, Arc<RedundantArray>) {
    let held: Vec<_> = below.iter().cloned().map(HeldDisk::new).collect();
    held.iter().for_each(|disk| disk.hold(false));
    let disks: Vec<Node> = held.iter().map(|disk| disk.clone() as Node).collect();
    let mirror = Recipe::mirror(2).open(&disks).await;
    held.iter().for_each(|disk| disk.hold(true));
    {
        let mut asked = pin!(write(&mirror, FIRST, 1));
        assert!(!is_ready(asked.as_mut()).await);
    }
    assert!(held.iter().all(|disk| !disk.held().is_empty()));
    (held, mirror)
}

/// Members answer all requests.
async fn answer(held: &[Arc<HeldDisk>]) {
    for _ in 0..16 {
        for disk in held {
            disk.release_all().await;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_commit_goes_on_when_who_began_it_has_left() {
    block_on(async {
        let below = disks(2);
        let (held, mirror) = left(&below).await;
        answer(&held).await;
        for disk in &below {
            let told = superblock(disk).await;
            assert_eq!((told.events, told.synced_to), (11, Some(0)));
            assert_eq!(bits(disk).await.1, [0]);
        }
        // The next one need not wait for anything but its data.
        let mut asked = pin!(write(&mirror, FIRST, 2));
        assert!(!is_ready(asked.as_mut()).await);
        answer(&held).await;
        assert!(is_ready(asked.as_mut()).await);
    });
}

#[test]
fn a_commit_ends_with_its_array() {
    block_on(async {
        let below = disks(2);
        let (held, mirror) = left(&below).await;
        drop(mirror);
        answer(&held).await;
        for disk in &below {
            assert_eq!(superblock(disk).await.events, 10);
        }
    });
}

/// A power cut in a commit left two of three members one commit behind. The first commit after that counted one more at all
/// of them, and another cut left the two behind by two: stale, and an array of level 10 without them could not be opened (world
/// 1331).
#[test]
fn members_that_are_one_commit_behind_catch_up_before_the_next_one() {
    block_on(async {
        let below = disks(3);
        Recipe::mirror(3).make(&below).await;
        let bytes = below[0].read(Range::new(SUPERBLOCK, 4096)).await.unwrap();
        let ahead = Changes {
            events: Some(11),
            ..Changes::default()
        };
        let bytes = format::patch(&bytes.concat(), Version::V1_2, &ahead);
        put(&below[0], SUPERBLOCK, bytes).await;
        let (asked, journal) = recorded(&below);
        let mirror = open(&asked).await;
        heard(&journal);
        write(&mirror, FIRST, 1).await.unwrap();
        let all = heard(&journal);
        let order = |heard: &&Heard| heard.done && (heard.is_superblock() || heard.is_bitmap());
        let members = all.iter().filter(order).map(|heard| heard.member);
        assert_eq!(members.collect::<Vec<_>>()[..2], [1, 2], "{all:?}");
        let superblocks = all
            .iter()
            .filter(|heard| heard.done && heard.is_superblock());
        assert_eq!(superblocks.count(), 5);
        for disk in &below {
            assert_eq!(superblock(disk).await.events, 12);
        }
    });
}
