//! Worlds in which an array of level 5 gets other consistency policies, is reshaped, and has bad sectors: what [`reshapes`](super::reshapes)
//! has happens, too.
//!
//! A sector becomes unreadable only while all members are there and parity fits: it is read from the others, and written again. A spare may be
//! absent for a life in which no reshape begins, and have another policy than the others then.

use std::sync::Arc;

use block::{BlockDevice as _, Node, Range, WriteFlags};
use testkit::{MemDisk, SECTOR, block_on};

use super::acts::{Doing, Ended};
use super::disks::Wire;
use super::reshape_cases::is_synced;
use super::reshapes::ReshapeWorld;
use super::world::{Wrong, in_sync};
use crate::array::external_input::given::Given;
use crate::array::format::{self, Level, Role, Superblock, Version};
use crate::array::redundant::tests::kit::{MEMBER, Recipe, SUPERBLOCK};
use crate::array::tests::reshape::Case;
use crate::array::{
    Array, ConsistencyChoice, ConsistencyPolicy, CreateOptions, NewMember, NewShape, create,
};

/// Bytes of each disk: there is room for logs in front of the data.
const DISK: u64 = 3 << 20;
/// Members with a part, and a spare behind them.
const PARTS: u32 = 3;
const CHOICES: [ConsistencyChoice; 3] = [
    ConsistencyChoice::Ppl,
    ConsistencyChoice::Bitmap(None),
    ConsistencyChoice::Resync,
];
const POLICIES: [ConsistencyPolicy; 3] = [
    ConsistencyPolicy::Ppl,
    ConsistencyPolicy::Bitmap,
    ConsistencyPolicy::Resync,
];

/// An array of zeroes with a spare, as images.
async fn images(choice: ConsistencyChoice) -> Vec<Vec<u8>> {
    let disks: Vec<Arc<MemDisk>> = (0..=PARTS).map(|_| Arc::new(MemDisk::new(DISK))).collect();
    let members = ('a'..).zip(&disks).map(|(name, disk)| NewMember {
        name: name.to_string(),
        disk: Some(disk.clone() as Node),
        write_mostly: false,
        fail_fast: false,
    });
    let mut members: Vec<NewMember> = members.collect();
    let spare = members.pop().expect("it is the last one");
    let options = CreateOptions {
        level: Level::Raid5,
        layout: None,
        chunk: Some(4096),
        version: Version::V1_2,
        name: "world:0".to_owned(),
        consistency: choice,
        assume_clean: true,
        size: Some(MEMBER),
        journal: None,
    };
    let made = create(members, vec![spare], options).await;
    made.expect("the disks have room for it");
    disks.iter().map(|disk| disk.snapshot()).collect()
}

/// What an image says of itself.
fn superblock(image: &[u8]) -> Option<Superblock> {
    let start = Range::new(0, SUPERBLOCK).len_usize();
    let place = &image[start..start + 4096];
    format::decode(Version::V1_2, SUPERBLOCK, place).ok()?
}

impl ReshapeWorld {
    /// A world in which an array gets other consistency policies.
    pub(super) fn of_policies(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let none = NewShape {
            parts: None,
            layout: None,
            chunk: None,
        };
        let shapes = [
            NewShape {
                parts: Some(PARTS + 1),
                ..none
            },
            NewShape {
                layout: Some(0),
                ..none
            },
            NewShape {
                chunk: Some(8192),
                ..none
            },
        ];
        let case = Case {
            recipe: Recipe::parity(Level::Raid5, 2, PARTS).without_bitmap(),
            shape: shapes[rng.usize(0..shapes.len())],
        };
        let choice = CHOICES[rng.usize(0..CHOICES.len())];
        let images = block_on(async {
            let _given = Given::by(seed);
            images(choice).await
        });
        let mut world = Self::with_images(seed, rng, case, None, images);
        world.changes_policy = true;
        world.log(format!("it begins with {choice:?}"));
        world
    }

