//! The export as a [`BlockDevice`]: what it can do, and how it does what the server cannot.
//!
//! Unlike other nodes it may grow in place: a reconnect can find a larger export, and a caller that holds
//! the disk ([`BlockDevice::geometry`] called again) may use all of it. A caller that keeps a size of its
//! own learns of the new one by [`BlockDevice::revalidate`], as with any disk.

use std::sync::{Arc, LazyLock};

use block::{
    BlockDevice, Errno, Extent, ExtentKind, Geometry, Identity, IoBufs, IoError, IoFuture, Node,
    Operation, Range, Support, WriteFlags, merge_extents,
};
use bytes::Bytes;
use nbd_proto::{CommandFlags, ExportInfo, TransmissionFlags};

use crate::client::session::work::{Response, Work};
use crate::client::{Client, limits};

/// Zeroes written at once where the server cannot zero.
const ZEROES: usize = 256 << 10;
static ZERO_BYTES: LazyLock<Bytes> = LazyLock::new(|| vec![0; ZEROES].into());

/// What an export is as a disk.
pub(super) fn geometry(export: &ExportInfo, read_only: bool) -> Geometry {
    let has = |flag| export.flags.contains(flag);
    let native = |flag| {
        if has(flag) {
            Support::Native
        } else {
            Support::None
        }
    };
    let flush = native(TransmissionFlags::SEND_FLUSH);
    Geometry {
        size: block::whole_blocks(export.size, export.block_size_min),
        block_size: export.block_size_min,
        preferred_block_size: export.block_size_preferred,
        read_only: read_only || has(TransmissionFlags::READ_ONLY),
        rotational: has(TransmissionFlags::ROTATIONAL),
        flush,
        fua: match native(TransmissionFlags::SEND_FUA) {
            Support::None if flush.any() => Support::Emulated,
            fua => fua,
        },
        trim: native(TransmissionFlags::SEND_TRIM),
        write_zeroes: match native(TransmissionFlags::SEND_FAST_ZERO) {
            Support::Native => Support::Native,
            _ => Support::Emulated,
        },
    }
}

impl Client {
    async fn bytes(&self, range: Range) -> Result<IoBufs, IoError> {
        match self.request(Work::Read, range).await? {
            Response::Bytes(bytes) => Ok(bytes),
            Response::Nothing | Response::Extents(_) => panic!("a read brings bytes"),
        }
    }

    /// Sends further requests from where a reply ends, until the range is covered, or the answer is as long as it may
    /// be: of the rest nothing is known but that it can be read.
    async fn all_extents(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        let mut all: Vec<Extent> = Vec::new();
        let mut offset = range.offset;
        while offset < range.end() {
            let rest = Range::new(offset, range.end() - offset);
            let more = match self.knows_extents() && all.len() < limits::EXTENTS_MAX {
                true => self.request(Work::Extents, rest).await?,
                false => Response::Nothing,
            };
            let Response::Extents(more) = more else {
                let kind = ExtentKind::Data;
                all.push(Extent { range: rest, kind });
                break;
            };
            offset = more.last().map_or(range.end(), |last| last.range.end());
            all.extend(more);
        }
        Ok(merge_extents(all))
    }

    async fn change(&self, work: Work, range: Range) -> Result<(), IoError> {
        self.request(work, range).await.map(drop)
    }

    /// Ranges are checked at the export; this is the assertion every node makes.
    fn assert_range(&self, range: Range) {
        if let Err(e) = range.check(self.geometry().size, self.geometry().block_size) {
            panic!("{}: unchecked request: {e}", self.target());
        }
    }

    fn refuses(&self, errno: Errno, operation: Operation, range: Range) -> IoError {
        let why = match errno {
            Errno::NotPermitted => "the export is read-only",
            _ => "the server does not offer this",
        };
        IoError::new(errno, operation, Some(range)).because(format!("{}: {why}", self.target()))
    }

    /// Carries out a change, and makes it durable where the server cannot do both at once.
    async fn change_durably(&self, work: Work, range: Range, fua: bool) -> Result<(), IoError> {
        self.change(work, range).await?;
        if fua && self.geometry().fua == Support::Emulated {
            self.change(Work::Flush, Range::new(0, 0)).await?;
        }
        Ok(())
    }

