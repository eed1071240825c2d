//! Opening a redundant array: from what its superblocks say to a state. Nothing is written.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use block::{Geometry, IoError, Node, Range, Support};
use tokio::sync::{Notify, Semaphore};

use super::super::assembly::{Assembly, Facts, Other, OtherKind, Part};
use super::super::format::bitmap::Bitmap;
use super::super::format::{Role, Superblock, Version, features};
use super::super::interface::ArrayInterface;
use super::super::member::Member;
use super::super::member_guard::ArrayFence;
use super::super::{ArrayError, ArrayOptions};
use super::bits::Bits;
use super::fitting_columns::FittingColumns;
use super::layout::Layout;
use super::ledger::CommitLedger;
use super::member_table::{MemberTable, Slot, SlotState};
use super::members::{SlotId, Target};
use super::open_checks::{refuse_reshape, refuse_writing};
use super::range_locks::RangeLocks;
use super::rows::{Journal, PartialParityLogs, Rows};
use super::state::State;
use super::write::CHANGES_MAX;
use super::{Guarded, RedundantArray, policy};
use crate::Blocks;
use crate::read::read_within;

/// Smallest blocks of arrays with partial parity logs, bytes.
const SECTOR: u32 = 512;
/// Versions of bitmaps that are the usual kind.
const BITMAP_VERSIONS: std::ops::RangeInclusive<u32> = 3..=4;

impl RedundantArray {
    /// Opens an array of level 1 or 10, or one of level 4, 5 or 6 that is written. `before`: it takes over from another engine.
    ///
    /// # Errors
    /// [`ArrayError`]: why not; nothing was written.
    pub(in crate::array) async fn open(
        mut assembly: Assembly,
        options: &ArrayOptions,
        before: Option<&ArrayInterface>,
    ) -> Result<Arc<Self>, ArrayError> {
        let writes_policy = policy::unify(&mut assembly)?;
        let layout = Arc::new(Layout::of(&assembly.facts)?);
        refuse_reshape(&assembly, &layout, options)?;
        if !options.read_only {
            refuse_writing(&assembly)?;
        }
        let bits = read_bits(&assembly, options.read_only).await?;
        let uuid = &assembly.facts.uuid;
        let logs = match options.read_only || assembly.facts.reshape.is_some() {
            true => PartialParityLogs::none(uuid),
            false => PartialParityLogs::open(holders(&assembly).map(|(member, _)| member), uuid)?,
        };
        let logs = (logs, Journal::open(&assembly, options).await?);
        let interface = ArrayInterface::of(geometry(&assembly, &layout, options)?, before)?;
        let synced_to = assembly.synced_to;
        let work = Arc::new(Notify::new());
        let name = assembly.facts.name.clone();
        let fence = ArrayFence::new(&name, interface.events.clone(), work.clone());
        let mut state = state(assembly, layout, options, &fence);
        state.writes_policy = writes_policy || state.awaits_ppl;
        state.ledger.set_found_dirty(synced_to.is_some());
        state.synced_to = synced_to.filter(|to| *to < state.members.layout.sync_size());
        if let Some((mut bits, header)) = bits {
            if let Some(from) = state.synced_to.take() {
                bits.need_all_set(from);
            }
            if state.writes_form && state.is_reshaping() {
                // Places are counted further than bits go.
                bits.want_all();
            }
            state.ledger.set_events_cleared(header.events_cleared);
            state.bits = Some(bits);
        }
        if !options.read_only {
            state.give_spares_policy();
        }
        let rows = Rows::new(options, logs);
        let make = |own: &Weak<Self>| make(own, state, (interface, rows), options, work);
        Ok(Arc::new_cyclic(make))
    }

    /// Takes the members over, where the array goes on without one and stands on a disk of another machine: their superblocks
    /// are written before the array is used. A host that has it too sees that it was taken over from. So are those of an array with
    /// a replacement that is recorded as whole: it is while no row is being written only.
    ///
    /// # Errors
    /// They cannot be written.
    pub(in crate::array) async fn take_over(&self) -> Result<(), IoError> {
        {
            let state = &mut self.lock().state;
            let is_remote = state
                .members
                .view
                .holders()
                .any(|holder| holder.target.remote);
            let slots = &state.members.slots;
            let is_whole =
                |slot: &Slot| slot.is_replacement() && slot.superblock.rebuilt_to.is_none();
            let takes_over = state.is_degraded() && is_remote;
            if self.read_only() || !takes_over && !slots.iter().any(is_whole) {
                return Ok(());
            }
            state.change(true);
        }
        self.record(State::is_recorded).await
    }
}

