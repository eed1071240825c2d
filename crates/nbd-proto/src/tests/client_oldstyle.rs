//! The client's handshake against servers of the oldstyle handshake. They were refused, all of them.

use proptest::prelude::*;

use super::client_harness::{ClientOutcome, broken, feed, finished};
use crate::{
    AccessMode, BASE_ALLOCATION, BadReply, ClientEvent, ClientHandshake, ClientHandshakeConfig,
    ClientToken, Command, CommandFlags, DiskIdentity, Framing, Goal, HandshakeFailure,
    HandshakeStyle, Request, TransmissionFlags, WriterAccess,
};

/// All that a server sends.
fn oldstyle(size: u64, flags: u16) -> Vec<u8> {
    let mut out = b"NBDMAGIC\x00\x00\x42\x02\x81\x86\x12\x53".to_vec();
    out.extend(size.to_be_bytes());
    // Handshake flags mean nothing here.
    out.extend([0xff, 0xff]);
    out.extend(flags.to_be_bytes());
    out.extend([0; 124]);
    out
}

/// A client that requests everything that there is.
fn config(export: &str, goal: Goal) -> ClientHandshakeConfig {
    ClientHandshakeConfig {
        framing: Framing::Extended,
        contexts: vec![BASE_ALLOCATION.to_owned()],
        goal,
        identify: true,
        writer: Some(WriterAccess {
            token: ClientToken::new([7; 16]),
            mode: AccessMode::Write,
        }),
        ..ClientHandshakeConfig::new(export)
    }
}

fn outcome(config: ClientHandshakeConfig, input: &[u8]) -> ClientOutcome {
    feed(&mut ClientHandshake::new(config), input, 10)
}

fn failure_text(outcome: &ClientOutcome) -> String {
    match &outcome.end {
        Some(ClientEvent::Failed(failure)) => failure.to_string(),
        other => panic!("{other:?}"),
    }
}

fn disconnect() -> Vec<u8> {
    let request = Request {
        cookie: 0,
        command: Command::Disconnect,
        flags: CommandFlags::empty(),
        offset: 0,
        len: 0,
    };
    request.encode().to_vec()
}

#[test]
fn an_oldstyle_server_leads_to_transmission_without_a_word_of_the_client() {
    let flags = TransmissionFlags::HAS_FLAGS
        | TransmissionFlags::SEND_FLUSH
        | TransmissionFlags::SEND_DF
        | TransmissionFlags::CAN_MULTI_CONN;
    let input = [oldstyle(7 << 20, flags.bits()), b"data".to_vec()].concat();
    let outcome = outcome(config("", Goal::Go), &input);
    assert_eq!(outcome.sent, b"");
    assert_eq!(outcome.unused, 4);
    let negotiated = finished(outcome);
    assert_eq!(
        (negotiated.export.size, &*negotiated.export.name),
        (7 << 20, "")
    );
    // DF has no meaning without structured replies.
    assert_eq!(negotiated.export.flags, flags - TransmissionFlags::SEND_DF);
    assert_eq!(negotiated.style, HandshakeStyle::Oldstyle);
    assert_eq!(negotiated.framing, Framing::Simple);
    assert!(negotiated.contexts.is_empty());
    assert!(!negotiated.tls && !negotiated.block_sizes_agreed);
    assert_eq!(negotiated.disk, DiskIdentity::default());
    assert_eq!(negotiated.writer, None, "no option carried it");
}

#[test]
fn the_export_of_an_oldstyle_server_is_described_and_listed_without_a_name() {
    let described = outcome(config("", Goal::Info), &oldstyle(7 << 20, 3));
    assert_eq!(described.sent, disconnect());
    let Some(ClientEvent::Described(negotiated)) = described.end else {
        panic!("{described:?}");
    };
    assert_eq!(negotiated.export.size, 7 << 20);
    for export in ["", "disk"] {
        let listed = outcome(config(export, Goal::List), &oldstyle(7 << 20, 3));
        assert_eq!(listed.sent, disconnect());
        let only = vec![(String::new(), String::new())];
        assert_eq!(listed.end, Some(ClientEvent::Listed(only)));
    }
}

#[test]
fn an_export_by_name_is_refused_where_a_server_has_no_names() {
    for goal in [Goal::Go, Goal::Info] {
        let outcome = outcome(config("disk", goal), &oldstyle(7 << 20, 1));
        assert_eq!(
            failure_text(&outcome),
            "the server speaks the oldstyle NBD handshake, which has one export without a name: \
             use an address without \"disk\""
        );
        assert_eq!(outcome.sent, b"");
    }
}

#[test]
fn a_client_that_wants_tls_leaves_an_oldstyle_server_at_its_magic() {
    for goal in [Goal::Go, Goal::Info, Goal::List] {
        let config = ClientHandshakeConfig {
            tls: true,
            ..config("", goal)
        };
        let outcome = outcome(config, &oldstyle(7 << 20, 1)[..16]);
        assert_eq!(
            failure_text(&outcome),
            "the server does not offer TLS, which was requested: it speaks the oldstyle NBD handshake, which has none"
        );
        assert_eq!(outcome.sent, b"");
    }
}

#[test]
fn an_oldstyle_server_is_not_believed_a_size_that_no_offset_reaches() {
    let outcome = outcome(config("", Goal::Go), &oldstyle(1 << 63, 1));
    assert_eq!(broken(outcome), BadReply::Size(1 << 63));
}

#[test]
fn an_oldstyle_greeting_that_breaks_off_is_no_greeting() {
    let whole = oldstyle(7 << 20, 1);
    let mut client = ClientHandshake::new(config("", Goal::Go));
    let outcome = feed(&mut client, &whole[..whole.len() - 1], 10);
    assert_eq!((outcome.end, outcome.sent.len()), (None, 0));
    let failure = client.end_of_stream();
    assert_eq!(failure, HandshakeFailure::ClosedBeforeGreeting);
}

proptest! {
    #[test]
    fn any_cutting_of_an_oldstyle_greeting_gives_the_same_outcome(
        size in any::<u64>(), flags in any::<u16>(), end in 0usize..170, piece in 1usize..50, goal in 0usize..3,
    ) {
        let goal = [Goal::Go, Goal::Info, Goal::List][goal];
        let input = [oldstyle(size, flags), vec![0; 20]].concat();
        let input = &input[..end];
        let client = || ClientHandshake::new(config("", goal));
        prop_assert_eq!(feed(&mut client(), input, usize::MAX), feed(&mut client(), input, piece));
    }
}
