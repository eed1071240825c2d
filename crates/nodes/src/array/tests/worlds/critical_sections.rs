//! Arrays without free space before their data that get members: the first rows are moved to where old ones lie, and a cut at any moment of that
//! leaves all of them, on members or in their backup on the new ones.

use std::sync::Arc;

use block::{Node, Operation, Range};
use testkit::{CrashDisk, MemDisk, block_on};

use super::disks::{Power, Wire};
use super::pace::Pace;
use super::world::candidate;
use crate::array::format::reshape_backup::{ReshapeBackup, SavedRange, backup_uuid};
use crate::array::format::{self, Reshape, Superblock, Version};
use crate::array::redundant::tests::kit::{MEMBER, heard, options, put, recorded};
use crate::array::tests::in_place::TestBackup;
use crate::array::tests::open::candidates;
use crate::array::tests::reshape::{Case, Content, assert_fits, in_place_cases, write};
use crate::array::{AddOptions, Array, ArrayError, ArrayOptions, Candidate, open};

type Images = Vec<Vec<u8>>;
/// Ways in which what was not flushed is lost at one cut.
const SEEDS: u64 = 3;

/// The disks of an array that is full of a pattern, with the spares that it needs.
async fn full(case: &Case) -> Images {
    let disks = case.mem_disks();
    let nodes: Vec<Node> = disks.iter().map(|disk| disk.clone() as Node).collect();
    let (members, spares) = nodes.split_at(usize::try_from(case.recipe.parts).unwrap());
    case.recipe.make(members).await;
    let array = open(candidates(members), options()).await.unwrap();
    write(&array, Range::new(0, case.sizes()[0]), 1).await;
    for (number, spare) in spares.iter().enumerate() {
        let spare = Candidate::local(format!("spare{number}"), spare.clone());
        array.add(spare, AddOptions::default()).await.unwrap();
    }
    array.by_hand().work().await.unwrap();
    array.stop().await.unwrap();
    disks.iter().map(|disk| disk.snapshot()).collect()
}

/// What a cut may leave, in some ways, after so many steps of the disks of an array that is opened, and begins its reshape. `None`: that has ended before.
async fn cut(case: &Case, images: &Images, steps: u64) -> Option<Vec<Images>> {
    let power = Power::new(steps, Arc::new(Pace::of(0)), Arc::default());
    let disk = |(number, image): (usize, &Vec<u8>)| {
        let disk = CrashDisk::from_bytes(image.clone());
        let name = char::from(b'a' + u8::try_from(number).unwrap()).to_string();
        (name, Wire::new(disk.interleaved(steps), power.clone()))
    };
    let wires: Vec<(String, Arc<Wire>)> = images.iter().enumerate().map(disk).collect();
    let given = wires.iter().map(|(name, wire)| candidate(name, wire));
    let given = given.collect();
    let begun = async {
        let array = open(given, options()).await.unwrap();
        array.reshape(case.shape, None).await.unwrap();
    };
    tokio::select! {
        biased;
        () = power.gone() => {}
        () = begun => return None,
    }
    let crash = |seed: u64| {
        let wires = wires.iter();
        wires.map(|(_, wire)| wire.crash(seed)).collect()
    };
    Some((0..SEEDS).map(|seed| crash(steps * SEEDS + seed)).collect())
}

fn nodes(images: &Images) -> Vec<Node> {
    let disk = |image: &Vec<u8>| Arc::new(MemDisk::from_bytes(image.clone())) as Node;
    images.iter().map(disk).collect()
}

/// What the superblock of a disk says, and where it is.
fn superblock(case: &Case, image: &[u8]) -> Option<(u64, Superblock)> {
    let places = format::places(image.len() as u64).into_iter();
    let is_it = |version: Version| match version {
        Version::V0_90 { .. } => matches!(case.recipe.version, Version::V0_90 { .. }),
        other => other == case.recipe.version,
    };
    let mut places = places.filter(|(version, _)| is_it(*version));
    let (version, at) = places.next().expect("there is a place");
    let start = Range::new(0, at).len_usize();
    let found = format::decode(version, at, &image[start..start + 4096]);
    Some((at, found.ok()??))
}

/// The reshape of every disk, where all of them have one.
fn reshapes(case: &Case, images: &Images) -> Option<Vec<Reshape>> {
    let images = images.iter();
    images
        .map(|image| superblock(case, image)?.1.reshape)
        .collect()
}

/// Opens the disks, but for one of which the superblock is torn.
async fn open_left(case: &Case, images: &Images) -> Left {
    let is_whole = |image: &&Vec<u8>| superblock(case, image).is_some();
    let whole: Images = images.iter().filter(is_whole).cloned().collect();
    assert!(whole.len() + 1 >= images.len(), "more than one is torn");
    let is_torn = whole.len() < images.len();
    let disks = nodes(&whole);
    let array = open(candidates(&disks), options()).await;
    let array = array.unwrap_or_else(|error| panic!("{case:?}: {error}"));
    Left { array, is_torn }
}

