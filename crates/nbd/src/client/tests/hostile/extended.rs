//! What a server can get wrong under extended headers.

use nbd_proto::{
    ChunkFlags, ChunkKind, ChunkRange, Framing, ReplyTo, Request, chunk_header, simple_reply,
};

use super::{DONE, LEN, survives_in};
use crate::client::tests::fake::Act;

const WIDE: Framing = Framing::Extended;
const MORE: ChunkFlags = ChunkFlags::empty();

const fn to(request: &Request) -> ReplyTo {
    ReplyTo {
        cookie: request.cookie,
        offset: request.offset,
    }
}

const fn piece(offset: u64, len: u32) -> ChunkRange {
    ChunkRange { offset, len }
}

#[test]
fn a_reply_of_another_form() {
    survives_in(WIDE, "not negotiated", |request| {
        Act::Raw(simple_reply(request.cookie, None).to_vec())
    });
    survives_in(WIDE, "not negotiated", |request| {
        Act::Raw(chunk_header(request.cookie, DONE, ChunkKind::None, 0).to_vec())
    });
    survives_in(Framing::Structured, "not negotiated", |request| {
        Act::Raw(WIDE.end(to(request)).to_vec())
    });
}

#[test]
fn a_reply_with_another_offset() {
    survives_in(WIDE, "another offset", |request| {
        let mut to = to(request);
        to.offset += 512;
        Act::Raw(WIDE.end(to).to_vec())
    });
}

#[test]
fn a_length_beyond_32_bits_where_none_can_be() {
    survives_in(WIDE, "18446744073709551615 bytes", |request| {
        let mut chunk = WIDE.end(to(request)).to_vec();
        chunk[24..32].fill(0xff);
        Act::Raw(chunk)
    });
}

#[test]
fn data_and_holes_outside_the_request() {
    survives_in(WIDE, "outside request", |request| {
        let head = WIDE.read_data(to(request), MORE, piece(request.offset + 1, LEN));
        Act::Raw(head.to_vec())
    });
    survives_in(WIDE, "outside request", |request| {
        let hole = WIDE.read_hole(to(request), DONE, piece(0, u32::MAX));
        Act::Raw(hole.to_vec())
    });
}

#[test]
fn holes_that_overlap_or_leave_bytes_out() {
    survives_in(WIDE, "overlap", |request| {
        let hole = WIDE.read_hole(to(request), MORE, piece(request.offset, LEN));
        Act::Raw(hole.repeat(2))
    });
    survives_in(WIDE, "512 bytes missing", |request| {
        let hole = WIDE.read_hole(to(request), DONE, piece(request.offset, LEN - 512));
        Act::Raw(hole.to_vec())
    });
}

#[test]
fn extents_in_answer_to_a_read() {
    survives_in(WIDE, "where none is due", |request| {
        let extent = nbd_proto::Extent { len: 1, flags: 0 };
        Act::Raw(WIDE.block_status(to(request), DONE, 0, &[extent]))
    });
}
