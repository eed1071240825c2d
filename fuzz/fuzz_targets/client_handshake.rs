//! Any bytes of a server, whole and in pieces, against a client with each of its goals.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd_proto::{ClientEvent, ClientHandshake, ClientHandshakeConfig, Goal};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let goal = [Goal::Go, Goal::Info, Goal::List][usize::from(choice) % 3];
    let config = ClientHandshakeConfig {
        export: "disk".to_owned(),
        structured: choice & 0x80 != 0,
        goal,
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
            seen.push(event);
        }
    }
    seen
}
