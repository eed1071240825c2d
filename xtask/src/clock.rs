//! Wall time for the commands: they measure and wait for real processes, so nothing here replays.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The present moment.
#[expect(
    clippy::disallowed_methods,
    reason = "real processes are waited for in real time"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970, for naming results.
#[expect(clippy::disallowed_methods, reason = "a result is dated")]
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Polls `ready` every few milliseconds until it answers or `limit` has passed.
pub(crate) fn poll<T>(limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let end = now() + limit;
    loop {
        if let Some(answer) = ready() {
            return Some(answer);
        }
        if now() >= end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
