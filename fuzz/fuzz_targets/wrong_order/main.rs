//! Valid frames in wrong orders: each byte of the input is a frame, sent to one of the state machines.
//! What the machine then claims (TLS, framing, contexts, success of a read) must follow from the input.
#![no_main]

mod client;
mod server;
mod transmission;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (mode, script) = input;
    match mode % 3 {
        0 => server::play(mode / 3, script),
        1 => client::play(mode / 3, script),
        _ => transmission::play(mode / 3, script),
    }
});

/// A name or query behind its length.
fn counted(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).expect("a short text");
    [&len.to_be_bytes()[..], text.as_bytes()].concat()
}
