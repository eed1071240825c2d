//! Arrays that get another consistency policy while they are used: what they hold, and what any cut of the power leaves.

use std::sync::Arc;

use block::{BlockDevice, Errno, Geometry, Node, Operation, Range};
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on, pattern};

use super::super::format::ppl::{PplHeader, signature};
use super::super::format::{Level, Version, decode, encode};
use super::super::redundant::tests::kit::{DISK, Recipe, put, superblock, unbounded};
use super::super::{
    AddOptions, Array, Candidate, ConsistencyChoice, ConsistencyPolicy, CreateOptions, MemberState,
    NewMember, NewShape, SyncKind, create, open,
};
use super::open::candidates;
use super::reshape::write;
use super::watched_disks::{DiskImages, WatchedDisks};

pub(super) const MIB: u64 = 1 << 20;
const POLICIES: [ConsistencyPolicy; 3] = [
    ConsistencyPolicy::Ppl,
    ConsistencyPolicy::Bitmap,
    ConsistencyPolicy::Resync,
];

const fn choice(policy: ConsistencyPolicy) -> ConsistencyChoice {
    match policy {
        ConsistencyPolicy::Ppl => ConsistencyChoice::Ppl,
        ConsistencyPolicy::Bitmap => ConsistencyChoice::Bitmap(None),
        _ => ConsistencyChoice::Resync,
    }
}

/// Level 5 on these disks, open.
pub(super) async fn made(disks: &[Node], policy: ConsistencyPolicy) -> Arc<Array> {
    let members = ('a'..).zip(disks).map(|(name, disk)| NewMember {
        name: name.to_string(),
        disk: Some(disk.clone()),
        write_mostly: false,
        fail_fast: false,
    });
    let spec = CreateOptions {
        level: Level::Raid5,
        layout: None,
        chunk: Some(64 << 10),
        version: Version::V1_2,
        name: "box:test".to_owned(),
        consistency: choice(policy),
        assume_clean: true,
        size: None,
        journal: None,
    };
    let members: Vec<NewMember> = members.collect();
    create(members, Vec::new(), spec).await.unwrap();
    opened(disks).await
}

pub(super) async fn opened(disks: &[Node]) -> Arc<Array> {
    open(candidates(disks), unbounded()).await.unwrap()
}

pub(super) fn mem_disks(count: usize, len: u64) -> Vec<Node> {
    let disk = |_| Arc::new(MemDisk::new(len)) as Node;
    (0..count).map(disk).collect()
}

pub(super) async fn read(array: &Array, range: Range) -> Vec<u8> {
    array.read(range).await.unwrap().concat()
}

pub(super) fn policy(array: &Array) -> ConsistencyPolicy {
    let status = array.status();
    match (status.ppl, status.bitmap.is_some()) {
        (true, false) => ConsistencyPolicy::Ppl,
        (false, true) => ConsistencyPolicy::Bitmap,
        (false, false) => ConsistencyPolicy::Resync,
        (true, true) => panic!("Linux starts no array with both"),
    }
}

pub(super) async fn assert_parity_fits(array: &Array) {
    array.scrub(SyncKind::Check).unwrap();
    array.by_hand().work().await.unwrap();
    assert_eq!(array.status().scrubbed.unwrap().mismatches, 0);
}

#[test]
fn every_policy_becomes_every_other_while_the_array_is_used_and_stays_it() {
    for from in POLICIES {
        for to in POLICIES.into_iter().filter(|to| *to != from) {
            block_on(async {
                let disks = mem_disks(4, 4 * MIB);
                let array = made(&disks, from).await;
                assert_eq!(policy(&array), from);
                let (first, second) = (Range::new(0, MIB), Range::new(100 << 10, 300 << 10));
                write(&array, first, 1).await;
                array.change_policy(to).await.unwrap();
                assert_eq!(policy(&array), to, "from {from:?}");
                write(&array, second, 2).await;
                // Less than a sector, where disks have such blocks.
                let block = u64::from(array.geometry().block_size).min(256);
                let little = Range::new(block, block);
                if array.geometry().block_size <= 256 {
                    write(&array, little, 3).await;
                }
                let mut expected = pattern(1, first);
                expected[100 << 10..400 << 10].copy_from_slice(&pattern(2, second));
                if array.geometry().block_size <= 256 {
                    expected[little.len_usize()..2 * little.len_usize()]
                        .copy_from_slice(&pattern(3, little));
                }
                assert!(read(&array, first).await == expected, "{from:?} to {to:?}");
                array.flush().await.unwrap();
                // The power is cut, and with logs a member is lost with it.
                drop(array);
                let left = match to {
                    ConsistencyPolicy::Ppl => &disks[1..],
                    _ => &disks[..],
                };
                let array = opened(left).await;
                assert_eq!(policy(&array), to, "from {from:?}");
                assert!(read(&array, first).await == expected, "{from:?} to {to:?}");
                array.by_hand().work().await.unwrap();
                array.stop().await.unwrap();
                drop(array);
                if to == ConsistencyPolicy::Ppl {
                    return;
                }
                let array = opened(&disks).await;
                assert_eq!(policy(&array), to, "from {from:?}");
                assert_parity_fits(&array).await;
                array.stop().await.unwrap();
            });
        }
    }
}