fn make(
    own: &Weak<RedundantArray>,
    state: State,
    (interface, rows): (ArrayInterface, Rows),
    options: &ArrayOptions,
    work: Arc<Notify>,
) -> RedundantArray {
    RedundantArray {
        own: own.clone(),
        fence: state.fence.clone(),
        name: state.facts.name.clone(),
        guarded: Mutex::new(Guarded {
            state,
            commit: None,
        }),
        geometry: interface.geometry,
        member_timeout: options.member_timeout,
        places: Semaphore::new(CHANGES_MAX),
        rows,
        settling: tokio::sync::Mutex::new(()),
        flush_failed: OnceLock::new(),
        events: interface.events,
        work,
        since: engine::clock::now(),
        requests: AtomicU64::new(0),
        reading: AtomicU64::new(0),
    }
}

/// Members with a part, in sync or being rebuilt.
pub(super) fn holders(assembly: &Assembly) -> impl Iterator<Item = (&Member, Option<u64>)> + Clone {
    let parts = assembly.parts.iter();
    parts.filter_map(|part| Some((part.member.as_ref()?, part.rebuilt_to)))
}

/// The bitmap: a bit counts as set if one member in sync has it set, all if a member's cannot be trusted.
async fn read_bits(
    assembly: &Assembly,
    read_only: bool,
) -> Result<Option<(Bits, Bitmap)>, ArrayError> {
    let has_one = holders(assembly).any(|(member, _)| member.superblock.bitmap_at.is_some());
    let known = assembly
        .bitmap
        .filter(|bitmap| BITMAP_VERSIONS.contains(&bitmap.version));
    let Some(header) = known else {
        if has_one && !read_only {
            return Err(ArrayError::refused(
                "the array's bitmap is not one that is written here",
                "open it read-only, or remove the bitmap with mdadm --grow --bitmap=none",
            ));
        }
        return Ok(None);
    };
    let len = Bits::image_len(&header, block_of(block_size(assembly)));
    let mut image: Option<Vec<u8>> = None;
    let mut all = header.stale;
    for (member, rebuilt_to) in holders(assembly) {
        if rebuilt_to.is_some() {
            continue;
        }
        let Some(at) = member.superblock.bitmap_at else {
            all = true;
            continue;
        };
        let place = Range::new(at, len as u64);
        let bytes = read_within(&member.disk, place).await;
        let bytes = bytes.map_err(|source| ArrayError::Read {
            member: member.name.clone(),
            source,
        })?;
        let fits = |own: &Bitmap| {
            (own.chunk, own.size, own.array) == (header.chunk, header.size, header.array)
                && own.events >= member.superblock.events
                && !own.stale
        };
        if bytes.len() < len || !Bitmap::decode(&bytes).is_ok_and(|own| fits(&own)) {
            all = true;
            continue;
        }
        match &mut image {
            None => image = Some(bytes),
            Some(image) => unite(image, &bytes),
        }
    }
    let image = match image {
        Some(image) => image,
        None => blank(assembly, len).await?,
    };
    let bits = Bits::new(&header, image, all)?;
    Ok(Some((bits, header)))
}

/// The array's blocks: the largest of those of all holders.
pub(super) fn block_size(assembly: &Assembly) -> u32 {
    let blocks = holders(assembly).map(|(member, _)| member.disk.geometry().block_size);
    blocks.max().unwrap_or(1)
}

/// Bytes of a block, or a sector where that is more.
pub(super) fn block_of(block_size: u32) -> usize {
    usize::try_from(block_size.max(512)).expect("blocks are small")
}

/// The header of a bitmap that cannot be trusted, for its fields other than bits.
async fn blank(assembly: &Assembly, len: usize) -> Result<Vec<u8>, ArrayError> {
    let mut image = vec![0; len];
    for (member, _) in holders(assembly) {
        let Some(at) = member.superblock.bitmap_at else {
            continue;
        };
        let header = read_within(&member.disk, Range::new(at, 256)).await;
        if let Ok(header) = header
            && Bitmap::decode(&header).is_ok()
        {
            image[..header.len()].copy_from_slice(&header);
            return Ok(image);
        }
    }
    Err(ArrayError::refused(
        "no member has a bitmap that can be read",
        "open the array read-only",
    ))
}

/// Bits that one of both has, behind the header.
fn unite(image: &mut [u8], other: &[u8]) {
    let bits = image.iter_mut().zip(other).skip(256);
    bits.for_each(|(byte, other)| *byte |= other);
}

