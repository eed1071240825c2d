//! [`LentFiles`]: regions of files that were handed out, and may still be read.
//!
//! # Invariants
//!
//! * A region that is out is known: bytes that it leads to may be given to something else once all are returned.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::FileRegion;
use engine::clock;

/// How long regions that were handed out are waited for, and how often they are looked at.
const LENT_MAX: Duration = Duration::from_secs(60);
const LENT_LOOK: Duration = Duration::from_millis(10);

/// Files behind one place that regions are handed out of; beyond, reads take the other path.
const FILES_MAX: usize = 8;

/// Files of regions that were handed out: ours counts those that are out.
#[derive(Debug)]
pub(crate) struct LentFiles {
    files: Mutex<Vec<LentFile>>,
    max: usize,
}

#[derive(Debug)]
struct LentFile {
    file: Arc<OwnedFd>,
    ours: Arc<OwnedFd>,
}

impl Default for LentFiles {
    fn default() -> Self {
        Self::of(1)
    }
}

impl LentFiles {
    /// Those of so many places.
    pub(crate) const fn of(places: usize) -> Self {
        Self {
            files: Mutex::new(Vec::new()),
            max: places.saturating_mul(FILES_MAX),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LentFile>> {
        // The list is right at every moment.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same region of a descriptor of our own. `None`: there is none.
    pub(crate) fn lend(&self, region: FileRegion) -> Option<FileRegion> {
        let mut files = self.lock();
        let known = files
            .iter()
            .find(|known| Arc::ptr_eq(&known.file, &region.file));
        let file = match known {
            Some(known) => known.ours.clone(),
            None if files.len() == self.max => return None,
            None => {
                let ours = Arc::new(region.file.try_clone().ok()?);
                files.push(LentFile {
                    file: region.file,
                    ours: ours.clone(),
                });
                ours
            }
        };
        Some(FileRegion {
            file,
            offset: region.offset,
        })
    }

    pub(crate) fn are_returned(&self) -> bool {
        let files = self.lock();
        files.iter().all(|file| Arc::strong_count(&file.ours) == 1)
    }
}

/// Waits until no region is out, while no more are handed out.
///
/// # Errors
/// One is still out after a minute: what that means.
pub(crate) async fn wait_for_returns(are_returned: impl Fn() -> bool) -> Result<(), String> {
    let mut left = LENT_MAX;
    while !are_returned() {
        if left.is_zero() {
            let seconds = LENT_MAX.as_secs();
            return Err(format!(
                "a client has not taken what it reads for {seconds} s"
            ));
        }
        clock::sleep(LENT_LOOK).await;
        left = left.saturating_sub(LENT_LOOK);
    }
    Ok(())
}
