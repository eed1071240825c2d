//! [`ClientDisks`]: disks that are opened for each client of an export, and closed behind it.
//!
//! ```text
//! acquire ─► Busy (opening) ─► Open, n connections ─ last one leaves ─► Busy (closing) ─► gone
//! ```
//!
//! # Invariants
//!
//! * All connections of one client have the same node; no other client ever has it.
//! * A disk is opened for clients that are allowed to use the export and select it, or announce that in their query (`outboard:client`),
//!   never for a mere query. At most [`OPENS_MAX`] are opened at once, within the time of the handshake.
//! * When its last connection has left, a disk is settled, flushed and closed before it can be
//!   opened again.
//! * A disk that another server opened is closed: its connections are disconnected ([`DiskFence`]), no other one joins them, and the
//!   next one opens it again.
//! * Once others came in its place (a new golden image), a source opens disks only for clients that
//!   are connected to it, and for [`RETURN_TIME`] for those that lost their connections: what comes
//!   back to a filesystem that is mounted must be what was there.

mod client_name;
mod source;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::{IoError, Node};
use engine::InFlight;
use nbd_proto::{DiskIdentity, WriterPolicy};
use tokio::sync::{Notify, Semaphore};

pub use client_name::{ClientName, NamedBy, Nameless};
pub use source::{CannotOpen, ClientDiskFigures, ClientFuture, DiskFence, DiskPerClient};

use self::table::{ClientDiskTable, JoinDecision, NotReserved, OpenDisk};
use super::served_export::random;

/// Disks of one export that are opened at once; more wait.
pub(super) const OPENS_MAX: usize = 16;
/// So long a client that lost its connections finds the disk that it had, though others get another.
pub(super) const RETURN_TIME: Duration = Duration::from_secs(60);

/// The disks of an export's clients that one source opened.
#[derive(Debug)]
pub(super) struct ClientDisks {
    source: Arc<dyn DiskPerClient>,
    table: Mutex<ClientDiskTable>,
    opens: Semaphore,
    /// Notified when a slot becomes free.
    changed: Notify,
    /// The last failure to close one, unless that was opened again since.
    failed: Mutex<Option<(ClientName, NotClosed)>>,
}

/// Why a disk was not closed well.
#[derive(Debug, Clone)]
pub(super) enum NotClosed {
    /// Its flush failed.
    Flush(IoError),
    /// It did not answer.
    Timeout(Duration),
}

/// One connection's hold on its client's disk.
#[derive(Debug)]
pub(super) struct Lease {
    disks: Arc<ClientDisks>,
    opened: Arc<OpenDisk>,
    /// The disk was opened for it.
    is_first: bool,
    is_left: bool,
}

/// A name with a reserved slot: no other task opens its disk meanwhile.
#[derive(Debug)]
pub(super) struct SlotReservation {
    disks: Arc<ClientDisks>,
    name: ClientName,
    /// The client may come back so long.
    back_until: Option<Instant>,
    is_over: bool,
}

/// A client that is to leave its disk.
#[derive(Debug)]
pub(super) struct Eviction {
    disks: Arc<ClientDisks>,
    name: ClientName,
}

impl ClientDisks {
    pub(super) fn new(source: Arc<dyn DiskPerClient>) -> Arc<Self> {
        Arc::new(Self {
            source,
            table: Mutex::default(),
            opens: Semaphore::new(OPENS_MAX),
            changed: Notify::new(),
            failed: Mutex::default(),
        })
    }

    pub(super) fn source(&self) -> &Arc<dyn DiskPerClient> {
        &self.source
    }

    fn table(&self) -> MutexGuard<'_, ClientDiskTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, Option<(ClientName, NotClosed)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on opens disks only for clients that are connected, or reconnect.
    pub(super) fn supersede(&self) {
        self.table().supersede();
    }

    /// Whether no client uses its disks, nor may reconnect.
    pub(super) fn is_over(&self) -> bool {
        self.table().is_over(engine::clock::now())
    }

    /// Connections that use the disk of `name`.
    pub(super) fn connections(&self, name: &ClientName) -> usize {
        self.table().connections(name)
    }

