//! [`Maps`]: the mapped files that a server sends from, kept from connection to connection.
//!
//! A mapping costs a page fault for every 64 KiB when it is first used, and its end costs as much
//! again, so it outlives the connection that asked for it.
//!
//! # Invariants
//!
//! * At most [`MAPS_MAX`] files are mapped; others are sent from without a mapping.
//! * A file that nothing but its mapping holds is let go when the next one is asked for, and when
//!   an export ends ([`Maps::let_go`]).

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use engine::FileMap;

/// Files mapped at once.
const MAPS_MAX: usize = 64;

/// The mapped files of a server.
#[derive(Debug, Default)]
pub(super) struct Maps(Mutex<Vec<Arc<FileMap>>>);

impl Maps {
    /// The mapping of `file`; `None` where there can be none.
    pub(super) fn of(&self, file: &Arc<OwnedFd>) -> Option<Arc<FileMap>> {
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = maps.iter().find(|map| map.is_of(file)) {
            return Some(map.clone());
        }
        maps.retain(|map| !map.is_last());
        if maps.len() >= MAPS_MAX {
            return None;
        }
        let map = Arc::new(FileMap::new(file).ok()?);
        maps.push(map.clone());
        Some(map)
    }

    /// Closes the files that nothing but their mapping holds any more.
    pub(super) fn let_go(&self) {
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        maps.retain(|map| !map.is_last());
    }

    /// Maps anew whatever is asked for from here on: a file may have grown.
    pub(super) fn forget_all(&self) {
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        maps.clear();
    }
}
