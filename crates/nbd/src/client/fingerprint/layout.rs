//! Where a disk says what it is. Pure.
//!
//! ```text
//! 0        512    1024      4096     8192 ...              64 KiB       66 KiB
//! |MBR     |GPT   |ext, f2fs|GPT, md |swap ends a page of 4 to 64 KiB   |btrfs
//! |XFS, LUKS, md 1.1; LVM in one of 4 sectors
//!
//! ... |md 0.90, 64 to 128 KiB from the end ... |md 1.0, 8 to 12 KiB from it ... |backup of the GPT|
//! ```

use block::Range;

use crate::client::fingerprint::signature::{MD_SECTORS, MdVersion, SECTOR, SignatureKind, Site};

/// Bytes at the beginning.
const HEAD: u64 = 66 << 10;
/// Bytes at the end.
const TAIL: u64 = 12 << 10;
/// Granularity of the place of an md superblock 0.90.
const MD_090_STEP: u64 = 64 << 10;
const PAGES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// The place of an md superblock 0.90 on a disk of `size` bytes.
const fn md_090(size: u64) -> Option<u64> {
    (size / MD_090_STEP * MD_090_STEP).checked_sub(MD_090_STEP)
}

/// The place of an md superblock 1.0.
const fn md_10(size: u64) -> Option<u64> {
    match (size / SECTOR).checked_sub(16) {
        Some(sector) => Some(sector / 8 * 8 * SECTOR),
        None => None,
    }
}

/// The regions of a disk of `size` bytes, a multiple of `block_size`, that are looked at: whole blocks, in order, apart
/// from each other.
pub(crate) fn regions(size: u64, block_size: u32) -> Vec<Range> {
    let block = u64::from(block_size.max(1));
    let old = md_090(size).unwrap_or(0);
    let ends = [
        (0, HEAD),
        (old, old + MD_SECTORS * SECTOR),
        (size.saturating_sub(TAIL), size),
    ];
    let mut regions: Vec<Range> = Vec::new();
    for (from, to) in ends {
        let from = from / block * block;
        let to = to.div_ceil(block).saturating_mul(block).min(size);
        match regions.last_mut() {
            Some(last) if last.end() >= from => last.len = last.len.max(to - last.offset),
            _ if from < to => regions.push(Range::new(from, to - from)),
            _ => {}
        }
    }
    regions
}

/// Every place on a disk of `size` bytes where something may say what it is.
pub(super) fn sites(size: u64) -> Vec<Site> {
    let mut sites = vec![
        Site::new(SignatureKind::Mbr, 0),
        Site::new(SignatureKind::Ext, 1024),
        Site::new(SignatureKind::F2fs, 1024),
        Site::new(SignatureKind::Xfs, 0),
        Site::new(SignatureKind::Btrfs, 64 << 10),
        Site::new(SignatureKind::Luks, 0),
    ];
    sites.extend((0..4).map(|sector| Site::new(SignatureKind::Lvm, sector * SECTOR)));
    sites.extend(PAGES.map(|page| Site::new(SignatureKind::SwapMagic, page - SECTOR)));
    sites.extend(PAGES.map(|page| Site::new(SignatureKind::SwapUuid { page }, 1024)));
    let backups = [SECTOR, 4096].map(|sector| (size / SECTOR * SECTOR).checked_sub(sector));
    let tables = [Some(SECTOR), Some(4096)].into_iter().chain(backups);
    sites.extend(tables.flatten().map(|at| Site::new(SignatureKind::Gpt, at)));
    let arrays = [
        (md_090(size), MdVersion::Zero),
        (md_10(size), MdVersion::One),
        (Some(0), MdVersion::One),
        (Some(4096), MdVersion::One),
    ];
    for (at, version) in arrays {
        let Some(at) = at else { continue };
        sites.push(Site::new(SignatureKind::Md { version }, at));
        sites.extend(
            (0..MD_SECTORS).map(|nth| Site::new(SignatureKind::MdSector { version, nth }, at)),
        );
    }
    sites
}
