//! The clock. Everything that needs the time gets it here, so that a test can set where time
//! enters.

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant, SystemTime};

/// A deadline passed before the future was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct Elapsed;

/// Monotonic time, by the same clock as [`sleep`]: where a test has stopped that, it is stopped here, too.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
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

/// A moment by the Gregorian calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Calendar {
    /// The year.
    pub year: u64,
    /// The month, from 1 on.
    pub month: u64,
    /// The day of the month, from 1 on.
    pub day: u64,
    /// The hour of the day.
    pub hour: u64,
    /// The minute of the hour.
    pub minute: u64,
    /// The second of the minute.
    pub second: u64,
}

impl Calendar {
    /// The moment so many seconds after 1 January 1970.
    #[must_use]
    pub const fn of(seconds: u64) -> Self {
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        // Years that begin in March have their odd day at the end.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let moon = (5 * of_year + 2) / 153;
        let month = if moon < 10 { moon + 3 } else { moon - 9 };
        let is_next = if month <= 2 { 1 } else { 0 };
        Self {
            year: year + era * 400 + is_next,
            month,
            day: of_year - (153 * moon + 2) / 5 + 1,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }

    /// `2026-11-21 19:08 UTC`.
    #[must_use]
    pub fn to_the_minute(self) -> String {
        let Self { hour, minute, .. } = self;
        format!("{} {hour:02}:{minute:02} UTC", self.date())
    }

    fn date(self) -> String {
        let Self {
            year, month, day, ..
        } = self;
        format!("{year:04}-{month:02}-{day:02}")
    }
}

impl fmt::Display for Calendar {
    /// `2026-11-21 19:08:19 UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hour,
            minute,
            second,
            ..
        } = self;
        write!(f, "{} {hour:02}:{minute:02}:{second:02} UTC", self.date())
    }
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

#[cfg(test)]
mod tests {
    use super::Calendar;

    fn calendar_fields(seconds: u64) -> (u64, u64, u64, u64, u64, u64) {
        let at = Calendar::of(seconds);
        (at.year, at.month, at.day, at.hour, at.minute, at.second)
    }

    #[test]
    fn known_moments_have_their_dates() {
        assert_eq!(calendar_fields(0), (1970, 1, 1, 0, 0, 0));
        assert_eq!(calendar_fields(951_782_399), (2000, 2, 28, 23, 59, 59));
        assert_eq!(calendar_fields(951_827_696), (2000, 2, 29, 12, 34, 56));
        assert_eq!(calendar_fields(1_735_689_599), (2024, 12, 31, 23, 59, 59));
        assert_eq!(calendar_fields(1_795_288_099), (2026, 11, 21, 19, 8, 19));
        assert_eq!(calendar_fields(253_402_300_799), (9999, 12, 31, 23, 59, 59));
    }

    #[test]
    fn moments_are_formatted_to_the_second_and_to_the_minute() {
        let text = |seconds| Calendar::of(seconds).to_string();
        assert_eq!(text(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(text(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(text(951_827_696), "2000-02-29 12:34:56 UTC");
        let minute = |seconds| Calendar::of(seconds).to_the_minute();
        assert_eq!(minute(1_700_000_000), "2023-11-14 22:13 UTC");
        assert_eq!(minute(253_402_300_799), "9999-12-31 23:59 UTC");
    }

    #[test]
    fn each_day_is_the_one_behind_the_day_before() {
        for day in 1..800 * 366_u64 {
            let (before, at) = (Calendar::of((day - 1) * 86_400), Calendar::of(day * 86_400));
            assert!(before < at && (1..=12).contains(&at.month));
            let follows = at.day == before.day + 1 && at.month == before.month;
            assert!(
                follows || at.day == 1 && (28..=31).contains(&before.day),
                "{at:?}"
            );
        }
    }
}
