//! Members that are replaced while they work: what becomes of both where the array ends, goes on, or loses one of them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use block::{BlockDevice, Node, Operation, Range};
use testkit::{Held, HeldDisk, MemDisk, block_on, pattern};

use super::super::format::{self, Changes, Level, Version, features};
use super::super::redundant::tests::kit::{
    BIT, DATA, DISK, MEMBER, RING, Recipe, SUPERBLOCK, heard, options, put, recorded, superblock,
};
use super::super::{AddOptions, Array, ArrayOptions, Candidate, MemberState, open};
use super::open::candidates;
use super::reshape::write;

const ALL: Range = Range::new(0, MEMBER);
/// What was copied of a member when it is looked at.
const COPIED: u64 = 8 * BIT as u64;

/// A disk for each part, and one more.
fn disks(recipe: &Recipe) -> Vec<Node> {
    let len = DISK + recipe.ppl.unwrap_or(0);
    let disk = |_| Arc::new(MemDisk::new(len)) as Node;
    (0..=recipe.parts).map(disk).collect()
}

/// An array with a spare, which has begun to replace its first member.
async fn begun(recipe: &Recipe, disks: &[Node]) -> Arc<Array> {
    let (spare, members) = disks.split_last().unwrap();
    recipe.make(members).await;
    let array = open(candidates(members), options()).await.unwrap();
    array.by_hand().work().await.unwrap();
    let candidate = Candidate::local("spare", spare.clone());
    array.add(candidate, AddOptions::default()).await.unwrap();
    array.replace("a", None).await.unwrap();
    array
}

/// Nothing more needs to be copied.
fn copied(array: &Array, to: u64) {
    let by_hand = array.by_hand();
    let redundant = &by_hand.array;
    redundant.replaced(0, to, redundant.needs());
}

/// The same, and a part of it is copied.
async fn half_copied(recipe: &Recipe, disks: &[Node]) -> Arc<Array> {
    let array = begun(recipe, disks).await;
    copied(&array, COPIED);
    array.by_hand().array.checkpoint().await.unwrap();
    array
}

/// The array, of which the member that was being replaced is missing.
async fn without_the_first(disks: &[Node]) -> Arc<Array> {
    let left = candidates(disks).into_iter().skip(1).collect();
    let run = ArrayOptions {
        run: true,
        ..options()
    };
    open(left, run).await.unwrap()
}

fn state(array: &Array, name: &str) -> MemberState {
    let members = array.status().members.into_iter();
    let mut found = members.filter(|member| member.name == name);
    found.next().expect("a member").state
}

/// What the spare is called where the array is opened again: it comes last.
fn spare_of(recipe: &Recipe) -> String {
    let mut letters = 'a'..;
    let last = letters.nth(usize::try_from(recipe.parts).unwrap());
    last.expect("few parts").to_string()
}

fn recipes() -> [Recipe; 4] {
    let with_logs = Recipe::parity(Level::Raid5, 2, 3).with_ppl(RING);
    [
        Recipe::mirror(2),
        Recipe::raid10(0x102, 3),
        Recipe::parity(Level::Raid6, 2, 4),
        with_logs,
    ]
}

#[test]
fn a_copy_goes_on_after_a_clean_end_and_begins_again_after_any_other() {
    for recipe in recipes() {
        block_on(async {
            let disks = disks(&recipe);
            let spare = spare_of(&recipe);
            let array = half_copied(&recipe, &disks).await;
            array.stop().await.unwrap();
            let of_spare = superblock(disks.last().unwrap()).await;
            assert_ne!(of_spare.features & features::REPLACEMENT, 0, "{recipe:?}");
            assert_eq!(of_spare.rebuilt_to, Some(COPIED));

            let array = open(candidates(&disks), options()).await.unwrap();
            assert_eq!(state(&array, &spare), MemberState::Replacing(COPIED));
            write(&array, Range::new(0, 4096), 1).await;
            drop(array);
            // What was being written may be on one of both.
            let array = open(candidates(&disks), options()).await.unwrap();
            assert_eq!(state(&array, &spare), MemberState::Replacing(0));
            assert_eq!(state(&array, "a"), MemberState::InSync);
        });
    }
}

#[test]
fn what_is_written_is_on_both_and_the_replacement_is_read_alone_then() {
    for recipe in recipes() {
        block_on(async {
            let disks = disks(&recipe);
            let array = begun(&recipe, &disks).await;
            let all = Range::new(0, array.geometry().size);
            write(&array, all, 1).await;
            copied(&array, MEMBER);
            // Only what is sent to both is there.
            write(&array, all, 2).await;
            array.by_hand().work().await.unwrap();
            assert_eq!(state(&array, "spare"), MemberState::InSync, "{recipe:?}");
            assert_eq!(state(&array, "a"), MemberState::Failed);
            array.stop().await.unwrap();
            let of_spare = superblock(disks.last().unwrap()).await;
            assert_eq!(of_spare.features & features::REPLACEMENT, 0);
            let array = open(candidates(&disks[1..]), options()).await.unwrap();
            assert_eq!(array.status().working, recipe.parts);
            assert_eq!(array.read(all).await.unwrap().concat(), pattern(2, all));
        });
    }
}

