//! Requests of callers, and the parts in which they go over the wire. Pure.

use std::time::Instant;

use block::{Extent, IoBufs, IoError, Operation, Range};
use bytes::Bytes;
use nbd_proto::{Command, CommandFlags};
use tokio::sync::oneshot;

use crate::client::session::allocation::Allocation;
use crate::client::session::fill::ReadBuffer;
use crate::client::{ClientError, limits};

/// What a request brought.
#[derive(Debug)]
pub(crate) enum Response {
    /// That it was done.
    Nothing,
    /// Bytes of a read.
    Bytes(IoBufs),
    /// Extents, from the beginning of the range on, perhaps not to its end.
    Extents(Vec<Extent>),
}

/// Where a caller waits.
pub(crate) type Answer = oneshot::Sender<Result<Response, IoError>>;

/// Where a caller waits that requested new connections.
pub(crate) type Renewed = oneshot::Sender<Result<u64, ClientError>>;

/// A caller that waits for new connections.
#[derive(Debug)]
pub(crate) struct Renewal {
    /// Since when.
    pub(crate) since: Instant,
    /// Where it waits.
    pub(crate) answer_to: Renewed,
}

/// Messages from the handles of a client to its session.
#[derive(Debug)]
pub(crate) enum Message {
    /// Carry this out.
    Request(Submission),
    /// Drop the sender when everything that changes the disk and was submitted before is over.
    Settle(oneshot::Sender<()>),
    /// Make the connections again, in good order, and answer with the export's size then.
    Renew(Renewed),
    /// Finish what is in flight, say goodbye and drop the sender.
    Close(oneshot::Sender<()>),
}

/// One request of a caller.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) work: Work,
    pub(crate) range: Range,
    pub(crate) answer: Answer,
}

/// What a caller wants done with a range.
#[derive(Debug)]
pub(crate) enum Work {
    Read,
    Write { data: IoBufs, flags: CommandFlags },
    WriteZeroes { flags: CommandFlags },
    Trim,
    Extents,
    Flush,
}

impl Work {
    pub(crate) const fn operation(&self) -> Operation {
        match self {
            Self::Read => Operation::Read,
            Self::Write { .. } => Operation::Write,
            Self::WriteZeroes { .. } => Operation::WriteZeroes,
            Self::Trim => Operation::Trim,
            Self::Extents => Operation::Extents,
            Self::Flush => Operation::Flush,
        }
    }

    /// Whether a caller relies on its effect: it changes the disk, or makes changes durable.
    pub(crate) const fn is_change_or_flush(&self) -> bool {
        !matches!(self, Self::Read | Self::Extents)
    }

    /// Whether it can land late.
    pub(crate) const fn changes(&self) -> bool {
        !matches!(self, Self::Read | Self::Extents | Self::Flush)
    }
}

/// Longest parts, bytes; multiples of the export's block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartLimits {
    /// Of a read or write.
    pub(crate) payload: u64,
    /// Of what may move every byte all the same, on the server's side.
    pub(crate) range: u64,
    /// Of what does not: as far as lengths on the wire go.
    pub(crate) reach: u64,
    /// The export's blocks, bytes.
    pub(crate) block_size: u32,
}

impl PartLimits {
    /// For an export with blocks of `min` bytes that takes payloads of `max`, and lengths of 64 bits
    /// if `wide`.
    pub(crate) fn new(min: u32, max: u32, wide: bool) -> Self {
        let whole = |len: u32| block::whole_blocks(u64::from(len), min).max(1);
        let range = whole(limits::RANGE_MAX);
        Self {
            payload: whole(max.min(limits::REQUEST_MAX)),
            range,
            reach: if wide { limits::REACH_MAX } else { range },
            block_size: min,
        }
    }

    pub(crate) const fn of(&self, work: &Work) -> u64 {
        match work {
            Work::Read | Work::Write { .. } => self.payload,
            Work::WriteZeroes { flags } if flags.contains(CommandFlags::FAST_ZERO) => self.reach,
            Work::Trim | Work::Extents => self.reach,
            Work::WriteZeroes { .. } | Work::Flush => self.range,
        }
    }
}

