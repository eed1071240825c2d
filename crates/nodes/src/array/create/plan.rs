//! [`plan`]: a spec and the sizes of disks become superblocks, or a refusal. Pure.

use super::create_spec::{CreateSpec, Disk, members, name, refused, shape, too_small};
use super::initial::InitialState;
use super::places::{self, Places, Reserve};
use super::{ConsistencyChoice, ConsistencyPolicy, Stamp, consistency, journal};
use crate::array::ArrayError;
use crate::array::format::bitmap::{self, Bitmap, Shape};
use crate::array::format::ppl::{PplHeader, signature};
use crate::array::format::r5l::MetaBlock;
use crate::array::format::{Level, MEMBERS_MAX, Role, Superblock, Version, features};

const KIB: u64 = 1 << 10;
/// Most of each member that superblocks 0.90 can record, bytes.
const SIZE_MAX_0_90: u64 = u32::MAX as u64 * KIB;
/// What one kind of superblock allows, by the room of its table.
const ROLES: usize = 128;

/// What is to be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Of members that are there, in order.
    pub(super) members: Vec<Planned>,
    /// Size of the array.
    pub(super) size: u64,
    pub(super) policy: ConsistencyPolicy,
    pub(super) remarks: Vec<String>,
}

/// What is to be written on one disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) superblock: Superblock,
    pub(super) places: Places,
    pub(super) bitmap: Option<Bitmap>,
    /// The first header of its partial parity log. `None`: it has none, or one that is paused.
    pub(super) ppl: Option<PplHeader>,
    /// The first block of its journal.
    pub(super) journal: Option<MetaBlock>,
}

