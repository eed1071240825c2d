//! Requests and replies in each of the three framings, as bytes.

use proptest::prelude::*;

use crate::{
    BadFilter, BadMagic, ChunkFlags, ChunkKind, ChunkRange, Command, CommandFlags,
    EXTENDED_REQUEST_LEN, Extent, Framing, MetaContext, REQUEST_LEN, ReplyHead, ReplyTo, Request,
    StatusFilter, WireError, limits,
};

const ALL: [Framing; 3] = [Framing::Simple, Framing::Structured, Framing::Extended];
const TO: ReplyTo = ReplyTo {
    cookie: 0x0102_0304_0506_0708,
    offset: 0x4000,
};
const SIMPLE_HEAD: [u8; 16] = [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// A chunk's header as the specification draws it.
fn head(framing: Framing, flags: u8, kind: [u8; 2], len: u8) -> Vec<u8> {
    match framing {
        Framing::Extended => [
            &[0x6e, 0x8a, 0x27, 0x8c, 0, flags, kind[0], kind[1]][..],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[0, 0, 0, 0, 0, 0, 0x40, 0],
            &[0, 0, 0, 0, 0, 0, 0, len],
        ]
        .concat(),
        _ => [
            &[0x66, 0x8e, 0x33, 0xef, 0, flags, kind[0], kind[1]][..],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[0, 0, 0, len],
        ]
        .concat(),
    }
}

#[test]
fn an_extended_request_is_the_bytes_the_specification_draws() {
    let request = Request {
        cookie: 0x0102_0304_0506_0708,
        command: Command::BlockStatus,
        flags: CommandFlags::REQ_ONE,
        offset: 0x1122,
        len: 0x0033_4455_6677_8899,
    };
    let bytes = [
        0x21, 0xe4, 0x1c, 0x71, 0, 8, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0x11, 0x22,
        0, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99,
    ];
    assert_eq!(request.encode_extended(), bytes);
    assert_eq!(Request::decode_extended(&bytes), Ok(request));
    let decoded = Request::decode_as(Framing::Extended, &bytes);
    assert_eq!(decoded, Ok(Some(request)));
    let part = Request::decode_as(Framing::Extended, &bytes[..31]);
    assert_eq!(part, Ok(None));
}

#[test]
fn a_header_of_the_other_framing_is_no_request() {
    let magics: [u32; 3] = [0x2560_9513, 0x2560_9513, 0x21e4_1c71];
    for (framing, expected) in ALL.into_iter().zip(magics) {
        let magic = 0x2560_9513 ^ 0x21e4_1c71 ^ expected;
        let bytes = [&magic.to_be_bytes()[..], &[0; 28]].concat();
        let bad = BadMagic { magic, expected };
        assert_eq!(Request::decode_as(framing, &bytes), Err(bad));
    }
}

#[test]
fn the_payload_of_a_request_is_what_its_framing_says() {
    let request = |command, flags| Request {
        cookie: 0,
        command,
        flags,
        offset: 0,
        len: 77,
    };
    let (none, payload) = (CommandFlags::empty(), CommandFlags::PAYLOAD_LEN);
    for (command, flags, compact, extended) in [
        (Command::Write, none, 77, 0),
        (Command::Write, payload, 77, 77),
        (Command::Read, none, 0, 0),
        (Command::Read, payload, 0, 77),
        (Command::BlockStatus, payload, 0, 77),
        (Command::Unknown(99), payload, 0, 77),
    ] {
        let request = request(command, flags);
        assert_eq!(request.payload_len(Framing::Simple), compact);
        assert_eq!(request.payload_len(Framing::Structured), compact);
        assert_eq!(request.payload_len(Framing::Extended), extended);
    }
    let mut out = Vec::new();
    request(Command::Write, none).encode_to(Framing::Extended, &mut out);
    let sent = Request::decode_as(Framing::Extended, &out);
    assert_eq!(sent, Ok(Some(request(Command::Write, payload))));
}

#[test]
fn success_is_a_simple_reply_unless_headers_are_extended() {
    assert_eq!(*Framing::Simple.success(TO), SIMPLE_HEAD);
    assert_eq!(*Framing::Structured.success(TO), SIMPLE_HEAD);
    let none = head(Framing::Extended, 1, [0, 0], 0);
    assert_eq!(*Framing::Extended.success(TO), none);
    assert_eq!(*Framing::Simple.end(TO), SIMPLE_HEAD);
    assert_eq!(*Framing::Extended.end(TO), none);
    let none = head(Framing::Structured, 1, [0, 0], 0);
    assert_eq!(*Framing::Structured.end(TO), none);
}

#[test]
fn data_and_holes_are_the_bytes_the_specification_draws() {
    let piece = ChunkRange {
        offset: 0x4100,
        len: 0x20,
    };
    let data = Framing::Simple.read_data(TO, ChunkFlags::DONE, piece);
    assert_eq!(*data, SIMPLE_HEAD);
    for framing in [Framing::Structured, Framing::Extended] {
        let data = framing.read_data(TO, ChunkFlags::DONE, piece);
        let expected = [
            head(framing, 1, [0, 1], 0x28),
            vec![0, 0, 0, 0, 0, 0, 0x41, 0],
        ];
        assert_eq!(*data, expected.concat());
        assert!(data.len() <= Framing::READ_HEAD_MAX);
        let hole = framing.read_hole(TO, ChunkFlags::empty(), piece);
        let expected = [
            head(framing, 0, [0, 2], 12),
            vec![0, 0, 0, 0, 0, 0, 0x41, 0, 0, 0, 0, 0x20],
        ];
        assert_eq!(*hole, expected.concat());
        assert!(hole.len() <= ReplyHead::MAX);
    }
}

#[test]
fn errors_carry_text_and_place_where_there_is_room() {
    let simple = Framing::Simple.error(TO, WireError::NoSpace, "full", Some(0x4100));
    let mut expected = SIMPLE_HEAD;
    expected[7] = 28;
    assert_eq!(simple, expected);
    for framing in [Framing::Structured, Framing::Extended] {
        let place = [0, 0, 0, 0, 0, 0, 0x41, 0];
        let said = [&[0, 0, 0, 28, 0, 4][..], b"full"].concat();
        let whole = framing.error(TO, WireError::NoSpace, "full", None);
        let expected = [head(framing, 1, [0x80, 1], 10), said.clone()].concat();
        assert_eq!(whole, expected);
        let flags = ChunkFlags::empty();
        let part = framing.error_chunk(TO, flags, WireError::NoSpace, "full", Some(0x4100));
        let expected = [&head(framing, 0, [0x80, 2], 18)[..], &said, &place].concat();
        assert_eq!(part, expected);
        // CVE-2020-10761: no text is longer than the protocol's strings.
        let long = framing.error(TO, WireError::Io, &"€".repeat(5000), Some(0));
        assert_eq!(long.len(), head(framing, 1, [0, 0], 0).len() + 6 + 4095 + 8);
    }
}

#[test]
fn status_is_the_bytes_the_specification_draws() {
    let extents = [
        Extent {
            len: 0x1000,
            flags: 3,
        },
        Extent {
            len: 0x2000,
            flags: 0,
        },
    ];
    let narrow = Framing::Structured.block_status(TO, ChunkFlags::DONE, 9, &extents);
    let expected = [
        head(Framing::Structured, 1, [0, 5], 4 + 16),
        vec![0, 0, 0, 9],
        vec![0, 0, 0x10, 0, 0, 0, 0, 3, 0, 0, 0x20, 0, 0, 0, 0, 0],
    ];
    assert_eq!(narrow, expected.concat());
    let wide = Framing::Extended.block_status(TO, ChunkFlags::DONE, 9, &extents);
    let expected = [
        head(Framing::Extended, 1, [0, 6], 8 + 32),
        vec![0, 0, 0, 9, 0, 0, 0, 2],
        vec![0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 3],
        vec![0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(wide, expected.concat());
}

/// CVE-2025-47711: a status beyond what the form can say.
#[test]
fn status_that_does_not_fit_ends_early_at_a_block() {
    let extent = |len| Extent { len, flags: 1 };
    let long = [extent(512), extent(1 << 40), extent(512)];
    let narrow = Framing::Structured.block_status(TO, ChunkFlags::DONE, 1, &long);
    assert_eq!(narrow.len(), 20 + 4 + 16);
    assert_eq!(narrow[32..36], 0xffff_0000_u32.to_be_bytes());
    let wide = Framing::Extended.block_status(TO, ChunkFlags::DONE, 1, &long);
    assert_eq!(wide.len(), 32 + 8 + 48);
    let many = vec![extent(1); (1 << 20) + 5];
    let narrow = Framing::Structured.block_status(TO, ChunkFlags::DONE, 1, &many);
    assert_eq!(narrow.len(), 20 + 4 + (8 << 20));
    let wide = Framing::Extended.block_status(TO, ChunkFlags::DONE, 1, &many);
    assert_eq!(wide.len(), 32 + 8 + (16 << 20));
}

#[test]
fn a_filter_names_negotiated_contexts_once_each() {
    let contexts: Vec<MetaContext> = (1..=3)
        .map(|id| MetaContext {
            id,
            name: format!("x:{id}"),
        })
        .collect();
    let payload = |ids: &[u32]| {
        let ids = ids.iter().flat_map(|id| id.to_be_bytes());
        let len = (1u64 << 40).to_be_bytes();
        len.into_iter().chain(ids).collect::<Vec<u8>>()
    };
    let decode = |bytes: &[u8]| StatusFilter::decode(bytes, &contexts);
    for ids in [&[][..], &[2], &[3, 1]] {
        let filter = decode(&payload(ids)).unwrap();
        assert_eq!((filter.len, &filter.ids[..]), (1 << 40, ids));
        assert_eq!(filter.encode(), payload(ids));
    }
    assert_eq!(decode(&payload(&[4])), Err(BadFilter::Unknown(4)));
    assert_eq!(decode(&payload(&[1, 2, 1])), Err(BadFilter::Twice(1)));
    for len in [0, 7, 9, 11, 13] {
        assert_eq!(decode(&vec![0; len]), Err(BadFilter::Length(len)));
    }
    let max = usize::try_from(limits::STATUS_FILTER_MAX).unwrap();
    assert_eq!(max, 8 + 4 * limits::CONTEXTS_MAX);
    let long = BadFilter::Length(max + 4);
    assert_eq!(decode(&vec![0; max + 4]), Err(long));
}

proptest! {
    #[test]
    fn requests_survive_the_wire_in_every_framing(
        cookie: u64, command: u16, flags: u16, offset: u64, len: u64, narrow: u32,
    ) {
        for framing in ALL {
            let request = Request {
                cookie,
                command: Command::from(command),
                flags: CommandFlags::from_bits_retain(flags) | CommandFlags::PAYLOAD_LEN,
                offset,
                len: if framing.is_extended() { len } else { narrow.into() },
            };
            let mut out = Vec::new();
            request.encode_to(framing, &mut out);
            prop_assert_eq!(out.len(), framing.request_len());
            prop_assert_eq!(Request::decode_as(framing, &out), Ok(Some(request)));
        }
        prop_assert_eq!(REQUEST_LEN + 4, EXTENDED_REQUEST_LEN);
    }

    #[test]
    fn filters_survive_the_wire(len: u64, ids in prop::collection::hash_set(any::<u32>(), 0..64)) {
        let filter = StatusFilter { len, ids: ids.iter().copied().collect() };
        let contexts: Vec<MetaContext> = ids
            .iter()
            .map(|id| MetaContext { id: *id, name: "x:y".to_owned() })
            .collect();
        prop_assert_eq!(StatusFilter::decode(&filter.encode(), &contexts), Ok(filter));
    }

    #[test]
    fn no_payload_panics_the_filter(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let contexts = [MetaContext { id: 0, name: "x:y".to_owned() }];
        if let Ok(filter) = StatusFilter::decode(&bytes, &contexts) {
            prop_assert_eq!(filter.encode(), bytes);
        }
    }
}

#[test]
#[should_panic(expected = "in simple replies")]
fn a_chunk_in_simple_framing_is_a_mistake_of_the_caller() {
    let head = Framing::Simple.chunk(TO, ChunkFlags::DONE, ChunkKind::None, 0);
    assert!(head.is_empty());
}
