//! Calendar dates from milliseconds since 1970, in UTC. Pure.

use engine::clock::Calendar;

/// The last second of the year 9999: anything beyond is no date of a measurement.
const LAST: u64 = 253_402_300_799;

/// `2023-11-14 22:13 UTC`.
pub(super) fn shown(unix_ms: u64) -> String {
    Calendar::of((unix_ms / 1000).min(LAST)).to_the_minute()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_have_their_dates() {
        assert_eq!(shown(0), "1970-01-01 00:00 UTC");
        assert_eq!(shown(1_700_000_000_000), "2023-11-14 22:13 UTC");
        assert_eq!(shown(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(shown(1_735_689_599_000), "2024-12-31 23:59 UTC");
    }

    #[test]
    fn the_largest_number_is_some_date_and_no_panic() {
        assert!(shown(u64::MAX).starts_with("9999-12-"));
    }
}
