//! The requests that a [`HeldDisk`](super::HeldDisk) holds.

use std::collections::BTreeMap;

use block::{BlockDevice, Extent, IoBufs, IoError, Operation, Range, WriteFlags};
use tokio::sync::oneshot;

use super::Held;

/// Requests that may be held at once.
const HELD_MAX: usize = 65_536;

/// A request by value.
#[derive(Debug)]
pub(super) enum HeldRequest {
    Read(Range),
    Write(Range, IoBufs, WriteFlags),
    Flush,
    WriteZeroes(Range, WriteFlags),
    Trim(Range),
    Extents(Range),
}

impl HeldRequest {
    const fn operation(&self) -> Operation {
        match self {
            Self::Read(_) => Operation::Read,
            Self::Write(..) => Operation::Write,
            Self::Flush => Operation::Flush,
            Self::WriteZeroes(..) => Operation::WriteZeroes,
            Self::Trim(_) => Operation::Trim,
            Self::Extents(_) => Operation::Extents,
        }
    }

    const fn range(&self) -> Option<Range> {
        match *self {
            Self::Read(range)
            | Self::Write(range, ..)
            | Self::WriteZeroes(range, _)
            | Self::Trim(range)
            | Self::Extents(range) => Some(range),
            Self::Flush => None,
        }
    }

    pub(super) async fn perform(self, disk: &dyn BlockDevice) -> Result<Reply, IoError> {
        match self {
            Self::Read(range) => disk.read(range).await.map(Reply::Data),
            Self::Extents(range) => disk.extents(range).await.map(Reply::Extents),
            Self::Write(range, data, flags) => {
                disk.write(range, data, flags).await.map(Reply::from)
            }
            Self::Flush => disk.flush().await.map(Reply::from),
            Self::WriteZeroes(range, flags) => {
                disk.write_zeroes(range, flags).await.map(Reply::from)
            }
            Self::Trim(range) => disk.trim(range).await.map(Reply::from),
        }
    }
}

/// The answer to a [`HeldRequest`].
#[derive(Debug)]
pub(super) enum Reply {
    Data(IoBufs),
    Extents(Vec<Extent>),
    Done,
}

impl From<()> for Reply {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl Reply {
    pub(super) fn into_data(self) -> IoBufs {
        let Self::Data(data) = self else {
            panic!("a read is answered with data");
        };
        data
    }

    pub(super) fn into_extents(self) -> Vec<Extent> {
        let Self::Extents(extents) = self else {
            panic!("a question for extents is answered with extents");
        };
        extents
    }
}

#[derive(Debug)]
struct HeldEntry {
    operation: Operation,
    range: Option<Range>,
    /// Taken when the request is carried out.
    request: Option<HeldRequest>,
    reply: oneshot::Sender<Result<Reply, IoError>>,
}

impl HeldEntry {
    const fn changes(&self) -> bool {
        matches!(
            self.operation,
            Operation::Write | Operation::WriteZeroes | Operation::Trim
        )
    }
}

#[derive(Debug)]
pub(super) struct HeldQueue {
    pub(super) holding: bool,
    pub(super) late_changes: Vec<Range>,
    entries: BTreeMap<u64, HeldEntry>,
    next: u64,
}

impl HeldQueue {
    pub(super) const fn new() -> Self {
        Self {
            holding: true,
            late_changes: Vec::new(),
            entries: BTreeMap::new(),
            next: 0,
        }
    }

    /// Holds `request`, or gives it back if the disk is open.
    pub(super) fn enter(
        &mut self,
        request: HeldRequest,
    ) -> Result<oneshot::Receiver<Result<Reply, IoError>>, HeldRequest> {
        if !self.holding {
            return Err(request);
        }
        assert!(
            self.entries.len() < HELD_MAX,
            "more than {HELD_MAX} requests are held"
        );
        let (reply, answer) = oneshot::channel();
        let entry = HeldEntry {
            operation: request.operation(),
            range: request.range(),
            request: Some(request),
            reply,
        };
        self.entries.insert(self.next, entry);
        self.next += 1;
        Ok(answer)
    }

    pub(super) fn held(&mut self) -> Vec<Held> {
        self.forget_harmless();
        let waiting = self.entries.iter().filter(|(_, e)| e.request.is_some());
        waiting
            .map(|(&id, entry)| Held {
                id,
                operation: entry.operation,
                range: entry.range,
                abandoned: entry.reply.is_closed(),
            })
            .collect()
    }

    pub(super) fn start(&mut self, id: u64) -> Option<HeldRequest> {
        self.forget_harmless();
        self.entries.get_mut(&id)?.request.take()
    }

    pub(super) fn finish(&mut self, id: u64, result: Result<Reply, IoError>) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        if entry.changes() && entry.reply.is_closed() {
            self.late_changes.extend(entry.range);
        }
        // The answer of an abandoned request is dropped.
        drop(entry.reply.send(result));
    }

    pub(super) fn has_abandoned_changes(&mut self) -> bool {
        self.forget_harmless();
        self.entries.values().any(|entry| entry.reply.is_closed())
    }

    /// Requests without effect go with their futures.
    fn forget_harmless(&mut self) {
        self.entries
            .retain(|_, entry| entry.changes() || !entry.reply.is_closed());
    }
}
