//! The requests of a throttled disk, and what each one costs. Pure.

use std::num::NonZeroU64;
use std::time::Duration;

use block::{Operation, Range};

/// What an idle disk saves up, if its rates do not say: so much time's worth of each rate.
pub(super) const BURST_DEFAULT: Duration = Duration::from_millis(50);

/// How much a disk carries out at most. What is `None` is not bounded.
///
/// Rates of reads and of writes and those for both may be combined: all of them hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Bytes per second, read and written.
    pub bytes_per_s: Option<NonZeroU64>,
    /// Requests per second, of any kind.
    pub ops_per_s: Option<NonZeroU64>,
    /// Bytes read per second.
    pub read_bytes_per_s: Option<NonZeroU64>,
    /// Reads per second.
    pub read_ops_per_s: Option<NonZeroU64>,
    /// Bytes written per second.
    pub write_bytes_per_s: Option<NonZeroU64>,
    /// Writes, flushes, `write_zeroes` and trims per second.
    pub write_ops_per_s: Option<NonZeroU64>,
    /// What an idle disk saves up of each rate of bytes, bytes. `None`: what comes up in 50 ms.
    pub burst_bytes: Option<u64>,
    /// What an idle disk saves up of each rate of requests. `None`: what comes up in 50 ms.
    pub burst_ops: Option<u64>,
}

/// One rate: so many units per second, and what is saved up while the disk is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) per_s: NonZeroU64,
    pub(super) burst: u64,
}

/// The rates that hold for one kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RatePair {
    pub(super) bytes: Option<Rate>,
    pub(super) ops: Option<Rate>,
}

impl Rates {
    /// The rates for all requests.
    pub(super) fn both(&self) -> RatePair {
        self.pair(self.bytes_per_s, self.ops_per_s)
    }

    /// Those for reads alone.
    pub(super) fn read(&self) -> RatePair {
        self.pair(self.read_bytes_per_s, self.read_ops_per_s)
    }

    /// Those for changes alone.
    pub(super) fn write(&self) -> RatePair {
        self.pair(self.write_bytes_per_s, self.write_ops_per_s)
    }

    fn pair(&self, bytes: Option<NonZeroU64>, ops: Option<NonZeroU64>) -> RatePair {
        let rate = |per_s: NonZeroU64, burst: Option<u64>| Rate {
            per_s,
            burst: burst.unwrap_or_else(|| saved_up(per_s)),
        };
        RatePair {
            bytes: bytes.map(|per_s| rate(per_s, self.burst_bytes)),
            ops: ops.map(|per_s| rate(per_s, self.burst_ops)),
        }
    }
}

/// What comes up in [`BURST_DEFAULT`].
fn saved_up(per_s: NonZeroU64) -> u64 {
    let units = u128::from(per_s.get()) * BURST_DEFAULT.as_millis() / 1000;
    u64::try_from(units).expect("less than a rate of 64 bits")
}

/// What a request takes of its rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) bytes: u64,
    pub(super) ops: u64,
}

/// What `operation` costs; `None` if it is not counted. Zeroing and trimming move no bytes.
pub(super) const fn cost(operation: Operation, range: Option<Range>) -> Option<Cost> {
    let bytes = match (operation, range) {
        (Operation::Extents | Operation::Measure, _) => return None,
        (Operation::Read | Operation::Write, Some(range)) => range.len,
        _ => 0,
    };
    Some(Cost { bytes, ops: 1 })
}
