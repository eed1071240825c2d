//! [`ReadErrors`]: how many read errors of a member are repaired before it has failed. Pure.
//!
//! A member that cannot be read here and there is rewritten there and goes on; one on which that happens again and again
//! is dying. The bound is that of md (`max_corr_read_errors`, `check_decay_read_errors` in drivers/md).
//!
//! # Invariants
//!
//! * Each whole hour without one halves what counts.

use std::time::Duration;

/// As many read errors are repaired; the next one fails the member.
pub(super) const READ_ERRORS_MAX: u32 = 20;
const HOUR: Duration = Duration::from_secs(3600);

/// Read errors of one member, lately.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReadErrors {
    count: u32,
    last: Option<Duration>,
}

impl ReadErrors {
    /// There is one more, at `now`. Whether these are too many.
    pub(super) fn one_more(&mut self, now: Duration) -> bool {
        let since = self
            .last
            .map_or(0, |last| now.saturating_sub(last).as_secs());
        let hours = u32::try_from(since / HOUR.as_secs()).unwrap_or(u32::MAX);
        self.count = self.count.checked_shr(hours).unwrap_or(0) + 1;
        self.last = Some(now);
        self.count > READ_ERRORS_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{READ_ERRORS_MAX, ReadErrors};

    /// How many errors a member survives that has so many seconds between two of them.
    fn survived(gap: u64) -> u32 {
        let mut errors = ReadErrors::default();
        let at = |index: u32| Duration::from_secs(gap * u64::from(index));
        let mut indices = 0..1000;
        indices
            .find(|index| errors.one_more(at(*index)))
            .unwrap_or(1000)
    }

    #[test]
    fn more_than_twenty_within_an_hour_are_too_many() {
        assert_eq!(survived(0), READ_ERRORS_MAX);
        assert_eq!(survived(179), READ_ERRORS_MAX);
        assert_eq!(survived(3599), READ_ERRORS_MAX);
    }

    #[test]
    fn each_hour_without_one_halves_them() {
        assert_eq!(survived(3600), 1000);
        let mut errors = ReadErrors::default();
        for _ in 0..20 {
            assert!(!errors.one_more(Duration::ZERO));
        }
        // 10 are left of 20 after an hour, and ten more are within the bound.
        for _ in 0..10 {
            assert!(!errors.one_more(Duration::from_secs(3600)));
        }
        assert!(errors.one_more(Duration::from_secs(3600)));
        // After a day they are forgotten, after ages too.
        assert!(!errors.one_more(Duration::from_secs(100_000)));
        assert_eq!(errors.count, 1);
        assert!(!errors.one_more(Duration::MAX));
        assert_eq!(errors.count, 1);
    }
}
