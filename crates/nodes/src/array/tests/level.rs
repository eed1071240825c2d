//! Arrays that get another level: what they hold before, at every step and after any cut of the power, and what is refused.

use std::sync::Arc;

use block::{BlockDevice, Errno, Node, Operation, Range};
use testkit::{Effect, Fault, FaultDisk, HeldDisk, MemDisk, block_on, first_difference, pattern};

use super::super::format::{self, Level, Role, Version, encode, features};
use super::super::redundant::tests::kit::{
    DISK, MEMBER, RING, Recipe, SUPERBLOCK, options, put, superblock,
};
use super::super::{AddOptions, Array, Candidate, NewShape, change_level, is_changed_in_use, open};
use super::open::candidates;
use super::reshape::{assert_fits, write};

/// An array that gets another level.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) recipe: Recipe,
    pub(super) to: Level,
}

/// The first disk gets one in its place that can hold requests, and holds none so far.
pub(super) fn hold_first(disks: &mut [Node]) -> Arc<HeldDisk> {
    let held = HeldDisk::new(disks[0].clone());
    held.hold(false);
    disks[0] = held.clone();
    held
}

pub(super) fn case(level: Level, layout: u32, parts: u32, to: Level) -> Case {
    let recipe = match level {
        Level::Raid1 => Recipe::mirror(parts),
        Level::Raid0 => Recipe::parity(level, 0, parts).without_bitmap(),
        _ => Recipe::parity(level, layout, parts),
    };
    Case { recipe, to }
}

/// Those that are used meanwhile.
fn used() -> Vec<Case> {
    let [five, six] = [Level::Raid5, Level::Raid6];
    let mut cases: Vec<Case> = (0..=5).map(|layout| case(five, layout, 3, six)).collect();
    cases.extend((16..=20).map(|layout| case(six, layout, 4, five)));
    cases.extend([
        case(six, 5, 4, five),
        case(Level::Raid4, 0, 3, five),
        case(five, 5, 3, Level::Raid4),
    ]);
    let five = Recipe::parity(five, 2, 4);
    for recipe in [five.clone().without_bitmap(), five.with_ppl(RING)] {
        cases.push(Case { recipe, to: six });
    }
    cases
}

/// Superblocks at other places.
pub(super) fn elsewhere() -> Vec<Case> {
    let versions = [Version::V1_0, Version::V1_1].into_iter();
    let cases = versions.flat_map(|version| {
        let recipe = |level, layout, parts| Recipe {
            version,
            ..Recipe::parity(level, layout, parts)
        };
        let [five, six] = [Level::Raid5, Level::Raid6];
        [
            (recipe(five, 2, 3), six),
            (recipe(six, 18, 4), five),
            (recipe(five, 5, 3), Level::Raid0),
            (recipe(five, 2, 2), Level::Raid1),
        ]
    });
    cases.map(|(recipe, to)| Case { recipe, to }).collect()
}

/// Those that no process uses, or that no request is under way in.
pub(super) fn unused() -> Vec<Case> {
    let [zero, one, five] = [Level::Raid0, Level::Raid1, Level::Raid5];
    let ppl = Recipe::parity(five, 5, 3).with_ppl(RING);
    vec![
        case(zero, 0, 3, five),
        case(zero, 0, 2, Level::Raid4),
        case(Level::Raid4, 0, 3, zero),
        case(five, 5, 4, zero),
        Case {
            recipe: ppl,
            to: zero,
        },
        case(one, 0, 2, five),
        case(five, 2, 2, one),
        case(five, 0, 2, one),
    ]
}

/// Superblocks of a stripe say what those of mdadm do.
pub(super) async fn make_striped(members: &[Node]) {
    for disk in members {
        let bytes = disk.read(Range::new(4096, 4096)).await.unwrap().concat();
        let mut of = superblock(disk).await;
        (of.member_size, of.layout, of.features) = (0, 2, features::RAID0_LAYOUT);
        let mut new = encode(&of, 4096);
        new.resize(bytes.len(), 0);
        put(disk, SUPERBLOCK, new).await;
    }
}

impl Case {
    /// Bytes of the array, before and after.
    pub(super) fn size(&self) -> u64 {
        match self.recipe.level {
            Level::Raid1 => MEMBER,
            level => (u64::from(self.recipe.parts) - level.parities() as u64) * MEMBER,
        }
    }

