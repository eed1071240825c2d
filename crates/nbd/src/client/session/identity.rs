//! Whether an export that came back can do what callers were promised. Pure. Whether it is the same disk says
//! [`KnownDisk`](super::known_disk::KnownDisk).

use nbd_proto::{ExportInfo, TransmissionFlags};

use crate::client::Changed;

/// What callers rely on.
const RELIED_ON: TransmissionFlags = TransmissionFlags::SEND_FLUSH
    .union(TransmissionFlags::SEND_FUA)
    .union(TransmissionFlags::SEND_TRIM)
    .union(TransmissionFlags::SEND_WRITE_ZEROES)
    .union(TransmissionFlags::SEND_FAST_ZERO);

/// What is different about an export, if it matters. More bytes, smaller blocks and new abilities
/// do not.
pub(crate) fn changed(was: &ExportInfo, is: &ExportInfo, only_reads: bool) -> Option<Changed> {
    if is.size < was.size {
        return Some(Changed::Size {
            was: was.size,
            is: is.size,
        });
    }
    if is.block_size_min > was.block_size_min {
        return Some(Changed::BlockSize {
            was: was.block_size_min,
            is: is.block_size_min,
        });
    }
    let read_only = |export: &ExportInfo| export.flags.contains(TransmissionFlags::READ_ONLY);
    if only_reads || read_only(was) {
        return None;
    }
    if read_only(is) {
        return Some(Changed::ReadOnly);
    }
    let missing = was.flags & (RELIED_ON - is.flags);
    (!missing.is_empty()).then(|| Changed::Flags {
        missing: names_of(missing),
    })
}

fn names_of(flags: TransmissionFlags) -> String {
    let names: Vec<&str> = flags.iter_names().map(|(name, _)| name).collect();
    names.join(", ")
}