#[test]
fn a_cut_at_any_time_leaves_an_array_that_opens_with_all_that_was_written() {
    let mut mixed = 0;
    for (from, to) in [
        (ConsistencyPolicy::Bitmap, ConsistencyPolicy::Ppl),
        (ConsistencyPolicy::Ppl, ConsistencyPolicy::Bitmap),
        (ConsistencyPolicy::Ppl, ConsistencyPolicy::Resync),
    ] {
        let whole = Range::new(0, 512 << 10);
        let images = block_on(cut_everywhere(from, to, whole));
        assert!(images.len() >= 3, "each member was written");
        for image in images {
            block_on(async {
                let disk = |image: &Vec<u8>| Arc::new(MemDisk::from_bytes(image.clone())) as Node;
                let disks: Vec<Node> = image.iter().map(disk).collect();
                mixed += usize::from(is_mixed(&image));
                // It was clean: a member may be lost, too.
                let array = open(candidates(&disks[..2]), unbounded()).await.unwrap();
                assert!(read(&array, whole).await == pattern(1, whole));
                drop(array);
                let array = opened(&disks).await;
                assert!(read(&array, whole).await == pattern(1, whole));
                write(&array, Range::new(4096, 8192), 2).await;
                array.by_hand().work().await.unwrap();
                assert_parity_fits(&array).await;
                array.stop().await.unwrap();
                drop(array);
                let array = opened(&disks).await;
                let kept = policy(&array);
                array.by_hand().work().await.unwrap();
                if kept != to {
                    array.change_policy(to).await.unwrap();
                }
                assert_eq!(policy(&array), to);
            });
        }
    }
    assert!(mixed > 0, "no cut left members with different policies");
}

/// Whether members name different policies.
pub(super) fn is_mixed(image: &DiskImages) -> bool {
    let mut features = image.iter().map(|disk| &disk[4096 + 8..4096 + 12]);
    let first = features.next();
    features.any(|other| Some(other) != first)
}

async fn cut_everywhere(
    from: ConsistencyPolicy,
    to: ConsistencyPolicy,
    whole: Range,
) -> Vec<Vec<Vec<u8>>> {
    let watched = WatchedDisks::new();
    let disks = &watched.nodes;
    let array = made(disks, from).await;
    write(&array, whole, 1).await;
    array.stop().await.unwrap();
    drop(array);
    let array = opened(disks).await;
    watched.begin();
    array.change_policy(to).await.unwrap();
    watched.end()
}

/// What was wrong: the commit that noted the failure named logs that were not written yet, with what was there before.
#[test]
fn a_member_that_fails_meanwhile_leaves_no_superblock_that_names_a_log_before_it_is_empty() {
    assert_logs_that_are_named_are_empty(block_on(cut_where_a_member_fails()));
}

/// What was wrong: a member that had been a spare, and got the policy of the others as the array was opened, had its log named by each
/// commit from then on, also by one before the log was empty.
#[test]
fn nor_does_the_superblock_of_a_member_that_was_a_spare() {
    assert_logs_that_are_named_are_empty(block_on(cut_where_a_spare_became_a_member()));
}

fn assert_logs_that_are_named_are_empty(images: Vec<DiskImages>) {
    let mut named = 0;
    for image in images {
        for disk in image {
            let place = disk[4096..8192].to_vec();
            let superblock = decode(Version::V1_2, 4096, &place).unwrap().unwrap();
            let Some(log) = superblock.ppl else { continue };
            named += 1;
            let start = Range::new(0, log.offset).len_usize();
            let found = PplHeader::decode(&disk[start..][..4096], signature(&superblock.array));
            assert_eq!(found.map(|header| header.entries.len()), Ok(0));
        }
    }
    assert!(named > 0, "no cut left a member with a log");
}

/// What a cut at each write leaves where a member fails at the flush in front of its log.
async fn cut_where_a_member_fails() -> Vec<DiskImages> {
    let watched = WatchedDisks::new();
    let faults = FaultDisk::new(watched.nodes[0].clone(), 1, Vec::new());
    let mut disks = watched.nodes.clone();
    disks[0] = faults.clone();
    let array = made(&disks, ConsistencyPolicy::Bitmap).await;
    cut_at_a_change_to_ppl(&watched, &faults, &array).await
}

