//! The client's handshake against servers that are old, unwilling or wrong.

use proptest::prelude::*;

use super::client_harness::{
    ack, block_sizes, broken, client, feed, feed_replies, finished, greeting, info_export,
};
use super::{option, reply};
use crate::{BadReply, ClientEvent, Goal, HandshakeFailure, OptionCode, OptionReply, limits};

#[test]
fn a_plain_go_requests_all_information() {
    let outcome = feed_replies(&[info_export(1 << 20, 1), ack(), b"data".to_vec()]);
    let mut data = vec![0, 0, 0, 4];
    data.extend(b"disk");
    data.extend([0, 3, 0, 1, 0, 2, 0, 3]);
    let mut expected = vec![0, 0, 0, 3];
    expected.extend(option(OptionCode::Go, &data));
    assert_eq!(outcome.sent, expected);
    assert_eq!(outcome.unused, 4);
    let negotiated = finished(outcome);
    assert_eq!(negotiated.export.size, 1 << 20);
    assert_eq!(negotiated.export.name, "disk");
    assert_eq!(negotiated.export.block_size_min, 1);
    assert_eq!(negotiated.export.block_size_max, limits::PAYLOAD_DEFAULT);
}

#[test]
fn a_server_that_does_not_know_go_gets_export_name() {
    let mut input = greeting(3);
    input.extend(reply(OptionCode::Go, OptionReply::ErrUnsupported, b"?"));
    input.extend((7u64 << 20).to_be_bytes());
    input.extend([0, 1]);
    let outcome = feed(&mut client(Goal::Go, false), &input, 1);
    assert!(
        outcome
            .sent
            .ends_with(&option(OptionCode::ExportName, b"disk"))
    );
    let negotiated = finished(outcome);
    assert_eq!(negotiated.export.size, 7 << 20);
    assert!(!negotiated.block_sizes_agreed);
}

#[test]
fn a_server_from_before_fixed_newstyle_gets_export_name_and_sends_zeroes() {
    let mut input = greeting(0);
    input.extend((7u64 << 20).to_be_bytes());
    input.extend([0, 1]);
    input.extend([0; 124]);
    let outcome = feed(&mut client(Goal::Go, true), &input, 10);
    let mut expected = vec![0, 0, 0, 0];
    expected.extend(option(OptionCode::ExportName, b"disk"));
    assert_eq!(outcome.sent, expected);
    assert_eq!(outcome.unused, 0);
    assert!(!finished(outcome).framing.is_chunked());
    let listing = feed(&mut client(Goal::List, true), &greeting(0), 10);
    let end = ClientEvent::Failed(HandshakeFailure::NotFixedNewstyle);
    assert_eq!(listing.end, Some(end));
}

#[test]
fn a_refusal_of_structured_replies_is_taken_but_not_one_that_wants_tls() {
    for (kind, goes_on) in [
        (OptionReply::ErrUnsupported, true),
        (OptionReply::ErrPolicy, true),
        (OptionReply::ErrInvalid, true),
        (OptionReply::ErrTlsRequired, false),
        (OptionReply::ErrShutdown, false),
    ] {
        let mut input = greeting(3);
        input.extend(reply(OptionCode::StructuredReply, kind, b""));
        let outcome = feed(&mut client(Goal::Go, true), &input, 1000);
        assert_eq!(outcome.end.is_none(), goes_on, "{kind:?}");
        let aborted = outcome.sent.ends_with(&option(OptionCode::Abort, &[]));
        assert_eq!(aborted, !goes_on, "{kind:?}");
    }
}

#[test]
fn the_server_s_words_reach_the_user_without_controls() {
    let outcome = feed_replies(&[reply(
        OptionCode::Go,
        OptionReply::ErrPolicy,
        b"no\x1b[2Jpe \xff",
    )]);
    let Some(ClientEvent::Failed(failure)) = outcome.end else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        failure.to_string(),
        "the server refused Go: not allowed: no\u{fffd}[2Jpe \u{fffd}"
    );
}

#[test]
fn what_is_not_nbd_is_named_so() {
    let failed = |input: &[u8]| feed(&mut client(Goal::Go, true), input, 3).end;
    assert_eq!(
        failed(b"HTTP/1.1 400 Bad Request"),
        Some(ClientEvent::Failed(HandshakeFailure::NotNbd))
    );
    assert_eq!(
        failed(b"NBDMAGIC and something else"),
        Some(ClientEvent::Failed(HandshakeFailure::NotNbd))
    );
}

#[test]
fn the_end_of_the_stream_is_explained_by_the_pending_option() {
    let mut asked = client(Goal::Go, true);
    assert_eq!(
        asked.end_of_stream(),
        HandshakeFailure::ClosedBeforeGreeting
    );
    feed(&mut asked, &greeting(0), 100);
    assert_eq!(
        asked.end_of_stream(),
        HandshakeFailure::ExportNameRefused("disk".to_owned())
    );
    let mut asked = client(Goal::Go, true);
    feed(&mut asked, &greeting(1), 100);
    assert_eq!(
        asked.end_of_stream(),
        HandshakeFailure::Closed(OptionCode::StructuredReply)
    );
}

