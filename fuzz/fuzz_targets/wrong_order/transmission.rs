//! Replies and chunks of a server in any order against the client's decoder.

use nbd_proto::{
    ChunkFlags, ChunkRange, Command, CommandFlags, Expected, Extent, Framing, MetaContext,
    ReplyDecoder, ReplyEvent, ReplyTo, WireError,
};
use outboard_fuzz::{DecodeOutcome, receive};

/// Length of every request.
const LEN: u32 = 16;

/// The lower three bits of a byte choose the request, the next four the chunk, the last whether it ends
/// the reply.
pub(crate) fn play(mode: u8, script: &[u8]) {
    let framings = [Framing::Simple, Framing::Structured, Framing::Extended];
    let framing = framings[usize::from(mode) % 3];
    let stream: Vec<u8> = script
        .iter()
        .flat_map(|byte| chunk(framing, byte & 7, byte >> 3 & 15, byte >> 7 == 1))
        .collect();
    let whole = receive(decoder(framing), std::iter::once(&stream[..]));
    let cut = receive(decoder(framing), stream.chunks(usize::from(mode / 3) + 1));
    check(&whole);
    assert_eq!(whole, cut);
}

/// The requests in flight, by their cookies.
fn requests() -> [Expected; 8] {
    let at = |cookie: u64, command, flags| Expected {
        command,
        flags,
        offset: cookie * 4096,
        len: LEN.into(),
    };
    let none = CommandFlags::empty();
    [
        at(0, Command::Read, none),
        at(1, Command::Read, CommandFlags::DF),
        at(2, Command::Write, none),
        at(3, Command::Flush, none),
        at(4, Command::BlockStatus, none),
        at(5, Command::BlockStatus, CommandFlags::REQ_ONE),
        at(6, Command::BlockStatus, none),
        at(7, Command::WriteZeroes, none),
    ]
}

/// Contexts 1 and 2 are negotiated; request 6 is for 2 only.
fn chunk(framing: Framing, request: u8, number: u8, last: bool) -> Vec<u8> {
    let cookie = u64::from(request);
    let offset = cookie * 4096;
    let to = ReplyTo { cookie, offset };
    let flags = if last {
        ChunkFlags::DONE
    } else {
        ChunkFlags::empty()
    };
    let piece = |skip: u32, len| ChunkRange {
        offset: offset + u64::from(skip),
        len,
    };
    let data = |piece: ChunkRange| {
        let mut bytes = framing.read_data(to, flags, piece).to_vec();
        bytes.resize(bytes.len() + piece.len as usize, 7);
        bytes
    };
    let hole = |piece| match framing {
        Framing::Simple => framing.end(to).to_vec(),
        _ => framing.read_hole(to, flags, piece).to_vec(),
    };
    let status = |id, lens: &[u64]| {
        let extents: Vec<Extent> = lens
            .iter()
            .map(|len| Extent {
                len: *len,
                flags: 3,
            })
            .collect();
        match framing {
            Framing::Simple => framing.success(to).to_vec(),
            _ => framing.block_status(to, flags, id, &extents),
        }
    };
    let half = LEN / 2;
    match number {
        0 => framing.success(to).to_vec(),
        1 => framing.end(to).to_vec(),
        2 => data(piece(0, LEN)),
        3 => data(piece(0, half)),
        4 => data(piece(half, half)),
        5 => data(piece(half, LEN)),
        6 => hole(piece(0, half)),
        7 => hole(piece(half, half)),
        8 => framing.error_chunk(to, flags, WireError::Io, "bad", None),
        9 => framing.error_chunk(to, flags, WireError::NoSpace, "", Some(offset + 3)),
        10 => status(1, &[LEN.into()]),
        11 => status(2, &[LEN.into()]),
        12 => status(1, &[4, 4]),
        13 => status(2, &[4, 40]),
        14 => status(3, &[LEN.into()]),
        _ => Framing::Structured.end(to).to_vec(),
    }
}

fn decoder(framing: Framing) -> ReplyDecoder<u64> {
    let contexts = [1, 2].map(|id| MetaContext {
        id,
        name: format!("x-fuzz:{id}"),
    });
    let mut decoder = ReplyDecoder::new(framing, 8).with_contexts(&contexts);
    for (cookie, expected) in (0..).zip(requests()) {
        let begun = match cookie {
            6 => decoder.begin_filtered(expected, &[2], cookie),
            _ => decoder.begin(expected, cookie),
        };
        assert_eq!(begun, Ok(cookie));
    }
    decoder
}

/// Each request is over once or still in flight; what succeeded has all its bytes, each once, and the
/// status of all its contexts.
fn check(seen: &DecodeOutcome) {
    for (at, event) in seen.events.iter().enumerate() {
        if let ReplyEvent::Done {
            token, error: None, ..
        } = event
        {
            check_success(*token, &seen.events[..at]);
        }
    }
    let mut tokens = seen.tokens.clone();
    tokens.sort_unstable();
    assert_eq!(tokens, [0, 1, 2, 3, 4, 5, 6, 7]);
}

fn check_success(request: u64, before: &[ReplyEvent<u64>]) {
    let start = request * 4096;
    let mut times = [0; LEN as usize];
    let mut contexts = Vec::new();
    for event in before {
        match event {
            ReplyEvent::Data {
                cookie,
                offset,
                len,
            }
            | ReplyEvent::Hole {
                cookie,
                offset,
                len,
            } if *cookie == request => {
                let from = usize::try_from(offset - start).expect("within the request");
                times[from..from + *len as usize]
                    .iter_mut()
                    .for_each(|t| *t += 1);
            }
            ReplyEvent::Extent {
                cookie,
                context,
                extent,
                ..
            } if *cookie == request => {
                assert!(extent.len > 0);
                contexts.push(*context);
            }
            _ => {}
        }
    }
    contexts.dedup();
    contexts.sort_unstable();
    match request {
        0 | 1 => assert_eq!(times, [1; LEN as usize]),
        4 | 5 => assert_eq!(contexts, [1, 2]),
        6 => assert_eq!(contexts, [2]),
        _ => assert!(contexts.is_empty() && times == [0; LEN as usize]),
    }
}
