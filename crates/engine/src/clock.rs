//! The clock. Everything that asks for the time asks here, so that a test can tell where time
//! enters.

use std::future::Future;
use std::time::{Duration, Instant, SystemTime};

/// A deadline passed before the future was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct Elapsed;

/// Monotonic time.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one door to the clock"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Calendar time.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one door to the clock"
)]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Resolves after `duration`. Only inside [`run`](crate::run).
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// The future's output, if it is ready within `duration`; else it is dropped.
///
/// # Errors
/// [`Elapsed`].
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    tokio::time::timeout(duration, future)
        .await
        .map_err(|_| Elapsed)
}
