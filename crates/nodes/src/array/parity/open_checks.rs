//! What an array must be to be opened, and what of it is lost from the beginning. Pure.

use block::{Geometry, Range, Support};

use super::super::ArrayError;
use super::super::assembly::{Assembly, Facts};
use super::super::format::bitmap::Bits;
use super::super::format::features;
use super::super::member::Member;
use super::layout::Layout;
use super::unreadable::Lost;

/// Bits of a bitmap that are distinguished; behind them all of an array is taken to be out of sync.
const UNSYNCED_MAX: usize = 65_536;

/// The layout of an array, if it has one.
pub(in crate::array) fn layout(facts: &Facts) -> Result<Layout, ArrayError> {
    let layout = Layout::new(facts.level, facts.layout, facts.parts, facts.chunk);
    let layout = layout.map_err(|what| ArrayError::refused(what, None))?;
    let rows = facts.member_size / layout.chunk;
    let fits = rows.checked_mul(layout.row_len()) == Some(facts.size);
    if !fits || i64::try_from(facts.size).is_err() {
        let what = format!(
            "{} parts of {} bytes in chunks of {} bytes are no {} of {} bytes",
            facts.parts, facts.member_size, facts.chunk, facts.level, facts.size
        );
        return Err(ArrayError::refused(what, None));
    }
    Ok(layout)
}

/// The array as a disk: read-only, in the largest blocks that a member has.
pub(super) fn geometry(assembly: &Assembly, layout: &Layout) -> Result<Geometry, ArrayError> {
    let mut whole = Geometry {
        read_only: true,
        flush: Support::None,
        fua: Support::None,
        trim: Support::None,
        write_zeroes: Support::None,
        ..Geometry::native(assembly.facts.size)
    };
    let members = || {
        let parts = assembly.parts.iter();
        parts.filter_map(|part| part.member.as_ref())
    };
    for member in members() {
        let of = member.disk.geometry();
        whole.block_size = whole.block_size.max(of.block_size);
        whole.preferred_block_size = whole.preferred_block_size.max(of.preferred_block_size);
        whole.rotational |= of.rotational;
    }
    for member in members() {
        check(
            member,
            assembly.facts.member_size,
            layout.chunk,
            whole.block_size,
        )?;
    }
    Ok(whole)
}

/// Checks that a member has its data, in whole blocks.
fn check(member: &Member, used: u64, chunk: u64, block_size: u32) -> Result<(), ArrayError> {
    let (name, data) = (&member.name, member.superblock.data);
    let size = member.disk.geometry().size;
    if data.len < used || data.check(size, 1).is_err() {
        let what = format!(
            "{name} is too small: it has {size} bytes, and should have {used} from byte {} on",
            data.offset
        );
        return Err(ArrayError::refused(what, None));
    }
    let block = u64::from(block_size);
    if !data.offset.is_multiple_of(block) || !chunk.is_multiple_of(block) {
        let what = format!(
            "the data of {name} begins at byte {}, in chunks of {chunk} bytes: that is not made of \
             whole blocks of {block_size} bytes, which a member has",
            data.offset
        );
        let next = "put smaller blocks on the members: blocks(DISK, size=512)";
        return Err(ArrayError::refused(what, next));
    }
    Ok(())
}

/// What cannot be read from the beginning.
pub(super) fn lost(assembly: &Assembly, block_size: u32) -> Lost {
    let used = assembly.facts.member_size;
    let whole = Range::new(0, used);
    let mut lost = Lost::nothing(assembly.parts.len(), block_size.into());
    for (index, part) in assembly.parts.iter().enumerate() {
        let Some(member) = &part.member else {
            lost.add(index, whole);
            continue;
        };
        if let Some(to) = part.rebuilt_to.filter(|to| *to < used) {
            // Blocks that are rebuilt in part are not.
            lost.add(index, Range::new(to, used - to));
        }
        for bad in &member.bad {
            let start = bad.offset.min(used);
            let end = bad.offset.saturating_add(bad.len).min(used);
            lost.add(index, Range::new(start, end - start));
        }
    }
    lost
}

/// Whether members say that there is a journal, and it is not here.
fn lacks_journal(assembly: &Assembly) -> bool {
    let mut members = assembly
        .parts
        .iter()
        .filter_map(|part| part.member.as_ref());
    let has_one = members.any(|member| member.superblock.features & features::JOURNAL != 0);
    has_one && assembly.journal().is_none()
}

/// Adds where parity is not to be trusted: what was not in sync, of it only what the bitmap says.
pub(super) fn distrust(lost: &mut Lost, assembly: &Assembly, bits: Option<&Bits>) {
    let used = assembly.facts.member_size;
    if lacks_journal(assembly) {
        // What was being written is known to the journal alone.
        lost.add_unsynced(Range::new(0, used));
        return;
    }
    let Some(to) = assembly.synced_to.filter(|to| *to < used) else {
        return;
    };
    let Some(bits) = bits else {
        lost.add_unsynced(Range::new(to, used - to));
        return;
    };
    for (count, bit) in bits.ones().enumerate() {
        let dirty = bits.shape().range_of(bit);
        if count == UNSYNCED_MAX {
            let start = dirty.offset.max(to);
            lost.add_unsynced(Range::new(start, used.saturating_sub(start)));
            return;
        }
        let (start, end) = (dirty.offset.max(to), dirty.end().min(used));
        if start < end {
            lost.add_unsynced(Range::new(start, end - start));
        }
    }
}
