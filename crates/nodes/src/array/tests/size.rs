//! Arrays of which the members were enlarged.

use std::sync::Arc;

use block::{BlockDevice, Node, Range};
use testkit::{MemDisk, block_on, pattern};

use super::super::format::{Level, Version};
use super::super::redundant::tests::kit::{
    BIT, DISK, MEMBER, RING, Recipe, bits, options, superblock,
};
use super::super::{AddOptions, Array, Candidate, MemberState, SyncKind, open};
use super::open::candidates;
use super::reshape::write;

/// What each disk has more.
const MORE: u64 = 72 << 10;

fn recipes() -> Vec<Recipe> {
    vec![
        Recipe::mirror(2),
        Recipe::mirror(3).without_bitmap(),
        Recipe::raid10(0x102, 4),
        Recipe::parity(Level::Raid5, 2, 3),
        Recipe::parity(Level::Raid6, 2, 4).without_bitmap(),
    ]
}

fn blank(len: u64, count: u32) -> Vec<Node> {
    let disk = |_| Arc::new(MemDisk::new(len)) as Node;
    (0..count).map(disk).collect()
}

async fn images(disks: &[Node]) -> Vec<Vec<u8>> {
    let mut images = Vec::new();
    for disk in disks {
        let all = Range::new(0, disk.geometry().size);
        images.push(disk.read(all).await.unwrap().concat());
    }
    images
}

fn nodes(images: Vec<Vec<u8>>) -> Vec<Node> {
    let disk = |image| Arc::new(MemDisk::from_bytes(image)) as Node;
    images.into_iter().map(disk).collect()
}

/// An array full of a pattern, on disks that were enlarged then.
async fn enlarged(recipe: &Recipe) -> (Vec<Node>, u64) {
    let disks = blank(DISK, recipe.parts);
    recipe.make(&disks).await;
    let array = open(candidates(&disks), options()).await.unwrap();
    let size = array.geometry().size;
    write(&array, Range::new(0, size), 1).await;
    array.stop().await.unwrap();
    let mut images = images(&disks).await;
    for image in &mut images {
        image.resize(image.len() + Range::new(0, MORE).len_usize(), 0xee);
    }
    (nodes(images), size)
}

async fn assert_fits(array: &Array, what: &str) {
    array.scrub(SyncKind::Check).unwrap();
    array.by_hand().work().await.unwrap();
    let scrubbed = array.status().scrubbed.expect("it was scrubbed");
    assert_eq!(
        (scrubbed.mismatches, scrubbed.finished),
        (0, true),
        "{what}"
    );
}

/// It is larger, holds what it did, and can be written everywhere.
async fn check(array: &Array, recipe: &Recipe, before: u64) {
    let what = format!("{recipe:?}");
    array.by_hand().work().await.unwrap();
    let size = array.geometry().size;
    assert!(size > before, "{what}");
    assert_eq!(array.status().size, size, "{what}");
    let old = Range::new(0, before);
    assert_eq!(
        array.read(old).await.unwrap().concat(),
        pattern(1, old),
        "{what}"
    );
    assert_fits(array, &what).await;
    let new = Range::new(before - 4096, size - before + 4096);
    write(array, new, 2).await;
    assert_eq!(
        array.read(new).await.unwrap().concat(),
        pattern(2, new),
        "{what}"
    );
    write(array, Range::new(before - 4096, 4096), 1).await;
    assert_fits(array, &what).await;
}

#[test]
fn an_array_gets_as_large_as_its_members_and_what_is_new_is_resynced() {
    for recipe in recipes() {
        block_on(async {
            let (disks, before) = enlarged(&recipe).await;
            let array = open(candidates(&disks), options()).await.unwrap();
            assert_eq!(array.geometry().size, before, "nothing is changed unasked");
            array.resize(false).await.unwrap();
            assert!(array.status().resync_pending, "{recipe:?}");
            check(&array, &recipe, before).await;
            array.stop().await.unwrap();
            let array = open(candidates(&disks), options()).await.unwrap();
            check(&array, &recipe, before).await;
            if recipe.bitmap {
                let (header, _) = bits(&disks[0]).await;
                let covered = match recipe.level {
                    Level::Raid10 => array.geometry().size,
                    _ => superblock(&disks[0]).await.member_size,
                };
                assert_eq!(header.size, covered, "{recipe:?}");
            }
        });
    }
}

