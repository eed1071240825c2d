//! Any bytes of a server, whole and in pieces, against a client with each of its goals.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd_proto::{
    AccessMode, BASE_ALLOCATION, ClientEvent, ClientHandshake, ClientHandshakeConfig, ClientToken,
    Framing, Goal, HandshakeFailure, WriterAccess,
};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let framings = [
        Framing::Simple,
        Framing::Extended,
        Framing::Structured,
        Framing::Extended,
    ];
    // The one export of an oldstyle server has no name.
    let export = if choice & 8 == 0 { "disk" } else { "" };
    let config = ClientHandshakeConfig {
        tls: choice & 0x40 != 0,
        framing: framings[usize::from(choice >> 6)],
        contexts: vec![BASE_ALLOCATION.to_owned()],
        goal: [Goal::Go, Goal::Info, Goal::List][usize::from(choice) % 3],
        identify: choice & 2 == 0,
        writer: (choice & 4 == 0).then_some(WriterAccess {
            token: ClientToken::new([choice; 16]),
            mode: AccessMode::Write,
        }),
        ..ClientHandshakeConfig::new(export)
    };
    let cut = ask(&config, bytes.chunks(usize::from(choice) / 3 + 1));
    assert_eq!(ask(&config, std::iter::once(bytes)), cut);
});

fn ask<'a>(
    config: &ClientHandshakeConfig,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Vec<ClientEvent> {
    let mut client = ClientHandshake::new(config.clone());
    let (mut waiting, mut seen) = (Vec::new(), Vec::new());
    for piece in pieces {
        waiting.extend_from_slice(piece);
        loop {
            let taken = client.receive(&waiting);
            waiting.drain(..taken);
            let Some(event) = client.next_event() else {
                break;
            };
            if event == ClientEvent::StartTls {
                // Whether bytes behind it are seen in time is a matter of the pieces: say that they were.
                let failure = HandshakeFailure::PlaintextBehindStartTls;
                seen.push(ClientEvent::Failed(failure));
                return seen;
            }
            seen.push(event);
        }
    }
    seen
}
