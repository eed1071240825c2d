//! Where an array's bytes are on its disks, computed a second time and by other means than the mirror's own:
//! chunk by chunk, by the pictures of md(4).

use std::collections::BTreeMap;
use std::sync::Arc;

use testkit::first_difference;

use super::disks::Wire;
use super::metadata;
use super::shape::{CHUNK, DATA, Shape};
use super::world::Wrong;
use crate::array::format::{Level, Role};
use crate::array::parity_writer::Sample;

/// What the parts hold.
pub(super) struct Copies {
    shape: Shape,
    /// By part; where several disks say that they hold one, that is an error.
    parts: Vec<Vec<u8>>,
    /// Parts of which members know that they lack some.
    lacking: Vec<u16>,
}

/// Takes the data of all parts from the disks that hold them by their own word.
pub(super) fn of(shape: Shape, wires: &BTreeMap<String, Arc<Wire>>) -> Result<Copies, Wrong> {
    let mut parts = vec![None; usize::from(shape.parts)];
    let mut lacking = Vec::new();
    for (name, wire) in wires {
        let image = wire.live();
        let superblock = metadata::superblock(shape, &image)?;
        let Role::Active(part) = superblock.role else {
            continue;
        };
        if superblock.rebuilt_to.is_some() {
            return Err(format!("{name} is still being rebuilt by its superblock"));
        }
        if metadata::has_bad(shape, &image) {
            lacking.push(part);
        }
        let at = usize::try_from(superblock.data.offset).expect("small");
        let len = usize::try_from(DATA).expect("small");
        let before = parts[usize::from(part)].replace(image[at..at + len].to_vec());
        if before.is_some() {
            return Err(format!("part {part} is held twice"));
        }
    }
    let missing = || "a part has nobody".to_owned();
    let parts = parts.into_iter().map(|part| part.ok_or_else(missing));
    Ok(Copies {
        shape,
        parts: parts.collect::<Result<_, _>>()?,
        lacking,
    })
}

impl Copies {
    /// Each copy is what the array reads as, but where it may be `anything`: in sectors that were trimmed.
    pub(super) fn check(
        &self,
        content: &[u8],
        anything: impl Fn(usize) -> bool,
    ) -> Result<(), Wrong> {
        if self.shape.parities() > 0 {
            return self.check_parity(content);
        }
        let unit = match self.shape.level {
            Level::Raid1 => DATA,
            _ => CHUNK,
        };
        let unit = usize::try_from(unit).expect("small");
        for (number, chunk) in content.chunks(unit).enumerate() {
            for (part, row) in self.places(number) {
                if self.lacking.iter().any(|lacks| usize::from(*lacks) == part) {
                    continue;
                }
                let held = &self.parts[part][row * unit..row * unit + chunk.len()];
                // Most are equal, and a comparison byte by byte takes long without optimisation.
                if held == chunk {
                    continue;
                }
                let first = number * unit;
                let differs = (held.iter().zip(chunk).enumerate())
                    .position(|(at, (a, b))| a != b && !anything((first + at) / 512));
                if let Some(at) = differs {
                    let at = number * unit + at;
                    return Err(format!("byte {at} differs on part {part}"));
                }
            }
        }
        Ok(())
    }

    /// Data and parity are those of what the array reads as: with parity a trim leaves nothing that differs.
    fn check_parity(&self, content: &[u8]) -> Result<(), Wrong> {
        let small = |value: u64| usize::try_from(value).expect("small");
        let sample = Sample {
            level: self.shape.level,
            layout: self.shape.layout,
            parts: self.parts.len(),
            chunk: small(CHUNK),
            rows: small(DATA / CHUNK),
            data: content.to_vec(),
        };
        for (part, (ideal, held)) in sample.members().iter().zip(&self.parts).enumerate() {
            let is_lacking = self.lacking.iter().any(|lacks| usize::from(*lacks) == part);
            if is_lacking || ideal == held {
                continue;
            }
            if let Some(at) = first_difference(ideal, held) {
                return Err(format!("byte {at} of part {part} is not what it should be"));
            }
        }
        Ok(())
    }

    /// Parts and rows that hold a chunk.
    fn places(&self, chunk: usize) -> Vec<(usize, usize)> {
        let n = self.parts.len();
        match (self.shape.level, self.shape.layout) {
            (Level::Raid1, _) => (0..n).map(|part| (part, 0)).collect(),
            // Two copies next to each other.
            (_, 0x102) => [2 * chunk, 2 * chunk + 1]
                .map(|slot| (slot % n, slot / n))
                .to_vec(),
            // The second copies in the second half, one part further on.
            (_, 0x201) => {
                let half = usize::try_from(DATA / CHUNK / 2).expect("small");
                let (part, row) = (chunk % n, chunk / n);
                vec![(part, row), ((part + 1) % n, row + half)]
            }
            // The second copies in the next row.
            _ => {
                let (part, row) = (chunk % n, chunk / n);
                vec![(part, 2 * row), ((part + 1) % n, 2 * row + 1)]
            }
        }
    }
}
