//! Worlds in which an array is reshaped in place, with a backup file: the power goes out at any step of the members and of the file, and what was not
//! flushed of both is lost, in part and torn. The array is restored from the file then.

use std::sync::Arc;

use block::{Node, Range};
use testkit::{CrashDisk, block_on};

use super::disks::{Power, Wire};
use super::reshape_cases::images;
use super::reshapes::ReshapeWorld;
use crate::array::BackupFile;
use crate::array::external_input::given::Given;
use crate::array::format::reshape_backup::ReshapeBackup;
use crate::array::format::{self, Version};
use crate::array::redundant::RedundantArray;
use crate::array::tests::in_place::{FILE, TestBackup, backup_cases};

/// What the log of a world says of an array with rows that the file had alone.
pub(super) const RESTORED: &str = "rows were restored from the file";

/// The backup file of a world, between its lives and in one.
#[derive(Debug, Default)]
pub(super) struct WorldFile {
    is_used: bool,
    is_there: bool,
    image: Vec<u8>,
    plugged: Option<(Arc<Wire>, Arc<TestBackup>)>,
}

impl WorldFile {
    /// Whether the world has one.
    pub(super) const fn is_used(&self) -> bool {
        self.is_used
    }

    /// It may be read and written, as long as there is power.
    pub(super) fn plug(&mut self, power: &Arc<Power>, seed: u64) {
        if !self.is_used {
            return;
        }
        let disk = CrashDisk::from_bytes(self.image.clone()).interleaved(seed);
        let wire = Wire::new(disk, power.clone());
        let backup = TestBackup::new(wire.clone() as Node, self.is_there);
        self.plugged = Some((wire, backup));
    }

    /// What is left of it. Whether it is there is durable at once.
    pub(super) fn unplug(&mut self, is_cut: bool, seed: u64) {
        let Some((wire, backup)) = self.plugged.take() else {
            return;
        };
        self.image = match is_cut {
            true => wire.crash(seed),
            false => wire.live(),
        };
        // An administrator removes what a cut left of one that was being made.
        let has_header = matches!(ReshapeBackup::decode(&self.image), Ok(Some(_)));
        self.is_there = backup.is_there() && has_header;
    }

    /// The file, if it is there.
    pub(super) fn found(&self) -> Option<Arc<dyn BackupFile>> {
        let (_, backup) = self.plugged.as_ref()?;
        let is_there = backup.is_there();
        is_there.then(|| backup.clone() as Arc<dyn BackupFile>)
    }

    /// How far the rows go that its header names.
    pub(super) fn names_rows(&self) -> Option<u64> {
        let header = ReshapeBackup::decode(self.image.get(..4096)?).ok()??;
        let ends = header.ranges().map(|saved| saved.range.end());
        ends.max().filter(|_| self.is_there)
    }
}

impl ReshapeWorld {
    pub(super) fn with_backup_file(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut cases = backup_cases();
        cases.retain(|case| case.recipe.version.is_v1());
        let case = cases[rng.usize(0..cases.len())].clone();
        let images = block_on(async {
            let _given = Given::by(seed);
            images(&case).await
        });
        let mut world = Self::with_images(seed, rng, case, None, images);
        world.file.is_used = true;
        world.file.image = vec![0; Range::new(0, FILE).len_usize()];
        world
    }

    /// The file that a reshape is begun with.
    pub(super) fn backup(&self) -> Option<Arc<dyn BackupFile>> {
        let (_, backup) = self.file.plugged.as_ref()?;
        Some(backup.clone() as Arc<dyn BackupFile>)
    }

    /// What is begun next: with a file more often that rows are moved, or the reshape begins.
    pub(super) fn kind(&mut self) -> u8 {
        match self.file.is_used && self.rng.bool() {
            true => [10, 10, 10, 20][self.rng.usize(0..4)],
            false => self.rng.u8(0..24),
        }
    }

    /// How many windows are moved, one after the other.
    pub(super) fn windows(&mut self) -> u8 {
        if self.file.is_used {
            self.rng.u8(1..4)
        } else {
            1
        }
    }

    /// Whether the file has rows that were being moved: some members may have them no more.
    pub(super) fn has_rows_of_file(&self) -> bool {
        let position = |image: &Vec<u8>| {
            let places = format::places(image.len() as u64).into_iter();
            let mut places = places.filter(|(version, _)| *version == Version::V1_0);
            let (version, at) = places.next()?;
            let start = Range::new(0, at).len_usize();
            let found = format::decode(version, at, image.get(start..start + 4096)?);
            Some(found.ok()??.reshape?.position)
        };
        let known = self.disks.iter().filter(|disk| disk.is_here);
        let reached = known.filter_map(|disk| position(&disk.image)).max();
        reached.is_some_and(|at| self.file.names_rows().is_some_and(|end| end > at))
    }
}

/// Moves windows; the last of them stays locked until the end.
pub(super) async fn move_some(array: &RedundantArray, windows: u8) {
    for _ in 0..windows {
        drop(array.move_window(1).await);
    }
    array.release_window(false).await;
}
