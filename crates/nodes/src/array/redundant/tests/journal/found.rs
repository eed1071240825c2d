//! What is found in a journal: what Linux left, what was damaged, and what a cut tore.

use block::{Node, Range};
use testkit::{block_on, pattern};

use super::super::kit::{DATA, put, superblock};
use super::{
    CHUNK, FIRST, LARGE, block, disks, five, key, opened, read, refused, sum_of, tail, torn, write,
};
use crate::array::format::r5l::{MetaBlock, PAGE, Payload};

/// What Linux leaves in write-back mode: data that were acknowledged, without parity.
async fn cached() -> (Vec<Node>, Vec<u8>) {
    let disks = disks(&five(), LARGE);
    five().make(&disks).await;
    let array = opened(&disks).await;
    let whole = Range::new(0, 12 * CHUNK);
    write(&array, whole, 1).await.unwrap();
    array.stop().await.unwrap();
    drop(array);
    let at = tail(&disks[4]).await;
    let empty = block(&disks[4], at).await.unwrap();
    let page = pattern(9, Range::new(CHUNK, CHUNK));
    let data = MetaBlock {
        sequence: empty.sequence + 1,
        at: at + PAGE,
        payloads: vec![Payload::Data {
            at: CHUNK,
            checksum: key().checksum([&page[..]]),
        }],
    };
    put(&disks[4], DATA + at + PAGE, data.encode(key())).await;
    put(&disks[4], DATA + at + 2 * PAGE, page.clone()).await;
    let mut expected = pattern(1, whole);
    expected[4096..8192].copy_from_slice(&page);
    (disks, expected)
}

#[test]
fn data_that_linux_acknowledged_without_parity_are_written_with_it() {
    block_on(async {
        let (disks, expected) = cached().await;
        let why = refused(&disks, true).await;
        assert!(why.contains("has what members lack"), "{why}");
        let without = [&disks[..1], &disks[2..]].concat();
        let why = refused(&without, false).await;
        assert!(why.contains("data without parity (write-back)"), "{why}");
        let array = opened(&disks).await;
        assert_eq!(read(&array, Range::new(0, 12 * CHUNK)).await, expected);
        assert!(sum_of(&disks[..4], 0).await.iter().all(|byte| *byte == 0));
        array.stop().await.unwrap();
    });
}

#[test]
fn columns_that_linux_says_are_on_members_are_not_written_again() {
    block_on(async {
        let (disks, _) = cached().await;
        let at = tail(&disks[4]).await;
        let data = block(&disks[4], at + PAGE).await.unwrap();
        let done = MetaBlock {
            sequence: data.sequence + 1,
            at: at + 3 * PAGE,
            payloads: vec![Payload::OnMembers { columns: vec![0] }],
        };
        put(&disks[4], DATA + at + 3 * PAGE, done.encode(key())).await;
        let array = opened(&disks).await;
        let whole = Range::new(0, 12 * CHUNK);
        assert_eq!(read(&array, whole).await, pattern(1, whole));
    });
}

#[test]
fn a_journal_without_a_beginning_is_damaged_and_all_parity_is_resynced() {
    block_on(async {
        let (disks, _) = torn(&five(), LARGE, false).await;
        let at = tail(&disks[4]).await;
        put(&disks[4], DATA + at, vec![0x55; 512]).await;
        let without = [&disks[..1], &disks[2..]].concat();
        let why = refused(&without, false).await;
        assert!(why.contains("its journal is damaged"), "{why}");
        let array = opened(&disks).await;
        assert_eq!(superblock(&disks[0]).await.synced_to, Some(0));
        array.by_hand().work().await.unwrap();
        assert!(sum_of(&disks[..4], 0).await.iter().all(|byte| *byte == 0));
        write(&array, FIRST, 3).await.unwrap();
        drop(array);
        let array = opened(&disks).await;
        assert_eq!(read(&array, FIRST).await, pattern(3, FIRST));
    });
}

#[test]
fn a_page_that_a_cut_tore_ends_the_journal_and_what_is_behind_it_never_counts() {
    block_on(async {
        let (disks, expected) = torn(&five(), LARGE, true).await;
        let mut at = tail(&disks[4]).await;
        let mut last = at;
        while let Some(found) = block(&disks[4], at).await {
            last = at;
            at += found.footprint();
        }
        // The last batch was not whole: nothing of it was sent, as the members here have it.
        put(&disks[4], DATA + last + PAGE + 512, vec![0x55; 512]).await;
        let array = opened(&disks).await;
        let row = Range::new(0, 12 * CHUNK);
        assert_eq!(read(&array, row).await, pattern(1, row));
        assert!(read(&array, row).await != expected);
        // What is written next begins there, and is not taken for what was.
        write(&array, FIRST, 4).await.unwrap();
        drop(array);
        let array = opened(&disks).await;
        assert_eq!(read(&array, FIRST).await, pattern(4, FIRST));
    });
}
