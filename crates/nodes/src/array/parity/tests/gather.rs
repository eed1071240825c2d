//! Batches: which of them wait for more.

use block::{IoBufs, Range, WriteFlags};
use tokio::sync::oneshot;

use crate::array::parity::stripe_gather::{BatchWait, Gathered, RowKey, RowPiece, StripeGather};

const ROW: u64 = 12 << 10;

const fn row(id: u64) -> RowKey {
    RowKey {
        id,
        start: id * ROW,
        len: ROW,
    }
}

fn add(gather: &mut StripeGather, offset: u64, len: u64) -> Gathered {
    let range = Range::new(offset, len);
    let data: IoBufs = std::iter::once(vec![1; range.len_usize()].into()).collect();
    let (waiter, _) = oneshot::channel();
    let piece = RowPiece { range, data };
    gather.add(row(offset / ROW), piece, WriteFlags::empty(), waiter)
}

#[test]
fn a_batch_waits_while_one_before_it_is_written_then_for_more_until_it_is_full() {
    let mut gather = StripeGather::default();
    let first = add(&mut gather, 0, ROW).begins.unwrap();
    let second = add(&mut gather, ROW, 4096).begins.unwrap();
    assert_eq!(gather.wait(row(1)), BatchWait::Batches);
    assert_eq!(gather.wait(row(0)), BatchWait::Nothing, "it is full");
    drop(gather.take(0));
    assert_eq!(
        gather.wait(row(1)),
        BatchWait::Batches,
        "that is being written"
    );
    gather.finish(first);
    assert_eq!(gather.wait(row(1)), BatchWait::More { len: 4096 });
    let full = add(&mut gather, ROW + 4096, ROW - 4096);
    assert_eq!((full.begins, full.is_full), (None, true));
    assert_eq!(gather.wait(row(1)), BatchWait::Nothing);
    // The next one, of which 512 bytes come last.
    let third = add(&mut gather, 2 * ROW, 512).begins;
    assert!(third.is_some_and(|third| third > second));
    let rest = add(&mut gather, 2 * ROW + 1024, ROW - 1024);
    assert!(!rest.is_full);
    assert_eq!(gather.wait(row(2)), BatchWait::Batches);
    assert!(add(&mut gather, 2 * ROW + 512, 512).is_full);
    assert_eq!(gather.wait(row(2)), BatchWait::Nothing);
}

#[test]
fn a_batch_that_is_not_sequential_does_not_wait() {
    let mut gather = StripeGather::default();
    add(&mut gather, 0, 4096);
    // Nothing was written that ends where row 2 begins, and this does not begin row 1.
    add(&mut gather, 2 * ROW, 4096);
    add(&mut gather, ROW + 4096, 4096);
    for number in 0..3 {
        assert_eq!(gather.wait(row(number)), BatchWait::Nothing);
    }
}