#[test]
fn where_the_member_fails_its_replacement_holds_the_part_as_far_as_it_was_copied() {
    for recipe in recipes() {
        block_on(async {
            let disks = disks(&recipe);
            let array = half_copied(&recipe, &disks).await;
            array.fail("a").await.unwrap();
            let rebuilding = MemberState::Rebuilding(COPIED);
            assert_eq!(state(&array, "spare"), rebuilding, "{recipe:?}");
            array.by_hand().work().await.unwrap();
            assert_eq!(state(&array, "spare"), MemberState::InSync);
            array.stop().await.unwrap();

            // It is missing when the array is opened.
            let disks = self::disks(&recipe);
            let array = half_copied(&recipe, &disks).await;
            array.stop().await.unwrap();
            let array = without_the_first(&disks).await;
            assert_eq!(state(&array, &spare_of(&recipe)), rebuilding);
            assert_eq!(array.status().working, recipe.parts - 1);
        });
    }
}

/// The array stays dirty, so that commits of the bitmap alone clear bits of what is written after the place was taken.
#[test]
fn a_member_of_which_the_place_was_taken_does_not_come_back_by_the_bitmap() {
    block_on(async {
        let recipe = Recipe::mirror(2);
        let disks = disks(&recipe);
        let array = begun(&recipe, &disks).await;
        write(&array, ALL, 1).await;
        copied(&array, MEMBER);
        let by_hand = array.by_hand();
        let redundant = &by_hand.array;
        let taken = redundant.take_place(0, (MEMBER, redundant.needs())).await;
        assert!(taken.unwrap());
        write(&array, Range::new(0, 4096), 2).await;
        for _ in 0..4 {
            redundant.sweep().await.unwrap();
        }
        array.fail("spare").await.unwrap();
        let old = Candidate::local("a", disks[0].clone());
        let refused = array.re_add(old).await.unwrap_err().to_string();
        assert!(refused.contains("a cannot come back as it is"), "{refused}");
    });
}

#[test]
fn what_members_hold_is_doubted_of_replacements_too() {
    block_on(async {
        let recipe = Recipe::mirror(2);
        let disks = disks(&recipe);
        let array = half_copied(&recipe, &disks).await;
        let by_hand = array.by_hand();
        let redundant = &by_hand.array;
        let before = redundant.needs();
        redundant.doubt(Range::new(4096, 512));
        assert_eq!(redundant.replacing(), [(0, 4096)]);
        // A copy that was under way does not count any more.
        redundant.replaced(0, MEMBER, before);
        assert_eq!(redundant.replacing(), [(0, 4096)]);
        assert!(!redundant.take_place(0, (MEMBER, before)).await.unwrap());
        array.by_hand().work().await.unwrap();
        assert_eq!(state(&array, "spare"), MemberState::InSync);
    });
}

/// The log of the member that leaves has the row, and its replacement's is empty: a cut behind the change would find parity that fits nothing.
#[test]
fn with_partial_parity_logs_the_place_is_taken_while_no_row_is_being_written() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 3).with_ppl(RING);
        let mut disks = disks(&recipe);
        let held = HeldDisk::new(disks[1].clone());
        held.hold(false);
        disks[1] = held.clone();
        let array = begun(&recipe, &disks).await;
        let all = Range::new(0, array.geometry().size);
        write(&array, all, 1).await;
        copied(&array, MEMBER);
        let by_hand = array.by_hand();
        let redundant = &by_hand.array;
        let row = Range::new(0, 8192);
        let data = superblock(&disks[2]).await.data.offset;
        let written = async {
            write(&array, row, 2).await;
        };
        let taken = async {
            // Before the row come its log, and flushes of what was written before.
            let is_data = |one: &Held| one.range.is_some_and(|range| range.offset >= data);
            let of_row = loop {
                let all = held.held();
                if let Some(of_row) = all.iter().find(|one| is_data(one)) {
                    break *of_row;
                }
                for other in all {
                    held.release(other.id).await;
                }
                tokio::task::yield_now().await;
            };
            assert_eq!(of_row.operation, Operation::Write);
            let mut taking = pin!(redundant.take_place(0, (MEMBER, redundant.needs())));
            for _ in 0..1000 {
                // Superblocks and flushes of a commit do not wait for the row.
                for other in held.held().iter().filter(|one| one.id != of_row.id) {
                    held.release(other.id).await;
                }
                let once = poll_fn(|context| Poll::Ready(taking.as_mut().poll(context)));
                let waits = once.await.is_pending();
                assert!(waits, "a row is being written");
                tokio::task::yield_now().await;
            }
            held.hold(false);
            held.release(of_row.id).await;
            taking.await.unwrap()
        };
        held.hold(true);
        let ((), is_taken) = tokio::join!(written, taken);
        assert!(is_taken);
        assert_eq!(state(&array, "spare"), MemberState::InSync);
    });
}

