//! [`Facts`] of a set of members: what all agree on, and the array's size. Pure.

use super::{Picture, Rules, Witness, layout_of};
use crate::array::ArrayError;
use crate::array::assembly::{Facts, ReshapeFacts};
use crate::array::format::{Level, Reshape};
use crate::array::layout::{linear, raid0};
use crate::array::striped::raid0_layout;

/// What the freshest member says, and what follows from it.
pub(super) fn of(
    witnesses: &[Witness],
    picture: &Picture,
    rules: &Rules,
) -> Result<Facts, ArrayError> {
    let fresh = &witnesses[picture.freshest].superblock;
    let size = match fresh.level {
        Level::Linear | Level::Raid0 => striped(witnesses, picture, rules)?,
        _ => fresh.array_size(),
    };
    let size = size.filter(|size| i64::try_from(*size).is_ok() && *size > 0);
    let size = size.ok_or_else(|| {
        let name = &witnesses[picture.freshest].name;
        ArrayError::refused(
            format!("{name} records an array of an impossible size"),
            "see `outboard inspect` for what the other disks say",
        )
    })?;
    let facts = Facts {
        uuid: fresh.array,
        name: fresh.name.clone(),
        version: fresh.version,
        level: fresh.level,
        layout: layout_of(fresh),
        chunk: fresh.chunk,
        parts: fresh.members,
        member_size: fresh.member_size,
        size,
        reshape: None,
    };
    Ok(match &fresh.reshape {
        Some(reshape) => reshaped(facts, reshape),
        None => facts,
    })
}

/// The same, of an array that is being reshaped in a way that is known here (`single_member`).
fn reshaped(facts: Facts, reshape: &Reshape) -> Facts {
    Facts {
        layout: reshape.layout,
        chunk: reshape.chunk,
        reshape: Some(ReshapeFacts {
            position: reshape.position,
            layout: facts.layout,
            chunk: facts.chunk,
            parts: reshape.parts_before(facts.parts),
            moved: reshape.data_moved.unsigned_abs(),
        }),
        ..facts
    }
}

/// Of levels with members that may differ; all of them must be here for that, and whether they are is judged
/// later: without them the size is a guess that is not used.
fn striped(
    witnesses: &[Witness],
    picture: &Picture,
    rules: &Rules,
) -> Result<Option<u64>, ArrayError> {
    let fresh = &witnesses[picture.freshest].superblock;
    let holders = picture.holders(fresh.members);
    let lens: Vec<u64> = holders
        .iter()
        .flatten()
        .map(|&index| witnesses[index].superblock.data.len)
        .collect();
    let sum = |lens: Vec<u64>| lens.into_iter().try_fold(0, u64::checked_add);
    if fresh.level == Level::Linear {
        let runs = linear::runs(&lens, fresh.chunk);
        return Ok(sum(runs.iter().map(|run| run.within.len).collect()));
    }
    let layout = raid0_layout(layout_of(fresh), rules.raid0_layout);
    if raid0::zones(&lens, fresh.chunk, layout).is_none() {
        let name = &fresh.name;
        return Err(ArrayError::refused(
            format!(
                "the members of RAID 0 array {name} differ in size, and it does not say how they are used"
            ),
            "add raid0-layout=original if a kernel before 3.14 made it, else raid0-layout=alternate; \
             read-only first: with the wrong one, the data is garbage",
        ));
    }
    Ok(raid0::size(&lens, fresh.chunk))
}
