//! Members that fail while they are read.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Errno, Node, Operation, Range};
use testkit::{Effect, Fault, FaultDisk, HeldDisk, block_on, gather};

use super::writer::{Sample, layouts, sample};
use super::{DATA_AT, assembly, disks, open, whole, without};
use crate::array::format::Level;
use crate::array::format::bitmap::{Bits, Shape};
use crate::array::parity::Parity;
use crate::array::{ArrayEvent, ArrayOptions, MemberState};

const CHUNK: usize = 16 << 10;

/// The array, with each member behind a disk that fails on command.
fn faulty(sample: &Sample) -> (Parity, Vec<Arc<FaultDisk>>) {
    let faulty: Vec<Arc<FaultDisk>> = disks(sample)
        .into_iter()
        .map(|disk| FaultDisk::new(disk.unwrap(), 1, Vec::new()))
        .collect();
    let nodes = faulty
        .iter()
        .map(|disk| Some(disk.clone() as Node))
        .collect();
    (open(assembly(sample, nodes)), faulty)
}

/// Reads of these bytes of a member's data fail.
fn bad(offset: u64, len: u64) -> Fault {
    let place = Range::new(DATA_AT + offset, len);
    Fault::new(Effect::Fail(Errno::Io))
        .on(Operation::Read)
        .at(place)
}

fn corrected(array: &Parity) -> Vec<u64> {
    let status = array.status();
    status
        .members
        .iter()
        .map(|member| member.corrected)
        .collect()
}

#[test]
fn a_sector_that_cannot_be_read_is_had_from_the_others() {
    for kind in layouts() {
        let sample = sample(kind, 4, 4096, 4);
        for part in 0..4 {
            let (array, faulty) = faulty(&sample);
            faulty[part].inject(bad(4096 + 512, 512));
            let data = gather(&block_on(array.read(whole(&sample))).unwrap());
            assert!(data == sample.data, "{kind:?}, part {part}");
            let was_data = faulty[part].hits() > 0;
            assert_eq!(corrected(&array)[part] > 0, was_data);
            assert_eq!(array.status().working, 4);
        }
    }
}

#[test]
fn bad_sectors_of_several_members_are_no_loss_in_different_rows() {
    let sample = sample((Level::Raid5, 2), 4, CHUNK, 8);
    let (array, faulty) = faulty(&sample);
    for (row, disk) in faulty.iter().enumerate() {
        disk.inject(bad((row * CHUNK) as u64 + 8192, 512));
        disk.inject(bad((row * CHUNK) as u64 + 12_288, 512));
    }
    let data = gather(&block_on(array.read(whole(&sample))).unwrap());
    assert!(data == sample.data);
}

#[test]
fn bad_sectors_of_one_row_are_no_loss_in_different_columns() {
    let sample = sample((Level::Raid6, 2), 5, CHUNK, 5);
    let (array, faulty) = faulty(&sample);
    for (column, disk) in faulty.iter().enumerate() {
        disk.inject(bad((column * 8192) as u64, 512));
    }
    let data = gather(&block_on(array.read(whole(&sample))).unwrap());
    assert!(data == sample.data);
}

#[test]
fn what_is_lost_on_too_many_members_is_reported_with_its_place_and_their_names() {
    let sample = sample((Level::Raid5, 2), 4, CHUNK, 4);
    let (array, faulty) = faulty(&sample);
    // Row 0: P is on part 3, data on 0, 1 and 2.
    faulty[0].inject(bad(8192, 512));
    faulty[2].inject(bad(8192, 512));
    let error = block_on(array.read(whole(&sample))).unwrap_err();
    assert_eq!(error.errno, Errno::Io);
    assert_eq!(error.range, Some(Range::new(8192, 4096)));
    let said = error.to_string();
    assert!(said.contains("part 0 disk0 (read of"), "{said}");
    assert!(said.contains("part 2 disk2 (read of"), "{said}");
    assert!(said.ends_with("raid5 can do without 1)"), "{said}");
    let beside = block_on(array.read(Range::new(0, 8192))).unwrap();
    assert_eq!(gather(&beside), sample.data[..8192]);
}

#[test]
fn what_is_missing_from_the_beginning_is_reported_by_name() {
    let sample = sample((Level::Raid6, 2), 5, CHUNK, 5);
    let mut assembly = without(&sample, &[1, 2]);
    assembly.parts[3].rebuilt_to = Some(512);
    let member = assembly.parts[4].member.as_mut().unwrap();
    member.bad = vec![Range::new(1024, 512)];
    let array = open(assembly);
    let error = block_on(array.read(Range::new(1024, 512)))
        .unwrap_err()
        .to_string();
    assert!(error.contains("part 1 missing, part 2 missing"), "{error}");
    assert!(
        error.contains("part 3 disk3 (rebuilt only up to byte 512)"),
        "{error}"
    );
    assert!(error.contains("part 4 disk4 (a bad block)"), "{error}");
    let there = block_on(array.read(Range::new(0, 512))).unwrap();
    assert_eq!(gather(&there), sample.data[..512]);
}