/// What the array is as a disk.
fn geometry(
    assembly: &Assembly,
    layout: &Layout,
    options: &ArrayOptions,
) -> Result<Geometry, ArrayError> {
    let mut whole = Geometry {
        read_only: options.read_only,
        flush: Support::None,
        write_zeroes: Support::Native,
        ..Geometry::native(layout.size())
    };
    for (member, rebuilt_to) in holders(assembly) {
        let part = member.disk.geometry();
        let block = u64::from(part.block_size.max(1));
        let data = member.superblock.data.offset;
        let is_whole = [data, assembly.facts.chunk, layout.size()];
        if is_whole.iter().any(|at| !at.is_multiple_of(block)) {
            return Err(ArrayError::refused(
                format!(
                    "{} has blocks of {block} bytes, the array's data is not made of whole ones",
                    member.name
                ),
                "put smaller blocks on it: blocks(DISK, size=512)",
            ));
        }
        if part.read_only && !options.read_only {
            return Err(ArrayError::refused(
                format!("{} is read-only", member.name),
                "open the array read-only too",
            ));
        }
        whole.block_size = whole.block_size.max(part.block_size);
        whole.preferred_block_size = whole.preferred_block_size.max(part.preferred_block_size);
        whole.rotational |= part.rotational;
        whole.flush = whole.flush.max(part.flush);
        whole.fua = whole.fua.min(part.fua.max(Support::Emulated));
        whole.trim = whole.trim.min(part.trim);
        whole.write_zeroes = whole
            .write_zeroes
            .min(part.write_zeroes.max(Support::Emulated));
        if rebuilt_to.is_none() && !member.superblock.fits(part.size) {
            let name = &member.name;
            let what = format!("{name} is smaller than its superblock says");
            return Err(ArrayError::refused(what, None));
        }
    }
    if whole.flush == Support::None {
        whole.fua = Support::None;
    }
    let logs = features::PPL | features::MULTIPLE_PPLS | features::JOURNAL;
    let has_log = |(member, _): (&Member, _)| member.superblock.features & logs != 0;
    if holders(assembly).any(has_log) && !options.read_only {
        // The log counts sectors, and has entries for what is written: zeroes are, and trims would be.
        whole.block_size = whole.block_size.max(SECTOR);
        whole.trim = Support::None;
        whole.write_zeroes = Support::Emulated;
    }
    if layout.parity().is_some() && whole.trim.any() {
        // Parity must fit what a trim leaves: whole rows are zeroed, which must cost no writes.
        whole.trim = match whole.write_zeroes {
            Support::Native => Support::Emulated,
            _ => Support::None,
        };
    }
    Ok(whole)
}

/// Whether the next commit writes the form of the array, and whether it drops partial parity logs.
fn writes(facts: &Facts, slots: &[Slot]) -> (bool, bool) {
    let reshaped = |slot: &Slot| slot.written().is_some_and(|of| of.reshape.is_some());
    let is_of_reshape = |slot: &Slot| slot.holds() && reshaped(slot);
    let drops_ppl = facts.reshape.is_some() || slots.iter().any(is_of_reshape);
    // A spare that was absent when a reshape ended still has it: with a part, the whole array would be refused for it.
    let has_old_form =
        |slot: &Slot| slot.is_left_behind() || slot.state == SlotState::Spare && reshaped(slot);
    (drops_ppl || slots.iter().any(has_old_form), drops_ppl)
}

fn state(
    assembly: Assembly,
    layout: Arc<Layout>,
    options: &ArrayOptions,
    fence: &Arc<ArrayFence>,
) -> State {
    let block = block_size(&assembly);
    let is_dirty = assembly.synced_to.is_some();
    let Assembly {
        facts,
        parts,
        others,
        events,
        ..
    } = assembly;
    let (roles, lead) = (roles(&parts, &others, &facts), is_one_away(&parts));
    let mut slots = Vec::new();
    let mut add = |member: Member, part, state| {
        let id = SlotId(slots.len());
        let target = target(id, &member, options, fence);
        slots.push(Slot::new(target, member, part, state));
        id
    };
    let mut held = Vec::new();
    for (index, part) in (0_u16..).zip(parts) {
        // A superblock knows no place of two forms.
        let known = |to| if facts.reshape.is_some() { 0 } else { to };
        let state = part
            .rebuilt_to
            .map_or(SlotState::InSync, |to| SlotState::Rebuilding(known(to)));
        held.push(part.member.map(|member| add(member, Some(index), state)));
    }
    for other in others {
        let (part, state) = slot_state(&other.kind, facts.member_size, is_dirty);
        let disk = in_blocks(&other.member.name, &other.member.disk, block);
        let member = Member {
            disk,
            ..other.member
        };
        add(member, part, state);
    }
    renumber(&mut slots);
    let (writes_form, drops_ppl) = writes(&facts, &slots);
    let awaits_ppl = slots.iter().any(Slot::awaits_ppl);
    if let Some(reshape) = &facts.reshape {
        let holders = slots.iter_mut().filter(|slot| slot.holds());
        holders.for_each(|slot| slot.move_data(reshape.moved));
    }
    State {
        fence: fence.clone(),
        facts,
        members: MemberTable::new(layout, slots, held, roles, events),
        ledger: CommitLedger::new(events, lead),
        bits: None,
        synced_to: None,
        fitting: FittingColumns::default(),
        journal_tail: None,
        locks: RangeLocks::default(),
        stopped: false,
        needs: 0,
        writes_form,
        drops_ppl,
        awaits_ppl,
        writes_policy: false,
        holders_first: false,
    }
}

