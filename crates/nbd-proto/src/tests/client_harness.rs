//! A client that receives what a test feeds it.

use super::reply;
use crate::{
    BadReply, ClientEvent, ClientHandshake, ClientHandshakeConfig, Framing, Goal, HandshakeFailure,
    Negotiated, OptionCode, OptionReply,
};

pub(crate) fn client(goal: Goal, structured: bool) -> ClientHandshake {
    let framing = match structured {
        true => Framing::Structured,
        false => Framing::Simple,
    };
    ClientHandshake::new(ClientHandshakeConfig {
        framing,
        goal,
        ..ClientHandshakeConfig::new("disk")
    })
}

pub(crate) fn greeting(flags: u16) -> Vec<u8> {
    let mut out = b"NBDMAGICIHAVEOPT".to_vec();
    out.extend(flags.to_be_bytes());
    out
}

/// What a client sent, and how it ended.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ClientOutcome {
    pub(crate) sent: Vec<u8>,
    pub(crate) end: Option<ClientEvent>,
    pub(crate) unused: usize,
    pub(crate) tls: usize,
}

/// Feeds `input` to the client in pieces, whichever options it sends. Where TLS begins, later bytes are under
/// it.
pub(crate) fn feed(client: &mut ClientHandshake, input: &[u8], piece: usize) -> ClientOutcome {
    let mut outcome = ClientOutcome::default();
    let mut waiting: Vec<u8> = Vec::new();
    for part in input.chunks(piece.max(1)) {
        waiting.extend_from_slice(part);
        loop {
            let taken = client.receive(&waiting);
            waiting.drain(..taken);
            let mut idle = taken == 0;
            while let Some(event) = client.next_event() {
                idle = false;
                match event {
                    ClientEvent::Send(bytes) => outcome.sent.extend(bytes),
                    ClientEvent::StartTls => {
                        client.tls_started();
                        outcome.tls += 1;
                    }
                    end => outcome.end = Some(end),
                }
            }
            if idle {
                break;
            }
        }
    }
    outcome.unused = waiting.len();
    outcome
}

pub(crate) fn info_export(size: u64, flags: u16) -> Vec<u8> {
    let mut data = vec![0, 0];
    data.extend(size.to_be_bytes());
    data.extend(flags.to_be_bytes());
    reply(OptionCode::Go, OptionReply::Info, &data)
}

pub(crate) fn block_sizes(sizes: [u32; 3]) -> Vec<u8> {
    let mut data = vec![0, 3];
    sizes
        .iter()
        .for_each(|size| data.extend(size.to_be_bytes()));
    reply(OptionCode::Go, OptionReply::Info, &data)
}

pub(crate) fn ack() -> Vec<u8> {
    reply(OptionCode::Go, OptionReply::Ack, &[])
}

/// A client without structured replies receives a greeting and `replies` to its `GO`.
pub(crate) fn feed_replies(replies: &[Vec<u8>]) -> ClientOutcome {
    let mut input = greeting(3);
    replies.iter().for_each(|reply| input.extend(reply));
    feed(&mut client(Goal::Go, false), &input, 1000)
}

pub(crate) fn finished(outcome: ClientOutcome) -> Negotiated {
    match outcome.end {
        Some(ClientEvent::Finished(negotiated)) => *negotiated,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn broken(outcome: ClientOutcome) -> BadReply {
    match outcome.end {
        Some(ClientEvent::Failed(HandshakeFailure::BrokenReply(bad))) => bad,
        other => panic!("{other:?}"),
    }
}
