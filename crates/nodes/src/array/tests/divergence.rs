//! Members with data of their own.
//!
//! `array add` overwrote any member of the same array without a look at it: a half of a mirror that had gone on alone was
//! copied over by the other half, right after `re-add` had refused it for that very reason.

use std::sync::Arc;

use block::{BlockDevice, Node, Range, WriteFlags};
use testkit::{MemDisk, block_on, pattern, single};

use super::super::redundant::tests::kit::{BIT, DATA, DISK, MEMBER, Recipe, options, superblock};
use super::super::{AddOptions, Array, ArrayError, Candidate, open};
use super::open::candidates;

const OVERWRITE: AddOptions = AddOptions {
    write_mostly: false,
    fail_fast: false,
    overwrite: true,
};

fn memory() -> Arc<MemDisk> {
    Arc::new(MemDisk::new(DISK))
}

async fn made(recipe: Recipe, disks: &[Arc<MemDisk>]) -> Vec<Node> {
    let nodes: Vec<Node> = disks.iter().map(|disk| disk.clone() as Node).collect();
    recipe.make(&nodes).await;
    nodes
}

/// Opens the array of these members alone, writes so many chunks, and stops it without time for bits to be cleared.
async fn use_alone(disks: &[Node], fill: u8, chunks: u64) -> Arc<Array> {
    let array = open(candidates(disks), options()).await.unwrap();
    for chunk in 0..chunks {
        let range = Range::new(chunk * u64::from(BIT), u64::from(BIT));
        let data = single(pattern(fill, range));
        array.write(range, data, WriteFlags::empty()).await.unwrap();
    }
    array
}

fn refusal(answer: Result<(), ArrayError>) -> (String, String) {
    let error = answer.expect_err("it has data of its own");
    (error.to_string(), error.next().unwrap().to_owned())
}

#[test]
fn a_half_that_went_on_alone_is_overwritten_only_if_the_caller_says_so() {
    for recipe in [Recipe::mirror(2), Recipe::mirror(2).without_bitmap()] {
        block_on(async {
            let disks = [memory(), memory()];
            let nodes = made(recipe, &disks).await;
            let other = use_alone(&nodes[1..], 2, 3).await;
            other.stop().await.unwrap();
            drop(other);
            let array = use_alone(&nodes[..1], 1, 1).await;
            let before = disks[1].snapshot();
            let candidate = || Candidate::local("b", nodes[1].clone());
            let (own, ours) = (superblock(&nodes[1]).await, superblock(&nodes[0]).await);
            for answer in [
                array.add(candidate(), AddOptions::default()).await,
                array.re_add(candidate()).await,
            ] {
                let (what, next) = refusal(answer);
                let changed = |count: u64| match recipe_has_bitmap(&own) {
                    true => format!("{count} of 16 chunks changed by its bitmap"),
                    false => "no bitmap".to_owned(),
                };
                let side = |events, updated, count| {
                    let when = engine::clock::Calendar::of(updated);
                    format!("{events} events, last written {when}, {}", changed(count))
                };
                let own = side(own.events, own.updated, 3);
                let ours = side(ours.events, ours.updated, 1);
                assert_eq!(
                    what,
                    format!(
                        "b has data of its own, the array was used in two ways: b without a ({own}), a without b \
                         ({ours}); nothing was written to b"
                    )
                );
                assert!(next.contains("--force overwrites it"), "{next}");
            }
            assert!(disks[1].snapshot() == before, "b was written");
            array.add(candidate(), OVERWRITE).await.unwrap();
            array.by_hand().work().await.unwrap();
            let data = |disk: &MemDisk| {
                let at = usize::try_from(DATA).unwrap();
                disk.snapshot()[at..at + usize::try_from(MEMBER).unwrap()].to_vec()
            };
            assert!(data(&disks[0]) == data(&disks[1]));
        });
    }
}

fn recipe_has_bitmap(superblock: &super::super::format::Superblock) -> bool {
    superblock.bitmap_at.is_some()
}

/// The array's own half is an old copy: what the other one was given since is nowhere else.
#[test]
fn a_half_that_has_seen_more_than_the_array_is_not_overwritten_unasked() {
    block_on(async {
        let disks = [memory(), memory()];
        let nodes = made(Recipe::mirror(2), &disks).await;
        let old: Node = Arc::new(MemDisk::from_bytes(disks[0].snapshot()));
        for fill in 1..4 {
            let both = use_alone(&nodes, fill, 2).await;
            both.stop().await.unwrap();
        }
        let array = open(candidates(&[old]), options()).await.unwrap();
        let newer = || Candidate::local("b", nodes[1].clone());
        let answer = array.add(newer(), AddOptions::default()).await;
        refusal(answer);
        array.add(newer(), OVERWRITE).await.unwrap();
    });
}

#[test]
fn a_member_that_was_only_left_behind_is_added_without_being_asked_twice() {
    for recipe in [Recipe::mirror(2), Recipe::mirror(2).without_bitmap()] {
        block_on(async {
            let disks = [memory(), memory()];
            let nodes = made(recipe, &disks).await;
            let array = use_alone(&nodes, 1, 1).await;
            array.fail("b").await.unwrap();
            array.remove("b").await.unwrap();
            let range = Range::new(0, 512);
            let data = single(pattern(3, range));
            array.write(range, data, WriteFlags::empty()).await.unwrap();
            let back = Candidate::local("b", nodes[1].clone());
            array.add(back, AddOptions::default()).await.unwrap();
        });
    }
}