/// What to write, or why not.
pub(super) fn plan(spec: &CreateSpec<'_>, stamp: &Stamp) -> Result<Plan, ArrayError> {
    members(spec)?;
    name(spec)?;
    let (chunk, layout) = shape(spec)?;
    let first = spec.here().next().map_or(0, |(_, size)| size);
    let policy = consistency::policy(spec)?;
    let reserve = match policy {
        ConsistencyPolicy::Ppl => Reserve::Ppl,
        _ => Reserve::Bitmap,
    };
    let data_offset = places::data_offset(spec.options.version, first, chunk, reserve);
    let sizes = Sizes::of(spec, chunk, (data_offset, reserve))?;
    let initial = InitialState::of(spec);
    let model = superblock(spec, stamp, &sizes, initial, (chunk, layout));
    let bits = match policy {
        ConsistencyPolicy::Bitmap => bits(spec, &model)?,
        _ => None,
    };
    let mut plan = Plan {
        members: Vec::with_capacity(spec.disks.len()),
        size: 0,
        policy,
        remarks: sizes.remarks,
    };
    plan.remarks.extend(begins_as_spare(spec, initial));
    for (index, disk) in spec.disks.iter().enumerate() {
        let Some(size) = disk.size else { continue };
        let version = spec.options.version;
        let beside = (reserve, bits.as_ref());
        let places = places::of(version, size, data_offset, model.member_size, beside);
        let places = places.ok_or_else(|| too_small(disk.name, size))?;
        let number = initial.number(spec, index);
        let own = (number, stamp.devices[index]);
        let superblock = member(&model, disk, own, &places);
        let bitmap = bits.and_then(|bits| {
            let chunk = u32::try_from(bits.chunk()).ok()?;
            Bitmap::of(&superblock, chunk)
        });
        plan.members.push(Planned {
            superblock,
            places,
            bitmap,
            ppl: log_header(policy, initial, &stamp.uuid),
            journal: None,
        });
    }
    unequal(spec, &mut plan, chunk)?;
    plan.size = array_size(spec, &plan, chunk);
    if let Some(disk) = &spec.journal {
        let number = initial.numbers(spec);
        let planned = journal::plan(spec, disk, &model, (number, stamp))?;
        plan.members.push(planned);
    }
    Ok(plan)
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
    fn of(
        spec: &CreateSpec<'_>,
        chunk: u64,
        (data_offset, reserve): (u64, Reserve),
    ) -> Result<Self, ArrayError> {
        let version = spec.options.version;
        let round = |bytes: u64| bytes - bytes.checked_rem(chunk).unwrap_or(0);
        let mut free = Vec::with_capacity(spec.disks.len());
        for (disk, size) in spec.here() {
            let room = round(places::free(version, size, data_offset, reserve));
            if room == 0 {
                return Err(too_small(disk.name, size));
            }
            free.push((disk, room));
        }
        let mut remarks = Vec::new();
        let member = match (spec.is_redundant(), spec.options.size) {
            (false, None) => 0,
            (false, Some(_)) => {
                let what = format!("{} uses all of each member", spec.options.level);
                return Err(refused(what, "leave the size out"));
            }
            (true, asked) => {
                let member = used(spec, &free, asked.map(|asked| round(asked / KIB * KIB)))?;
                remarks.extend(larger(&free, member));
                member
            }
        };
        if spec.is_old() && member > SIZE_MAX_0_90 {
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

/// What is used of each member: what was requested, or what the smallest one has.
fn used(
    spec: &CreateSpec<'_>,
    free: &[(&Disk<'_>, u64)],
    asked: Option<u64>,
) -> Result<u64, ArrayError> {
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
        None if spec.options.level == Level::Raid1 => match room / (64 * KIB) * (64 * KIB) {
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

/// What the caller should know of a disk that does not hold its part yet.
fn begins_as_spare(spec: &CreateSpec<'_>, initial: InitialState) -> Option<String> {
    let name = spec.disks[initial.rebuilt?].name;
    let level = spec.options.level;
    Some(format!(
        "{name} begins as a spare, and is rebuilt: with one member missing a new {level} has no parity that fits yet"
    ))
}

/// What all members say.
fn superblock(
    spec: &CreateSpec<'_>,
    stamp: &Stamp,
    sizes: &Sizes,
    initial: InitialState,
    (chunk, layout): (u64, u32),
) -> Superblock {
    let options = spec.options;
    let number = |number: usize| u16::try_from(number).expect("members were counted");
    let vacant = if spec.is_old() {
        Role::Faulty
    } else {
        Role::Spare
    };
    let mut roles: Vec<Role> = Vec::with_capacity(ROLES);
    for (index, disk) in spec.disks.iter().enumerate() {
        roles.push(match disk.size {
            None => vacant,
            Some(_) if initial.rebuilt == Some(index) => vacant,
            Some(_) if index < spec.parts => Role::Active(number(index)),
            Some(_) => Role::Spare,
        });
    }
    roles.resize(initial.numbers(spec), Role::Spare);
    roles.extend(spec.journal.as_ref().map(|_| Role::Journal));
    if !spec.is_old() {
        // To the end of the last sector.
        let len = (256 + 2 * roles.len()).next_multiple_of(512);
        let most = MEMBERS_MAX as usize;
        roles.resize(((len - 256) / 2).min(most), Role::Spare);
    }
    Superblock {
        version: options.version,
        array: stamp.uuid,
        name: match spec.is_old() {
            true => device_number(&options.name).to_string(),
            false => options.name.clone(),
        },
        created: stamp.now,
        updated: stamp.now,
        level: options.level,
        layout,
        chunk,
        members: u32::try_from(spec.parts).expect("members were counted"),
        member_size: sizes.member,
        data: block::Range::new(sizes.data_offset, 0),
        events: 0,
        synced_to: initial.dirty.then_some(0),
        rebuilt_to: None,
        device: None,
        number: 0,
        role: Role::Spare,
        roles,
        bitmap_at: None,
        ppl: None,
        bad_blocks: None,
        bad_blocks_shift: 0,
        corrected: 0,
        features: match spec.journal {
            Some(_) => features::JOURNAL,
            None => 0,
        },
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
fn bits(spec: &CreateSpec<'_>, model: &Superblock) -> Result<Option<Shape>, ArrayError> {
    let asked = match spec.options.consistency {
        ConsistencyChoice::Bitmap(chunk) => chunk,
        _ => None,
    };
    let Some(covered) = bitmap::covered(model) else {
        return Ok(None);
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

/// What one member says, with its number and its own UUID.
pub(super) fn member(
    model: &Superblock,
    disk: &Disk<'_>,
    (number, device): (usize, [u8; 16]),
    places: &Places,
) -> Superblock {
    let is_old = matches!(model.version, Version::V0_90 { .. });
    Superblock {
        data: places.data,
        device: (!is_old).then_some(device),
        number: u32::try_from(number).expect("members were counted"),
        role: model.roles[number],
        bitmap_at: places.bitmap.map(|place| place.offset),
        ppl: places.ppl,
        bad_blocks: places.log,
        features: match (places.bitmap, places.ppl) {
            (Some(_), _) if !is_old => features::BITMAP,
            // Alone: with `MULTIPLE_PPLS` next to it Linux starts the array without logs, and takes both away.
            (None, Some(_)) => features::PPL,
            // That there is a journal.
            _ => model.features,
        },
        write_mostly: disk.write_mostly,
        fail_fast: disk.fail_fast,
        ..model.clone()
    }
}

/// The first header of each partial parity log: none while parity has to be resynced, since logs are paused then.
fn log_header(
    policy: ConsistencyPolicy,
    initial: InitialState,
    array: &[u8; 16],
) -> Option<PplHeader> {
    let is_kept = policy == ConsistencyPolicy::Ppl && !initial.dirty;
    is_kept.then(|| PplHeader::empty(signature(array)))
}

/// RAID 0 of unequal members says how it lies.
fn unequal(spec: &CreateSpec<'_>, plan: &mut Plan, chunk: u64) -> Result<(), ArrayError> {
    if spec.options.level != Level::Raid0 {
        return Ok(());
    }
    let mut chunks = plan.members.iter().map(|m| m.places.data.len / chunk);
    let first = chunks.next();
    if chunks.all(|chunks| Some(chunks) == first) {
        return Ok(());
    }
    if spec.is_old() {
        let what = "superblocks 0.90 cannot describe raid0 of unequal members";
        return Err(refused(what, "use superblocks 1.2, or equal members"));
    }
    for member in &mut plan.members {
        member.superblock.features |= features::RAID0_LAYOUT;
    }
    Ok(())
}

fn array_size(spec: &CreateSpec<'_>, plan: &Plan, chunk: u64) -> u64 {
    let round = |bytes: u64| bytes - bytes.checked_rem(chunk).unwrap_or(0);
    let members = plan.members.iter();
    match plan.members.first().and_then(|m| m.superblock.array_size()) {
        Some(size) => size,
        None => members
            .take(spec.parts)
            .map(|member| round(member.places.data.len))
            .sum(),
    }
}
