//! Queries for the disk's identity and the client's own, on the client's side.

use proptest::prelude::*;

use super::client_harness::{ClientOutcome, feed, finished, greeting, info_export};
use super::pair::Pair;
use super::server_harness::{identity, queries};
use super::{client_harness, option, reply};
use crate::{
    AccessMode, BASE_ALLOCATION, BUSY, BadReply, ClientEvent, ClientHandshake,
    ClientHandshakeConfig, ClientToken, DiskIdentity, FENCED, Framing, Goal, OptionCode,
    OptionReply, ServerHandshakeConfig, TlsMode, WriterAccess, WriterRefusal,
};

const LIST: OptionCode = OptionCode::ListMetaContext;

fn access() -> WriterAccess {
    WriterAccess {
        token: ClientToken::new([0x1f; 16]),
        mode: AccessMode::Write,
    }
}

fn config(framing: Framing, goal: Goal) -> ClientHandshakeConfig {
    ClientHandshakeConfig {
        framing,
        goal,
        contexts: vec![BASE_ALLOCATION.to_owned()],
        identify: true,
        writer: Some(access()),
        ..ClientHandshakeConfig::new("disk")
    }
}

fn feed_replies(config: &ClientHandshakeConfig, replies: &[Vec<u8>]) -> ClientOutcome {
    let input = [greeting(3), replies.concat()].concat();
    feed(&mut ClientHandshake::new(config.clone()), &input, 1000)
}

fn listed(name: &[u8]) -> Vec<u8> {
    reply(LIST, OptionReply::MetaContext, &[&[0; 4], name].concat())
}

fn ack(code: OptionCode) -> Vec<u8> {
    reply(code, OptionReply::Ack, &[])
}

fn export() -> Vec<u8> {
    [info_export(1 << 20, 1), client_harness::ack()].concat()
}

/// The options in what a client sent.
fn options(outcome: &ClientOutcome) -> Vec<OptionCode> {
    let sent = &outcome.sent;
    let is_option = |at: &usize| sent[*at..].starts_with(b"IHAVEOPT");
    let code = |at: usize| u32::from_be_bytes(sent[at + 8..at + 12].try_into().unwrap());
    let found = (0..sent.len()).filter(is_option);
    found.map(|at| OptionCode::from(code(at))).collect()
}

#[test]
fn the_disk_is_requested_behind_the_framing_and_before_the_contexts() {
    use OptionCode::{ExtendedHeaders, Go, SetMetaContext};
    let outcome = feed_replies(
        &config(Framing::Extended, Goal::Go),
        &[
            ack(ExtendedHeaders),
            listed(b"outboard:disk=file:1:2:3"),
            listed(b"outboard:incarnation=0000000000000abc"),
            listed(b"outboard:writers=one"),
            ack(LIST),
            ack(SetMetaContext),
            export(),
        ],
    );
    assert_eq!(
        options(&outcome),
        [ExtendedHeaders, LIST, SetMetaContext, Go]
    );
    let client = "outboard:client=1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f,write";
    let asked = option(LIST, &queries("disk", &["outboard:disk", client]));
    assert!(outcome.sent.windows(asked.len()).any(|sent| sent == asked));
    let agreed = finished(outcome);
    assert_eq!((agreed.disk, agreed.writer), (identity(), Some(access())));
}

#[test]
fn the_disk_is_requested_without_structured_replies_too() {
    let config = config(Framing::Simple, Goal::Go);
    let outcome = feed_replies(
        &config,
        &[listed(b"outboard:writers=fenced"), ack(LIST), export()],
    );
    assert_eq!(options(&outcome), [LIST, OptionCode::Go]);
    assert!(finished(outcome).disk.writers.is_some());
}

#[test]
fn any_error_to_the_query_for_the_disk_leaves_it_unknown_and_the_handshake_continues() {
    for kind in 1..12 {
        let refusal = OptionReply::from((1 << 31) + kind);
        let outcome = feed_replies(
            &config(Framing::Extended, Goal::Go),
            &[
                ack(OptionCode::ExtendedHeaders),
                // What came before an error does not count.
                listed(b"outboard:disk=file:1:2:3"),
                reply(LIST, refusal, b"no"),
                ack(OptionCode::SetMetaContext),
                export(),
            ],
        );
        assert_eq!(finished(outcome).disk, DiskIdentity::default());
    }
}

