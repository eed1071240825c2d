//! The parts of the session that decide without a socket.

use std::time::{Duration, Instant};

use block::{ExtentKind, IoBufs, Range};
use bytes::Bytes;
use nbd_proto::CommandFlags;
use proptest::prelude::*;
use testkit::Model;

use crate::client::limits;
use crate::client::session::allocation::Allocation;
use crate::client::session::deadlines::{DeadlineBuckets, RATE_MIN};
use crate::client::session::fill::ReadBuffer;
use crate::client::session::idle_timer::IdleTimer;
use crate::client::session::journal::Journal;
use crate::client::session::work::{Body, FlushMark, Owner, Part, PartLimits, Work, take_front};

const NONE: CommandFlags = CommandFlags::empty();

fn data(len: usize, byte: u8) -> Body {
    Body::Write(IoBufs::from_iter([Bytes::from(vec![byte; len])]))
}

fn keep(journal: &mut Journal, offset: u64, len: u64, byte: u8) {
    let len_usize = usize::try_from(len).unwrap();
    journal.acknowledged(Range::new(offset, len), NONE, data(len_usize, byte));
}

/// Moments by the milliseconds from now.
fn from_now() -> impl Fn(u64) -> Instant {
    let first = engine::clock::now();
    move |ms| first + Duration::from_millis(ms)
}

#[test]
fn a_flush_covers_what_was_acknowledged_before_it_was_sent() {
    let mut journal = Journal::new(true, 1 << 20);
    keep(&mut journal, 0, 512, 1);
    let mark = journal.mark();
    keep(&mut journal, 512, 512, 2);
    journal.flushed(mark);
    let left = journal.replay(journal.first(), 10);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].range, Range::new(512, 512));
    journal.flushed(mark);
    assert_eq!(journal.replay(journal.first(), 10).len(), 1);
    journal.flushed(journal.mark());
    assert_eq!(journal.cost(), 0);
}

#[test]
fn overlapping_entries_are_never_in_one_batch() {
    let mut journal = Journal::new(true, 1 << 20);
    for (offset, len) in [(0, 512), (512, 512), (256, 512), (1024, 512)] {
        keep(&mut journal, offset, len, 1);
    }
    let ranges = |from| -> Vec<u64> {
        let batch = journal.replay(from, 10);
        batch.iter().map(|part: &Part| part.range.offset).collect()
    };
    assert_eq!(ranges(0), [0, 512]);
    assert_eq!(ranges(2), [256, 1024]);
    assert_eq!(ranges(4), [0; 0]);
}

#[test]
fn of_an_older_entry_only_what_no_newer_one_covers_is_written_again() {
    let mut journal = Journal::new(true, 1 << 20);
    keep(&mut journal, 0, 2048, 1);
    journal.acknowledged(Range::new(4096, 1024), NONE, Body::WriteZeroes);
    journal.acknowledged(Range::new(512, 512), CommandFlags::FUA, data(512, 2));
    keep(&mut journal, 4096, 1024, 3);
    journal.supersede();
    let parts = journal.replay(journal.first(), 10);
    let left: Vec<(u64, u64, u8)> = parts
        .into_iter()
        .map(|part| match part.body {
            Body::Write(data) => (part.range.offset, part.range.len, data.concat()[0]),
            _ => panic!("the zeroes are covered"),
        })
        .collect();
    assert_eq!(
        left,
        [(0, 512, 1), (1024, 1024, 1), (512, 512, 2), (4096, 1024, 3)]
    );
    assert_eq!(journal.mark() - journal.first(), 4);
    journal.flushed(journal.mark());
    assert_eq!(journal.cost(), 0);
}

#[test]
fn trims_are_not_kept_and_a_journal_that_is_off_keeps_nothing() {
    let mut journal = Journal::new(true, 1 << 20);
    journal.acknowledged(Range::new(0, 512), NONE, Body::Trim);
    assert_eq!(journal.cost(), 0);
    keep(&mut journal, 0, 512, 1);
    journal.give_up();
    assert_eq!(journal.cost(), 0);
    keep(&mut journal, 0, 512, 1);
    assert_eq!(journal.cost(), 0);
    assert!(!journal.is_full(u64::MAX / 2, 0));
}

