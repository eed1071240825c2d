//! [`Bucket`]: when a request has been paid for. Pure: the clock's value comes with each call.
//!
//! ```text
//! time ──────────────────────────────────────────────►
//!           now - burst      paid_up_to     now
//! saved up:      |················|··········|         the next request is ready at once,
//!                                                      if it costs no more than what is dotted
//! ```
//!
//! A rate is a line of time on which each request takes a piece as long as its cost at that rate,
//! behind the piece of the one before it. It is ready when its piece has passed. An idle line runs
//! behind the clock by `burst` at most: that is what has been saved up.
//!
//! # Invariants
//!
//! * Over any span of time, requests of at most `burst + rate * span` become ready, in addition to what the
//!   one request cost that was being paid for when the span began.
//! * Nothing is rounded but the moment itself, up to the next nanosecond: a million requests take
//!   exactly as long as their costs add up to.
//! * First come, first served. A request larger than the burst takes longer, nothing else.

use std::num::NonZeroU64;
use std::time::Duration;

use super::plan::{Cost, Rate, RatePair};

/// A point on a line of time, in pieces of a nanosecond divided by the rate: a unit takes 10^9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct VirtualTime(u128);

/// Pieces of a unit.
const UNIT: u128 = 1_000_000_000;

#[derive(Debug, Clone, Copy)]
struct RateLine {
    per_s: NonZeroU64,
    burst: u128,
    paid_up_to: VirtualTime,
}

impl RateLine {
    const fn new(rate: Rate) -> Self {
        Self {
            per_s: rate.per_s,
            burst: rate.burst as u128 * UNIT,
            paid_up_to: VirtualTime(0),
        }
    }

    /// Takes the piece of a request of `units` that arrived at `now`; when it has passed.
    fn charge(&mut self, now: Duration, units: u64) -> Duration {
        let per_s = u128::from(self.per_s.get());
        let clock = now.as_nanos().saturating_mul(per_s);
        let saved = self.burst.min(clock);
        let start = self.paid_up_to.0.max(clock - saved);
        let end = start.saturating_add(u128::from(units) * UNIT);
        self.paid_up_to = VirtualTime(end);
        let nanos = end.div_ceil(per_s);
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }

    const fn refund(&mut self, units: u64) {
        let units = units as u128 * UNIT;
        self.paid_up_to = VirtualTime(self.paid_up_to.0.saturating_sub(units));
    }
}

/// The rates for one kind of request, and how far they are used up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    bytes: Option<RateLine>,
    ops: Option<RateLine>,
}

impl Bucket {
    /// A bucket with its whole burst saved up from the moment on at which that much time has passed;
    /// nothing if nothing is bounded.
    pub(super) fn new(pair: RatePair) -> Option<Self> {
        let bucket = Self {
            bytes: pair.bytes.map(RateLine::new),
            ops: pair.ops.map(RateLine::new),
        };
        (bucket.bytes.is_some() || bucket.ops.is_some()).then_some(bucket)
    }

    /// Charges a request that arrived at `now`: when it is ready.
    pub(super) fn charge(&mut self, now: Duration, cost: Cost) -> Duration {
        let ready = |line: &mut Option<RateLine>, units| {
            line.as_mut()
                .map_or(Duration::ZERO, |line| line.charge(now, units))
        };
        let bytes = ready(&mut self.bytes, cost.bytes);
        let ops = ready(&mut self.ops, cost.ops);
        bytes.max(ops)
    }

    /// Refunds a charge of a request that will not be carried out.
    pub(super) fn refund(&mut self, cost: Cost) {
        for (line, units) in [(&mut self.bytes, cost.bytes), (&mut self.ops, cost.ops)] {
            if let Some(line) = line {
                line.refund(units);
            }
        }
    }
}
