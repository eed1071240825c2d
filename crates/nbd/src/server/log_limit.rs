//! [`LogLimit`]: how often something that clients cause is logged. Pure.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two log lines of one kind.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// One kind of log line.
#[derive(Debug, Default)]
pub(super) struct LogLimit(Mutex<Logged>);

#[derive(Debug, Default)]
struct Logged {
    last: Option<Instant>,
    /// Occurrences since then.
    unlogged: u64,
}

impl LogLimit {
    /// Counts an occurrence. Returns how many were not logged before it if this one should be; `None`: it should not.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = logged
            .last
            .is_none_or(|last| now.saturating_duration_since(last) >= INTERVAL);
        if !is_due {
            logged.unlogged += 1;
            return None;
        }
        logged.last = Some(now);
        Some(std::mem::take(&mut logged.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refusals were logged once, and then not before another client had been accepted: neither how long they went on
    /// nor how many they were could be seen, and where both alternated each was a line.
    #[test]
    fn one_line_an_interval_says_how_many_there_were() {
        let limit = LogLimit::default();
        let start = engine::clock::now();
        assert_eq!(limit.admit(start), Some(0));
        for nth in 0..500 {
            assert_eq!(limit.admit(start + Duration::from_millis(nth)), None);
        }
        assert_eq!(limit.admit(start + INTERVAL), Some(500));
        assert_eq!(limit.admit(start + INTERVAL), None);
        assert_eq!(limit.admit(start + 3 * INTERVAL), Some(1));
    }
}