#[test]
fn replies_to_something_else_are_refused() {
    let other = reply(OptionCode::List, OptionReply::Ack, &[]);
    assert!(matches!(
        broken(feed_replies(&[other])),
        BadReply::OtherOption { .. }
    ));
    let mut magic = ack();
    magic[0] = 9;
    assert!(matches!(broken(feed_replies(&[magic])), BadReply::Magic(_)));
    let server = reply(OptionCode::Go, OptionReply::Server, &[0; 4]);
    assert!(matches!(
        broken(feed_replies(&[server])),
        BadReply::Unexpected { .. }
    ));
    let data = reply(OptionCode::Go, OptionReply::Ack, b"x");
    assert_eq!(broken(feed_replies(&[data])), BadReply::AckWithData);
}

#[test]
fn a_reply_longer_than_any_is_refused_before_it_is_stored() {
    let mut long = reply(OptionCode::Go, OptionReply::Info, &[]);
    let len = long.len();
    long[len - 4..].copy_from_slice(&(limits::OPTION_MAX + 1).to_be_bytes());
    assert_eq!(broken(feed_replies(&[long])), BadReply::TooLong(65537));
}

#[test]
fn success_without_size_and_flags_is_refused() {
    assert_eq!(broken(feed_replies(&[ack()])), BadReply::NoExportInfo);
    let sizes = block_sizes([1, 4096, 1 << 20]);
    assert_eq!(
        broken(feed_replies(&[sizes, ack()])),
        BadReply::NoExportInfo
    );
}

#[test]
fn information_of_the_wrong_length_or_value_is_refused() {
    let short = reply(OptionCode::Go, OptionReply::Info, &[0, 0, 1]);
    assert!(matches!(
        broken(feed_replies(&[short])),
        BadReply::InfoLength { kind: 0, len: 3 }
    ));
    let empty = reply(OptionCode::Go, OptionReply::Info, &[]);
    assert!(matches!(
        broken(feed_replies(&[empty])),
        BadReply::InfoLength { .. }
    ));
    assert_eq!(
        broken(feed_replies(&[info_export(u64::MAX, 1)])),
        BadReply::Size(u64::MAX)
    );
    assert_eq!(
        broken(feed_replies(&[block_sizes([0, 4096, 1 << 20])])),
        BadReply::BlockSizeMin(0)
    );
    assert_eq!(
        broken(feed_replies(&[block_sizes([1 << 17, 1 << 17, 1 << 20])])),
        BadReply::BlockSizeMin(1 << 17)
    );
    assert_eq!(
        broken(feed_replies(&[block_sizes([4096, 4096, 512])])),
        BadReply::BlockSizeMax {
            min: 4096,
            max: 512
        }
    );
}

#[test]
fn a_strange_preferred_block_size_is_only_a_hint_and_mended() {
    let hints = block_sizes([1, 3, 1 << 20]);
    let negotiated = finished(feed_replies(&[hints, info_export(1 << 20, 1), ack()]));
    assert_eq!(negotiated.export.block_size_preferred, 4096);
}

#[test]
fn endless_information_and_endless_lists_end() {
    let unknown = reply(OptionCode::Go, OptionReply::Info, &[9, 9]);
    assert_eq!(broken(feed_replies(&vec![unknown; 600])), BadReply::TooMany);
    let mut input = greeting(3);
    let entry = reply(OptionCode::List, OptionReply::Server, &[0, 0, 0, 1, b'x']);
    for _ in 0..=limits::LISTED_MAX {
        input.extend(&entry);
    }
    let outcome = feed(&mut client(Goal::List, false), &input, 1 << 20);
    assert_eq!(broken(outcome), BadReply::TooMany);
}

#[test]
fn a_listed_name_beyond_its_reply_is_refused() {
    let mut input = greeting(3);
    input.extend(reply(
        OptionCode::List,
        OptionReply::Server,
        &[0xff, 0xff, 0xff, 0xff, b'x'],
    ));
    let outcome = feed(&mut client(Goal::List, false), &input, 100);
    assert_eq!(broken(outcome), BadReply::BadString);
}

fn answers() -> impl Strategy<Value = Vec<u8>> {
    let code = prop::sample::select(vec![7u32, 8]).prop_map(OptionCode::from);
    let kind = prop::sample::select(vec![1, 2, 3, (1 << 31) + 1, (1 << 31) + 6]);
    let data = prop::collection::vec(any::<u8>(), 0..20);
    let noise = (code, kind, data).prop_map(|(c, k, d)| reply(c, OptionReply::from(k), &d));
    let frame = prop_oneof![
        noise,
        Just(info_export(1 << 20, 1)),
        Just(ack()),
        Just(reply(OptionCode::StructuredReply, OptionReply::Ack, &[])),
    ];
    (any::<u16>(), prop::collection::vec(frame, 0..10)).prop_map(|(flags, frames)| {
        let mut input = greeting(flags);
        frames.iter().for_each(|frame| input.extend(frame));
        input
    })
}

proptest! {
    #[test]
    fn any_cutting_of_any_answer_gives_the_same_outcome(input in answers(), piece in 1usize..50) {
        let whole = feed(&mut client(Goal::Go, true), &input, usize::MAX);
        prop_assert_eq!(whole, feed(&mut client(Goal::Go, true), &input, piece));
    }

    #[test]
    fn no_bytes_panic_the_client(input in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut greeted = greeting(3);
        greeted.extend(&input);
        for goal in [Goal::Go, Goal::Info, Goal::List] {
            feed(&mut client(goal, true), &input, 7);
            feed(&mut client(goal, false), &greeted, 7);
        }
    }
}