/// A member as requests reach it. A remote one that is written is guarded.
fn target(
    slot: SlotId,
    member: &Member,
    options: &ArrayOptions,
    fence: &Arc<ArrayFence>,
) -> Arc<Target> {
    let guard = (member.remote && !options.read_only).then(|| member.guard(fence));
    let timeout = options.member_timeout;
    Arc::new(Target::new(slot, member, timeout, fence.clone(), guard))
}

/// Which part a disk that serves none had, and how it stands. After an unclean end (`is_dirty`) a replacement may lack what was being
/// written: it is copied again.
fn slot_state(kind: &OtherKind, member_size: u64, is_dirty: bool) -> (Option<u16>, SlotState) {
    match kind {
        OtherKind::Spare => (None, SlotState::Spare),
        OtherKind::Journal => (None, SlotState::Journal),
        OtherKind::Replacement { part, to } => {
            let to = if is_dirty {
                0
            } else {
                to.unwrap_or(member_size)
            };
            (Some(*part), SlotState::Replacing(to))
        }
        OtherKind::Stale { part, .. } => (Some(*part), SlotState::Stale),
        OtherKind::Failed => {
            let told = "it had failed before the array was opened";
            (None, SlotState::Failed(told.to_owned()))
        }
    }
}

/// A disk as one that can be written wherever the array can, which has blocks of `block` bytes: a disk that comes later
/// does not change those of an array that is in use.
pub(in crate::array) fn in_blocks(name: &str, disk: &Node, block: u32) -> Node {
    let larger = disk.geometry().block_size;
    if larger <= block {
        return disk.clone();
    }
    tracing::info!(
        "{name} has blocks of {larger} bytes, the array of {block}: what is written of parts of them takes longer"
    );
    match Blocks::new(disk.clone(), block) {
        Ok(smaller) => Arc::new(smaller),
        Err(_) => disk.clone(),
    }
}

/// Gives members that hold nothing another number where one has it that does: a spare was away, and its number was
/// given to a newcomer meanwhile.
fn renumber(slots: &mut [Slot]) {
    for index in 0..slots.len() {
        let number = slots[index].number;
        let is_taken = |(other, slot): (usize, &Slot)| {
            other != index && slot.number == number && (slot.holds() || other < index)
        };
        if !slots[index].holds() && slots.iter().enumerate().any(is_taken) {
            let most = slots.iter().map(|slot| slot.number).max();
            slots[index].number = most.unwrap_or(0) + 1;
        }
    }
}

/// The freshest member of those that hold a part.
fn freshest(parts: &[Part]) -> Option<&Superblock> {
    let holders = parts.iter().filter_map(|part| part.member.as_ref());
    let superblocks = holders.map(|member| &member.superblock);
    superblocks.max_by_key(|superblock| superblock.events)
}

/// Whether a member is not here that worked by what the others say.
fn is_one_away(parts: &[Part]) -> bool {
    let working = freshest(parts).map(Superblock::working).unwrap_or_default();
    let mut parts = parts.iter().zip(working);
    parts.any(|(part, worked)| worked && part.member.is_none())
}

/// The freshest table of roles; a member that is not here holds nothing.
fn roles(parts: &[Part], others: &[Other], facts: &Facts) -> Vec<Role> {
    let mut roles = freshest(parts).map_or_else(Vec::new, |fresh| fresh.roles.clone());
    if matches!(facts.version, Version::V0_90 { .. }) {
        roles.clear();
    }
    let known = parts.iter().filter_map(|part| part.member.as_ref());
    let known: Vec<u32> = known
        .chain(others.iter().map(|other| &other.member))
        .map(|member| member.superblock.number)
        .collect();
    for (number, role) in (0..).zip(&mut roles) {
        if matches!(role, Role::Active(_)) && !known.contains(&number) {
            *role = Role::Faulty;
        }
    }
    roles
}
