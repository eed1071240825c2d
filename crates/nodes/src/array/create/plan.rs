//! [`plan`]: a wish and the sizes of disks become superblocks, or a refusal. Pure.

use super::places::{self, Places};
use super::{BitmapChoice, CreateOptions, NAME_MAX, NewMember, Stamp};
use crate::array::ArrayError;
use crate::array::format::bitmap::{self, Bitmap, Shape};
use crate::array::format::{Level, MEMBERS_MAX, Role, Superblock, Version, features, numbers_max};

const KIB: u64 = 1 << 10;
/// Chunk of striped arrays.
const CHUNK: u64 = 512 * KIB;
/// Chunks that can be asked for.
const CHUNK_MIN: u64 = 4 * KIB;
const CHUNK_MAX: u64 = 1 << 30;
/// Two copies side by side.
const NEAR_2: u32 = 0x102;
/// RAID 0 of unequal members as old kernels had it.
const ORIGINAL: u32 = 1;
/// Most of each member that superblocks 0.90 can tell, bytes.
const SIZE_MAX_0_90: u64 = u32::MAX as u64 * KIB;
/// What one kind of superblock allows, by the room of its table.
const ROLES: usize = 128;

/// What is to be made, as plain data.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    options: &'a CreateOptions,
    disks: Vec<Disk<'a>>,
    parts: usize,
}

/// A disk for it.
#[derive(Debug)]
struct Disk<'a> {
    name: &'a str,
    /// `None`: it is missing.
    size: Option<u64>,
    write_mostly: bool,
    fail_fast: bool,
}

/// What is to be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Of members that are there, in order.
    pub(super) members: Vec<Planned>,
    /// Size of the array.
    pub(super) size: u64,
    pub(super) remarks: Vec<String>,
}

/// What is to be written on one disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) superblock: Superblock,
    pub(super) places: Places,
    pub(super) bitmap: Option<Bitmap>,
}

impl<'a> Wish<'a> {
    pub(super) fn of(
        parts: &'a [NewMember],
        spares: &'a [NewMember],
        options: &'a CreateOptions,
    ) -> Self {
        let disk = |member: &'a NewMember| Disk {
            name: &member.name,
            // Sectors, whatever the disk says.
            size: member
                .disk
                .as_ref()
                .map(|disk| disk.geometry().size / 512 * 512),
            write_mostly: member.write_mostly,
            fail_fast: member.fail_fast,
        };
        Self {
            options,
            disks: parts.iter().chain(spares).map(disk).collect(),
            parts: parts.len(),
        }
    }

    fn has_copies(&self) -> bool {
        matches!(self.options.level, Level::Raid1 | Level::Raid10)
    }

    fn is_old(&self) -> bool {
        matches!(self.options.version, Version::V0_90 { .. })
    }

    /// Disks that are there, with their sizes.
    fn here(&self) -> impl Iterator<Item = (&Disk<'a>, u64)> {
        self.disks
            .iter()
            .filter_map(|disk| Some((disk, disk.size?)))
    }
}

fn refused(what: impl Into<String>, next: &'static str) -> ArrayError {
    ArrayError::refused(what, next)
}

/// What to write, or why not.
pub(super) fn plan(wish: &Wish<'_>, stamp: &Stamp) -> Result<Plan, ArrayError> {
    members(wish)?;
    name(wish)?;
    let (chunk, layout) = shape(wish)?;
    let first = wish.here().next().map_or(0, |(_, size)| size);
    let data_offset = places::data_offset(wish.options.version, first, chunk);
    let sizes = Sizes::of(wish, chunk, data_offset)?;
    let model = superblock(wish, stamp, &sizes, chunk, layout);
    let bits = bits(wish, &model)?;
    let mut plan = Plan {
        members: Vec::with_capacity(wish.disks.len()),
        size: 0,
        remarks: sizes.remarks,
    };
    for (number, disk) in wish.disks.iter().enumerate() {
        let Some(size) = disk.size else { continue };
        let version = wish.options.version;
        let places = places::of(version, size, data_offset, model.member_size, bits.as_ref());
        let places = places.ok_or_else(|| too_small(disk.name, size))?;
        let superblock = member(&model, disk, number, stamp, &places, bits.is_some());
        let bitmap = bits.and_then(|bits| {
            let chunk = u32::try_from(bits.chunk()).ok()?;
            Bitmap::of(&superblock, chunk)
        });
        plan.members.push(Planned {
            superblock,
            places,
            bitmap,
        });
    }
    unequal(wish, &mut plan, chunk)?;
    plan.size = array_size(wish, &plan, chunk);
    Ok(plan)
}

