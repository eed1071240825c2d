//! [`Remark`]: what is odd or wrong about a table, in words for the disk's owner.

use std::fmt;

use super::gpt::GptFault;
use super::table::EntryFault;

/// Where partitions should begin: at multiples of this, bytes.
pub(super) const ALIGNMENT: u64 = 1 << 20;
/// What a partition must be aligned to for a drive with physical blocks of that size, bytes.
const PHYSICAL: u64 = 4096;

/// Something about a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remark {
    /// The primary GPT is damaged; the backup is used.
    PrimaryDamaged(GptFault),
    /// There is no boot record that says that there is a GPT: Linux does not look for one.
    Unprotected,
    /// The disk is smaller than the table says.
    Truncated {
        /// Bytes that the table counts on.
        expected: u64,
        /// Bytes that there are.
        size: u64,
    },
    /// The chain of logical partitions breaks off.
    ChainBroken {
        /// Where its next record should be, bytes.
        at: u64,
    },
    /// The backup GPT is damaged; the primary one is used.
    BackupDamaged(GptFault),
    /// The backup GPT is not where the disk ends: the disk has grown.
    BackupNotAtEnd {
        /// Bytes behind the backup.
        behind: u64,
    },
    /// Both copies of the GPT are whole and differ.
    BackupDiffers,
    /// There is a GPT, too, which Linux does not use since the boot record does not say so.
    GptIgnored,
    /// The boot record of the GPT lists partitions of its own.
    Hybrid,
    /// The block size of an MBR was derived from where its partitions are.
    BlocksGuessed {
        /// Bytes.
        block_size: u32,
    },
    /// A partition shares bytes with another.
    Overlap {
        /// One.
        number: u32,
        /// The other.
        other: u32,
    },
    /// A partition that cannot be.
    Impossible {
        /// Its number.
        number: u32,
        /// Why.
        fault: EntryFault,
    },
    /// A partition begins at an odd place.
    Misaligned {
        /// Its number.
        number: u32,
        /// Where it begins, bytes.
        offset: u64,
    },
}

impl Remark {
    pub(super) const fn of_fault(number: u32, fault: EntryFault) -> Option<Self> {
        match fault {
            // Reported once for the two.
            EntryFault::Overlaps { other } if other > number => None,
            EntryFault::Overlaps { other } => Some(Self::Overlap {
                number: other,
                other: number,
            }),
            fault => Some(Self::Impossible { number, fault }),
        }
    }

    pub(super) const fn of_place(number: u32, offset: u64) -> Option<Self> {
        if offset.is_multiple_of(ALIGNMENT) {
            return None;
        }
        Some(Self::Misaligned { number, offset })
    }

    /// Whether partitions are opened read-only for it.
    #[must_use]
    pub const fn forbids_writes(&self) -> bool {
        matches!(
            self,
            Self::PrimaryDamaged(_) | Self::Unprotected | Self::Truncated { .. }
        )
    }

    /// Whether partition `number` is slow for it.
    #[must_use]
    pub fn is_slow(&self, number: u32) -> bool {
        let is_it = matches!(self, Self::Misaligned { number: about, .. } if *about == number);
        is_it && self.is_warning()
    }

    /// Whether something is wrong, and not only odd.
    #[must_use]
    pub const fn is_warning(&self) -> bool {
        match self {
            Self::Hybrid | Self::BlocksGuessed { .. } | Self::GptIgnored => false,
            Self::Misaligned { offset, .. } => !offset.is_multiple_of(PHYSICAL),
            _ => true,
        }
    }

    /// The worst first.
    pub(super) const fn rank(&self) -> u8 {
        if self.forbids_writes() {
            0
        } else if !self.is_warning() {
            3
        } else if matches!(self, Self::Misaligned { .. }) {
            2
        } else {
            1
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrimaryDamaged(fault) => write!(
                f,
                "the primary GPT is damaged ({fault}): the backup is used, read-only; Linux uses neither"
            ),
            Self::Unprotected => write!(
                f,
                "the GPT has no protective MBR: it is used read-only; Linux does not use it"
            ),
            Self::Truncated { expected, size } => write!(
                f,
                "the disk was made smaller: its GPT counts on {expected} bytes, it has {size}: used read-only; Linux does not use it"
            ),
            Self::ChainBroken { at } => write!(
                f,
                "the chain of logical partitions breaks off at byte {at}: what follows is not known"
            ),
            Self::BackupDamaged(fault) => write!(f, "the backup GPT is damaged ({fault})"),
            Self::BackupNotAtEnd { behind } => write!(
                f,
                "the backup GPT is not at the end of the disk: {behind} bytes behind it are not used; \
                 `outboard disk grow` moves it"
            ),
            Self::BackupDiffers => write!(
                f,
                "the primary GPT and its backup differ: the primary one is used"
            ),
            Self::GptIgnored => write!(
                f,
                "there is a GPT too, which is not used since the MBR does not protect it"
            ),
            Self::Hybrid => write!(
                f,
                "a hybrid MBR: it lists partitions of its own, the GPT is used"
            ),
            Self::BlocksGuessed { block_size } => write!(
                f,
                "the MBR does not say the size of its blocks: {block_size} bytes, since its partitions then are aligned and fit the disk"
            ),
            Self::Overlap { number, other } => {
                write!(
                    f,
                    "partitions {number} and {other} overlap: neither is opened"
                )
            }
            Self::Impossible { number, fault } => {
                write!(f, "partition {number} {fault}: it is not opened")
            }
            Self::Misaligned { number, offset } if offset.is_multiple_of(PHYSICAL) => {
                write!(
                    f,
                    "partition {number} begins at byte {offset}, no multiple of 1 MiB"
                )
            }
            Self::Misaligned { number, offset } => write!(
                f,
                "partition {number} begins at byte {offset}, no multiple of 4 KiB: writes are slow on most drives"
            ),
        }
    }
}
