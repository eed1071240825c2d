//! What of a file is in this machine's page cache, and how to get it out.
//!
//! Since Linux 6.5 the kernel says it (cachestat). Before that, pages spread over the file are read
//! with `RWF_NOWAIT`, which gives what is in memory and refuses what is not; readahead is switched off
//! for these reads, and what they themselves bring in is dropped again. Filesystems without either
//! (FUSE and NFS on older kernels) give no answer.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::checks::cache::Dropped;
use crate::checks::direct::Residency;
use crate::supervisor::{Supervised, Terminate};
use crate::units::Bytes;

/// Pages looked at without cachestat. Each is a read of the device when it is not in memory, so few.
const PAGES: u64 = 64;
/// Writes out the filesystem of the file that is `$0`, and drops the page cache.
const DROP_ONE: &str = "sync -f -- \"$0\" || sync; echo 1 > /proc/sys/vm/drop_caches";
/// The same with all filesystems.
const DROP_ALL: &str = "sync; echo 1 > /proc/sys/vm/drop_caches";
/// How long writing out may take: a slow card with a full page cache takes minutes.
const DROP_MAX: Duration = Duration::from_secs(600);
/// How often `tick` is called meanwhile.
const DROP_POLL: Duration = Duration::from_millis(20);
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
/// keeps its disk on. A child process does it: writing to a disk that does not answer blocks in the kernel, where
/// no signal ends it. It is abandoned when `tick` returns false.
pub fn drop_caches(
    path: &Path,
    size: Bytes,
    everywhere: bool,
    tick: &mut dyn FnMut(Instant) -> bool,
) -> Dropped {
    // Waiting for other programs' writes would only cost time.
    let script = if everywhere { DROP_ALL } else { DROP_ONE };
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(path);
    let all = match run_abandonable(&mut command, DROP_MAX, tick) {
        Ok(Some(status)) => status.success(),
        // The disk does not answer: a call on the file could block as well.
        Ok(None) => return Dropped::FileOnly,
        Err(error) => {
            tracing::debug!(%error, "nothing was written out");
            false
        }
    };
    forget(path, size);
    if all { Dropped::All } else { Dropped::FileOnly }
}

/// Writes out all filesystems and drops the whole page cache, as [`drop_caches`] does it, within `limit`.
///
/// # Errors
/// It is not permitted, took longer, or was abandoned.
pub fn drop_all(limit: Duration, tick: &mut dyn FnMut(Instant) -> bool) -> io::Result<()> {
    let mut command = Command::new("sh");
    match run_abandonable(command.args(["-c", DROP_ALL]), limit, tick)? {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(io::ErrorKind::PermissionDenied.into()),
        None => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "a disk does not let what is dirty be written out",
        )),
    }
}

/// Runs `command` to its end; none where it was abandoned, because `tick` returned false or it took longer than
/// `limit`.
fn run_abandonable(
    command: &mut Command,
    limit: Duration,
    tick: &mut dyn FnMut(Instant) -> bool,
) -> io::Result<Option<ExitStatus>> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = Supervised::spawn(command.stderr(Stdio::null()))?;
    let waited = child.wait_ended(limit, DROP_POLL, tick);
    // A child that is blocked in the kernel ends when that lets it go.
    let ended = child.end(Terminate::Group, Duration::ZERO)?;
    Ok(ended.status.filter(|_| waited.is_ok()))
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

    /// A sync of a disk that did not answer held the lab for 11 minutes: no signal ends a process in the kernel.
    #[test]
    fn what_writes_out_is_abandoned_when_the_run_is_stopped_whatever_it_ignores() {
        let mut ignoring = Command::new("sh");
        ignoring.args(["-c", "trap '' TERM INT HUP; while :; do sleep 600; done"]);
        let begun = engine::clock::now();
        let mut ticks = 0;
        let ended = run_abandonable(&mut ignoring, DROP_MAX, &mut |_| {
            ticks += 1;
            ticks < 5
        });
        assert!(matches!(ended, Ok(None)), "{ended:?}");
        let took = engine::clock::now().duration_since(begun);
        assert!(took < Duration::from_secs(2), "{took:?}");
        let ended = run_abandonable(
            Command::new("sh").args(["-c", "exit 3"]),
            DROP_MAX,
            &mut |_| true,
        );
        assert_eq!(ended.unwrap().and_then(|status| status.code()), Some(3));
    }

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
        drop_caches(&path, size, true, &mut |_| true);
        let after = counted(&file, size).unwrap().part();
        let probed_after = probed(&file, size).unwrap().part();
        assert!(
            (after - probed_after).abs() < 0.1,
            "{after} against {probed_after}"
        );
    }
}
