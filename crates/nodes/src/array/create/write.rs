//! What was planned, onto disks.
//!
//! # Invariants
//!
//! * Each step is durable on all disks before the next begins: what was there before is gone, bitmaps and logs,
//!   superblocks.

use std::sync::Arc;

use block::{IoBufs, IoError, Node, Range, WriteFlags};
use futures_util::future::try_join_all;

use super::plan::Planned;
use crate::Blocks;
use crate::array::ArrayError;
use crate::array::format::bad_blocks::BadBlocks;
use crate::array::format::bitmap::HEADER_LEN_USIZE;
use crate::array::format::r5l::JournalKey;
use crate::array::format::{self, PLACE_LEN, encode, is_superblock, places};
use crate::read_within;

/// What is written first of a bitmap that knows nothing: all bits, and those behind the last one too.
const ALL_SET: u8 = 0xff;

/// Writes new members on disks with these names.
pub(super) async fn write(members: Vec<((&str, &Node), &Planned)>) -> Result<(), ArrayError> {
    let all = members.iter();
    try_join_all(all.clone().map(async |((name, disk), _)| {
        let wiped = wipe(disk).await;
        wiped.map_err(|source| failed(name, source))
    }))
    .await?;
    try_join_all(all.clone().map(async |((name, disk), planned)| {
        let written = surroundings(disk, planned).await;
        written.map_err(|source| failed(name, source))
    }))
    .await?;
    try_join_all(all.map(async |((name, disk), planned)| {
        let written = superblock(disk, planned).await;
        written.map_err(|source| failed(name, source))
    }))
    .await?;
    Ok(())
}

fn failed(member: &str, source: IoError) -> ArrayError {
    ArrayError::Write {
        member: member.to_owned(),
        source,
    }
}

/// Makes superblocks of earlier arrays zeroes, wherever a disk may have one; durable when it returns.
///
/// # Errors
/// What reading or writing fails with.
pub(crate) async fn wipe(disk: &Node) -> Result<(), IoError> {
    let disk = &any_block(disk);
    let mut found = false;
    for (_, at) in places(disk.geometry().size) {
        let place = Range::new(at, PLACE_LEN);
        if is_superblock(&read_within(disk, place).await?) {
            let zeroes = bytes::Bytes::from(vec![0; place.len_usize()]);
            disk.write(place, [zeroes].into_iter().collect(), WriteFlags::empty())
                .await?;
            found = true;
        }
    }
    match found {
        true => disk.flush().await,
        false => Ok(()),
    }
}

/// Bitmap and logs.
async fn surroundings(disk: &Node, planned: &Planned) -> Result<(), IoError> {
    let disk = any_block(disk);
    if let (Some(bitmap), Some(place)) = (planned.bitmap, planned.places.bitmap) {
        let mut bytes = vec![ALL_SET; place.len_usize()];
        bytes[..HEADER_LEN_USIZE].copy_from_slice(&bitmap.encode(&[0; HEADER_LEN_USIZE]));
        put(&disk, place.offset, bytes).await?;
    }
    if let Some(place) = planned.places.ppl {
        // Behind the first header, too: what another array left there may not be found.
        put(&disk, place.offset, vec![0; place.len_usize()]).await?;
        if let Some(header) = &planned.ppl {
            put(&disk, place.offset, header.encode()).await?;
        }
    }
    if let Some(block) = &planned.journal {
        let key = JournalKey::of(planned.superblock.array);
        put(&disk, planned.places.data.offset, block.encode(key)).await?;
    }
    if let Some(place) = planned.places.log {
        let empty = BadBlocks::none(place.len, 0).ok();
        let empty = empty.and_then(|log| log.encode());
        let empty = empty.expect("an empty log has room");
        put(&disk, place.offset, empty).await?;
    }
    disk.flush().await
}

async fn superblock(disk: &Node, planned: &Planned) -> Result<(), IoError> {
    let disk = any_block(disk);
    let at = planned.places.superblock;
    let bytes = encode(&planned.superblock, at);
    let version = planned.superblock.version;
    let block = disk.geometry().block_size;
    let written = format::written(&bytes, version, block).to_vec();
    put(&disk, at, written).await?;
    disk.flush().await
}

async fn put(disk: &Node, at: u64, bytes: Vec<u8>) -> Result<(), IoError> {
    let range = Range::new(at, bytes.len() as u64);
    let data: IoBufs = [bytes::Bytes::from(bytes)].into_iter().collect();
    disk.write(range, data, WriteFlags::empty()).await
}

/// The disk, with blocks of at most 4 KiB: everything of an array is a multiple of that.
fn any_block(disk: &Node) -> Node {
    let largest = 4096;
    if disk.geometry().block_size <= largest {
        return disk.clone();
    }
    let smaller = Blocks::new(disk.clone(), largest);
    Arc::new(smaller.expect("4096 is a block size"))
}