    async fn write_zeroes_out(&self, range: Range, fua: bool) -> Result<(), IoError> {
        let block = u64::from(self.geometry().block_size);
        let step = (ZEROES as u64 / block * block).max(block);
        let mut offset = range.offset;
        while offset < range.end() {
            let piece = Range::new(offset, step.min(range.end() - offset));
            let data = IoBufs::from_iter([ZERO_BYTES.slice(..piece.len_usize())]);
            let flags = self.command_flags(fua, WriteFlags::empty());
            self.change(Work::Write { data, flags }, piece).await?;
            offset += piece.len;
        }
        if fua && self.geometry().fua == Support::Emulated {
            self.change(Work::Flush, Range::new(0, 0)).await?;
        }
        Ok(())
    }

    fn command_flags(&self, fua: bool, flags: WriteFlags) -> CommandFlags {
        let mut command = CommandFlags::empty();
        let native = fua && self.geometry().fua == Support::Native;
        command.set(CommandFlags::FUA, native);
        let no_hole = flags.contains(WriteFlags::NO_HOLE);
        command.set(CommandFlags::NO_HOLE, no_hole);
        let fast = flags.contains(WriteFlags::FAST_ZERO);
        command.set(CommandFlags::FAST_ZERO, fast);
        command
    }
}

impl BlockDevice for Client {
    fn geometry(&self) -> &Geometry {
        self.geometry_now()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.assert_range(range);
        if range.is_empty() {
            return Box::pin(async { Ok(IoBufs::new()) });
        }
        Box::pin(self.bytes(range))
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.assert_range(range);
        let len: usize = data.iter().map(Bytes::len).sum();
        assert_eq!(len, range.len_usize(), "the data is as long as its range");
        if self.geometry().read_only {
            let error = self.refuses(Errno::NotPermitted, Operation::Write, range);
            return Box::pin(async { Err(error) });
        }
        if range.is_empty() {
            return Box::pin(async { Ok(()) });
        }
        let fua = flags.contains(WriteFlags::FUA);
        let flags = self.command_flags(fua, WriteFlags::empty());
        Box::pin(self.change_durably(Work::Write { data, flags }, range, fua))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        let nothing = Range::new(0, 0);
        if !self.geometry().flush.any() {
            let mut error = self.refuses(Errno::NotSupported, Operation::Flush, nothing);
            error.range = None;
            return Box::pin(async { Err(error) });
        }
        Box::pin(self.change(Work::Flush, nothing))
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.assert_range(range);
        let fast = flags.contains(WriteFlags::FAST_ZERO);
        let refusal = if self.geometry().read_only {
            Some(Errno::NotPermitted)
        } else if fast && self.geometry().write_zeroes != Support::Native {
            Some(Errno::NotSupported)
        } else {
            None
        };
        if let Some(errno) = refusal {
            let error = self.refuses(errno, Operation::WriteZeroes, range);
            return Box::pin(async { Err(error) });
        }
        if range.is_empty() {
            return Box::pin(async { Ok(()) });
        }
        let fua = flags.contains(WriteFlags::FUA);
        let asks = TransmissionFlags::SEND_WRITE_ZEROES;
        if !self.export().flags.contains(asks) {
            return Box::pin(self.write_zeroes_out(range, fua));
        }
        let flags = self.command_flags(fua, flags);
        Box::pin(self.change_durably(Work::WriteZeroes { flags }, range, fua))
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.assert_range(range);
        let refusal = if self.geometry().read_only {
            Some(Errno::NotPermitted)
        } else if self.geometry().trim.any() {
            None
        } else {
            Some(Errno::NotSupported)
        };
        if let Some(errno) = refusal {
            let error = self.refuses(errno, Operation::Trim, range);
            return Box::pin(async { Err(error) });
        }
        if range.is_empty() {
            return Box::pin(async { Ok(()) });
        }
        Box::pin(self.change(Work::Trim, range))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.assert_range(range);
        Box::pin(self.all_extents(range))
    }

    fn connection_epoch(&self) -> u64 {
        self.epoch()
    }

    fn revalidate(&self) -> IoFuture<'_, Option<Node>> {
        Box::pin(async {
            let measured = self.refreshed().await;
            let measured = measured.map_err(|why| {
                let failure = IoError::new(Errno::Io, Operation::Measure, None);
                failure.because(why)
            })?;
            Ok(measured.map(|client| -> Node { Arc::new(client) }))
        })
    }

    fn identity(&self) -> Option<Identity> {
        self.disk_identity()
            .identity
            .as_ref()
            .and_then(|id| Identity::parse(id.as_str()))
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async {
            self.settled().await;
            Ok(())
        })
    }
}
