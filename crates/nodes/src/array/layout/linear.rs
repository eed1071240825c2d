//! Linear arrays: one member behind the other, each in whole chunks. Pure.

use block::Range;

use super::Run;

/// What is used of members with `lens` bytes of data each.
pub(in crate::array) fn runs(lens: &[u64], chunk: u64) -> Vec<Run> {
    let used = |len: u64| len - len.checked_rem(chunk).unwrap_or(0);
    let run = |(part, len): (usize, &u64)| Run {
        part,
        within: Range::new(0, used(*len)),
    };
    lens.iter().enumerate().map(run).collect()
}
