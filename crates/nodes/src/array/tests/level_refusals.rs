//! Arrays that keep their level, and why: one clear line each, and nothing written.

use std::sync::Arc;

use block::{Node, Range};
use testkit::{MemDisk, block_on};

use super::super::format::bad_blocks::BadBlocks;
use super::super::format::{Changes, Level, Version, patch};
use super::super::redundant::tests::kit::{DISK, LOG, Recipe, SUPERBLOCK, options, put};
use super::super::{
    AddOptions, ArrayOptions, Candidate, SyncKind, change_level, is_changed_in_use, open,
};
use super::level::{Case, case, images};
use super::open::candidates;
use super::reshape::write;
use super::striped;

/// Why an array does not get a level; nothing is written.
async fn refusal(case: &Case, disks: &[Node], options: ArrayOptions) -> String {
    let before = images(disks).await;
    let refused = match is_changed_in_use(case.recipe.level, case.to) {
        true => {
            let array = open(candidates(disks), options).await.unwrap();
            array.change_level(case.to).await.unwrap_err()
        }
        false => {
            let refused = change_level(candidates(disks), &options, case.to).await;
            refused.unwrap_err()
        }
    };
    assert!(before == images(disks).await, "{case:?}: it was written");
    format!("{refused} ({})", refused.next().unwrap_or_default())
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let [zero, one, five, six] = [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6];
    let cases = [
        (case(five, 2, 3, Level::Raid4), "--layout parity-last"),
        (case(five, 2, 3, zero), "--layout parity-last"),
        (case(six, 2, 4, five), "--layout left-symmetric-6"),
        (
            case(six, 18, 4, Level::Raid4),
            "raid6 does not become raid4",
        ),
        (case(five, 2, 2, six), "--devices"),
        (case(five, 2, 3, one), "only one of two does"),
        (case(one, 0, 3, five), "--copies 2"),
        (case(one, 0, 2, six), "raid1 does not become raid6"),
        (case(five, 2, 3, five), "is raid5 already"),
        (case(zero, 0, 2, one), "raid0 does not become raid1"),
    ];
    for (case, why) in cases {
        block_on(async {
            let disks = case.made().await;
            let refused = refusal(&case, &disks, options()).await;
            assert!(refused.contains(why), "{case:?}: {refused}");
        });
    }
}

#[test]
fn an_array_that_lacks_something_keeps_its_level() {
    block_on(async {
        let six = case(Level::Raid5, 2, 3, Level::Raid6);
        let disks = six.made().await;
        let refused = refusal(&six, &disks[..3], options()).await;
        assert!(refused.contains("add disks first"), "{refused}");
        let array = open(candidates(&disks), options()).await.unwrap();
        array.fail("b").await.unwrap();
        let refused = array.change_level(Level::Raid6).await.unwrap_err();
        assert!(refused.to_string().contains("2 of its 3"), "{refused}");
        array.by_hand().work().await.unwrap();
        array.scrub(SyncKind::Check).unwrap();
        let refused = array.change_level(Level::Raid6).await.unwrap_err();
        assert!(refused.to_string().contains("something else"), "{refused}");

        let one = case(Level::Raid5, 2, 2, Level::Raid1);
        let disks = one.made().await;
        let array = open(candidates(&disks), options()).await.unwrap();
        array.scrub(SyncKind::Check).unwrap();
        let refused = array.change_level(Level::Raid1).await.unwrap_err();
        assert!(refused.to_string().contains("something else"), "{refused}");
        array.by_hand().work().await.unwrap();
        write(&array, Range::new(0, 512), 3).await;
        drop(array);
        let refused = refusal(&one, &disks, options()).await;
        assert!(refused.contains("was not stopped"), "{refused}");
        let refused = refusal(&one, &disks[..1], options()).await;
        assert!(
            refused.contains("was not stopped") || refused.contains("missing"),
            "{refused}"
        );
    });
}

/// Two cases of one recipe: a level that is changed in use, and one that is not.
fn both(recipe: &Recipe) -> [Case; 2] {
    [Level::Raid6, Level::Raid0].map(|to| Case {
        recipe: recipe.clone(),
        to,
    })
}

fn blank(count: u32) -> Vec<Node> {
    // With room for superblocks 0.90.
    let disk = |_| Arc::new(MemDisk::new(4 * DISK)) as Node;
    (0..count).map(disk).collect()
}

#[test]
fn an_array_that_keeps_what_another_level_cannot_have_keeps_its_level() {
    let five = Recipe::parity(Level::Raid5, 5, 3);
    let old = Recipe {
        version: Version::V0_90 { big_endian: false },
        ..five.clone()
    };
    let mut with_log = five.clone();
    with_log.log = true;
    let recipes = [
        (five.clone().with_journal(), 4, "journal"),
        (old, 3, "superblocks 0.90"),
        (with_log, 3, "bad blocks"),
    ];
    for (recipe, count, why) in recipes {
        for case in both(&recipe) {
            block_on(async {
                let disks = blank(count);
                recipe.make(&disks).await;
                if recipe.log {
                    let mut log = BadBlocks::none(512, 0).unwrap();
                    log.add(Range::new(32 << 10, 4096));
                    put(&disks[1], LOG, log.encode().unwrap()).await;
                    let bytes = disks[1].read(Range::new(SUPERBLOCK, 4096)).await.unwrap();
                    let has_bad_blocks = Some(true);
                    let changes = Changes {
                        has_bad_blocks,
                        ..Changes::default()
                    };
                    let bytes = patch(&bytes.concat(), Version::V1_2, &changes);
                    put(&disks[1], SUPERBLOCK, bytes).await;
                }
                let refused = refusal(&case, &disks, options()).await;
                assert!(refused.contains(why), "{case:?}: {refused}");
            });
        }
    }
}

#[test]
fn a_member_that_is_being_replaced_keeps_the_level() {
    for case in both(&Recipe::parity(Level::Raid5, 5, 3)) {
        block_on(async {
            let disks = blank(4);
            case.recipe.make(&disks[..3]).await;
            let array = open(candidates(&disks[..3]), options()).await.unwrap();
            let spare = Candidate::local("spare", disks[3].clone());
            array.add(spare, AddOptions::default()).await.unwrap();
            array.replace("a", None).await.unwrap();
            if is_changed_in_use(Level::Raid5, case.to) {
                let refused = array.change_level(case.to).await.unwrap_err().to_string();
                assert!(refused.contains("something else is done"), "{refused}");
                return;
            }
            array.stop().await.unwrap();
            let refused = refusal(&case, &disks, options()).await;
            assert!(refused.contains("replaces another member"), "{refused}");
        });
    }
}

#[test]
fn a_stripe_of_members_that_differ_in_size_keeps_its_level() {
    block_on(async {
        let disks = striped::made_disks(Level::Raid0).await;
        let refused = change_level(candidates(&disks), &options(), Level::Raid5).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("differ in size"), "{refused}");
    });
}
