//! Times as people write them: `2ms`, `1.5s`, `250us`, `2m`, `1h`.
//!
//! A time always has a unit: a plain number would be milliseconds to one reader and seconds to the
//! next. A fraction must give whole nanoseconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) Duration);

/// Why a text is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TimeError {
    /// No digits at its head.
    #[error("a time begins with a number, like 2ms or 1.5s")]
    NoNumber,
    /// A number alone.
    #[error("a time has a unit: us, ms, s, m or h")]
    NoUnit,
    /// Something else than a unit behind the number.
    #[error("`{0}` is not a unit: use us, ms, s, m or h")]
    Unit(String),
    /// A fraction of a nanosecond.
    #[error("finer than a nanosecond")]
    Fraction,
    /// More than a day.
    #[error("too long: at most 24h")]
    TooLong,
}

/// Units and their nanoseconds, the longest first.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
];
/// Longest time, nanoseconds: a day. What is longer is a slip of the pen.
const NANOS_MAX: u64 = 24 * 3_600_000_000_000;
/// Most digits on either side of the point.
const DIGITS_MAX: usize = 18;

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let number_end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) {
            return Err(TimeError::NoNumber);
        }
        if whole.len() > DIGITS_MAX {
            return Err(TimeError::TooLong);
        }
        let nanos = u128::from(nanos_of(unit)?);
        let parse = |digits: &str| digits.parse::<u128>().map_err(|_| TimeError::NoNumber);
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > DIGITS_MAX {
            return Err(TimeError::Fraction);
        }
        let scale = fraction.bytes().fold(1_u128, |scale, _| scale * 10);
        let part = if fraction.is_empty() {
            0
        } else {
            parse(fraction)? * nanos
        };
        if !part.is_multiple_of(scale) {
            return Err(TimeError::Fraction);
        }
        // Below 10^18 * 2^42: far from the end of 128 bits.
        let total = parse(whole)? * nanos + part / scale;
        let total = u64::try_from(total).ok().filter(|t| *t <= NANOS_MAX);
        Ok(Self(Duration::from_nanos(total.ok_or(TimeError::TooLong)?)))
    }
}

fn nanos_of(unit: &str) -> Result<u64, TimeError> {
    if unit.is_empty() {
        return Err(TimeError::NoUnit);
    }
    let known = UNITS.iter().find(|(name, _)| *name == unit);
    let (_, nanos) = known.ok_or_else(|| TimeError::Unit(unit.to_owned()))?;
    Ok(*nanos)
}

impl fmt::Display for Time {
    /// In the largest unit that holds it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos == 0 {
            return f.write_str("0s");
        }
        let exact = UNITS
            .iter()
            .find(|(_, unit)| nanos.is_multiple_of(u128::from(*unit)));
        let (name, unit) = exact.unwrap_or(&("ns", 1));
        write!(f, "{}{name}", nanos / u128::from(*unit))
    }
}