    /// Members of the array afterwards.
    pub(super) fn parts(&self) -> u32 {
        let before = self.recipe.level.parities();
        let data = self.recipe.parts - u32::try_from(before).unwrap();
        match (self.recipe.level, self.to) {
            (Level::Raid1, _) | (_, Level::Raid1) => 2,
            (_, to) => data + u32::try_from(to.parities()).unwrap(),
        }
    }

    /// Whether a disk comes.
    fn grows(&self) -> bool {
        self.parts() > self.recipe.parts
    }

    /// Members full of a pattern, stopped, and a spare where one is needed.
    pub(super) async fn made(&self) -> Vec<Node> {
        let in_use = is_changed_in_use(self.recipe.level, self.to);
        let count = self.recipe.parts + u32::from(in_use && self.grows());
        let disks: Vec<Node> = (0..count).map(|_| self.disk()).collect();
        let (members, spares) = disks.split_at(usize::try_from(self.recipe.parts).unwrap());
        self.recipe.make(members).await;
        if self.recipe.level == Level::Raid0 {
            make_striped(members).await;
        }
        let array = open(candidates(members), options()).await.unwrap();
        write(&array, Range::new(0, self.size()), 1).await;
        for spare in spares {
            let candidate = Candidate::local("spare", spare.clone());
            array.add(candidate, AddOptions::default()).await.unwrap();
        }
        array.stop().await.unwrap();
        disks
    }

    fn disk(&self) -> Node {
        Arc::new(MemDisk::new(DISK + self.recipe.ppl.unwrap_or(0)))
    }

    /// Changes the level.
    async fn change(&self, disks: &[Node]) {
        if is_changed_in_use(self.recipe.level, self.to) {
            let array = open(candidates(disks), options()).await.unwrap();
            array.change_level(self.to).await.unwrap();
            return;
        }
        let changed = change_level(candidates(disks), &options(), self.to).await;
        changed.unwrap();
    }

    pub(super) async fn check(&self, array: &Array, what: &str) {
        assert_eq!(array.geometry().size, self.size(), "{self:?}, {what}");
        let all = Range::new(0, self.size());
        let found = array.read(all).await.unwrap().concat();
        let differs = first_difference(&found, &pattern(1, all));
        assert_eq!(differs, None, "{self:?}, {what}");
    }

    /// The array has its level, all of its members, and parity that fits.
    pub(super) async fn is_whole(&self, array: &Array) {
        let status = array.status();
        assert_eq!(
            (status.level, status.parts),
            (self.to, self.parts()),
            "{self:?}"
        );
        if self.to == Level::Raid0 {
            return;
        }
        if status.working < status.parts {
            let new = Candidate::local("new", self.disk());
            array.add(new, AddOptions::default()).await.unwrap();
        }
        array.by_hand().work().await.unwrap();
        assert_eq!(array.status().working, self.parts(), "{self:?}");
        assert_fits(array, &format!("{self:?}")).await;
        self.check(array, "of all members").await;
        for name in ["a", "b"].iter().take(self.to.parities()) {
            array.fail(name).await.unwrap();
            self.check(array, &format!("without {name}")).await;
        }
    }
}

/// What disks hold.
pub(super) async fn images(disks: &[Node]) -> Vec<Vec<u8>> {
    let mut images = Vec::new();
    for disk in disks {
        let all = Range::new(0, disk.geometry().size);
        images.push(disk.read(all).await.unwrap().concat());
    }
    images
}

#[test]
fn an_array_gets_another_level_and_holds_what_it_did() {
    for case in used().into_iter().chain(unused()) {
        block_on(async {
            let disks = case.made().await;
            case.change(&disks).await;
            let left = disks.len().min(usize::try_from(case.parts()).unwrap());
            // The member that leaves level 6 is a spare.
            let left = match case.to == Level::Raid0 {
                true => &disks[..left],
                false => &disks[..],
            };
            let array = open(candidates(left), options()).await.unwrap();
            case.check(&array, "at once").await;
            case.is_whole(&array).await;
            array.stop().await.unwrap();
            for disk in left {
                let of = superblock(disk).await;
                let bit = of.features & features::RAID0_LAYOUT;
                assert_eq!((of.level, bit), (case.to, 0), "{case:?}");
            }
        });
    }
}

