//! A disk as the one file of a FUSE filesystem, for a loop device to stand on.
//!
//! [`serve`] is one task: it takes every pending request, submits it to the disk, and replies as the disk
//! completes, in any order. All requests in flight live in that task, so dropping it ends them, closes the
//! channel, and the kernel fails what it still waits for: that is how a disk whose server is gone is cut off.
//!
//! # Invariants
//!
//! * At most [`IN_FLIGHT_MAX`] requests are taken before one is answered; the rest waits in the kernel.
//! * Every request that wants a reply gets one: a request that cannot be decoded gets EIO, and where the kernel
//!   does not take a reply the server ends, which aborts the connection and so ends the request.
//! * A flush is submitted to the disk after every write that was answered before it (the kernel sends
//!   it then), and no failure is answered as success.
//!
//! # What it does not do
//!
//! No cache, no directory listing, no file but the disk.

#[cfg(test)]
mod channel_tests;
mod connect;
mod connection;
mod growth;
mod namespace;
mod plan;
mod proto;
mod reply;
#[cfg(test)]
mod tests;

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;

use block::{IoBufs, IoError, Node, Operation, Range, TryIo};
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rustix::buffer::spare_capacity;
use smallvec::SmallVec;
use tokio::io::unix::AsyncFd;

use crate::faults::Faults;
pub use connect::FuseError;
pub(crate) use connect::{mount, open_channel, open_file};
pub(crate) use connection::{abort_connection, connection_of, is_backed_by};
pub(crate) use growth::SizeFollower;
pub(crate) use namespace::pin_mount_namespace;
use plan::{DiskRequest, RequestPlan, errno_of};

/// Requests under way in one server.
const IN_FLIGHT_MAX: usize = 1024;
/// Requests taken in one go before answers get their turn.
const BATCH_MAX: usize = 64;

type PendingReply = Pin<Box<dyn Future<Output = Result<(), FuseError>> + Send>>;

/// What a server needs.
#[derive(Debug, Clone)]
pub(crate) struct FuseService {
    /// The channel, from [`open_channel`].
    pub(crate) channel: Arc<OwnedFd>,
    /// The disk.
    pub(crate) disk: Node,
    /// The file's name.
    pub(crate) name: String,
    /// Where failures are noted.
    pub(crate) faults: Arc<Faults>,
}

/// Whether a server goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelStatus {
    /// Something may wait still.
    More,
    /// Nothing waits.
    Empty,
    /// The filesystem has ended.
    End,
}

/// Serves until the filesystem ends, when no process has the file open.
///
/// # Errors
/// [`FuseError::Channel`].
pub(crate) async fn serve(service: FuseService) -> Result<(), FuseError> {
    let channel = watched(service.channel.clone()).map_err(FuseError::Channel)?;
    let mut server = Server::new(service);
    loop {
        let room = server.in_flight.len() < IN_FLIGHT_MAX;
        tokio::select! {
            ready = channel.readable(), if room => {
                let mut ready = ready.map_err(FuseError::Channel)?;
                match server.take_batch()? {
                    ChannelStatus::More => {}
                    ChannelStatus::Empty => ready.clear_ready(),
                    ChannelStatus::End => return Ok(()),
                }
            }
            Some(answered) = server.in_flight.next() => answered?,
        }
        server.answer_ready().await?;
    }
}

/// The descriptor stays open and the same as long as the shared owner lives, and that is inside.
#[expect(
    deprecated,
    reason = "its successor is unsafe for owners that may swap their descriptor; a shared OwnedFd cannot"
)]
fn watched(channel: Arc<OwnedFd>) -> std::io::Result<AsyncFd<Arc<OwnedFd>>> {
    AsyncFd::new(channel)
}

struct Server {
    service: FuseService,
    in_flight: FuturesUnordered<PendingReply>,
    request: Vec<u8>,
    scratch: Vec<u8>,
}

impl Server {
    fn new(service: FuseService) -> Self {
        Self {
            service,
            in_flight: FuturesUnordered::new(),
            request: Vec::with_capacity(reply::READ_BUFFER_LEN),
            scratch: Vec::new(),
        }
    }

    /// Answers what became ready meanwhile without going back to the poller for each.
    async fn answer_ready(&mut self) -> Result<(), FuseError> {
        let in_flight = &mut self.in_flight;
        std::future::poll_fn(|context| {
            for _ in 0..BATCH_MAX {
                match in_flight.poll_next_unpin(context) {
                    std::task::Poll::Ready(Some(Ok(()))) => {}
                    std::task::Poll::Ready(Some(Err(e))) => return std::task::Poll::Ready(Err(e)),
                    std::task::Poll::Ready(None) | std::task::Poll::Pending => break,
                }
            }
            std::task::Poll::Ready(Ok(()))
        })
        .await
    }

    fn take_batch(&mut self) -> Result<ChannelStatus, FuseError> {
        for _ in 0..BATCH_MAX {
            match self.take_one()? {
                ChannelStatus::More if self.in_flight.len() < IN_FLIGHT_MAX => {}
                taken => return Ok(taken),
            }
        }
        Ok(ChannelStatus::More)
    }

    fn take_one(&mut self) -> Result<ChannelStatus, FuseError> {
        use rustix::io::Errno;

        let mut bytes = std::mem::take(&mut self.request);
        bytes.clear();
        let taken = match rustix::io::read(&*self.service.channel, spare_capacity(&mut bytes)) {
            Ok(0) | Err(Errno::NODEV) => Ok(ChannelStatus::End),
            Ok(_) => self.take(&bytes),
            Err(Errno::AGAIN) => Ok(ChannelStatus::Empty),
            // The request was withdrawn between its announcement and the read.
            Err(Errno::INTR | Errno::NOENT) => Ok(ChannelStatus::More),
            Err(e) => Err(FuseError::Channel(e.into())),
        };
        self.request = bytes;
        taken
    }