/// How many there are.
fn members(wish: &Wish<'_>) -> Result<(), ArrayError> {
    let (level, parts) = (wish.options.level, wish.parts);
    let spares = wish.disks.len() - parts;
    if !matches!(
        level,
        Level::Linear | Level::Raid0 | Level::Raid1 | Level::Raid10
    ) {
        let what = format!("arrays of {level} are not made here");
        return Err(refused(what, "make one of raid1, raid10, raid0 or linear"));
    }
    if parts < 2 {
        let what = format!("{level} needs at least two members, {parts} given");
        let next = "write `missing` for one that is to come";
        return Err(refused(what, next));
    }
    let most = numbers_max(wish.options.version);
    if wish.disks.len() > most {
        let count = wish.disks.len();
        let version = wish.options.version;
        let what = format!("superblocks {version} have room for {most} members, {count} given");
        return Err(refused(what, "use fewer, or superblocks 1.2"));
    }
    if !wish.has_copies() {
        let missing = wish.disks.iter().find(|disk| disk.size.is_none());
        if missing.is_some() {
            let what = format!("{level} has no copies: no member can be missing");
            return Err(refused(what, "give all of them"));
        }
        if spares > 0 {
            let what = format!("{level} has no copies: a spare could not help");
            return Err(refused(what, "leave it out"));
        }
        if let Some(disk) = wish.disks.iter().find(|d| d.write_mostly || d.fail_fast) {
            let what = format!("{level} reads each byte from one place");
            tracing::debug!("write-mostly or failfast was asked for {}", disk.name);
            return Err(refused(what, "leave write-mostly and failfast out"));
        }
    }
    Ok(())
}

