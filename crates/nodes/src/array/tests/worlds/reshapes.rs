//! Worlds in which an array with parity is reshaped, or gets another level: users write at every moment of it, the power goes out at any step, disks are lost
//! with it or fail before.
//!
//! A disk that is lost does not come back. In the end the array has its form, also after that, holds what was flushed, and its parity
//! fits. One that was being written when the power went out, and lacks a disk then, is refused, as md refuses it.

use std::sync::Arc;

use block::{Range, WriteFlags};
use futures_util::StreamExt;
use testkit::{CrashDisk, Op, SECTOR, block_on, moments};

use super::acts::{Doing, Ended, described, request};
use super::backup_files::{RESTORED, WorldFile, move_some};
use super::disks::{Power, Wire};
use super::end::forget_missing;
use super::expected_content::Owed;
use super::pace::Pace;
use super::record::Record;
use super::reshape_cases::{
    begin_change, images, is_released, is_synced, level_cases, spared, work,
};
use super::world::{End, Wrong, candidate, options};
use crate::array::external_input::given::Given;
use crate::array::format::Level;
use crate::array::tests::reshape::{Case, world_cases};
use crate::array::{Array, ArrayOptions, open};

/// Things that are begun in one life, at most.
const ACTIONS_MAX: usize = 60;
/// Things that are under way at once, at most.
const AT_ONCE_MAX: usize = 4;
/// Steps of the disks of one life, at most.
const STEPS_MAX: u64 = 4000;
/// Longest request of a user, sectors.
const SECTORS_MAX: u64 = 40;

/// A disk that may be lost.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) name: String,
    pub(super) image: Vec<u8>,
    pub(super) is_here: bool,
}

/// Disks, and what the array on them owes.
#[derive(Debug)]
pub(super) struct ReshapeWorld {
    pub(super) case: Case,
    /// It gets this level, and keeps its form.
    pub(super) level: Option<Level>,
    /// Its backup file, where it is reshaped in place.
    pub(super) file: WorldFile,
    /// It gets other consistency policies, and has bad sectors.
    pub(super) changes_policy: bool,
    pub(super) rng: fastrand::Rng,
    pub(super) disks: Vec<Disk>,
    /// Those of the life that it lives.
    pub(super) wires: Vec<(String, Arc<Wire>)>,
    /// A spare is absent in this life: no other form is begun then.
    pub(super) is_spare_absent: bool,
    /// A sector went bad in this life.
    pub(super) is_damaged: bool,
    pub(super) owed: Owed,
    pub(super) pace: Arc<Pace>,
    pub(super) record: Arc<Record>,
    story: Vec<String>,
}

impl ReshapeWorld {
    /// A world in which an array gets another level.
    pub(super) fn of_levels(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let cases = level_cases();
        let (case, level) = cases[rng.usize(0..cases.len())].clone();
        Self::of(seed, rng, case, Some(level))
    }

