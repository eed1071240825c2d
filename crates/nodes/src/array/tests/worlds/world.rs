//! [`World`]: disks, what they owe, and what happens to them from one cut of the power to the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, IoError, Range};
use testkit::{CrashDisk, Lies, Op};

use super::disks::{Again, Mode, Power, Wire};
use super::expected_content::Owed;
use super::growth::Parts;
use super::member_loss::WrittenSectors;
use super::metadata;
use super::pace::Pace;
use super::record::Record;
use super::shape::Shape;
use crate::array::format::Level;
use crate::array::{Array, ArrayError, ArrayOptions, Candidate, MemberState, SyncRates, open};

/// How long a life may last, by its own clock, which stands still while anything is done.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Steps of disks in one life, at most.
const STEPS_MAX: u64 = 1500;
/// A disk between two lives.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    pub(super) name: String,
    image: Vec<u8>,
    /// It had everything that was owed when the last life ended.
    pub(super) current: bool,
    /// It holds nothing of the array.
    pub(super) blank: bool,
    /// What it says is durable is not.
    lies: bool,
    /// It keeps the journal.
    pub(super) is_journal: bool,
}

/// What is wrong with a world.
pub(super) type Wrong = String;

/// One seed's world.
pub(super) struct World {
    pub(super) rng: fastrand::Rng,
    pub(super) shape: Shape,
    pub(super) parts: Parts,
    pub(super) disks: Vec<Disk>,
    pub(super) owed: Owed,
    /// What happened, to be printed if it ends badly.
    story: Vec<String>,
    /// The last life that wrote ended as it should, with all members.
    is_clean: bool,
    pace: Arc<Pace>,
    record: Arc<Record>,
    /// The disk with the journal broke.
    pub(super) journal_broke: bool,
    /// Cuts that left a header of a partial parity log in part.
    pub(super) torn_headers: u32,
}

/// An array that is open, and what it stands on.
pub(super) struct Life {
    pub(super) power: Arc<Power>,
    pub(super) wires: BTreeMap<String, Arc<Wire>>,
    pub(super) array: Arc<Array>,
    /// Wires were broken, or members failed otherwise.
    pub(super) broken: bool,
    /// Sectors were damaged.
    pub(super) damaged: bool,
    /// The member that is being declared failed.
    pub(super) failing: Vec<String>,
    /// What was written in it.
    pub(super) written: WrittenSectors,
    /// A member was lost although parity did not fit everywhere.
    pub(super) lost_before_resync: bool,
}

