//! What a partition is for: a GUID in a GPT, a byte in an MBR, and the names of the well-known ones.

use std::fmt;
use std::str::FromStr;

use gpt_disk_types::{Guid, guid};

use super::Scheme;

/// The type of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionKind {
    /// Of a GPT.
    Gpt(Guid),
    /// Of an MBR.
    Mbr(u8),
}

/// A well-known type.
#[derive(Debug)]
struct KnownType {
    /// As it is written on the command line.
    name: &'static str,
    /// As it is shown.
    title: &'static str,
    gpt: Option<Guid>,
    mbr: Option<u8>,
}

const fn known(
    name: &'static str,
    title: &'static str,
    gpt: Option<Guid>,
    mbr: Option<u8>,
) -> KnownType {
    KnownType {
        name,
        title,
        gpt,
        mbr,
    }
}

/// Types with a name. The first row of a byte or GUID is the one that is shown.
///
/// GUIDs: UEFI specification, table of partition types, and the Discoverable Partitions
/// Specification. Bytes: the lists of sfdisk and of the Linux kernel.
const KNOWN: [KnownType; 21] = [
    known(
        "linux",
        "Linux filesystem",
        Some(guid!("0fc63daf-8483-4772-8e79-3d69d8477de4")),
        Some(0x83),
    ),
    known(
        "efi",
        "EFI system",
        Some(guid!("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")),
        Some(0xef),
    ),
    known(
        "swap",
        "Linux swap",
        Some(guid!("0657fd6d-a4ab-43c4-84e5-0933c84b4f4f")),
        Some(0x82),
    ),
    known(
        "raid",
        "Linux RAID",
        Some(guid!("a19d880f-05fc-4d3b-a006-743f0f84911e")),
        Some(0xfd),
    ),
    known(
        "lvm",
        "Linux LVM",
        Some(guid!("e6d6d379-f507-44c2-a23c-238f2a3df928")),
        Some(0x8e),
    ),
    known(
        "bios-boot",
        "BIOS boot",
        Some(guid!("21686148-6449-6e6f-744e-656564454649")),
        None,
    ),
    known(
        "boot",
        "extended boot loader",
        Some(guid!("bc13c2ff-59e6-4262-a352-b275fd6f7172")),
        Some(0xea),
    ),
    known(
        "luks",
        "Linux LUKS",
        Some(guid!("ca7d7ccb-63ed-4c53-861c-1742536059cc")),
        Some(0xe8),
    ),
    known(
        "home",
        "Linux /home",
        Some(guid!("933ac7e1-2eb4-4f13-b844-0e14e2aef915")),
        None,
    ),
    known(
        "srv",
        "Linux /srv",
        Some(guid!("3b8f8425-20e0-4f3b-907f-1a25a76f98e8")),
        None,
    ),
    known(
        "var",
        "Linux /var",
        Some(guid!("4d21b016-b534-45c2-a9fb-5c16e091fd2d")),
        None,
    ),
    known(
        "root-x86-64",
        "Linux root (x86-64)",
        Some(guid!("4f68bce3-e8cd-4db1-96e7-fbcaf984b709")),
        None,
    ),
    known(
        "root-arm64",
        "Linux root (arm64)",
        Some(guid!("b921b045-1df0-41c3-af44-4c6f280d3fae")),
        None,
    ),
    known(
        "data",
        "Microsoft basic data",
        Some(guid!("ebd0a0a2-b9e5-4433-87c0-68b6b72699c7")),
        Some(0x07),
    ),
    known(
        "msr",
        "Microsoft reserved",
        Some(guid!("e3c9e316-0b5c-4db8-817d-f92df00215ae")),
        None,
    ),
    known(
        "recovery",
        "Windows recovery",
        Some(guid!("de94bba4-06d1-4d40-a16a-bfd50179d6ac")),
        Some(0x27),
    ),
    known(
        "prep",
        "PowerPC PReP boot",
        Some(guid!("9e1a2d38-c612-4316-aa26-8b49521e5a8b")),
        Some(0x41),
    ),
    known("fat32", "FAT32", None, Some(0x0c)),
    known("fat16", "FAT16", None, Some(0x0e)),
    known("extended", "extended", None, Some(0x0f)),
    known("protective", "protective entry of a GPT", None, Some(0xee)),
];

/// Bytes of extended partitions: of DOS, of Windows, of Linux.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];

/// A text that names no type of partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no type of a partition in {scheme}: known are {}; or write {}", names(*.scheme), other_form(*.scheme))]
pub struct KindError {
    text: String,
    scheme: Scheme,
}

impl PartitionKind {
    /// The type that `text` names in a table of `scheme`: a name, a GUID or a byte in hex (`0x83`).
    ///
    /// # Errors
    /// [`KindError`], which lists the names.
    pub fn parse(text: &str, scheme: Scheme) -> Result<Self, KindError> {
        let lower = text.to_ascii_lowercase();
        let row = KNOWN.iter().find(|row| row.name == lower);
        let byte = |text: &str| u8::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let kind = match scheme {
            Scheme::Gpt => row
                .and_then(|row| row.gpt)
                .or_else(|| Guid::from_str(&lower).ok())
                .filter(|guid| *guid != Guid::ZERO)
                .map(Self::Gpt),
            Scheme::Mbr => row
                .and_then(|row| row.mbr)
                .or_else(|| byte(&lower))
                .filter(|&byte| byte != 0 && byte != 0xee && !EXTENDED.contains(&byte))
                .map(Self::Mbr),
        };
        kind.ok_or_else(|| KindError {
            text: text.to_owned(),
            scheme,
        })
    }

    /// The name for the command line, where there is one: `linux`, `efi`, …
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|row| row.name)
    }

    /// Whether it holds logical partitions instead of data.
    #[must_use]
    pub fn is_extended(self) -> bool {
        matches!(self, Self::Mbr(byte) if EXTENDED.contains(&byte))
    }

    fn row(self) -> Option<&'static KnownType> {
        let named = match self {
            // The numbers that DOS and old Linux used for what has a newer one.
            Self::Mbr(0x05 | 0x85) => Self::Mbr(0x0f),
            Self::Mbr(0x0b) => Self::Mbr(0x0c),
            Self::Mbr(0x04 | 0x06) => Self::Mbr(0x0e),
            other => other,
        };
        KNOWN.iter().find(|row| match named {
            Self::Gpt(guid) => row.gpt == Some(guid),
            Self::Mbr(byte) => row.mbr == Some(byte),
        })
    }
}

impl fmt::Display for PartitionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.row(), self) {
            (Some(row), _) => f.write_str(row.title),
            (None, Self::Gpt(guid)) => write!(f, "type {guid}"),
            (None, Self::Mbr(byte)) => write!(f, "type {byte:#04x}"),
        }
    }
}

/// The names that can be written in a table of `scheme`.
fn names(scheme: Scheme) -> String {
    let can = |row: &&KnownType| match scheme {
        Scheme::Gpt => row.gpt.is_some(),
        Scheme::Mbr => row.mbr.is_some_and(|byte| !matches!(byte, 0x0f | 0xee)),
    };
    let names: Vec<&str> = KNOWN.iter().filter(can).map(|row| row.name).collect();
    names.join(", ")
}

const fn other_form(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Gpt => "a GUID",
        Scheme::Mbr => "a byte in hex, such as 0x83",
    }
}
