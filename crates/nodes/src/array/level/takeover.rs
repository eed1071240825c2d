//! [`takeover`]: the form that an array has once it has another level. Pure.

use super::super::ArrayError;
use super::super::format::{Form, Level, Superblock, layout_name};
use block::Range;

/// Layouts of level 6 from this number on are those of level 5, with Q on the last member.
const Q_LAST: u32 = 16;
/// Parity is on the last member, by the numbers of level 5; of level 6: P and Q are on the last two.
pub(in crate::array) const PARITY_LAST: u32 = 5;
/// What level 5 has of two members: each chunk and its parity.
const LEFT_SYMMETRIC: u32 = 2;
/// Members of level 5 that level 6 takes over.
const MEMBERS: std::ops::RangeInclusive<u32> = 3..=253;
/// Chunks that a mirror is cut into: the largest, and the smallest, bytes.
const CHUNK_MAX: u64 = 64 << 10;
const CHUNK_MIN: u64 = 4096;

/// What a level says of how data lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct LevelForm {
    pub(in crate::array) level: Level,
    pub(in crate::array) layout: u32,
    pub(in crate::array) chunk: u64,
    pub(in crate::array) parts: u32,
    /// Bytes of each member that are used, of level 0, too.
    pub(in crate::array) member_size: u64,
}

impl LevelForm {
    /// What a superblock says.
    pub(in crate::array) fn of(superblock: &Superblock) -> Self {
        let chunk = superblock.chunk;
        let is_striped = superblock.level == Level::Raid0;
        Self {
            level: superblock.level,
            layout: match superblock.level {
                // Of one zone it means nothing, and md does not look at that of level 4.
                Level::Raid0 | Level::Raid4 => 0,
                _ => superblock.layout,
            },
            chunk,
            parts: superblock.members,
            member_size: match is_striped {
                true => whole(superblock.data.len, chunk),
                false => superblock.member_size,
            },
        }
    }

    /// What the superblocks of all members say, where each of them uses as much. `None`: they do not, or there is none.
    pub(in crate::array) fn of_all<'a>(
        superblocks: impl IntoIterator<Item = &'a Superblock>,
    ) -> Option<Self> {
        let mut forms = superblocks.into_iter().map(Self::of);
        let first = forms.next()?;
        let are_alike = forms.all(|other| other.member_size == first.member_size);
        are_alike.then_some(first)
    }

    /// The number that superblocks have for its layout.
    pub(super) const fn layout_number(&self, from: Level) -> u32 {
        match (from, self.level) {
            // As Linux.
            (Level::Raid0, Level::Raid4) => PARITY_LAST,
            _ => self.layout,
        }
    }

    /// What the superblock of a member changes that keeps `data`.
    pub(super) fn form(&self, from: Level, data: Range) -> Form {
        let is_striped = self.level == Level::Raid0;
        Form {
            level: self.level,
            layout: self.layout_number(from),
            chunk: self.chunk,
            data: match is_striped {
                true => Range::new(data.offset, self.member_size),
                false => data,
            },
            member_size: if is_striped { 0 } else { self.member_size },
            drops_ppl: true,
            reshape: None,
        }
    }
}

/// Bytes of whole chunks.
const fn whole(len: u64, chunk: u64) -> u64 {
    match chunk {
        0 => len,
        chunk => len / chunk * chunk,
    }
}

