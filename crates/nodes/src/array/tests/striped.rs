//! Tests of linear and RAID 0 arrays: where their bytes are, and that they are disks.

use std::sync::Arc;

use block::{BlockDevice, Errno, IoError, Node, Range, WriteFlags};
use proptest::prelude::*;
use testkit::{
    MemDisk, OpSpace, TrimLeaves, block_on, check_against_model, check_crashes,
    check_dropped_futures, check_in_batches, gather, one_of_each, ops, pattern, single,
};

use super::super::format::{Level, Role, Superblock, Version, encode, features};
use super::super::layout::{linear, raid0};
use super::super::{ArrayOptions, Candidate, Raid0Layout, open};
use super::open::candidates;

const CHUNK: u64 = 4096;
/// Where data begins on each member.
const START: u64 = 1 << 15;
/// Bytes of data of each member: unlike, and one of them with a piece of a chunk.
const LENS: [u64; 3] = [3 * CHUNK, 7 * CHUNK + 512, 5 * CHUNK];
const SIZES: [u64; 3] = [START + LENS[0], START + LENS[1], START + LENS[2] + 1024];
const SIZE: u64 = 15 * CHUNK;

/// Member `number` of a striped array.
pub(super) fn superblock(level: Level, number: u16) -> Superblock {
    let mut of = super::super::format::tests::mirror(Version::V1_2, number);
    of.level = level;
    of.members = 3;
    of.chunk = CHUNK;
    of.member_size = 0;
    of.data = Range::new(START, LENS[usize::from(number)]);
    if level == Level::Raid0 {
        of.layout = 2;
        of.features = features::RAID0_LAYOUT;
    }
    for (part, role) in (0..3).zip(&mut of.roles) {
        *role = Role::Active(part);
    }
    of.events = 0;
    of
}

/// Writes a superblock to where it belongs.
async fn put(disk: &Node, of: &Superblock) {
    let bytes = encode(of, 4096);
    let range = Range::new(4096, bytes.len() as u64);
    let written = disk.write(range, single(bytes), WriteFlags::FUA).await;
    written.unwrap();
    disk.flush().await.unwrap();
}

/// Members of such an array.
pub(super) async fn made_disks(level: Level) -> Vec<Node> {
    let disks: Vec<Node> = SIZES
        .iter()
        .map(|size| Arc::new(MemDisk::new(*size)) as Node)
        .collect();
    drop(made(level, &disks).await);
    disks
}

async fn made(level: Level, disks: &[Node]) -> Node {
    for (number, disk) in (0..).zip(disks) {
        put(disk, &superblock(level, number)).await;
    }
    let options = ArrayOptions::default();
    open(candidates(disks), options).await.unwrap()
}

fn opened(level: Level, disks: &[Node]) -> Node {
    block_on(made(level, disks))
}

async fn linear_array(disks: Vec<Node>) -> Result<Node, IoError> {
    Ok(made(Level::Linear, &disks).await)
}

async fn raid0_array(disks: Vec<Node>) -> Result<Node, IoError> {
    Ok(made(Level::Raid0, &disks).await)
}

fn mem_disks() -> Vec<Node> {
    let disk = |size| Arc::new(MemDisk::new(size).trims_leave(TrimLeaves::Garbage)) as Node;
    SIZES.map(disk).to_vec()
}

const SPACE: OpSpace = OpSpace {
    size: SIZE,
    block_size: 1,
    len_max: SIZE,
};
const SECTORS: OpSpace = OpSpace {
    block_size: 512,
    ..SPACE
};

