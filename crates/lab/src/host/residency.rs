//! What of a file is in this machine's page cache, and how to get it out.
//!
//! Pages spread over the file are read with `RWF_NOWAIT`, which gives what is in memory and refuses
//! what is not. Readahead is switched off for these reads; what they themselves bring in is dropped
//! again. Filesystems without such reads (FUSE, NFS) give no answer.

use std::fs::{File, OpenOptions};
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::path::Path;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::checks::cache::Dropped;
use crate::checks::direct::Residency;
use crate::units::Bytes;

/// Pages looked at: 256 show a part of 2 % as five of them.
const PAGES: u64 = 256;
/// The least page size, to which offsets are rounded.
const PAGE: u64 = 4096;

/// Looks for pages of the first `size` bytes of `path`. None where the filesystem cannot tell.
#[must_use]
pub fn look(path: &Path, size: Bytes) -> Option<Residency> {
    let file = open(path)?;
    fadvise(&file, 0, None, Advice::Random).ok()?;
    let step = (size.0 / PAGES).max(PAGE);
    let mut seen = Residency {
        sampled: 0,
        resident: 0,
    };
    let mut offset = 0;
    while offset < size.0 {
        seen.sampled += 1;
        if in_memory(&file, offset / PAGE * PAGE)? {
            seen.resident += 1;
        }
        offset += step;
    }
    fadvise(&file, 0, None, Advice::DontNeed).ok()?;
    Some(seen)
}

fn in_memory(file: &File, offset: u64) -> Option<bool> {
    let mut byte = [0u8];
    match preadv2(
        file,
        &mut [IoSliceMut::new(&mut byte)],
        offset,
        ReadWriteFlags::NOWAIT,
    ) {
        Ok(_) => Some(true),
        Err(Errno::AGAIN) => Some(false),
        Err(_) => None,
    }
}

/// Writes everything out and drops what can be dropped: the whole page cache where permitted, else
/// the pages of `path`.
pub fn drop_caches(path: &Path, size: Bytes) -> Dropped {
    rustix::fs::sync();
    let all = std::fs::write("/proc/sys/vm/drop_caches", "1").is_ok();
    if let (Some(file), Some(size)) = (open(path), NonZeroU64::new(size.0)) {
        // A refusal shows in what is found resident afterwards.
        if let Err(error) = fadvise(&file, 0, Some(size), Advice::DontNeed) {
            tracing::debug!(%error, "the file's pages were not dropped");
        }
    }
    if all { Dropped::All } else { Dropped::FileOnly }
}

fn open(path: &Path) -> Option<File> {
    OpenOptions::new().read(true).open(path).ok()
}
