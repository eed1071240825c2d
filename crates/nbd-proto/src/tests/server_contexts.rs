//! Framings and metadata contexts on the server's side.

use proptest::prelude::*;

use super::server_harness::{
    OFFERED, ServerOutcome, go, good_go, kinds, queries, serve_as, session,
};
use super::{option, replies};
use crate::{
    BASE_ALLOCATION, CloseReason, ContextOffer, Framing, HandshakeEvent, MetaContext, OptionCode,
    OptionReply, ServerHandshake, ServerHandshakeConfig, TransmissionFlags, limits,
};

const LIST: OptionCode = OptionCode::ListMetaContext;
const SET: OptionCode = OptionCode::SetMetaContext;

fn negotiate_options(parts: &[Vec<u8>]) -> ServerOutcome {
    let config = ServerHandshakeConfig {
        framing: Framing::Extended,
        ..ServerHandshakeConfig::default()
    };
    serve_as(&config, &session(parts), 1000)
}

fn structured() -> Vec<u8> {
    option(OptionCode::StructuredReply, &[])
}

fn extended() -> Vec<u8> {
    option(OptionCode::ExtendedHeaders, &[])
}

fn answers(outcome: &ServerOutcome) -> Vec<OptionReply> {
    kinds(&outcome.sent).iter().map(|kind| kind.1).collect()
}

/// Ids and names in the replies to one option.
fn reported_names(outcome: &ServerOutcome, code: OptionCode) -> Vec<(u32, String)> {
    let replies = replies(&outcome.sent).into_iter();
    replies
        .filter(|(option, kind, _)| (*option, *kind) == (code, OptionReply::MetaContext))
        .map(|(_, _, data)| {
            let id = u32::from_be_bytes(data[..4].try_into().unwrap());
            (id, String::from_utf8(data[4..].to_vec()).unwrap())
        })
        .collect()
}

#[test]
fn framings_are_agreed_on_in_any_order_but_never_downwards() {
    use OptionReply::{Ack, ErrExtendedHeadersRequired, ErrInvalid};
    type Case<'a> = (&'a [Vec<u8>], &'a [OptionReply], Framing);
    let cases: [Case<'_>; 6] = [
        (&[], &[], Framing::Simple),
        (&[structured()], &[Ack], Framing::Structured),
        (&[extended()], &[Ack], Framing::Extended),
        (&[structured(), extended()], &[Ack, Ack], Framing::Extended),
        (
            &[extended(), structured()],
            &[Ack, ErrExtendedHeadersRequired],
            Framing::Extended,
        ),
        (
            &[
                extended(),
                extended(),
                option(OptionCode::ExtendedHeaders, b"x"),
            ],
            &[Ack, ErrInvalid, ErrInvalid],
            Framing::Extended,
        ),
    ];
    for (parts, expected, framing) in cases {
        let outcome = negotiate_options(&[parts, &[good_go("disk")]].concat());
        assert_eq!(answers(&outcome)[..expected.len()], *expected);
        assert_eq!(outcome.finished.unwrap().framing, framing);
    }
}

#[test]
fn a_framing_that_is_not_on_offer_is_unsupported() {
    for (offer, expected) in [
        (Framing::Simple, [OptionReply::ErrUnsupported; 4]),
        (
            Framing::Structured,
            [
                OptionReply::ErrUnsupported,
                OptionReply::Ack,
                OptionReply::Ack,
                OptionReply::Ack,
            ],
        ),
    ] {
        let config = ServerHandshakeConfig {
            framing: offer,
            ..ServerHandshakeConfig::default()
        };
        let input = session(&[
            extended(),
            structured(),
            option(SET, &queries("disk", &[])),
            option(LIST, &queries("disk", &["x-none:"])),
        ]);
        assert_eq!(answers(&serve_as(&config, &input, 7)), expected);
    }
}

