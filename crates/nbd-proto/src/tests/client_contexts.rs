//! Framings and metadata contexts on the client's side.

use proptest::prelude::*;

use super::client_harness::{ClientOutcome, broken, feed, finished, greeting, info_export};
use super::server_harness::queries;
use super::{client_harness, option, reply};
use crate::{
    BASE_ALLOCATION, BadReply, ClientEvent, ClientHandshake, ClientHandshakeConfig, Framing, Goal,
    HandshakeFailure, MetaContext, OptionCode, OptionReply, TransmissionFlags, limits,
};

const SET: OptionCode = OptionCode::SetMetaContext;

fn config(framing: Framing, contexts: &[&str]) -> ClientHandshakeConfig {
    ClientHandshakeConfig {
        framing,
        contexts: contexts.iter().map(|name| (*name).to_owned()).collect(),
        ..ClientHandshakeConfig::new("disk")
    }
}

/// A client of this kind receives a greeting and `replies`.
fn feed_replies(config: &ClientHandshakeConfig, replies: &[Vec<u8>]) -> ClientOutcome {
    let input = [greeting(3), replies.concat()].concat();
    feed(&mut ClientHandshake::new(config.clone()), &input, 1000)
}

fn ack(code: OptionCode) -> Vec<u8> {
    reply(code, OptionReply::Ack, &[])
}

fn context(id: u32, name: &str) -> Vec<u8> {
    let data = [&id.to_be_bytes()[..], name.as_bytes()].concat();
    reply(SET, OptionReply::MetaContext, &data)
}

fn export() -> Vec<u8> {
    [info_export(1 << 20, 1), client_harness::ack()].concat()
}

#[test]
fn extended_headers_are_requested_first_and_structured_replies_as_the_fallback() {
    let (extended, structured) = (OptionCode::ExtendedHeaders, OptionCode::StructuredReply);
    let no = |code| reply(code, OptionReply::ErrUnsupported, b"");
    let cases: [(Framing, Vec<Vec<u8>>, Framing); 6] = [
        (Framing::Simple, vec![], Framing::Simple),
        (
            Framing::Structured,
            vec![ack(structured)],
            Framing::Structured,
        ),
        (Framing::Structured, vec![no(structured)], Framing::Simple),
        (Framing::Extended, vec![ack(extended)], Framing::Extended),
        (
            Framing::Extended,
            vec![no(extended), ack(structured)],
            Framing::Structured,
        ),
        (
            Framing::Extended,
            vec![no(extended), no(structured)],
            Framing::Simple,
        ),
    ];
    for (wanted, mut replies, expected) in cases {
        replies.push(export());
        let outcome = feed_replies(&config(wanted, &[]), &replies);
        assert_eq!(finished(outcome).framing, expected);
    }
}

#[test]
fn contexts_are_chosen_for_the_export_and_kept_by_their_ids() {
    let config = config(Framing::Extended, &[BASE_ALLOCATION, "x-box:layer"]);
    let outcome = feed_replies(
        &config,
        &[
            ack(OptionCode::ExtendedHeaders),
            context(77, "x-box:layer"),
            context(0, BASE_ALLOCATION),
            ack(SET),
            export(),
        ],
    );
    let asked = option(SET, &queries("disk", &[BASE_ALLOCATION, "x-box:layer"]));
    assert!(outcome.sent.windows(asked.len()).any(|sent| sent == asked));
    let expected = [(77, "x-box:layer"), (0, BASE_ALLOCATION)].map(|(id, name)| MetaContext {
        id,
        name: name.to_owned(),
    });
    assert_eq!(finished(outcome).contexts, expected);
}

#[test]
fn no_contexts_are_requested_in_simple_framing() {
    let config = config(Framing::Simple, &[BASE_ALLOCATION]);
    let outcome = feed_replies(&config, &[export()]);
    assert!(finished(outcome).contexts.is_empty());
}