/// An array after a cut.
struct Left {
    array: Arc<Array>,
    is_torn: bool,
}

/// Whether all members know of a reshape that has moved nothing.
fn is_critical(case: &Case, images: &Images) -> bool {
    let known = reshapes(case, images);
    known.is_some_and(|of| of.iter().all(|of| of.position == 0))
}

/// The array is opened, holds everything, and so it does when its reshape has ended, if that had begun.
async fn loses_nothing(case: &Case, images: &Images, content: &Content, what: &str) {
    let Left { array, is_torn } = open_left(case, images).await;
    content.check(&array, what).await;
    array.by_hand().work().await.unwrap();
    content.check(&array, what).await;
    if array.status().parts > case.recipe.parts {
        case.has_ended(&array).await;
    }
    if !is_torn {
        assert_fits(&array, what).await;
    }
    array.stop().await.unwrap();
}

#[test]
fn a_cut_while_the_first_rows_are_moved_loses_nothing() {
    for case in in_place_cases() {
        block_on(async {
            let images = full(&case).await;
            let content = Content::of(&case);
            let (mut restored, mut steps) = (0, 1);
            while let Some(left) = cut(&case, &images, steps).await {
                for left in left {
                    let what = format!("{case:?}, cut after {steps} steps");
                    restored += u32::from(is_critical(&case, &left));
                    loses_nothing(&case, &left, &content, &what).await;
                }
                // Superblocks 0.90 are written one by one.
                steps += if case.recipe.version.is_v1() { 3 } else { 1 };
            }
            assert!(restored > 5, "{case:?}: {restored} were restored");
        });
    }
}

/// Of superblocks 0.90, which are written one after the other, a cut may tear one: those of members that were there before, which a backup is not on.
#[test]
fn superblocks_0_90_are_written_to_new_members_before_others_know_of_the_reshape() {
    let mut cases = in_place_cases();
    cases.retain(|case| !case.recipe.version.is_v1());
    for case in cases {
        block_on(async {
            let images = full(&case).await;
            let (at, _) = superblock(&case, &images[0]).unwrap();
            let (disks, journal) = recorded(&nodes(&images));
            let array = open(candidates(&disks), options()).await.unwrap();
            heard(&journal);
            array.reshape(case.shape, None).await.unwrap();
            let written = heard(&journal).into_iter().filter(|heard| {
                let is_there = heard.range.is_some_and(|range| range.offset == at);
                heard.operation == Operation::Write && is_there
            });
            // Each is answered before the next one is sent.
            let order: Vec<usize> = written.map(|heard| heard.member).collect();
            let (old, all) = (case.recipe.parts as usize, images.len());
            let expected = (old..all).chain(0..old).flat_map(|member| [member; 2]);
            let expected: Vec<usize> = expected.collect();
            assert_eq!(order[..2 * all], expected, "{case:?}");
        });
    }
}

/// An array that was stopped in its critical section: all members know of the reshape, and some rows are written over.
async fn stopped(case: &Case) -> Images {
    let images = full(case).await;
    let mut found = None;
    let mut steps = 1;
    while let Some(left) = cut(case, &images, steps).await {
        let critical = left.into_iter().find(|left| is_critical(case, left));
        found = critical.or(found);
        steps += 1;
    }
    found.expect("the last of them is in the critical section")
}

fn first() -> Case {
    in_place_cases().remove(0)
}

async fn refusal(images: &Images, options: ArrayOptions) -> ArrayError {
    let disks = nodes(images);
    let opened = open(candidates(&disks), options).await;
    let error = opened.map_or_else(|error| error, |array| panic!("{array:?}"));
    for (disk, image) in disks.iter().zip(images) {
        let all = Range::new(0, disk.geometry().size);
        let left = disk.read(all).await.unwrap().concat();
        assert!(left == *image, "what is refused is not written");
    }
    error
}

#[test]
fn an_array_in_its_critical_section_is_refused_without_its_backup() {
    block_on(async {
        let case = first();
        let images = stopped(&case).await;
        let only_read = ArrayOptions {
            read_only: true,
            ..options()
        };
        let why = refusal(&images, only_read).await.to_string();
        assert!(why.contains("not read before these are restored"), "{why}");

        let mut left = images.clone();
        left.truncate(3);
        let why = refusal(&left, options()).await.to_string();
        assert!(why.contains("no new member is here"), "{why}");

        let last = Range::new(0, MEMBER - 4096).len_usize();
        let first = Range::new(0, MEMBER - 8192 - (24 << 10)).len_usize();
        let changes = [
            (last, "d: it has none"),
            (last + 16, "d: it has one of another array"),
            (last + 34, "d: it has one of another time"),
            (last + 64, "d: it has one that is damaged"),
            (first + 17, "d: it has one that was not written whole"),
        ];
        for (at, expected) in changes {
            let mut images = images.clone();
            images[3][at] ^= 1;
            let error = refusal(&images, options()).await;
            let why = error.to_string();
            assert!(why.contains(expected), "{why}");
            assert!(error.next().is_some_and(|next| next.contains("mdadm")));
        }
        // As it was, it is opened.
        let disks = nodes(&images);
        let array = open(candidates(&disks), options()).await.unwrap();
        Content::of(&case).check(&array, "restored").await;
    });
}