/// The same where the last member was a spare when the array was opened, without the bitmap of the others.
async fn cut_where_a_spare_became_a_member() -> Vec<DiskImages> {
    let watched = WatchedDisks::new();
    let faults = FaultDisk::new(watched.nodes[0].clone(), 1, Vec::new());
    let mut disks = watched.nodes.to_vec();
    disks[0] = faults.clone();
    let other: Node = Arc::new(MemDisk::new(3 * MIB));
    let members = [disks[0].clone(), disks[1].clone(), other];
    let array = made(&members, ConsistencyPolicy::Resync).await;
    let spare = Candidate::local("d", disks[2].clone());
    array.add(spare, AddOptions::default()).await.unwrap();
    array.stop().await.unwrap();
    drop(array);
    let array = opened(&members).await;
    let bitmap = array.change_policy(ConsistencyPolicy::Bitmap).await;
    bitmap.unwrap();
    array.stop().await.unwrap();
    drop(array);
    let [first, second, third] = members;
    let array = opened(&[first, second, third, disks[2].clone()]).await;
    array.fail("c").await.unwrap();
    array.by_hand().work().await.unwrap();
    assert_eq!(array.status().working, 3);
    cut_at_a_change_to_ppl(&watched, &faults, &array).await
}

async fn cut_at_a_change_to_ppl(
    watched: &WatchedDisks,
    faults: &FaultDisk,
    array: &Array,
) -> Vec<DiskImages> {
    watched.begin();
    // The first one is of the commit that drops the bitmap.
    let flush = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Flush);
    faults.inject(flush.after(1));
    let changed = array.change_policy(ConsistencyPolicy::Ppl).await;
    changed.unwrap();
    assert_eq!(policy(array), ConsistencyPolicy::Ppl);
    assert_eq!(array.status().working, 2);
    watched.end()
}

#[test]
fn members_have_their_logs_again_once_a_reshape_has_ended() {
    block_on(async {
        let disks = mem_disks(4, 8 * MIB);
        let array = made(&disks[..3], ConsistencyPolicy::Ppl).await;
        let whole = Range::new(0, 2 * MIB);
        write(&array, whole, 1).await;
        let spare = Candidate::local("d", disks[3].clone());
        array.add(spare, AddOptions::default()).await.unwrap();
        let shape = NewShape {
            parts: Some(4),
            layout: None,
            chunk: None,
        };
        array.by_hand().work().await.unwrap();
        array.reshape(shape, None).await.unwrap();
        assert_eq!(policy(&array), ConsistencyPolicy::Resync);
        array.by_hand().work().await.unwrap();
        assert_eq!(policy(&array), ConsistencyPolicy::Ppl);
        write(&array, Range::new(0, 64 << 10), 2).await;
        drop(array);
        let array = opened(&disks[1..]).await;
        assert_eq!(policy(&array), ConsistencyPolicy::Ppl);
        let mut expected = pattern(1, whole);
        expected[..64 << 10].copy_from_slice(&pattern(2, Range::new(0, 64 << 10)));
        assert!(read(&array, whole).await == expected);
        array.stop().await.unwrap();
    });
}

/// What was wrong: such a spare failed for want of a log, or took a part with a log or without a bitmap, other than all others.
#[test]
fn a_spare_that_was_absent_when_the_policy_changed_gets_it_before_it_takes_a_part() {
    for from in POLICIES {
        for to in POLICIES.into_iter().filter(|to| *to != from) {
            block_on(absent_spare(from, to));
        }
    }
}

async fn absent_spare(from: ConsistencyPolicy, to: ConsistencyPolicy) {
    let disks = mem_disks(4, 4 * MIB);
    let array = made(&disks[..3], from).await;
    let whole = Range::new(0, MIB);
    write(&array, whole, 1).await;
    let spare = Candidate::local("d", disks[3].clone());
    array.add(spare, AddOptions::default()).await.unwrap();
    array.stop().await.unwrap();
    drop(array);
    let array = opened(&disks[..3]).await;
    array.change_policy(to).await.unwrap();
    array.stop().await.unwrap();
    drop(array);
    let array = opened(&disks).await;
    array.fail("a").await.unwrap();
    array.by_hand().work().await.unwrap();
    let status = array.status();
    assert_eq!(
        (status.working, policy(&array)),
        (3, to),
        "from {from:?}: {status:?}"
    );
    write(&array, Range::new(4096, 8192), 2).await;
    array.flush().await.unwrap();
    drop(array);
    // What the spare was given is what the others have.
    let mut kinds = Vec::new();
    for disk in &disks[1..] {
        let place = disk.read(Range::new(4096, 4096)).await.unwrap().concat();
        let superblock = decode(Version::V1_2, 4096, &place).unwrap().unwrap();
        kinds.push((superblock.keeps_ppl(), superblock.bitmap_at.is_some()));
    }
    let kind = (
        to == ConsistencyPolicy::Ppl,
        to == ConsistencyPolicy::Bitmap,
    );
    assert_eq!(kinds, [kind; 3], "from {from:?} to {to:?}");
    let mut expected = pattern(1, whole);
    expected[4096..4096 + 8192].copy_from_slice(&pattern(2, Range::new(4096, 8192)));
    // The power was cut; with logs a member is lost with it.
    let left = match to {
        ConsistencyPolicy::Ppl => &disks[2..],
        _ => &disks[1..],
    };
    let array = opened(left).await;
    assert_eq!(policy(&array), to, "from {from:?}");
    assert!(read(&array, whole).await == expected, "{from:?} to {to:?}");
    array.by_hand().work().await.unwrap();
    if to != ConsistencyPolicy::Ppl {
        assert_parity_fits(&array).await;
    }
    array.stop().await.unwrap();
}