#[test]
fn parity_of_an_array_that_was_not_stopped_is_not_trusted_unasked() {
    let sample = sample((Level::Raid5, 2), 4, CHUNK, 8);
    let open_with = |force_dirty_degraded| {
        let mut assembly = without(&sample, &[0]);
        assembly.synced_to = Some(4 * CHUNK as u64);
        let options = ArrayOptions {
            force_dirty_degraded,
            ..ArrayOptions::default()
        };
        Parity::with_bits(assembly, &options, None).unwrap()
    };
    let careful = open_with(false);
    let half = Range::new(0, 3 * 4 * CHUNK as u64);
    let data = block_on(careful.read(half)).unwrap();
    assert!(gather(&data) == sample.data[..half.len_usize()]);
    let error = block_on(careful.read(whole(&sample)))
        .unwrap_err()
        .to_string();
    assert!(error.contains("was not stopped cleanly"), "{error}");
    assert!(error.contains("part 0 missing"), "{error}");
    assert!(!careful.status().clean);
    let forced = open_with(true);
    let data = block_on(forced.read(whole(&sample))).unwrap();
    assert!(gather(&data) == sample.data);
}

#[test]
fn parity_is_trusted_where_the_bitmap_says_that_nothing_was_being_written() {
    let sample = sample((Level::Raid5, 2), 4, CHUNK, 8);
    let mut assembly = without(&sample, &[0]);
    assembly.synced_to = Some(0);
    // A bit for each row.
    let shape = Shape::new(sample.member_size(), u32::try_from(CHUNK).unwrap()).unwrap();
    let mut bits = Bits::clear(shape);
    bits.set(2);
    let options = ArrayOptions::default();
    let array = Parity::with_bits(assembly, &options, Some(bits)).unwrap();
    let row_len = 3 * CHUNK;
    for row in 0..8 {
        let range = Range::new((row * row_len) as u64, row_len as u64);
        match block_on(array.read(range)) {
            Ok(data) => {
                assert!(gather(&data) == sample.data[row * row_len..][..row_len]);
                assert_ne!(row, 2);
            }
            Err(error) => {
                assert_eq!(row, 2, "{error}");
                // Part 0 has the row's last chunk but one: P is on part 1.
                let lost = Range::new((2 * row_len + 2 * CHUNK) as u64, CHUNK as u64);
                assert_eq!(error.range, Some(lost));
            }
        }
    }
    let reported = array.status().bitmap.unwrap();
    assert_eq!((reported.chunks, reported.dirty), (8, 1));
}

#[test]
fn a_member_that_fails_again_and_again_is_asked_only_in_need() {
    let sample = sample((Level::Raid5, 2), 4, CHUNK, 8);
    let (array, faulty) = faulty(&sample);
    let mut events = array.events();
    faulty[1].inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read));
    // Row 0 has its second chunk there.
    let there = Range::new(CHUNK as u64, 512);
    while array.status().working == 4 {
        let data = block_on(array.read(there)).unwrap();
        assert_eq!(gather(&data), sample.data[CHUNK..CHUNK + 512]);
    }
    let Ok(ArrayEvent::Fail { member, why }) = events.try_recv() else {
        panic!("a member in doubt is reported")
    };
    assert_eq!(member, "disk1");
    assert!(why.contains("injected fault"), "{why}");
    let status = array.status();
    assert_eq!(status.members[1].state, MemberState::Failed);
    assert_eq!(status.members[1].why, Some(why));
    let before = faulty[1].hits();
    let data = gather(&block_on(array.read(whole(&sample))).unwrap());
    assert!(data == sample.data);
    assert_eq!(faulty[1].hits(), before, "others have all its bytes");

    // It answers again, and now another one does not.
    faulty[1].heal();
    faulty[0].inject(bad(0, 512));
    let data = gather(&block_on(array.read(whole(&sample))).unwrap());
    assert!(data == sample.data);
    assert_eq!(array.status().working, 4, "it is back");
    let back = events.try_recv();
    assert!(matches!(back, Ok(ArrayEvent::MemberBack { member }) if member == "disk1"));
}

#[test]
fn a_member_that_does_not_answer_in_time_is_read_around() {
    let sample = sample((Level::Raid6, 8), 5, CHUNK, 5);
    let mut disks = disks(&sample);
    let held = HeldDisk::new(disks[2].take().unwrap());
    disks[2] = Some(held.clone());
    let options = ArrayOptions {
        member_timeout: Duration::from_millis(5),
        ..ArrayOptions::default()
    };
    let array = Parity::with_bits(assembly(&sample, disks), &options, None).unwrap();
    crate::test_runtime::timed(async {
        let data = gather(&array.read(whole(&sample)).await.unwrap());
        assert!(data == sample.data);
        assert_eq!(array.status().members[2].state, MemberState::Failed);
        assert_eq!(array.status().working, 4);
        let data = gather(&array.read(whole(&sample)).await.unwrap());
        assert!(data == sample.data);
        assert!(held.held().is_empty(), "it is not asked again");
    });
}