#[test]
fn an_array_is_written_and_read_while_its_new_member_is_rebuilt() {
    for case in used() {
        block_on(async {
            let disks = case.made().await;
            let array = open(candidates(&disks), options()).await.unwrap();
            let before = superblock(&disks[0]).await;
            array.change_level(case.to).await.unwrap();
            let status = array.status();
            let works = case.parts() - u32::from(case.grows());
            assert_eq!((status.level, status.working), (case.to, works), "{case:?}");
            assert_eq!(superblock(&disks[0]).await.data, before.data, "{case:?}");
            let half = Range::new(MEMBER / 2, MEMBER);
            write(&array, half, 7).await;
            array.fail("b").await.unwrap();
            let found = array.read(half).await.unwrap().concat();
            assert_eq!(found, pattern(7, half), "{case:?}");
            write(&array, half, 1).await;
            case.check(&array, "degraded").await;
        });
    }
}

/// A cut of the power while superblocks are written: whichever of them have the new level, the array has the old one or the new one.
#[test]
fn a_cut_while_superblocks_are_written_leaves_one_of_both_levels() {
    for case in [used(), unused(), elsewhere()].concat() {
        block_on(async {
            let disks = case.made().await;
            let before = images(&disks).await;
            case.change(&disks).await;
            let after = images(&disks).await;
            let parts = usize::try_from(case.parts()).unwrap().min(disks.len());
            for knowing in 0_u32..1 << disks.len() {
                let knows = |disk: usize| knowing >> disk & 1 == 1;
                let behind = (parts..disks.len()).any(knows);
                if behind && !(0..parts).all(knows) {
                    // Members without a part are written last.
                    continue;
                }
                let mixed = before.iter().zip(&after).enumerate();
                let mixed = mixed.map(|(disk, (before, after))| {
                    let image = if knows(disk) { after } else { before };
                    Arc::new(MemDisk::from_bytes(image.clone())) as Node
                });
                let mut mixed: Vec<Node> = mixed.collect();
                if case.to == Level::Raid0 && behind {
                    // It has no superblock any more.
                    mixed.truncate(parts);
                }
                let what = format!("{case:?}, {knowing:b} know");
                let opened = open(candidates(&mixed), options()).await;
                let array = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
                case.check(&array, &what).await;
                let level = if knowing == 0 {
                    case.recipe.level
                } else {
                    case.to
                };
                assert_eq!(array.status().level, level, "{what}");
                array.stop().await.unwrap();
                drop(array);
                if knowing == 0 {
                    case.change(&mixed).await;
                }
                if case.to == Level::Raid0 {
                    mixed.truncate(parts);
                }
                if knowing.count_ones() % 2 == 0 {
                    // Others show what comes of it.
                    continue;
                }
                let array = open(candidates(&mixed), options()).await.unwrap();
                case.is_whole(&array).await;
            }
        });
    }
}

#[test]
fn a_new_level_6_is_resynced_and_rebuilt_after_a_cut_under_writes() {
    for case in used().into_iter().filter(|case| case.to == Level::Raid6) {
        block_on(async {
            let disks = case.made().await;
            let array = open(candidates(&disks), options()).await.unwrap();
            array.change_level(case.to).await.unwrap();
            write(&array, Range::new(0, case.size()), 1).await;
            // It is dirty, and its new member has nothing.
            drop(array);
            let array = open(candidates(&disks), options()).await.unwrap();
            assert!(
                array.status().resync_pending || case.recipe.bitmap,
                "{case:?}"
            );
            case.is_whole(&array).await;
        });
    }
}

async fn reshape(array: &Array, layout: u32) {
    let shape = NewShape {
        layout: Some(layout),
        ..NewShape::default()
    };
    array.reshape(shape, None).await.unwrap();
    array.by_hand().work().await.unwrap();
    assert_eq!(array.status().layout, layout);
    assert_fits(array, "reshaped").await;
}

#[test]
fn level_6_with_q_on_one_member_is_reshaped_to_the_usual_layout() {
    block_on(async {
        let case = case(Level::Raid5, 2, 3, Level::Raid6);
        let disks = case.made().await;
        let array = open(candidates(&disks), options()).await.unwrap();
        array.change_level(Level::Raid6).await.unwrap();
        array.by_hand().work().await.unwrap();
        reshape(&array, 2).await;
        case.check(&array, "reshaped").await;
    });
}

