//! Typed quantities: bytes, nanoseconds and rates inside, MB/s, MiB/s and Mb/s only in print.
//!
//! Invariants: nothing in this crate computes in a printed unit, and everything that is printed as a rate
//! is printed in MB/s *and* MiB/s, since mistaking one for the other is a 4.9 % error that no reader
//! sees. No I/O.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes in a MiB.
pub const MIB: u64 = 1024 * 1024;
/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// A number of bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A span of time, or a point in a run counted from its start, in nanoseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub f64);

/// The speed of a wire in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitRate(pub u64);

impl Bytes {
    /// In MiB.
    #[must_use]
    pub fn mib(self) -> f64 {
        self.0 as f64 / MIB as f64
    }
}

impl fmt::Display for Bytes {
    /// The largest binary unit that leaves at least one before the point; whole numbers stay whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [
            (1 << 40, "TiB"),
            (1 << 30, "GiB"),
            (MIB, "MiB"),
            (1024, "KiB"),
        ];
        match UNITS.iter().find(|(unit, _)| self.0 >= *unit) {
            None => write!(f, "{} B", self.0),
            Some((unit, name)) if self.0.is_multiple_of(*unit) => {
                write!(f, "{} {name}", self.0 / unit)
            }
            Some((unit, name)) => write!(f, "{:.1} {name}", self.0 as f64 / *unit as f64),
        }
    }
}

impl Nanos {
    /// The middle of some times, of two the longer one; none where there are none.
    #[must_use]
    pub fn middle(mut times: Vec<Self>) -> Option<Self> {
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }

    /// From whole milliseconds; saturates.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// From a standard duration; saturates after 584 years.
    #[must_use]
    pub fn from_duration(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// In seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / SECOND as f64
    }

    /// The time that `bytes` take at `rate`; saturates.
    #[must_use]
    pub fn of_transfer(bytes: Bytes, rate: Rate) -> Self {
        Self(round(bytes.0 as f64 / rate.0.max(1.0) * SECOND as f64))
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits in the unit that suits: `812 ns`, `97.3 us`, `12.4 ms`, `2.60 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
        let value = self.0 as f64;
        match UNITS.iter().find(|(unit, _)| value >= unit * 0.9995) {
            None => write!(f, "{} ns", self.0),
            Some((unit, name)) => write!(f, "{} {name}", significant(value / unit)),
        }
    }
}

impl Rate {
    /// The rate of `bytes` in `time`; none when no time passed.
    #[must_use]
    pub fn of(bytes: Bytes, time: Nanos) -> Option<Self> {
        (time.0 > 0).then(|| Self(bytes.0 as f64 / time.seconds()))
    }

    /// In MB/s (10^6 bytes).
    #[must_use]
    pub fn mb(self) -> f64 {
        self.0 / 1e6
    }

    /// In MiB/s (2^20 bytes).
    #[must_use]
    pub fn mib(self) -> f64 {
        self.0 / MIB as f64
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} MB/s ({} MiB/s)",
            significant(self.mb()),
            significant(self.mib())
        )
    }
}

impl BitRate {
    /// From megabits per second, the unit the kernel gives a link's speed in.
    #[must_use]
    pub const fn from_mbit(mbit: u64) -> Self {
        Self(mbit.saturating_mul(1_000_000))
    }

    /// The wire's rate in bytes, with everything that is on it.
    #[must_use]
    pub fn bytes_per_second(self) -> Rate {
        Rate(self.0 as f64 / 8.0)
    }

    /// What TCP over Ethernet can carry of a file's bytes: 1448 of every 1538 on the wire.
    ///
    /// 1538 = preamble 8, header 14, payload 1500, checksum 4, gap 12; 1448 = 1500 less the IPv4
    /// header 20, the TCP header 20 and its timestamps 12.
    #[must_use]
    pub fn tcp_goodput(self) -> Rate {
        Rate(self.bytes_per_second().0 * 1448.0 / 1538.0)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mb/s", significant(self.0 as f64 / 1e6))
    }
}

/// Three significant digits, never in exponent form; thousands are kept whole.
#[must_use]
pub fn significant(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 {
        grouped(value)
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Between groups of three digits: a narrow no-break space. A comma or a point is the decimal sign of some reader.
pub const GROUP: char = '\u{202f}';

/// A whole number in groups of three digits, for people: `19 156` with [`GROUP`].
#[must_use]
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    if value <= -0.5 {
        out.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(GROUP);
        }
        out.push(digit);
    }
    out
}

/// Text without what [`grouped`] has put into its numbers, for programs.
#[must_use]
pub fn ungrouped(text: &str) -> String {
    text.replace(GROUP, "")
}

/// The nearest whole number; what is negative or not a number becomes zero.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the one place where a float becomes an integer; `as` saturates"
)]
pub fn round(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests;