fn name(wish: &Wish<'_>) -> Result<(), ArrayError> {
    let name = &wish.options.name;
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
fn shape(wish: &Wish<'_>) -> Result<(u64, u32), ArrayError> {
    let options = wish.options;
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
    let layout = match (level, options.layout) {
        (Level::Raid10, layout) => raid10(wish, layout.unwrap_or(NEAR_2))?,
        // Not told there: all members are equal.
        (Level::Raid0, None) if wish.is_old() => 0,
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
    // Whether what is there is enough to begin with.
    let present = wish.disks[..wish.parts].iter();
    let present: Vec<bool> = present.map(|disk| disk.size.is_some()).collect();
    if !level.survives(layout, &present) {
        let what = "too many members are missing: some data would be nowhere";
        return Err(refused(what, "give at least one member for each copy"));
    }
    Ok((chunk, layout))
}

fn raid10(wish: &Wish<'_>, layout: u32) -> Result<u32, ArrayError> {
    let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
    let copies = usize::try_from(near * far).unwrap_or(usize::MAX);
    if layout >> 17 != 0 || copies < 2 {
        let what = format!("raid10 has no layout {layout:#x}");
        return Err(refused(what, "use n2, f2 or o2, or as many copies"));
    }
    if copies > wish.parts {
        let what = format!("{copies} copies need as many members, {} given", wish.parts);
        return Err(refused(what, "use fewer copies or more members"));
    }
    Ok(layout)
}

fn too_small(name: &str, size: u64) -> ArrayError {
    let what = format!("{name} with {size} bytes is too small for a member");
    refused(what, "use a larger one")
}

/// How much of each member is used.
#[derive(Debug)]
struct Sizes {
    /// 0 where members may differ.
    member: u64,
    data_offset: u64,
    remarks: Vec<String>,
}

impl Sizes {
    fn of(wish: &Wish<'_>, chunk: u64, data_offset: u64) -> Result<Self, ArrayError> {
        let version = wish.options.version;
        let round = |bytes: u64| bytes - bytes.checked_rem(chunk).unwrap_or(0);
        let mut free = Vec::with_capacity(wish.disks.len());
        for (disk, size) in wish.here() {
            let room = round(places::free(version, size, data_offset));
            if room == 0 {
                return Err(too_small(disk.name, size));
            }
            free.push((disk, room));
        }
        let mut remarks = Vec::new();
        let member = match (wish.has_copies(), wish.options.size) {
            (false, None) => 0,
            (false, Some(_)) => {
                let what = format!("{} uses all of each member", wish.options.level);
                return Err(refused(what, "leave the size out"));
            }
            (true, asked) => {
                let member = used(wish, &free, asked.map(|asked| round(asked / KIB * KIB)))?;
                remarks.extend(larger(&free, member));
                member
            }
        };
        if wish.is_old() && member > SIZE_MAX_0_90 {
            let what = "superblocks 0.90 have room for 4 TiB of each member";
            return Err(refused(what, "use less of each, or superblocks 1.2"));
        }
        Ok(Self {
            member,
            data_offset,
            remarks,
        })
    }
}

/// What is used of each member: what was asked for, or what the smallest one has.
fn used(wish: &Wish<'_>, free: &[(&Disk<'_>, u64)], asked: Option<u64>) -> Result<u64, ArrayError> {
    let smallest = free.iter().min_by_key(|(_, room)| *room);
    let Some((disk, room)) = smallest else {
        return Err(refused("no member is there", "give at least one"));
    };
    match asked {
        Some(asked) if asked > *room => {
            let what = format!(
                "{} has room for {room} bytes of data, {asked} are asked for",
                disk.name
            );
            Err(refused(what, "use less of each, or a larger disk"))
        }
        Some(0) => {
            let what = "the size is less than one chunk";
            Err(refused(what, "use more of each member"))
        }
        Some(asked) => Ok(asked),
        // A mirror may become something with chunks one day.
        None if wish.options.level == Level::Raid1 => match room / (64 * KIB) * (64 * KIB) {
            0 => Err(too_small(disk.name, disk.size.unwrap_or(0))),
            used => Ok(used),
        },
        None => Ok(*room),
    }
}

