//! Growing a disk under its table, with the power cut at every point.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use block::Node;
use gpt_disk_types::LbaLe;
use testkit::CrashDisk;

use super::super::{GrowError, carry_out, grow};
use super::{
    MIB, PartitionTable, Scheme, TableStep, image, new_gpt, new_mbr, places, put, remarks, summed,
    table, two_partitions, with_header,
};

/// Images looked at after each poll.
const IMAGES_PER_CUT: usize = 8;

/// `bytes` with `more` zeroes behind it.
fn longer(bytes: &[u8], more: u64) -> Vec<u8> {
    let more = usize::try_from(more).expect("test disks are small");
    [bytes, &vec![0; more]].concat()
}

/// Grows the table on `bytes`, which have their new length already.
fn grown(bytes: &[u8], number: Option<u32>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let growth = grow(&table(&bytes), bytes.len() as u64, number).expect("it grows");
    for step in &growth.steps {
        put(&mut bytes, step);
    }
    bytes
}

#[test]
fn the_backup_moves_to_the_new_end() {
    for block_size in [512, 4096] {
        let bytes = grown(&longer(&two_partitions(block_size), 16 * MIB), None);
        let table = table(&bytes);
        assert_eq!(remarks(&table), Vec::<String>::new());
        assert_eq!(places(&table), [(1, 1, 4), (2, 5, 10)]);
        // Nothing is left to do.
        let again = grow(&table, bytes.len() as u64, None).unwrap();
        assert_eq!((again.steps.len(), again.moves_backup), (0, false));
    }
}

#[test]
fn the_last_partition_takes_the_room() {
    for block_size in [512, 4096] {
        let bytes = grown(&longer(&two_partitions(block_size), 16 * MIB), Some(2));
        let table = table(&bytes);
        assert_eq!(remarks(&table), Vec::<String>::new());
        assert_eq!(places(&table), [(1, 1, 4), (2, 5, 26)]);
    }
    let mbr = image(8 * MIB, &new_mbr(512, &[Some(2 * MIB), None]));
    let bytes = grown(&longer(&mbr, 8 * MIB), Some(2));
    assert_eq!(places(&table(&bytes)), [(1, 1, 2), (2, 3, 13)]);
}

#[test]
fn a_table_without_a_gpt_needs_nothing() {
    let mbr = longer(&image(8 * MIB, &new_mbr(512, &[None])), MIB);
    assert_eq!(grow(&table(&mbr), 9 * MIB, None).unwrap().steps, []);
}

#[test]
fn nothing_but_the_table_is_touched() {
    let old = longer(&two_partitions(512), 16 * MIB);
    let new = grown(&old, Some(2));
    let table_begin = 34 * 512;
    let table_end = new.len() - 33 * 512;
    assert!(old[table_begin..table_end] == new[table_begin..table_end]);
}

/// The new backup lies apart from the old one, over a part of it, or in its place.
#[test]
fn a_cut_at_any_point_leaves_a_valid_copy_and_growing_again_ends_it() {
    let sizes = [Some(MIB), Some(MIB / 2)];
    for more in [2 * MIB, 8 * 512, 0] {
        for part in [None, Some(2)] {
            let old = longer(&image(4 * MIB, &new_gpt(512, &sizes)), more);
            cut_everywhere(&old, part);
        }
    }
}

#[test]
fn a_cut_while_the_primary_is_restored_leaves_its_backup() {
    let mut old = two_partitions(512);
    old[512 + 60] ^= 1;
    let before = places(&table(&old));
    let growth = grow(&table(&old), 32 * MIB, Some(2)).unwrap();
    let restored = cuts(&old, &growth.before, |left| {
        assert_eq!(places(&table(&left)), before);
    });
    let restored = table(&restored);
    assert_eq!(remarks(&restored), Vec::<String>::new());
    assert_eq!(places(&restored), before);
}