#[test]
fn export_name_is_forbidden_under_extended_headers() {
    let outcome = negotiate_options(&[extended(), option(OptionCode::ExportName, b"disk")]);
    let closed = Some(CloseReason::ExportNameUnderExtendedHeaders);
    assert_eq!(outcome.closed, closed);
    assert!(outcome.asked.is_empty());
}

#[test]
fn contexts_need_replies_in_chunks_first() {
    for code in [SET, LIST] {
        let ask = || option(code, &queries("disk", &[BASE_ALLOCATION]));
        let outcome = negotiate_options(&[ask(), structured(), ask(), good_go("disk")]);
        assert_eq!(
            answers(&outcome)[..3],
            [
                OptionReply::ErrInvalid,
                OptionReply::Ack,
                OptionReply::MetaContext
            ]
        );
    }
}

#[test]
fn list_takes_wildcards_and_set_does_not() {
    let cases: [(OptionCode, &[&str], &[&str]); 10] = [
        (LIST, &[], &OFFERED),
        (SET, &[], &[]),
        (LIST, &["base:"], &OFFERED[..1]),
        (SET, &["base:"], &[]),
        (LIST, &["x-box:", "base:allocation"], &OFFERED),
        (LIST, &["x-box:member:"], &[]),
        (SET, &["x-box:", "base:allocation"], &OFFERED[..1]),
        (LIST, &["x-box:lay", "qemu:", "base:x"], &[]),
        (SET, &["x-box:member:0", "x-box:member:0"], &OFFERED[2..]),
        (
            SET,
            &["x-box:member:0", "base:allocation"],
            &[OFFERED[0], OFFERED[2]],
        ),
    ];
    for (code, asked, expected) in cases {
        let outcome = negotiate_options(&[structured(), option(code, &queries("disk", asked))]);
        let names: Vec<_> = reported_names(&outcome, code)
            .into_iter()
            .map(|t| t.1)
            .collect();
        assert_eq!(names, expected, "{code:?} {asked:?}");
        assert_eq!(answers(&outcome).last(), Some(&OptionReply::Ack));
    }
}

#[test]
fn chosen_contexts_have_ids_of_their_own_and_listed_ones_have_none() {
    let ask = queries("disk", &OFFERED);
    let outcome = negotiate_options(&[
        structured(),
        option(LIST, &ask),
        option(SET, &ask),
        good_go("disk"),
    ]);
    assert!(
        reported_names(&outcome, LIST)
            .iter()
            .all(|(id, _)| *id == 0)
    );
    let chosen: Vec<_> = reported_names(&outcome, SET)
        .into_iter()
        .map(|(id, name)| MetaContext { id, name })
        .collect();
    assert_eq!(chosen.len(), 3);
    assert!((0..3).all(|a| (0..a).all(|b| chosen[a].id != chosen[b].id)));
    assert_eq!(outcome.finished.unwrap().contexts, chosen);
}

#[test]
fn contexts_are_of_the_export_they_were_chosen_for_and_the_last_choice_counts() {
    let set = |name: &str, asked: &[&str]| option(SET, &queries(name, asked));
    let allocation = [BASE_ALLOCATION];
    let cases: [(&[Vec<u8>], usize); 8] = [
        (&[set("disk", &allocation)], 1),
        (&[set("", &allocation)], 0),
        (&[set("disk", &allocation), set("disk", &[])], 0),
        (&[set("disk", &allocation), set("nope", &allocation)], 0),
        (&[set("disk", &allocation), option(SET, b"junk")], 0),
        (&[set("disk", &allocation), option(LIST, b"junk")], 1),
        (&[set("disk", &allocation), good_go("nope")], 1),
        (&[set("disk", &allocation), extended()], 1),
    ];
    for (parts, expected) in cases {
        let outcome = negotiate_options(&[&[structured()], parts, &[good_go("disk")]].concat());
        let count = outcome.finished.unwrap().contexts.len();
        assert_eq!(count, expected, "{parts:?}");
    }
}

