//! Any bytes of a server in transmission, whole and in pieces, against requests of every kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd_proto::{Command, CommandFlags, Expected, Framing, MetaContext, ReplyDecoder};
use outboard_fuzz::{DecodeOutcome, receive};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let framings = [
        Framing::Simple,
        Framing::Structured,
        Framing::Extended,
        Framing::Structured,
    ];
    let framing = framings[usize::from(choice >> 6)];
    let cut = conserved(framing, bytes.chunks(usize::from(choice & 0x3f) * 3 + 1));
    assert_eq!(conserved(framing, std::iter::once(bytes)), cut);
});

/// After any input, each request is either over or can be sent again.
fn conserved<'a>(framing: Framing, pieces: impl Iterator<Item = &'a [u8]>) -> DecodeOutcome {
    let seen = receive(decoder(framing), pieces);
    let mut tokens = seen.tokens.clone();
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
