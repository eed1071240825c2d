//! Whether a volume that is open for writing still is this server's.
//!
//! # Invariants
//!
//! * [`BucketVolume::confirm`] succeeds only if no other server had begun to open the volume for writing at a moment after the call:
//!   what this one has in memory, and in the index as it knows it, was the last state of the volume at that moment.
//! * A request that fails because the index is another server's fails as [`VolumeFailure::Fenced`], whichever part finds it first.
//!
//! # What it does not do
//!
//! It promises nothing of the time after: the next flush finds another writer by itself.

use std::sync::Arc;

use block::{IoError, Operation, Range};

use super::checkpoints::IndexCheckpoints;
use super::index::ScanError;
use super::{BucketVolume, VolumeShared};
use crate::error::{BucketError, VolumeFailure};

impl BucketVolume {
    /// Reads from the store whether the volume is still this server's. A writer that is fenced learns that with its next flush, or
    /// within a quarter of a minute; until then it would answer reads with what was there before.
    ///
    /// # Errors
    /// [`BucketError::Failed`] if the volume is out of use; others if the store does not answer, which changes nothing.
    pub async fn confirm(&self) -> Result<(), BucketError> {
        let confirm = |shared: Arc<VolumeShared>| async move { shared.confirm_writer().await };
        self.shared.in_task(confirm).await
    }

    /// Resolves when the volume is out of use, with the reason. It does not keep the volume open.
    pub fn failed(&self) -> impl Future<Output = VolumeFailure> + Send + use<> {
        let shared = self.shared.clone();
        async move {
            loop {
                // Registered before the failure is looked at, so that it is not missed.
                let changed = shared.space.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let failure = shared.memory().failure().cloned();
                if let Some(failure) = failure {
                    return failure;
                }
                changed.await;
            }
        }
    }
}

impl VolumeShared {
    async fn confirm_writer(&self) -> Result<(), BucketError> {
        let out_of_use = |source| BucketError::Failed {
            uri: self.access.uri.clone(),
            source,
        };
        let failure = self.memory().failure().cloned();
        if let Some(failure) = failure {
            return Err(out_of_use(failure));
        }
        let manifest = IndexCheckpoints::of(&self.access).manifest().await?;
        let last = manifest.map(|manifest| manifest.writer_epoch());
        if last != self.writer_epoch {
            self.fail(VolumeFailure::Fenced);
            return Err(out_of_use(VolumeFailure::Fenced));
        }
        Ok(())
    }

    /// The error of a request about `range` for which the index could not be read.
    pub(super) fn scan_error(
        &self,
        error: ScanError,
        operation: Operation,
        range: Range,
    ) -> IoError {
        if let ScanError::Index(error) = &error
            && let failure @ VolumeFailure::Fenced = VolumeFailure::of_index(error)
        {
            self.fail(failure.clone());
            return self.error(&failure, operation, Some(range));
        }
        IoError::new(block::Errno::Io, operation, Some(range)).because(error)
    }
}
