//! The arrays of worlds with a reshape, or another level, and how what they are about begins.

use std::sync::Arc;

use block::{Node, Range};
use testkit::MemDisk;

use super::world::options;
use crate::array::format::{self, Level, Version};
use crate::array::redundant::RedundantArray;
use crate::array::redundant::tests::kit::{Recipe, SUPERBLOCK};
use crate::array::tests::level::make_striped;
use crate::array::tests::open::candidates;
use crate::array::tests::reshape::Case;
use crate::array::{AddOptions, Array, ArrayError, BackupFile, Candidate, NewShape, open};

/// An array of zeroes with the spares that it needs, as images.
pub(super) async fn images(case: &Case) -> Vec<Vec<u8>> {
    let disks = case.mem_disks();
    let nodes: Vec<Node> = disks.iter().map(|disk| disk.clone() as Node).collect();
    let (members, spares) = nodes.split_at(usize::try_from(case.recipe.parts).expect("few"));
    case.recipe.make(members).await;
    if case.recipe.level == Level::Raid0 {
        make_striped(members).await;
    }
    let opened = open(candidates(members), options()).await;
    let array = opened.expect("it was just made");
    for (number, spare) in spares.iter().enumerate() {
        let spare = Candidate::local(format!("spare{number}"), spare.clone());
        let added = array.add(spare, AddOptions::default()).await;
        added.expect("a spare is added");
    }
    array.stop().await.expect("it is stopped");
    disks
        .iter()
        .map(|disk: &Arc<MemDisk>| disk.snapshot())
        .collect()
}

/// Arrays that get another level, with a spare each where there are any.
pub(super) fn level_cases() -> Vec<(Case, Level)> {
    let [zero, four, five, six] = [Level::Raid0, Level::Raid4, Level::Raid5, Level::Raid6];
    // A stripe has no spares.
    let alone = |level, layout, parts, to| {
        let recipe = match level {
            Level::Raid0 => Recipe::parity(level, layout, parts).without_bitmap(),
            _ => Recipe::parity(level, layout, parts),
        };
        (Case::devices(recipe, parts), to)
    };
    let with_spare = |recipe: Recipe, to| {
        let parts = recipe.parts + 1;
        (Case::devices(recipe, parts), to)
    };
    vec![
        with_spare(Recipe::parity(five, 2, 3), six),
        with_spare(Recipe::parity(five, 0, 4).without_bitmap(), six),
        with_spare(Recipe::parity(five, 5, 3), six),
        with_spare(Recipe::parity(six, 18, 4), five),
        with_spare(Recipe::parity(six, 20, 4).without_bitmap(), five),
        with_spare(Recipe::parity(four, 0, 3), five),
        with_spare(Recipe::parity(five, 5, 3), four),
        alone(zero, 0, 2, five),
        alone(zero, 0, 3, four),
        alone(five, 5, 3, zero),
        alone(four, 0, 3, zero),
        with_spare(Recipe::mirror(2), five),
        with_spare(Recipe::mirror(2).without_bitmap(), five),
        with_spare(Recipe::parity(five, 2, 2), Level::Raid1),
        with_spare(Recipe::parity(five, 0, 2).without_bitmap(), Level::Raid1),
    ]
}

/// Members that an array of this level can lose.
pub(super) const fn spared(level: Level) -> usize {
    match level {
        Level::Raid1 => 1,
        _ => level.parities(),
    }
}

/// What the world is about.
pub(super) async fn begin_change(
    array: &Array,
    shape: NewShape,
    level: Option<Level>,
    backup: Option<Arc<dyn BackupFile>>,
) -> Result<(), ArrayError> {
    match level {
        Some(level) => array.change_level(level).await,
        None => array.reshape(shape, backup).await,
    }
}

/// What is to be done in the background, where there is anything.
pub(super) async fn work(array: &Array) -> Result<(), ArrayError> {
    match array.by_hand_if_any() {
        Some(by_hand) => by_hand.work().await,
        None => Ok(()),
    }
}

/// Whether a disk has no superblock any more.
pub(super) fn is_released(image: &[u8]) -> bool {
    let start = Range::new(0, SUPERBLOCK).len_usize();
    let found = format::decode(Version::V1_2, SUPERBLOCK, &image[start..start + 4096]);
    matches!(found, Ok(None))
}

/// Whether parity is known to fit.
pub(super) fn is_synced(redundant: &Option<Arc<RedundantArray>>) -> bool {
    redundant
        .as_ref()
        .is_none_or(|array| array.needed(0).is_none())
}
