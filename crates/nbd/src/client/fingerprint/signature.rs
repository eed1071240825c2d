//! [`Site`]: a place on a disk, and what is there that identifies its content. Pure.
//!
//! A value is taken from one sector, because a power cut may leave any other one as it was before a write. Where another
//! sector says that a value means something (the other sectors of an md superblock, the UUID of a swap area), every
//! value counts that was there, and is compared where that sector says so on the disk that is found.
//!
//! It deliberately checks no checksums: bytes are compared with bytes that were there before.

use block::Range;

use crate::client::fingerprint::image::RegionImage;

/// Bytes that a power cut leaves whole, and the unit in which md counts.
pub(super) const SECTOR: u64 = 512;
/// Sectors of an md superblock, at most.
pub(super) const MD_SECTORS: u64 = 8;
const MD_MAGIC: u32 = 0xa92b_4efc;
const F2FS_MAGIC: u32 = 0xf2f5_2010;

/// What identifies: bytes as they are on the disk.
pub(super) type Value = Vec<u8>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MdVersion {
    /// 0.90, in either byte order.
    Zero,
    /// 1.0, 1.1 and 1.2, which differ in their place.
    One,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureKind {
    Mbr,
    Gpt,
    Ext,
    F2fs,
    Xfs,
    Btrfs,
    Luks,
    Lvm,
    /// That it is a swap area, at the end of its first page.
    SwapMagic,
    /// Of a swap area with pages of so many bytes.
    SwapUuid {
        page: u64,
    },
    Md {
        version: MdVersion,
    },
    /// What the array's only user writes: events, roles, checksum.
    MdSector {
        version: MdVersion,
        nth: u64,
    },
}

/// A place where something may say what the disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Site {
    kind: SignatureKind,
    /// Where the structure begins, bytes.
    at: u64,
}

impl Site {
    pub(super) const fn new(kind: SignatureKind, at: u64) -> Self {
        Self { kind, at }
    }

    /// Whether it changes while the disk is used as what it is.
    pub(super) const fn is_state(&self) -> bool {
        matches!(self.kind, SignatureKind::MdSector { .. })
    }

    /// The sector that its value is taken from.
    const fn sector(&self) -> Range {
        let nth = match self.kind {
            SignatureKind::MdSector { nth, .. } => nth,
            _ => 0,
        };
        Range::new(self.at + nth * SECTOR, SECTOR)
    }

    /// Whether a change of `range` may change its value.
    pub(super) fn is_touched(&self, range: &Range) -> bool {
        self.sector().overlaps(range)
    }

    /// Whether a change of `range` leaves nothing of what was there.
    pub(super) fn is_covered(&self, range: &Range) -> bool {
        let sector = self.sector();
        range.offset <= sector.offset && sector.end() <= range.end()
    }

    /// Whether its sector is in `image`.
    pub(super) fn is_in(&self, image: &RegionImage) -> bool {
        image.bytes(self.sector()).is_some()
    }

    /// Whether its value says something by itself.
    pub(super) const fn is_independent(&self) -> bool {
        !matches!(
            self.kind,
            SignatureKind::MdSector { .. } | SignatureKind::SwapUuid { .. }
        )
    }

    /// Whether its value means something on the disk of `image`.
    pub(super) fn has_meaning(&self, image: &RegionImage) -> bool {
        let other = match self.kind {
            SignatureKind::MdSector { version, .. } => {
                Self::new(SignatureKind::Md { version }, self.at)
            }
            SignatureKind::SwapUuid { page } => Self::new(SignatureKind::SwapMagic, page - SECTOR),
            _ => return true,
        };
        other.value(image).is_some()
    }