/// Superblocks that record it as whole are those of an array in which nothing is being written.
#[test]
fn a_replacement_is_recorded_as_whole_only_while_it_takes_the_place() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 3).with_ppl(RING);
        let disks = disks(&recipe);
        let spare = disks.last().unwrap();
        let array = begun(&recipe, &disks).await;
        copied(&array, MEMBER);
        let by_hand = array.by_hand();
        let redundant = &by_hand.array;
        redundant.checkpoint().await.unwrap();
        assert_eq!(superblock(spare).await.rebuilt_to, Some(MEMBER));

        // Doubted meanwhile: its place is not taken.
        let before = redundant.needs();
        redundant.doubt(Range::new(4096, 512));
        assert!(!redundant.take_place(0, (MEMBER, before)).await.unwrap());
        let partial = superblock(spare).await;
        assert!(partial.rebuilt_to.is_some(), "{partial:?}");

        // A cut leaves it recorded as whole: it is not any more before the array is used again.
        drop((by_hand, array));
        let changes = Changes {
            rebuilt_to: Some(None),
            ..Changes::default()
        };
        let bytes = spare.read(Range::new(SUPERBLOCK, 4096)).await.unwrap();
        let bytes = format::patch(&bytes.concat(), Version::V1_2, &changes);
        put(spare, SUPERBLOCK, bytes).await;
        assert_eq!(superblock(spare).await.rebuilt_to, None);
        let array = open(candidates(&disks), options()).await.unwrap();
        assert_eq!(superblock(spare).await.rebuilt_to, Some(0));
        drop(array);
    });
}

#[test]
fn a_replacement_that_was_about_to_take_the_place_is_not_recorded_as_whole_any_more() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 3).with_ppl(RING);
        let mut disks = disks(&recipe);
        let spare = disks.last().unwrap().clone();
        let held = HeldDisk::new(disks[1].clone());
        held.hold(false);
        disks[1] = held.clone();
        let array = begun(&recipe, &disks).await;
        copied(&array, MEMBER);
        let by_hand = array.by_hand();
        let redundant = &by_hand.array;
        held.hold(true);
        {
            let taking = pin!(redundant.take_place(0, (MEMBER, redundant.needs())));
            assert!(!crate::test_runtime::is_ready(taking).await);
        }
        held.hold(false);
        held.release_all().await;
        write(&array, Range::new(0, 4096), 1).await;
        assert_eq!(superblock(&spare).await.rebuilt_to, Some(MEMBER));
    });
}

/// What repairs the parity of what was being written is in the log of the member that is missing.
#[test]
fn with_partial_parity_logs_a_replacement_of_a_member_that_is_lost_with_the_power_is_computed_whole()
 {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 3).with_ppl(RING);
        let disks = disks(&recipe);
        let array = half_copied(&recipe, &disks).await;
        write(&array, Range::new(0, 4096), 1).await;
        drop(array);
        let array = without_the_first(&disks).await;
        let rebuilding = MemberState::Rebuilding(0);
        assert_eq!(state(&array, &spare_of(&recipe)), rebuilding);
    });
}

#[test]
fn a_flush_is_one_of_the_replacement_too() {
    for recipe in recipes() {
        block_on(async {
            let (disks, journal) = recorded(&disks(&recipe));
            let array = begun(&recipe, &disks).await;
            write(&array, Range::new(0, 4096), 1).await;
            heard(&journal);
            array.flush().await.unwrap();
            let heard = heard(&journal);
            let spare = usize::try_from(recipe.parts).unwrap();
            let mut flushes = heard.iter().filter(|heard| heard.is_flush());
            assert!(flushes.any(|heard| heard.member == spare), "{recipe:?}");
        });
    }
}

#[test]
fn a_replacement_is_not_read() {
    block_on(async {
        let recipe = Recipe::mirror(2);
        let disks = disks(&recipe);
        let array = begun(&recipe, &disks).await;
        write(&array, ALL, 1).await;
        copied(&array, MEMBER);
        let other = vec![9; usize::try_from(MEMBER).unwrap()];
        put(disks.last().unwrap(), DATA, other).await;
        for _ in 0..8 {
            assert_eq!(array.read(ALL).await.unwrap().concat(), pattern(1, ALL));
        }
    });
}
