//! Flushes in flight together, and what is not durable until they are reported.

use block::{IoBufs, Range};
use bytes::Bytes;
use nbd_proto::CommandFlags;

use crate::client::session::flush_order::FlushOrder;
use crate::client::session::journal::Journal;
use crate::client::session::unflushed_writes::UnflushedWrites;
use crate::client::session::work::{Body, FlushMark, Owner, Part};

const NONE: CommandFlags = CommandFlags::empty();

/// A flush or a durable write, numbered `nth` by its owner.
fn sent(order: &mut FlushOrder, nth: usize, body: Body) -> Part {
    let owner = Owner::Job { key: 0, nth };
    let flags = match body {
        Body::Flush { .. } => NONE,
        _ => CommandFlags::FUA,
    };
    let mut part = Part::new(owner, Range::new(0, 0), flags, body);
    order.sent(&mut part);
    part
}

fn a_flush() -> Body {
    let mark = FlushMark::default();
    Body::Flush { mark }
}

/// The success of a flush arrives.
fn succeeds(order: &mut FlushOrder, flush: Part) {
    order.answered(&flush);
    order.hold(flush);
}

fn ready(order: &mut FlushOrder, has_failed: bool) -> Vec<Owner> {
    std::iter::from_fn(|| order.next_ready(has_failed))
        .map(|part| part.owner)
        .collect()
}

#[test]
fn a_flush_waits_for_all_that_were_in_flight_when_its_reply_arrived() {
    let owner = |nth| Owner::Job { key: 0, nth };
    let mut order = FlushOrder::default();
    let older = sent(&mut order, 0, a_flush());
    let flush = sent(&mut order, 1, a_flush());
    let write = sent(&mut order, 2, Body::WriteZeroes);
    succeeds(&mut order, flush);
    // What is sent later is not waited for.
    let later = sent(&mut order, 3, a_flush());
    assert_eq!(ready(&mut order, false), []);
    order.answered(&write);
    assert_eq!(ready(&mut order, false), []);
    succeeds(&mut order, older);
    // The oldest had the latest in flight with it.
    assert_eq!(ready(&mut order, false), [owner(1)]);
    succeeds(&mut order, later);
    assert_eq!(ready(&mut order, false), [owner(0), owner(3)]);
}

#[test]
fn a_failed_flush_ends_the_waiting_of_the_others() {
    let owner = |nth| Owner::Job { key: 0, nth };
    let mut order = FlushOrder::default();
    let older = sent(&mut order, 0, a_flush());
    let flush = sent(&mut order, 1, a_flush());
    let _slow = sent(&mut order, 2, a_flush());
    succeeds(&mut order, flush);
    order.answered(&older);
    assert_eq!(ready(&mut order, false), []);
    assert_eq!(ready(&mut order, true), [owner(1)]);
}

#[test]
fn a_flush_that_waits_is_sent_again_when_the_connections_are_lost() {
    let mut order = FlushOrder::default();
    let _older = sent(&mut order, 0, a_flush());
    let flush = sent(&mut order, 1, a_flush());
    succeeds(&mut order, flush);
    assert_eq!(order.abandon().len(), 1);
    let again = sent(&mut order, 2, a_flush());
    succeeds(&mut order, again);
    assert_eq!(ready(&mut order, false).len(), 1);
}

/// A client with a journal of 64 KiB.
fn unflushed() -> UnflushedWrites {
    UnflushedWrites::new(Journal::new(true, 64 << 10))
}

/// A write of a caller of 16 KiB.
fn write() -> Part {
    let body = Body::Write(IoBufs::from_iter([Bytes::from(vec![1; 16 << 10])]));
    let owner = Owner::Job { key: 0, nth: 0 };
    Part::new(owner, Range::new(0, 16 << 10), NONE, body)
}

fn acknowledged(unflushed: &mut UnflushedWrites) {
    let mut part = write();
    unflushed.sent(&mut part);
    unflushed.answered(&part);
    unflushed.acknowledged(part.range, part.flags, part.body);
}

#[test]
fn writes_in_flight_need_room_in_the_journal_until_they_are_lost() {
    let mut unflushed = unflushed();
    let mut parts: Vec<Part> = (0..4).map(|_| write()).collect();
    for part in &mut parts {
        assert!(unflushed.has_room());
        unflushed.sent(part);
    }
    assert!(!unflushed.has_room());
    unflushed.lost(&parts[0]);
    assert!(unflushed.has_room());
}

#[test]
fn there_is_one_own_flush_until_it_is_reported_or_lost() {
    for is_lost in [false, true] {
        let mut unflushed = unflushed();
        acknowledged(&mut unflushed);
        assert!(!unflushed.wants_own_flush());
        acknowledged(&mut unflushed);
        assert!(unflushed.wants_own_flush());
        let mut callers = Part::new(
            Owner::Job { key: 0, nth: 0 },
            Range::new(0, 0),
            NONE,
            a_flush(),
        );
        unflushed.sent(&mut callers);
        let mut own = Part::new(Owner::OwnFlush, Range::new(0, 0), NONE, a_flush());
        unflushed.sent(&mut own);
        assert!(!unflushed.wants_own_flush() && unflushed.has_own_flush());
        unflushed.answered(&own);
        unflushed.flush_succeeded(own);
        // It waits for the other one.
        assert!(unflushed.has_own_flush() && unflushed.next_to_report().is_none());
        if is_lost {
            for part in unflushed.abandon_flushes() {
                unflushed.lost(&part);
            }
            assert!(unflushed.wants_own_flush());
        } else {
            unflushed.answered(&callers);
            let reported = unflushed.next_to_report();
            assert_eq!(reported.map(|part| part.owner), Some(Owner::OwnFlush));
        }
        assert!(!unflushed.has_own_flush());
    }
}

#[test]
fn after_a_failed_flush_nothing_is_kept_and_what_was_lost_is_counted() {
    let mut unflushed = unflushed();
    acknowledged(&mut unflushed);
    assert!(unflushed.fail());
    assert!(!unflushed.fail(), "it is the first one once");
    assert!(unflushed.has_failed());
    acknowledged(&mut unflushed);
    assert_eq!(unflushed.journal().len(), 0);
    assert_eq!(unflushed.journal().given_up(), 2);
}