    /// What is there; `None`: nothing of this kind.
    pub(super) fn value(&self, image: &RegionImage) -> Option<Value> {
        let first = image.bytes(self.sector())?;
        let has = |at: usize, magic: &[u8]| first.get(at..)?.starts_with(magic).then_some(());
        let take = |at: usize, len: usize| Some(first.get(at..at + len)?.to_vec());
        match self.kind {
            SignatureKind::Mbr => {
                has(510, &[0x55, 0xaa])?;
                Some([take(440, 4)?, take(446, 64)?].concat())
            }
            SignatureKind::Gpt => has(0, b"EFI PART").and_then(|()| take(56, 16)),
            SignatureKind::Ext => has(56, &[0x53, 0xef]).and_then(|()| take(104, 16)),
            SignatureKind::F2fs => has(0, &F2FS_MAGIC.to_le_bytes()).and_then(|()| take(108, 16)),
            SignatureKind::Xfs => has(0, b"XFSB").and_then(|()| take(32, 16)),
            SignatureKind::Btrfs => {
                has(64, b"_BHRfS_M")?;
                // Of the filesystem, and of this device in it.
                Some([take(32, 16)?, take(267, 16)?].concat())
            }
            SignatureKind::Luks => has(0, b"LUKS\xba\xbe").and_then(|()| take(168, 40)),
            SignatureKind::Lvm => {
                has(0, b"LABELONE")?;
                has(24, b"LVM2 001").and_then(|()| take(32, 32))
            }
            SignatureKind::SwapMagic => {
                let magic = take(502, 10)?;
                let known: [&[u8]; 2] = [b"SWAPSPACE2", b"SWAP-SPACE"];
                known.contains(&&magic[..]).then_some(magic)
            }
            SignatureKind::SwapUuid { .. } => take(12, 16),
            SignatureKind::Md { version } => md_uuids(version, first),
            SignatureKind::MdSector { .. } => Some(first.to_vec()),
        }
    }

    /// `value` for a reader.
    pub(super) fn describe(&self, value: &[u8]) -> String {
        let (name, id) = match self.kind {
            SignatureKind::Mbr => ("MBR", format!("disk signature {}", hex_le(value))),
            SignatureKind::Gpt => ("GPT", format!("disk GUID {}", guid(value))),
            SignatureKind::Ext => ("ext2/3/4", uuid(value)),
            SignatureKind::F2fs => ("f2fs", uuid(value)),
            SignatureKind::Xfs => ("XFS", uuid(value)),
            SignatureKind::Btrfs => ("btrfs", uuid(value)),
            SignatureKind::Luks => ("LUKS", text(value)),
            SignatureKind::Lvm => ("LVM physical volume", text(value)),
            SignatureKind::SwapMagic => ("swap", "area".to_owned()),
            SignatureKind::SwapUuid { .. } => ("swap", uuid(value)),
            SignatureKind::Md { .. } => ("md array", uuid(value)),
            SignatureKind::MdSector {
                version: MdVersion::One,
                nth: 0,
            } => ("md superblock", events(value, 200)),
            SignatureKind::MdSector { nth, .. } => {
                ("md superblock", format!("other content of sector {nth}"))
            }
        };
        format!("{name} {id}")
    }
}

/// UUIDs of the array and, where the superblock has one, of the device.
fn md_uuids(version: MdVersion, sector: &[u8]) -> Option<Value> {
    let begins = |bytes: [u8; 4]| sector.starts_with(&bytes);
    let little = begins(MD_MAGIC.to_le_bytes());
    match version {
        MdVersion::One if little && sector.get(4..8)? == 1_u32.to_le_bytes() => {
            Some([sector.get(16..32)?, sector.get(168..184)?].concat())
        }
        MdVersion::Zero if little || begins(MD_MAGIC.to_be_bytes()) => {
            Some([sector.get(20..24)?, sector.get(52..64)?].concat())
        }
        MdVersion::Zero | MdVersion::One => None,
    }
}

fn events(value: &[u8], at: usize) -> String {
    let bytes = value
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok());
    let events = bytes.map_or(0, u64::from_le_bytes);
    format!("with {events} events")
}

fn hex<'a>(bytes: impl Iterator<Item = &'a u8>) -> String {
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn hex_le(value: &[u8]) -> String {
    format!("0x{}", hex(value.iter().take(4).rev()))
}

/// 16 bytes as a UUID; more of them, as two.
fn uuid(value: &[u8]) -> String {
    let one = |bytes: &[u8]| {
        let mut text = hex(bytes.iter());
        for at in [20, 16, 12, 8] {
            if at < text.len() {
                text.insert(at, '-');
            }
        }
        text
    };
    let all: Vec<String> = value.chunks(16).map(one).collect();
    format!("UUID {}", all.join(", device "))
}

/// A GUID: its first three numbers are little-endian.
fn guid(value: &[u8]) -> String {
    let Ok(mut bytes) = <[u8; 16]>::try_from(value) else {
        return uuid(value);
    };
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    uuid(&bytes).replace("UUID ", "")
}

/// Text that ends at the first zero, without what a terminal would take as a command.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    let text = String::from_utf8_lossy(&value[..end.unwrap_or(value.len())]);
    format!("UUID {}", text.escape_default())
}