#[test]
fn a_full_journal_reports_it_and_counts_what_is_in_flight() {
    let mut journal = Journal::new(true, 10_000);
    keep(&mut journal, 0, 4096, 1);
    assert!(!journal.wants_flush());
    keep(&mut journal, 0, 4096, 1);
    assert!(journal.wants_flush());
    assert!(!journal.is_full(0, 0));
    assert!(journal.is_full(4096, 1));
    for _ in 0..100_000 {
        journal.acknowledged(Range::new(0, 4096), NONE, Body::WriteZeroes);
    }
    assert!(journal.is_full(0, 0));
}

#[test]
fn parts_are_whole_blocks_below_every_limit() {
    let limits = PartLimits::new(4096, 100_000, false);
    assert_eq!(limits.of(&Work::Read), 98_304);
    assert_eq!(limits.of(&Work::Trim), 2 << 30);
    assert_eq!(limits.of(&Work::Extents), 2 << 30);
    let wide = PartLimits::new(4096, 100_000, true);
    assert_eq!(wide.of(&Work::Trim), 1 << 62);
    let flags = CommandFlags::FAST_ZERO;
    assert_eq!(wide.of(&Work::WriteZeroes { flags }), 1 << 62);
    assert_eq!(wide.of(&Work::WriteZeroes { flags: NONE }), 2 << 30);
    assert_eq!(wide.of(&Work::Read), 98_304);
    let limits = PartLimits::new(1, u32::MAX, false);
    assert_eq!(limits.of(&Work::Read), 32 << 20);
    let limits = PartLimits::new(65_536, 65_536, false);
    assert_eq!(limits.of(&Work::Read), 65_536);
}

#[test]
fn a_request_is_overdue_after_its_limit_and_the_time_of_the_payload_before_it() {
    let at = from_now();
    let mut ages = DeadlineBuckets::new(Duration::from_secs(2), Duration::ZERO);
    assert!(!ages.overdue(at(1_000_000)));
    let first = ages.begin(at(0), 0);
    assert!(!ages.overdue(at(1999)));
    assert!(ages.overdue(at(2000)));
    let behind = ages.begin(at(1000), 3 * RATE_MIN);
    ages.end(first);
    assert!(!ages.overdue(at(5999)));
    assert!(ages.overdue(at(6000)));
    ages.end(behind);
    assert!(!ages.overdue(at(6000)));
}

#[test]
fn an_age_is_kept_whatever_is_over_before_it() {
    let at = from_now();
    let mut ages = DeadlineBuckets::new(Duration::from_secs(1), Duration::ZERO);
    let stuck = ages.begin(at(0), 0);
    for ms in 0..900 {
        let other = ages.begin(at(ms), 0);
        ages.end(other);
    }
    assert!(!ages.overdue(at(999)));
    // At most one division of the limit late.
    assert!(ages.overdue(at(1000 + 1000 / 16 + 1)));
    ages.end(stuck);
    assert!(!ages.overdue(at(10_000)));
    let next = ages.begin(at(10_000), 0);
    assert!(!ages.overdue(at(10_001)));
    ages.end(next);
}

#[test]
fn a_request_is_put_off_by_so_much_and_no_more() {
    let at = from_now();
    let mut ages = DeadlineBuckets::new(Duration::from_secs(1), Duration::from_secs(5));
    let first = ages.begin(at(0), 0);
    ages.extend(Duration::from_secs(2));
    assert!(!ages.overdue(at(2999)));
    assert!(ages.overdue(at(3000)));
    // What comes later has all of its own time.
    let second = ages.begin(at(2500), 0);
    for _ in 0..100 {
        ages.extend(Duration::from_secs(1));
    }
    assert!(!ages.overdue(at(5999)));
    assert!(ages.overdue(at(6000)));
    ages.end(first);
    assert!(!ages.overdue(at(8499)));
    assert!(ages.overdue(at(8500)));
    ages.end(second);
    assert!(!ages.overdue(at(1_000_000)));
}

