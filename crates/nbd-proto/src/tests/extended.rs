//! The reply decoder on extended headers, and on replies of a framing that was not agreed on.

use super::receive::{DONE, MORE, read, write};
use super::status::{answered, reported_extents};
use crate::{BrokenReply, ChunkKind, ChunkRange, Framing, ReplyTo, WireError, simple_reply};

#[test]
fn replies_of_another_framing_are_refused() {
    for (agreed, sent) in [
        (Framing::Simple, Framing::Structured),
        (Framing::Simple, Framing::Extended),
        (Framing::Structured, Framing::Extended),
        (Framing::Extended, Framing::Simple),
        (Framing::Extended, Framing::Structured),
    ] {
        let outcome = answered(agreed, write(0, 8), &|server| {
            let reply = sent.end(server.to);
            server.bytes(&reply);
        });
        assert_eq!(outcome, Err(BrokenReply::NotNegotiated));
    }
    // Not even an error may be simple under extended headers.
    let outcome = answered(Framing::Extended, write(0, 8), &|server| {
        server.bytes(&simple_reply(server.to.cookie, Some(WireError::Io)));
    });
    assert_eq!(outcome, Err(BrokenReply::NotNegotiated));
}

#[test]
fn extended_replies_repeat_the_offset_and_have_no_absurd_length() {
    let outcome = answered(Framing::Extended, read(4096, 8), &|server| {
        let to = ReplyTo {
            offset: 4097,
            ..server.to
        };
        let end = server.framing.end(to);
        server.bytes(&end);
    });
    assert_eq!(outcome, Err(BrokenReply::Offset { cookie: 0 }));
    for (kind, len) in [
        (ChunkKind::OffsetData, u64::MAX),
        (ChunkKind::OffsetData, (1 << 32) + 8),
        (ChunkKind::OffsetHole, (1 << 32) + 12),
        (ChunkKind::Error, u64::MAX),
        (ChunkKind::None, 1 << 32),
    ] {
        let outcome = answered(Framing::Extended, read(4096, 8), &|server| {
            let mut head = server.framing.chunk(server.to, DONE, kind, 0).to_vec();
            head[24..].copy_from_slice(&len.to_be_bytes());
            server.bytes(&head).bytes(&[0; 16]);
        });
        assert_eq!(outcome, Err(BrokenReply::Length { kind, len }));
    }
}

#[test]
fn reads_under_extended_headers_are_the_same_as_under_structured_replies() {
    let reads = |framing: Framing| {
        answered(framing, read(100, 10), &|server| {
            let piece = |offset, len| ChunkRange { offset, len };
            let hole = framing.read_hole(server.to, MORE, piece(104, 6));
            let data = framing.read_data(server.to, DONE, piece(100, 4));
            server.bytes(&hole).bytes(&data).bytes(b"data");
        })
    };
    let extended = reads(Framing::Extended).unwrap();
    assert_eq!(Ok(&extended), reads(Framing::Structured).as_ref());
    assert!(reported_extents(&extended).1);
}
