//! Raw writes: what may be written without a filesystem, so that no data in use is destroyed.
//!
//! ```text
//! path ──► what it is ──► walk: itself, its partitions, its whole disk, all holders of them,
//!          (by number,    what a loop device has below
//!          never by name)      │
//!                              ▼
//!                   facts ──► decide ──► refused, with each reason
//!                                   └──► [`Claim`]: the device is ours until it is dropped
//! ```
//!
//! # Invariants
//!
//! * A device that is mounted, swapped to, held, open elsewhere, a member of something or carries any
//!   signature is refused, and so is a partition of it, a disk with such a partition, a link to it and
//!   a loop device over it. There is no option that overrides this.
//! * A block device is written only when its serial was typed (`--write-serial`).
//! * An export that carries a signature is refused as a device is; otherwise it is written only when its URI was
//!   typed. What uses it on its server cannot be seen from here.
//! * A file is written only when it holds nothing.
//! * What cannot be found out is a reason to refuse.
//! * The device stays claimed (`O_EXCL`) for as long as it is written, so that it cannot be mounted meanwhile.
//!
//! # What it does not do
//!
//! It guards against accidents, not against intent: root can write to any disk.

mod decide;
mod open;
mod read;
mod signature;
mod walk;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

pub(crate) use decide::decide;
pub use decide::{DeviceFacts, DeviceKind, Reason, Refusal};
pub use read::facts;
pub use walk::System;

/// What is on an export, as blkid names it; none where nothing is known. An error is why that could not be
/// found out.
pub type ExportContent = Result<Option<String>, String>;

/// A place that may be written, held until it is dropped.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    /// Open with O_EXCL, which keeps others from mounting or assembling it.
    _held: OwnedFd,
}

impl Claim {
    /// The place, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Claims each of `paths` that is not below one of the folders that are `ours`: what the lab made itself
/// it may write. A caller that opens one exclusively drops its claim right before.
///
/// # Errors
/// [`Refusal`] of the first that may not be written.
pub fn claim_foreign(
    paths: &[&Path],
    ours: &[&Path],
    serials: &[String],
) -> Result<Vec<Claim>, Refusal> {
    let ours: Vec<PathBuf> = ours.iter().map(|folder| real(folder)).collect();
    let is_ours = |path: &Path| ours.iter().any(|folder| real(path).starts_with(folder));
    paths
        .iter()
        .filter(|path| !is_ours(path))
        .map(|path| claim(path, serials))
        .collect()
}

/// Without links and `..`; a file that is not there yet is that of its folder.
fn real(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = std::fs::canonicalize(path.parent()?).ok()?;
        Some(folder.join(path.file_name()?))
    };
    let known = std::fs::canonicalize(path).ok();
    known.or_else(of_folder).unwrap_or_else(|| path.to_owned())
}

/// Whether an export may be written, by the rules for devices. It has no serial that could be seen: its URI is
/// typed instead.
///
/// # Errors
/// [`Refusal`] with what is on it, or with what to type.
pub fn allow_export(uri: &str, content: ExportContent, typed: &[String]) -> Result<(), Refusal> {
    let against = match content {
        Ok(None) => None,
        Ok(Some(kind)) => Some(Reason::Signature {
            device: "the export".into(),
            kind,
        }),
        Err(what) => Some(Reason::Unknown { what }),
    };
    let facts = DeviceFacts {
        path: uri.into(),
        real: uri.into(),
        kind: DeviceKind::Export,
        against: against.into_iter().collect(),
        holds_data: false,
        serial: Some(uri.to_owned()),
    };
    decide(&facts, typed)
}

/// Claims `path` for raw writes. `serials` are what the user typed; a file needs none.
///
/// # Errors
/// [`Refusal`] with all that speaks against it; then nothing was touched.
pub fn claim(path: &Path, serials: &[String]) -> Result<Claim, Refusal> {
    let found = facts(&System::this(), path);
    decide(&found, serials)?;
    let refused = |reason| Refusal {
        path: path.to_owned(),
        reasons: vec![reason],
    };
    let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
    if found.kind == DeviceKind::Block {
        flags |= OFlags::EXCL;
    }
    match rustix::fs::open(&found.real, flags, Mode::empty()) {
        Ok(held) => Ok(Claim {
            path: found.real,
            _held: held,
        }),
        Err(Errno::BUSY) => Err(refused(Reason::Exclusive {
            device: found.real.display().to_string(),
        })),
        Err(errno) => Err(refused(Reason::Unknown {
            what: format!("it cannot be opened: {errno}"),
        })),
    }
}

#[cfg(test)]
mod tests;
