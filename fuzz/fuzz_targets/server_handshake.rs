//! Any bytes of a client, whole and in pieces, against a server with one export.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd_proto::{
    ExportInfo, HandshakeEvent, Refusal, ServerHandshake, ServerHandshakeConfig, TransmissionFlags,
};

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    let cut = serve(bytes.chunks(usize::from(piece) + 1));
    assert_eq!(serve(std::iter::once(bytes)), cut);
});

fn serve<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<HandshakeEvent> {
    let mut server = ServerHandshake::new(ServerHandshakeConfig::default());
    let (mut waiting, mut seen) = (Vec::new(), Vec::new());
    for piece in pieces {
        waiting.extend_from_slice(piece);
        loop {
            let taken = server.receive(&waiting);
            waiting.drain(..taken);
            let Some(event) = server.next_event() else {
                break;
            };
            answer(&mut server, &event);
            seen.push(event);
        }
    }
    seen
}

fn answer(server: &mut ServerHandshake, event: &HandshakeEvent) {
    match event {
        HandshakeEvent::FindExport { name, .. } if name.len() < 3 => {
            let flags = TransmissionFlags::SEND_DF;
            server.answer_export(Ok(ExportInfo::new(name.clone(), 1 << 20, flags)));
        }
        HandshakeEvent::FindExport { .. } => server.answer_export(Err(Refusal::Unknown)),
        HandshakeEvent::List => server.answer_list(&[("disk".to_owned(), "text".to_owned())]),
        HandshakeEvent::Send(_) | HandshakeEvent::Finished(_) | HandshakeEvent::Close(_) => {}
    }
}
