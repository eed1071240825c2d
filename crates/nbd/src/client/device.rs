//! [`Client`]: the export as a block device. A thin front of the session.

use std::sync::Arc;
use std::time::Duration;

use block::{
    BlockDevice, Errno, Extent, ExtentKind, Geometry, IoBufs, IoError, IoFuture, Operation, Range,
    Support, WriteFlags, merge_extents,
};
use bytes::Bytes;
use nbd_proto::{CommandFlags, ExportInfo, TransmissionFlags};
use tokio::sync::{mpsc, oneshot};

use crate::client::growth::whole_blocks;
use crate::client::session::work::{Brought, Message, Submission, Work};
use crate::client::session::{Session, Shared, connect_all};
use crate::client::{Changed, ClientConfig, ClientError, ClientHealth, Target, describe, limits};

/// Zeroes written at once where the server cannot zero.
const ZEROES: usize = 256 << 10;
static ZERO_PAGE: [u8; ZEROES] = [0; ZEROES];

/// A remote export. The requests of any number of callers go over its connections together.
///
/// Dropping the last one closes the connections; [`Client::close`] also waits for it.
#[derive(Debug)]
pub struct Client {
    target: Target,
    export: ExportInfo,
    request_timeout: Duration,
    /// Held while the size is asked for: one question at a time.
    refreshing: tokio::sync::Mutex<()>,
    inbox: mpsc::Sender<Message>,
    shared: Arc<Shared>,
}

impl Client {
    /// Connects to `target`. Only inside [`engine::run`]; the connections live on this core.
    ///
    /// # Errors
    /// [`ClientError`], if the first connection cannot be made. That is tried once: waiting for a
    /// server is for those that were there.
    pub async fn connect(target: Target, config: ClientConfig) -> Result<Arc<Self>, ClientError> {
        let config = ClientConfig {
            connections: config.connections.clamp(1, limits::CONNECTIONS_MAX),
            in_flight_max: config.in_flight_max.clamp(1, limits::IN_FLIGHT_MAX),
            ..config
        };
        let dialed = connect_all(&target, &config).await?;
        let export = dialed[0].export().clone();
        let (sender, inbox) = mpsc::channel(limits::INBOX_MAX);
        let geometry = geometry(&export, config.read_only);
        let shared = Arc::new(Shared::new(geometry));
        let client = Self {
            target: target.clone(),
            request_timeout: config.request_timeout,
            refreshing: tokio::sync::Mutex::default(),
            export,
            inbox: sender,
            shared: Arc::clone(&shared),
        };
        let session = Session::new(target, config, dialed, inbox, shared);
        drop(engine::spawn(session.run()));
        Ok(Arc::new(client))
    }

    /// What the server said of the export when it was first reached.
    #[must_use]
    pub fn export(&self) -> &ExportInfo {
        &self.export
    }

    /// Where it is.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// How the connections are.
    #[must_use]
    pub fn health(&self) -> ClientHealth {
        self.shared.health()
    }

    /// Finishes what is in flight, says goodbye to the server and ends the connections. Requests
    /// fail from now on. What must be durable is flushed before, by the caller.
    pub async fn close(&self) {
        let (done, over) = oneshot::channel();
        if self.inbox.send(Message::Close(done)).await.is_ok() {
            // The session drops its end, which is the answer.
            drop(over.await);
        }
    }

    /// Asks the server for the export's size, and returns it. Where it has grown, the connections
    /// are made anew, because a server may hold an old one to the old size, and
    /// [`BlockDevice::geometry`] grows. Requests go on meanwhile.
    ///
    /// # Errors
    /// [`ClientError::Changed`] if the export has shrunk: nothing changes, what is beyond its end
    /// fails at the server. Else why the server could not be asked, or not be reached anew.
    pub async fn refresh_size(&self) -> Result<u64, ClientError> {
        let _one_at_a_time = self.refreshing.lock().await;
        let described = describe(&self.target, self.request_timeout).await?;
        let was = self.geometry().size;
        let is = whole_blocks(described.export.size, self.geometry().block_size);
        let target = self.target.clone();
        if is < was {
            let changed = Changed::Size { was, is };
            return Err(ClientError::Changed { target, changed });
        }
        if is == was {
            return Ok(was);
        }
        let (renewed, answer) = oneshot::channel();
        // A closed inbox drops the message, and with it the other end of the answer.
        drop(self.inbox.send(Message::Renew(renewed)).await);
        let shut_down = Err(ClientError::ShutDown { target });
        answer.await.unwrap_or(shut_down)
    }

    /// Whether the server tells of holes and zeroes. Where it does not, all is data.
    #[must_use]
    pub fn knows_extents(&self) -> bool {
        self.shared.tells_extents()
    }

    async fn request(&self, work: Work, range: Range) -> Result<Brought, IoError> {
        let operation = work.operation();
        let (answer, answered) = oneshot::channel();
        let submission = Submission {
            work,
            range,
            answer,
        };
        let sent = self.inbox.send(Message::Request(submission)).await;
        if sent.is_ok()
            && let Ok(result) = answered.await
        {
            return result;
        }
        let target = self.target.clone();
        let error = IoError::new(Errno::ShuttingDown, operation, Some(range));
        Err(error.because(ClientError::ShutDown { target }))
    }

    async fn bytes(&self, range: Range) -> Result<IoBufs, IoError> {
        match self.request(Work::Read, range).await? {
            Brought::Bytes(bytes) => Ok(bytes),
            Brought::Nothing | Brought::Extents(_) => panic!("a read brings bytes"),
        }
    }

    /// Asks on where an answer ends, until the range is covered, or the answer is as long as it may
    /// be: of the rest nothing is known but that it can be read.
    async fn all_extents(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        let mut all: Vec<Extent> = Vec::new();
        let mut offset = range.offset;
        while offset < range.end() {
            let rest = Range::new(offset, range.end() - offset);
            let more = match self.knows_extents() && all.len() < limits::EXTENTS_MAX {
                true => self.request(Work::Extents, rest).await?,
                false => Brought::Nothing,
            };
            let Brought::Extents(more) = more else {
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
            panic!("{}: unchecked request: {e}", self.target);
        }
    }

    fn refuses(&self, errno: Errno, operation: Operation, range: Range) -> IoError {
        let why = match errno {
            Errno::NotPermitted => "the export is read-only",
            _ => "the server does not offer this",
        };
        IoError::new(errno, operation, Some(range)).because(format!("{}: {why}", self.target))
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
            let data = IoBufs::from_iter([Bytes::from_static(&ZERO_PAGE[..piece.len_usize()])]);
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

/// What an export is as a disk.
fn geometry(export: &ExportInfo, read_only: bool) -> Geometry {
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
        size: whole_blocks(export.size, export.block_size_min),
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

impl BlockDevice for Client {
    fn geometry(&self) -> &Geometry {
        self.shared.geometry()
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
        if !self.export.flags.contains(asks) {
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

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async {
            let (done, over) = oneshot::channel();
            if self.inbox.send(Message::Settle(done)).await.is_ok() {
                // The session drops its end, which is the answer.
                drop(over.await);
            }
            Ok(())
        })
    }
}
