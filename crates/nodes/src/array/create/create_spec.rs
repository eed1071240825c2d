//! [`CreateSpec`]: what an array shall be, and whether there can be such a one. Pure; sizes are judged in `plan.rs`.

use super::initial::InitialState;
use super::{CreateOptions, NAME_MAX, NewMember};
use crate::array::ArrayError;
use crate::array::format::{Level, Version, numbers_max};
use crate::array::parity;

const KIB: u64 = 1 << 10;
/// Chunk of striped arrays.
const CHUNK: u64 = 512 * KIB;
/// Chunks that can be requested.
const CHUNK_MIN: u64 = 4 * KIB;
const CHUNK_MAX: u64 = 1 << 30;
/// Two copies side by side.
const NEAR_2: u32 = 0x102;
/// Parity from the last member backwards, data behind it.
const LEFT_SYMMETRIC: u32 = 2;
/// RAID 0 of unequal members as old kernels had it.
const ORIGINAL: u32 = 1;

/// What is to be made, as plain data.
#[derive(Debug)]
pub(super) struct CreateSpec<'a> {
    pub(super) options: &'a CreateOptions,
    pub(super) disks: Vec<Disk<'a>>,
    /// The others are spares.
    pub(super) parts: usize,
    /// That of the journal.
    pub(super) journal: Option<Disk<'a>>,
}

/// A disk for it.
#[derive(Debug)]
pub(super) struct Disk<'a> {
    pub(super) name: &'a str,
    /// `None`: it is missing.
    pub(super) size: Option<u64>,
    /// Bytes of its smallest block.
    pub(super) block_size: u32,
    pub(super) write_mostly: bool,
    pub(super) fail_fast: bool,
}

impl<'a> CreateSpec<'a> {
    pub(super) fn of(
        parts: &'a [NewMember],
        spares: &'a [NewMember],
        options: &'a CreateOptions,
    ) -> Self {
        let disk = |member: &'a NewMember| Disk {
            name: &member.name,
            // Sectors, independent of the disk's own.
            size: member
                .disk
                .as_ref()
                .map(|disk| disk.geometry().size / 512 * 512),
            block_size: (member.disk.as_ref()).map_or(1, |disk| disk.geometry().block_size),
            write_mostly: member.write_mostly,
            fail_fast: member.fail_fast,
        };
        Self {
            options,
            disks: parts.iter().chain(spares).map(disk).collect(),
            parts: parts.len(),
            journal: options.journal.as_ref().map(disk),
        }
    }

    /// Whether the array goes on without a member: it keeps copies, or parity.
    pub(super) fn is_redundant(&self) -> bool {
        let level = self.options.level;
        matches!(level, Level::Raid1 | Level::Raid10) || level.parities() > 0
    }

    pub(super) fn is_old(&self) -> bool {
        matches!(self.options.version, Version::V0_90 { .. })
    }

    /// Disks that are there, with their sizes.
    pub(super) fn here(&self) -> impl Iterator<Item = (&Disk<'a>, u64)> {
        self.disks
            .iter()
            .filter_map(|disk| Some((disk, disk.size?)))
    }
}

pub(super) fn refused(what: impl Into<String>, next: &'static str) -> ArrayError {
    ArrayError::refused(what, next)
}

/// How many there are.
pub(super) fn members(spec: &CreateSpec<'_>) -> Result<(), ArrayError> {
    let (level, parts) = (spec.options.level, spec.parts);
    let spares = spec.disks.len() - parts;
    let (least, in_words) = match level {
        Level::Raid6 => (4, "four"),
        Level::Other(_) => {
            let what = format!("arrays of {level} are not made here");
            let next = "make one of raid1, raid10, raid4, raid5, raid6, raid0 or linear";
            return Err(refused(what, next));
        }
        _ => (2, "two"),
    };
    if parts < least {
        let what = format!("{level} needs at least {in_words} members, {parts} given");
        let next = "write `missing` for one that is to come";
        return Err(refused(what, next));
    }
    let most = numbers_max(spec.options.version);
    let count = InitialState::of(spec).numbers(spec);
    if count > most {
        let version = spec.options.version;
        let what = format!("superblocks {version} have room for {most} members, {count} given");
        return Err(refused(what, "use fewer, or superblocks 1.2"));
    }
    if !spec.is_redundant() {
        let missing = spec.disks.iter().find(|disk| disk.size.is_none());
        if missing.is_some() {
            let what = format!("{level} has no copies: no member can be missing");
            return Err(refused(what, "give all of them"));
        }
        if spares > 0 {
            let what = format!("{level} has no copies: a spare could not help");
            return Err(refused(what, "leave it out"));
        }
        if let Some(disk) = spec.disks.iter().find(|d| d.write_mostly || d.fail_fast) {
            let what = format!("{level} reads each byte from one place");
            tracing::debug!("write-mostly or failfast was asked for {}", disk.name);
            return Err(refused(what, "leave write-mostly and failfast out"));
        }
    }
    if level.parities() > 0 && spec.disks.iter().any(|disk| disk.write_mostly) {
        let what = format!("{level} reads each byte from one place");
        return Err(refused(what, "leave write-mostly out"));
    }
    Ok(())
}

