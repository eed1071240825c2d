//! Read balancing: which of several copies of the same bytes is read. Pure, but for the counters.
//!
//! # Invariants
//!
//! * A copy of a lower [`ReadRank`] is never read while there is one of a higher.
//! * Among equals the offset decides: the same bytes are read from the same member, so that one cache holds them, unless that
//!   member is far busier than another one.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of the array that are read from one of several equal members before it is the next one's turn.
const STRIDE: u64 = 4 << 20;
/// A member that has so many reads in flight more than another leaves the next one to that.
const AHEAD: u32 = 8;

/// How willingly a member is read: the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadRank {
    pub(super) write_mostly: bool,
    pub(super) remote: bool,
}

/// Reads of one member that are in flight.
#[derive(Debug, Default)]
pub(super) struct ReadLoad(AtomicU32);

/// A read that is counted, until this is dropped.
#[derive(Debug)]
pub(super) struct ReadInFlight<'a>(&'a ReadLoad);

impl ReadLoad {
    /// Counts a read.
    pub(super) fn begin(&self) -> ReadInFlight<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        ReadInFlight(self)
    }

    /// How many are in flight.
    pub(super) fn in_flight(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for ReadInFlight<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The copy to read of those that can be, in the order of their slots. `offset`: where the bytes are in the array; `None`: the
/// first one of the best rank, each time.
#[inline]
pub(super) fn choose<T: Copy>(
    copies: impl Iterator<Item = T> + Clone,
    rank: impl Fn(T) -> ReadRank,
    in_flight: impl Fn(T) -> u32,
    offset: Option<u64>,
) -> Option<T> {
    let best = copies.clone().map(&rank).min()?;
    let mut equals = copies.filter(|copy| rank(*copy) == best);
    let count = equals.clone().count();
    let Some(offset) = offset.filter(|_| count > 1) else {
        return equals.next();
    };
    let turn = offset / STRIDE % count as u64;
    let turn = usize::try_from(turn).expect("at most a few hundred members");
    let usual = equals.clone().nth(turn)?;
    let busy = in_flight(usual);
    if busy < AHEAD {
        return Some(usual);
    }
    let idle = equals.min_by_key(|copy| in_flight(*copy))?;
    Some(if busy >= in_flight(idle) + AHEAD {
        idle
    } else {
        usual
    })
}

#[cfg(test)]
mod tests {
    use super::{AHEAD, ReadLoad, ReadRank, STRIDE, choose};

    const LOCAL: ReadRank = ReadRank {
        write_mostly: false,
        remote: false,
    };
    const REMOTE: ReadRank = ReadRank {
        write_mostly: false,
        remote: true,
    };
    const WRITE_MOSTLY: ReadRank = ReadRank {
        write_mostly: true,
        remote: false,
    };

    /// Which of these members is read at `offset`; each with its rank and its reads in flight.
    fn chosen(members: &[(ReadRank, u32)], offset: Option<u64>) -> Option<usize> {
        choose(
            0..members.len(),
            |member| members[member].0,
            |member| members[member].1,
            offset,
        )
    }

    #[test]
    fn the_best_rank_is_read_however_busy_it_is() {
        let members = [(WRITE_MOSTLY, 0), (REMOTE, 0), (LOCAL, 1000)];
        for offset in [0, STRIDE, 2 * STRIDE] {
            assert_eq!(chosen(&members, Some(offset)), Some(2));
        }
        assert_eq!(chosen(&members[..2], Some(0)), Some(1));
        assert_eq!(chosen(&[], Some(0)), None);
    }

    #[test]
    fn equals_take_turns_by_the_offset() {
        let members = [(LOCAL, 0), (REMOTE, 0), (LOCAL, 0)];
        let at = |offset| chosen(&members, Some(offset));
        assert_eq!([at(0), at(STRIDE - 1)], [Some(0); 2]);
        assert_eq!([at(STRIDE), at(2 * STRIDE - 1)], [Some(2); 2]);
        assert_eq!(at(2 * STRIDE), Some(0));
    }

    #[test]
    fn a_member_that_is_far_busier_leaves_its_turn_to_the_least_busy() {
        let at_first = |busy, other| chosen(&[(LOCAL, busy), (LOCAL, other)], Some(0));
        assert_eq!(at_first(AHEAD - 1, 0), Some(0));
        assert_eq!(at_first(AHEAD, 0), Some(1));
        assert_eq!(at_first(AHEAD, 1), Some(0), "the other one is busy, too");
    }

    #[test]
    fn without_an_offset_the_first_is_read_each_time() {
        let members = [(REMOTE, 0), (LOCAL, 1000), (LOCAL, 0)];
        assert_eq!(chosen(&members, None), Some(1));
    }

    #[test]
    fn a_read_counts_until_it_is_dropped() {
        let load = ReadLoad::default();
        let first = load.begin();
        let second = load.begin();
        assert_eq!(load.in_flight(), 2);
        drop(first);
        assert_eq!(load.in_flight(), 1);
        drop(second);
        assert_eq!(load.in_flight(), 0);
    }
}
