//! The reply decoder on the status of blocks: servers that are right, and those that are wrong.

use proptest::prelude::*;

use super::receive::{DONE, DecodedItem, MORE, decode, read, write};
use crate::{
    BrokenReply, ChunkKind, Command, CommandFlags, Expected, Extent, Framing, MetaContext,
    ReplyDecoder, ReplyEvent, ReplyTo, WireError, chunk_header, limits, simple_reply,
};

const CHUNKED: [Framing; 2] = [Framing::Structured, Framing::Extended];
/// Ids of the two contexts that were agreed on.
const FIRST: u32 = 7;
const SECOND: u32 = 0x8000_0001;

fn decoder(framing: Framing) -> ReplyDecoder<&'static str> {
    let contexts = [FIRST, SECOND].map(|id| MetaContext {
        id,
        name: format!("x:{id}"),
    });
    ReplyDecoder::new(framing, 4).with_contexts(&contexts)
}

fn status(flags: CommandFlags, offset: u64, len: u64) -> Expected {
    Expected {
        command: Command::BlockStatus,
        flags,
        offset,
        len,
    }
}

fn extents(lens: &[u64]) -> Vec<Extent> {
    let extent = |(flags, len): (u64, &u64)| Extent { len: *len, flags };
    (0..).zip(lens).map(extent).collect()
}

/// A server that answers one request, as far as the test wants.
pub(crate) struct Server {
    pub(crate) framing: Framing,
    pub(crate) to: ReplyTo,
    sent: Vec<u8>,
}

impl Server {
    fn status(&mut self, id: u32, lens: &[u64]) -> &mut Self {
        let chunk = self.framing.block_status(self.to, MORE, id, &extents(lens));
        self.sent.extend(chunk);
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.sent.extend(bytes);
        self
    }

    fn end(&mut self) {
        let end = self.framing.end(self.to);
        self.sent.extend_from_slice(&end);
    }
}

/// What a client makes of the answers of a server to `expected`.
pub(crate) fn answered(
    framing: Framing,
    expected: Expected,
    script: &dyn Fn(&mut Server),
) -> Result<Vec<DecodedItem>, BrokenReply> {
    let mut decoder = decoder(framing);
    let cookie = decoder.begin(expected, "it").unwrap();
    let to = ReplyTo {
        cookie,
        offset: expected.offset,
    };
    let mut server = Server {
        framing,
        to,
        sent: Vec::new(),
    };
    script(&mut server);
    decode(&mut decoder, &server.sent, 1000)
}

/// Both framings break in this way.
fn breaks(expected: Expected, why: BrokenReply, script: &dyn Fn(&mut Server)) {
    for framing in CHUNKED {
        let outcome = answered(framing, expected, script);
        assert_eq!(outcome, Err(why), "{framing:?}");
    }
}

/// Context, offset, length and flags of the extents, and whether the request succeeded.
pub(crate) fn reported_extents(seen: &[DecodedItem]) -> (Vec<(u32, u64, u64, u64)>, bool) {
    let mut reported_extents = Vec::new();
    let mut ok = false;
    for seen in seen {
        match seen {
            DecodedItem::Event(ReplyEvent::Extent {
                context,
                offset,
                extent,
                ..
            }) => reported_extents.push((*context, *offset, extent.len, extent.flags)),
            DecodedItem::Event(ReplyEvent::Done { error, .. }) => ok = error.is_none(),
            DecodedItem::Event(_) | DecodedItem::Payload(_) => {}
        }
    }
    (reported_extents, ok)
}

const ANY: CommandFlags = CommandFlags::empty();
const ONE: CommandFlags = CommandFlags::REQ_ONE;

#[test]
fn the_status_of_every_context_comes_extent_by_extent_and_may_end_early_or_late() {
    for framing in CHUNKED {
        let seen = answered(framing, status(ANY, 4096, 10_000), &|server| {
            server.status(SECOND, &[512]);
            server.status(FIRST, &[4096, 5000, 1 << 20]);
            server.end();
        });
        let expected = vec![
            (SECOND, 4096, 512, 0),
            (FIRST, 4096, 4096, 0),
            (FIRST, 8192, 5000, 1),
            (FIRST, 13_192, 1 << 20, 2),
        ];
        assert_eq!(reported_extents(&seen.unwrap()), (expected, true));
    }
}