/// A power cut while members are written: whichever of them have it, the array opens, and is as large as those say.
#[test]
fn a_size_that_one_member_alone_knows_counts() {
    for recipe in recipes() {
        for knowing in 0..usize::try_from(recipe.parts).unwrap() {
            block_on(async {
                let (disks, before) = enlarged(&recipe).await;
                let old = images(&disks).await;
                let array = open(candidates(&disks), options()).await.unwrap();
                array.resize(false).await.unwrap();
                let new = images(&disks).await;
                let mixed = old.into_iter().zip(new).enumerate();
                let mixed =
                    mixed.map(|(index, (old, new))| if index == knowing { new } else { old });
                let disks = nodes(mixed.collect());
                let array = open(candidates(&disks), options()).await.unwrap();
                check(&array, &recipe, before).await;
                array.stop().await.unwrap();
                for disk in &disks {
                    let of = superblock(disk).await;
                    assert!(of.member_size > MEMBER, "disk {knowing} knew: {recipe:?}");
                    assert!(of.data.len >= of.member_size);
                }
            });
        }
    }
}

/// The same while the last position of a reshape is written.
#[test]
fn the_end_of_a_reshape_that_one_member_alone_knows_counts() {
    for case in super::reshape::moved_cases() {
        let count = case.mem_disks().len();
        for knowing in 0..count {
            block_on(async {
                let disks = case.mem_disks();
                let disks: Vec<Node> = disks.into_iter().map(|disk| disk as Node).collect();
                let array = case.begun(&disks).await;
                let redundant = array.by_hand().array.clone();
                let mut old = images(&disks).await;
                let is_there = async |array: &Array| {
                    let all = Range::new(0, case.sizes()[0]);
                    let found = array.read(all).await.unwrap().concat();
                    assert!(found == pattern(1, all), "disk {knowing} knew: {case:?}");
                };
                loop {
                    redundant.move_rows(1).await.expect("rows are moved");
                    if !redundant.is_reshaping() {
                        break;
                    }
                    old = images(&disks).await;
                }
                let new = images(&disks).await;
                // Data were flushed before: what differs is in front of them.
                let front = Range::new(0, 4096 + 512).len_usize();
                let mixed = old
                    .into_iter()
                    .zip(new)
                    .enumerate()
                    .map(|(index, (old, new))| {
                        let mut image = new.clone();
                        if index != knowing {
                            image[..front].copy_from_slice(&old[..front]);
                        }
                        image
                    });
                let disks = nodes(mixed.collect());
                let array = open(candidates(&disks), options()).await.unwrap();
                is_there(&array).await;
                array.by_hand().work().await.unwrap();
                is_there(&array).await;
                assert_fits(&array, &format!("{case:?}")).await;
                array.stop().await.unwrap();
                let array = open(candidates(&disks), options()).await.unwrap();
                is_there(&array).await;
            });
        }
    }
}

#[test]
fn what_cannot_get_larger_is_refused_by_name() {
    let raid5 = Recipe::parity(Level::Raid5, 2, 3);
    let old = Recipe {
        version: Version::V1_0,
        ..raid5.clone()
    };
    let cases = [
        (raid5.clone(), DISK, "has no room for more"),
        (old, DISK, "lie at the end of each member"),
        (
            Recipe::raid10(0x201, 2),
            DISK,
            "far copies would lie elsewhere",
        ),
        (raid5.with_ppl(RING), DISK + RING + MORE, "lies on its data"),
    ];
    for (recipe, len, why) in cases {
        block_on(async {
            let disks = blank(len, recipe.parts);
            recipe.make(&disks).await;
            let array = open(candidates(&disks), options()).await.unwrap();
            let refused = array.resize(false).await.unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        });
    }
}

