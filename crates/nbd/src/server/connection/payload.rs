//! Payload of writes: streamed into the page cache as it arrives, gathered for a disk that would
//! wait, or skipped.

use block::{IoBufs, Now, Range, WriteFlags};
use engine::Buffer;
use nbd_proto::simple_reply;
use smallvec::smallvec;

use super::inbound::{Filling, Inbound, Streaming};
use super::job::Job;
use super::outbox::Batch;
use super::requests::Begun;
use super::{Connection, End};
use crate::server::budget::Charge;

impl Connection {
    pub(super) fn write(&mut self, cookie: u64, range: Range, flags: WriteFlags) -> Begun {
        if flags.is_empty() {
            self.inbound = Inbound::Streaming(Streaming {
                cookie,
                range,
                done: 0,
            });
            return Begun::Yes;
        }
        let Some(charge) = self.charge(range.len_usize()) else {
            return Begun::NoMemory;
        };
        self.begin_filling(cookie, range, flags, charge);
        Begun::Yes
    }

    fn begin_filling(&mut self, cookie: u64, range: Range, flags: WriteFlags, charge: Charge) {
        self.inbound = Inbound::Filling(Filling {
            cookie,
            range,
            flags,
            buffer: Buffer::take(range.len_usize()),
            filled: 0,
            charge,
        });
    }

    /// Writes what is there of a payload into the page cache; gathers the rest for the disk where
    /// that would wait.
    pub(super) fn take_streaming(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<Option<usize>, End> {
        let Inbound::Streaming(streaming) = &mut self.inbound else {
            unreachable!("called in this state only")
        };
        let block_size = self.disk.geometry().block_size;
        let Some(piece) = streaming.next_piece(bytes.len(), block_size) else {
            return Ok(None);
        };
        let len = piece.len_usize();
        let (leaf, at) = block::resolve(&*self.disk, piece);
        if leaf.write_now(at, &bytes[..len]) == Now::WouldWait {
            let (cookie, rest) = (streaming.cookie, streaming.rest());
            let Some(charge) = self.charge(rest.len_usize()) else {
                self.paused = true;
                return Ok(None);
            };
            self.begin_filling(cookie, rest, WriteFlags::empty(), charge);
            return Ok(Some(0));
        }
        streaming.done += piece.len;
        if streaming.rest().is_empty() {
            let reply = simple_reply(streaming.cookie, None);
            self.inbound = Inbound::Header;
            self.push(&reply, batch)?;
        }
        Ok(Some(len))
    }

    /// Hands a gathered payload to the disk.
    pub(super) fn write_filled(&mut self) {
        let inbound = std::mem::replace(&mut self.inbound, Inbound::Header);
        let Inbound::Filling(filling) = inbound else {
            unreachable!("called in this state only")
        };
        let bytes = filling.buffer.len();
        let data: IoBufs = smallvec![filling.buffer.freeze()];
        let job = Job::Write(filling.range, data, filling.flags);
        self.push_job(filling.cookie, job, bytes, filling.charge);
    }

    pub(super) fn end_skipping(&mut self, batch: &mut Batch<'_>) -> Result<(), End> {
        let inbound = std::mem::replace(&mut self.inbound, Inbound::Header);
        let Inbound::Skipping(skipped) = inbound else {
            unreachable!("called in this state only")
        };
        self.fail(skipped.cookie, skipped.error, &skipped.text, batch)
    }
}