/// Whether a superblock has room for its name.
pub(super) fn name(spec: &CreateSpec<'_>) -> Result<(), ArrayError> {
    let name = &spec.options.name;
    if name.len() > NAME_MAX {
        let what = format!("the name {name} is longer than {NAME_MAX} bytes");
        return Err(refused(what, "choose a shorter one"));
    }
    if name.is_empty() || name.chars().any(char::is_control) {
        let what = format!("{name:?} is no name for an array");
        return Err(refused(what, "choose one of letters and digits"));
    }
    Ok(())
}

/// Chunk and layout.
pub(super) fn shape(spec: &CreateSpec<'_>) -> Result<(u64, u32), ArrayError> {
    let options = spec.options;
    let level = options.level;
    let chunk = match (level, options.chunk) {
        (Level::Raid1, Some(_)) => {
            let what = "raid1 has no chunks";
            return Err(refused(what, "leave the chunk out"));
        }
        (Level::Raid1 | Level::Linear, None) => 0,
        (_, None) => CHUNK,
        (_, Some(chunk)) => chunk,
    };
    let is_chunk = chunk.is_power_of_two() && (CHUNK_MIN..=CHUNK_MAX).contains(&chunk);
    if !is_chunk && options.chunk.is_some() {
        let what = format!("a chunk of {chunk} bytes cannot be");
        return Err(refused(what, "use a power of two from 4 KiB to 1 GiB"));
    }
    whole_blocks(spec, chunk)?;
    let layout = match (level, options.layout) {
        (Level::Raid10, layout) => raid10(spec, layout.unwrap_or(NEAR_2))?,
        (Level::Raid5 | Level::Raid6, layout) => layout.unwrap_or(LEFT_SYMMETRIC),
        // Not recorded there: all members are equal.
        (Level::Raid0, None) if spec.is_old() => 0,
        (Level::Raid0, None) => ORIGINAL,
        (Level::Raid0, Some(layout @ (1 | 2))) => layout,
        (Level::Raid0, Some(layout)) => {
            let what = format!("raid0 has no layout {layout}");
            return Err(refused(what, "use 1 (original) or 2 (alternate)"));
        }
        (_, None) => 0,
        (_, Some(_)) => {
            let what = format!("{level} has no layouts");
            return Err(refused(what, "leave the layout out"));
        }
    };
    if level.parities() > 0 {
        let parts = u32::try_from(spec.parts).unwrap_or(u32::MAX);
        let can_be = parity::layout::Layout::new(level, layout, parts, chunk);
        can_be.map_err(|what| refused(what, "see `outboard array create --help`"))?;
    }
    // Whether what is there is enough to begin with.
    let present = spec.disks[..spec.parts].iter();
    let present: Vec<bool> = present.map(|disk| disk.size.is_some()).collect();
    if !level.survives(layout, &present) {
        let what = "too many members are missing: some data would be nowhere";
        let next = match level.parities() {
            0 => "give at least one member for each copy",
            1 => "one can be missing",
            _ => "two can be missing",
        };
        return Err(refused(what, next));
    }
    Ok((chunk, layout))
}

/// Refuses chunks that are no whole blocks of a disk: such an array could not be opened.
fn whole_blocks(spec: &CreateSpec<'_>, chunk: u64) -> Result<(), ArrayError> {
    let is_cut = |disk: &&Disk<'_>| !chunk.is_multiple_of(disk.block_size.max(1).into());
    let Some(disk) = spec.disks.iter().find(is_cut) else {
        return Ok(());
    };
    let (name, block) = (disk.name, disk.block_size);
    let what = format!("{name} has blocks of {block} bytes, larger than chunks of {chunk}");
    let next = "use larger chunks, or smaller blocks: blocks(DISK, size=512)";
    Err(refused(what, next))
}

fn raid10(spec: &CreateSpec<'_>, layout: u32) -> Result<u32, ArrayError> {
    let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
    let copies = usize::try_from(near * far).unwrap_or(usize::MAX);
    if layout >> 17 != 0 || copies < 2 {
        let what = format!("raid10 has no layout {layout:#x}");
        return Err(refused(what, "use n2, f2 or o2, or as many copies"));
    }
    if copies > spec.parts {
        let what = format!("{copies} copies need as many members, {} given", spec.parts);
        return Err(refused(what, "use fewer copies or more members"));
    }
    Ok(layout)
}

pub(super) fn too_small(name: &str, size: u64) -> ArrayError {
    let what = format!("{name} with {size} bytes is too small for a member");
    refused(what, "use a larger one")
}
