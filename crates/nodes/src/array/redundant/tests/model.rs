//! Mirrors of every kind against the model: one by one, many at once, cut off from power, dropped in flight.

use block::{BlockDevice, IoError, Node};
use proptest::prelude::*;
use testkit::{
    HeldDisk, OpSpace, block_on, check_against_model, check_crashes, check_dropped_futures,
    check_in_batches, one_of_each, ops,
};

use super::disks;
use super::kit::{DISK, MEMBER, Recipe, assert_alike, open};
use crate::array::format::Level;

/// Every kind, and how many disks it takes.
fn recipes() -> Vec<Recipe> {
    vec![
        Recipe::mirror(2),
        Recipe::mirror(3),
        Recipe::mirror(2).without_bitmap(),
        Recipe::raid10(0x102, 4),
        Recipe::raid10(0x102, 3),
        Recipe::raid10(0x201, 3).without_bitmap(),
        Recipe::raid10(0x1_0201, 4),
        Recipe::raid10(0x202, 5),
        Recipe::raid10(0x4_0201, 5),
    ]
}

fn members(recipe: &Recipe) -> usize {
    usize::try_from(recipe.parts).unwrap()
}

/// Bytes that every kind has.
const SPACE: OpSpace = OpSpace {
    size: MEMBER,
    block_size: 512,
    len_max: 20 << 10,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_kind_keeps_what_is_written(list in ops(SPACE, 0..40), which in 0..9_usize) {
        let recipe = recipes().swap_remove(which);
        let disks = disks(members(&recipe));
        block_on(async {
            let mirror = recipe.open(&disks).await;
            check_against_model(&*mirror, &list).await.unwrap();
            mirror.stop().await.unwrap();
            if recipe.level == Level::Raid1 {
                assert_alike(&disks).await;
            }
        });
    }

    #[test]
    fn every_kind_keeps_what_is_written_at_once(
        list in ops(SPACE, 0..60),
        which in 0..9_usize,
        width in 1..8_usize,
    ) {
        let recipe = recipes().swap_remove(which);
        let disks = disks(members(&recipe));
        block_on(async {
            let mirror = recipe.open(&disks).await;
            check_in_batches(&*mirror, &list, width).await.unwrap();
            mirror.stop().await.unwrap();
            if recipe.level == Level::Raid1 {
                assert_alike(&disks).await;
            }
        });
    }

    #[test]
    fn what_was_flushed_is_there_after_a_crash(
        list in ops(SPACE, 0..24),
        which in 0..9_usize,
        seed: u64,
    ) {
        let recipe = recipes().swap_remove(which);
        let sizes = vec![DISK; members(&recipe)];
        let open = |disks: Vec<Node>| open_or_make(recipe.clone(), disks);
        block_on(check_crashes(open, &sizes, &list, seed)).unwrap();
    }
}

/// A disk of zeroes is new; else what is there is opened.
async fn open_or_make(recipe: Recipe, disks: Vec<Node>) -> Result<Node, IoError> {
    let head = disks[0].read(block::Range::new(4096, 4)).await?.concat();
    if head == [0; 4] {
        recipe.make(&disks).await;
    }
    Ok(open(&disks).await)
}

#[test]
fn dropped_futures_leave_nothing_that_lands_late() {
    for recipe in recipes() {
        let sizes = vec![DISK; members(&recipe)];
        let open = |disks: Vec<Node>| open_or_make(recipe.clone(), disks);
        let list = one_of_each(block::Range::new(4096, 8192), MEMBER);
        block_on(check_dropped_futures(open, &sizes, &list)).unwrap();
    }
}

#[test]
fn after_a_dropped_write_has_settled_the_copies_are_alike() {
    block_on(async {
        let below = disks(2);
        let held = HeldDisk::new(below[1].clone());
        held.hold(false);
        let disks = vec![below[0].clone(), held.clone() as Node];
        let mirror = Recipe::mirror(2).open(&disks).await;
        let range = block::Range::new(0, 8192);
        super::kit::write(&mirror, range, 1).await.unwrap();
        held.hold(true);
        {
            let mut request = std::pin::pin!(super::kit::write(&mirror, range, 2));
            assert!(!crate::test_runtime::is_ready(request.as_mut()).await);
        }
        held.release_all().await;
        held.hold(false);
        mirror.settle().await.unwrap();
        assert_alike(&below).await;
    });
}

#[test]
fn overlapping_writes_end_equal_on_all_members() {
    block_on(async {
        let below: Vec<Node> = disks(2);
        let held: Vec<_> = below
            .iter()
            .map(|disk| HeldDisk::new(disk.clone()))
            .collect();
        held.iter().for_each(|disk| disk.hold(false));
        let disks: Vec<Node> = held.iter().map(|disk| disk.clone() as Node).collect();
        let mirror = Recipe::mirror(2).open(&disks).await;
        let (a, b) = (block::Range::new(0, 8192), block::Range::new(4096, 8192));
        super::kit::write(&mirror, block::Range::new(0, 16384), 1)
            .await
            .unwrap();
        held.iter().for_each(|disk| disk.hold(true));
        let both = async {
            let one = super::kit::write(&mirror, a, 2);
            let other = super::kit::write(&mirror, b, 3);
            futures_util::future::try_join(one, other).await
        };
        let release = async {
            // The members would see them in different orders, if they could.
            for _ in 0..8 {
                tokio::task::yield_now().await;
                for held in &held {
                    for request in held.held().into_iter().rev() {
                        held.release(request.id).await;
                    }
                }
            }
        };
        let (result, ()) = futures_util::future::join(both, release).await;
        result.unwrap();
        held.iter().for_each(|disk| disk.hold(false));
        assert_alike(&below).await;
        assert_eq!(super::kit::read(&mirror, b).await, testkit::pattern(3, b));
    });
}

#[test]
fn an_array_without_a_member_goes_on_with_the_others() {
    block_on(async {
        let disks = disks(3);
        let recipe = Recipe::raid10(0x102, 3);
        let mirror = recipe.open(&disks).await;
        let range = block::Range::new(0, MEMBER);
        super::kit::write(&mirror, range, 1).await.unwrap();
        mirror.stop().await.unwrap();
        drop(mirror);
        for missing in 0..3 {
            let mut left = disks.clone();
            left.remove(missing);
            let mirror = open(&left).await;
            assert_eq!(
                super::kit::read(&mirror, range).await,
                testkit::pattern(1, range)
            );
            assert_eq!(mirror.status().working, 2);
        }
    });
}