#[test]
fn level_6_becomes_level_5_once_q_was_moved_to_one_member() {
    block_on(async {
        let case = case(Level::Raid6, 2, 4, Level::Raid5);
        let disks = case.made().await;
        let array = open(candidates(&disks), options()).await.unwrap();
        reshape(&array, 18).await;
        array.change_level(Level::Raid5).await.unwrap();
        case.check(&array, "level 5").await;
        assert_fits(&array, "level 5").await;
        let of = superblock(&disks[3]).await;
        assert_eq!(
            (of.role, of.level, of.members),
            (Role::Spare, Level::Raid5, 3)
        );
    });
}

#[test]
fn a_level_6_without_its_member_with_q_becomes_level_5() {
    block_on(async {
        let case = case(Level::Raid6, 18, 4, Level::Raid5);
        let disks = case.made().await;
        let array = open(candidates(&disks), options()).await.unwrap();
        array.fail("d").await.unwrap();
        array.change_level(Level::Raid5).await.unwrap();
        case.is_whole(&array).await;
    });
}

/// `disks` with the one at `at` failing each write.
pub(super) fn failing(disks: &[Node], at: usize) -> Vec<Node> {
    let mut nodes = disks.to_vec();
    let faults = vec![Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write)];
    nodes[at] = FaultDisk::new(disks[at].clone(), 1, faults);
    nodes
}

/// A power cut left a member one commit behind; then comes another level, in the midst of which a disk fails.
#[test]
fn a_member_that_was_behind_is_not_left_two_behind_by_a_level_that_is_cut() {
    let cases = unused().into_iter();
    for case in cases.filter(|case| case.recipe.parts > 2 && case.recipe.ppl.is_none()) {
        block_on(async {
            let disks = case.made().await;
            let behind = usize::try_from(case.recipe.parts).unwrap() - 2;
            let mut of = superblock(&disks[behind]).await;
            of.events -= 1;
            put(&disks[behind], SUPERBLOCK, encode(&of, 4096)).await;
            let cut = failing(&disks, behind - 1);
            let failed = change_level(candidates(&cut), &options(), case.to).await;
            assert!(failed.is_err(), "{case:?}");
            let array = open(candidates(&disks), options()).await.unwrap();
            case.check(&array, "after the cut").await;
        });
    }
}

/// The superblock of what was released is removed last. Where that was cut, the next open does it.
#[test]
fn a_member_that_was_to_be_released_when_the_power_went_out_is_released_by_the_next_open() {
    block_on(async {
        let case = case(Level::Raid5, 5, 4, Level::Raid0);
        let disks = case.made().await;
        let last = disks.len() - 1;
        let cut = failing(&disks, last);
        let failed = change_level(candidates(&cut), &options(), case.to).await;
        assert!(failed.is_err());
        assert_eq!(superblock(&disks[last]).await.level, Level::Raid5);
        let array = open(candidates(&disks), options()).await.unwrap();
        case.check(&array, "after the cut").await;
        assert_eq!(array.status().level, Level::Raid0);
        let bytes = disks[last]
            .read(Range::new(SUPERBLOCK, 4096))
            .await
            .unwrap();
        let found = format::decode(Version::V1_2, SUPERBLOCK, &bytes.concat());
        assert!(matches!(found, Ok(None)), "it has a superblock: {found:?}");
    });
}

#[test]
fn the_member_with_parity_that_is_absent_has_no_part_of_level_0() {
    block_on(async {
        let case = case(Level::Raid5, 5, 4, Level::Raid0);
        let disks = case.made().await;
        let changed = change_level(candidates(&disks[..3]), &options(), case.to).await;
        changed.unwrap();
        let of = superblock(&disks[0]).await;
        assert_eq!(of.roles[3], Role::Faulty);
        assert_eq!(of.members, 3);
    });
}

#[test]
fn what_is_changed_in_use_is_not_changed_in_any_other_way() {
    block_on(async {
        let case = case(Level::Raid6, 18, 4, Level::Raid5);
        let disks = case.made().await;
        let before = images(&disks).await;
        let refused = change_level(candidates(&disks), &options(), case.to).await;
        assert!(refused.is_err());
        assert!(images(&disks).await == before, "nothing is written");
    });
}
