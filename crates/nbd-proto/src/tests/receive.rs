//! A reply decoder, to which tests say what servers send.

use crate::{BrokenReply, ChunkFlags, Command, CommandFlags, Expected, ReplyDecoder, ReplyEvent};

pub(crate) const DONE: ChunkFlags = ChunkFlags::DONE;
pub(crate) const MORE: ChunkFlags = ChunkFlags::empty();

pub(crate) fn read(offset: u64, len: u64) -> Expected {
    Expected {
        command: Command::Read,
        flags: CommandFlags::empty(),
        offset,
        len,
    }
}

pub(crate) fn write(offset: u64, len: u64) -> Expected {
    Expected {
        command: Command::Write,
        ..read(offset, len)
    }
}

/// An event, with the payload behind it where there is one.
#[derive(Debug, PartialEq)]
pub(crate) enum DecodedItem {
    Event(ReplyEvent<&'static str>),
    Payload(Vec<u8>),
}

/// Decodes a stream that arrives in pieces of `piece` bytes.
pub(crate) fn decode(
    decoder: &mut ReplyDecoder<&'static str>,
    stream: &[u8],
    piece: usize,
) -> Result<Vec<DecodedItem>, BrokenReply> {
    let mut seen = Vec::new();
    let mut waiting: Vec<u8> = Vec::new();
    let mut payload = Vec::new();
    for part in stream.chunks(piece.max(1)) {
        waiting.extend_from_slice(part);
        loop {
            let left = usize::try_from(decoder.payload_left()).unwrap();
            let taken: Vec<u8> = waiting.drain(..left.min(waiting.len())).collect();
            decoder.payload_taken(u32::try_from(taken.len()).unwrap());
            payload.extend(taken);
            if decoder.payload_left() > 0 {
                break;
            }
            if !payload.is_empty() {
                seen.push(DecodedItem::Payload(std::mem::take(&mut payload)));
            }
            let decoded = decoder.decode(&waiting)?;
            waiting.drain(..decoded.consumed);
            match decoded.event {
                Some(event) => seen.push(DecodedItem::Event(event)),
                None => break,
            }
        }
    }
    Ok(seen)
}
