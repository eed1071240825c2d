//! The first metadata of a volume that LVM made and that was never in use: as Linux, when it activates it.
//!
//! # Invariants
//!
//! * Bitmaps, all bits set, are durable on all images before a superblock is: a volume that has one is resynced whole. With
//!   [`NewContent::Synced`] no bit is set, and it is not.
//! * A volume of which a power cut left some images without a superblock is still new
//!   ([`Expectation::is_new`](super::picture::Expectation::is_new)).

use block::{IoError, Node, Range, WriteFlags};

use super::RaidError;
use super::picture::FIRST_EVENTS;
use crate::array::Facts;
use crate::array::format::PLACE_LEN;
use crate::array::format::bitmap::{Bitmap, Bits, HEADER_LEN_USIZE};
use crate::array::format::dm_raid::{BITMAP_AT, DmRaid};
use crate::guard::flush;

/// What the images of a new volume hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewContent {
    /// Anything: they are to be resynced.
    Unknown,
    /// What counts as equal.
    Synced,
}

/// The metadata of one image as bytes.
struct NewMetadata {
    superblock: Vec<u8>,
    bitmap: Vec<u8>,
}

/// Writes the metadata of all images. `region_size`: bytes for each bit of the bitmaps.
///
/// # Errors
/// What does not fit; or a write failed, and the volume is still new.
pub(super) async fn initialize(
    facts: &Facts,
    region_size: u64,
    content: NewContent,
    metadata: &[Node],
) -> Result<(), RaidError> {
    let mut all = Vec::with_capacity(metadata.len());
    for (position, disk) in (0..).zip(metadata) {
        let new = new_metadata(facts, region_size, content, position).map_err(|what| {
            let what = format!("{} cannot have a bitmap: {what}", facts.name);
            RaidError::refused(what, "make it with another region size")
        })?;
        let end = BITMAP_AT + new.bitmap.len() as u64;
        let (size, block) = (disk.geometry().size, disk.geometry().block_size);
        if end > size || u64::from(block) > PLACE_LEN || disk.geometry().read_only {
            let what = format!(
                "the metadata of image {position} of {} need {end} bytes that can be written, in blocks of at most {PLACE_LEN}",
                facts.name
            );
            return Err(RaidError::refused(what, "open the volume read-only"));
        }
        all.push(new);
    }
    for (position, (disk, new)) in metadata.iter().zip(&all).enumerate() {
        let written = write(disk, BITMAP_AT, &new.bitmap).await;
        written.map_err(|source| failed(facts, position, source))?;
    }
    for (position, (disk, new)) in metadata.iter().zip(&all).enumerate() {
        let written = write(disk, 0, &new.superblock).await;
        written.map_err(|source| failed(facts, position, source))?;
    }
    Ok(())
}

pub(super) fn failed(facts: &Facts, position: usize, source: IoError) -> RaidError {
    RaidError::Write {
        image: format!("{}_rimage_{position}", facts.name),
        source,
    }
}

/// The metadata of the image at a position: the volume is dirty, all of it, or clean.
fn new_metadata(
    facts: &Facts,
    region_size: u64,
    content: NewContent,
    position: u32,
) -> Result<NewMetadata, String> {
    let own = DmRaid {
        events: FIRST_EVENTS,
        layout: facts.layout,
        chunk: facts.chunk,
        array_size: facts.size,
        image_size: facts.member_size,
        synced_to: match content {
            NewContent::Unknown => Some(0),
            NewContent::Synced => None,
        },
        ..DmRaid::new(facts.parts, position, facts.level)
    };
    let own = own.with_present_form();
    let superblock = own.superblock();
    let chunk = u32::try_from(region_size).map_err(|e| e.to_string())?;
    let header = Bitmap::of(&superblock, chunk).ok_or("its level has none")?;
    let shape = header.shape(&superblock).map_err(|e| e.to_string())?;
    let bits = match content {
        NewContent::Unknown => Bits::full(shape),
        NewContent::Synced => Bits::clear(shape),
    };
    let place = Range::new(BITMAP_AT, shape.pages() * PLACE_LEN);
    let header = header.encode(&[0; HEADER_LEN_USIZE]);
    let pages = (0..shape.pages()).map(|page| {
        let len = shape.page_at(page, place).len_usize();
        bits.page(page, &header, len)
    });
    Ok(NewMetadata {
        superblock: own.encode(&vec![0; Range::new(0, PLACE_LEN).len_usize()]),
        bitmap: pages.flatten().collect(),
    })
}

/// Writes bytes of an image's metadata durably.
pub(super) async fn write(disk: &Node, at: u64, bytes: &[u8]) -> Result<(), IoError> {
    let range = Range::new(at, bytes.len() as u64);
    let data = std::iter::once(bytes::Bytes::copy_from_slice(bytes)).collect();
    disk.write(range, data, WriteFlags::empty()).await?;
    flush(disk).await
}
