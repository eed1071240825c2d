//! The write-intent bitmaps of a volume's images: which one the engine works with, and whether any bit is set.
//!
//! # Invariants
//!
//! * A bitmap that cannot be read, or does not fit the volume, counts as one with all bits set.

use block::Range;

use super::open::has_parity;
use super::picture::Picture;
use crate::array::Part;
use crate::array::format::bitmap::{Bitmap, Bits, HEADER_LEN};
use crate::array::format::{Level, Superblock};
use crate::read::read_within;

/// What the bitmaps of a volume say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BitmapFindings {
    /// The freshest one, where all of them fit the volume.
    pub(super) used: Option<Bitmap>,
    /// A region may have been written when the volume was used last, or that is not known.
    pub(super) any_set: bool,
}

/// Reads the bitmaps of all images in sync. `events`: those of the freshest metadata.
pub(super) async fn findings(parts: &[Part], events: u64) -> BitmapFindings {
    let mut findings = BitmapFindings {
        used: None,
        any_set: false,
    };
    let mut all_fit = true;
    let in_sync = parts.iter().filter(|part| part.rebuilt_to.is_none());
    for member in in_sync.filter_map(|part| part.member.as_ref()) {
        let Some((header, is_clear)) = read(&member.disk, &member.superblock).await else {
            all_fit = false;
            continue;
        };
        findings.any_set |= !is_clear;
        if findings.used.is_none() && member.superblock.events == events {
            findings.used = Some(header);
        }
    }
    if !all_fit || findings.used.is_none() {
        return BitmapFindings {
            used: None,
            any_set: true,
        };
    }
    findings
}

/// The bitmap of one image, and whether no bit of it is set. `None`: it has none that fits.
async fn read(disk: &block::Node, superblock: &Superblock) -> Option<(Bitmap, bool)> {
    let at = superblock.bitmap_at?;
    let header = read_within(disk, Range::new(at, HEADER_LEN)).await.ok()?;
    let mut header = Bitmap::decode(&header).ok()?;
    let shape = header.shape(superblock).ok()?;
    if header.size != shape.size() {
        return None;
    }
    header.stale |= header.is_stale(superblock.events);
    let bytes = read_within(disk, Range::new(at, shape.len_on_disk())).await;
    let bits = Bits::decode(shape, &bytes.ok()?, header.size);
    Some((header, bits.count() == 0 && !header.stale))
}

/// Whether regions that are marked as written may differ between images.
///
/// Where the metadata record that an image failed, bits stay set for it, and nothing says whether there was a crash, too:
/// parity is trusted then, as Linux does. Images with copies cost nothing to distrust, as long as there are two.
pub(super) fn is_dirty(findings: BitmapFindings, level: Level, picture: &Picture) -> bool {
    let in_sync = picture.in_sync().into_iter().filter(|held| *held).count();
    findings.any_set
        && match has_parity(level) {
            true => !picture.was_degraded(),
            false => in_sync > 1,
        }
}