/// How a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The power of all disks is cut.
    Cut,
    /// The program is killed; the disks forget nothing.
    Killed,
    /// As it should.
    Stopped,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let shape = match seed {
            super::JOURNAL_FROM.. => Shape::with_journal(&mut rng),
            super::PPL_FROM.. => Shape::with_ppl(&mut rng),
            super::PARITY_FROM.. => Shape::with_parity(&mut rng),
            _ => Shape::of(&mut rng, seed >= super::OLD_FROM),
        };
        let liar = if rng.u8(0..6) == 0 {
            rng.u16(0..shape.parts)
        } else {
            u16::MAX
        };
        let members = shape.disks();
        let newcomers = members.len()..members.len() + rng.usize(0..3);
        let images = members.into_iter().map(|image| (image, false));
        let images = images.chain(newcomers.map(|_| (shape.blank(0xdd), true)));
        let disks = images.zip(0..).map(|((image, blank), n)| Disk {
            name: format!("disk{n}"),
            image,
            current: n < shape.parts,
            blank,
            lies: n == liar,
            is_journal: shape.journal_number() == Some(n),
        });
        Self {
            parts: Parts::of(shape),
            disks: disks.collect(),
            owed: Owed::new(shape.array_size(), !shape.dirty),
            story: vec![format!("{shape:?}, liar {liar}")],
            is_clean: !shape.dirty,
            pace: Arc::new(Pace::of(seed)),
            record: Arc::default(),
            torn_headers: 0,
            journal_broke: false,
            rng,
            shape,
        }
    }

    pub(super) fn story(&self) -> String {
        self.story.join("\n  ")
    }

    /// All that happened, as one number.
    pub(super) fn record(&self) -> u64 {
        self.record.number()
    }

    pub(super) fn log(&mut self, what: impl Into<String>) {
        self.story.push(what.into());
    }

    /// Lives through some cuts; in the end everything works, and all copies must be resynced.
    pub(super) async fn run(&mut self) -> Result<(), Wrong> {
        for _ in 0..self.rng.u8(1..5) {
            if !self.live().await? {
                self.log("nobody who tells the truth has it all: nothing is owed");
                return Ok(());
            }
        }
        self.end_well().await
    }

    /// Whether members may be missing: each part, or one copy of each byte, is there without them.
    pub(super) fn can_spare(&self, current: usize) -> bool {
        match self.shape.level {
            Level::Raid1 => current >= 2,
            Level::Raid6 => current + 1 >= usize::from(self.shape.parts),
            _ => current == usize::from(self.shape.parts),
        }
    }

    /// Whether a disk had everything when it was plugged in, or got it all since.
    pub(super) fn is_sound(&self, name: &str) -> bool {
        let mut disks = self.disks.iter();
        disks.any(|disk| disk.name == *name && !(metadata::has_bad(self.shape, &disk.image)))
    }

    fn current(&self) -> usize {
        self.disks.iter().filter(|disk| disk.current).count()
    }

    /// Two disks are put in each other's places: paths, or slots, mean another one from now on.
    fn swap(&mut self) {
        let (one, other) = (
            self.rng.usize(0..self.disks.len()),
            self.rng.usize(0..self.disks.len()),
        );
        let name = self.disks[one].name.clone();
        self.disks[one].name = std::mem::replace(&mut self.disks[other].name, name);
        let names: Vec<&str> = self.disks.iter().map(|disk| disk.name.as_str()).collect();
        let swapped = format!("disks are now {}", names.join(" "));
        self.log(swapped);
    }

    /// Which disks are plugged in, in which order.
    fn choose(&mut self) -> Vec<Disk> {
        let mut chosen = self.disks.clone();
        chosen.retain(|disk| !disk.blank);
        self.rng.shuffle(&mut chosen);
        if self.rng.u8(0..8) == 0 {
            chosen.retain(|disk| disk.current || disk.is_journal);
        }
        // Logs are for members that are lost with the power.
        let has_log = self.shape.ppl.or(self.shape.journal).is_some();
        let odds = if has_log { 2 } else { 5 };
        if self.rng.u8(0..odds) == 0 && self.can_spare(self.current()) {
            let without = chosen.iter().position(|disk| disk.current);
            let gone = chosen.remove(without.expect("there are some"));
            self.log(format!("{} is not there", gone.name));
        }
        chosen
    }

    pub(super) fn plug(&mut self, power: &Arc<Power>, disk: &Disk) -> Arc<Wire> {
        let lies = Lies {
            flush: disk.lies,
            fua: disk.lies,
        };
        let crash = CrashDisk::from_bytes(disk.image.clone());
        let crash = crash.lying(lies).interleaved(self.rng.u64(..));
        Wire::new(crash, power.clone())
    }

    /// Power of all disks, for so many steps.
    pub(super) fn power(&self, steps: u64) -> Arc<Power> {
        Power::new(steps, self.pace.clone(), self.record.clone())
    }

    /// One life; false if nothing is owed after it.
    async fn live(&mut self) -> Result<bool, Wrong> {
        let steps = self.rng.u64(1..STEPS_MAX);
        let power = self.power(steps);
        if self.rng.u8(0..6) == 0 {
            self.swap();
        }
        let chosen = self.choose();
        let complete = self.current() == chosen.iter().filter(|disk| disk.current).count();
        let mut wires = BTreeMap::new();
        let mut candidates = Vec::new();
        for disk in &chosen {
            let wire = self.plug(&power, disk);
            candidates.push(candidate(&disk.name, &wire));
            wires.insert(disk.name.clone(), wire);
        }
        self.log(format!("open {}", described(self.shape, &chosen)));
        let opened = tokio::select! {
            biased;
            () = power.gone() => None,
            opened = open(candidates, options()) => Some(opened),
        };
        match opened {
            None => {
                self.log("cut while it was opened");
                self.unplug(&wires, None, End::Cut)
            }
            Some(Err(error)) if self.may_be_refused(&error) => {
                self.log(format!("refused: {error}"));
                self.untouched(&wires)?;
                self.read_by_force().await?;
                Ok(false)
            }
            Some(Err(error)) if complete && !is_split(&error) => {
                Err(format!("it is not opened: {error}"))
            }
            Some(Err(error)) => {
                self.log(format!("not opened: {error}"));
                self.untouched(&wires)?;
                Ok(true)
            }
            Some(Ok(array)) => {
                let mut life = Life {
                    power,
                    wires,
                    array,
                    broken: false,
                    damaged: false,
                    failing: Vec::new(),
                    written: WrittenSectors::of(&self.shape, self.owed.size()),
                    lost_before_resync: false,
                };
                self.forget_in_flight(&life.array);
                self.count_parts(&life.array)?;
                let acted = tokio::time::timeout(LONGEST, self.act(&mut life)).await;
                let end = match acted {
                    Ok(end) => end?,
                    Err(_) => {
                        let story = life.array.by_hand().array.story();
                        let out = life.power.is_out();
                        return Err(format!("it hangs, power out: {out}: {story}"));
                    }
                };
                let wires = life.wires.clone();
                let is_owed = self.unplug(&wires, Some(&life), end)?;
                Ok(is_owed && !life.lost_before_resync)
            }
        }
    }

    /// A refusal writes nothing.
    fn untouched(&self, wires: &BTreeMap<String, Arc<Wire>>) -> Result<(), Wrong> {
        let changed = self.disks.iter().find(|disk| {
            let wire = wires.get(&disk.name);
            wire.is_some_and(|wire| wire.live() != disk.image)
        });
        match changed {
            Some(disk) => Err(format!("{} was written although it was refused", disk.name)),
            None => Ok(()),
        }
    }

    /// Takes the disks as the end of a life leaves them; false if nothing is owed any more.
    fn unplug(
        &mut self,
        wires: &BTreeMap<String, Arc<Wire>>,
        life: Option<&Life>,
        end: End,
    ) -> Result<bool, Wrong> {
        let in_sync = life.map(|life| in_sync(&life.array));
        let mut torn = 0;
        for disk in &mut self.disks {
            if let Some(in_sync) = &in_sync {
                disk.current = in_sync.contains(&disk.name);
            }
            let Some(wire) = wires.get(&disk.name) else {
                // Others may record that it is missing before the array is open.
                disk.current &= life.is_some();
                continue;
            };
            // What a disk did not answer any more may be lost, too.
            let is_cut = end == End::Cut || wire.mode() != Mode::Fine;
            let image = match is_cut {
                true => wire.crash(self.rng.u64(..)),
                false => wire.live(),
            };
            self.torn_headers += u32::from(is_cut && self.shape.has_torn_header(&image));
            if disk.lies && is_cut {
                let valid = metadata::check_liar(self.shape, &image);
                valid.map_err(|what| format!("{} (that lies): {what}", disk.name))?;
                disk.image = self.shape.blank(0xdd);
                (disk.blank, disk.current) = (true, false);
                continue;
            }
            if end == End::Cut && metadata::is_torn(self.shape, &image) {
                // Of the old kind, which has several sectors.
                torn += 1;
                disk.image = self.shape.blank(0xdd);
                (disk.blank, disk.current) = (true, false);
                continue;
            }
            let before = (!disk.blank).then_some(&disk.image[..]);
            let problem = metadata::check(self.shape, &image, before);
            // A disk that was just being added may have nothing, yet or any more.
            if !disk.current && metadata::is_blank(self.shape, &image) {
                disk.blank = true;
            } else {
                problem.map_err(|what| format!("{}: {what}", disk.name))?;
                disk.blank = false;
                // What it could not write it does not have; and that it is whole may not have reached it yet.
                disk.current &= !metadata::has_bad(self.shape, &image);
                disk.current &= metadata::is_whole(self.shape, &image);
            }
            disk.image = image;
        }
        if torn > 1 {
            return Err(format!("{torn} superblocks are torn"));
        }
        self.owed.cut();
        self.is_clean = end == End::Stopped && life.is_some_and(|life| !life.broken);
        let spared = usize::from(self.shape.parities().max(1));
        let enough = match self.shape.level {
            Level::Raid1 => self.current() > 0,
            _ => self.current() + spared >= usize::from(self.shape.parts),
        };
        Ok(enough)
    }

    /// Whether an array with parity is refused as md itself refuses it: it was being written, and members are missing.
    pub(super) fn may_be_refused(&self, error: &ArrayError) -> bool {
        if self.journal_broke && error.to_string().contains("the journal of array") {
            return true;
        }
        let why = match self.shape.ppl {
            Some(_) => "kept no partial parity log",
            None => "was being written when it stopped",
        };
        // Where a resync had come to some place, or is due, no log says where parity fits.
        let least = u64::from(self.shape.journal.is_none());
        let is_half_synced = |disk: &Disk| {
            let superblock = metadata::superblock(self.shape, &disk.image);
            superblock.is_ok_and(|superblock| superblock.synced_to.is_some_and(|to| to >= least))
        };
        let is_resync = self.disks.iter().any(is_half_synced)
            && error
                .to_string()
                .contains("was being written when it stopped");
        let is_it = self.shape.journal.is_none() && error.to_string().contains(why) || is_resync;
        is_it && self.shape.parities() > 0 && !self.is_clean
    }

    /// Whether bytes are refused as parity alone has them: a member noted them as bad, and parity was not resynced since a
    /// crash.
    pub(super) fn may_be_lost(&self, error: &IoError) -> bool {
        let is_it = error.to_string().contains("parity cannot be trusted here");
        let has_bad = |disk: &Disk| metadata::has_bad(self.shape, &disk.image);
        is_it && self.shape.parities() > 0 && self.disks.iter().any(has_bad)
    }

    /// A dirty degraded array can be read by force: what members have is there, what is computed may be wrong.
    pub(super) async fn read_by_force(&mut self) -> Result<(), Wrong> {
        let power = self.power(u64::MAX);
        let disks = self.disks.clone();
        let given: Vec<Disk> = disks.into_iter().filter(|disk| !disk.blank).collect();
        let plugged = given
            .iter()
            .map(|disk| (disk.name.clone(), self.plug(&power, disk)));
        let wires: Vec<(String, Arc<Wire>)> = plugged.collect();
        let candidates = wires
            .iter()
            .map(|(name, wire)| candidate(name, wire))
            .collect();
        let options = ArrayOptions {
            read_only: true,
            force_dirty_degraded: true,
            ..options()
        };
        let opened = open(candidates, options).await;
        let array = opened.map_err(|error| format!("it cannot be read by force: {error}"))?;
        let present = array.status().members.into_iter();
        // What a member noted as bad is computed, too.
        let is_whole = |name: &str| self.is_sound(name);
        let present: Vec<usize> = present
            .filter(|member| member.state == MemberState::InSync && is_whole(&member.name))
            .filter_map(|member| member.part.map(usize::from))
            .collect();
        for at in (0..self.owed.size()).step_by(512) {
            let range = Range::new(at, 512);
            let begun = self.owed.begin(Op::Read { range });
            let data = array.read(range).await;
            let data = data.map_err(|error| format!("it cannot be read by force: {error}"))?;
            if present.contains(&self.shape.part_of(at)) {
                self.owed.check(&begun, &data.concat())?;
            }
        }
        let changed =
            (wires.iter().zip(&given)).find(|((_, wire), disk)| wire.live() != disk.image);
        match changed {
            Some(((name, _), _)) => Err(format!("{name} was written although it is only read")),
            None => Ok(()),
        }
    }
}