#[test]
fn contexts_of_exports_a_client_does_not_get_are_refused_identically() {
    for (name, reply) in [
        ("nope", OptionReply::ErrUnknown),
        ("locked", OptionReply::ErrUnknown),
        ("private", OptionReply::ErrPolicy),
    ] {
        for code in [LIST, SET] {
            let ask = option(code, &queries(name, &[BASE_ALLOCATION]));
            let outcome = negotiate_options(&[structured(), ask, good_go("disk")]);
            assert_eq!(kinds(&outcome.sent)[1], (code, reply));
            assert!(outcome.finished.is_some());
        }
    }
}

#[test]
fn queries_that_do_not_add_up_are_refused_and_stay_in_step() {
    use OptionReply::{ErrInvalid, ErrTooBig};
    let good = queries("disk", &[BASE_ALLOCATION]);
    let with = |at: usize, number: u32| {
        let mut data = good.clone();
        data[at..at + 4].copy_from_slice(&number.to_be_bytes());
        data
    };
    let mut too_many = with(8, limits::CONTEXT_QUERIES_MAX + 1);
    too_many.resize(too_many.len() + 4096, 0);
    let long_name = "n".repeat(limits::STRING_MAX + 1);
    let long_query = format!("x:{}", "q".repeat(limits::STRING_MAX));
    let cases = [
        (vec![], ErrInvalid),
        (good[..10].to_vec(), ErrInvalid),
        (good[..good.len() - 1].to_vec(), ErrInvalid),
        ([&good[..], b"x"].concat(), ErrInvalid),
        (with(0, u32::MAX), ErrInvalid),
        (with(0, u32::MAX - 3), ErrInvalid),
        (with(8, 0), ErrInvalid),
        (with(8, 2), ErrInvalid),
        (with(8, limits::CONTEXT_QUERIES_MAX), ErrInvalid),
        (too_many, ErrTooBig),
        // There is no room for them: this was "too big", as if the client had sent them.
        (with(8, limits::CONTEXT_QUERIES_MAX + 1), ErrInvalid),
        (with(8, u32::MAX), ErrInvalid),
        (with(12, u32::MAX), ErrInvalid),
        (with(12, u32::MAX - 16), ErrInvalid),
        (queries(&long_name, &[]), ErrTooBig),
        (queries("disk", &[&long_query]), ErrTooBig),
        (queries("disk", &[""]), ErrInvalid),
        (queries("disk", &["allocation"]), ErrInvalid),
        (queries("disk", &[":allocation"]), ErrInvalid),
        (queries("disk", &["ba se:allocation"]), ErrInvalid),
        (queries("disk", &["base:\0"]), ErrInvalid),
        (queries("di\0k", &[]), ErrInvalid),
    ];
    for (data, reply) in cases {
        for code in [LIST, SET] {
            let outcome = negotiate_options(&[structured(), option(code, &data), good_go("disk")]);
            assert_eq!(kinds(&outcome.sent)[1], (code, reply), "{data:?}");
            assert!(outcome.finished.is_some());
        }
    }
}

#[test]
fn as_many_queries_as_are_allowed_are_answered() {
    let many = vec!["x:"; 1024];
    let outcome = negotiate_options(&[structured(), option(LIST, &queries("disk", &many))]);
    assert_eq!(answers(&outcome), [OptionReply::Ack; 2]);
}