/// An array as Linux may have left it: of the two rows that are to be moved at once the first one was, and then written with 9, and the second was being
/// moved. With its backup, and what it is to hold.
async fn stopped_between(case: &Case) -> (Vec<Node>, Backup, Content) {
    let disks: Vec<Arc<MemDisk>> = case.mem_disks();
    let nodes: Vec<Node> = disks.iter().map(|disk| disk.clone() as Node).collect();
    let array = case.begun(&nodes).await;
    let row = Range::new(0, 3 * 4096);
    let (position, _) = array.by_hand().array.reshaped_to().unwrap();
    assert_eq!(position, 2 * row.len);
    write(&array, row, 9).await;
    array.stop().await.unwrap();
    let mut content = Content::of(case);
    let data = content.bytes()[..Range::new(0, position).len_usize()].to_vec();
    content.set(row, 9);
    let mut found = None;
    for (number, disk) in nodes.iter().enumerate() {
        let (at, mut of) = superblock(case, &disks[number].snapshot()).unwrap();
        of.reshape.as_mut().unwrap().position = row.len;
        put(disk, at, format::encode(&of, at)).await;
        put(disk, 4096, vec![0xee; 4096]).await;
        found = Some(of);
    }
    let of = found.unwrap();
    let header = ReshapeBackup {
        array: backup_uuid(&of),
        written: of.updated,
        first: SavedRange {
            range: Range::new(0, position),
            at: 0,
        },
        second: None,
        is_ours: false,
    };
    (nodes, Backup { header, data }, content)
}

struct Backup {
    header: ReshapeBackup,
    data: Vec<u8>,
}

impl Backup {
    /// On a disk or in a file, the data from byte `at` on, and headers here.
    async fn write(&self, disk: &Node, at: u64, headers: &[u64]) {
        let mut header = self.header;
        header.first.at = at;
        put(disk, at, self.data.clone()).await;
        for place in headers {
            put(disk, *place, header.encode()).await;
        }
    }
}

/// It is opened, holds what it is to hold, and its reshape ends.
async fn restores(case: &Case, disks: &[Node], options: ArrayOptions, content: &Content) {
    let version = case.recipe.version;
    let array = open(candidates(disks), options).await.unwrap();
    let position = array.by_hand().array.reshaped_to().map(|(at, _)| at);
    assert_eq!(position, Some(6 * 4096), "{version}");
    content.check(&array, &format!("{version}")).await;
    array.by_hand().work().await.unwrap();
    content.check(&array, &format!("{version}, moved")).await;
    case.has_ended(&array).await;
    assert_fits(&array, &format!("{version}")).await;
}

fn versions() -> impl Iterator<Item = Case> {
    let old = Version::V0_90 { big_endian: false };
    [Version::V1_0, old].into_iter().map(|version| {
        let mut case = first();
        case.recipe.version = version;
        case
    })
}

/// Linux moves the first rows one by one, and may have written down how many it has moved: those behind are restored, not what users wrote to
/// those before.
#[test]
fn rows_behind_the_position_are_restored_and_those_before_it_stay() {
    for case in versions() {
        block_on(async {
            let (disks, backup, content) = stopped_between(&case).await;
            let at = MEMBER - 4096 - backup.data.len() as u64;
            backup
                .write(&disks[3], at, &[at - 4096, MEMBER - 4096])
                .await;
            restores(&case, &disks, options(), &content).await;
        });
    }
}

/// mdadm with `--backup-file` has nothing on the new members.
#[test]
fn rows_are_restored_from_a_backup_file() {
    for case in versions() {
        block_on(async {
            let (disks, backup, content) = stopped_between(&case).await;
            let refused = open(candidates(&disks), options()).await.unwrap_err();
            assert!(refused.to_string().contains("d: it has none"), "{refused}");
            let file = Arc::new(MemDisk::new(4096 + backup.data.len() as u64));
            let node = file.clone() as Node;
            backup.write(&node, 4096, &[0]).await;
            let before = file.snapshot();
            let options = ArrayOptions {
                backup: Some(TestBackup::found(node)),
                ..options()
            };
            restores(&case, &disks, options, &content).await;
            assert!(file.snapshot() == before, "the file stays as it is");
        });
    }
}
