//! How a row reaches members: on the fast path if it is short, and the other way where one of them would block.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use block::{BlockDevice, Node, Range, TryIo, WriteFlags};
use testkit::{block_on, pattern, single};

use super::disks;
use super::kit::{DATA, Heard, Recipe, heard, open, read, recorded, write};
use crate::array::format::Level;

const CHUNK: u64 = 4096;

/// A disk that takes so many writes on the fast path, and would block then.
#[derive(Debug)]
struct Blocking {
    child: Node,
    left: AtomicUsize,
}

impl BlockDevice for Blocking {
    testkit::forward!(child: geometry, read, write, flush, write_zeroes, trim, extents, identity, settle, try_read);

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return TryIo::WouldBlock;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        self.child.try_write(range, data)
    }
}

/// What a member gets of a row: places in its data, and whether durably; and how many of these on the fast path.
type Sent = (Vec<(Range, bool)>, usize);

/// What members get of a row. Member `n` takes `fast[n]` writes on the fast path, the first of which is of an earlier row.
fn sent(fast: &[usize], flags: WriteFlags) -> Vec<Sent> {
    block_on(async {
        let below = disks(fast.len());
        let parts = u32::try_from(fast.len()).unwrap();
        Recipe::parity(Level::Raid5, 2, parts).make(&below).await;
        let blocking = |(child, left): (&Node, &usize)| {
            Arc::new(Blocking {
                child: child.clone(),
                left: AtomicUsize::new(*left),
            })
        };
        let blocking: Vec<_> = below.iter().zip(fast).map(blocking).collect();
        let nodes: Vec<Node> = blocking.iter().map(|disk| disk.clone() as Node).collect();
        let (nodes, journal) = recorded(&nodes);
        let array = open(&nodes).await;
        let row = Range::new(0, (u64::from(parts) - 1) * CHUNK);
        // Members know that it is dirty.
        write(&array, row, 1).await.unwrap();
        heard(&journal);
        let left = || {
            blocking
                .iter()
                .map(|disk| disk.left.load(Ordering::Relaxed))
        };
        let before: Vec<usize> = left().collect();
        let data = single(pattern(7, row));
        array.write(row, data, flags).await.unwrap();
        let all = heard(&journal);
        assert_eq!(read(&array, row).await, pattern(7, row));
        let of_member = |(member, (before, left)): (usize, (usize, usize))| {
            let own = all.iter().filter(|one| one.member == member);
            let data = own.filter(|one| !one.done && one.is_data());
            let place = |one: &Heard| {
                let range = one.range.unwrap();
                (Range::new(range.offset - DATA, range.len), one.fua)
            };
            (data.map(place).collect(), before - left)
        };
        let taken = before.into_iter().zip(left());
        taken.enumerate().map(of_member).collect()
    })
}

fn once(is_durable: bool, fast: usize) -> Sent {
    (vec![(Range::new(0, CHUNK), is_durable)], fast)
}

#[test]
fn a_short_row_is_written_on_the_fast_path_and_the_other_way_where_a_member_would_block() {
    let sent = sent(&[9, 9, 1, 9], WriteFlags::empty());
    let fast = once(false, 1);
    assert_eq!(sent, [fast.clone(), fast.clone(), once(false, 0), fast]);
}

#[test]
fn what_is_to_be_durable_is_not_written_on_the_fast_path() {
    assert_eq!(sent(&[9; 4], WriteFlags::FUA), vec![once(true, 0); 4]);
}

#[test]
fn a_long_row_is_left_to_the_ring() {
    // 80 KiB of 20 members.
    let sent = sent(&[9; 20], WriteFlags::empty());
    assert_eq!(sent, vec![once(false, 0); 20]);
}
