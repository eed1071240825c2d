//! The pure parts: the bitmap of copied chunks, the steps of a merge and what they wait for; the gate.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use block::Range;
use proptest::prelude::*;
use testkit::{block_on, single};

use super::super::chunk_bitmap::ChunkBitmap;
use super::super::write_buffer::{OldEdges, WriteBuffer};
use crate::request_gate::RequestGate;

async fn is_pending<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

proptest! {
    #[test]
    fn the_bitmap_covers_exactly_what_was_inserted(
        ranges in prop::collection::vec((0_u64..400_000, 1_u64..9000), 0..20),
    ) {
        const UNIT: u64 = 512;
        let mut bitmap = ChunkBitmap::new(1 << 20, UNIT);
        let mut chunks = vec![false; 2048];
        for (offset, len) in ranges {
            let range = Range::new(offset, len);
            let touched = Range::new(0, offset / UNIT).len_usize()
                ..Range::new(0, range.end().div_ceil(UNIT)).len_usize();
            prop_assert_eq!(bitmap.covers(range), chunks[touched.clone()].iter().all(|&set| set));
            bitmap.insert(range);
            chunks[touched].fill(true);
            prop_assert!(bitmap.covers(range));
        }
    }
}

#[test]
fn a_bitmap_of_a_large_disk_takes_little_memory() {
    let mut bitmap = ChunkBitmap::new(1 << 44, 4096);
    let page = 128 << 20;
    for at in 0..17_000_u64 {
        bitmap.insert(Range::new(at * page, 4096));
    }
    assert!(bitmap.covers(Range::new(16_383 * page, 4096)));
    assert!(
        !bitmap.touches(Range::new(16_384 * page, 4096)),
        "it is full"
    );
}

proptest! {
    /// Writes and drains against a byte vector: the buffer over what is below is what was written.
    #[test]
    fn the_buffer_over_the_disk_below_is_what_was_written(
        steps in prop::collection::vec((0_u64..9000, 1_u64..5000, 0_u8..8), 0..40),
    ) {
        const SIZE: u64 = 10_000;
        let bytes = |range: Range| {
            let start = Range::new(0, range.offset).len_usize();
            start..start + range.len_usize()
        };
        let mut below = testkit::pattern(1, Range::new(0, SIZE));
        let mut expected = below.clone();
        let mut buffer = WriteBuffer::new(SIZE, 512);
        for (fill, (offset, len, action)) in (0_u8..).zip(steps) {
            let range = Range::new(offset, len.min(SIZE - offset));
            let epoch = buffer.epoch();
            if action == 0 {
                for (range, data) in buffer.begin_drain() {
                    below[bytes(range)].copy_from_slice(&data.concat());
                }
                prop_assert!(buffer.is_empty() || buffer.has_draining());
                let data = vec![0; range.len_usize()];
                let stale = buffer.insert(epoch, range, &single(data), &OldEdges::default());
                prop_assert!(!stale, "a drain began since");
                buffer.finish_drain();
            } else {
                let old = |edge: Option<Range>| edge.map(|edge| single(below[bytes(edge)].to_vec()));
                let (first, last) = buffer.edges(range);
                let edges = OldEdges { first: old(first), last: old(last) };
                let data = testkit::pattern(fill, range);
                prop_assert!(buffer.insert(epoch, range, &single(data.clone()), &edges));
                expected[bytes(range)].copy_from_slice(&data);
            }
            let mut found = below.clone();
            for (part, data) in buffer.pieces(Range::new(0, SIZE)) {
                found[bytes(part)].copy_from_slice(&data);
            }
            prop_assert!(found == expected);
            for (part, data) in buffer.pieces(range) {
                prop_assert!(expected[bytes(part)] == data[..]);
            }
        }
    }
}

#[test]
fn a_range_that_is_too_long_is_never_covered() {
    let mut bitmap = ChunkBitmap::new(1 << 30, 4096);
    let long = Range::new(0, 65 << 20);
    bitmap.insert(long);
    assert!(!bitmap.covers(long));
}

#[test]
fn a_closed_gate_waits_for_writers_and_keeps_others_out() {
    block_on(async {
        let gate = RequestGate::default();
        let inside = gate.enter().await.unwrap();
        let mut closing = Box::pin(gate.close());
        assert!(is_pending(closing.as_mut()).await);
        assert!(gate.try_enter().is_none());
        let mut waiting = pin!(gate.enter());
        assert!(is_pending(waiting.as_mut()).await);
        drop(inside);
        let closed = closing.await;
        assert!(is_pending(waiting.as_mut()).await);
        drop(closed);
        let entered = waiting.await.unwrap();
        drop(entered);
        assert!(gate.try_enter().is_some());
    });
}

#[test]
fn a_gate_whose_closing_was_dropped_is_open() {
    block_on(async {
        let gate = RequestGate::default();
        let inside = gate.enter().await.unwrap();
        let mut closing = Box::pin(gate.close());
        assert!(is_pending(closing.as_mut()).await);
        drop(closing);
        assert!(gate.try_enter().is_some());
        drop(inside);
        gate.close().await.seal();
        assert!(gate.is_sealed());
        assert!(gate.enter().await.is_err());
    });
}