#[test]
fn the_last_chunk_of_extents_may_end_the_reply() {
    for framing in CHUNKED {
        let mut decoder = decoder(framing);
        let expected = status(ANY, 0, 4096);
        let cookie = decoder.begin_filtered(expected, &[SECOND], "it").unwrap();
        let to = ReplyTo { cookie, offset: 0 };
        let chunk = framing.block_status(to, DONE, SECOND, &extents(&[100, 200]));
        let seen = decode(&mut decoder, &chunk, 1).unwrap();
        assert_eq!(reported_extents(&seen).0.len(), 2);
        assert!(reported_extents(&seen).1);
        assert_eq!(decoder.in_flight(), 0);
    }
}

#[test]
fn contexts_that_are_missing_double_or_unknown_are_refused() {
    let asked = status(ANY, 0, 4096);
    breaks(asked, BrokenReply::ContextMissing(SECOND), &|server| {
        server.status(FIRST, &[4096]).end();
    });
    breaks(asked, BrokenReply::ContextMissing(FIRST), &|server| {
        server.end()
    });
    breaks(asked, BrokenReply::ContextTwice(FIRST), &|server| {
        server.status(FIRST, &[4096]).status(FIRST, &[4096]);
    });
    breaks(asked, BrokenReply::UnknownContext(8), &|server| {
        server.status(8, &[4096]);
    });
    let simple = answered(Framing::Structured, asked, &|server| {
        server.bytes(&simple_reply(server.to.cookie, None));
    });
    assert_eq!(simple, Err(BrokenReply::ContextMissing(FIRST)));
}

#[test]
fn contexts_the_request_left_out_are_neither_due_nor_allowed() {
    for framing in CHUNKED {
        let answer = |id| {
            let mut decoder = decoder(framing);
            let expected = status(ANY, 0, 4096);
            let cookie = decoder.begin_filtered(expected, &[FIRST], "it").unwrap();
            let to = ReplyTo { cookie, offset: 0 };
            let mut sent = framing.block_status(to, MORE, id, &extents(&[4096]));
            sent.extend_from_slice(&framing.end(to));
            decode(&mut decoder, &sent, 9)
        };
        assert!(reported_extents(&answer(FIRST).unwrap()).1);
        let refused = Err(BrokenReply::ContextTwice(SECOND));
        assert_eq!(answer(SECOND), refused);
    }
}

#[test]
fn an_error_excuses_missing_contexts() {
    for framing in [Framing::Simple, Framing::Structured, Framing::Extended] {
        let seen = answered(framing, status(ANY, 0, 4096), &|server| {
            let error = framing.error(server.to, WireError::Invalid, "no", None);
            server.bytes(&error);
        });
        let seen = seen.unwrap();
        let Some(DecodedItem::Event(ReplyEvent::Done { error, .. })) = seen.last() else {
            panic!("{seen:?}");
        };
        assert_eq!(*error, Some(WireError::Invalid));
    }
}

#[test]
fn extents_beyond_what_is_allowed_are_refused() {
    let beyond = BrokenReply::ExtentBeyond { cookie: 0 };
    breaks(status(ANY, 0, 4096), beyond, &|server| {
        server.status(FIRST, &[4096, 1]);
    });
    breaks(status(ANY, 0, 4096), beyond, &|server| {
        server.status(FIRST, &[1000, 4000, 1]);
    });
    breaks(status(ONE, 0, 4096), beyond, &|server| {
        server.status(FIRST, &[4097]);
    });
    breaks(status(ANY, u64::MAX - 100, 50), beyond, &|server| {
        server.status(FIRST, &[101]);
    });
    let many = BrokenReply::TooManyExtents(2);
    breaks(status(ONE, 0, 4096), many, &|server| {
        server.status(FIRST, &[1, 1]);
    });
    for framing in CHUNKED {
        let whole = answered(framing, status(ONE, 0, 4096), &|server| {
            server.status(FIRST, &[4096]).status(SECOND, &[1]).end();
        });
        assert!(reported_extents(&whole.unwrap()).1);
    }
    let huge = answered(Framing::Extended, status(ANY, 4096, 8192), &|server| {
        server.status(FIRST, &[4096, u64::MAX - 4096]);
    });
    assert_eq!(huge, Err(beyond));
}

