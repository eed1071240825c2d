//! The disk: reading complete and degraded arrays.

use std::pin::pin;
use std::sync::Arc;

use block::{BlockDevice, Errno, Extent, ExtentKind, Node, Range, TryIo, WriteFlags};
use futures_util::future::poll_immediate;
use proptest::prelude::*;
use testkit::{
    HeldDisk, MemDisk, Op, OpSpace, block_on, check_against_model, check_in_batches, gather, ops,
    single,
};

use super::writer::{Sample, layouts, sample};
use super::{DATA_AT, assembly, disks, member_disk, open, whole, without};
use crate::array::format::Level;
use crate::array::parity::Parity;
use crate::{File, FileOptions, Null};

const CHUNK: usize = 4096;

fn read(array: &Parity, range: Range) -> Vec<u8> {
    gather(&block_on(array.read(range)).unwrap())
}

#[test]
fn every_layout_is_read_complete_and_with_each_and_each_pair_of_its_members_missing() {
    for kind in layouts() {
        for parts in [4, 5, 7] {
            let sample = sample(kind, parts, 512, 2 * parts + 1);
            let members = disks(&sample);
            let check = |missing: &[usize]| {
                let mut disks = members.clone();
                missing.iter().for_each(|part| disks[*part] = None);
                let array = open(assembly(&sample, disks));
                let data = read(&array, whole(&sample));
                assert!(
                    data == sample.data,
                    "{kind:?} of {parts} without {missing:?}"
                );
            };
            check(&[]);
            for x in 0..parts {
                check(&[x]);
                if kind.0 == Level::Raid6 {
                    (x + 1..parts).for_each(|y| check(&[x, y]));
                }
            }
        }
    }
}

