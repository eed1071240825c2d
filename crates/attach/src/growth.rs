//! Disks that grow while they are attached: when the server is asked, and how that is asked for.
//!
//! NBD tells nobody that an export has another size; who wants to know asks again. A disk that has
//! become smaller is never followed: what lies behind its end would be lost without a word.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::kernel::KernelError;

/// How often a server is asked for the size unbidden.
pub(crate) const GROWTH_EVERY: Duration = Duration::from_secs(60);
/// Questions for the size that wait.
pub(crate) const SIZE_REQUESTS_MAX: usize = 4;

/// A question for the size, to be answered when the device has it.
pub(crate) type SizeReply = oneshot::Sender<Result<u64, String>>;

/// Answers a question, if there was one. Who asked may be gone.
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
