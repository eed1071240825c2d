//! What a sequential writer sends while rows before are being written becomes full stripes.

use std::sync::Arc;
use std::time::Duration;
use testkit::block_on;

use block::{Node, Range};
use engine::clock;

use super::disks;
use super::kit::{Recipe, heard, open, read, recorded, write};
use crate::array::format::Level;
use crate::{Delay, DelayTimes};

const CHUNK: u64 = 4096;
/// What each request to a member takes.
const REQUEST: Duration = Duration::from_millis(10);

/// Reads and writes of members' data that two writes take, the second of which comes while the first is under way.
fn accesses(first: Range, second: Range) -> usize {
    block_on(async {
        let below = disks(4);
        Recipe::parity(Level::Raid5, 2, 4).make(&below).await;
        let delay = |disk| Arc::new(Delay::new(disk, DelayTimes::all(REQUEST))) as Node;
        let (disks, journal) = recorded(&below.into_iter().map(delay).collect::<Vec<_>>());
        let array = open(&disks).await;
        write(&array, Range::new(0, 12 * CHUNK), 9).await.unwrap();
        heard(&journal);
        let later = async {
            clock::sleep(REQUEST / 2).await;
            write(&array, second, 7).await.unwrap();
        };
        let (written, ()) = tokio::join!(write(&array, first, 7), later);
        written.unwrap();
        let all = heard(&journal);
        let data = all.iter().filter(|heard| !heard.done && heard.is_data());
        let count = data.count();
        let both = Range::new(first.offset, second.end() - first.offset);
        assert_eq!(read(&array, both).await, testkit::pattern(7, both));
        count
    })
}

#[test]
fn a_row_that_a_sequential_writer_began_is_completed_while_the_row_before_is_written() {
    let first = Range::new(0, 4 * CHUNK);
    let second = Range::new(4 * CHUNK, 2 * CHUNK);
    assert_eq!(accesses(first, second), 2 * 4, "one write to each member");
}

#[test]
fn a_row_that_nothing_leads_to_is_written_at_once() {
    // Row 1 alone, then the rest of it: two writes of some chunks, which read what stays.
    let first = Range::new(3 * CHUNK, CHUNK);
    let second = Range::new(4 * CHUNK, 2 * CHUNK);
    assert!(accesses(first, second) > 4);
}