    fn take(&mut self, bytes: &[u8]) -> Result<ChannelStatus, FuseError> {
        let request = match proto::decode(bytes) {
            Ok(request) => request,
            Err(e) => {
                tracing::error!("not a request: {e}");
                let unique = proto::unique(bytes).ok_or(FuseError::Request(e))?;
                refuse(&self.service.channel, unique, plan::errno::EIO)?;
                return Ok(ChannelStatus::More);
            }
        };
        let unique = request.unique;
        match plan::plan(&request, self.service.disk.geometry(), &self.service.name) {
            RequestPlan::Answer(body) => answer(&self.service.channel, unique, &[&body])?,
            RequestPlan::Refuse(errno) => refuse(&self.service.channel, unique, errno)?,
            RequestPlan::Disk(act) => self.act(unique, act)?,
            RequestPlan::Nothing => {}
            RequestPlan::End => {
                answer(&self.service.channel, unique, &[])?;
                return Ok(ChannelStatus::End);
            }
        }
        Ok(ChannelStatus::More)
    }

    fn act(&mut self, unique: u64, act: DiskRequest<'_>) -> Result<(), FuseError> {
        let service = self.service.clone();
        match act {
            DiskRequest::Read(range) => {
                if !self.try_read(unique, range)? {
                    self.in_flight.push(Box::pin(async move {
                        let result = service.disk.read(range).await;
                        answer_read(&service, unique, range, result)
                    }));
                }
            }
            DiskRequest::Write(range, data) => {
                let len = u32::try_from(data.len()).expect("a request is 1 MiB at most");
                let data = IoBufs::from_iter([Bytes::copy_from_slice(data)]);
                self.in_flight.push(Box::pin(async move {
                    let flags = block::WriteFlags::empty();
                    let result = service.disk.write(range, data, flags).await;
                    service.note(Operation::Write, Some(range), &result);
                    answer_done(&service, unique, result, &reply::written(len))
                }));
            }
            DiskRequest::Flush => self.in_flight.push(Box::pin(async move {
                let result = service.disk.flush().await;
                service.note(Operation::Flush, None, &result);
                answer_done(&service, unique, result, &[])
            })),
            DiskRequest::Zero(range, flags) => self.in_flight.push(Box::pin(async move {
                let result = service.disk.write_zeroes(range, flags).await;
                service.note(Operation::WriteZeroes, Some(range), &result);
                answer_done(&service, unique, result, &[])
            })),
        }
        Ok(())
    }

    /// Answers a read that need not wait; whether it did.
    fn try_read(&mut self, unique: u64, range: Range) -> Result<bool, FuseError> {
        let len = range.len_usize();
        if self.scratch.len() < len {
            self.scratch.resize(len, 0);
        }
        let into = &mut self.scratch[..len];
        match self.service.disk.try_read(range, into) {
            TryIo::Done => {
                self.service.faults.passed(Operation::Read, Some(range));
                answer(&self.service.channel, unique, &[into])?;
                Ok(true)
            }
            TryIo::WouldBlock => Ok(false),
        }
    }
}

impl FuseService {
    /// Notes how a request ended, for `status`.
    fn note<T>(&self, operation: Operation, range: Option<Range>, result: &Result<T, IoError>) {
        match result {
            Ok(_) => self.faults.passed(operation, range),
            Err(e) => self.faults.note(e),
        }
    }
}

fn answer_read(
    service: &FuseService,
    unique: u64,
    range: Range,
    result: Result<IoBufs, IoError>,
) -> Result<(), FuseError> {
    service.note(Operation::Read, Some(range), &result);
    match result {
        Ok(bufs) => {
            let parts: SmallVec<[&[u8]; 4]> = bufs.iter().map(|b| &b[..]).collect();
            answer(&service.channel, unique, &parts)
        }
        Err(e) => refuse(&service.channel, unique, errno_of(e.errno)),
    }
}

fn answer_done(
    service: &FuseService,
    unique: u64,
    result: Result<(), IoError>,
    body: &[u8],
) -> Result<(), FuseError> {
    match result {
        Ok(()) => answer(&service.channel, unique, &[body]),
        Err(e) => refuse(&service.channel, unique, errno_of(e.errno)),
    }
}

fn refuse(channel: &OwnedFd, unique: u64, errno: i32) -> Result<(), FuseError> {
    let header = reply::header(unique, errno, 0);
    send(channel, &[IoSlice::new(&header)]).map_err(|e| FuseError::Reply(e.into()))
}

/// An answer that the kernel does not take becomes a refusal; where it takes neither the server must end.
fn answer(channel: &OwnedFd, unique: u64, parts: &[&[u8]]) -> Result<(), FuseError> {
    let len = parts.iter().map(|p| p.len()).sum();
    let header = reply::header(unique, 0, len);
    let mut slices: SmallVec<[IoSlice<'_>; 4]> = SmallVec::new();
    slices.push(IoSlice::new(&header));
    slices.extend(
        parts
            .iter()
            .filter(|p| !p.is_empty())
            .map(|p| IoSlice::new(p)),
    );
    send(channel, &slices).or_else(|e| {
        tracing::error!("an answer was not taken: {e}");
        refuse(channel, unique, plan::errno::EIO)
    })
}

/// The kernel takes an answer whole, or has given the request up.
fn send(channel: &OwnedFd, slices: &[IoSlice<'_>]) -> rustix::io::Result<()> {
    use rustix::io::Errno;
    loop {
        match rustix::io::writev(channel, slices) {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}
