//! Commits that nobody waits for.
//!
//! A commit went on only while somebody who waited for it was polled. The user whose write had begun one left, a disk
//! had hung, everybody else waited for that: the commit stood still until a timeout let somebody look at it again, and
//! the answer of a good member, which had been there all the time, came too late by then.

use std::pin::pin;
use std::sync::Arc;

use block::{Node, Range};
use testkit::{HeldDisk, block_on};

use super::disks;
use super::kit::{Recipe, bits, superblock, write};
use crate::array::mirror::Mirror;
use crate::timed::is_ready;

const FIRST: Range = Range::new(0, 4096);

/// A mirror whose members hold what they are asked, and a commit of it of which nobody waits for the end.
async fn left(below: &[Node]) -> (Vec<Arc<HeldDisk>>, Arc<Mirror>) {
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

/// Members answer whatever they are asked.
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
