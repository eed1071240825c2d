//! The guard against two writers: flock(2), exclusive for who writes, shared for who reads.
//!
//! The lock belongs to the open file, so it also stands between two nodes of one process, and ends
//! with the last operation in flight.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Stat, flock, major, minor};
use rustix::io::Errno;

use super::error::{Holder, OpenError};

/// udev locks a block device for moments while it looks at it: that is waited out.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// Where the kernel lists locks.
const LOCKS: &str = "/proc/locks";

/// Takes the lock, or says who has it.
pub(super) fn take(
    fd: impl AsFd,
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
        match flock(&fd, operation) {
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
        // Only a lock that another program may hold for a moment is worth a wait.
        let held = holder(path, stat, read_only);
        if tries == TRIES || held.process == Some(std::process::id()) {
            let path = path.to_owned();
            return Err(OpenError::InUse { path, holder: held });
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}

/// Lets the lock go again, where there is one.
pub(super) fn release(fd: impl AsFd) {
    if let Err(e) = flock(fd, FlockOperation::NonBlockingUnlock) {
        tracing::debug!("a lock was not released: {e}");
    }
}

/// Who holds the file of `stat`, as far as the kernel tells.
pub(super) fn holder(path: &Path, stat: &Stat, read_only: bool) -> Holder {
    let listed = std::fs::read_to_string(LOCKS).unwrap_or_else(|e| {
        tracing::debug!("{LOCKS} does not tell who holds {}: {e}", path.display());
        String::new()
    });
    let device = (major(stat.st_dev), minor(stat.st_dev));
    find(&listed, device, stat.st_ino).unwrap_or(Holder {
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
pub(super) fn find(listed: &str, device: (u32, u32), inode: u64) -> Option<Holder> {
    listed.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (class, _, access) = (words.next()?, words.next()?, words.next()?);
        let (process, place) = (words.next()?, words.next()?);
        let mut place = place.split(':');
        let major = u32::from_str_radix(place.next()?, 16).ok()?;
        let minor = u32::from_str_radix(place.next()?, 16).ok()?;
        let found: u64 = place.next()?.parse().ok()?;
        (class == "FLOCK" && (major, minor) == device && found == inode).then(|| Holder {
            writes: access == "WRITE",
            process: process.parse().ok().filter(|&process| process > 0),
        })
    })
}
