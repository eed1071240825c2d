//! [`LentFiles`]: regions of files that were handed out, and may still be read.
//!
//! # Invariants
//!
//! * A region that is out is known: bytes that it leads to may be given to something else once all are returned.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::FileRegion;

/// Files behind one place that regions are handed out of; beyond, reads take the other path.
const FILES_MAX: usize = 8;

/// Files of regions that were handed out: ours counts those that are out.
#[derive(Debug, Default)]
pub(crate) struct LentFiles(Mutex<Vec<LentFile>>);

#[derive(Debug)]
struct LentFile {
    file: Arc<OwnedFd>,
    ours: Arc<OwnedFd>,
}

impl LentFiles {
    fn lock(&self) -> MutexGuard<'_, Vec<LentFile>> {
        // The list is right at every moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same region of a descriptor of our own. `None`: there is none.
    pub(crate) fn lend(&self, region: FileRegion) -> Option<FileRegion> {
        let mut files = self.lock();
        let known = files
            .iter()
            .find(|known| Arc::ptr_eq(&known.file, &region.file));
        let file = match known {
            Some(known) => known.ours.clone(),
            None if files.len() == FILES_MAX => return None,
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
