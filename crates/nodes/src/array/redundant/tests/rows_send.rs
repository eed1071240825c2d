//! How a row reaches members: window by window on the fast path, and the rest together where one of them would block.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use block::{
    BlockDevice, Extent, Geometry, Identity, IoBufs, IoFuture, Node, Range, TryIo, WriteFlags,
};
use testkit::{block_on, pattern, single};

use super::disks;
use super::kit::{DATA, Recipe, heard, open, read, recorded, write};
use crate::array::format::Level;

const CHUNK: u64 = 4096;
/// A row of four members.
const ROW: Range = Range::new(0, 3 * CHUNK);
/// Columns of a window in tests.
const WINDOW: u64 = 1024;

/// A disk that takes so many writes on the fast path, and would block then.
#[derive(Debug)]
struct Blocking {
    child: Node,
    left: AtomicUsize,
}

impl BlockDevice for Blocking {
    fn geometry(&self) -> &Geometry {
        self.child.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.child.read(range)
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.child.write(range, data, flags)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.child.flush()
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.child.write_zeroes(range, flags)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.child.trim(range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.child.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        self.child.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.child.settle()
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        self.child.try_read(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return TryIo::WouldBlock;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        self.child.try_write(range, data)
    }
}

/// What each of four members gets of a row: places in its data, and whether durably. Member `n` takes `fast[n]` writes on the
/// fast path.
fn sent(fast: [usize; 4], flags: WriteFlags) -> Vec<Vec<(Range, bool)>> {
    block_on(async {
        let below = disks(4);
        Recipe::parity(Level::Raid5, 2, 4).make(&below).await;
        let blocking = below.iter().zip(fast).map(|(child, left)| {
            Arc::new(Blocking {
                child: child.clone(),
                left: AtomicUsize::new(left),
            }) as Node
        });
        let (nodes, journal) = recorded(&blocking.collect::<Vec<_>>());
        let array = open(&nodes).await;
        // Members know that it is dirty.
        write(&array, ROW, 1).await.unwrap();
        heard(&journal);
        array
            .write(ROW, single(pattern(7, ROW)), flags)
            .await
            .unwrap();
        let all = heard(&journal);
        assert_eq!(read(&array, ROW).await, pattern(7, ROW));
        let mut sent = vec![Vec::new(); 4];
        for one in all.iter().filter(|one| !one.done && one.is_data()) {
            let range = one.range.unwrap();
            sent[one.member].push((Range::new(range.offset - DATA, range.len), one.fua));
        }
        sent
    })
}

/// Windows up to `end`, and what is left behind them in one piece.
fn windows_to(end: u64) -> Vec<(Range, bool)> {
    let windows = (0..end / WINDOW).map(|n| Range::new(n * WINDOW, WINDOW));
    let rest = Range::new(end, CHUNK - end);
    let rest = (!rest.is_empty()).then_some(rest);
    windows.chain(rest).map(|range| (range, false)).collect()
}

#[test]
fn a_member_that_would_block_gets_the_rest_of_a_row_in_one_request() {
    // The first row takes four of each.
    let sent = sent([100, 100, 6, 100], WriteFlags::empty());
    let whole = windows_to(CHUNK);
    assert_eq!(
        sent,
        [whole.clone(), whole.clone(), windows_to(2048), whole]
    );
}

#[test]
fn what_is_to_be_durable_is_one_request_for_each_member_and_not_on_the_fast_path() {
    let sent = sent([100; 4], WriteFlags::FUA);
    assert_eq!(sent, vec![vec![(Range::new(0, CHUNK), true)]; 4]);
}

#[test]
fn members_that_always_block_get_a_row_in_one_request_each() {
    let sent = sent([0; 4], WriteFlags::empty());
    assert_eq!(sent, vec![vec![(Range::new(0, CHUNK), false)]; 4]);
}