    pub(super) fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let cases = world_cases();
        let case = cases[rng.usize(0..cases.len())].clone();
        Self::of(seed, rng, case, None)
    }

    fn of(seed: u64, rng: fastrand::Rng, case: Case, level: Option<Level>) -> Self {
        let images = block_on(async {
            let _given = Given::by(seed);
            images(&case).await
        });
        Self::with_images(seed, rng, case, level, images)
    }

    pub(super) fn with_images(
        seed: u64,
        rng: fastrand::Rng,
        case: Case,
        level: Option<Level>,
        images: Vec<Vec<u8>>,
    ) -> Self {
        let disks = images.into_iter().enumerate().map(|(number, image)| Disk {
            name: format!("disk{number}"),
            image,
            is_here: true,
        });
        Self {
            disks: disks.collect(),
            changes_policy: false,
            file: WorldFile::default(),
            wires: Vec::new(),
            is_spare_absent: false,
            is_damaged: false,
            owed: Owed::new(case.sizes()[0], true),
            pace: Arc::new(Pace::of(seed)),
            record: Arc::default(),
            story: vec![format!("{case:?}, {level:?}")],
            rng,
            case,
            level,
        }
    }

    pub(super) fn story(&self) -> String {
        self.story.join("\n  ")
    }

    pub(super) fn record(&self) -> u64 {
        self.record.number()
    }

    pub(super) fn log(&mut self, what: impl Into<String>) {
        self.story.push(what.into());
    }

    pub(super) fn lost(&self) -> usize {
        self.disks.iter().filter(|disk| !disk.is_here).count()
    }

    /// Whether one more disk may be lost: a spare counts, too, which may hold a part by now.
    fn can_spare(&self) -> bool {
        let before = spared(self.case.recipe.level);
        self.lost() < self.level.map_or(before, |level| before.min(spared(level)))
    }

    /// Lives through some cuts; in the end everything works.
    pub(super) async fn run(&mut self) -> Result<(), Wrong> {
        // Another level takes one commit: short lives are cut in it.
        let (lives, most) = match self.level {
            Some(_) => (16, STEPS_MAX / 32),
            // Several lives are to be cut while windows are written over.
            None if self.file.is_used() => (16, STEPS_MAX / 16),
            None => (6, STEPS_MAX),
        };
        for life in 0..self.rng.u8(1..lives) {
            // Logs matter until a reshape begins.
            let is_short = life == 0 && self.has_logs();
            let steps = self.rng.u64(1..if is_short { most / 16 } else { most });
            if !self.live(steps).await? {
                return Ok(());
            }
        }
        self.end_well().await
    }

    /// All disks that are here, but for one that is absent.
    pub(super) fn plug(
        &mut self,
        power: &Arc<Power>,
        absent: Option<&str>,
    ) -> Vec<(String, Arc<Wire>)> {
        let mut wires = Vec::new();
        // The disk that has parity alone is released with another level; these arrays have superblocks of one version.
        let may_be_released = self.level.is_some();
        let is_used = |disk: &&Disk| {
            let is_there = disk.is_here && absent != Some(disk.name.as_str());
            is_there && !(may_be_released && is_released(&disk.image))
        };
        for disk in self.disks.iter().filter(is_used) {
            let crash = CrashDisk::from_bytes(disk.image.clone());
            let crash = crash.interleaved(self.rng.u64(..));
            wires.push((disk.name.clone(), Wire::new(crash, power.clone())));
        }
        self.wires.clone_from(&wires);
        (self.is_spare_absent, self.is_damaged) = (absent.is_some(), false);
        wires
    }

    /// Opens what is there. `None`: it is refused, as it may be.
    pub(super) async fn open(
        &mut self,
        wires: &[(String, Arc<Wire>)],
        options: ArrayOptions,
    ) -> Result<Option<Arc<Array>>, Wrong> {
        let wires = wires.iter();
        let candidates = wires.map(|(name, wire)| candidate(name, wire)).collect();
        let options = ArrayOptions {
            backup: self.file.found(),
            ..options
        };
        let has_rows_of_file = self.has_rows_of_file();
        match open(candidates, options).await {
            Ok(array) => {
                let status = array.status();
                self.log(format!("{} of {} work", status.working, status.parts));
                if has_rows_of_file {
                    self.log(RESTORED);
                }
                self.forget_in_flight(&array);
                Ok(Some(array))
            }
            Err(error) => {
                // With logs the name is another one until a reshape has dropped them.
                let why = error.to_string();
                let is_dirty = why.contains("was being written when it stopped")
                    || why.contains("no new member has a backup")
                    || self.has_logs() && why.contains("kept no partial parity log")
                    || self.changes_policy
                        && why.contains("was getting another consistency policy");
                self.log(format!("refused: {error}"));
                match is_dirty && self.lost() > 0 {
                    true => Ok(None),
                    false => Err(format!("it is not opened: {error}")),
                }
            }
        }
    }

    /// Whether members keep partial parity logs before a reshape, or may.
    pub(super) const fn has_logs(&self) -> bool {
        self.case.recipe.ppl.is_some() || self.changes_policy
    }

    /// Nothing is known of what was being written on missing members of an array that had logs.
    fn forget_in_flight(&mut self, array: &Array) {
        if !self.has_logs() {
            return;
        }
        let layout = array.by_hand().array.layout();
        forget_missing(&mut self.owed, array, |at| {
            layout.piece(Range::new(at, SECTOR)).copies[0].part
        });
    }

    /// One life; false if nothing is owed after it.
    async fn live(&mut self, steps: u64) -> Result<bool, Wrong> {
        let power = Power::new(steps, self.pace.clone(), self.record.clone());
        let absent = self.absent_spare();
        let wires = self.plug(&power, absent.as_deref());
        self.file.plug(&power, self.rng.u64(..));
        self.log(format!("a life of {steps} steps"));
        let opened = tokio::select! {
            biased;
            () = power.gone() => None,
            opened = self.open(&wires, options()) => Some(opened?),
        };
        let end = match opened {
            None => End::Cut,
            Some(None) => return Ok(false),
            Some(Some(array)) => self.act(&power, &array).await?,
        };
        self.log(format!("{end:?}"));
        let loses = end == End::Cut && self.rng.u8(0..5) == 0 && self.can_spare();
        for disk in &mut self.disks {
            let Some((_, wire)) = wires.iter().find(|(name, _)| *name == disk.name) else {
                continue;
            };
            disk.image = match end {
                End::Cut => wire.crash(self.rng.u64(..)),
                _ => wire.live(),
            };
        }
        self.file.unplug(end == End::Cut, self.rng.u64(..));
        if loses {
            let here: Vec<usize> = (0..self.disks.len())
                .filter(|n| self.disks[*n].is_here)
                .collect();
            let disk = here[self.rng.usize(0..here.len())];
            self.disks[disk].is_here = false;
            let name = self.disks[disk].name.clone();
            self.log(format!("{name} is lost"));
        }
        self.owed.cut();
        Ok(true)
    }

    async fn act(&mut self, power: &Arc<Power>, array: &Arc<Array>) -> Result<End, Wrong> {
        let mut doing = Doing::new();
        let mut left = self.rng.usize(0..ACTIONS_MAX);
        let range = Range::new(0, self.owed.size());
        for _ in 0..2 {
            self.user(array, &mut doing, Op::Read { range });
        }
        while left > 0 || !doing.is_empty() {
            if left > 0 && doing.len() < AT_ONCE_MAX {
                left -= 1;
                self.begin(array, &mut doing);
            }
            if doing.is_empty() {
                continue;
            }
            let until = if left > 0 {
                self.rng.u8(0..30)
            } else {
                u8::MAX
            };
            tokio::select! {
                biased;
                () = power.gone() => return Ok(End::Cut),
                Some(ended) = doing.next() => self.ended(ended)?,
                () = moments(until), if left > 0 && doing.len() < AT_ONCE_MAX => {}
            }
        }
        match self.rng.u8(0..3) {
            0 => Ok(End::Cut),
            1 => Ok(End::Killed),
            _ => tokio::select! {
                biased;
                () = power.gone() => Ok(End::Cut),
                stopped = array.stop() => {
                    stopped.map_err(|error| format!("it cannot be stopped: {error}"))?;
                    Ok(End::Stopped)
                }
            },
        }
    }

    fn user(&mut self, array: &Arc<Array>, doing: &mut Doing, op: Op) {
        let begun = self.owed.begin(op);
        self.log(format!("{} {op:?}", begun.number()));
        let array = array.clone();
        doing.push(Box::pin(async move {
            let answer = request(array, op).await;
            Ended::Request(begun, answer)
        }));
    }

    fn op(&mut self) -> Op {
        let sectors = self.owed.size() / SECTOR;
        let start = self.rng.u64(0..sectors);
        let len = self.rng.u64(1..=SECTORS_MAX).min(sectors - start);
        let range = Range::new(start * SECTOR, len * SECTOR);
        let flags = match self.rng.u8(0..5) {
            0 => WriteFlags::FUA,
            _ => WriteFlags::empty(),
        };
        match self.rng.u8(0..16) {
            0..9 => Op::Write {
                range,
                fill: self.rng.u8(..),
                flags,
                now: self.rng.bool(),
            },
            9..11 => Op::Read { range },
            11 => Op::WriteZeroes { range, flags },
            12 if !self.has_logs() => Op::Trim { range },
            _ => Op::Flush,
        }
    }

    /// Begins something.
    fn begin(&mut self, array: &Arc<Array>, doing: &mut Doing) {
        if self.begin_policy(array, doing) {
            return;
        }
        let redundant = array.by_hand_if_any().map(|by_hand| by_hand.array.clone());
        let array = array.clone();
        let (shape, level, backup) = (self.case.shape, self.level, self.backup());
        let (kind, windows) = (self.kind(), self.windows());
        let name = match kind {
            0..10 => {
                let op = self.op();
                return self.user(&array, doing, op);
            }
            10..18 if level.is_some() => "work, then reshape",
            10..18 => "move rows",
            18 => "mark clean",
            19 => "sweep",
            20..22 if self.is_spare_absent => return,
            20..22 => "reshape",
            // What parity alone has is lost where that is not known to fit.
            22 if !self.is_damaged
                && self.can_spare()
                && is_synced(&redundant)
                && self.rng.u8(0..4) == 0 =>
            {
                return self.fail(&array, doing);
            }
            22 => return,
            _ => "work",
        };
        self.log(name);
        doing.push(Box::pin(async move {
            let done = match (name, redundant) {
                ("move rows", Some(redundant)) => {
                    move_some(&redundant, windows).await;
                    Ok(())
                }
                ("work, then reshape", _) => {
                    drop(work(&array).await);
                    begin_change(&array, shape, level, backup).await
                }
                ("mark clean", Some(redundant)) => {
                    redundant.mark_clean().await.map(drop).map_err(described)
                }
                ("sweep", Some(redundant)) => redundant.sweep().await.map(drop).map_err(described),
                ("reshape", _) => begin_change(&array, shape, level, backup).await,
                _ => work(&array).await,
            };
            Ended::Other(name.to_owned(), done)
        }));
    }

    /// A member fails, and does not come back.
    fn fail(&mut self, array: &Arc<Array>, doing: &Doing) {
        let names: Vec<String> = {
            let members = array.status().members.into_iter();
            members
                .filter_map(|member| member.part.map(|_| member.name))
                .collect()
        };
        let name = names[self.rng.usize(0..names.len())].clone();
        let Some(disk) = self.disks.iter_mut().find(|disk| disk.name == name) else {
            return;
        };
        disk.is_here = false;
        self.log(format!("{name} fails"));
        let array = array.clone();
        doing.push(Box::pin(async move {
            let failed = array.fail(&name).await;
            Ended::Other(format!("fail {name}"), failed)
        }));
    }

    fn ended(&mut self, ended: Ended) -> Result<(), Wrong> {
        match ended {
            Ended::Request(begun, answer) => {
                self.log(format!("{} ended", begun.number()));
                self.owed.end(&begun, answer.is_ok());
                let data = answer.map_err(|error| format!("a request failed: {error}"))?;
                self.owed.check(&begun, &data)
            }
            Ended::Other(name, done) => {
                self.log(format!("{name}: {done:?}"));
                Ok(())
            }
            Ended::Dropped(_) | Ended::Grown(..) => unreachable!("it is not done here"),
        }
    }
}
