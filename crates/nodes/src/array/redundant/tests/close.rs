//! When the disk of a member that was forgotten is closed.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Node, Range};
use testkit::{HeldDisk, MemDisk};

use super::kit::{DISK, Recipe, name};
use crate::test_runtime::{is_ready, timed};

/// `re-add` right after `fail` was refused once in forty times: "would be written by two disks at once". A read that had begun before
/// held the member open.
#[test]
fn a_member_that_was_removed_is_closed_once_reads_of_before_have_ended() {
    timed(async {
        let held = HeldDisk::new(Arc::new(MemDisk::new(DISK)));
        held.hold(false);
        let nodes: Vec<Node> = vec![Arc::new(MemDisk::new(DISK)), held.clone()];
        let mut recipe = Recipe::mirror(2);
        recipe.write_mostly = Some(0);
        let mirror = recipe.open(&nodes).await;
        let disk = Arc::downgrade(&nodes[1]);
        drop(nodes);
        assert!(disk.strong_count() > 1);
        held.hold(true);
        let range = Range::new(0, 4096);
        let mut read = mirror.read(range);
        assert!(!is_ready(std::pin::pin!(&mut read)).await);
        held.hold(false);
        mirror.fail_member(&name(1)).await.unwrap();
        let second = name(1);
        let mut removed = Box::pin(mirror.remove_member(&second));
        let waits = Duration::from_millis(100);
        let waited = engine::clock::timeout(waits, &mut removed).await;
        assert!(waited.is_err(), "the read holds it open");
        held.release_all().await;
        read.await.unwrap();
        removed.await.unwrap();
        assert_eq!(disk.strong_count(), 1, "only this test has it");
    });
}
