//! Arrays that get another consistency policy while requests wait for their turn.

use block::{BlockDevice, Node, Range, WriteFlags};
use testkit::block_on;

use super::super::ConsistencyPolicy;
use super::super::format::ppl::{PplEntry, PplHeader, signature};
use super::super::redundant::tests::kit::superblock;
use super::level::hold_first;
use super::policy::{MIB, assert_parity_fits, made, mem_disks, policy, read};
use super::reshape::write;

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
