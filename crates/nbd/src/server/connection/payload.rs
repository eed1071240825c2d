//! Payload of writes: streamed into the page cache as it arrives, gathered piece by piece for a
//! disk that would wait, or skipped.

use std::sync::Arc;

use block::{IoBufs, Range, TryIo, WriteFlags};
use smallvec::smallvec;

use super::inbound::{Gathered, Gathering, Inbound, Streaming};
use super::job::Job;
use super::outbox::Batch;
use super::request_context::RequestContext;
use super::split_write::SplitWrite;
use super::{Connection, ConnectionEnd};

impl Connection {
    /// Makes room for the payload of a write.
    pub(super) fn write(&mut self, context: RequestContext, range: Range, flags: WriteFlags) {
        self.inbound = if flags.is_empty() {
            Inbound::Streaming(Streaming {
                context,
                range,
                done: 0,
            })
        } else {
            Inbound::Gathering(self.gathering(context, range, flags))
        };
    }

    fn gathering(
        &mut self,
        mut context: RequestContext,
        rest: Range,
        flags: WriteFlags,
    ) -> Gathering {
        context
            .started
            .get_or_insert_with(|| self.meter.begin(context.op));
        let count = Gathering::count(rest);
        Gathering {
            context,
            rest,
            flags,
            piece: None,
            split_write: (count > 1).then(|| Arc::new(SplitWrite::new(count))),
        }
    }

    /// Writes what is there of a payload into the page cache; gathers the rest for the disk where
    /// that would wait. `None`: more must come first.
    pub(super) fn take_streaming(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<Option<usize>, ConnectionEnd> {
        let Inbound::Streaming(streaming) = &mut self.inbound else {
            unreachable!("called in this state only")
        };
        let block_size = self.disk.geometry().block_size;
        let Some(piece) = streaming.next_piece(bytes.len(), block_size) else {
            let context = &mut streaming.context;
            context
                .started
                .get_or_insert_with(|| self.meter.begin(context.op));
            return Ok(None);
        };
        let len = piece.len_usize();
        let (leaf, at) = block::resolve(&*self.disk, piece);
        if leaf.try_write(at, &bytes[..len]) == TryIo::WouldBlock {
            let (context, rest) = (streaming.context, streaming.rest());
            self.inbound = Inbound::Gathering(self.gathering(context, rest, WriteFlags::empty()));
            return Ok(Some(0));
        }
        streaming.done += piece.len;
        if streaming.rest().is_empty() {
            let context = streaming.context;
            self.inbound = Inbound::Header;
            self.succeed(&context, batch)?;
        }
        Ok(Some(len))
    }

    /// Moves what is there of a payload into its piece, and hands a full piece to the disk. `None`:
    /// more must come first, straight into the piece, or memory (`paused`).
    pub(super) fn take_gathering(&mut self, bytes: &[u8]) -> Gathers {
        let Inbound::Gathering(gathering) = &mut self.inbound else {
            unreachable!("called in this state only")
        };
        let rest = gathering.rest;
        if gathering.piece.is_none() {
            let len = Gathering::next_piece(rest).len_usize();
            let Some(charge) = self.charge(len) else {
                return Gathers::Waits;
            };
            let piece = Gathered::new(len, charge);
            // The state is the same one: nothing in between changes it.
            if let Inbound::Gathering(gathering) = &mut self.inbound {
                gathering.piece = Some(piece);
            }
        }
        let Inbound::Gathering(Gathering {
            piece: Some(piece), ..
        }) = &mut self.inbound
        else {
            unreachable!("there is a piece")
        };
        let took = piece.fill(bytes);
        if !piece.is_full() {
            return Gathers::All(took);
        }
        self.write_gathered();
        Gathers::Some(took)
    }

    /// Hands a full piece to the disk.
    fn write_gathered(&mut self) {
        let Inbound::Gathering(gathering) = &mut self.inbound else {
            unreachable!("called in this state only")
        };
        let Some(piece) = gathering.piece.take() else {
            unreachable!("called with a piece only")
        };
        let range = Gathering::next_piece(gathering.rest);
        let rest = Range::new(range.end(), gathering.rest.len - range.len);
        gathering.rest = rest;
        let data: IoBufs = smallvec![piece.buffer.freeze()];
        let job = Job::Write {
            range,
            data,
            flags: gathering.flags,
            split_write: gathering.split_write.clone(),
        };
        let context = gathering.context;
        if rest.is_empty() {
            self.inbound = Inbound::Header;
        }
        self.push_job(context, job, range.len_usize(), piece.charge);
    }

    /// Skips what is there of a refused payload. `None`: more must come.
    pub(super) fn take_skipping(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<Option<usize>, ConnectionEnd> {
        let Inbound::Skipping(skipping) = &mut self.inbound else {
            unreachable!("called in this state only")
        };
        let took = skipping.left.min(bytes.len() as u64);
        skipping.left -= took;
        if skipping.left > 0 {
            return Ok(None);
        }
        let inbound = std::mem::replace(&mut self.inbound, Inbound::Header);
        if let Inbound::Skipping(skipped) = inbound {
            self.fail(&skipped.context, skipped.error, &skipped.text, None, batch)?;
        }
        let took = usize::try_from(took).expect("no longer than the bytes at hand");
        Ok(Some(took))
    }
}

/// What became of bytes of a payload that is gathered.
pub(super) enum Gathers {
    /// So many belonged to a piece that is full now.
    Some(usize),
    /// All of them, so many, are in the piece, and it is not full.
    All(usize),
    /// There is no memory for a piece.
    Waits,
}
