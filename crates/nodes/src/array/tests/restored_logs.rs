//! Partial parity logs that a reshape drops: members have them again once it has ended, also where another process ends it.

use std::sync::Arc;

use block::{BlockDevice, Node, Range};
use testkit::{MemDisk, block_on, pattern};

use super::super::format::{Superblock, Version, awaits_ppl, decode, encode};
use super::super::redundant::tests::kit::put;
use super::super::{AddOptions, Array, Candidate, ConsistencyPolicy, NewShape};
use super::policy::{MIB, assert_parity_fits, made, mem_disks, opened, policy, read};
use super::reshape::write;
use super::watched_disks::{DiskImages, WatchedDisks};

/// Where superblocks are, byte of a disk.
const SUPERBLOCK: u64 = 4096;
/// What the array holds.
const WHOLE: Range = Range::new(0, 512 << 10);
/// The parity moves to the other side.
const OTHER_LAYOUT: NewShape = NewShape {
    parts: None,
    layout: Some(0),
    chunk: None,
};

async fn superblock(disk: &Node) -> (Superblock, bool) {
    let place = Range::new(SUPERBLOCK, 4096);
    let bytes = disk.read(place).await.unwrap().concat();
    let found = decode(Version::V1_2, SUPERBLOCK, &bytes).unwrap().unwrap();
    (found, awaits_ppl(Version::V1_2, &bytes))
}

/// Logs are kept: what is written is there although a member is lost with the power.
async fn assert_logs_work(array: Arc<Array>, disks: &[Node]) {
    let range = Range::new(64 << 10, 8192);
    write(&array, range, 2).await;
    array.flush().await.unwrap();
    drop(array);
    let array = opened(&disks[1..]).await;
    let mut expected = pattern(1, WHOLE);
    expected[64 << 10..][..8192].copy_from_slice(&pattern(2, range));
    assert!(read(&array, WHOLE).await == expected);
    array.stop().await.unwrap();
}

async fn cut_in_a_reshape() -> Vec<DiskImages> {
    let watched = WatchedDisks::sampled(16);
    let disks = &watched.nodes;
    let array = made(disks, ConsistencyPolicy::Ppl).await;
    write(&array, WHOLE, 1).await;
    array.stop().await.unwrap();
    drop(array);
    let array = opened(disks).await;
    watched.begin();
    array.reshape(OTHER_LAYOUT, None).await.unwrap();
    array.by_hand().work().await.unwrap();
    assert_eq!(policy(&array), ConsistencyPolicy::Ppl);
    watched.end()
}

/// What was wrong: an array that was opened again before its reshape had ended had no logs from then on.
#[test]
fn a_reshape_that_another_process_ends_gives_members_their_logs_again_wherever_it_was_cut() {
    let (mut awaiting, mut without) = (0, 0);
    for image in block_on(cut_in_a_reshape()) {
        block_on(async {
            let disk = |image: Vec<u8>| Arc::new(MemDisk::from_bytes(image)) as Node;
            let disks: Vec<Node> = image.into_iter().map(disk).collect();
            let mut is_awaited = false;
            let mut is_reshaped = false;
            for disk in &disks {
                let (found, awaits) = superblock(disk).await;
                is_awaited |= awaits;
                is_reshaped |= found.reshape.is_some();
            }
            awaiting += u32::from(is_awaited);
            without += u32::from(is_awaited && !is_reshaped);
            let array = opened(&disks).await;
            assert!(read(&array, WHOLE).await == pattern(1, WHOLE));
            array.by_hand().work().await.unwrap();
            assert_eq!(policy(&array), ConsistencyPolicy::Ppl);
            assert_parity_fits(&array).await;
            for disk in &disks {
                let (found, awaits) = superblock(disk).await;
                assert_eq!(
                    (found.keeps_ppl(), awaits, found.reshape),
                    (true, false, None)
                );
            }
            assert_logs_work(array, &disks).await;
        });
    }
    assert!(awaiting > 0, "no cut left members that await logs");
    assert!(
        without > 0,
        "no cut was between the end of the reshape and the logs"
    );
}

