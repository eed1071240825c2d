//! Calendar dates from milliseconds since 1970, in UTC. Pure.

/// `2023-11-14 22:13 UTC`.
pub(super) fn shown(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let (year, month, day) = civil(minutes / 1440);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
        minutes / 60 % 24,
        minutes % 60
    )
}

/// The date `days` after 1 January 1970, in the Gregorian calendar.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        // Anything beyond is no date of a measurement, and the loop must end.
        if days < length || year >= 9999 {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month.min(12), days.min(30) + 1)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
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