#[test]
fn a_server_without_contexts_is_used_without_but_an_unknown_export_is_not() {
    let config = config(Framing::Structured, &[BASE_ALLOCATION]);
    for (kind, goes_on) in [
        (OptionReply::ErrUnsupported, true),
        (OptionReply::ErrInvalid, true),
        (OptionReply::ErrTooBig, true),
        (OptionReply::ErrUnknown, false),
        (OptionReply::ErrTlsRequired, false),
        (OptionReply::ErrShutdown, false),
    ] {
        // Contexts before an error do not count.
        let outcome = feed_replies(
            &config,
            &[
                ack(OptionCode::StructuredReply),
                context(1, BASE_ALLOCATION),
                reply(SET, kind, b""),
                export(),
            ],
        );
        match goes_on {
            true => assert!(finished(outcome).contexts.is_empty(), "{kind:?}"),
            false => assert!(matches!(outcome.end, Some(ClientEvent::Failed(_)))),
        }
    }
}

#[test]
fn contexts_that_were_not_requested_or_come_twice_are_refused() {
    let config = config(Framing::Structured, &[BASE_ALLOCATION, "x-box:layer"]);
    let cases: [&[(u32, &str)]; 4] = [
        &[(1, "x-box:member")],
        &[(1, BASE_ALLOCATION), (1, "x-box:layer")],
        &[(1, BASE_ALLOCATION), (2, BASE_ALLOCATION)],
        &[(1, "x-box:")],
    ];
    for contexts in cases {
        let mut replies = vec![ack(OptionCode::StructuredReply)];
        replies.extend(contexts.iter().map(|(id, name)| context(*id, name)));
        assert!(matches!(
            broken(feed_replies(&config, &replies)),
            BadReply::Context { .. }
        ));
    }
    for data in [
        &b""[..],
        b"\0\0\0",
        b"\0\0\0\x01",
        b"\0\0\0\x01base",
        b"\0\0\0\x01x:\xff",
    ] {
        let bad = reply(SET, OptionReply::MetaContext, data);
        let replies = [ack(OptionCode::StructuredReply), bad];
        assert_eq!(broken(feed_replies(&config, &replies)), BadReply::BadString);
    }
}

#[test]
fn a_description_lists_the_contexts_that_there_are() {
    let list = OptionCode::ListMetaContext;
    let config = ClientHandshakeConfig {
        goal: Goal::Info,
        ..config(Framing::Structured, &[])
    };
    let context = |name: &[u8]| {
        let data = [&[0; 4], name].concat();
        reply(list, OptionReply::MetaContext, &data)
    };
    let info = |kind, data: &[u8]| reply(OptionCode::Info, kind, data);
    let ended = [
        info(OptionReply::Info, &[0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1]),
        info(OptionReply::Ack, &[]),
    ]
    .concat();
    let structured = ack(OptionCode::StructuredReply);
    let outcome = feed_replies(
        &config,
        &[
            structured.clone(),
            context(b"base:allocation"),
            context(b"qemu:"),
            ack(list),
            ended.clone(),
        ],
    );
    let asked = option(list, &queries("disk", &[]));
    assert!(outcome.sent.windows(asked.len()).any(|sent| sent == asked));
    let Some(ClientEvent::Described(described)) = outcome.end else {
        panic!("{outcome:?}");
    };
    let names: Vec<_> = described.contexts.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, [BASE_ALLOCATION, "qemu:"]);

    let refused = reply(list, OptionReply::ErrUnsupported, b"");
    let outcome = feed_replies(&config, &[structured.clone(), refused, ended]);
    assert!(matches!(outcome.end, Some(ClientEvent::Described(d)) if d.contexts.is_empty()));

    let endless = vec![context(b"x:y"); 600].concat();
    let outcome = feed_replies(&config, &[structured, endless]);
    assert_eq!(broken(outcome), BadReply::TooMany);
}

