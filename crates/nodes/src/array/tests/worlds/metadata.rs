//! What must be true of every disk's superblock and bitmap after any cut.

use super::shape::Shape;
use super::world::Wrong;
use crate::array::format::bitmap::Bitmap;
use crate::array::format::{self, PLACE_LEN, Role, Superblock, features};

const NONE: &str = "there is no superblock";

/// The superblock of an image.
pub(super) fn superblock(shape: Shape, image: &[u8]) -> Result<Superblock, Wrong> {
    let at = shape.places().superblock;
    let start = usize::try_from(at).expect("small");
    let place = start..start + usize::try_from(PLACE_LEN).expect("small");
    match format::decode(shape.version, at, &image[place]) {
        Ok(Some(superblock)) => Ok(superblock),
        Ok(None) => Err(NONE.to_owned()),
        Err(problem) => Err(format!("its superblock is invalid: {problem}")),
    }
}

/// Whether an image has a superblock of the old kind of which only some sectors were written: 1.x have one.
pub(super) fn is_torn(shape: Shape, image: &[u8]) -> bool {
    shape.is_old() && superblock(shape, image).is_err_and(|what| what != NONE)
}

/// Whether an image has no superblock at all, valid or not.
pub(super) fn is_blank(shape: Shape, image: &[u8]) -> bool {
    superblock(shape, image).is_err_and(|what| what == NONE)
}

/// Whether a member knows that it lacks some of what it should have.
pub(super) fn has_bad(shape: Shape, image: &[u8]) -> bool {
    superblock(shape, image).is_ok_and(|superblock| superblock.features & features::BAD_BLOCKS != 0)
}

/// Whether a member holds its part whole, by its own word. With partial parity logs a replacement needs that of others.
pub(super) fn is_whole(shape: Shape, image: &[u8]) -> bool {
    let holds = |superblock: &Superblock| matches!(superblock.role, Role::Active(_));
    let replaces = |superblock: &Superblock| {
        superblock.keeps_ppl() && superblock.features & features::REPLACEMENT != 0
    };
    superblock(shape, image).is_ok_and(|found| {
        found.rebuilt_to.is_none() && (holds(&found) || !shape.is_old()) && !replaces(&found)
    })
}

/// The header of an image's bitmap.
fn bitmap(shape: Shape, image: &[u8]) -> Result<Bitmap, Wrong> {
    let start = usize::try_from(shape.places().bitmap).expect("small");
    Bitmap::decode(&image[start..start + 256]).map_err(|problem| problem.to_string())
}

/// What an image says of itself, for people.
pub(super) fn described(shape: Shape, image: &[u8]) -> String {
    match superblock(shape, image) {
        Ok(of) => format!(
            "number {} of {}, {:?}, {} events",
            of.number, of.members, of.role, of.events
        ),
        Err(what) => what,
    }
}

/// Looks at what a cut left of a disk that ignores flushes: nothing that it acknowledged need be durable, but what is there of a
/// superblock was written so.
pub(super) fn check_liar(shape: Shape, image: &[u8]) -> Result<(), Wrong> {
    if is_torn(shape, image) || is_blank(shape, image) {
        return Ok(());
    }
    superblock(shape, image).map(drop)
}

/// Looks at what a cut left of a disk that was `before` when it was plugged in.
pub(super) fn check(shape: Shape, image: &[u8], before: Option<&[u8]>) -> Result<(), Wrong> {
    let now = superblock(shape, image)?;
    // A spare gets its bitmap with a part.
    let holds = matches!(now.role, Role::Active(_));
    if let Some(wanted) = shape.bitmap.filter(|_| holds) {
        let header = bitmap(shape, image)?;
        if header.chunk != wanted {
            return Err(format!("its bitmap has chunks of {} bytes", header.chunk));
        }
    }
    if let Some(before) = before {
        let then = superblock(shape, before)?;
        if now.events < then.events {
            let (now, then) = (now.events, then.events);
            return Err(format!("its events went back from {then} to {now}"));
        }
    }
    Ok(())
}
