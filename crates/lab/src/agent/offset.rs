//! How far another machine's clock is from ours, from round trips, as NTP does it. Pure.
//!
//! ```text
//! theirs        received ── answered
//!              /                    \
//! ours     sent                      arrived      delay = (arrived - sent) - (answered - received)
//! ```
//!
//! Of several trips the one of the least delay is taken: the delays of the others made them
//! lopsided too. If one way took all of the delay and the other none, the offset is wrong by half of it:
//! that is the uncertainty, and it is no estimate but a bound. Source: RFC 5905, section 8 and the clock
//! filter of section 10.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// The four times of one question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Our clock as the question left.
    pub sent: Nanos,
    /// Their clock as it arrived.
    pub received: Nanos,
    /// Their clock as the answer left.
    pub answered: Nanos,
    /// Our clock as it arrived.
    pub arrived: Nanos,
}

/// What is known of another clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// Nanoseconds to add to our clock to get theirs. Both count from some beginning of their own.
    pub ahead_ns: i64,
    /// By how much that may be wrong at most.
    pub uncertainty: Nanos,
}

impl RoundTrip {
    /// Round-trip time. None if the clocks went backwards.
    fn delay(&self) -> Option<u64> {
        let here = self.arrived.0.checked_sub(self.sent.0)?;
        let there = self.answered.0.checked_sub(self.received.0)?;
        here.checked_sub(there)
    }

    fn offset(&self) -> Option<Offset> {
        let delay = self.delay()?;
        let there = i128::from(self.received.0) - i128::from(self.sent.0);
        let back = i128::from(self.answered.0) - i128::from(self.arrived.0);
        Some(Offset {
            ahead_ns: i64::try_from((there + back) / 2).ok()?,
            // Half of a nanosecond is lost in the division above.
            uncertainty: Nanos(delay / 2 + 1),
        })
    }
}

impl Offset {
    /// The offset by the quickest of the trips; none if none of them is possible.
    #[must_use]
    pub fn of(trips: &[RoundTrip]) -> Option<Self> {
        trips
            .iter()
            .filter_map(RoundTrip::offset)
            .min_by_key(|offset| offset.uncertainty)
    }

    /// A time of theirs on our clock; zero for what was before it began.
    #[must_use]
    pub(crate) fn to_ours(self, theirs: Nanos) -> Nanos {
        let ours = i128::from(theirs.0) - i128::from(self.ahead_ns);
        Nanos(u64::try_from(ours.max(0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trip(ahead: i64, sent: u64, there: u64, thinks: u64, back: u64) -> RoundTrip {
        let theirs = |ours: u64| Nanos(ours.checked_add_signed(ahead).unwrap());
        RoundTrip {
            sent: Nanos(sent),
            received: theirs(sent + there),
            answered: theirs(sent + there + thinks),
            arrived: Nanos(sent + there + thinks + back),
        }
    }

    #[test]
    fn the_quickest_trip_gives_the_offset() {
        let slow = trip(5_000_000, 1000, 900_000, 50, 100_000);
        let quick = trip(5_000_000, 2_000_000, 100_000, 50, 100_000);
        let offset = Offset::of(&[slow, quick, slow]).unwrap();
        assert_eq!(offset.ahead_ns, 5_000_000);
        assert_eq!(offset.uncertainty, Nanos(100_001));
        assert_eq!(offset.to_ours(Nanos(5_000_700)), Nanos(700));
        assert_eq!(offset.to_ours(Nanos(7)), Nanos(0));
    }

    #[test]
    fn trips_that_cannot_be_are_left_out() {
        let impossible = RoundTrip {
            sent: Nanos(10),
            received: Nanos(0),
            answered: Nanos(1000),
            arrived: Nanos(20),
        };
        assert_eq!(Offset::of(&[impossible]), None);
        assert_eq!(Offset::of(&[]), None);
    }

    proptest! {
        #[test]
        fn the_truth_is_within_the_uncertainty(
            ahead in -1_000_000_000_000i64..1_000_000_000_000,
            trips in prop::collection::vec((0u64..10_000_000, 0u64..100_000, 0u64..10_000_000), 1..9),
        ) {
            let trips: Vec<RoundTrip> = trips
                .into_iter()
                .map(|(there, thinks, back)| trip(ahead, 2_000_000_000_000, there, thinks, back))
                .collect();
            let offset = Offset::of(&trips).unwrap();
            prop_assert!(offset.ahead_ns.abs_diff(ahead) <= offset.uncertainty.0);
        }

        #[test]
        fn no_times_of_another_machine_make_it_panic(a: u64, b: u64, c: u64, d: u64, t: u64) {
            let trip = RoundTrip { sent: Nanos(a), received: Nanos(b), answered: Nanos(c), arrived: Nanos(d) };
            if let Some(offset) = Offset::of(&[trip]) {
                std::hint::black_box(offset.to_ours(Nanos(t)));
            }
        }
    }
}
