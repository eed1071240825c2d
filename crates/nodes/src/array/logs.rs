//! What members keep next to their superblocks: bitmaps and logs of bad blocks, read and nothing else.

use block::{IoError, Node, Range};

use super::ArrayError;
use super::format::bad_blocks::{BadBlocks, LOG_MAX, of_data};
use super::format::bitmap::{Bitmap, Bits};
use super::format::{Superblock, features};
use crate::read_within;

/// The bits of a bitmap that has this header. `None`: it cannot be used with that superblock.
pub(super) async fn bits(
    disk: &Node,
    superblock: &Superblock,
    header: &Bitmap,
) -> Result<Option<Bits>, IoError> {
    let (Some(at), Ok(shape)) = (superblock.bitmap_at, header.shape(superblock)) else {
        return Ok(None);
    };
    let bytes = read_within(disk, Range::new(at, shape.len_on_disk())).await?;
    Ok(Some(Bits::decode(shape, &bytes, header.size)))
}

/// What cannot be read of a member, by its own log; bytes of its data, counted from [`Superblock::first_data_at`].
pub(super) async fn bad(
    name: &str,
    disk: &Node,
    superblock: &Superblock,
) -> Result<Vec<Range>, ArrayError> {
    let Some(place) = superblock.bad_blocks else {
        return Ok(Vec::new());
    };
    if superblock.features & features::BAD_BLOCKS == 0 {
        return Ok(Vec::new());
    }
    // Enough to see that it is too long.
    let place = Range::new(place.offset, place.len.min(LOG_MAX + 1));
    let read = read_within(disk, place).await;
    let log = read.map_err(|source| ArrayError::Read {
        member: name.to_owned(),
        source,
    })?;
    let found = BadBlocks::decode(&log, superblock.bad_blocks_shift).map_err(|problem| {
        ArrayError::refused(
            format!("{name}: {problem}"),
            "leave it out: which of its blocks are bad is not known",
        )
    })?;
    let data_at = superblock.first_data_at();
    let runs = found.runs().iter();
    Ok(runs.filter_map(|run| of_data(data_at, *run)).collect())
}
