//! Any bytes of a server in transmission, whole and in pieces, against requests of every kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd_proto::{
    BrokenReply, Command, CommandFlags, Expected, Framing, MetaContext, ReplyDecoder, ReplyEvent,
};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let framings = [
        Framing::Simple,
        Framing::Structured,
        Framing::Extended,
        Framing::Structured,
    ];
    let framing = framings[usize::from(choice >> 6)];
    let cut = receive(framing, bytes.chunks(usize::from(choice & 0x3f) * 3 + 1));
    assert_eq!(receive(framing, std::iter::once(bytes)), cut);
});

type Seen = (Vec<ReplyEvent<u64>>, Option<BrokenReply>);

fn receive<'a>(framing: Framing, pieces: impl Iterator<Item = &'a [u8]>) -> Seen {
    let mut decoder = decoder(framing);
    let (mut waiting, mut seen) = (Vec::new(), Vec::new());
    for piece in pieces {
        waiting.extend_from_slice(piece);
        loop {
            let left = waiting.len().min(decoder.payload_left() as usize);
            waiting.drain(..left);
            decoder.payload_taken(u32::try_from(left).expect("it was less than a u32"));
            if decoder.payload_left() > 0 {
                break;
            }
            match decoder.decode(&waiting) {
                Ok(decoded) => match decoded.event {
                    Some(event) => {
                        waiting.drain(..decoded.consumed);
                        seen.push(event);
                    }
                    None => break,
                },
                Err(broken) => return (conserved(decoder, seen), Some(broken)),
            }
        }
    }
    (conserved(decoder, seen), None)
}

/// Whatever was sent, each request is either over or can be sent again.
fn conserved(mut decoder: ReplyDecoder<u64>, seen: Vec<ReplyEvent<u64>>) -> Vec<ReplyEvent<u64>> {
    let over = seen.iter().filter_map(|event| match event {
        ReplyEvent::Done { token, .. } => Some(*token),
        _ => None,
    });
    let mut tokens: Vec<u64> = over.chain(decoder.drain()).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [0, 1, 2, 3, 4, 5, 6, 7]);
    seen
}

/// Reads, one of them unfragmented, a write, flush and trim, and two requests for status in flight;
/// cookies count from 0.
fn decoder(framing: Framing) -> ReplyDecoder<u64> {
    let contexts = [1, 2].map(|id| MetaContext {
        id,
        name: format!("x-fuzz:{id}"),
    });
    let mut decoder = ReplyDecoder::new(framing, 8).with_contexts(&contexts);
    for (command, flags, offset, len) in [
        (Command::Read, CommandFlags::empty(), 0, 16),
        (Command::Read, CommandFlags::empty(), 0, 1 << 20),
        (Command::Read, CommandFlags::DF, 1 << 40, 512),
        (Command::Write, CommandFlags::empty(), 0, 512),
        (Command::Flush, CommandFlags::empty(), 0, 0),
        (Command::Trim, CommandFlags::empty(), 0, u64::MAX),
        (Command::BlockStatus, CommandFlags::empty(), 0, 1 << 40),
        (Command::BlockStatus, CommandFlags::REQ_ONE, 0, 4096),
    ] {
        let expected = Expected {
            command,
            flags,
            offset,
            len,
        };
        let token = decoder.in_flight() as u64;
        assert_eq!(decoder.begin(expected, token), Ok(token));
    }
    decoder
}