/// A spare that has no room for what the others have takes no part, and says why.
#[test]
fn an_absent_spare_without_room_for_the_policy_is_no_spare_any_more() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 3).without_bitmap();
        let disks = mem_disks(4, DISK);
        recipe.make(&disks).await;
        let array = opened(&disks[..3]).await;
        array
            .change_policy(ConsistencyPolicy::Bitmap)
            .await
            .unwrap();
        array.stop().await.unwrap();
        drop(array);
        // Its bad block log fills the room in front of its data.
        let mut of = superblock(&disks[3]).await;
        of.bad_blocks = Some(Range::new(8192, of.data.offset - 8192));
        put(&disks[3], 4096, encode(&of, 4096)).await;
        let array = opened(&disks).await;
        let members = array.status().members;
        let spare = members.iter().find(|member| member.name == "d").unwrap();
        assert_eq!(spare.state, MemberState::Failed);
        let why = spare.why.clone().unwrap();
        assert!(why.contains("has no room for a bitmap"), "{why}");
        array.stop().await.unwrap();
    });
}

#[test]
fn what_an_array_cannot_have_is_refused_and_nothing_is_written() {
    let refused = |recipe: Recipe, to, why: &str| {
        block_on(async {
            let disks = mem_disks(usize::try_from(recipe.parts).unwrap() + 1, DISK + 64 * 1024);
            recipe
                .make(&disks[..usize::try_from(recipe.parts).unwrap()])
                .await;
            let members = &disks[..usize::try_from(recipe.parts).unwrap()];
            let array = opened(members).await;
            let error: Result<(), _> = array.change_policy(to).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            array.stop().await.unwrap();
        });
    };
    let five = Recipe::parity(Level::Raid5, 2, 4);
    let ppl = ConsistencyPolicy::Ppl;
    refused(five.clone(), ppl, "has no room for a partial parity log");
    refused(five, ConsistencyPolicy::Bitmap, "is bitmap already");
    refused(
        Recipe::parity(Level::Raid6, 2, 5),
        ppl,
        "raid6 has no partial parity logs",
    );
    refused(Recipe::mirror(2), ppl, "raid1 has no partial parity logs");
    refused(
        Recipe::mirror(2),
        ConsistencyPolicy::Journal,
        "a journal is not given to an array here",
    );
}

/// A disk with blocks that are larger than a page of a bitmap.
#[derive(Debug)]
struct LargeBlocks {
    child: Node,
    geometry: Geometry,
}

impl LargeBlocks {
    fn of(child: Node) -> Node {
        let geometry = Geometry {
            block_size: 8192,
            ..child.geometry().clone()
        };
        Arc::new(Self { child, geometry })
    }
}

impl BlockDevice for LargeBlocks {
    testkit::forward!(child: read, write, flush, write_zeroes, trim, extents, identity, settle);

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }
}

/// What was wrong: a bitmap was written at a multiple of 4 KiB, and the array was refused when it was opened next.
#[test]
fn members_with_blocks_that_are_larger_than_a_page_get_no_bitmap() {
    block_on(async {
        let disks = mem_disks(2, DISK);
        let recipe = Recipe {
            version: Version::V1_1,
            log: false,
            ..Recipe::mirror(2).without_bitmap()
        };
        recipe.make(&disks).await;
        let disks: Vec<Node> = disks.into_iter().map(LargeBlocks::of).collect();
        let array = opened(&disks).await;
        let refused = array.change_policy(ConsistencyPolicy::Bitmap).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("has blocks of 8192 bytes"), "{refused}");
        array.stop().await.unwrap();
        opened(&disks).await.stop().await.unwrap();
    });
}