/// What a part belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A caller's request; its part number `nth`.
    Job { key: usize, nth: usize },
    /// The journal: written again after a reconnect.
    Replay,
    /// The journal: it is nearly full.
    OwnFlush,
    /// The session itself: it looks at the disk behind a new connection, range number `nth`.
    Verification { connection: usize, nth: usize },
}

/// What one request on the wire carries.
#[derive(Debug)]
pub(crate) enum Body {
    Read(ReadBuffer),
    Write(IoBufs),
    WriteZeroes,
    Trim,
    Extents(Allocation),
    Flush { mark: FlushMark },
}

/// What a flush covers, taken when it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FlushMark {
    /// Of the journal.
    pub(crate) journal: u64,
    /// Of what identifies the disk's content.
    pub(crate) content: Option<u64>,
}

/// One request on the wire.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) owner: Owner,
    pub(crate) range: Range,
    pub(crate) flags: CommandFlags,
    pub(crate) body: Body,
    /// The server's text about its failure.
    pub(crate) server_text: Option<String>,
    /// Its bucket in the connection's [`DeadlineBuckets`](super::deadlines::DeadlineBuckets).
    pub(crate) age: u64,
    /// Its number in the [`FlushOrder`](super::flush_order::FlushOrder).
    pub(crate) flush_number: Option<u64>,
    /// When its first connection was lost.
    pub(crate) lost_since: Option<Instant>,
}

impl Part {
    /// A part that was not sent yet.
    pub(crate) const fn new(owner: Owner, range: Range, flags: CommandFlags, body: Body) -> Self {
        Self {
            owner,
            range,
            flags,
            body,
            server_text: None,
            age: 0,
            flush_number: None,
            lost_since: None,
        }
    }

    pub(crate) const fn command(&self) -> Command {
        match self.body {
            Body::Read(_) => Command::Read,
            Body::Write(_) => Command::Write,
            Body::WriteZeroes => Command::WriteZeroes,
            Body::Trim => Command::Trim,
            Body::Extents(_) => Command::BlockStatus,
            Body::Flush { .. } => Command::Flush,
        }
    }

    /// Bytes it moves over the wire, about.
    pub(crate) const fn payload(&self) -> u64 {
        match self.body {
            Body::Read(_) | Body::Write(_) => self.range.len,
            Body::WriteZeroes | Body::Trim | Body::Extents(_) | Body::Flush { .. } => 0,
        }
    }

    /// Whether it can overwrite what was written before.
    pub(crate) const fn changes(&self) -> bool {
        matches!(self.body, Body::Write(_) | Body::WriteZeroes | Body::Trim)
    }

    /// Whether it makes data durable.
    pub(crate) const fn flushes(&self) -> bool {
        matches!(self.body, Body::Flush { .. }) || self.flags.contains(CommandFlags::FUA)
    }

    /// Whether it may take as long as the server's disk needs for all that its caches hold, or for a
    /// range of any length.
    pub(crate) fn may_take_long(&self) -> bool {
        match self.body {
            Body::Flush { .. } | Body::Trim => true,
            Body::WriteZeroes => !self.flags.contains(CommandFlags::FAST_ZERO),
            Body::Write(_) => self.flags.contains(CommandFlags::FUA),
            Body::Read(_) | Body::Extents(_) => false,
        }
    }

    /// Ready to be sent once more.
    pub(crate) fn again(mut self) -> Self {
        self.server_text = None;
        match &mut self.body {
            Body::Read(buffer) => *buffer = ReadBuffer::new(self.range),
            Body::Extents(allocation) => allocation.again(),
            Body::Write(_) | Body::WriteZeroes | Body::Trim | Body::Flush { .. } => {}
        }
        self
    }
}

/// Takes the first `len` bytes out of `data`, sharing them.
pub(crate) fn take_front(data: &mut IoBufs, len: usize) -> IoBufs {
    let total: usize = data.iter().map(Bytes::len).sum();
    if len >= total {
        return std::mem::take(data);
    }
    let mut front = IoBufs::new();
    let mut left = len;
    while left > 0
        && let Some(first) = data.first_mut()
    {
        if first.len() > left {
            front.push(first.split_to(left));
            break;
        }
        left -= first.len();
        front.push(data.remove(0));
    }
    front
}
