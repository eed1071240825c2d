//! TLS on the server's side: the three modes of proto.md, and what must not get past them.

use proptest::prelude::*;

use super::server_harness::{
    ServerHarness, ServerOutcome, go, good_go, kinds, queries, serve_as, session,
};
use super::{option, replies};
use crate::{
    BASE_ALLOCATION, CloseReason, Framing, OptionCode, OptionReply, ServerHandshakeConfig, TlsMode,
    limits,
};

fn config(tls: TlsMode) -> ServerHandshakeConfig {
    ServerHandshakeConfig {
        framing: Framing::Extended,
        tls,
        ..ServerHandshakeConfig::default()
    }
}

fn start_tls() -> Vec<u8> {
    option(OptionCode::StartTls, &[])
}

/// What such a server makes of `clear` and `STARTTLS`, and under TLS of `under`.
fn upgraded(tls: TlsMode, clear: &[Vec<u8>], under: &[Vec<u8>]) -> ServerOutcome {
    let mut harness = ServerHarness::new(&config(tls));
    let mut parts = clear.to_vec();
    parts.push(start_tls());
    harness.feed(&session(&parts), 1000);
    harness.feed(&under.concat(), 1000);
    harness.outcome
}

#[test]
fn a_server_without_tls_does_not_know_starttls_and_never_asks_for_it() {
    let input = session(&[start_tls(), good_go("locked"), good_go("disk")]);
    let outcome = serve_as(&config(TlsMode::Off), &input, 1000);
    let kinds = kinds(&outcome.sent);
    assert_eq!(kinds[0].1, OptionReply::ErrUnsupported);
    assert_eq!(kinds[1], (OptionCode::Go, OptionReply::ErrUnknown));
    assert_eq!(outcome.tls, 0);
    assert!(!outcome.finished.unwrap().tls);
}

#[test]
fn required_tls_refuses_every_option_in_the_clear_unread_and_stays_in_step() {
    let options = (0u32..=12).chain([4711, u32::MAX]).map(OptionCode::from);
    for code in options {
        if matches!(
            code,
            OptionCode::ExportName | OptionCode::Abort | OptionCode::StartTls
        ) {
            continue;
        }
        for data in [&b""[..], b"nonsense"] {
            let outcome = upgraded(TlsMode::Required, &[option(code, data)], &[good_go("disk")]);
            let kinds = kinds(&outcome.sent);
            assert_eq!(kinds[0], (code, OptionReply::ErrTlsRequired));
            assert_eq!(kinds[1], (OptionCode::StartTls, OptionReply::Ack));
            assert!(outcome.finished.unwrap().tls);
        }
    }
}

#[test]
fn required_tls_looks_for_no_export_and_lists_none_before_it_is_there() {
    let clear = [
        option(OptionCode::List, &[]),
        good_go("disk"),
        option(OptionCode::Info, &go(b"disk", 4, &[])),
        option(OptionCode::SetMetaContext, &queries("disk", &[])),
    ];
    let outcome = serve_as(&config(TlsMode::Required), &session(&clear), 1000);
    assert_eq!((outcome.asked.len(), outcome.lists), (0, 0));
}

#[test]
fn required_tls_ends_the_session_at_export_name_and_lets_clients_leave() {
    let input = session(&[option(OptionCode::ExportName, b"disk")]);
    let outcome = serve_as(&config(TlsMode::Required), &input, 1000);
    assert_eq!(outcome.closed, Some(CloseReason::TlsRequired));
    assert!(outcome.sent.is_empty());
    let input = session(&[option(OptionCode::Abort, &[])]);
    let outcome = serve_as(&config(TlsMode::Required), &input, 1000);
    assert_eq!(outcome.closed, Some(CloseReason::Aborted));
    assert_eq!(kinds(&outcome.sent)[0].1, OptionReply::Ack);
}

#[test]
fn optional_tls_serves_in_the_clear_what_does_not_need_it() {
    let input = session(&[good_go("locked"), good_go("nope"), good_go("disk")]);
    let outcome = serve_as(&config(TlsMode::Optional), &input, 1000);
    let answers: Vec<_> = kinds(&outcome.sent).iter().map(|kind| kind.1).collect();
    assert_eq!(
        answers[..2],
        [OptionReply::ErrTlsRequired, OptionReply::ErrUnknown]
    );
    assert!(!outcome.finished.unwrap().tls);
    let outcome = upgraded(
        TlsMode::Optional,
        &[good_go("locked")],
        &[good_go("locked")],
    );
    let finished = outcome.finished.unwrap();
    assert!(finished.tls);
    assert_eq!(finished.requested_name, "locked");
}

#[test]
fn export_name_of_an_export_that_needs_tls_closes_without_a_byte() {
    let input = session(&[option(OptionCode::ExportName, b"locked")]);
    let outcome = serve_as(&config(TlsMode::Optional), &input, 1000);
    assert!(matches!(outcome.closed, Some(CloseReason::Refused { .. })));
    assert!(outcome.sent.is_empty());
}

#[test]
fn under_tls_no_client_must_start_it_again() {
    let outcome = upgraded(
        TlsMode::Required,
        &[],
        &[start_tls(), good_go("always locked"), good_go("disk")],
    );
    let answers: Vec<_> = kinds(&outcome.sent).iter().map(|kind| kind.1).collect();
    assert_eq!(
        answers[..3],
        [
            OptionReply::Ack,
            OptionReply::ErrInvalid,
            OptionReply::ErrUnknown
        ]
    );
    assert_eq!(outcome.tls, 1);
    assert!(outcome.finished.unwrap().tls);
}

