//! The end of the volumes on object stores that are open in this process.
//!
//! # Invariants
//!
//! * They are closed behind arrays and caches, which may be made of them. A volume that is dropped commits by itself, but not before the
//!   process ends.

use std::pin::Pin;

use attach::{CacheCounts, DiskSupervisor};

/// Commits and closes all of them, behind the last request of this process.
#[cfg(feature = "bucket")]
pub(crate) async fn close_all() {
    bucket::close_all().await;
}

/// There are none.
#[cfg(not(feature = "bucket"))]
#[allow(clippy::unused_async, reason = "it waits where the feature is there")]
pub(crate) async fn close_all() {}

/// Closes the volumes of an attached disk when it is detached.
pub(crate) struct AttachedVolumes {
    /// That of what else is below the disk.
    inner: Option<Box<dyn DiskSupervisor>>,
}

impl AttachedVolumes {
    /// The supervisor of a disk with this one, if this program has volumes.
    pub(crate) fn over(inner: Option<Box<dyn DiskSupervisor>>) -> Option<Box<dyn DiskSupervisor>> {
        match cfg!(feature = "bucket") {
            true => Some(Box::new(Self { inner })),
            false => inner,
        }
    }
}

impl DiskSupervisor for AttachedVolumes {
    fn problem(&self) -> Option<String> {
        self.inner.as_ref().and_then(|inner| inner.problem())
    }

    fn caches(&self) -> Vec<CacheCounts> {
        let inner = self.inner.as_ref();
        inner.map_or_else(Vec::new, |inner| inner.caches())
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            let closed = match &self.inner {
                Some(inner) => inner.close().await,
                None => Ok(()),
            };
            close_all().await;
            closed
        })
    }
}
