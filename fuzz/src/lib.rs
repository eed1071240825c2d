//! What fuzz targets share: replies of a server, in pieces, through the client's decoder; superblocks with
//! their checksums put right.

mod superblocks;

use nbd_proto::{BrokenReply, ReplyDecoder, ReplyEvent};

pub use superblocks::decode_mended;

/// What a decoder made of a stream.
#[derive(Debug, PartialEq)]
pub struct DecodeOutcome {
    /// The events of the decoder.
    pub events: Vec<ReplyEvent<u64>>,
    /// Why it gave up.
    pub broken: Option<BrokenReply>,
    /// The tokens of the requests that are over, in the order they ended, and then of those still in flight.
    pub tokens: Vec<u64>,
}

/// Hands the pieces over one after the other, as sockets do.
pub fn receive<'a>(
    mut decoder: ReplyDecoder<u64>,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> DecodeOutcome {
    let (mut waiting, mut events, mut broken) = (Vec::new(), Vec::new(), None);
    for piece in pieces {
        waiting.extend_from_slice(piece);
        broken = take(&mut decoder, &mut waiting, &mut events).err();
        if broken.is_some() {
            break;
        }
    }
    let over = events.iter().filter_map(|event| match event {
        ReplyEvent::Done { token, .. } => Some(*token),
        _ => None,
    });
    let mut tokens: Vec<u64> = over.collect();
    tokens.extend(decoder.drain());
    DecodeOutcome {
        events,
        broken,
        tokens,
    }
}

/// All events that `waiting` gives.
fn take(
    decoder: &mut ReplyDecoder<u64>,
    waiting: &mut Vec<u8>,
    events: &mut Vec<ReplyEvent<u64>>,
) -> Result<(), BrokenReply> {
    loop {
        let left = waiting.len().min(decoder.payload_left() as usize);
        waiting.drain(..left);
        decoder.payload_taken(u32::try_from(left).expect("it was less than a u32"));
        if decoder.payload_left() > 0 {
            return Ok(());
        }
        let decoded = decoder.decode(waiting)?;
        waiting.drain(..decoded.consumed);
        match decoded.event {
            Some(event) => events.push(event),
            None => return Ok(()),
        }
    }
}