#[test]
fn what_cannot_be_understood_is_left_out() {
    let names: [&[u8]; 8] = [
        b"",
        b"base:allocation",
        b"outboard:disk=two words",
        b"outboard:disk=\xff",
        b"outboard:incarnation=abc",
        b"outboard:writers=none",
        b"outboard:later=1",
        b"no colon",
    ];
    let mut replies: Vec<Vec<u8>> = names.iter().map(|name| listed(name)).collect();
    replies.push(reply(LIST, OptionReply::MetaContext, b"\0\0"));
    replies.extend([listed(b"outboard:writers=many"), ack(LIST), export()]);
    let agreed = finished(feed_replies(&config(Framing::Simple, Goal::Go), &replies));
    assert_eq!(agreed.disk.names(), ["outboard:writers=many"]);
    assert!(agreed.contexts.is_empty());
}

#[test]
fn a_server_that_never_ends_its_answer_is_left() {
    let endless = vec![listed(b"outboard:disk=x"); 600].concat();
    let outcome = feed_replies(&config(Framing::Simple, Goal::Go), &[endless]);
    assert_eq!(client_harness::broken(outcome), BadReply::TooMany);
}

#[test]
fn a_description_names_the_disk_and_not_the_client() {
    let config = ClientHandshakeConfig {
        contexts: Vec::new(),
        ..config(Framing::Structured, Goal::Info)
    };
    let info = |kind, data: &[u8]| reply(OptionCode::Info, kind, data);
    let outcome = feed_replies(
        &config,
        &[
            ack(OptionCode::StructuredReply),
            listed(b"outboard:disk=x"),
            ack(LIST),
            listed(b"base:allocation"),
            ack(LIST),
            info(OptionReply::Info, &[0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1]),
            info(OptionReply::Ack, &[]),
        ],
    );
    let asked = option(LIST, &queries("disk", &["outboard:disk"]));
    assert!(outcome.sent.windows(asked.len()).any(|sent| sent == asked));
    let Some(ClientEvent::Described(described)) = outcome.end else {
        panic!("{outcome:?}");
    };
    assert_eq!(described.disk.names(), ["outboard:disk=x"]);
    assert_eq!(described.contexts[0].name, BASE_ALLOCATION);
    assert_eq!(described.writer, None);
}

#[test]
fn a_refusal_for_another_writer_is_distinguished_from_other_refusals() {
    let cases = [
        (
            OptionReply::ErrPolicy,
            format!("{BUSY} by 10.0.0.1"),
            Some(WriterRefusal::Busy),
        ),
        (
            OptionReply::ErrPolicy,
            format!("{FENCED} 10.0.0.1 took over"),
            Some(WriterRefusal::Fenced),
        ),
        (OptionReply::ErrPolicy, "not you".to_owned(), None),
        (OptionReply::ErrInvalid, BUSY.to_owned(), None),
    ];
    for (kind, text, expected) in cases {
        let refusal = reply(OptionCode::Go, kind, text.as_bytes());
        let outcome = feed_replies(&config(Framing::Simple, Goal::Go), &[ack(LIST), refusal]);
        let Some(ClientEvent::Failed(failure)) = outcome.end else {
            panic!("{outcome:?}");
        };
        assert_eq!(failure.writer_refusal(), expected);
    }
}

proptest! {
    #[test]
    fn both_sides_agree_on_the_disk_and_the_client_however_the_stream_is_cut(
        piece in 1usize..60,
        framing in prop::sample::select(vec![Framing::Simple, Framing::Structured, Framing::Extended]),
        offered in prop::sample::select(vec![Framing::Simple, Framing::Structured, Framing::Extended]),
        tls: bool,
    ) {
        let server = ServerHandshakeConfig {
            framing: offered,
            tls: TlsMode::Optional,
            ..ServerHandshakeConfig::default()
        };
        let mut pair = Pair::new(server, ClientHandshakeConfig { tls, ..config(framing, Goal::Go) });
        pair.piece = piece;
        pair.run();
        let [ClientEvent::Finished(used)] = &pair.client_events[..] else {
            panic!("{:?}", pair.client_events);
        };
        prop_assert_eq!(&used.disk, &identity());
        prop_assert_eq!(used.framing, framing.min(offered));
        prop_assert_eq!(pair.writers, [Some(access())]);
    }
}