/// Where md keeps byte `at` of a RAID 0, by the text of the format: the member, and the byte of its data.
fn kept_at(lens: &[u64], chunk: u64, layout: Raid0Layout, at: u64) -> (usize, u64) {
    let used: Vec<u64> = lens.iter().map(|len| len / chunk * chunk).collect();
    let (mut start, mut before) = (0, 0);
    loop {
        let members: Vec<usize> = (0..used.len()).filter(|&m| used[m] > start).collect();
        let end = members
            .iter()
            .map(|&m| used[m])
            .min()
            .expect("the byte is in the array");
        let count = members.len() as u64;
        let within = at - before;
        if within < (end - start) * count {
            let row = within / chunk / count;
            let k = match layout {
                Raid0Layout::Original => at / chunk % count,
                Raid0Layout::Alternate => within / chunk % count,
            };
            let member = members[usize::try_from(k).expect("few")];
            return (member, start + row * chunk + within % chunk);
        }
        before += (end - start) * count;
        start = end;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_linear_array_is_a_disk(ops in ops(SPACE, 0..50), width in 1_usize..6) {
        let array = opened(Level::Linear, &mem_disks());
        block_on(check_in_batches(&*array, &ops, width)).unwrap();
    }

    #[test]
    fn a_raid0_array_is_a_disk(ops in ops(SPACE, 0..50), width in 1_usize..6) {
        let array = opened(Level::Raid0, &mem_disks());
        block_on(check_in_batches(&*array, &ops, width)).unwrap();
    }

    #[test]
    fn it_is_one_request_by_request(ops in ops(SECTORS, 0..40), linear: bool) {
        let level = if linear { Level::Linear } else { Level::Raid0 };
        block_on(check_against_model(&*opened(level, &mem_disks()), &ops)).unwrap();
    }

    #[test]
    fn what_was_flushed_survives_a_power_cut(ops in ops(SECTORS, 0..12), seed: u64, linear: bool) {
        let checked = match linear {
            true => block_on(check_crashes(linear_array, &SIZES, &ops, seed)),
            false => block_on(check_crashes(raid0_array, &SIZES, &ops, seed)),
        };
        checked.unwrap();
    }

    /// Every byte is on one member, where the kernel has it.
    #[test]
    fn raid0_lies_as_md_has_it(
        lens in prop::collection::vec(0..40_u64, 1..6),
        chunk in 1..5_u64,
        original: bool,
    ) {
        let layout = if original { Raid0Layout::Original } else { Raid0Layout::Alternate };
        let zones = raid0::zones(&lens, chunk, Some(layout)).expect("there is a layout");
        let mut at = 0;
        for zone in &zones {
            let members = zone.runs.len() as u64;
            for within in 0..zone.len() {
                let k = usize::try_from(within / chunk % members).unwrap();
                let row = within / chunk / members;
                let run = zone.runs[k];
                let byte = run.within.offset + row * chunk + within % chunk;
                prop_assert!(byte < run.within.end());
                prop_assert_eq!((run.part, byte), kept_at(&lens, chunk, layout, at));
                at += 1;
            }
        }
        let used: u64 = lens.iter().map(|len| len / chunk * chunk).sum();
        prop_assert_eq!(at, used);
    }

    /// `raid0_size` of Linux: sectors, rounded down to chunks by a division, then masked.
    #[test]
    fn raid0_has_the_size_that_linux_computes(
        lens in prop::collection::vec(0..5_000_u64, 1..6),
        chunk in 1..200_u64,
    ) {
        let rounded = |len: &u64| len / chunk * chunk;
        let linux: u64 = lens.iter().map(|len| rounded(len) & !(chunk - 1)).sum();
        let bytes: Vec<u64> = lens.iter().map(|len| len * 512).collect();
        prop_assert_eq!(raid0::size(&bytes, chunk * 512), Some(linux * 512));
        let zones = raid0::zones(&bytes, chunk * 512, Some(Raid0Layout::Alternate)).unwrap();
        let all: u64 = zones.iter().map(raid0::Zone::len).sum();
        prop_assert!(linux * 512 <= all);
        prop_assert!(!chunk.is_power_of_two() || linux * 512 == all);
    }

    #[test]
    fn equal_members_have_one_zone_whatever_the_layout(len in 0..40_u64, members in 1..6_usize) {
        let lens = vec![len; members];
        let zones = |layout| raid0::zones(&lens, 4, layout);
        prop_assert_eq!(zones(None), zones(Some(Raid0Layout::Alternate)));
        prop_assert_eq!(zones(None), zones(Some(Raid0Layout::Original)));
        prop_assert!(zones(None).unwrap().len() <= 1);
    }

    #[test]
    fn linear_uses_whole_chunks(lens in prop::collection::vec(0..40_u64, 1..6), chunk in 0..5_u64) {
        let runs = linear::runs(&lens, chunk);
        for (part, (run, len)) in runs.iter().zip(&lens).enumerate() {
            prop_assert_eq!((run.part, run.within.offset), (part, 0));
            let used = len - len.checked_rem(chunk).unwrap_or(0);
            prop_assert_eq!(run.within.len, used);
        }
    }
}

#[test]
fn a_dropped_future_leaves_nothing_behind_after_settle() {
    let list = one_of_each(Range::new(1500, 40_000), SIZE);
    block_on(check_dropped_futures(linear_array, &SIZES, &list)).unwrap();
    block_on(check_dropped_futures(raid0_array, &SIZES, &list)).unwrap();
}

#[test]
fn the_layout_is_visible_from_outside_alone() {
    let disks = mem_disks();
    for (number, disk) in (0..).zip(&disks) {
        let mut of = superblock(Level::Raid0, number);
        of.features = 0;
        block_on(put(disk, &of));
    }
    let whole = Range::new(0, SIZE);
    let data = pattern(7, whole);
    let with = |layout| ArrayOptions {
        raid0_layout: layout,
        ..ArrayOptions::default()
    };
    let error = block_on(open(candidates(&disks), with(None))).unwrap_err();
    assert!(error.next().unwrap().contains("raid0-layout="), "{error}");
    let original = block_on(open(candidates(&disks), with(Some(Raid0Layout::Original)))).unwrap();
    block_on(original.write(whole, single(data.clone()), WriteFlags::empty())).unwrap();
    for at in (0..SIZE).step_by(512) {
        let (member, byte) = kept_at(&LENS, CHUNK, Raid0Layout::Original, at);
        let range = Range::new(START + byte, 512);
        let there = gather(&block_on(disks[member].read(range)).unwrap());
        let at = usize::try_from(at).unwrap();
        assert_eq!(there, data[at..at + 512], "byte {at}");
    }
    let other = block_on(open(candidates(&disks), with(Some(Raid0Layout::Alternate)))).unwrap();
    assert_ne!(gather(&block_on(other.read(whole)).unwrap()), data);
}

#[test]
fn the_server_finds_the_files_below() {
    let disks = mem_disks();
    let array = opened(Level::Raid0, &disks);
    let (disk, range) = block::resolve_start(&*array, Range::new(CHUNK + 512, 3 * CHUNK));
    assert_eq!(range, Range::new(START + 512, CHUNK - 512));
    assert!(std::ptr::addr_eq(disk, Arc::as_ptr(&disks[1])));
    let kept = ArrayOptions {
        read_only: true,
        ..ArrayOptions::default()
    };
    let kept = block_on(open(candidates(&disks), kept)).unwrap();
    // A caller that follows it may write there, and these disks would be written.
    assert!(kept.remap(Range::new(0, 512)).is_none());
    assert!(kept.remap_start(Range::new(0, 512)).is_none());
}

#[test]
fn what_is_stopped_or_read_only_is_not_changed() {
    let disks = mem_disks();
    let array = opened(Level::Linear, &disks);
    let candidates = candidates(&disks);
    let read_only = ArrayOptions {
        read_only: true,
        ..ArrayOptions::default()
    };
    let kept = block_on(open(candidates, read_only)).unwrap();
    let range = Range::new(0, 512);
    let errno = |array: &Node| {
        let zeroes = array.write_zeroes(range, WriteFlags::empty());
        block_on(zeroes).unwrap_err().errno
    };
    assert!(kept.geometry().read_only);
    assert_eq!(errno(&(kept as Node)), Errno::NotPermitted);
    let stopping = block_on(open(self::candidates(&disks), ArrayOptions::default())).unwrap();
    block_on(stopping.stop()).unwrap();
    assert_eq!(errno(&(stopping as Node)), Errno::ShuttingDown);
    block_on(array.write_zeroes(range, WriteFlags::empty())).unwrap();
}

#[test]
fn there_is_nothing_to_repair_where_nothing_is_kept_twice() {
    let disks = mem_disks();
    drop(opened(Level::Linear, &disks));
    let array = block_on(open(candidates(&disks), ArrayOptions::default())).unwrap();
    let candidate = || Candidate::local("new", None);
    let refusals = [
        block_on(array.add(candidate(), super::super::AddOptions::default())),
        block_on(array.re_add(candidate())),
        block_on(array.fail("a")),
        block_on(array.remove("a")),
        block_on(array.grow(2)),
        array.scrub(super::super::SyncKind::Check),
    ];
    for refusal in refusals {
        let error = refusal.unwrap_err();
        assert!(
            error.to_string().starts_with("linear keeps no copies"),
            "{error}"
        );
    }
    let status = array.status();
    assert_eq!((status.parts, status.working, status.clean), (3, 3, true));
    assert_eq!(status.size, SIZE);
}

/// RAID 0 of chunks that are no power of two was larger here than in Linux, by the chunks that Linux leaves unused: a
/// filesystem that was made here was too large there.
#[test]
fn raid0_of_odd_chunks_ends_where_linux_ends_it() {
    let kib = 1024;
    // In chunks of 24 sectors 216 are 200 by the mask, and 240 are 224; in those of 40 sectors 240 are 208.
    for (chunk, lens, size) in [
        (12, [108, 108, 108], 300),
        (12, [108, 121, 109], 312),
        (20, [100, 120, 119], 304),
        (16, [108, 121, 112], 320),
    ] {
        let disks: Vec<Node> = lens
            .iter()
            .map(|len| Arc::new(MemDisk::new(START + len * kib)) as Node)
            .collect();
        let array = block_on(async {
            for ((number, disk), len) in (0..).zip(&disks).zip(lens) {
                let mut of = superblock(Level::Raid0, number);
                of.chunk = chunk * kib;
                of.data = Range::new(START, len * kib);
                put(disk, &of).await;
            }
            open(candidates(&disks), ArrayOptions::default())
                .await
                .unwrap()
        });
        assert_eq!(array.geometry().size, size * kib, "{chunk} {lens:?}");
        assert_eq!(array.status().size, size * kib);
        let all = Range::new(0, size * kib);
        let data = pattern(1, all);
        block_on(array.write(all, single(data.clone()), WriteFlags::empty())).unwrap();
        assert!(block_on(array.read(all)).unwrap().concat() == data);
    }
}
