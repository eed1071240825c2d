//! Members and journals that fail, and members that come.

use std::sync::Arc;

use block::{Errno, Operation, Range};
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on, pattern};

use super::super::kit::{DATA, DISK, Heard, heard, recorded, superblock};
use super::{CHUNK, FIRST, LARGE, disks, five, opened, read, refused, sum_of, tail, torn, write};
use crate::array::format::Role;
use crate::array::{AddOptions, Candidate, MemberState};

#[test]
fn nothing_is_written_once_the_journal_has_failed() {
    block_on(async {
        let below = disks(&five(), LARGE);
        five().make(&below).await;
        let faults = FaultDisk::new(below[4].clone(), 1, Vec::new());
        let mut failing = below.clone();
        failing[4] = faults.clone();
        let (disks, journal) = recorded(&failing);
        let array = opened(&disks).await;
        let whole = Range::new(0, 3 * CHUNK);
        write(&array, whole, 1).await.unwrap();
        heard(&journal);
        faults.inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write));
        write(&array, FIRST, 2).await.unwrap_err();
        assert!(
            heard(&journal)
                .iter()
                .all(|h| !h.is_data() || h.member == 4)
        );
        let error = write(&array, FIRST, 3).await.unwrap_err().to_string();
        assert!(error.contains("the array's journal has failed"), "{error}");
        assert_eq!(read(&array, whole).await, pattern(1, whole));
        assert_eq!(superblock(&below[0]).await.roles[4], Role::Faulty);
        let member = &array.status().members[4];
        assert_eq!((member.state, &*member.name), (MemberState::Failed, "m4"));
        array.stop().await.unwrap();
        // It says itself that it has the journal; the others know better.
        let why = refused(&below, false).await;
        assert!(why.contains("is missing (m4 has failed)"), "{why}");
    });
}

#[test]
fn a_member_gets_a_part_while_nothing_is_logged() {
    block_on(async {
        for missing in [3, 0] {
            let mut disks = disks(&five(), LARGE);
            five().make(&disks).await;
            let spare = disks.remove(missing);
            let array = opened(&disks).await;
            let whole = Range::new(0, 12 * CHUNK);
            write(&array, whole, 1).await.unwrap();
            let before = tail(disks.last().unwrap()).await;
            let overwrite = AddOptions {
                overwrite: true,
                ..AddOptions::default()
            };
            let comes = Candidate::local("new".to_owned(), spare.clone());
            array.add(comes, overwrite).await.unwrap();
            array.by_hand().work().await.unwrap();
            assert!(tail(disks.last().unwrap()).await > before);
            write(&array, FIRST, 2).await.unwrap();
            drop(array);
            disks.insert(missing, spare);
            let array = opened(&disks).await;
            let expected = [
                pattern(2, FIRST),
                pattern(1, whole).split_off(FIRST.len_usize()),
            ];
            assert_eq!(read(&array, whole).await, expected.concat());
            for row in 0..16 {
                let sum = sum_of(&disks[..4], row).await;
                assert!(sum.iter().all(|byte| *byte == 0), "row {row}");
            }
        }
    });
}

/// The story: the member failed while the journal was emptied for its replacement, which then counted as the whole holder of the
/// part, and was read.
#[test]
fn a_member_that_fails_while_it_gets_a_replacement_is_not_replaced_by_nothing() {
    block_on(async {
        let mut below = disks(&five(), LARGE);
        five().make(&below).await;
        below.push(Arc::new(MemDisk::from_bytes(vec![
            0xdd;
            DISK.try_into().unwrap()
        ])));
        let faults = FaultDisk::new(below[1].clone(), 1, Vec::new());
        let mut failing = below.clone();
        failing[1] = faults.clone();
        let array = opened(&failing[..5]).await;
        let whole = Range::new(0, 12 * CHUNK);
        write(&array, whole, 1).await.unwrap();
        let overwrite = AddOptions {
            overwrite: true,
            ..AddOptions::default()
        };
        let spare = Candidate::local("new".to_owned(), failing[5].clone());
        array.add(spare, overwrite).await.unwrap();
        faults.inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Flush));
        array.replace("m1", None).await.unwrap_err();
        assert_eq!(read(&array, whole).await, pattern(1, whole));
        array.by_hand().work().await.unwrap();
        write(&array, Range::new(512, 512), 2).await.unwrap();
        array.by_hand().work().await.unwrap();
        let rest = Range::new(CHUNK, whole.len - CHUNK);
        assert_eq!(read(&array, rest).await, pattern(1, whole)[4096..]);
        array.stop().await.unwrap();
        let here = [&below[..1], &below[2..]].concat();
        let array = opened(&here).await;
        assert_eq!(array.status().working, 4);
        assert_eq!(read(&array, rest).await, pattern(1, whole)[4096..]);
    });
}

/// The missing member may count one event more than those that are there: it is known to be missing once two commits are durable, and the
/// first one of them was that which moved the tail.
#[test]
fn a_journal_is_emptied_once_superblocks_record_that_a_member_is_missing() {
    block_on(async {
        let (below, _) = torn(&five(), LARGE, true).await;
        let (mut disks, requests) = recorded(&below);
        disks.remove(1);
        let array = opened(&disks).await;
        let all = heard(&requests);
        let is_block = |heard: &Heard| {
            let is_inside = heard.range.is_some_and(|range| range.offset >= DATA);
            heard.member == 4 && heard.operation == Operation::Write && is_inside
        };
        let emptied = all.iter().position(is_block).expect("it is emptied");
        for member in [0, 2, 3, 4] {
            let is_own = |heard: &&Heard| heard.member == member && heard.is_superblock();
            let recorded = all[..emptied].iter().filter(|heard| heard.done);
            assert_eq!(recorded.filter(is_own).count(), 2, "{all:?}");
        }
        array.stop().await.unwrap();
    });
}