#[test]
fn flags_that_mean_nothing_in_the_framing_are_not_believed() {
    let all = TransmissionFlags::all();
    let export = || [info_export(1 << 20, all.bits()), client_harness::ack()].concat();
    let (df, payload) = (
        TransmissionFlags::SEND_DF,
        TransmissionFlags::BLOCK_STATUS_PAYLOAD,
    );
    for (replies, missing) in [
        (vec![export()], df | payload),
        (vec![ack(OptionCode::StructuredReply), export()], payload),
        (
            vec![ack(OptionCode::ExtendedHeaders), export()],
            TransmissionFlags::empty(),
        ),
    ] {
        let framing = match replies.len() {
            1 => Framing::Simple,
            _ if missing.is_empty() => Framing::Extended,
            _ => Framing::Structured,
        };
        let negotiated = finished(feed_replies(&config(framing, &[]), &replies));
        assert_eq!(negotiated.export.flags, all - missing);
    }
}

#[test]
fn export_name_is_never_used_under_extended_headers() {
    let outcome = feed_replies(
        &config(Framing::Extended, &[]),
        &[
            ack(OptionCode::ExtendedHeaders),
            reply(OptionCode::Go, OptionReply::ErrUnsupported, b""),
        ],
    );
    assert!(matches!(
        outcome.end,
        Some(ClientEvent::Failed(HandshakeFailure::Refused { .. }))
    ));
}

#[test]
fn a_context_is_kept_where_the_export_is_chosen_by_export_name() {
    let outcome = feed_replies(
        &config(Framing::Structured, &[BASE_ALLOCATION]),
        &[
            ack(OptionCode::StructuredReply),
            context(5, BASE_ALLOCATION),
            ack(SET),
            reply(OptionCode::Go, OptionReply::ErrUnsupported, b""),
            [&(1u64 << 20).to_be_bytes()[..], &[0, 1]].concat(),
        ],
    );
    assert_eq!(finished(outcome).contexts[0].id, 5);
}

fn answers() -> impl Strategy<Value = Vec<u8>> {
    let code = prop::sample::select(vec![5u32, 7, 8, 9, 10, 11]).prop_map(OptionCode::from);
    let kind = prop::sample::select(vec![1, 2, 3, 4, (1 << 31) + 1, (1 << 31) + 6]);
    let data = prop::collection::vec(any::<u8>(), 0..20);
    let noise = (code.clone(), kind, data).prop_map(|(c, k, d)| reply(c, OptionReply::from(k), &d));
    let frame = prop_oneof![
        noise,
        code.prop_map(ack),
        Just(export()),
        (0u32..3).prop_map(|id| context(id, BASE_ALLOCATION)),
    ];
    prop::collection::vec(frame, 0..10).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn any_cutting_of_any_answer_gives_the_same_outcome(
        input in answers(),
        piece in 1usize..50,
        goal in prop::sample::select(vec![Goal::Go, Goal::Info, Goal::List]),
        tls: bool,
    ) {
        let config = ClientHandshakeConfig {
            goal,
            ..config(Framing::Extended, &[BASE_ALLOCATION])
        };
        let input = [greeting(3), input].concat();
        let (whole, cut) = (ClientHandshake::new(config.clone()), ClientHandshake::new(config));
        let (mut whole, mut cut) = (whole, cut);
        prop_assert_eq!(feed(&mut whole, &input, usize::MAX), feed(&mut cut, &input, piece));
        let config = ClientHandshakeConfig { tls, goal, ..ClientHandshakeConfig::new("disk") };
        feed(&mut ClientHandshake::new(config), &input, piece);
    }
}

#[test]
#[should_panic(expected = "contexts are few")]
fn more_contexts_than_there_can_be_are_a_mistake_of_the_caller() {
    let name = BASE_ALLOCATION.to_owned();
    let client = ClientHandshake::new(ClientHandshakeConfig {
        contexts: vec![name; limits::CONTEXTS_MAX + 1],
        ..ClientHandshakeConfig::new("disk")
    });
    drop(client);
}
