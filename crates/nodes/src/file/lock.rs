//! The guard against two writers: flock(2), exclusive for writers, shared for readers.
//!
//! The lock belongs to the open file, so it also stands between two nodes of one process, and ends
//! with the last operation in flight. So it may outlive its process: requests of an io_uring hold the file until the
//! kernel has torn the ring down, which it does while the process ends, and in the background behind that. A lock that
//! a process left behind is waited for.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Stat, flock, fstat, major, minor};
use rustix::io::Errno;

use super::error::{FileHolder, OpenError};

/// udev locks a block device for moments while it looks at it: that is waited out.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// A lock that a process left behind is waited for as long as the last fsync of a slow disk may take: 5 s.
const TRIES_LEFT: u32 = 250;

/// Where the kernel lists locks.
const LOCKS: &str = "/proc/locks";

/// Takes the lock of a disk that is open for writing, as [`File::open`](super::File::open) does: for files that are changed before
/// they are a disk, or removed. The lock ends with the last descriptor of the open file.
///
/// # Errors
/// [`OpenError::InUse`] if another process or this one holds it.
pub async fn lock_exclusive(file: impl AsFd, path: &Path) -> Result<(), OpenError> {
    let stat = fstat(&file).map_err(|e| OpenError::system(path, "fstat", e))?;
    take(file.as_fd(), path, &stat, false).await
}

/// Takes the lock, or returns its holder. A wait for it keeps nothing else on this core from running.
pub(super) async fn take(
    fd: BorrowedFd<'_>,
    path: &Path,
    stat: &Stat,
    read_only: bool,
) -> Result<(), OpenError> {
    let operation = if read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    let mut tries = 0;
    loop {
        tries += 1;
        match flock(fd, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => {}
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {
                tracing::warn!(
                    "{} is on a filesystem without locks: see that nothing else writes to it",
                    path.display()
                );
                return Ok(());
            }
            Err(e) => return Err(OpenError::system(path, "flock", e)),
        }
        // Only a lock that may be held for a moment is worth a wait. Also one of this process: a child that it has started
        // has the file until it runs its own program.
        let held = holder(path, stat, read_only);
        let may_end = tries < TRIES || (tries < TRIES_LEFT && may_be_left_behind(&held));
        if !may_end {
            let path = path.to_owned();
            return Err(OpenError::InUse { path, holder: held });
        }
        engine::clock::sleep(BETWEEN_TRIES).await;
    }
}

/// Whether the lock of `holder` may be what a process left behind. The kernel lists none of one that is gone; it lists
/// none of another machine, or of another namespace of processes, either.
fn may_be_left_behind(holder: &FileHolder) -> bool {
    let Some(process) = holder.process else {
        return true;
    };
    let text = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}"));
    match (text("stat"), text("status")) {
        (Ok(stat), Ok(status)) => is_ending(&stat, &status),
        // Gone since it was listed.
        (Err(e), _) | (_, Err(e)) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Whether a process ends, or has ended, by the texts of `/proc/PID/stat` and `/proc/PID/status`: it is a zombie, it is
/// on its way out, or it was killed and does not know it yet.
pub(super) fn is_ending(stat: &str, status: &str) -> bool {
    const EXITING: u32 = 0x4;
    const KILLED: u64 = 1 << 8;
    // The name before the state may have blanks and brackets in it.
    let behind = stat.rsplit_once(") ").map_or("", |(_, behind)| behind);
    let mut words = behind.split_ascii_whitespace();
    let is_dead = words.next().is_some_and(|state| matches!(state, "Z" | "X"));
    let flags = words.nth(5).and_then(|flags| flags.parse::<u32>().ok());
    let pending = status.lines().any(|line| {
        let mask = line
            .strip_prefix("SigPnd:")
            .or(line.strip_prefix("ShdPnd:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & KILLED != 0)
    });
    is_dead || pending || flags.is_some_and(|flags| flags & EXITING != 0)
}

/// Lets the lock go again, where there is one.
pub(super) fn release(fd: impl AsFd) {
    if let Err(e) = flock(fd, FlockOperation::NonBlockingUnlock) {
        tracing::debug!("a lock was not released: {e}");
    }
}

/// The holder of the file of `stat`, as far as the kernel reports it.
pub(super) fn holder(path: &Path, stat: &Stat, read_only: bool) -> FileHolder {
    let listed = std::fs::read_to_string(LOCKS).unwrap_or_else(|e| {
        tracing::debug!(
            "{LOCKS} does not report the holder of {}: {e}",
            path.display()
        );
        String::new()
    });
    let device = (major(stat.st_dev), minor(stat.st_dev));
    find(&listed, device, stat.st_ino).unwrap_or(FileHolder {
        // A shared lock is refused by a writer only; an exclusive one may be refused by either.
        writes: read_only,
        process: None,
    })
}

/// The holder of a flock in the text of /proc/locks:
///
/// ```text
/// 3: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF
///                           pid  device:inode (major and minor in hex)
/// ```
pub(super) fn find(listed: &str, device: (u32, u32), inode: u64) -> Option<FileHolder> {
    listed.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (class, _, access) = (words.next()?, words.next()?, words.next()?);
        let (process, place) = (words.next()?, words.next()?);
        let mut place = place.split(':');
        let major = u32::from_str_radix(place.next()?, 16).ok()?;
        let minor = u32::from_str_radix(place.next()?, 16).ok()?;
        let found: u64 = place.next()?.parse().ok()?;
        (class == "FLOCK" && (major, minor) == device && found == inode).then(|| FileHolder {
            writes: access == "WRITE",
            process: process.parse().ok().filter(|&process| process > 0),
        })
    })
}