/// A chunk of extents as bytes: kind, length announced, payload.
fn raw(server: &Server, kind: ChunkKind, len: u32, payload: &[u8]) -> Vec<u8> {
    let head = server.framing.chunk(server.to, MORE, kind, len);
    [&head[..], payload].concat()
}

#[test]
fn empty_extents_and_lengths_that_do_not_add_up_are_refused() {
    let asked = status(ANY, 0, 4096);
    let id = FIRST.to_be_bytes();
    let narrow = |len: u32, why: BrokenReply| {
        let outcome = answered(Framing::Structured, asked, &|server| {
            let bytes = raw(
                server,
                ChunkKind::BlockStatus,
                len,
                &[&id[..], &[0; 32]].concat(),
            );
            server.bytes(&bytes);
        });
        assert_eq!(outcome, Err(why), "{len}");
    };
    let wide = |len: u32, count: u32, why: BrokenReply| {
        let outcome = answered(Framing::Extended, asked, &|server| {
            let payload = [&id[..], &count.to_be_bytes(), &[0; 64]].concat();
            let bytes = raw(server, ChunkKind::BlockStatusExt, len, &payload);
            server.bytes(&bytes);
        });
        assert_eq!(outcome, Err(why), "{len} {count}");
    };
    narrow(12, BrokenReply::EmptyExtent);
    wide(24, 1, BrokenReply::EmptyExtent);
    for len in [0, 4, 8, 11, 13, u32::MAX] {
        let kind = ChunkKind::BlockStatus;
        narrow(
            len,
            BrokenReply::Length {
                kind,
                len: len.into(),
            },
        );
    }
    for (len, count) in [
        (0, 0),
        (8, 0),
        (16, 1),
        (24, 0),
        (24, 2),
        (40, 1),
        (40, u32::MAX),
    ] {
        let kind = ChunkKind::BlockStatusExt;
        wide(
            len,
            count,
            BrokenReply::Length {
                kind,
                len: len.into(),
            },
        );
    }
    let count = limits::EXTENTS_MAX + 1;
    narrow(4 + 8 * count, BrokenReply::TooManyExtents(count.into()));
    wide(
        8 + 16 * count,
        count,
        BrokenReply::TooManyExtents(count.into()),
    );
}

#[test]
fn as_many_extents_as_are_allowed_need_no_memory() {
    let count = u64::from(limits::EXTENTS_MAX);
    let lens = vec![1; usize::try_from(count).unwrap()];
    for framing in CHUNKED {
        let mut decoder = decoder(framing);
        let asked = status(ANY, 0, count);
        let cookie = decoder.begin_filtered(asked, &[FIRST], "it").unwrap();
        let to = ReplyTo { cookie, offset: 0 };
        let chunk = framing.block_status(to, DONE, FIRST, &extents(&lens));
        let (mut at, mut seen) = (0, 0);
        loop {
            // Never more at hand than a header may have.
            let end = chunk.len().min(at + ReplyDecoder::<&str>::HEAD_MAX);
            let decoded = decoder.decode(&chunk[at..end]).unwrap();
            at += decoded.consumed;
            match decoded.event.unwrap() {
                ReplyEvent::Extent { offset, .. } => assert_eq!(offset, seen),
                ReplyEvent::Done { error, .. } => break assert_eq!(error, None),
                other => panic!("{other:?}"),
            }
            seen += 1;
        }
        assert_eq!((seen, at), (count, chunk.len()));
    }
}

#[test]
fn status_that_fits_neither_request_nor_framing_is_refused() {
    for (framing, right, wrong) in [
        (
            Framing::Structured,
            ChunkKind::BlockStatus,
            ChunkKind::BlockStatusExt,
        ),
        (
            Framing::Extended,
            ChunkKind::BlockStatusExt,
            ChunkKind::BlockStatus,
        ),
    ] {
        let kind = |expected, kind| {
            answered(framing, expected, &|server| {
                let bytes = raw(server, kind, 24, &[0; 24]);
                server.bytes(&bytes);
            })
        };
        let asked = status(ANY, 0, 4096);
        assert_eq!(kind(asked, wrong), Err(BrokenReply::Kind(wrong)));
        assert_eq!(kind(read(0, 4096), right), Err(BrokenReply::Kind(right)));
        assert_eq!(kind(write(0, 4096), right), Err(BrokenReply::Kind(right)));
    }
}

