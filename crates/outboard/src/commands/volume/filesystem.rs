//! How much of a volume its filesystem uses, from its superblock. Pure.
//!
//! Known are ext2, ext3, ext4, XFS, Btrfs and swap. LUKS is known, and its size is not: what it encrypts goes up to the end.

/// Bytes of the beginning of a volume that are looked at.
pub(super) const START_LEN: u64 = 128 << 10;

/// Where superblocks are, and their magic numbers.
const EXT_AT: usize = 1024;
const EXT_MAGIC: [u8; 2] = [0x53, 0xef];
/// The feature of ext4 with block numbers of 64 bits.
const EXT_64_BIT: u32 = 0x80;
const XFS_MAGIC: &[u8] = b"XFSB";
const BTRFS_AT: usize = 65_536;
const BTRFS_MAGIC: &[u8] = b"_BHRfS_M";
const SWAP_MAGIC: &[u8] = b"SWAPSPACE2";
/// Sizes of a page, at the end of which the magic number of swap is.
const PAGES: [usize; 3] = [4096, 16_384, 65_536];
const LUKS_MAGIC: &[u8] = b"LUKS\xba\xbe";

/// What a volume holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VolumeContent {
    /// Something of this size, bytes.
    Known {
        /// With an article.
        what: &'static str,
        size: u64,
    },
    /// Something of an unknown size.
    Opaque(&'static str),
    /// Something else, or nothing.
    Unknown,
}

/// What the beginning of a volume shows.
pub(super) fn identify(start: &[u8]) -> VolumeContent {
    let known = ext(start)
        .map(|size| ("an ext2, ext3 or ext4 filesystem", size))
        .or_else(|| xfs(start).map(|size| ("an XFS filesystem", size)))
        .or_else(|| btrfs(start).map(|size| ("a Btrfs filesystem", size)))
        .or_else(|| swap(start).map(|size| ("swap space", size)));
    match known {
        _ if start.starts_with(LUKS_MAGIC) => VolumeContent::Opaque("an encrypted disk (LUKS)"),
        Some((what, size)) => VolumeContent::Known { what, size },
        None => VolumeContent::Unknown,
    }
}

fn bytes<const N: usize>(start: &[u8], at: usize) -> Option<[u8; N]> {
    start.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn le32(start: &[u8], at: usize) -> Option<u32> {
    bytes(start, at).map(u32::from_le_bytes)
}

fn ext(start: &[u8]) -> Option<u64> {
    let superblock = start.get(EXT_AT..)?;
    if bytes(superblock, 56)? != EXT_MAGIC {
        return None;
    }
    let shift = le32(superblock, 24)?.checked_add(10)?;
    let high = match le32(superblock, 96)? & EXT_64_BIT {
        0 => 0,
        _ => le32(superblock, 0x150)?,
    };
    let blocks = u64::from(high) << 32 | u64::from(le32(superblock, 4)?);
    blocks.checked_mul(1_u64.checked_shl(shift)?)
}

fn xfs(start: &[u8]) -> Option<u64> {
    if !start.starts_with(XFS_MAGIC) {
        return None;
    }
    let block = u64::from(u32::from_be_bytes(bytes(start, 4)?));
    u64::from_be_bytes(bytes(start, 8)?).checked_mul(block)
}

/// Of a filesystem across several disks, the part on this one.
fn btrfs(start: &[u8]) -> Option<u64> {
    let superblock = start.get(BTRFS_AT..)?;
    if superblock.get(0x40..0x48)? != BTRFS_MAGIC {
        return None;
    }
    // The item of this disk begins at 0xc9: its number, then its size.
    bytes(superblock, 0xc9 + 8).map(u64::from_le_bytes)
}

fn swap(start: &[u8]) -> Option<u64> {
    let has_magic = |page: &usize| start.get(page - SWAP_MAGIC.len()..*page) == Some(SWAP_MAGIC);
    let page = PAGES.into_iter().find(has_magic)?;
    let last = u64::from(le32(start, 1028)?);
    (last + 1).checked_mul(page as u64)
}
