//! Every case of the table "Answers where servers differ" that concerns one request.

mod extended;

use block::{Geometry, Range, Support, WriteFlags};
use nbd_proto::{Command, CommandFlags, Framing, MetaContext, Request, WireError};
use proptest::prelude::*;

use super::super::plan::{
    ConnectionTerms, Payload, RefusedRequest, RequestAction, judge, judge_filter,
    transmission_flags,
};

const CAP: u32 = 1 << 20;

fn geometry() -> Geometry {
    Geometry::native(1 << 30)
}

fn terms(geometry: &Geometry) -> ConnectionTerms {
    ConnectionTerms {
        flags: transmission_flags(geometry),
        framing: Framing::Structured,
        contexts: Vec::new(),
        payload_max: CAP,
    }
}

fn ask(
    geometry: &Geometry,
    command: Command,
    flags: CommandFlags,
    range: Range,
) -> Result<RequestAction, RefusedRequest> {
    let request = Request {
        cookie: 1,
        command,
        flags,
        offset: range.offset,
        len: range.len,
    };
    judge(&request, geometry, &terms(geometry))
}

fn error_of(geometry: &Geometry, command: Command, flags: CommandFlags, range: Range) -> WireError {
    ask(geometry, command, flags, range)
        .expect_err("refused")
        .error
}

const NONE: CommandFlags = CommandFlags::empty();

#[test]
fn past_the_end_is_invalid_for_reads_and_a_full_disk_for_writes() {
    let past = Range::new(1 << 30, 1);
    assert_eq!(
        error_of(&geometry(), Command::Read, NONE, past),
        WireError::Invalid
    );
    assert_eq!(
        error_of(&geometry(), Command::Write, NONE, past),
        WireError::NoSpace
    );
    assert_eq!(
        error_of(&geometry(), Command::WriteZeroes, NONE, past),
        WireError::NoSpace
    );
    assert_eq!(
        error_of(&geometry(), Command::Trim, NONE, past),
        WireError::Invalid
    );
}

#[test]
fn a_read_above_the_cap_overflows_only_where_it_must_not_be_cut() {
    let long = Range::new(0, u64::from(CAP) + 1);
    assert_eq!(
        error_of(&geometry(), Command::Read, NONE, long),
        WireError::Invalid
    );
    assert_eq!(
        error_of(&geometry(), Command::Read, CommandFlags::DF, long),
        WireError::Overflow
    );
}

#[test]
fn a_write_above_the_cap_is_skipped_up_to_twice_the_cap() {
    let payload = |len| {
        let range = Range::new(0, len);
        ask(&geometry(), Command::Write, NONE, range)
            .expect_err("refused")
            .payload
    };
    let cap = u64::from(CAP);
    assert_eq!(payload(cap + 1), Payload::Skip(cap + 1));
    assert_eq!(payload(2 * cap), Payload::Skip(2 * cap));
    assert_eq!(payload(2 * cap + 1), Payload::Drop);
}

#[test]
fn zero_length_is_served() {
    for command in [
        Command::Read,
        Command::Write,
        Command::Trim,
        Command::WriteZeroes,
    ] {
        assert!(ask(&geometry(), command, NONE, Range::new(0, 0)).is_ok());
    }
}

#[test]
fn what_was_not_advertised_is_invalid() {
    let mut poor = geometry();
    (poor.fua, poor.trim, poor.write_zeroes, poor.flush) =
        (Support::None, Support::None, Support::None, Support::None);
    let block = Range::new(0, 512);
    assert_eq!(
        error_of(&poor, Command::Write, CommandFlags::FUA, block),
        WireError::Invalid
    );
    assert_eq!(
        error_of(&poor, Command::Trim, NONE, block),
        WireError::Invalid
    );
    assert_eq!(
        error_of(&poor, Command::WriteZeroes, NONE, block),
        WireError::Invalid
    );
    assert_eq!(
        error_of(&poor, Command::Flush, NONE, Range::new(0, 0)),
        WireError::Invalid
    );
    assert_eq!(
        error_of(&geometry(), Command::Read, CommandFlags::NO_HOLE, block),
        WireError::Invalid
    );
    assert_eq!(
        error_of(&geometry(), Command::BlockStatus, NONE, block),
        WireError::Invalid
    );
}