#[test]
fn no_export_has_more_contexts_than_the_protocol_s_limit() {
    let names: Vec<String> = (0..100).map(|n| format!("x-n:{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut server = ServerHandshake::new(ServerHandshakeConfig::default());
    let input = session(&[structured(), option(SET, &queries("disk", &names))]);
    let mut at = 0;
    let mut sent = Vec::new();
    while at < input.len() {
        at += server.receive(&input[at..]);
        while let Some(event) = server.next_event() {
            match event {
                HandshakeEvent::Send(bytes) => sent.extend(bytes),
                HandshakeEvent::FindContexts { .. } => server.answer_contexts(Ok(ContextOffer {
                    contexts: &names,
                    ..ContextOffer::default()
                })),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(replies(&sent).len(), 1 + limits::CONTEXTS_MAX + 1);
}

#[test]
fn flags_that_mean_nothing_in_a_framing_are_not_sent() {
    let said = TransmissionFlags::SEND_DF
        | TransmissionFlags::BLOCK_STATUS_PAYLOAD
        | TransmissionFlags::SEND_FAST_ZERO;
    for (framing, expected) in [
        (Framing::Simple, TransmissionFlags::empty()),
        (Framing::Structured, TransmissionFlags::SEND_DF),
        (
            Framing::Extended,
            TransmissionFlags::SEND_DF | TransmissionFlags::BLOCK_STATUS_PAYLOAD,
        ),
    ] {
        assert_eq!(crate::handshake::meaningful(said, framing), expected);
        let zeroes = said | TransmissionFlags::SEND_WRITE_ZEROES;
        let kept = crate::handshake::meaningful(zeroes, framing);
        assert!(kept.contains(TransmissionFlags::SEND_FAST_ZERO));
    }
}

/// Flags in the last description of an export.
fn reported_flags(outcome: &ServerOutcome) -> TransmissionFlags {
    let replies = replies(&outcome.sent).into_iter().rev();
    let mut descriptions = replies.filter(|(_, kind, data)| {
        // The information on size and flags is that of number 0.
        *kind == OptionReply::Info && data[..2] == [0, 0]
    });
    let data = descriptions.next().unwrap().2;
    TransmissionFlags::from_bits_retain(u16::from_be_bytes(data[10..12].try_into().unwrap()))
}

/// A client that selected no contexts has none to filter (proto.md, `NBD_FLAG_BLOCK_STAT_PAYLOAD`).
#[test]
fn a_filter_of_contexts_is_offered_to_clients_that_selected_some_or_still_may() {
    const FILTER: TransmissionFlags = TransmissionFlags::BLOCK_STATUS_PAYLOAD;
    let choose = |name| option(SET, &queries(name, &[BASE_ALLOCATION]));
    let none = option(SET, &queries("disk", &["x-box:none"]));
    let info = option(OptionCode::Info, &go(b"disk", 4, &[]));
    for (parts, expected) in [
        (vec![extended(), good_go("disk")], false),
        (vec![extended(), none, good_go("disk")], false),
        (vec![extended(), choose(""), good_go("disk")], false),
        (vec![structured(), choose("disk"), good_go("disk")], false),
        (vec![extended(), choose("disk"), good_go("disk")], true),
    ] {
        let outcome = negotiate_options(&parts);
        assert_eq!(reported_flags(&outcome).contains(FILTER), expected);
        let agreed = outcome.finished.unwrap().export.flags;
        assert_eq!(agreed.contains(FILTER), expected);
    }
    let asked = negotiate_options(&[extended(), info]);
    assert!(reported_flags(&asked).contains(FILTER));
}

proptest! {
    #[test]
    fn no_data_of_context_options_panics_or_loses_step(
        data in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(b':'), any::<u8>()], 0..80),
    ) {
        for code in [LIST, SET] {
            let outcome = negotiate_options(&[structured(), option(code, &data), good_go("disk")]);
            prop_assert!(outcome.finished.is_some());
        }
    }

    #[test]
    fn set_selects_exactly_the_requested_names(picks in prop::collection::vec(0usize..5, 0..8)) {
        let known = [OFFERED[0], OFFERED[1], OFFERED[2], "base:", "x-box:none"];
        let asked: Vec<&str> = picks.iter().map(|pick| known[*pick]).collect();
        let outcome = negotiate_options(&[
            extended(),
            option(SET, &queries("disk", &asked)),
            good_go("disk"),
        ]);
        let expected: Vec<&str> = OFFERED.into_iter().filter(|name| asked.contains(name)).collect();
        let contexts = outcome.finished.unwrap().contexts;
        let names: Vec<&str> = contexts.iter().map(|context| context.name.as_str()).collect();
        prop_assert_eq!(names, expected);
    }
}
