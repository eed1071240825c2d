//! [`Halves`]: what of a range is still to be worked on, in halves where a part of it fails, down to the smallest parts. Pure.

use block::Range;
use smallvec::SmallVec;

/// Parts of a range, first ones first.
#[derive(Debug)]
pub(super) struct Halves {
    /// The smallest part, bytes.
    unit: u64,
    /// Parts to come, the last ones first.
    open: SmallVec<[Range; 2]>,
}

impl Halves {
    /// All of `range`, to begin with.
    pub(super) fn new(range: Range, unit: u64) -> Self {
        Self {
            unit,
            open: std::iter::once(range).collect(),
        }
    }

    /// The next part, which follows the one before.
    pub(super) fn next(&mut self) -> Option<Range> {
        self.open.pop()
    }

    /// Splits `range`, the part that was taken last. False: it is one of the smallest.
    pub(super) fn halve(&mut self, range: Range) -> bool {
        let half = (range.len / 2).next_multiple_of(self.unit);
        if half >= range.len {
            return false;
        }
        let second = Range::new(range.offset + half, range.len - half);
        self.open.extend([second, Range::new(range.offset, half)]);
        true
    }
}

#[cfg(test)]
mod tests {
    use block::Range;
    use proptest::prelude::*;

    use super::Halves;

    /// Parts of `range` that are left where each one that touches a place of `bad` fails: what is taken, and what stays bad.
    fn narrow(range: Range, unit: u64, bad: &[Range]) -> (Vec<Range>, Vec<Range>) {
        let (mut good, mut left) = (Vec::new(), Vec::new());
        let mut halves = Halves::new(range, unit);
        while let Some(part) = halves.next() {
            match bad.iter().any(|bad| bad.overlaps(&part)) {
                false => good.push(part),
                true if halves.halve(part) => {}
                true => left.push(part),
            }
        }
        (good, left)
    }

    proptest! {
        #[test]
        fn every_byte_is_in_one_part_and_those_that_stay_bad_are_the_smallest(
            blocks in 1_u64..300,
            start in 0_u64..50,
            bad in prop::collection::vec(0_u64..350, 0..6),
        ) {
            const UNIT: u64 = 4096;
            let range = Range::new(start * UNIT, blocks * UNIT);
            let bad: Vec<Range> = bad.iter().map(|at| Range::new(at * UNIT, 512)).collect();
            let (good, left) = narrow(range, UNIT, &bad);
            prop_assert!(left.iter().all(|part| part.len == UNIT));
            let mut all = [good, left].concat();
            all.sort_unstable_by_key(|part| part.offset);
            let mut at = range.offset;
            for part in all {
                prop_assert_eq!(part.offset, at);
                at = part.end();
            }
            prop_assert_eq!(at, range.end());
        }
    }

    #[test]
    fn parts_come_in_order() {
        let range = Range::new(8192, 5 * 4096);
        let mut halves = Halves::new(range, 4096);
        let mut parts = Vec::new();
        while let Some(part) = halves.next() {
            if !halves.halve(part) {
                parts.push(part.offset);
            }
        }
        assert_eq!(parts, [8192, 12288, 16384, 20480, 24576]);
    }
}
