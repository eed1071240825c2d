//! Rows of arrays that log them, for tests: what members hold, and what such arrays do not take.

use block::{Node, Range};
use testkit::Op;

use super::kit::DATA;

/// Chunks of all of them.
pub(super) const CHUNK: u64 = 4096;

/// What member `part` holds of row `row`.
pub(super) async fn column(disks: &[Node], part: usize, row: u64) -> Vec<u8> {
    let range = Range::new(DATA + row * CHUNK, CHUNK);
    disks[part].read(range).await.unwrap().concat()
}

/// The sum of what `members` hold of a row of level 5.
pub(super) async fn sum_of(members: &[Node], row: u64) -> Vec<u8> {
    let mut sum = vec![0; 4096];
    for part in 0..members.len() {
        let held = column(members, part, row).await;
        sum.iter_mut()
            .zip(held)
            .for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}

/// These without trims, which such arrays do not have.
pub(super) fn without_trims(mut list: Vec<Op>) -> Vec<Op> {
    list.retain(|op| !matches!(op, Op::Trim { .. }));
    list
}
