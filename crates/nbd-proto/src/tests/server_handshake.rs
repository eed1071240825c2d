//! The server's handshake against clients of every kind: what others got wrong, answered and in
//! step, or closed.

use proptest::prelude::*;

use super::server_harness::{go, good_go, kinds, serve, serve_as, session};
use super::{option, replies};
use crate::{
    CloseReason, HandshakeEvent, OptionCode, OptionReply, ServerHandshake, ServerHandshakeConfig,
    TlsMode, TransmissionFlags, limits,
};

/// The server refuses `bad` with `reply` and then answers a good `GO` as if nothing had happened.
fn refused_in_step(option_code: OptionCode, data: &[u8], reply: OptionReply) {
    let outcome = serve(
        &session(&[option(option_code, data), good_go("disk")]),
        1000,
    );
    let kinds = kinds(&outcome.sent);
    assert_eq!(kinds[0], (option_code, reply), "{outcome:?}");
    assert_eq!(kinds.last(), Some(&(OptionCode::Go, OptionReply::Ack)));
    assert!(outcome.finished.is_some());
}

#[test]
fn a_list_with_data_is_invalid_and_stays_in_step() {
    refused_in_step(OptionCode::List, b"surprise", OptionReply::ErrInvalid);
}

#[test]
fn a_name_longer_than_its_option_is_invalid_and_stays_in_step() {
    let data = go(b"disk", 5000, &[]);
    refused_in_step(OptionCode::Go, &data, OptionReply::ErrInvalid);
    refused_in_step(OptionCode::Info, &data, OptionReply::ErrInvalid);
}

/// CVE-2022-26495 and CVE-2022-26496: a length near 2^32 wrapped when the header was added to it,
/// and the name was then copied into a buffer of a few bytes.
#[test]
fn a_name_length_near_the_end_of_32_bits_does_not_wrap() {
    for claimed in [u32::MAX, u32::MAX - 1, u32::MAX - 5, 1 << 31] {
        refused_in_step(
            OptionCode::Go,
            &go(b"disk", claimed, &[]),
            OptionReply::ErrInvalid,
        );
    }
}

/// CVE-2017-15118: a name longer than 4096 bytes overflowed the stack.
#[test]
fn a_name_longer_than_any_is_too_big() {
    let name = vec![b'x'; limits::STRING_MAX + 1];
    let data = go(&name, 4097, &[]);
    refused_in_step(OptionCode::Info, &data, OptionReply::ErrTooBig);
    let outcome = serve(&session(&[option(OptionCode::ExportName, &name)]), 1000);
    assert_eq!(outcome.closed, Some(CloseReason::BadExportName));
    assert!(outcome.asked.is_empty());
}

#[test]
fn names_that_are_no_text_are_invalid() {
    refused_in_step(
        OptionCode::Go,
        &go(b"di\xffk", 4, &[]),
        OptionReply::ErrInvalid,
    );
    refused_in_step(
        OptionCode::Go,
        &go(b"di\0k", 4, &[]),
        OptionReply::ErrInvalid,
    );
}

#[test]
fn a_count_of_requests_that_does_not_match_is_invalid() {
    let mut long = go(b"disk", 4, &[3]);
    long.push(0);
    refused_in_step(OptionCode::Go, &long, OptionReply::ErrInvalid);
    let mut short = go(b"disk", 4, &[]);
    short[8..].copy_from_slice(&7u16.to_be_bytes());
    refused_in_step(OptionCode::Go, &short, OptionReply::ErrInvalid);
    refused_in_step(OptionCode::Go, &[], OptionReply::ErrInvalid);
    refused_in_step(OptionCode::Go, &[0, 0, 0, 0], OptionReply::ErrInvalid);
}

#[test]
fn an_absurd_option_length_ends_the_session_before_its_data() {
    let mut input = session(&[option(OptionCode::Unknown(77), &[])]);
    let len = input.len();
    input[len - 4..].copy_from_slice(&(limits::OPTION_MAX + 1).to_be_bytes());
    let outcome = serve(&input, 1000);
    assert!(matches!(
        outcome.closed,
        Some(CloseReason::OptionTooLong { len: 65537, .. })
    ));
    assert!(outcome.sent.is_empty());
}

#[test]
fn structured_replies_twice_or_with_data_are_invalid() {
    let ask = || option(OptionCode::StructuredReply, &[]);
    let with_data = option(OptionCode::StructuredReply, &[1]);
    let outcome = serve(&session(&[with_data, ask(), ask(), good_go("disk")]), 9);
    let first: Vec<_> = kinds(&outcome.sent)[..3].iter().map(|k| k.1).collect();
    let expected = [
        OptionReply::ErrInvalid,
        OptionReply::Ack,
        OptionReply::ErrInvalid,
    ];
    assert_eq!(first, expected);
    assert!(outcome.finished.unwrap().framing.is_chunked());
}

#[test]
fn options_we_do_not_have_are_unsupported_and_skipped() {
    for code in [
        OptionCode::StartTls,
        OptionCode::ExtendedHeaders,
        OptionCode::Unknown(4),
        OptionCode::Unknown(u32::MAX),
    ] {
        refused_in_step(code, &[], OptionReply::ErrUnsupported);
        refused_in_step(code, &[7; 3000], OptionReply::ErrUnsupported);
    }
}

#[test]
fn refusals_say_why_and_leave_the_session_open() {
    for (name, reply) in [
        ("nope", OptionReply::ErrUnknown),
        ("private", OptionReply::ErrPolicy),
        ("locked", OptionReply::ErrTlsRequired),
    ] {
        let config = ServerHandshakeConfig {
            tls: TlsMode::Optional,
            ..ServerHandshakeConfig::default()
        };
        let input = session(&[good_go(name), good_go("disk")]);
        let outcome = serve_as(&config, &input, 1000);
        assert_eq!(kinds(&outcome.sent)[0], (OptionCode::Go, reply));
        assert!(!replies(&outcome.sent)[0].2.is_empty());
        assert!(outcome.finished.is_some());
    }
}

