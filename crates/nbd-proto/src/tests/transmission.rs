//! The reply decoder against servers that are right, and against those that are wrong.

use proptest::prelude::*;

use super::receive::{DONE, DecodedItem, MORE, decode, read, write};
use crate::{
    BrokenReply, ChunkFlags, ChunkKind, CommandFlags, Expected, Framing, ReplyDecoder, ReplyEvent,
    WireError, chunk_header, error_chunk, offset_data_header, offset_hole_chunk, simple_reply,
};

/// Decodes replies to one request under structured replies.
fn answered(
    expected: Expected,
    parts: &dyn Fn(u64) -> Vec<Vec<u8>>,
) -> Result<Vec<DecodedItem>, BrokenReply> {
    let mut decoder = ReplyDecoder::new(Framing::Structured, 4);
    let cookie = decoder.begin(expected, "it").unwrap();
    decode(&mut decoder, &parts(cookie).concat(), 1000)
}

fn data(cookie: u64, flags: ChunkFlags, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap();
    let mut chunk = offset_data_header(cookie, flags, offset, len).to_vec();
    chunk.extend_from_slice(bytes);
    chunk
}

fn done(error: Option<WireError>) -> impl Fn(&DecodedItem) -> bool {
    move |seen| matches!(seen, DecodedItem::Event(ReplyEvent::Done { token: "it", error: e, .. }) if *e == error)
}

#[test]
fn simple_replies_come_in_any_order_and_reads_announce_their_payload() {
    let mut decoder = ReplyDecoder::new(Framing::Simple, 4);
    let first = decoder.begin(read(4096, 4), "first").unwrap();
    let second = decoder.begin(write(0, 512), "second").unwrap();
    let mut stream = simple_reply(second, Some(WireError::NoSpace)).to_vec();
    stream.extend(simple_reply(first, None));
    stream.extend(b"data");
    let seen = decode(&mut decoder, &stream, 5).unwrap();
    let expected = [
        DecodedItem::Event(ReplyEvent::Done {
            cookie: second,
            token: "second",
            error: Some(WireError::NoSpace),
        }),
        DecodedItem::Event(ReplyEvent::Data {
            cookie: first,
            offset: 4096,
            len: 4,
        }),
        DecodedItem::Payload(b"data".to_vec()),
        DecodedItem::Event(ReplyEvent::Done {
            cookie: first,
            token: "first",
            error: None,
        }),
    ];
    assert_eq!(seen, expected);
    assert_eq!(decoder.in_flight(), 0);
}

#[test]
fn pieces_in_any_order_make_one_read() {
    let seen = answered(read(100, 10), &|cookie| {
        vec![
            data(cookie, MORE, 106, b"ghij"),
            offset_hole_chunk(cookie, MORE, 100, 2).to_vec(),
            data(cookie, MORE, 102, b"cdef"),
            chunk_header(cookie, DONE, ChunkKind::None, 0).to_vec(),
        ]
    })
    .unwrap();
    assert!(done(None)(seen.last().unwrap()));
    assert!(matches!(
        seen[2],
        DecodedItem::Event(ReplyEvent::Hole {
            offset: 100,
            len: 2,
            ..
        })
    ));
}

#[test]
fn an_error_chunk_carries_text_and_place_and_excuses_missing_bytes() {
    let seen = answered(read(0, 4096), &|cookie| {
        vec![
            error_chunk(cookie, MORE, WireError::Io, "bad sector", Some(512)),
            error_chunk(cookie, DONE, WireError::NoMemory, "", None),
        ]
    })
    .unwrap();
    assert!(matches!(
        &seen[0],
        DecodedItem::Event(ReplyEvent::Error { error: WireError::Io, text, offset: Some(512), .. }) if text == "bad sector"
    ));
    assert!(done(Some(WireError::Io))(&seen[2]));
}

#[test]
fn an_error_kind_we_do_not_know_still_fails_the_request() {
    let seen = answered(write(0, 512), &|cookie| {
        let mut chunk = chunk_header(cookie, DONE, ChunkKind::Unknown(0x8077), 12).to_vec();
        chunk.extend([0, 0, 0, 5, 0, 2, b'n', b'o', 1, 2, 3, 4]);
        vec![chunk]
    })
    .unwrap();
    assert!(done(Some(WireError::Io))(&seen[1]));
}

/// What a server sends for `expected` breaks the protocol in this way.
fn breaks(expected: Expected, why: BrokenReply, parts: &dyn Fn(u64) -> Vec<Vec<u8>>) {
    assert_eq!(answered(expected, parts), Err(why));
}

