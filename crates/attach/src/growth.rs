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
