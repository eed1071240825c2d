//! Mirrors of a world that grow and shrink, and disks that come new.

use super::acts::{Doing, Ended};
use super::shape::Shape;
use super::world::{Life, World, Wrong, candidate};
use crate::array::format::Level;
use crate::array::{AddOptions, Array, ArrayError};

/// How many parts an array may have: as it was set last, and all that was requested since without an answer.
#[derive(Debug)]
pub(super) struct Parts(Vec<u32>);

impl Parts {
    /// Those that it begins with.
    pub(super) fn of(shape: Shape) -> Self {
        Self(vec![shape.parts.into()])
    }

    fn ask(&mut self, parts: u32) {
        self.0.push(parts);
    }

    /// It was set, and confirmed.
    fn is_reported(&mut self, parts: u32) {
        if let Some(at) = self.0.iter().position(|asked| *asked == parts) {
            self.0.drain(..at);
        }
    }

    /// It has so many: whether it may.
    fn are(&mut self, parts: u32) -> bool {
        let may = self.0.contains(&parts);
        self.0 = vec![parts];
        may
    }
}

impl World {
    /// A mirror gets one part more or less, as far as there are disks for it.
    pub(super) fn grow(&mut self, life: &Life, doing: &Doing) {
        let parts = life.array.status().parts;
        let most = u32::try_from(self.disks.len()).expect("few");
        let parts = if self.rng.bool() {
            parts + 1
        } else {
            parts - 1
        };
        if self.shape.level != Level::Raid1 || parts == 0 || parts > most {
            return;
        }
        self.log(format!("grow to {parts}"));
        self.parts.ask(parts);
        let array = life.array.clone();
        doing.push(Box::pin(async move {
            Ended::Grown(parts, array.grow(parts).await)
        }));
    }

    pub(super) fn grown(&mut self, parts: u32, grown: Result<(), ArrayError>) {
        if grown.is_ok() {
            self.parts.is_reported(parts);
        }
        self.log(format!("grow to {parts}: {grown:?}"));
    }

    /// A disk that holds nothing is added.
    pub(super) fn take_newcomer(&mut self, life: &mut Life, doing: &Doing) {
        let mut disks = self.disks.iter();
        let new = disks.find(|disk| disk.blank && !life.wires.contains_key(&disk.name));
        let Some(new) = new.cloned() else {
            return;
        };
        let wire = self.plug(&life.power, &new);
        let disk = candidate(&new.name, &wire);
        let array = life.array.clone();
        self.other(doing, format!("add {}, new", new.name), async move {
            array.add(disk, AddOptions::default()).await
        });
        life.wires.insert(new.name, wire);
    }

    /// An array was opened: it has as many parts as it may have.
    pub(super) fn count_parts(&mut self, array: &Array) -> Result<(), Wrong> {
        let parts = array.status().parts;
        let before = format!("{:?}", self.parts);
        if !self.parts.are(parts) {
            return Err(format!("it has {parts} parts: {before}"));
        }
        self.shape.parts = u16::try_from(parts).expect("few");
        Ok(())
    }
}