#[test]
fn export_name_of_an_unknown_export_closes_without_a_byte() {
    let outcome = serve(&session(&[option(OptionCode::ExportName, b"nope")]), 1000);
    assert!(outcome.sent.is_empty());
    assert!(matches!(outcome.closed, Some(CloseReason::Refused { .. })));
}

#[test]
fn export_name_answers_with_zeroes_unless_both_agreed_to_leave_them_out() {
    let parts = option(OptionCode::ExportName, b"disk");
    let without = serve(&session(std::slice::from_ref(&parts)), 1000);
    assert_eq!(without.sent.len(), 10);
    let mut input = vec![0, 0, 0, 1];
    input.extend(&parts);
    let with = serve(&input, 1000);
    assert_eq!(with.sent.len(), 134);
    assert_eq!(with.sent[..8], (1u64 << 30).to_be_bytes());
    assert!(with.sent[10..].iter().all(|byte| *byte == 0));
    let finished = with.finished.unwrap();
    assert!(!finished.no_zeroes && !finished.block_sizes_agreed);
    assert!(!finished.export.flags.contains(TransmissionFlags::SEND_DF));
}

#[test]
fn abort_is_acknowledged_and_then_closed_even_with_data() {
    for data in [&b""[..], b"why not"] {
        let outcome = serve(&session(&[option(OptionCode::Abort, data)]), 1000);
        assert_eq!(
            kinds(&outcome.sent),
            [(OptionCode::Abort, OptionReply::Ack)]
        );
        assert_eq!(outcome.closed, Some(CloseReason::Aborted));
    }
}

#[test]
fn unknown_client_flags_end_the_session() {
    let outcome = serve(&[0, 0, 1, 1], 1);
    assert_eq!(outcome.closed, Some(CloseReason::UnknownClientFlags(257)));
}

#[test]
fn a_bad_magic_ends_the_session() {
    let mut input = session(&[good_go("disk")]);
    input[4] ^= 1;
    let outcome = serve(&input, 1000);
    assert!(matches!(outcome.closed, Some(CloseReason::BadMagic(_))));
}

/// CVE-2024-7409: clients that never came to an end of negotiating kept a server busy. Time limits
/// are the socket owner's; the number of options is limited here.
#[test]
fn a_client_that_never_comes_to_the_point_is_dropped() {
    let many = vec![option(OptionCode::List, &[]); 1000];
    let outcome = serve(&session(&many), 100);
    assert_eq!(
        outcome.closed,
        Some(CloseReason::TooManyOptions(limits::OPTIONS_MAX))
    );
    assert_eq!(outcome.lists, 512);
}

#[test]
fn requests_pipelined_behind_go_are_left_for_transmission() {
    let mut input = session(&[good_go("disk")]);
    input.extend_from_slice(b"a request");
    for piece in [1, 7, 1000] {
        let outcome = serve(&input, piece);
        assert!(outcome.finished.is_some());
        assert_eq!(outcome.unused, b"a request");
    }
}

#[test]
fn info_reports_exactly_what_was_requested() {
    let data = go(b"disk", 4, &[3, 1, 99, 2]);
    let input = session(&[option(OptionCode::Info, &data)]);
    let outcome = serve(&input, 1000);
    let kinds: Vec<_> = replies(&outcome.sent)
        .iter()
        .map(|(_, _, data)| data.get(..2).map(|kind| kind[1]))
        .collect();
    assert_eq!(kinds, [Some(0), Some(1), Some(2), Some(3), None]);
    assert!(outcome.finished.is_none());
    let plain = session(&[option(OptionCode::Info, &go(b"disk", 4, &[]))]);
    assert_eq!(replies(&serve(&plain, 1000).sent).len(), 2);
}

#[test]
fn a_list_leaves_out_names_that_do_not_fit() {
    let mut server = ServerHandshake::new(ServerHandshakeConfig::default());
    let input = session(&[option(OptionCode::List, &[])]);
    assert_eq!(server.receive(&input), input.len());
    assert_eq!(server.next_event(), Some(HandshakeEvent::List));
    let long = "x".repeat(limits::STRING_MAX + 1);
    server.answer_list(&[(long.clone(), String::new()), ("é".to_owned(), long)]);
    let Some(HandshakeEvent::Send(sent)) = server.next_event() else {
        panic!("no answer");
    };
    let replies = replies(&sent);
    assert_eq!(replies.len(), 2);
    assert_eq!(replies[0].2.len(), 4 + 2 + limits::STRING_MAX);
}

/// Frames in any order, some of them broken.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let data = prop::collection::vec(any::<u8>(), 0..40);
    let frame = (0u32..13, data, any::<bool>()).prop_map(|(number, data, named)| {
        let code = OptionCode::from(number);
        match named {
            true => option(code, &go(b"disk", 4, &[0, 1, 2, 3])),
            false => option(code, &data),
        }
    });
    prop::collection::vec(frame, 0..20).prop_map(|frames| session(&frames))
}

proptest! {
    #[test]
    fn any_cutting_of_any_session_gives_the_same_outcome(input in frames(), piece in 1usize..50) {
        prop_assert_eq!(serve(&input, usize::MAX), serve(&input, piece));
    }

    #[test]
    fn no_bytes_panic_the_server(input in prop::collection::vec(any::<u8>(), 0..200)) {
        serve(&input, 16);
        serve(&session(&[input]), 16);
    }
}
