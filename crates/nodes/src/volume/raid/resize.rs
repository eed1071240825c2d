//! The metadata of a volume that got another size, which LVM's text has already: as Linux writes them when it activates it.
//!
//! ```text
//! bitmaps of the new size on all images ─► flush ─► superblocks with the new size and one event more ─► flush
//! ```
//!
//! # Invariants
//!
//! * What was added is out of sync: its bits are set in the bitmaps of all images before a superblock has the new size, and
//!   that says that the volume is dirty. Bits that were set stay set on all images.
//! * Until all superblocks have the new size the volume counts as resized, and all is done again: after a power cut at any
//!   point no region that was added is taken to be in sync.
//! * Nothing is written unless all images are there, in sync, and have room for the new bitmap.

use block::{IoError, Node, Range};

use super::initialize::{failed, write};
use super::picture::ImageRecord;
use super::{RaidError, RaidImageDisks};
use crate::array::Facts;
use crate::array::format::PLACE_LEN;
use crate::array::format::bitmap::{self, Bitmap, Bits, HEADER_LEN, HEADER_LEN_USIZE, Shape};
use crate::array::format::dm_raid::{BITMAP_AT, DmRaid};
use crate::read::read_within;

/// An image of which the metadata have the old size.
pub(super) struct OldImage<'a> {
    /// Its metadata.
    pub(super) disk: &'a Node,
    /// What they say.
    pub(super) own: &'a DmRaid,
}

/// The images of a volume of which all are there, with metadata that can be given another size; `None`: not all are.
pub(super) fn old_images<'a>(
    images: &'a [RaidImageDisks],
    records: &'a [ImageRecord],
) -> Option<Vec<OldImage<'a>>> {
    let both = images.iter().zip(records);
    let old = both.map(|(image, record)| match (&image.metadata, record) {
        (Some(disk), ImageRecord::Superblock(own)) if own.is_extended() => {
            Some(OldImage { disk, own })
        }
        _ => None,
    });
    old.collect()
}

/// Writes the metadata of all images with the size of `facts`. `fresh`: the metadata that count.
///
/// # Errors
/// What does not fit; or a write failed, and the volume counts as resized still.
pub(super) async fn finish(
    facts: &Facts,
    fresh: &DmRaid,
    images: &[OldImage<'_>],
) -> Result<(), RaidError> {
    let mut bits: Option<Bits> = None;
    let mut headers = Vec::with_capacity(images.len());
    for (position, image) in images.iter().enumerate() {
        let read = read_bitmap(facts, image).await;
        let (header, own) = read.map_err(|what| {
            let name = &facts.name;
            let what = format!("{name} cannot have its new size: image {position}: {what}");
            RaidError::refused(what, "open it read-only, or activate it once with Linux")
        })?;
        headers.push(header);
        match &mut bits {
            Some(bits) => bits.unite(&own),
            None => bits = Some(own),
        }
    }
    let Some(bits) = bits else {
        return Ok(());
    };
    let events = fresh.events + 1;
    for (position, (image, header)) in images.iter().zip(&headers).enumerate() {
        let bytes = encode_bitmap(&bits, header, events);
        let written = write(image.disk, BITMAP_AT, &bytes).await;
        written.map_err(|source| failed(facts, position, source))?;
    }
    let synced_to = match bits.count() {
        0 => fresh.synced_to,
        _ => Some(0),
    };
    for (position, image) in images.iter().enumerate() {
        let own = DmRaid {
            events,
            synced_to,
            array_size: facts.size,
            image_size: facts.member_size,
            ..image.own.clone()
        };
        let written = write_superblock(image.disk, &own).await;
        written.map_err(|source| failed(facts, position, source))?;
    }
    Ok(())
}

/// The header of an image's bitmap, and its bits in the shape of the volume as it is now: what is not known is set.
async fn read_bitmap(
    facts: &Facts,
    image: &OldImage<'_>,
) -> Result<([u8; HEADER_LEN_USIZE], Bits), String> {
    let geometry = image.disk.geometry();
    if u64::from(geometry.block_size) > PLACE_LEN || geometry.read_only {
        return Err(format!(
            "it cannot be written in blocks of {PLACE_LEN} bytes"
        ));
    }
    let bytes = read_within(image.disk, Range::new(BITMAP_AT, HEADER_LEN)).await;
    let bytes = bytes.map_err(|error| error.to_string())?;
    let header = Bitmap::decode(&bytes).map_err(|problem| problem.to_string())?;
    // Checks the version, too.
    let shape = header.shape(&image.own.superblock());
    shape.map_err(|problem| problem.to_string())?;
    let new = DmRaid {
        array_size: facts.size,
        image_size: facts.member_size,
        ..image.own.clone()
    };
    let covered = |own: &DmRaid| bitmap::covered(&own.superblock()).ok_or("it has no bitmap");
    let size = covered(&new)?;
    let shape = Shape::new(size, header.chunk).map_err(|problem| problem.to_string())?;
    let (len, end) = (shape.len_on_disk(), BITMAP_AT + shape.pages() * PLACE_LEN);
    if end > geometry.size {
        let has = geometry.size;
        return Err(format!("its metadata need {end} bytes, and have {has}"));
    }
    let on_disk = read_within(image.disk, Range::new(BITMAP_AT, len)).await;
    let on_disk = on_disk.map_err(|error| error.to_string())?;
    let known = match header.is_stale(image.own.events) {
        true => 0,
        false => header.size.min(covered(image.own)?),
    };
    let raw = bytes.try_into().map_err(|_| "its bitmap is cut off")?;
    Ok((raw, Bits::decode(shape, &on_disk, known)))
}

/// A bitmap as bytes: whole pages.
fn encode_bitmap(bits: &Bits, before: &[u8; HEADER_LEN_USIZE], events: u64) -> Vec<u8> {
    let shape = bits.shape();
    let header = Bitmap::decode(before).expect("it was decoded before");
    let header = Bitmap {
        events,
        size: shape.size(),
        stale: false,
        ..header
    };
    let header = header.encode(before);
    let place = Range::new(BITMAP_AT, shape.pages() * PLACE_LEN);
    let pages = (0..shape.pages()).map(|page| {
        let len = shape.page_at(page, place).len_usize();
        bits.page(page, &header, len)
    });
    pages.flatten().collect()
}

/// Writes the superblock of an image; what is behind it in its block stays.
async fn write_superblock(disk: &Node, own: &DmRaid) -> Result<(), IoError> {
    let mut bytes = read_within(disk, Range::new(0, PLACE_LEN)).await?;
    bytes.resize(Range::new(0, PLACE_LEN).len_usize(), 0);
    write(disk, 0, &own.encode(&bytes)).await
}
