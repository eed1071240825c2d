//! Arrays that get another level while something else happens to them: a member is declared failed, another process writes superblocks, or a
//! listener of events misses some.

use std::future::poll_fn;
use std::pin::pin;

use block::{Operation, Range};
use futures_util::FutureExt;
use testkit::{HeldDisk, block_on};

use super::super::format::{Level, encode};
use super::super::redundant::tests::kit::{Recipe, SUPERBLOCK, options, put, superblock};
use super::super::{ArrayEvent, open};
use super::level::{Case, case, hold_first};
use super::open::candidates;
use super::reshape::{one_step, write};

/// More events than a listener may be behind.
const EVENTS: usize = 300;

/// Carries out requests until one of them is a read.
async fn release_until_read(held: &HeldDisk) {
    loop {
        held.arrival().await;
        let mut requests = held.held().into_iter();
        if requests.any(|request| request.operation == Operation::Read) {
            return;
        }
        held.release_oldest().await;
    }
}

/// Superblocks that were read, and are written by the level change next, must be the last ones of the engine before: a member that was
/// declared failed between both was in sync again for the next engine, which wrote over what the others had recorded of it.
#[test]
fn no_member_is_declared_failed_once_its_superblock_is_read_for_another_level() {
    block_on(async {
        let case = case(Level::Raid5, 5, 3, Level::Raid0);
        let mut disks = case.made().await;
        let held = hold_first(&mut disks);
        let array = open(candidates(&disks), options()).await.unwrap();
        held.hold(true);
        let mut changing = pin!(array.change_level(case.to));
        tokio::select! {
            biased;
            changed = changing.as_mut() => panic!("its superblocks were not read: {changed:?}"),
            () = release_until_read(&held) => {}
        }
        let failed = array.fail("b").now_or_never();
        let refused = failed.expect("no superblock is written").unwrap_err();
        assert!(refused.to_string().contains("another level"), "{refused}");
        held.hold(false);
        let release = async {
            while array.status().level != case.to || !held.held().is_empty() {
                held.release_all().await;
                tokio::task::yield_now().await;
            }
        };
        let (changed, ()) = tokio::join!(changing, release);
        changed.unwrap();
        case.check(&array, "a stripe").await;
        array.stop().await.unwrap();
        let array = open(candidates(&disks[..2]), options()).await.unwrap();
        case.check(&array, "opened again").await;
    });
}

#[test]
fn an_array_with_superblocks_of_another_process_keeps_its_level_and_its_members_may_change() {
    block_on(async {
        let case = case(Level::Raid5, 5, 3, Level::Raid0);
        let disks = case.made().await;
        let array = open(candidates(&disks), options()).await.unwrap();
        let mut before = Vec::new();
        for disk in &disks {
            let mut of = superblock(disk).await;
            before.push(of.clone());
            of.events += 1;
            put(disk, SUPERBLOCK, encode(&of, 4096)).await;
        }
        let refused = array.change_level(case.to).await.unwrap_err().to_string();
        assert!(refused.contains("another process"), "{refused}");
        for (disk, before) in disks.iter().zip(&before) {
            let of = superblock(disk).await;
            assert_eq!(of.events, before.events + 1, "nothing is written");
            put(disk, SUPERBLOCK, encode(before, 4096)).await;
        }
        write(&array, Range::new(0, case.size()), 1).await;
        array.fail("b").await.unwrap();
        case.check(&array, "without b").await;
    });
}

/// What was wrong: a level that was requested again after a restart was refused until parity had been moved.
#[test]
fn a_level_that_a_restart_left_for_later_can_be_requested_while_parity_is_moved() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 3);
        let to = Level::Raid0;
        let case = Case { recipe, to };
        let disks = case.made().await;
        let array = open(candidates(&disks), options()).await.unwrap();
        array.change_level(to).await.unwrap();
        assert!(one_step(&array).await);
        array.stop().await.unwrap();
        drop(array);
        let array = open(candidates(&disks), options()).await.unwrap();
        array.change_level(to).await.unwrap();
        assert_eq!(array.status().level, Level::Raid5);
        array.work().await;
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(array.status().level, to);
        case.check(&array, "a stripe").await;
        array.stop().await.unwrap();
    });
}

/// The end of the reshape was among the events that the task missed which gives the array its level then: it never had it.
#[test]
fn an_array_gets_its_level_after_a_reshape_of_which_the_end_was_missed() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 3);
        let to = Level::Raid0;
        let case = Case { recipe, to };
        let disks = case.made().await;
        let array = open(candidates(&disks), options()).await.unwrap();
        array.change_level(to).await.unwrap();
        assert_eq!(array.status().level, Level::Raid5);
        let by_hand = array.by_hand();
        let mut working = pin!(array.work());
        poll_fn(|context| {
            let done = working.as_mut().poll(context);
            for _ in 0..EVENTS {
                by_hand.array.send_event(ArrayEvent::DegradedArray);
            }
            done
        })
        .await;
        drop(by_hand);
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(array.status().level, to);
        case.check(&array, "a stripe").await;
    });
}