#[test]
fn a_decoder_that_was_drained_in_the_middle_of_a_chunk_starts_fresh() {
    let mut decoder = decoder(Framing::Structured);
    let cookie = decoder.begin(status(ANY, 0, 4096), "it").unwrap();
    let to = ReplyTo { cookie, offset: 0 };
    let chunk = Framing::Structured.block_status(to, MORE, FIRST, &extents(&[1, 2]));
    let seen = decode(&mut decoder, &chunk[..chunk.len() - 1], 100).unwrap();
    assert_eq!(reported_extents(&seen).0.len(), 1);
    assert_eq!(decoder.drain(), ["it"]);
    let cookie = decoder.begin(write(0, 8), "other").unwrap();
    let seen = decode(&mut decoder, &simple_reply(cookie, None), 100).unwrap();
    assert!(reported_extents(&seen).1);
}

#[test]
fn a_broken_status_stays_in_flight() {
    let mut decoder = decoder(Framing::Structured);
    let cookie = decoder.begin(status(ANY, 0, 4096), "it").unwrap();
    let end = chunk_header(cookie, DONE, ChunkKind::None, 0);
    assert!(decode(&mut decoder, &end, 100).is_err());
    assert_eq!(decoder.drain(), ["it"]);
}

proptest! {
    #[test]
    fn any_cutting_of_a_status_gives_the_same_extents(
        lens in prop::collection::vec(1u64..100_000, 1..40),
        other in 1u64..1000,
        cut in 1usize..90,
        wide: bool,
        last: bool,
    ) {
        let framing = if wide { Framing::Extended } else { Framing::Structured };
        let len: u64 = lens.iter().sum();
        let run = |cut| {
            let mut decoder = decoder(framing);
            let cookie = decoder.begin(status(ANY, 1 << 40, len), "it").unwrap();
            let to = ReplyTo { cookie, offset: 1 << 40 };
            let mut sent = framing.block_status(to, MORE, SECOND, &extents(&[other]));
            let flags = if last { DONE } else { MORE };
            sent.extend(framing.block_status(to, flags, FIRST, &extents(&lens)));
            if !last {
                sent.extend_from_slice(&framing.end(to));
            }
            decode(&mut decoder, &sent, cut).unwrap()
        };
        let seen = run(cut);
        let (reported_extents, ok) = reported_extents(&seen);
        prop_assert!(ok);
        prop_assert_eq!(reported_extents.len(), 1 + lens.len());
        let mut at = 1 << 40;
        for ((context, offset, len, flags), (nth, expected)) in reported_extents[1..].iter().zip((0..).zip(&lens)) {
            prop_assert_eq!((*context, *offset, *len, *flags), (FIRST, at, *expected, nth));
            at += len;
        }
        prop_assert_eq!(seen, run(usize::MAX));
    }

    #[test]
    fn no_bytes_panic_the_decoder(
        kind in prop::sample::select(vec![0u16, 1, 2, 5, 6, 0x8001, 0x8002, 0x8003]),
        flags: u16,
        cookie in 0u64..5,
        len in prop_oneof![0u64..64, (0u64..10).prop_map(|n| 8 + 16 * n), (0u64..10).prop_map(|n| 4 + 8 * n), any::<u64>()],
        id in prop::sample::select(vec![FIRST, SECOND, 0]),
        tail in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200),
        cut in 1usize..50,
        wide: bool,
    ) {
        let framing = if wide { Framing::Extended } else { Framing::Structured };
        let mut decoder = decoder(framing);
        for expected in [read(0, 64), write(0, 64), status(ANY, 0, 4096), status(ONE, 0, 1)] {
            decoder.begin(expected, "it").unwrap();
        }
        let to = ReplyTo { cookie, offset: 0 };
        let flags = crate::ChunkFlags::from_bits_retain(flags);
        let mut stream = framing.chunk(to, flags, ChunkKind::from(kind), 0).to_vec();
        let at = stream.len();
        if wide {
            stream[at - 8..].copy_from_slice(&len.to_be_bytes());
        } else {
            stream[at - 4..].copy_from_slice(&len.to_be_bytes()[4..]);
        }
        stream.extend(id.to_be_bytes());
        stream.extend(tail);
        let _outcome = decode(&mut decoder, &stream, cut);
        // After any input, unfinished requests can be sent again.
        prop_assert!(decoder.drain().len() >= 3);
    }
}
