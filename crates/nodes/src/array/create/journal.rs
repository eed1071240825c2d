//! [`plan`]: what is written on the disk that keeps the journal of a new array. Pure.
//!
//! # Invariants
//!
//! * The journal begins with an empty meta block, which the superblock names as the tail, with a random sequence: what another
//!   journal left behind it is never found.
//!
//! # What it does not do
//!
//! It gives the disk no log of bad blocks: a journal that cannot be written has failed.

use super::Stamp;
use super::create_spec::{CreateSpec, Disk, refused, too_small};
use super::places::{self, Places, Reserve};
use super::plan::{Planned, member};
use crate::array::ArrayError;
use crate::array::format::r5l::{JournalSpace, MetaBlock, len_min};
use crate::array::format::{Superblock, features};

/// What is written on `disk`, which has the number behind those of all members. `model`: what all of them say.
pub(super) fn plan(
    spec: &CreateSpec<'_>,
    disk: &Disk<'_>,
    model: &Superblock,
    (number, stamp): (usize, &Stamp),
) -> Result<Planned, ArrayError> {
    let size = disk.size.unwrap_or(0);
    let version = spec.options.version;
    let reserve = Reserve::Bitmap;
    let data_offset = places::data_offset(version, size, model.chunk, reserve);
    let places = places::of(version, size, data_offset, 0, (reserve, None));
    let places = places.ok_or_else(|| too_small(disk.name, size))?;
    let places = Places {
        log: None,
        ..places
    };
    let device = stamp.devices[spec.disks.len()];
    let superblock = Superblock {
        features: features::JOURNAL,
        ..member(model, disk, (number, device), &places)
    };
    let least = len_min(spec.parts);
    if JournalSpace::of(&superblock).len() < least {
        let name = disk.name;
        let what = format!(
            "{name} with {size} bytes is too small for the journal of {} members: that needs {least} behind what belongs \
             to the superblock",
            spec.parts
        );
        return Err(refused(what, "use a larger disk"));
    }
    let [a, b, c, d, ..] = device;
    let sequence = u32::from_le_bytes([a, b, c, d]);
    Ok(Planned {
        superblock,
        places,
        bitmap: None,
        ppl: None,
        journal: Some(MetaBlock::empty(sequence.into(), 0)),
    })
}
