//! What is opened, what is refused, and what is reported of it.

use std::sync::Arc;

use block::{BlockDevice, Node, Range};
use testkit::{block_on, gather};

use super::writer::{Sample, sample};
use super::{DATA_AT, assembly, disks, member_disk, open, whole, without};
use crate::array::assembly::{Absent, Assembly, Other, OtherKind};
use crate::array::format::Level;
use crate::array::parity::Parity;
use crate::array::{ArrayOptions, MemberState};

fn small() -> Sample {
    sample((Level::Raid5, 2), 4, 4096, 4)
}

fn refused(assembly: Assembly) -> String {
    let refused = Parity::with_bits(assembly, &ArrayOptions::default(), None).unwrap_err();
    let next = refused.next().unwrap_or_default().to_owned();
    format!("{refused} {next}")
}

#[test]
fn numbers_that_do_not_fit_each_other_are_refused() {
    let sample = small();
    let with = |change: fn(&mut Assembly)| {
        let mut assembly = without(&sample, &[]);
        change(&mut assembly);
        refused(assembly)
    };
    assert!(with(|array| array.facts.layout = 9).contains("layout 9 of raid5 is not known"));
    assert!(with(|array| array.facts.size += 512).contains("are no raid5 of"));
    assert!(with(|array| array.facts.member_size = u64::MAX).contains("are no raid5 of"));
    assert!(with(|array| array.facts.chunk = 0).contains("chunk of 0 bytes"));
    let short = with(|array| {
        let member = array.parts[2].member.as_mut().unwrap();
        member.superblock.data.len -= 512;
    });
    assert!(short.contains("disk2 is too small"), "{short}");
    let outside = with(|array| {
        let member = array.parts[1].member.as_mut().unwrap();
        member.superblock.data.offset = u64::MAX - 511;
    });
    assert!(outside.contains("disk1 is too small"), "{outside}");
}

#[test]
fn members_with_large_blocks_are_refused_where_data_does_not_begin_at_one() {
    let sample = small();
    let large = |data: &Vec<u8>, block_size| {
        let disk = member_disk(data).with_geometry(|of| of.block_size = block_size);
        Some(Arc::new(disk) as Node)
    };
    let members = sample.members();
    let disks = |block_size| members.iter().map(|data| large(data, block_size)).collect();
    let array = open(assembly(&sample, disks(4096)));
    assert_eq!(array.geometry().block_size, 4096);
    assert_eq!(
        gather(&block_on(array.read(whole(&sample))).unwrap()),
        sample.data
    );
    let mut unaligned = assembly(&sample, disks(4096));
    let member = unaligned.parts[0].member.as_mut().unwrap();
    member.superblock.data.offset -= 512;
    let said = refused(unaligned);
    assert!(
        said.contains("disk0") && said.contains("blocks(DISK, size=512)"),
        "{said}"
    );
}

#[test]
fn bad_blocks_are_widened_to_the_blocks_of_the_array() {
    let sample = small();
    let disk = |data: &Vec<u8>| {
        let disk = member_disk(data).with_geometry(|of| of.block_size = 4096);
        Some(Arc::new(disk) as Node)
    };
    let mut assembly = assembly(&sample, sample.members().iter().map(disk).collect());
    assembly.parts[0].rebuilt_to = Some(4096 + 512);
    let member = assembly.parts[1].member.as_mut().unwrap();
    member.bad = vec![Range::new(512, 512)];
    let array = open(assembly);
    assert_eq!(
        gather(&block_on(array.read(whole(&sample))).unwrap()),
        sample.data
    );
}

#[test]
fn an_array_without_any_data_member_to_spare_opens_and_fails_where_it_is_read() {
    let sample = small();
    let array = open(without(&sample, &[0, 1]));
    assert!(block_on(array.read(whole(&sample))).is_err());
    // Row 0 has its last chunk on part 2.
    let there = Range::new(2 * 4096, 4096);
    let data = block_on(array.read(there)).unwrap();
    assert_eq!(gather(&data), sample.data[2 * 4096..3 * 4096]);
}

#[test]
fn the_status_lists_members_by_their_slots_and_then_the_others() {
    let sample = small();
    let mut assembly = without(&sample, &[3]);
    assembly.parts[1].rebuilt_to = Some(8192);
    let spare = assembly.parts[0].member.clone().unwrap();
    for kind in [
        OtherKind::Spare,
        OtherKind::Stale {
            part: 3,
            by_bitmap: false,
        },
    ] {
        let member = spare.clone();
        assembly.others.push(Other { member, kind });
    }
    assembly.absent.push(Absent {
        name: "nbd://nas/a".to_owned(),
        remote: true,
        reopen: None,
    });
    let status = open(assembly).status();
    let states: Vec<_> = (status.members.iter())
        .map(|member| (member.part, member.state))
        .collect();
    let expected = [
        (Some(0), MemberState::InSync),
        (Some(1), MemberState::Rebuilding(8192)),
        (Some(2), MemberState::InSync),
        (Some(3), MemberState::Missing),
        (None, MemberState::Spare),
        (Some(3), MemberState::Stale),
        (None, MemberState::Missing),
    ];
    assert_eq!(states, expected);
    assert_eq!((status.parts, status.working), (4, 2));
    assert!(status.read_only && status.clean);
    assert_eq!(status.size, sample.data.len() as u64);
}

#[test]
fn an_array_of_tebibytes_is_opened_and_read_at_its_end() {
    let sample = Sample {
        data: Vec::new(),
        ..small()
    };
    let member_size = 8_u64 << 40;
    let mut assembly = assembly(&sample, disks(&small()));
    assembly.facts.member_size = member_size;
    assembly.facts.size = 3 * member_size;
    for part in &mut assembly.parts {
        let member = part.member.as_mut().unwrap();
        member.disk = Arc::new(crate::Null::new(DATA_AT + member_size));
        member.superblock.data.len = member_size;
    }
    assembly.parts[2].member = None;
    let array = open(assembly);
    let end = Range::new(3 * member_size - 65_536, 65_536);
    let data = gather(&block_on(array.read(end)).unwrap());
    assert_eq!(data, vec![0; 65_536]);
    let reported = block_on(array.extents(Range::new(0, 3 * member_size))).unwrap();
    assert_eq!(reported.len(), 1);
}