/// Reads and flushes alone.
fn reads(size: u64) -> impl Strategy<Value = Vec<Op>> {
    let space = OpSpace {
        size,
        block_size: 512,
        len_max: size,
    };
    ops(space, 0..60).prop_map(|ops| {
        let unchanging = ops.into_iter().filter(|op| !op.changes());
        unchanging.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_degraded_array_is_a_disk(
        ops in reads(4 * 3 * 4096), which in 0..21_usize, missing in prop::collection::vec(0..6_usize, 0..3),
        width in 1..8_usize,
    ) {
        let kind = layouts()[which];
        let sample = sample(kind, if kind.0 == Level::Raid6 { 6 } else { 5 }, CHUNK, 3);
        prop_assume!(sample.data.len() == 4 * 3 * CHUNK);
        let spare = if kind.0 == Level::Raid6 { 2 } else { 1 };
        let missing: Vec<usize> =
            missing.iter().take(spare).map(|part| part % sample.parts).collect();
        let array = open(without(&sample, &missing));
        prop_assert_eq!(read(&array, whole(&sample)), sample.data.clone());
        block_on(check_in_batches(&array, &ops, width)).unwrap();
    }

    #[test]
    fn bad_blocks_and_members_that_are_rebuilt_in_part_are_read_around(
        ops in reads(4 * 9 * 4096), which in 7..21_usize, bad in 0..6_usize, rebuilt in 0..6_usize,
        places in prop::collection::vec((0..70_u64, 1..9_u64), 0..5), to in 0..80_u64,
    ) {
        prop_assume!(bad != rebuilt);
        let sample = sample(layouts()[which], 6, CHUNK, 9);
        let mut assembly = without(&sample, &[]);
        assembly.parts[rebuilt].rebuilt_to = Some(to * 512 + 7);
        let member = assembly.parts[bad].member.as_mut().unwrap();
        member.bad = places.iter().map(|(at, len)| Range::new(at * 512, len * 512)).collect();
        // What is marked holds other bytes, so that a read of it is found out.
        for range in member.bad.clone() {
            let end = range.end().min(sample.member_size());
            let there = Range::new(DATA_AT + range.offset, end - range.offset);
            let junk = vec![0xbb; there.len_usize()];
            block_on(member.disk.write(there, single(junk), WriteFlags::empty())).unwrap();
        }
        let behind = Range::new(DATA_AT + to * 512 + 512, sample.member_size().saturating_sub(to * 512 + 512));
        let member = assembly.parts[rebuilt].member.as_ref().unwrap();
        if !behind.is_empty() {
            let junk = vec![0xcc; behind.len_usize()];
            block_on(member.disk.write(behind, single(junk), WriteFlags::empty())).unwrap();
        }
        let array = open(assembly);
        prop_assert_eq!(read(&array, whole(&sample)), sample.data.clone());
        block_on(check_against_model(&array, &ops)).unwrap();
    }
}

#[test]
fn chunks_of_more_than_a_span_are_read_in_columns() {
    // 4 parts: spans are of 2 MiB of each, a chunk has 3 MiB.
    let sample = sample((Level::Raid6, 2), 4, 3 << 20, 1);
    let array = open(without(&sample, &[1, 2]));
    assert!(read(&array, whole(&sample)) == sample.data);
    assert!(array.rebuilt() > 0);
    let range = Range::new((3 << 20) - 512, 1024);
    let start = usize::try_from(range.offset).unwrap();
    assert_eq!(read(&array, range), sample.data[start..start + 1024]);
}

/// Members that hold each request, to see what is sent to them.
fn held(sample: &Sample, missing: &[usize]) -> (Parity, Vec<Arc<HeldDisk>>) {
    let held: Vec<Arc<HeldDisk>> = disks(sample)
        .into_iter()
        .map(|disk| HeldDisk::new(disk.unwrap()))
        .collect();
    let disk = |(part, disk): (usize, &Arc<HeldDisk>)| {
        (!missing.contains(&part)).then(|| disk.clone() as Node)
    };
    let array = open(assembly(
        sample,
        held.iter().enumerate().map(disk).collect(),
    ));
    (array, held)
}

/// What is sent to each member for a read of `range`.
fn asked(array: &Parity, held: &[Arc<HeldDisk>], range: Range) -> Vec<Vec<Range>> {
    crate::test_runtime::timed(async {
        let mut read = pin!(array.read(range));
        assert!(poll_immediate(read.as_mut()).await.is_none());
        let of = |disk: &Arc<HeldDisk>| {
            let ranges = disk.held().into_iter().map(|held| held.range.unwrap());
            ranges
                .map(|range| Range::new(range.offset - DATA_AT, range.len))
                .collect()
        };
        held.iter().map(of).collect()
    })
}

#[test]
fn each_data_member_gets_one_request_where_its_chunks_lie_together() {
    let sample = sample((Level::Raid4, 0), 4, CHUNK, 8);
    let (array, held) = held(&sample, &[]);
    let all = vec![Range::new(0, sample.member_size())];
    let asked = asked(&array, &held, whole(&sample));
    assert_eq!(asked, [all.clone(), all.clone(), all, vec![]]);
}

#[test]
fn a_small_read_of_a_missing_member_asks_each_other_for_as_much() {
    let sample = sample((Level::Raid6, 2), 5, CHUNK, 5);
    // In row 0 of a left-symmetric array of 5, P is on part 4, Q on 0, data on 1, 2 and 3.
    let (array, held) = held(&sample, &[1]);
    let asked = asked(&array, &held, Range::new(512, 1024));
    let columns = vec![Range::new(512, 1024)];
    let nothing = Vec::new;
    assert_eq!(
        asked,
        [
            nothing(),
            nothing(),
            columns.clone(),
            columns.clone(),
            columns
        ]
    );
}

#[test]
fn bytes_of_a_member_that_is_there_are_asked_of_it_alone() {
    let sample = sample((Level::Raid5, 2), 4, CHUNK, 4);
    let (array, held) = held(&sample, &[0]);
    // In row 0 P is on part 3, data on 0, 1 and 2.
    let asked = asked(&array, &held, Range::new(CHUNK as u64 + 512, 1024));
    assert_eq!(asked[1], [Range::new(512, 1024)]);
    assert_eq!(asked[2..], [vec![], vec![]]);
}

#[test]
fn a_large_degraded_read_asks_for_no_more_than_there_is_room_for() {
    let mut sample = sample((Level::Raid6, 2), 4, 1 << 20, 0);
    sample.rows = 300;
    let size = DATA_AT + sample.member_size();
    let null = || Arc::new(Null::new(size)) as Node;
    let held: Vec<Arc<HeldDisk>> = (0..4).map(|_| HeldDisk::new(null())).collect();
    let mut disks: Vec<Option<Node>> = held.iter().map(|disk| Some(disk.clone() as Node)).collect();
    (disks[1], disks[2]) = (None, None);
    let mut assembly = assembly(&sample, disks);
    assembly.facts.size = 2 * sample.member_size();
    let array = open(assembly);
    let asked = asked(&array, &held, Range::new(0, 2 * sample.member_size()));
    let bytes: u64 = asked.iter().flatten().map(|range| range.len).sum();
    let at_once = u64::from(super::super::member_reads::BYTES_AT_ONCE_MAX);
    assert!(bytes > 0 && bytes <= at_once, "{bytes}");
}

#[test]
fn nothing_is_written_and_every_change_is_refused() {
    let sample = sample((Level::Raid5, 2), 4, CHUNK, 4);
    let before: Vec<Arc<MemDisk>> = sample
        .members()
        .iter()
        .map(|data| Arc::new(member_disk(data)))
        .collect();
    let images: Vec<Vec<u8>> = before.iter().map(|disk| disk.snapshot()).collect();
    let disks = before
        .iter()
        .map(|disk| Some(disk.clone() as Node))
        .collect();
    let array = open(assembly(&sample, disks));
    let range = Range::new(0, 512);
    let flags = WriteFlags::empty();
    assert!(array.geometry().read_only);
    let refusals = [
        block_on(array.write(range, single(vec![1; 512]), flags)),
        block_on(array.write_zeroes(range, flags)),
        block_on(array.trim(range)),
    ];
    for refused in refusals {
        assert_eq!(refused.unwrap_err().errno, Errno::NotPermitted);
    }
    assert_eq!(array.try_write(range, &[1; 512]), TryIo::WouldBlock);
    assert!(array.remap(range).is_none());
    block_on(array.flush()).unwrap();
    block_on(array.settle()).unwrap();
    read(&array, whole(&sample));
    let after: Vec<Vec<u8>> = before.iter().map(|disk| disk.snapshot()).collect();
    assert!(images == after);
}

#[test]
fn bytes_that_are_there_are_read_in_line_and_others_wait() {
    let sample = sample((Level::Raid5, 2), 4, CHUNK, 4);
    let mut into = vec![0; 3 * CHUNK];
    let range = Range::new(0, into.len() as u64);
    let complete = open(without(&sample, &[]));
    assert_eq!(complete.try_read(range, &mut into), TryIo::Done);
    assert_eq!(into, sample.data[..3 * CHUNK]);
    let degraded = open(without(&sample, &[1]));
    assert_eq!(degraded.try_read(range, &mut into), TryIo::WouldBlock);
    let there = Range::new(512, 1024);
    assert_eq!(degraded.try_read(there, &mut into[..1024]), TryIo::Done);
    assert_eq!(into[..1024], sample.data[512..1536]);
}

#[test]
fn regions_of_files_are_those_of_the_members() {
    let sample = sample((Level::Raid5, 2), 3, CHUNK, 6);
    let folder = tempfile::tempdir().unwrap();
    crate::test_runtime::timed(async {
        let mut disks = Vec::new();
        for (part, data) in sample.members().iter().enumerate() {
            let path = folder.path().join(part.to_string());
            std::fs::write(&path, member_disk(data).snapshot()).unwrap();
            let options = FileOptions {
                read_only: true,
                ..FileOptions::default()
            };
            disks.push(Some(
                Arc::new(File::open(&path, options).await.unwrap()) as Node
            ));
        }
        disks[2] = None;
        let array = open(assembly(&sample, disks));
        let data = gather(&array.read(whole(&sample)).await.unwrap());
        assert!(data == sample.data);
        for chunk in 0..12 {
            let range = Range::new(chunk * CHUNK as u64 + 512, 1024);
            // Left-symmetric: chunk 1 of row 0 is on part 1, and so on.
            let (row, index) = (chunk / 2, chunk % 2);
            let p = 2 - row % 3;
            let part = (p + 1 + index) % 3;
            let region = array.file_region(range);
            let at = region.as_ref().map(|region| region.offset);
            let expected = (part != 2).then_some(DATA_AT + row * CHUNK as u64 + 512);
            assert_eq!(at, expected, "chunk {chunk}");
            let (_, start) = block::resolve_start(&array, Range::new(range.offset, 8000));
            assert_eq!(start.len, if part == 2 { 8000 } else { CHUNK as u64 - 512 });
        }
    });
}

#[test]
fn holes_of_a_complete_array_are_those_of_its_members() {
    let mut sample = sample((Level::Raid5, 2), 4, CHUNK, 100);
    sample.data.fill(0);
    let size = DATA_AT + sample.member_size();
    let members: Vec<Arc<MemDisk>> = (0..4).map(|_| Arc::new(MemDisk::new(size))).collect();
    let nodes = || {
        members
            .iter()
            .map(|disk| Some(disk.clone() as Node))
            .collect()
    };
    // Row 50 of 4 parts: P is on part 1, data on 2, 3 and 0.
    let there = Range::new(DATA_AT + 50 * CHUNK as u64, CHUNK as u64);
    block_on(members[3].write(there, single(vec![1; CHUNK]), WriteFlags::empty())).unwrap();
    block_on(members[1].write(there, single(vec![1; CHUNK]), WriteFlags::empty())).unwrap();
    let array = open(assembly(&sample, nodes()));
    let reported = block_on(array.extents(whole(&sample))).unwrap();
    let at = (50 * 3 + 1) * CHUNK as u64;
    let extent = |offset, end, kind| Extent {
        range: Range::new(offset, end - offset),
        kind,
    };
    let behind = at + CHUNK as u64;
    let expected = [
        extent(0, at, ExtentKind::Hole),
        extent(at, behind, ExtentKind::Data),
        extent(behind, sample.data.len() as u64, ExtentKind::Hole),
    ];
    assert_eq!(reported, expected);
    let within = Range::new(at + 512, 1024);
    let reported = block_on(array.extents(within)).unwrap();
    assert_eq!(
        reported,
        [extent(within.offset, within.end(), ExtentKind::Data)]
    );
    let within = Range::new(at - 1024, 2048);
    let reported = block_on(array.extents(within)).unwrap();
    let halves = [
        extent(at - 1024, at, ExtentKind::Hole),
        extent(at, at + 1024, ExtentKind::Data),
    ];
    assert_eq!(reported, halves);

    let mut disks: Vec<Option<Node>> = nodes();
    disks[0] = None;
    let degraded = open(assembly(&sample, disks));
    let reported = block_on(degraded.extents(whole(&sample))).unwrap();
    assert_eq!(
        reported,
        [extent(0, sample.data.len() as u64, ExtentKind::Data)]
    );
}