    /// The disks that are open, with the names of their clients.
    pub(super) fn open(&self) -> Vec<(ClientName, Node)> {
        let open = self.table().open();
        let open = open.iter().map(|o| (o.name.clone(), o.disk.clone()));
        open.collect()
    }

    /// The last failure to close a disk that was not opened again since.
    pub(super) fn take_failed(&self) -> Option<(ClientName, NotClosed)> {
        self.failed().take()
    }

    /// Resolves when every disk is closed.
    pub(super) async fn idle(&self) {
        self.until(|table| table.is_idle().then_some(())).await;
    }

    /// Resolves when `look` finds what it looks for; it looks again whenever a slot was left.
    async fn until<T>(&self, mut look: impl FnMut(&mut ClientDiskTable) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = look(&mut self.table()) {
                return found;
            }
            changed.await;
        }
    }

    /// A hold on the disk of `name`; `None` if another source has it to give.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        name: &ClientName,
    ) -> Result<Option<Lease>, CannotOpen> {
        let asked = self.until(|table| match table.join(name, engine::clock::now()) {
            JoinDecision::Wait => None,
            asked => Some(asked),
        });
        match asked.await {
            JoinDecision::Join(opened) => return Ok(Some(self.lease(opened, false))),
            JoinDecision::Elsewhere | JoinDecision::Wait => return Ok(None),
            JoinDecision::Open => {}
        }
        // The slot is left if this fails, or is dropped.
        let reserved = self.reserved(name);
        let opening = async {
            let _turn = self.opens.acquire().await;
            self.source.open(name).await
        };
        let disk = opening.await?;
        self.failed().take_if(|(failed, _)| failed == name);
        let opened = Arc::new(OpenDisk {
            name: name.clone(),
            disk,
            incarnation: u64::from_be_bytes(random()),
            leaving: InFlight::new(),
        });
        reserved.open(opened.clone());
        Ok(Some(self.lease(opened, true)))
    }

    /// Lets no more connections use the disk of `name`, until what this returns is dropped.
    pub(super) fn evict(self: &Arc<Self>, name: &ClientName) -> Eviction {
        self.table().evict(name, true);
        Eviction {
            disks: self.clone(),
            name: name.clone(),
        }
    }

    /// Takes the slot of `name` when its disk is closed; `waits` for that if connections use it, so
    /// many.
    pub(super) async fn reserve(
        self: &Arc<Self>,
        name: &ClientName,
        waits: bool,
    ) -> Result<SlotReservation, usize> {
        let reserved = self.until(|table| match table.reserve(name) {
            Ok(()) => Some(Ok(())),
            Err(NotReserved::Open(connections)) if !waits => Some(Err(connections)),
            Err(NotReserved::Open(_) | NotReserved::Wait) => None,
        });
        reserved.await.map(|()| self.reserved(name))
    }

    fn lease(self: &Arc<Self>, opened: Arc<OpenDisk>, is_first: bool) -> Lease {
        Lease {
            disks: self.clone(),
            opened,
            is_first,
            is_left: false,
        }
    }

    fn reserved(self: &Arc<Self>, name: &ClientName) -> SlotReservation {
        SlotReservation {
            disks: self.clone(),
            name: name.clone(),
            back_until: None,
            is_over: false,
        }
    }
}

impl SlotReservation {
    /// Its disk is open.
    fn open(mut self, opened: Arc<OpenDisk>) {
        self.is_over = true;
        self.disks.table().opened(opened);
        self.disks.changed.notify_waiters();
    }
}

impl Drop for SlotReservation {
    fn drop(&mut self) {
        if !self.is_over {
            let (name, until) = (&self.name, self.back_until);
            let now = engine::clock::now();
            self.disks.table().free(name, until, now);
            self.disks.changed.notify_waiters();
        }
    }
}

impl Drop for Eviction {
    fn drop(&mut self) {
        self.disks.table().evict(&self.name, false);
        self.disks.changed.notify_waiters();
    }
}