/// As mdadm has it: more than a hundredth of the largest is not used.
fn larger(free: &[(&Disk<'_>, u64)], member: u64) -> Option<String> {
    let (disk, room) = free.iter().max_by_key(|(_, room)| *room)?;
    let unused = room - member;
    (unused > room / 100).then(|| {
        let name = disk.name;
        format!("{unused} bytes of {name} are not used: the array takes {member} of each member")
    })
}

/// What all members say.
fn superblock(
    wish: &Wish<'_>,
    stamp: &Stamp,
    sizes: &Sizes,
    chunk: u64,
    layout: u32,
) -> Superblock {
    let options = wish.options;
    let number = |number: usize| u16::try_from(number).expect("members were counted");
    let mut roles: Vec<Role> = Vec::with_capacity(ROLES);
    for (index, disk) in wish.disks.iter().enumerate() {
        roles.push(match disk.size {
            Some(_) if index < wish.parts => Role::Active(number(index)),
            None if wish.is_old() => Role::Faulty,
            _ => Role::Spare,
        });
    }
    if !wish.is_old() {
        // To the end of the last sector.
        let len = (256 + 2 * roles.len()).next_multiple_of(512);
        let most = MEMBERS_MAX as usize;
        roles.resize(((len - 256) / 2).min(most), Role::Spare);
    }
    let dirty = wish.has_copies() && !options.assume_clean;
    Superblock {
        version: options.version,
        array: stamp.uuid,
        name: match wish.is_old() {
            true => device_number(&options.name).to_string(),
            false => options.name.clone(),
        },
        created: stamp.now,
        updated: stamp.now,
        level: options.level,
        layout,
        chunk,
        members: u32::try_from(wish.parts).expect("members were counted"),
        member_size: sizes.member,
        data: block::Range::new(sizes.data_offset, 0),
        events: 0,
        synced_to: dirty.then_some(0),
        rebuilt_to: None,
        device: None,
        number: 0,
        role: Role::Spare,
        roles,
        bitmap_at: None,
        bad_blocks: None,
        bad_blocks_shift: 0,
        corrected: 0,
        features: 0,
        write_mostly: false,
        fail_fast: false,
        reshape: None,
    }
}

/// The number of the device that Linux would like for it: superblocks 0.90 keep that instead of a name.
fn device_number(name: &str) -> u32 {
    let name = name.rsplit(':').next().unwrap_or(name);
    // What mdadm takes for arrays without a number.
    name.parse().unwrap_or(127)
}

/// How the bits of its bitmap lie, if it has one.
fn bits(wish: &Wish<'_>, model: &Superblock) -> Result<Option<Shape>, ArrayError> {
    let asked = match wish.options.bitmap {
        BitmapChoice::None => return Ok(None),
        BitmapChoice::Usual => None,
        BitmapChoice::Chunk(chunk) => Some(chunk),
    };
    let Some(covered) = bitmap::covered(model) else {
        return match asked {
            None => Ok(None),
            Some(_) => {
                let what = format!("{} has no copies: a bitmap could not help", model.level);
                Err(refused(what, "leave it out"))
            }
        };
    };
    let shape = places::bitmap_shape(model.version, model.member_size, covered, asked);
    shape.map(Some).map_err(|least| {
        let asked = asked.unwrap_or(least);
        let what = format!("a bitmap with {asked} bytes for each bit cannot be here");
        ArrayError::Refused {
            what,
            next: Some(format!("use a power of two from {least} on")),
        }
    })
}

/// What one member says.
fn member(
    model: &Superblock,
    disk: &Disk<'_>,
    number: usize,
    stamp: &Stamp,
    places: &Places,
    has_bitmap: bool,
) -> Superblock {
    let is_old = matches!(model.version, Version::V0_90 { .. });
    Superblock {
        data: places.data,
        device: (!is_old).then(|| stamp.devices[number]),
        number: u32::try_from(number).expect("members were counted"),
        role: model.roles[number],
        bitmap_at: places.bitmap.map(|place| place.offset),
        bad_blocks: places.log,
        features: match has_bitmap && !is_old {
            true => features::BITMAP,
            false => 0,
        },
        write_mostly: disk.write_mostly,
        fail_fast: disk.fail_fast,
        ..model.clone()
    }
}

/// RAID 0 of unequal members says how it lies.
fn unequal(wish: &Wish<'_>, plan: &mut Plan, chunk: u64) -> Result<(), ArrayError> {
    if wish.options.level != Level::Raid0 {
        return Ok(());
    }
    let mut chunks = plan.members.iter().map(|m| m.places.data.len / chunk);
    let first = chunks.next();
    if chunks.all(|chunks| Some(chunks) == first) {
        return Ok(());
    }
    if wish.is_old() {
        let what = "superblocks 0.90 cannot tell how raid0 of unequal members lies";
        return Err(refused(what, "use superblocks 1.2, or equal members"));
    }
    for member in &mut plan.members {
        member.superblock.features |= features::RAID0_LAYOUT;
    }
    Ok(())
}

fn array_size(wish: &Wish<'_>, plan: &Plan, chunk: u64) -> u64 {
    let round = |bytes: u64| bytes - bytes.checked_rem(chunk).unwrap_or(0);
    let members = plan.members.iter();
    match plan.members.first().and_then(|m| m.superblock.array_size()) {
        Some(size) => size,
        None => members
            .take(wish.parts)
            .map(|member| round(member.places.data.len))
            .sum(),
    }
}
