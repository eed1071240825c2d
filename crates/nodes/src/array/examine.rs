//! What each disk says of itself, read and nothing else.

use block::{Errno, IoError, Node, Range};

use super::format::bitmap::{self, Bitmap};
use super::format::{self, Problem, Superblock, Version, places};
use crate::read::read_within;

/// What a place for a superblock holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which place.
    pub version: Version,
    /// Where it is, byte of the disk.
    pub at: u64,
    /// The superblock, or what is wrong with it.
    pub superblock: Result<Superblock, Problem>,
    /// Its write-intent bitmap, or what is wrong with it; `None` where it has none.
    pub bitmap: Option<Result<Bitmap, bitmap::Problem>>,
}

/// Looks at each place where `disk` may have a superblock. Reads at most four of 4 KiB, and as much
/// for each bitmap.
///
/// Superblocks of a disk that begins or ends elsewhere (of a partition, say) are left out where they
/// say so. If there are several, the newest one counts: see [`newest`].
///
/// A place that has a bad sector is none of a superblock where another place has one: data may be there, or nothing.
///
/// # Errors
/// What reading fails with.
pub async fn examine(disk: &Node) -> Result<Vec<Found>, IoError> {
    let mut all = Vec::new();
    let mut unreadable = None;
    for (version, at) in places(disk.geometry().size) {
        let place = Range::new(at, format::PLACE_LEN);
        let bytes = match read_within(disk, place).await {
            Ok(bytes) => bytes,
            Err(error) if error.errno == Errno::Io => {
                unreadable.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let decoded = match format::decode(version, at, &bytes) {
            Ok(None) | Err(Problem::Elsewhere { .. }) => continue,
            Ok(Some(superblock)) => Ok(superblock),
            Err(problem) => Err(problem),
        };
        let version = decoded.as_ref().map_or(version, |found| found.version);
        let bitmap = match decoded.as_ref().map(|found| found.bitmap_at) {
            Ok(Some(place)) => {
                let bytes = read_within(disk, Range::new(place, bitmap::HEADER_LEN)).await?;
                Some(Bitmap::decode(&bytes))
            }
            _ => None,
        };
        all.push(Found {
            version,
            at,
            superblock: decoded,
            bitmap,
        });
    }
    match (unreadable, newest(&all)) {
        (Some(error), None) => return Err(error),
        (Some(error), Some((found, _))) => {
            let version = found.version;
            tracing::warn!(
                "{error}: a superblock {version} was found, and none is looked for there"
            );
        }
        (None, _) => {}
    }
    Ok(all)
}

/// Which of several superblocks of one disk counts: the array that was made last, as mdadm has it.
#[must_use]
pub fn newest(found: &[Found]) -> Option<(&Found, &Superblock)> {
    let good = found
        .iter()
        .filter_map(|found| Some((found, found.superblock.as_ref().ok()?)));
    // The first one of equals.
    good.fold(
        None,
        |best: Option<(&Found, &Superblock)>, next| match best {
            Some(best) if best.1.created >= next.1.created => Some(best),
            _ => Some(next),
        },
    )
}