#[test]
fn limits_beyond_the_end_of_time_can_be_put_off() {
    let now = engine::clock::now();
    for (limit, extension_max) in [
        (Duration::MAX, Duration::MAX),
        (Duration::ZERO, Duration::MAX),
    ] {
        let mut ages = DeadlineBuckets::new(limit, extension_max);
        let first = ages.begin(now, 0);
        ages.extend(Duration::MAX);
        assert!(!ages.overdue(now));
        ages.end(first);
        let mut idle = IdleTimer::new(limit, extension_max);
        idle.moved(Some(now));
        idle.extend(Duration::MAX, now);
        idle.extend(Duration::MAX, now);
        assert_eq!(idle.too_long(now), None);
    }
}

#[test]
fn the_idle_limit_is_extended_up_to_a_maximum_and_logged_once() {
    let at = from_now();
    let mut idle = IdleTimer::new(Duration::from_secs(1), Duration::from_secs(3));
    assert_eq!(idle.too_long(at(1_000_000)), None, "nothing was sent yet");
    idle.moved(Some(at(0)));
    assert_eq!(idle.too_long(at(999)), None);
    assert_eq!(idle.too_long(at(1000)), Some(Duration::from_secs(1)));
    assert!(!idle.extend(Duration::from_millis(500), at(500)));
    assert!(idle.extend(Duration::from_millis(500), at(1000)));
    assert!(!idle.extend(Duration::from_millis(500), at(1500)));
    assert_eq!(idle.too_long(at(2499)), None);
    assert_eq!(idle.too_long(at(2500)), Some(Duration::from_millis(2500)));
    for _ in 0..100 {
        idle.extend(Duration::from_secs(1), at(3000));
    }
    assert_eq!(idle.too_long(at(3999)), None);
    assert_eq!(idle.too_long(at(4000)), Some(Duration::from_secs(4)));
    // The same moment is no news; another one is.
    idle.moved(Some(at(0)));
    assert!(idle.too_long(at(4000)).is_some());
    idle.moved(Some(at(3500)));
    assert_eq!(idle.too_long(at(4499)), None);
    assert_eq!(idle.too_long(at(4500)), Some(Duration::from_secs(1)));
    assert!(idle.extend(Duration::from_millis(1), at(4500)));
}

#[test]
fn what_waits_for_the_disk_may_take_long_and_nothing_else() {
    let part = |flags, body| Part::new(Owner::Replay, Range::new(0, 512), flags, body);
    let fua = CommandFlags::FUA;
    let mark = FlushMark::default();
    assert!(part(NONE, Body::Flush { mark }).may_take_long());
    assert!(part(NONE, Body::Trim).may_take_long());
    assert!(part(NONE, Body::WriteZeroes).may_take_long());
    assert!(part(fua, data(512, 1)).may_take_long());
    assert!(!part(NONE, data(512, 1)).may_take_long());
    assert!(!part(CommandFlags::FAST_ZERO, Body::WriteZeroes).may_take_long());
    let buffer = ReadBuffer::new(Range::new(0, 512));
    assert!(!part(NONE, Body::Read(buffer)).may_take_long());
    let allocation = Allocation::new(Range::new(0, 512), 512);
    assert!(!part(NONE, Body::Extents(allocation)).may_take_long());
}

/// For any report of a server in any pieces: extents on blocks, without a gap, and nothing that
/// may be data is called anything else.
fn allocation_is_sound(offset: u64, len: u64, block_size: u32, told: &[(u64, u64)]) {
    let block = u64::from(block_size);
    let range = Range::new(offset * block, len * block);
    let mut allocation = Allocation::new(range, block_size);
    let mut may_be_data = vec![true; range.len_usize()];
    let mut at = 0;
    for (len, status) in told {
        allocation.add(*len, *status);
        let end = usize::try_from(*len).map_or(usize::MAX, |len| len.saturating_add(at));
        let end = end.min(may_be_data.len());
        may_be_data[at..end].fill(status & 2 == 0);
        at = end;
    }
    let extents = allocation.finish();
    let mut next = range.offset;
    for extent in &extents {
        assert_eq!(extent.range.offset, next);
        assert!(!extent.range.is_empty() && extent.range.end().is_multiple_of(block));
        next = extent.range.end();
        if extent.kind != ExtentKind::Data {
            let from = usize::try_from(extent.range.offset - range.offset).unwrap();
            let bytes = &may_be_data[from..from + extent.range.len_usize()];
            assert!(bytes.iter().all(|may_be| !may_be));
        }
    }
    assert!(next <= range.end());
    let told_all = told
        .iter()
        .map(|(len, _)| *len)
        .fold(0, u64::saturating_add)
        >= range.len;
    assert!(!told_all || next == range.end());
}