/// Partition 2 is as it was or as it becomes, and growing again always brings it about.
fn cut_everywhere(old: &[u8], part: Option<u32>) {
    let size = old.len() as u64;
    let growth = grow(&table(old), size, part).expect("it grows");
    let before = places(&table(old));
    let after: Vec<_> = before
        .iter()
        .map(|&(number, begin, len)| {
            let grown = growth.partition.filter(|_| Some(number) == part);
            (number, begin, grown.map_or(len, |range| range.len / MIB))
        })
        .collect();
    let ended = cuts(old, &growth.steps, |left| {
        let found = table(&left);
        assert!(places(&found) == before || places(&found) == after);
        // What the system lost it may have lost in the middle of restoring it, too.
        let again = match grow(&found, size, part) {
            Err(GrowError::NoRoom(_)) => grow(&found, size, None),
            again => again,
        };
        let again = again.expect("it grows again");
        let ended = finished(left, &[again.before, again.steps].concat());
        assert_eq!(places(&ended), after);
        assert_eq!(remarks(&ended), Vec::<String>::new());
    });
    assert_eq!(places(&table(&ended)), after);
}

/// Carries out `steps` on a disk that is cut after each poll; what that leaves is looked at. The
/// disk at the end.
fn cuts(old: &[u8], steps: &[TableStep], look: impl Fn(Vec<u8>)) -> Vec<u8> {
    let crash = Arc::new(CrashDisk::from_bytes(old.to_vec()).interleaved(old.len() as u64));
    let node: Node = crash.clone();
    let mut work = pin!(carry_out(&node, steps));
    let mut seeds = 0..;
    loop {
        let polled = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        for seed in seeds.by_ref().take(IMAGES_PER_CUT) {
            look(crash.crash(seed));
        }
        if let Poll::Ready(done) = polled {
            done.expect("a crash disk does not fail");
            return crash.durable();
        }
    }
}

fn finished(mut bytes: Vec<u8>, steps: &[TableStep]) -> PartitionTable {
    for step in steps {
        put(&mut bytes, step);
    }
    table(&bytes)
}

#[test]
fn a_damaged_primary_is_restored_on_the_way() {
    let mut bytes = two_partitions(512);
    bytes[512 + 60] ^= 1;
    let growth = grow(&table(&bytes), bytes.len() as u64, None).unwrap();
    for step in growth.before.iter().chain(&growth.steps) {
        put(&mut bytes, step);
    }
    assert_eq!(bytes, two_partitions(512));
}

/// Fuzzing found it: the size in the message wrapped around.
#[test]
fn headers_that_leave_no_room_for_a_backup_are_not_written() {
    for last_usable in [u64::MAX, 1 << 60, 40_000] {
        let bytes = with_header(two_partitions(512), 512, |header| {
            header.last_usable_lba = LbaLe::from_u64(last_usable);
        });
        let refused = grow(&table(&bytes), bytes.len() as u64, None).unwrap_err();
        assert!(matches!(refused, GrowError::TooSmall { .. }), "{refused}");
    }
}

#[test]
fn a_partition_over_the_table_itself_is_not_overwritten() {
    let mut bytes = longer(&two_partitions(512), MIB);
    bytes[1024 + 32..1024 + 40].copy_from_slice(&10_u64.to_le_bytes());
    let bytes = summed(bytes, 512, 1024);
    let refused = grow(&table(&bytes), bytes.len() as u64, None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "partition 1 lies where its partition table is written"
    );
}

#[test]
fn what_is_not_sound_is_not_grown() {
    let refusal = |bytes: &[u8], number| {
        let size = bytes.len() as u64;
        grow(&table(bytes), size, number).unwrap_err().to_string()
    };
    let two = longer(&two_partitions(512), MIB);
    assert_eq!(refusal(&two, Some(3)), "there is no partition 3 on it");
    assert_eq!(
        refusal(&two, Some(1)),
        "partition 1 cannot grow: partition 2 lies behind it"
    );
    assert_eq!(
        refusal(&two_partitions(512), Some(2)),
        "partition 2 has no room to grow: it reaches to the end of what the table can use"
    );
    let mut unprotected = two.clone();
    unprotected[..512].fill(0);
    assert_eq!(
        refusal(&unprotected, None),
        "its partition table is not written: the GPT has no protective MBR: it is used read-only; \
         Linux does not use it"
    );
    let five = [Some(MIB), Some(MIB), Some(MIB), Some(MIB), Some(MIB)];
    let logical = longer(&image(16 * MIB, &new_mbr(512, &five)), MIB);
    assert_eq!(table(&logical).scheme, Scheme::Mbr);
    for number in [4, 6] {
        assert!(refusal(&logical, Some(number)).contains("is an extended or a logical one"));
    }
    let small = grow(&table(&two_partitions(512)), 8 * MIB, None).unwrap_err();
    assert_eq!(
        small.to_string(),
        "its GPT counts on 16777216 bytes: a disk of 8388608 is too small for it"
    );
}
