//! TLS on the client's side: a client that wants it never does without.

use super::client_harness::{ClientOutcome, feed, greeting};
use super::{option, reply};
use crate::{
    BadReply, ClientEvent, ClientHandshake, ClientHandshakeConfig, Goal, HandshakeFailure,
    OptionCode, OptionReply,
};

fn client(goal: Goal) -> ClientHandshake {
    ClientHandshake::new(ClientHandshakeConfig {
        tls: true,
        goal,
        ..ClientHandshakeConfig::new("secret")
    })
}

/// The client receives a greeting and then `said`.
fn feed_replies(goal: Goal, said: &[u8]) -> ClientOutcome {
    feed(&mut client(goal), &[&greeting(3), said].concat(), 1000)
}

fn start_tls() -> Vec<u8> {
    option(OptionCode::StartTls, &[])
}

fn agreed() -> Vec<u8> {
    reply(OptionCode::StartTls, OptionReply::Ack, &[])
}

#[test]
fn starttls_comes_first_and_everything_else_under_tls() {
    for (goal, first) in [
        (Goal::Go, option(OptionCode::StructuredReply, &[])),
        (Goal::Info, option(OptionCode::StructuredReply, &[])),
        (Goal::List, option(OptionCode::List, &[])),
    ] {
        let mut client = client(goal);
        let clear = feed(&mut client, &greeting(3), 1000);
        assert_eq!(clear.sent, [&[0, 0, 0, 3][..], &start_tls()].concat());
        let under = feed(&mut client, &agreed(), 1);
        assert_eq!((under.sent, under.tls), (first, 1));
    }
}

#[test]
fn a_server_without_tls_gets_an_abort_and_nothing_else() {
    for kind in [
        OptionReply::ErrUnsupported,
        OptionReply::ErrPolicy,
        OptionReply::ErrInvalid,
        OptionReply::ErrTlsRequired,
        OptionReply::Unknown(1 << 31 | 99),
    ] {
        let outcome = feed_replies(Goal::Go, &reply(OptionCode::StartTls, kind, b"no \x1b[1m"));
        let Some(ClientEvent::Failed(failure)) = &outcome.end else {
            panic!("{outcome:?}");
        };
        let HandshakeFailure::NoTls { text } = failure else {
            panic!("{failure}");
        };
        assert!(text.ends_with(": no \u{fffd}[1m"), "{text}");
        assert!(outcome.sent.ends_with(&option(OptionCode::Abort, &[])));
        assert!(!outcome.sent.windows(6).any(|bytes| bytes == b"secret"));
    }
}

#[test]
fn a_server_without_fixed_newstyle_cannot_talk_a_client_out_of_tls() {
    for goal in [Goal::Go, Goal::Info, Goal::List] {
        let outcome = feed(&mut client(goal), &greeting(2), 1000);
        assert!(outcome.sent.is_empty());
        assert!(matches!(
            outcome.end,
            Some(ClientEvent::Failed(HandshakeFailure::NoTls { .. }))
        ));
    }
}

/// Answers to options that were never sent, so that the client believes to have its export.
#[test]
fn answers_to_other_options_do_not_stand_for_tls() {
    for code in [OptionCode::Go, OptionCode::StructuredReply] {
        let outcome = feed_replies(Goal::Go, &reply(code, OptionReply::Ack, &[]));
        assert!(matches!(
            outcome.end,
            Some(ClientEvent::Failed(HandshakeFailure::BrokenReply(
                BadReply::OtherOption { .. }
            )))
        ));
    }
    let info = reply(OptionCode::StartTls, OptionReply::Info, &[0; 12]);
    assert!(matches!(
        feed_replies(Goal::Go, &info).end,
        Some(ClientEvent::Failed(HandshakeFailure::BrokenReply(
            BadReply::Unexpected { .. }
        )))
    ));
}

#[test]
fn bytes_in_the_clear_behind_starttls_end_the_session() {
    let said = [
        agreed(),
        reply(OptionCode::StructuredReply, OptionReply::Ack, &[]),
    ]
    .concat();
    let outcome = feed_replies(Goal::Go, &said);
    let failed = ClientEvent::Failed(HandshakeFailure::PlaintextBehindStartTls);
    assert_eq!((outcome.end, outcome.tls), (Some(failed.clone()), 0));

    let mut client = client(Goal::Go);
    feed(&mut client, &greeting(3), 1000);
    assert_eq!(client.receive(&agreed()), agreed().len());
    assert_eq!(client.next_event(), Some(ClientEvent::StartTls));
    assert_eq!(client.receive(b"x"), 0);
    assert_eq!(client.next_event(), Some(failed));
}

#[test]
fn a_server_that_wants_tls_under_tls_is_broken() {
    let mut client = client(Goal::Go);
    feed(&mut client, &[greeting(3), agreed()].concat(), 1000);
    let kind = OptionReply::ErrTlsRequired;
    let outcome = feed(
        &mut client,
        &reply(OptionCode::StructuredReply, kind, b""),
        9,
    );
    assert!(matches!(
        outcome.end,
        Some(ClientEvent::Failed(HandshakeFailure::BrokenReply(
            BadReply::Unexpected { .. }
        )))
    ));
}

#[test]
fn a_client_without_tls_says_that_the_server_requires_it() {
    for code in [OptionCode::StructuredReply, OptionCode::Go] {
        let mut client = ClientHandshake::new(ClientHandshakeConfig {
            framing: match code {
                OptionCode::Go => crate::Framing::Simple,
                _ => crate::Framing::Structured,
            },
            ..ClientHandshakeConfig::new("secret")
        });
        let said = reply(code, OptionReply::ErrTlsRequired, b"");
        let outcome = feed(&mut client, &[greeting(3), said].concat(), 1000);
        let failed = ClientEvent::Failed(HandshakeFailure::TlsRequired);
        assert_eq!(outcome.end, Some(failed));
    }
}

#[test]
fn the_end_of_the_stream_while_tls_begins_is_explained() {
    let mut client = client(Goal::Go);
    feed(&mut client, &greeting(3), 1000);
    client.receive(&agreed());
    assert_eq!(
        client.end_of_stream(),
        HandshakeFailure::Closed(OptionCode::StartTls)
    );
}