/// Disks, and what they say of themselves.
pub(super) fn described(shape: Shape, disks: &[Disk]) -> String {
    let disks = disks.iter();
    let described = disks.map(|disk| {
        format!(
            "{} ({})",
            disk.name,
            metadata::described(shape, &disk.image)
        )
    });
    described.collect::<Vec<_>>().join(" ")
}

/// Whether members are refused for having been used apart. With a member gone that knew both of them, it cannot be
/// known that one was only left behind.
pub(super) fn is_split(error: &ArrayError) -> bool {
    error.to_string().contains("used in two ways")
}

/// How a disk is given to an array.
pub(super) fn candidate(name: &str, wire: &Arc<Wire>) -> Candidate {
    Candidate {
        name: name.to_owned(),
        disk: Some(wire.clone()),
        remote: false,
        reopen: Some(Arc::new(Again(wire.clone()))),
    }
}

pub(super) fn options() -> ArrayOptions {
    ArrayOptions {
        run: true,
        background: false,
        // Bounds would bring the clock in.
        rates: SyncRates {
            min: u64::MAX,
            max: u64::MAX,
        },
        ..ArrayOptions::default()
    }
}

/// The members that have everything, by the array's own status.
pub(super) fn in_sync(array: &Array) -> Vec<String> {
    let members = array.status().members.into_iter();
    let in_sync = members.filter(|member| member.state == MemberState::InSync);
    in_sync.map(|member| member.name).collect()
}