/// The form that an array of form `of` has once it is of level `to`.
///
/// # Errors
/// It does not become one, and what to do first.
pub(in crate::array) fn takeover(of: LevelForm, to: Level) -> Result<LevelForm, ArrayError> {
    let refused = |what: String, next: &'static str| Err(ArrayError::refused(what, next));
    let from = of.level;
    if from == to {
        return Err(ArrayError::refused(
            format!("the array is {to} already"),
            None,
        ));
    }
    let after = LevelForm { level: to, ..of };
    match (from, to) {
        (Level::Raid5, Level::Raid6) if MEMBERS.contains(&of.parts) => Ok(LevelForm {
            layout: match of.layout {
                PARITY_LAST => PARITY_LAST,
                layout => Q_LAST.saturating_add(layout),
            },
            parts: of.parts + 1,
            ..after
        }),
        (Level::Raid5, Level::Raid6) => {
            let (least, most) = (MEMBERS.start(), MEMBERS.end());
            let what = format!(
                "{from} of {} members does not become {to}: it has {least} to {most} then",
                of.parts
            );
            refused(what, "grow it first: --devices")
        }
        (Level::Raid6, Level::Raid5) => without_q(of),
        (Level::Raid4, Level::Raid5) => Ok(LevelForm {
            layout: PARITY_LAST,
            ..after
        }),
        (Level::Raid5, Level::Raid4) if of.layout == PARITY_LAST => {
            Ok(LevelForm { layout: 0, ..after })
        }
        (Level::Raid5, Level::Raid1) => to_mirror(of),
        (Level::Raid1, Level::Raid5) => of_mirror(of),
        (Level::Raid0, Level::Raid4 | Level::Raid5) => with_parity(of, to),
        (Level::Raid4 | Level::Raid5, Level::Raid0)
            if from == Level::Raid4 || of.layout == PARITY_LAST =>
        {
            Ok(LevelForm {
                layout: 0,
                parts: of.parts.saturating_sub(1),
                member_size: whole(of.member_size, of.chunk),
                ..after
            })
        }
        (Level::Raid5, Level::Raid4 | Level::Raid0) => {
            let layout = layout_name(from, of.layout).unwrap_or_default();
            let what = format!("{from} with layout {layout} does not become {to}");
            refused(
                what,
                "move parity to the last member first: --layout parity-last",
            )
        }
        _ => {
            let next = "levels that follow each other: 0 and 4 or 5, 4 and 5, 5 and 6, and 1 and 5 of two members";
            refused(format!("{from} does not become {to}"), next)
        }
    }
}

/// Level 5 of a level 6 that has Q on the last member.
fn without_q(of: LevelForm) -> Result<LevelForm, ArrayError> {
    let layout = match of.layout {
        PARITY_LAST => Some(PARITY_LAST),
        layout => layout.checked_sub(Q_LAST),
    };
    let Some(layout) = layout else {
        let layout = layout_name(of.level, of.layout).unwrap_or_default();
        return Err(ArrayError::refused(
            format!(
                "{} with layout {layout} does not become {}: no member has Q alone",
                of.level,
                Level::Raid5
            ),
            "move Q to the last member first: --layout left-symmetric-6",
        ));
    };
    Ok(LevelForm {
        level: Level::Raid5,
        layout,
        parts: of.parts.saturating_sub(1),
        ..of
    })
}

/// Level 1 of a level 5 of two members.
fn to_mirror(of: LevelForm) -> Result<LevelForm, ArrayError> {
    if of.parts != 2 {
        return Err(ArrayError::refused(
            format!(
                "{} of {} members does not become {}: only one of two does",
                of.level,
                of.parts,
                Level::Raid1
            ),
            "make a mirror and copy the array",
        ));
    }
    Ok(LevelForm {
        level: Level::Raid1,
        layout: 0,
        chunk: 0,
        parts: 2,
        member_size: whole(of.member_size, of.chunk),
    })
}

/// Level 5 of a mirror of two members.
fn of_mirror(of: LevelForm) -> Result<LevelForm, ArrayError> {
    if of.parts != 2 {
        return Err(ArrayError::refused(
            format!(
                "a mirror of {} copies does not become {}: only one of two does",
                of.parts,
                Level::Raid5
            ),
            "give it two copies first: --copies 2",
        ));
    }
    let largest = match of.member_size {
        0 => 0,
        size => 1 << size.trailing_zeros(),
    };
    let chunk = CHUNK_MAX.min(largest);
    if chunk < CHUNK_MIN {
        return Err(ArrayError::refused(
            format!("a mirror of {} bytes is not made of chunks", of.member_size),
            "enlarge it to a multiple of 4 KiB first: outboard array size",
        ));
    }
    Ok(LevelForm {
        level: Level::Raid5,
        layout: LEFT_SYMMETRIC,
        chunk,
        parts: 2,
        member_size: of.member_size,
    })
}

/// Level 4 or 5 of a stripe, with parity on a member more.
fn with_parity(of: LevelForm, to: Level) -> Result<LevelForm, ArrayError> {
    if !of.chunk.is_power_of_two() || of.chunk < CHUNK_MIN {
        return Err(ArrayError::refused(
            format!(
                "{} with chunks of {} bytes does not become {to}",
                of.level, of.chunk
            ),
            "chunks are powers of two from 4 KiB on: make a new array and copy it",
        ));
    }
    Ok(LevelForm {
        level: to,
        layout: match to {
            Level::Raid4 => 0,
            _ => PARITY_LAST,
        },
        parts: of.parts.saturating_add(1),
        ..of
    })
}
