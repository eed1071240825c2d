//! Arrays that get another consistency policy while requests wait for their turn.

use block::{BlockDevice, Node, Range, WriteFlags};
use testkit::block_on;

use super::super::ConsistencyPolicy;
use super::super::format::ppl::{PplEntry, PplHeader, signature};
use super::super::redundant::tests::kit::superblock;
use super::level::hold_first;
use super::policy::{MIB, assert_parity_fits, is_mixed, made, mem_disks, opened, policy, read};
use super::reshape::write;
use super::watched_disks::{DiskImages, WatchedDisks};

/// Bytes of a row of three members with chunks of 64 KiB.
const ROW: u64 = 128 << 10;

/// Entries of the first header of each log.
async fn logged(disks: &[Node]) -> Vec<PplEntry> {
    let mut entries = Vec::new();
    for disk in disks {
        let of = superblock(disk).await;
        let log = of.ppl.expect("each member has a log");
        let header = disk.read(Range::new(log.offset, 4096)).await.unwrap();
        let header = PplHeader::decode(&header.concat(), signature(&of.array));
        entries.extend(header.unwrap().entries);
    }
    entries
}

/// What was wrong: zeroes that waited while members got logs went to all members at once, and no log named their rows. After a power cut in them
/// the entries of other rows made all parity count as right.
#[test]
fn zeroes_that_wait_while_members_get_partial_parity_logs_are_logged() {
    block_on(async {
        let mut disks = mem_disks(3, 4 * MIB);
        let held = hold_first(&mut disks);
        let array = made(&disks, ConsistencyPolicy::Resync).await;
        write(&array, Range::new(0, 4 * ROW), 1).await;
        held.hold(true);
        let zeroed = Range::new(ROW, ROW);
        let both = async {
            // The change has the turn of all rows first.
            tokio::join!(
                biased;
                array.change_policy(ConsistencyPolicy::Ppl),
                array.write_zeroes(zeroed, WriteFlags::empty()),
            )
        };
        let release = async {
            held.arrival().await;
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            held.hold(false);
            held.release_all().await;
        };
        let ((changed, answer), ()) = tokio::join!(both, release);
        changed.unwrap();
        answer.unwrap();
        assert_eq!(policy(&array), ConsistencyPolicy::Ppl);
        let entries = logged(&disks).await;
        let places: Vec<(u64, u32)> = entries
            .iter()
            .map(|entry| (entry.data_sector, entry.data_len))
            .collect();
        assert_eq!(places, [(ROW / 512, 128 << 10)]);
        assert!(read(&array, zeroed).await.iter().all(|byte| *byte == 0));
        assert_parity_fits(&array).await;
        array.stop().await.unwrap();
    });
}

/// What cuts leave of an array in use that gets another policy.
async fn cut_while_dirty(to: ConsistencyPolicy) -> Vec<DiskImages> {
    let watched = WatchedDisks::new();
    let array = made(&watched.nodes, ConsistencyPolicy::Resync).await;
    write(&array, Range::new(0, 512 << 10), 1).await;
    watched.begin();
    array.change_policy(to).await.unwrap();
    watched.end()
}

/// What was wrong: members that a power cut had left with different policies have none when they are opened again. Where another cut came while that
/// was being recorded, the first one had as many events with it as another one that had the policy yet, and the array was refused.
#[test]
fn a_cut_while_members_that_a_cut_left_with_different_policies_get_none_leaves_an_array_that_opens()
{
    let mut cuts = 0;
    for to in [ConsistencyPolicy::Ppl, ConsistencyPolicy::Bitmap] {
        let images = block_on(cut_while_dirty(to));
        for image in images.iter().filter(|image| is_mixed(image)) {
            block_on(async {
                let watched = WatchedDisks::of(image).await;
                watched.begin();
                let array = opened(&watched.nodes).await;
                write(&array, Range::new(4096, 8192), 1).await;
                drop(array);
                for image in watched.end().iter().filter(|image| is_mixed(image)) {
                    let watched = WatchedDisks::of(image).await;
                    let array = opened(&watched.nodes).await;
                    array.by_hand().work().await.unwrap();
                    assert_parity_fits(&array).await;
                    cuts += 1;
                }
            });
        }
    }
    assert!(
        cuts > 0,
        "no second cut left members with different policies"
    );
}
