//! Any bytes of a client, whole and in pieces, against a server with one export, in each mode of TLS.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd_proto::{
    BASE_ALLOCATION, CloseReason, ContextOffer, DiskIdentity, ExportInfo, Framing, HandshakeEvent,
    Refusal, ServerHandshake, ServerHandshakeConfig, TlsMode, TransmissionFlags, WriterPolicy,
};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let config = ServerHandshakeConfig {
        framing: Framing::Extended,
        tls: [TlsMode::Off, TlsMode::Optional, TlsMode::Required][usize::from(choice) % 3],
        ..ServerHandshakeConfig::default()
    };
    let cut = serve(&config, bytes.chunks(usize::from(choice) / 3 + 1));
    assert_eq!(serve(&config, std::iter::once(bytes)), cut);
});

fn serve<'a>(
    config: &ServerHandshakeConfig,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Vec<HandshakeEvent> {
    let mut server = ServerHandshake::new(config.clone());
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
            if event == HandshakeEvent::StartTls {
                // Whether bytes behind it are seen in time is a matter of the pieces: say that they were.
                seen.pop();
                seen.push(HandshakeEvent::Close(CloseReason::PlaintextBehindStartTls));
                return seen;
            }
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
        HandshakeEvent::FindExport { .. } => server.answer_export(Err(Refusal::TlsRequired)),
        HandshakeEvent::FindContexts { name, .. } if name.len() < 3 => {
            let disk = DiskIdentity {
                identity: "file:1:2".parse().ok(),
                incarnation: Some(1),
                writers: Some(WriterPolicy::One),
                is_fenced: true,
            };
            server.answer_contexts(Ok(ContextOffer {
                contexts: &[BASE_ALLOCATION, "x-fuzz:layer"],
                disk,
            }));
        }
        HandshakeEvent::FindContexts { .. } => server.answer_contexts(Err(Refusal::Unknown)),
        HandshakeEvent::List => server.answer_list(&[("disk".to_owned(), "text".to_owned())]),
        HandshakeEvent::Send(_)
        | HandshakeEvent::StartTls
        | HandshakeEvent::Finished(_)
        | HandshakeEvent::Close(_) => {}
    }
}
