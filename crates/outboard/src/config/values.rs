//! Values with units: counts, sizes and times, each within its bounds.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::{Spanned, Value};

use super::error::Slip;
use crate::graph::ByteSize;

/// Longest time that a limit may have: more is a slip.
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const TIME_MIN: Duration = Duration::from_millis(1);

/// Reads values of one text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a>(pub(super) &'a str);

impl Values<'_> {
    /// `what` is wrong with `value`.
    pub(super) fn slip<T>(self, value: &Spanned<T>, what: impl Display) -> Slip {
        Slip::at(self.0, value.span().start, what.to_string())
    }

    /// A plain number.
    pub(super) fn count(
        self,
        value: &Spanned<Value>,
        bounds: RangeInclusive<usize>,
    ) -> Result<usize, Slip> {
        let number = value.get_ref().as_integer();
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.filter(|n| bounds.contains(n)).ok_or_else(|| {
            let (min, max) = (bounds.start(), bounds.end());
            self.slip(value, format!("not a number from {min} to {max}"))
        })
    }

    /// Bytes: a number, or a text like `64M`.
    pub(super) fn size(
        self,
        value: &Spanned<Value>,
        bounds: RangeInclusive<u64>,
    ) -> Result<u64, Slip> {
        let bytes = match value.get_ref() {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::String(text) => {
                let size = text.parse::<ByteSize>();
                Some(size.map_err(|e| self.slip(value, e))?.0)
            }
            _ => None,
        };
        bytes.filter(|bytes| bounds.contains(bytes)).ok_or_else(|| {
            let (min, max) = (ByteSize(*bounds.start()), ByteSize(*bounds.end()));
            self.slip(
                value,
                format!("not a size from {min} to {max}, like \"64M\""),
            )
        })
    }

    /// A time: a text like `10s`.
    pub(super) fn time(self, value: &Spanned<Value>) -> Result<Duration, Slip> {
        let time = value.get_ref().as_str().and_then(time);
        time.filter(|time| (TIME_MIN..=TIME_MAX).contains(time))
            .ok_or_else(|| self.slip(value, "not a time from \"1ms\" to \"24h\", like \"10s\""))
    }
}

/// `500ms`, `10s`, `5m`, `1h`
fn time(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(unit_ms)?))
}
