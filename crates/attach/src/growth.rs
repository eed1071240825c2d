//! Disks that grow while they are attached: when the size is fetched, and how a client requests it.
//!
//! NBD has no notification that an export has another size; a client fetches it again. A disk that has
//! become smaller is never followed: what lies behind its end would be lost without a word.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::kernel::KernelError;

/// How often the size is fetched without a request.
pub(crate) const GROWTH_EVERY: Duration = Duration::from_secs(60);
/// Pending requests for the size.
pub(crate) const SIZE_REQUESTS_MAX: usize = 4;

/// A request for the size, answered when the device has it.
pub(crate) type SizeReply = oneshot::Sender<Result<u64, String>>;

/// Replies to a request, if there was one. The client may have disconnected.
pub(crate) fn answer(reply: Option<SizeReply>, size: Result<u64, String>) {
    if let Some(reply) = reply {
        drop(reply.send(size));
    }
}

/// Why the size could not be fetched last, so that a failure that stays (a client after a failed flush, say) is logged once.
#[derive(Debug, Default)]
pub(crate) struct LastSizeFailure(Option<String>);

impl LastSizeFailure {
    /// Whether a result is a failure, and another one than the last.
    pub(crate) fn is_new<T>(&mut self, result: &Result<T, String>) -> bool {
        let failure = result.as_ref().err();
        let is_new = failure.is_some() && failure != self.0.as_ref();
        self.0 = failure.cloned();
        is_new
    }
}

/// The disk has another size than it must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the disk has {is} bytes now and had {was}; it is used again when it is as large as before"
)]
pub(crate) struct SizeMismatch {
    was: u64,
    is: u64,
}

/// The error for a disk that had `was` bytes and has `is`.
pub(crate) const fn size_mismatch(was: u64, is: u64) -> SizeMismatch {
    SizeMismatch { was, is }
}

impl From<SizeMismatch> for KernelError {
    fn from(mismatch: SizeMismatch) -> Self {
        Self::Server(mismatch.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::LastSizeFailure;

    /// What was wrong: after a failed flush the same warning was logged every minute for as long as the disk was attached.
    #[test]
    fn a_failure_that_stays_is_new_once_and_again_after_a_success_or_another_one() {
        let mut last = LastSizeFailure::default();
        let mut is_new = |result: Result<u64, &str>| last.is_new(&result.map_err(str::to_owned));
        assert!(!is_new(Ok(1)));
        assert!(is_new(Err("a flush failed")));
        assert!(!is_new(Err("a flush failed")));
        assert!(is_new(Err("connection refused")));
        assert!(!is_new(Err("connection refused")));
        assert!(!is_new(Ok(1)));
        assert!(is_new(Err("connection refused")));
    }
}
