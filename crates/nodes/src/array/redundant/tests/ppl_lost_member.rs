//! Partial parity logs of an array that lacks a member when it is opened: what is durable before they are reset.

use testkit::block_on;

use super::super::rows::LogMode;
use super::kit::{DISK, Heard, RING, heard, recorded};
use super::ppl::{FIRST, SMALL, opened, torn, write};

/// What was wrong (world 17187180787): the logs of an array that lacked a member were reset before superblocks recorded that. After a power cut there the
/// member was in sync again, no log had the rows that were being written on it, and their parity stayed wrong.
#[test]
fn logs_are_reset_once_superblocks_record_that_a_member_is_missing() {
    for len in [SMALL, RING] {
        block_on(async {
            let (below, _) = torn(len).await;
            let (mut disks, journal) = recorded(&below);
            disks.remove(1);
            let array = opened(&disks).await;
            heard(&journal);
            write(&array, FIRST, 5).await.unwrap();
            let all = heard(&journal);
            let is_log = |heard: &Heard| heard.range.is_some_and(|range| range.offset >= DISK);
            let first = all.iter().position(is_log).expect("logs are reset");
            for member in [0, 2, 3] {
                let is_own = |heard: &&Heard| heard.member == member && heard.is_superblock();
                let recorded = all[..first]
                    .iter()
                    .filter(|heard| heard.done)
                    .filter(is_own);
                // The member may count one event more than those that are there.
                assert_eq!(recorded.count(), 2, "member {member}: {all:?}");
            }
            array.stop().await.unwrap();
        });
    }
}

#[test]
fn a_member_that_was_missing_when_logs_were_reset_is_not_in_sync() {
    for len in [SMALL, RING] {
        block_on(async {
            let (disks, _) = torn(len).await;
            let mut some = disks.clone();
            some.remove(1);
            let array = opened(&some).await;
            let redundant = array.by_hand().array.clone();
            let logs = redundant.rows.logs().expect("it keeps logs");
            redundant.reset_logs(logs, LogMode::Kept).await.unwrap();
            // The power is cut.
            drop((array, redundant));
            let array = opened(&disks).await;
            assert_eq!(array.status().working, 3, "parity of row 0 is old");
            array.stop().await.unwrap();
        });
    }
}