#[test]
fn data_outside_its_request_is_refused() {
    let outside = |offset: u64, bytes: &'static [u8]| {
        breaks(read(100, 10), BrokenReply::Outside { cookie: 0 }, &|c| {
            vec![data(c, DONE, offset, bytes)]
        });
    };
    outside(99, b"ab");
    outside(109, b"ab");
    outside(u64::MAX, b"ab");
    breaks(read(100, 10), BrokenReply::Outside { cookie: 0 }, &|c| {
        vec![offset_hole_chunk(c, DONE, 100, u32::MAX).to_vec()]
    });
    breaks(read(100, 10), BrokenReply::Outside { cookie: 0 }, &|c| {
        vec![error_chunk(c, DONE, WireError::Io, "", Some(110))]
    });
    breaks(read(100, 10), BrokenReply::Outside { cookie: 0 }, &|c| {
        vec![offset_hole_chunk(c, DONE, 100, 0).to_vec()]
    });
}

#[test]
fn bytes_that_come_twice_or_never_are_refused() {
    breaks(read(0, 8), BrokenReply::Overlap, &|c| {
        vec![data(c, MORE, 0, b"abcd"), data(c, MORE, 3, b"efgh")]
    });
    breaks(read(0, 8), BrokenReply::Overlap, &|c| {
        vec![data(c, MORE, 0, b"abcdefgh"), data(c, MORE, 0, b"a")]
    });
    breaks(read(0, 8), BrokenReply::Missing { missing: 4 }, &|c| {
        vec![
            data(c, MORE, 0, b"abcd"),
            chunk_header(c, DONE, ChunkKind::None, 0).to_vec(),
        ]
    });
    let unfragmented = Expected {
        flags: CommandFlags::DF,
        ..read(0, 8)
    };
    breaks(unfragmented, BrokenReply::Fragmented, &|c| {
        vec![data(c, MORE, 0, b"abcd"), data(c, DONE, 4, b"efgh")]
    });
}

#[test]
fn a_read_in_ever_more_pieces_ends() {
    let holes = |c: u64| (0..5000).map(move |n| offset_hole_chunk(c, MORE, 2 * n, 1).to_vec());
    breaks(read(0, 1 << 20), BrokenReply::TooManyPieces, &|c| {
        holes(c).collect()
    });
}

#[test]
fn chunks_of_impossible_length_are_refused() {
    for (kind, len) in [
        (ChunkKind::None, 1),
        (ChunkKind::OffsetData, 8),
        (ChunkKind::OffsetData, 0),
        (ChunkKind::OffsetHole, 13),
        (ChunkKind::Error, u32::MAX),
        (ChunkKind::Error, 5),
        (ChunkKind::Unknown(0x8fff), 5000),
    ] {
        breaks(
            read(0, 8),
            BrokenReply::Length {
                kind,
                len: len.into(),
            },
            &|c| vec![chunk_header(c, DONE, kind, len).to_vec(), vec![0; 32]],
        );
    }
}

#[test]
fn error_chunks_must_add_up() {
    let wrong = BrokenReply::Length {
        kind: ChunkKind::Error,
        len: 6,
    };
    breaks(read(0, 8), wrong, &|c| {
        let header = chunk_header(c, DONE, ChunkKind::Error, 6).to_vec();
        vec![header, vec![0, 0, 0, 5, 0xff, 0xff]]
    });
    breaks(read(0, 8), BrokenReply::ErrorWithoutError, &|c| {
        let header = chunk_header(c, DONE, ChunkKind::Error, 6).to_vec();
        vec![header, vec![0; 6]]
    });
    let wrong = BrokenReply::Length {
        kind: ChunkKind::Error,
        len: 8,
    };
    breaks(read(0, 8), wrong, &|c| {
        let header = chunk_header(c, DONE, ChunkKind::Error, 8).to_vec();
        vec![header, vec![0, 0, 0, 5, 0, 0, 7, 7]]
    });
}

#[test]
fn chunks_that_fit_no_request_are_refused() {
    breaks(
        write(0, 8),
        BrokenReply::Kind(ChunkKind::OffsetData),
        &|c| vec![data(c, DONE, 0, b"abcdefgh")],
    );
    breaks(
        read(0, 8),
        BrokenReply::Kind(ChunkKind::BlockStatus),
        &|c| vec![chunk_header(c, DONE, ChunkKind::BlockStatus, 12).to_vec()],
    );
    breaks(read(0, 8), BrokenReply::NoneWithoutDone, &|c| {
        vec![chunk_header(c, MORE, ChunkKind::None, 0).to_vec()]
    });
    breaks(read(0, 8), BrokenReply::SimpleReadReply, &|c| {
        vec![simple_reply(c, Some(WireError::Invalid)).to_vec()]
    });
    breaks(read(0, 8), BrokenReply::Magic(0), &|_| vec![vec![0; 4]]);
    breaks(read(0, 8), BrokenReply::UnknownCookie(99), &|_| {
        vec![simple_reply(99, None).to_vec()]
    });
}