#[test]
fn a_spare_that_would_be_too_small_is_named() {
    block_on(async {
        let recipe = Recipe::mirror(2);
        let (disks, _) = enlarged(&recipe).await;
        let array = open(candidates(&disks), options()).await.unwrap();
        let spare = Candidate::local("spare", blank(DISK, 1)[0].clone());
        array.add(spare, AddOptions::default()).await.unwrap();
        let refused = array.resize(false).await.unwrap_err().to_string();
        assert!(refused.contains("spare has no room"), "{refused}");
        array.remove("spare").await.unwrap();
        array.resize(false).await.unwrap();
    });
}

#[test]
fn a_bitmap_gets_bits_for_what_is_new() {
    block_on(async {
        let recipe = Recipe::mirror(2);
        let (disks, _) = enlarged(&recipe).await;
        let array = open(candidates(&disks), options()).await.unwrap();
        array.resize(false).await.unwrap();
        let (header, set) = bits(&disks[0]).await;
        let bit = |at: u64| usize::try_from(at / u64::from(BIT)).unwrap();
        assert_eq!(header.size, superblock(&disks[0]).await.member_size);
        assert_eq!(set, (bit(MEMBER)..bit(header.size)).collect::<Vec<_>>());
    });
}

/// Disks of an array that was enlarged after its member `b` had failed, which is smaller than the others; the array's size before.
async fn enlarged_without_b(recipe: &Recipe) -> (Vec<Node>, u64) {
    let disks = blank(DISK, recipe.parts);
    recipe.make(&disks).await;
    let array = open(candidates(&disks), options()).await.unwrap();
    let size = array.geometry().size;
    write(&array, Range::new(0, size), 1).await;
    array.fail("b").await.unwrap();
    let new = blank(2 * DISK, 1).remove(0);
    let candidate = Candidate::local("new", new.clone());
    array.add(candidate, AddOptions::default()).await.unwrap();
    array.by_hand().work().await.unwrap();
    array.stop().await.unwrap();
    drop(array);
    let mut images = images(&disks).await;
    for (index, image) in images.iter_mut().enumerate() {
        let more = if index == 1 { 0 } else { MORE };
        image.resize(image.len() + Range::new(0, more).len_usize(), 0xee);
    }
    let mut disks = nodes(images);
    disks.push(new);
    let array = open(candidates(&disks), options()).await.unwrap();
    array.resize(false).await.unwrap();
    array.stop().await.unwrap();
    (disks, size)
}

/// What was wrong: an array that was enlarged after a smaller disk had failed was refused as long as that disk was named.
#[test]
fn a_smaller_disk_that_failed_before_is_no_reason_to_refuse_a_larger_array() {
    for recipe in recipes() {
        block_on(async {
            let (disks, before) = enlarged_without_b(&recipe).await;
            let left = images(&disks[1..2]).await;
            let array = open(candidates(&disks), options()).await.unwrap();
            let status = array.status();
            assert_eq!(status.working, recipe.parts, "{recipe:?}");
            let b = status.members.iter().find(|member| member.name == "b");
            assert_eq!(b.unwrap().state, MemberState::Stale, "{recipe:?}");
            check(&array, &recipe, before).await;
            array.stop().await.unwrap();
            assert!(images(&disks[1..2]).await == left, "it is written");
        });
    }
}

#[test]
fn a_disk_that_is_too_small_for_a_larger_array_does_not_come_back() {
    for recipe in recipes() {
        block_on(async {
            let (disks, _) = enlarged_without_b(&recipe).await;
            let array = open(candidates(&disks), options()).await.unwrap();
            let b = || Candidate::local("b", disks[1].clone());
            let refused = array.re_add(b()).await.unwrap_err();
            let why = "b cannot come back as it is: the array was enlarged without it";
            assert!(refused.to_string().starts_with(why), "{refused}");
            assert_eq!(refused.next(), Some("add a larger disk instead"));
            let added = array.add(b(), AddOptions::default()).await;
            let refused = added.unwrap_err().to_string();
            assert!(refused.contains("b is too small"), "{refused}");
            array.stop().await.unwrap();
        });
    }
}