    /// The disk that is not there in the next life: a spare, where no reshape may just have made it a member.
    pub(super) fn absent_spare(&mut self) -> Option<String> {
        if !self.changes_policy || self.rng.u8(0..4) > 0 {
            return None;
        }
        let known: Vec<(String, Superblock)> = (self.disks.iter().filter(|disk| disk.is_here))
            .filter_map(|disk| Some((disk.name.clone(), superblock(&disk.image)?)))
            .collect();
        if known.iter().any(|(_, of)| of.reshape.is_some()) {
            return None;
        }
        let mut spares = known.iter().filter(|(_, of)| of.role == Role::Spare);
        let name = spares.next()?.0.clone();
        self.log(format!("{name}, a spare, is absent"));
        Some(name)
    }

    /// Another policy is given, or a sector becomes unreadable. Whether that is begun instead of something else.
    pub(super) fn begin_policy(&mut self, array: &Arc<Array>, doing: &Doing) -> bool {
        if !self.changes_policy {
            return false;
        }
        match self.rng.u8(0..10) {
            0 | 1 => {
                let policy = POLICIES[self.rng.usize(0..POLICIES.len())];
                let name = format!("policy {policy:?}");
                self.log(name.clone());
                let array = array.clone();
                doing.push(Box::pin(async move {
                    let changed = array.change_policy(policy).await;
                    Ended::Other(name, changed)
                }));
            }
            2 => self.damage_one(array),
            _ => return false,
        }
        true
    }

    /// A sector of a member cannot be read until it is written again.
    fn damage_one(&mut self, array: &Array) {
        let redundant = array.by_hand_if_any().map(|by_hand| by_hand.array.clone());
        let is_whole = self.lost() == 0 && array.status().working == array.status().parts;
        if self.is_damaged || !is_whole || !is_synced(&redundant) {
            return;
        }
        let names = in_sync(array);
        let name = names[self.rng.usize(0..names.len())].clone();
        let mut wires = self.wires.iter();
        let wire: Option<Arc<Wire>> = wires
            .find(|(other, _)| *other == name)
            .map(|(_, wire)| wire.clone());
        let Some((wire, of)) = wire.and_then(|wire| {
            let of = superblock(&wire.live())?;
            Some((wire, of))
        }) else {
            return;
        };
        let from = of.first_data_at();
        let sectors = (of.data.offset + MEMBER - from) / SECTOR;
        let at = from + self.rng.u64(0..sectors) * SECTOR;
        self.log(format!("{name} is damaged at {at}"));
        self.is_damaged = true;
        wire.damage(Range::new(at, SECTOR), false);
    }

    /// Members in sync have one policy, by their superblocks. Those that a cut left behind the others are written with the next change of the
    /// array: a sector is written once more as it is.
    pub(super) async fn check_policies(&self, array: &Array) -> Result<(), Wrong> {
        if !self.changes_policy {
            return Ok(());
        }
        let sector = Range::new(0, SECTOR);
        let data = array.read(sector).await;
        let data = data.map_err(|error| format!("it cannot be read: {error}"))?;
        let written = array.write(sector, data, WriteFlags::FUA).await;
        written.map_err(|error| format!("it cannot be written: {error}"))?;
        let names = in_sync(array);
        let mut known = Vec::new();
        for (name, wire) in self.wires.iter().filter(|(name, _)| names.contains(name)) {
            let of = superblock(&wire.live());
            let of = of.ok_or_else(|| format!("{name} has no superblock"))?;
            known.push((name, of.keeps_ppl(), of.bitmap_at.is_some()));
        }
        let is_one = known
            .windows(2)
            .all(|two| (two[0].1, two[0].2) == (two[1].1, two[1].2));
        if is_one {
            return Ok(());
        }
        Err(format!("members have different policies: {known:?}"))
    }
}
