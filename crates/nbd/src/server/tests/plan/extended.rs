//! Requests of 64 bits, payloads with a length, the status of blocks.

use block::{Geometry, Range, WriteFlags};
use nbd_proto::{Command, CommandFlags, StatusFilter, WireError};

use super::super::super::plan::{
    Payload, RefusedRequest, RequestAction, Status, judge, judge_filter,
};
use super::{CAP, NONE, extended, geometry, of, plain};

const PAYLOAD: CommandFlags = CommandFlags::PAYLOAD_LEN;

#[test]
fn under_extended_headers_a_write_says_that_it_has_a_payload() {
    let terms = extended(&geometry());
    let range = Range::new(0, 4096);
    let judged = |flags| judge(&of(Command::Write, flags, range), &geometry(), &terms);
    assert_eq!(
        judged(PAYLOAD),
        Ok(RequestAction::Write(range, WriteFlags::empty()))
    );
    let refused = judged(NONE).expect_err("without");
    // Nothing follows the header then.
    assert_eq!(refused.payload, Payload::Skip(0));
    assert_eq!(refused.error, WireError::Invalid);
}

#[test]
fn a_payload_that_no_command_asks_for_is_skipped_and_the_request_refused() {
    let terms = extended(&geometry());
    for command in [0, 3, 4, 5, 6, 9, u16::MAX].map(Command::from) {
        for (len, payload) in [
            (1, Payload::Skip(1)),
            (2 * u64::from(CAP), Payload::Skip(2 * u64::from(CAP))),
            (2 * u64::from(CAP) + 1, Payload::Drop),
            (u64::MAX, Payload::Drop),
        ] {
            let request = of(command, PAYLOAD, Range::new(0, len));
            let refused = judge(&request, &geometry(), &terms).expect_err("refused");
            assert_eq!(refused.payload, payload, "{command:?} {len}");
            assert_eq!(refused.error, WireError::Invalid);
        }
    }
    // In compact form the flag means nothing, and no payload follows.
    let request = of(Command::Read, PAYLOAD, Range::new(0, 512));
    let refused = judge(&request, &geometry(), &plain()).expect_err("refused");
    assert_eq!(refused.payload, Payload::Skip(0));
}

#[test]
fn status_needs_a_context_and_bytes_on_the_disk() {
    let (plain, terms) = (plain(), extended(&geometry()));
    let judged =
        |terms, flags, range| judge(&of(Command::BlockStatus, flags, range), &geometry(), terms);
    let whole = Range::new(0, 1 << 30);
    let error = |judged: Result<RequestAction, RefusedRequest>| judged.expect_err("refused").error;
    assert_eq!(error(judged(&plain, NONE, whole)), WireError::Invalid);
    for (flags, one) in [(NONE, false), (CommandFlags::REQ_ONE, true)] {
        let ids = [7].into_iter().collect();
        let expected = RequestAction::Status(Status {
            range: whole,
            one,
            ids,
        });
        assert_eq!(judged(&terms, flags, whole), Ok(expected));
    }
    for range in [
        Range::new(0, 0),
        Range::new(1, 1 << 30),
        Range::new(u64::MAX, 2),
    ] {
        assert_eq!(error(judged(&terms, NONE, range)), WireError::Invalid);
    }
    for flags in [
        CommandFlags::DF,
        CommandFlags::NO_HOLE,
        CommandFlags::FAST_ZERO,
    ] {
        assert_eq!(error(judged(&terms, flags, whole)), WireError::Invalid);
    }
}

#[test]
fn a_filter_selects_contexts_and_reports_the_length() {
    let terms = extended(&geometry());
    let request = |len| {
        of(
            Command::BlockStatus,
            PAYLOAD | CommandFlags::REQ_ONE,
            Range::new(512, len),
        )
    };
    assert_eq!(
        judge(&request(12), &geometry(), &terms),
        Ok(RequestAction::Filter(12))
    );
    let filter = |len, ids: &[u32]| {
        StatusFilter {
            len,
            ids: ids.to_vec(),
        }
        .encode()
    };
    let judged =
        |payload: &[u8]| judge_filter(&request(payload.len() as u64), payload, &geometry(), &terms);
    let range = Range::new(512, 1 << 20);
    for ids in [&[7][..], &[]] {
        let expected = Status {
            range,
            one: true,
            ids: ids.into(),
        };
        assert_eq!(
            judged(&filter(1 << 20, ids)),
            Ok(RequestAction::Status(expected))
        );
    }
    // Not agreed on; twice; no length; half an id; past the end; of nothing.
    let bad = [
        filter(512, &[8]),
        filter(512, &[7, 7]),
        vec![0; 7],
        vec![0; 10],
        filter(1 << 30, &[7]),
        filter(u64::MAX, &[7]),
        filter(0, &[7]),
    ];
    for payload in bad {
        let refused = judged(&payload).expect_err("refused");
        // Taken already.
        assert_eq!(refused.payload, Payload::Skip(0), "{payload:?}");
        assert_eq!(refused.error, WireError::Invalid);
    }
}

#[test]
fn a_filter_that_cannot_be_one_is_skipped_unread() {
    let terms = extended(&geometry());
    let request = of(Command::BlockStatus, PAYLOAD, Range::new(0, 100_000));
    let refused = judge(&request, &geometry(), &terms).expect_err("refused");
    assert_eq!(refused.payload, Payload::Skip(100_000));
}

#[test]
fn effects_of_more_than_32_bits_are_served() {
    let geometry = Geometry::native(1 << 50);
    let all = Range::new(0, 1 << 50);
    let terms = extended(&geometry);
    for command in [
        Command::Trim,
        Command::WriteZeroes,
        Command::Cache,
        Command::BlockStatus,
    ] {
        let action = judge(&of(command, NONE, all), &geometry, &terms).expect("served");
        assert_eq!(action.range(), Some(all));
    }
    let read = judge(&of(Command::Read, NONE, all), &geometry, &terms);
    assert_eq!(read.expect_err("too long").error, WireError::Invalid);
}