#[test]
fn an_answer_of_too_many_extents_ends_where_it_is_full() {
    let range = Range::new(0, 1 << 20);
    let mut allocation = Allocation::new(range, 1);
    for nth in 0..1_u64 << 20 {
        allocation.add(1, 3 * (nth % 2));
    }
    let extents = allocation.finish();
    assert_eq!(extents.len(), limits::EXTENTS_AT_ONCE);
    assert_eq!(extents.last().unwrap().range.end(), extents.len() as u64);
}

proptest! {
    #[test]
    fn allocation_is_sound_for_any_report_of_the_server(
        offset in 0_u64..10,
        len in 1_u64..20,
        block in 0_u32..6,
        told in prop::collection::vec((prop_oneof![1_u64..100, Just(u64::MAX)], 0_u64..8), 0..20),
    ) {
        allocation_is_sound(offset, len, 1 << block, &told);
    }

    /// Written again in batches, a journal leaves what the writes left.
    #[test]
    fn a_replay_ends_like_the_writes_did(
        writes in prop::collection::vec((0u64..60, 1u64..10, 1u8..255), 0..40),
        batch in 1usize..8,
        supersede: bool,
    ) {
        let mut journal = Journal::new(true, 1 << 30);
        let mut model = Model::new(128);
        for (offset, len, byte) in writes {
            let range = Range::new(offset, len);
            model.write(range, &vec![byte; range.len_usize()]);
            keep(&mut journal, offset, len, byte);
        }
        let mut replayed = Model::new(128);
        if supersede {
            journal.supersede();
            let parts = journal.replay(journal.first(), usize::MAX);
            prop_assert_eq!(journal.first() + parts.len() as u64, journal.mark(), "no two overlap");
        }
        let mut next = journal.first();
        while next < journal.mark() {
            let mut parts = journal.replay(next, batch);
            prop_assert!(!parts.is_empty());
            next += parts.len() as u64;
            // In flight together: any order may come out.
            parts.reverse();
            for part in parts {
                let Body::Write(data) = part.body else { unreachable!("only writes were kept") };
                replayed.write(part.range, &data.concat());
            }
        }
        let whole = Range::new(0, 128);
        for byte in 0..128 {
            let one = Range::new(byte, 1);
            let agrees = [0..=255_u8].into_iter().flatten().all(|value| {
                model.agrees(one, &[value]) == replayed.agrees(one, &[value])
            });
            prop_assert!(agrees, "byte {} of {}", byte, whole);
        }
    }

    #[test]
    fn taking_from_the_front_shares_and_keeps_the_order(
        lens in prop::collection::vec(0usize..20, 0..6),
        steps in prop::collection::vec(1usize..25, 1..10),
    ) {
        let mut at = 0_u8;
        let mut bufs: IoBufs = lens.iter().map(|len| {
            let bytes: Vec<u8> = (0..*len).map(|_| { at = at.wrapping_add(1); at }).collect();
            Bytes::from(bytes)
        }).collect();
        let whole = bufs.concat();
        let mut taken = Vec::new();
        for step in steps {
            let before = taken.len();
            let front = take_front(&mut bufs, step);
            taken.extend(front.concat());
            prop_assert_eq!(taken.len() - before, step.min(whole.len() - before));
        }
        taken.extend(bufs.concat());
        prop_assert_eq!(taken, whole);
    }
}
