//! What of a file is in this machine's page cache, and how to get it out.
//!
//! Since Linux 6.5 the kernel says it (cachestat). Before that, pages spread over the file are read
//! with `RWF_NOWAIT`, which gives what is in memory and refuses what is not; readahead is switched off
//! for these reads, and what they themselves bring in is dropped again. Filesystems without either
//! (FUSE and NFS on older kernels) give no answer.

use std::fs::{File, OpenOptions};
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Advice, fadvise, syncfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::checks::cache::Dropped;
use crate::checks::direct::Residency;
use crate::units::Bytes;

/// Pages looked at without cachestat. Each is a read of the device when it is not in memory, so few.
const PAGES: u64 = 64;
/// The least page size, to which offsets are rounded.
const PAGE: u64 = 4096;

/// Looks for the first `size` bytes of `path`. None where the kernel cannot say.
#[must_use]
pub fn look(path: &Path, size: Bytes) -> Option<Residency> {
    let file = open(path)?;
    counted(&file, size).or_else(|| probed(&file, size))
}

/// By cachestat: every page, and nothing is read.
fn counted(file: &File, size: Bytes) -> Option<Residency> {
    let cached = engine::page_cache::cached_pages(file.as_fd(), 0, size.0).ok()?;
    Some(Residency {
        sampled: u32::try_from(size.0.div_ceil(page_size())).ok()?,
        resident: u32::try_from(cached).ok()?,
    })
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// By reads that do not wait.
fn probed(file: &File, size: Bytes) -> Option<Residency> {
    fadvise(file, 0, None, Advice::Random).ok()?;
    let step = (size.0 / PAGES).max(PAGE);
    let mut seen = Residency {
        sampled: 0,
        resident: 0,
    };
    let mut offset = 0;
    while offset < size.0 {
        seen.sampled += 1;
        if in_memory(file, offset / PAGE * PAGE)? {
            seen.resident += 1;
        }
        offset += step;
    }
    fadvise(file, 0, None, Advice::DontNeed).ok()?;
    Some(seen)
}

fn in_memory(file: &File, offset: u64) -> Option<bool> {
    let mut byte = [0u8];
    let into = &mut [IoSliceMut::new(&mut byte)];
    match preadv2(file, into, offset, ReadWriteFlags::NOWAIT) {
        Ok(_) => Some(true),
        Err(Errno::AGAIN) => Some(false),
        Err(_) => None,
    }
}

/// Writes out and drops what can be dropped: the whole page cache where permitted, else the pages of
/// `path`. `everywhere` also writes out other filesystems, such as the one a server of this machine
/// keeps its disk on.
pub fn drop_caches(path: &Path, size: Bytes, everywhere: bool) -> Dropped {
    let file = open(path);
    match &file {
        // Waiting for other programs' writes would only cost time.
        Some(file) if !everywhere => {
            if let Err(error) = syncfs(file) {
                tracing::debug!(%error, "the filesystem was not written out");
            }
        }
        _ => rustix::fs::sync(),
    }
    let all = std::fs::write("/proc/sys/vm/drop_caches", "1").is_ok();
    if let (Some(file), Some(size)) = (file, NonZeroU64::new(size.0)) {
        // A refusal shows in what is found resident afterwards.
        if let Err(error) = fadvise(&file, 0, Some(size), Advice::DontNeed) {
            tracing::debug!(%error, "the file's pages were not dropped");
        }
    }
    if all { Dropped::All } else { Dropped::FileOnly }
}

/// Drops what can be dropped of the first `size` bytes of one file, and nothing else of this machine's
/// memory. What is not written out yet stays.
pub fn forget(path: &Path, size: Bytes) {
    let (Some(file), Some(size)) = (open(path), NonZeroU64::new(size.0)) else {
        return;
    };
    if let Err(error) = fadvise(&file, 0, Some(size), Advice::DontNeed) {
        tracing::debug!(%error, "the file's pages were not dropped");
    }
}

fn open(path: &Path) -> Option<File> {
    OpenOptions::new().read(true).open(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MIB;

    /// Both ways must agree on a file that is all there, and on one that is gone. Others on this machine drop
    /// all caches at times: the file is then read again.
    #[test]
    fn counting_and_probing_agree() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::write(&path, vec![1u8; 4 << 20]).unwrap();
        let size = Bytes(4 * MIB);
        let file = open(&path).unwrap();
        let both_ways = || {
            std::fs::read(&path).unwrap();
            Some((counted(&file, size)?.part(), probed(&file, size)?.part()))
        };
        if both_ways().is_none() {
            eprintln!(
                "skipped: this kernel or filesystem does not show its page cache in both ways"
            );
            return;
        }
        let mut looks = (0..1000).filter_map(|_| both_ways());
        assert!(looks.any(|(counted, probed)| counted > 0.99 && probed > 0.99));
        drop_caches(&path, size, true);
        let after = counted(&file, size).unwrap().part();
        let probed_after = probed(&file, size).unwrap().part();
        assert!(
            (after - probed_after).abs() < 0.1,
            "{after} against {probed_after}"
        );
    }
}