#[test]
fn flags_reach_the_disk() {
    let flags = CommandFlags::FUA | CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO;
    let range = Range::new(0, 512);
    let action = ask(&geometry(), Command::WriteZeroes, flags, range);
    assert_eq!(
        action,
        Ok(RequestAction::WriteZeroes(range, WriteFlags::all()))
    );
}

/// Terms of a client that has agreed on all there is.
fn extended(geometry: &Geometry) -> ConnectionTerms {
    let context = |id| MetaContext {
        id,
        name: nbd_proto::BASE_ALLOCATION.to_owned(),
    };
    ConnectionTerms {
        framing: Framing::Extended,
        contexts: vec![context(7)],
        ..terms(geometry)
    }
}

fn of(command: Command, flags: CommandFlags, range: Range) -> Request {
    Request {
        cookie: 1,
        command,
        flags,
        offset: range.offset,
        len: range.len,
    }
}

/// Terms of a client that has agreed on structured replies only.
fn plain() -> ConnectionTerms {
    terms(&geometry())
}

#[test]
fn requests_that_are_not_made_of_whole_blocks_are_invalid() {
    for block in [512, 4096] {
        let mut geometry = geometry();
        geometry.block_size = block;
        let block = u64::from(block);
        for command in [
            Command::Read,
            Command::Write,
            Command::Trim,
            Command::WriteZeroes,
            Command::Cache,
        ] {
            assert!(ask(&geometry, command, NONE, Range::new(block, block)).is_ok());
            for range in [
                Range::new(1, block),
                Range::new(block, block - 1),
                Range::new(block / 2, block),
            ] {
                assert_eq!(
                    error_of(&geometry, command, NONE, range),
                    WireError::Invalid
                );
            }
        }
    }
}

#[test]
fn what_changes_a_read_only_export_is_not_permitted() {
    let mut geometry = geometry();
    geometry.read_only = true;
    for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
        let error = error_of(&geometry, command, NONE, Range::new(0, 512));
        assert_eq!(error, WireError::Permission);
    }
    for command in [Command::Read, Command::Cache] {
        assert!(ask(&geometry, command, NONE, Range::new(0, 512)).is_ok());
    }
}

proptest! {
    #[test]
    fn no_request_panics_and_what_passes_lies_on_the_disk(
        command in 0u16..12, flags: u16, offset: u64, len: u64, is_short: bool,
        size in 0u64..1 << 40, shift in 0u32..13, read_only: bool, framing in 0usize..3,
        has_context: bool, payload in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut geometry = Geometry::native(size >> shift << shift);
        geometry.block_size = 1 << shift;
        geometry.read_only = read_only;
        let framing = [Framing::Simple, Framing::Structured, Framing::Extended][framing];
        let mut terms = ConnectionTerms { framing, ..extended(&geometry) };
        if !has_context || !framing.is_chunked() {
            terms.contexts.clear();
        }
        let request = Request {
            cookie: 0,
            command: Command::from(command),
            flags: CommandFlags::from_bits_retain(flags),
            offset,
            len: if is_short || !framing.is_extended() { len & u64::from(u32::MAX) } else { len },
        };
        let reads = [Command::Read, Command::Cache, Command::BlockStatus];
        match judge(&request, &geometry, &terms) {
            Ok(RequestAction::Filter(len)) => {
                prop_assert_eq!(len as u64, request.payload_len(framing));
                if let Ok(action) = judge_filter(&request, &payload, &geometry, &terms) {
                    let range = action.range().expect("a status has a range");
                    prop_assert!(range.check(geometry.size, geometry.block_size).is_ok());
                }
            }
            Ok(action) => if let Some(range) = action.range() {
                prop_assert!(range.check(geometry.size, geometry.block_size).is_ok());
                prop_assert!(!read_only || reads.contains(&request.command));
                let is_write = matches!(action, RequestAction::Write(..));
                prop_assert_eq!(is_write, request.payload_len(framing) > 0 || (is_write && range.is_empty()));
            },
            Err(refused) => {
                let payload = request.payload_len(framing);
                let expected = if payload > 2 * u64::from(CAP) { Payload::Drop } else { Payload::Skip(payload) };
                prop_assert_eq!(refused.payload, expected);
            }
        }
    }
}