impl Lease {
    /// Whether the client is to leave its disk.
    pub(super) fn is_evicted(&self) -> bool {
        self.disks.table().is_evicted(&self.opened.name)
    }

    pub(super) fn disk(&self) -> &Node {
        &self.opened.disk
    }

    pub(super) fn name(&self) -> &ClientName {
        &self.opened.name
    }

    /// Whether the disk was opened for this lease.
    pub(super) const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Which disk it is, where its storage fences its servers.
    pub(super) fn identity(&self) -> Option<DiskIdentity> {
        self.disks.source.fence()?;
        let identity = self.disk().identity()?.as_str().parse().ok()?;
        Some(DiskIdentity {
            identity: Some(identity),
            incarnation: Some(self.opened.incarnation),
            // As many as have the name of its client.
            writers: Some(WriterPolicy::Many),
            is_fenced: true,
        })
    }

    /// Whether the disk still is this server's: one that was lost and does not know it yet would answer with what was there before.
    pub(super) async fn confirm(&self) -> Result<bool, CannotOpen> {
        match self.disks.source.fence() {
            Some(_) if self.is_evicted() => Ok(false),
            Some(fence) => fence.confirm(self.name()).await,
            None => Ok(true),
        }
    }

    /// Another server has the disk. Whether that was not known.
    pub(super) fn lose(&self) -> bool {
        self.disks.table().lose(&self.opened)
    }

    /// For the lease that the disk was opened for: resolves when another server has it, which was not known before (`true`), or it is
    /// closed.
    pub(super) fn lost(&self) -> Option<ClientFuture<'static, bool>> {
        let fence = self.disks.source.fence().filter(|_| self.is_first)?;
        let lost = fence.lost(self.name());
        let (disks, opened) = (Arc::downgrade(&self.disks), Arc::downgrade(&self.opened));
        Some(Box::pin(async move {
            let is_another = lost.await;
            let found = disks.upgrade().zip(opened.upgrade());
            is_another && found.is_some_and(|(disks, opened)| disks.table().lose(&opened))
        }))
    }

    /// Connections of the client that wait for the disk only.
    pub(super) fn leaving(&self) -> &InFlight {
        &self.opened.leaving
    }

    /// Gives the hold back, and closes the disk behind the last one. `said_goodbye`: the client is
    /// not going to come back for what it had.
    pub(super) async fn leave(
        mut self,
        said_goodbye: bool,
        limit: Duration,
    ) -> Result<(), NotClosed> {
        let Some(mut reserved) = self.give_back() else {
            return Ok(());
        };
        if !said_goodbye {
            reserved.back_until = Some(engine::clock::now() + RETURN_TIME);
        }
        let disks = self.disks.clone();
        let closed = close(&self.opened, limit).await;
        drop(self);
        disks.source.closed(&reserved.name).await;
        if let Err(why) = &closed {
            *disks.failed() = Some((reserved.name.clone(), why.clone()));
        }
        closed
    }

    /// Leaves; the slot, for the last one.
    fn give_back(&mut self) -> Option<SlotReservation> {
        self.is_left = true;
        let is_last = self.disks.table().leave(&self.opened.name);
        is_last.then(|| self.disks.reserved(&self.opened.name))
    }
}

/// Waits for what is under way and makes it durable.
async fn close(opened: &OpenDisk, limit: Duration) -> Result<(), NotClosed> {
    let work = async {
        opened.leaving.settled().await;
        opened.disk.settle().await?;
        if opened.disk.geometry().read_only {
            return Ok(());
        }
        opened.disk.flush().await
    };
    match engine::clock::timeout(limit, work).await {
        // Its client is at the server that has it.
        Ok(Err(error)) if error.fenced().is_some() => Ok(()),
        Ok(done) => done.map_err(NotClosed::Flush),
        Err(_) => Err(NotClosed::Timeout(limit)),
    }
}

impl Drop for Lease {
    /// Without a word ([`Lease::leave`]): its task ends with the server, or by a bug.
    fn drop(&mut self) {
        if !self.is_left {
            drop(self.give_back());
        }
    }
}