#[test]
fn a_structured_reply_that_was_not_negotiated_is_refused() {
    let mut decoder = ReplyDecoder::new(Framing::Simple, 4);
    let cookie = decoder.begin(read(0, 8), "it").unwrap();
    let stream = chunk_header(cookie, DONE, ChunkKind::None, 0);
    let broken = decode(&mut decoder, &stream, 100);
    assert_eq!(broken, Err(BrokenReply::NotNegotiated));
}

#[test]
fn a_second_reply_to_one_request_finds_nothing_even_when_its_slot_is_used_again() {
    let mut decoder = ReplyDecoder::new(Framing::Structured, 1);
    let first = decoder.begin(write(0, 8), "it").unwrap();
    assert!(decoder.is_full());
    assert!(decoder.begin(write(0, 8), "other").is_err());
    decode(&mut decoder, &simple_reply(first, None), 100).unwrap();
    let second = decoder.begin(write(0, 8), "other").unwrap();
    assert_ne!(first, second);
    assert_eq!(
        decode(&mut decoder, &simple_reply(first, None), 100),
        Err(BrokenReply::UnknownCookie(first))
    );
    assert_eq!(decoder.drain(), ["other"]);
    assert_eq!(decoder.in_flight(), 0);
}

/// The caller that sends the request again needs its token. A reply that claimed success with
/// bytes missing used to take it away.
#[test]
fn a_request_with_a_broken_reply_stays_in_flight() {
    let mut decoder = ReplyDecoder::new(Framing::Structured, 4);
    let cookie = decoder.begin(read(0, 8), "it").unwrap();
    let stream = chunk_header(cookie, DONE, ChunkKind::None, 0);
    let broken = decode(&mut decoder, &stream, 100);
    assert_eq!(broken, Err(BrokenReply::Missing { missing: 8 }));
    assert_eq!(decoder.drain(), ["it"]);
}

/// A read cut into pieces, some of them holes, in any order.
fn scattered() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
    prop::collection::vec((1u64..40, any::<bool>()), 1..12)
        .prop_map(|lens| {
            let mut at = 1000;
            let piece = |(len, hole)| {
                at += len;
                (at - len, len, hole)
            };
            lens.into_iter().map(piece).collect::<Vec<_>>()
        })
        .prop_shuffle()
}

proptest! {
    #[test]
    fn any_order_and_cutting_covers_every_byte_once(pieces in scattered(), cut in 1usize..70) {
        let len: u64 = pieces.iter().map(|piece| piece.1).sum();
        let mut decoder = ReplyDecoder::new(Framing::Structured, 4);
        let cookie = decoder.begin(read(1000, len), "it").unwrap();
        let mut stream = Vec::new();
        for (at, len, hole) in &pieces {
            match hole {
                true => stream.extend(offset_hole_chunk(cookie, MORE, *at, u32::try_from(*len).unwrap())),
                false => stream.extend(data(cookie, MORE, *at, &vec![7; usize::try_from(*len).unwrap()])),
            }
        }
        stream.extend(chunk_header(cookie, DONE, ChunkKind::None, 0));
        let seen = decode(&mut decoder, &stream, cut).unwrap();
        prop_assert!(done(None)(seen.last().unwrap()));
        let covered: u64 = seen.iter().map(|seen| match seen {
            DecodedItem::Payload(bytes) => u64::try_from(bytes.len()).unwrap(),
            DecodedItem::Event(ReplyEvent::Hole { len, .. }) => u64::from(*len),
            DecodedItem::Event(_) => 0,
        }).sum();
        prop_assert_eq!(covered, len);
    }

    #[test]
    fn no_bytes_panic_the_decoder(
        kind in prop::sample::select(vec![0u16, 1, 2, 5, 0x8001, 0x8002, 0x8003]),
        flags: u16,
        cookie in prop::sample::select(vec![0u64, 1, 2, 1 << 32]),
        len in prop_oneof![0u32..64, any::<u32>()],
        tail in prop::collection::vec(any::<u8>(), 0..200),
        cut in 1usize..50,
        framing in prop::sample::select(vec![Framing::Simple, Framing::Structured]),
    ) {
        let mut decoder = ReplyDecoder::new(framing, 4);
        for expected in [read(0, 64), write(0, 64), read(1 << 40, 1)] {
            decoder.begin(expected, "it").unwrap();
        }
        let mut stream = chunk_header(cookie, ChunkFlags::from_bits_retain(flags), ChunkKind::from(kind), len).to_vec();
        stream.extend(tail);
        if decode(&mut decoder, &stream, cut).is_ok() && decoder.payload_left() == 0 {
            let again = decode(&mut decoder, &simple_reply(cookie, None), cut);
            prop_assert!(again.is_err() || decoder.in_flight() < 3 || decoder.payload_left() > 0);
        }
    }
}
