//! Arrays that were being written when they stopped, and lack members: where they may be wrong when they are read by force.

use block::{BlockDevice, Node, Range};
use testkit::{MemDisk, block_on};

use std::sync::Arc;

use super::super::format::Level;
use super::super::redundant::tests::kit::{DISK, MEMBER, Recipe, options};
use super::super::{Array, ArrayError, ArrayOptions, UntrustedPlaces, open};
use super::open::candidates;
use super::reshape::{Case, Content, one_step, write};

const CHUNK: u64 = 4096;

fn forced() -> ArrayOptions {
    ArrayOptions {
        force_dirty_degraded: true,
        ..options()
    }
}

fn refusal(opened: Result<Arc<Array>, ArrayError>) -> String {
    opened.map_or_else(|error| error.to_string(), |_| String::new())
}

/// All disks but one.
fn without(disks: &[Node], missing: usize) -> Vec<Node> {
    let left = disks.iter().enumerate();
    let left = left.filter(|(index, _)| *index != missing);
    left.map(|(_, disk)| disk.clone()).collect()
}

/// The chunks of `rows` of a left-symmetric RAID 5 that `part` has, of an array with so many parts.
fn chunks_of(part: u64, parts: u64, rows: std::ops::Range<u64>) -> Vec<Range> {
    let place = |row: u64| {
        let parity = parts - 1 - row % parts;
        let index = (part + parts - parity - 1) % parts;
        (part != parity).then(|| Range::new((row * (parts - 1) + index) * CHUNK, CHUNK))
    };
    rows.filter_map(place).collect()
}

/// An array that is dirty in rows 2 and 3, and was written everywhere before.
async fn dirty(recipe: &Recipe) -> Vec<Node> {
    let disk = |_| Arc::new(MemDisk::new(DISK)) as Node;
    let disks: Vec<Node> = (0..recipe.parts).map(disk).collect();
    recipe.make(&disks).await;
    let array = open(candidates(&disks), options()).await.unwrap();
    write(&array, Range::new(0, array.geometry().size), 1).await;
    array.stop().await.unwrap();
    let array = open(candidates(&disks), options()).await.unwrap();
    write(&array, Range::new(2 * 2 * CHUNK, 4 * CHUNK), 2).await;
    drop(array);
    disks
}

#[test]
fn places_are_those_of_the_missing_member_where_the_bitmap_is_dirty() {
    let raid5 = Recipe::parity(Level::Raid5, 2, 3);
    let rows = MEMBER / CHUNK;
    for (recipe, rows) in [(raid5.clone(), 2..4), (raid5.without_bitmap(), 0..rows)] {
        for missing in 0..3 {
            block_on(async {
                let disks = without(&dirty(&recipe).await, missing);
                let refused = refusal(open(candidates(&disks), options()).await);
                assert!(refused.contains("was being written"), "{refused}");
                let array = open(candidates(&disks), forced()).await.unwrap();
                assert!(array.geometry().read_only);
                let expected = chunks_of(missing as u64, 3, rows.clone());
                let untrusted = array.status().untrusted.expect("it may be wrong");
                assert_eq!(untrusted.places, expected, "without {missing}");
                assert_eq!(untrusted.count, expected.len() as u64);
                assert_eq!(untrusted.bytes, untrusted.count * CHUNK);
                assert_eq!(untrusted.rest, None);
                let remark = array.remarks().join("; ");
                let first = format!("{}+4096", expected[0].offset);
                assert!(remark.contains(&first), "{remark}");
            });
        }
    }
}

#[test]
fn nothing_is_doubted_that_members_have() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 3);
        let disks = dirty(&recipe).await;
        let array = open(candidates(&disks), forced()).await.unwrap();
        assert_eq!(array.status().untrusted, None, "it is complete");
        assert!(array.remarks().is_empty(), "{:?}", array.remarks());
    });
}

#[test]
fn a_dirty_reshape_that_lacks_a_member_is_refused_and_read_by_force_with_the_places() {
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid5, 2, 3), 4);
        let disks = case.disks();
        let array = case.begun(&disks).await;
        for _ in 0..4 {
            assert!(one_step(&array).await);
        }
        let (position, _) = array.by_hand().array.reshaped_to().unwrap();
        write(&array, Range::new(0, 512), 1).await;
        drop(array);
        let disks = without(&disks, 1);
        let refused = refusal(open(candidates(&disks), options()).await);
        assert!(refused.contains("was being written"), "{refused}");
        let array = open(candidates(&disks), forced()).await.unwrap();
        assert!(array.geometry().read_only);
        // Nothing was lost of it.
        Content::of(&case).check(&array, "by force").await;
        let mut expected = chunks_of(1, 4, 0..position / (3 * CHUNK));
        let before = chunks_of(1, 3, position / (2 * CHUNK)..MEMBER / CHUNK);
        expected.extend(before.into_iter().filter(|place| place.offset >= position));
        assert_eq!(array.status().untrusted.unwrap().places, expected);
    });
}

/// Linux refuses it too (`raid5_run` in drivers/md/raid5.c), and takes what was stopped cleanly.
#[test]
fn a_reshape_that_continues_without_a_member_is_refused_after_an_unclean_end() {
    for is_clean in [false, true] {
        block_on(async {
            let case = Case::devices(Recipe::parity(Level::Raid5, 2, 3), 4);
            let disks = case.disks();
            let array = case.begun(&disks).await;
            assert!(one_step(&array).await);
            array.fail("b").await.unwrap();
            assert!(one_step(&array).await);
            write(&array, Range::new(0, 512), 1).await;
            if is_clean {
                array.stop().await.unwrap();
            }
            drop(array);
            let opened = open(candidates(&disks), options()).await;
            let array = if is_clean {
                let array = opened.unwrap();
                array.by_hand().work().await.unwrap();
                case.has_ended(&array).await;
                array
            } else {
                let refused = refusal(opened);
                assert!(refused.contains("was being written"), "{refused}");
                let array = open(candidates(&disks), forced()).await.unwrap();
                assert!(array.status().untrusted.is_some());
                array
            };
            Content::of(&case).check(&array, "without b").await;
        });
    }
}

#[test]
fn a_line_names_some_places_and_counts_the_others() {
    let mut untrusted = UntrustedPlaces {
        places: (0..20).map(|n| Range::new(n * 100, 10)).collect(),
        count: 3000,
        bytes: 30_000,
        rest: None,
    };
    let line = untrusted.to_string();
    assert!(line.starts_with("3000 places, 30000 bytes in all: 0+10, 100+10"));
    assert!(line.ends_with("700+10 and 2992 more"), "{line}");
    untrusted.rest = Some(Range::new(1 << 20, 4096));
    assert!(untrusted.to_string().ends_with(", and in 1048576+4096"));
}