/// What was wrong: logs were given up for good where a member was missing at the end of the reshape.
#[test]
fn members_have_their_logs_again_once_a_member_that_failed_meanwhile_is_rebuilt() {
    block_on(async {
        let mut disks = mem_disks(3, 4 * MIB);
        let array = made(&disks, ConsistencyPolicy::Ppl).await;
        write(&array, WHOLE, 1).await;
        array.by_hand().work().await.unwrap();
        array.reshape(OTHER_LAYOUT, None).await.unwrap();
        array.fail("a").await.unwrap();
        array.by_hand().work().await.unwrap();
        assert_eq!(policy(&array), ConsistencyPolicy::Resync);
        assert_eq!(array.status().working, 2);
        array.stop().await.unwrap();
        drop(array);
        // Another process has the array when it gets a disk.
        let array = opened(&disks[1..]).await;
        disks[0] = Arc::new(MemDisk::new(4 * MIB)) as Node;
        let new = Candidate::local("new", disks[0].clone());
        array.add(new, AddOptions::default()).await.unwrap();
        array.by_hand().work().await.unwrap();
        assert_eq!(array.status().working, 3);
        assert_eq!(policy(&array), ConsistencyPolicy::Ppl);
        for disk in &disks {
            let (found, awaits) = superblock(disk).await;
            assert_eq!((found.keeps_ppl(), awaits), (true, false));
        }
        assert_logs_work(array, &disks).await;
    });
}

/// What was wrong: logs that a member has no room for were tried again, and an error was logged, at each open.
#[test]
fn an_array_without_room_for_logs_after_a_reshape_awaits_none_any_more() {
    block_on(async {
        let disks = mem_disks(3, 4 * MIB);
        let array = made(&disks, ConsistencyPolicy::Ppl).await;
        write(&array, WHOLE, 1).await;
        array.reshape(OTHER_LAYOUT, None).await.unwrap();
        let redundant = array.by_hand().array.clone();
        while redundant.move_rows(1 << 20).await.unwrap().is_some() {}
        array.stop().await.unwrap();
        drop((array, redundant));
        // A log of bad blocks fills the room in front of the data of one of them.
        let (mut of, _) = superblock(&disks[0]).await;
        of.bad_blocks = Some(Range::new(8192, of.data.offset - 8192));
        put(&disks[0], SUPERBLOCK, encode(&of, SUPERBLOCK)).await;
        let array = opened(&disks).await;
        assert!(array.by_hand().array.awaits_logs());
        array.by_hand().work().await.unwrap();
        assert!(!array.by_hand().array.awaits_logs());
        assert_eq!(policy(&array), ConsistencyPolicy::Resync);
        drop(array);
        for disk in &disks {
            assert!(!superblock(disk).await.1);
        }
        let array = opened(&disks).await;
        assert!(!array.by_hand().array.awaits_logs());
        assert!(read(&array, WHOLE).await == pattern(1, WHOLE));
        array.stop().await.unwrap();
    });
}

/// Another policy that is chosen while logs are awaited is the last word.
#[test]
fn an_array_that_gets_another_policy_awaits_no_logs_any_more() {
    block_on(async {
        let disks = mem_disks(3, 4 * MIB);
        let array = made(&disks, ConsistencyPolicy::Ppl).await;
        write(&array, WHOLE, 1).await;
        array.reshape(OTHER_LAYOUT, None).await.unwrap();
        let redundant = array.by_hand().array.clone();
        while redundant.move_rows(1 << 20).await.unwrap().is_some() {}
        assert!(redundant.awaits_logs());
        redundant
            .change_policy(ConsistencyPolicy::Bitmap)
            .await
            .unwrap();
        assert!(!redundant.awaits_logs());
        array.stop().await.unwrap();
        drop((array, redundant));
        for disk in &disks {
            assert!(!superblock(disk).await.1);
        }
        let array = opened(&disks).await;
        array.by_hand().work().await.unwrap();
        assert_eq!(policy(&array), ConsistencyPolicy::Bitmap);
        array.stop().await.unwrap();
    });
}
