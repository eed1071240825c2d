//! Images of virtual machines, and compressed ones: named, not opened.

use file_format::{FileFormat, Kind};
use serde::Serialize;

/// A disk in a file of another form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ForeignImage {
    /// Short name: `QCOW`, `VHDX`, `XZ`.
    pub(crate) format: String,
    /// Name in full.
    pub(crate) name: String,
    /// Whether it must be unpacked.
    pub(crate) compressed: bool,
}

/// Bytes of the beginning of a disk that are looked at.
pub(crate) const HEAD_LEN: u64 = 64 << 10;

/// What a disk is that begins like this.
pub(crate) fn of(head: &[u8]) -> Option<ForeignImage> {
    let format = FileFormat::from_bytes(head);
    let compressed = match format.kind() {
        Kind::Disk => false,
        Kind::Compressed | Kind::Archive => true,
        _ => return None,
    };
    Some(ForeignImage {
        format: format.short_name().unwrap_or(format.name()).to_owned(),
        name: format.name().to_owned(),
        compressed,
    })
}