#[test]
fn starttls_with_data_or_from_a_client_without_fixed_newstyle_is_invalid() {
    let input = session(&[option(OptionCode::StartTls, b"x"), start_tls()]);
    let outcome = serve_as(&config(TlsMode::Required), &input, 1000);
    let answers: Vec<_> = kinds(&outcome.sent).iter().map(|kind| kind.1).collect();
    assert_eq!(answers, [OptionReply::ErrInvalid, OptionReply::Ack]);
    let input = [&[0, 0, 0, 0][..], &start_tls()].concat();
    let outcome = serve_as(&config(TlsMode::Required), &input, 1000);
    assert_eq!(kinds(&outcome.sent)[0].1, OptionReply::ErrInvalid);
    assert_eq!(outcome.tls, 0);
}

#[test]
fn what_was_agreed_in_the_clear_is_forgotten_under_tls() {
    let agree = [
        option(OptionCode::StructuredReply, &[]),
        option(OptionCode::ExtendedHeaders, &[]),
        option(
            OptionCode::SetMetaContext,
            &queries("disk", &[BASE_ALLOCATION]),
        ),
    ];
    let outcome = upgraded(TlsMode::Optional, &agree, &[good_go("disk")]);
    let finished = outcome.finished.unwrap();
    assert_eq!(finished.framing, Framing::Simple);
    assert!(finished.contexts.is_empty());

    let mut again = agree.to_vec();
    again.push(good_go("disk"));
    let finished = upgraded(TlsMode::Optional, &agree, &again)
        .finished
        .unwrap();
    assert_eq!(finished.framing, Framing::Extended);
    assert_eq!(finished.contexts.len(), 1);
    assert!(finished.no_zeroes, "client flags are said once only");
}

/// CVE-2021-3716: bytes injected behind STARTTLS were taken for bytes of the client under TLS.
#[test]
fn bytes_pipelined_behind_starttls_end_the_session() {
    for tls in [TlsMode::Optional, TlsMode::Required] {
        for behind in [good_go("disk"), vec![0x16], option(OptionCode::Abort, &[])] {
            let input = session(&[start_tls(), behind]);
            let outcome = serve_as(&config(tls), &input, 1000);
            let closed = Some(CloseReason::PlaintextBehindStartTls);
            assert_eq!(outcome.closed, closed);
            assert!(outcome.sent.is_empty() && outcome.tls == 0);
            assert!(outcome.finished.is_none());
        }
    }
}

/// The same where they arrive after the ACK was sent, but before TLS began.
#[test]
fn bytes_in_the_clear_before_tls_began_end_the_session() {
    let mut server = crate::ServerHandshake::new(config(TlsMode::Required));
    let input = session(&[start_tls()]);
    assert_eq!(server.receive(&input), input.len());
    assert!(matches!(
        server.next_event(),
        Some(crate::HandshakeEvent::Send(_))
    ));
    assert_eq!(server.next_event(), Some(crate::HandshakeEvent::StartTls));
    assert_eq!(server.receive(&good_go("disk")), 0);
    assert_eq!(
        server.next_event(),
        Some(crate::HandshakeEvent::Close(
            CloseReason::PlaintextBehindStartTls
        ))
    );
}

#[test]
fn options_before_and_under_tls_are_counted_together() {
    let many = vec![option(OptionCode::Unknown(99), &[]); 400];
    let outcome = upgraded(TlsMode::Optional, &many, &many);
    assert_eq!(
        outcome.closed,
        Some(CloseReason::TooManyOptions(limits::OPTIONS_MAX))
    );
    assert_eq!(replies(&outcome.sent).len(), 512);
}

/// Frames of a session, as stretches that begin where TLS might have begun.
fn stretches() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let frame = (0u32..13, 0usize..4).prop_map(|(number, data)| {
        let code = OptionCode::from(number);
        match data {
            0 => option(code, &[]),
            1 => option(code, &go(b"disk", 4, &[0, 1, 2, 3])),
            2 => option(code, &queries("disk", &[BASE_ALLOCATION, "x-box:"])),
            _ => option(code, b"\0\0\0\x01x"),
        }
    });
    prop::collection::vec(frame, 0..25).prop_map(|frames| {
        let mut stretches = vec![session(&[])];
        for frame in frames {
            let begins = frame.starts_with(b"IHAVEOPT\0\0\0\x05\0\0\0\0");
            stretches.last_mut().unwrap().extend(frame);
            if begins {
                stretches.push(Vec::new());
            }
        }
        stretches
    })
}

proptest! {
    #[test]
    fn any_cutting_of_a_session_that_goes_under_tls_gives_the_same_outcome(
        stretches in stretches(),
        piece in 1usize..60,
        tls in prop::sample::select(vec![TlsMode::Off, TlsMode::Optional, TlsMode::Required]),
    ) {
        let (mut whole, mut cut) = (ServerHarness::new(&config(tls)), ServerHarness::new(&config(tls)));
        for stretch in &stretches {
            whole.feed(stretch, usize::MAX);
            cut.feed(stretch, piece);
        }
        if tls == TlsMode::Required {
            prop_assert!(whole.outcome.asked.is_empty() || whole.outcome.tls == 1);
        }
        prop_assert_eq!(whole.outcome, cut.outcome);
    }
}
