//! [`StandbyDisk`]: a disk that another server may have open for writing, and that is opened, and thereby taken over from that one, when
//! a client is going to use it.
//!
//! ```text
//!             a client that may write comes: open()            it is this server's, whenever one comes: confirm()
//!   standby ─────────────────────────────────────────► open ◄──┐
//!      ▲                                                │ └────┘
//!      └──── another server has it, or it failed ───────┘
//!            its connections end, without an answer
//! ```
//!
//! # Invariants
//!
//! * A client that may write is admitted only to an opening that was this server's at a moment after the client came. One
//!   that was fenced and does not know it yet would answer with what was there before.
//! * A connection belongs to one opening, and ends with it: what an opening acknowledged and did not flush is in no later one.
//! * A request that fails because another server has the disk is not answered: its client learns that by the end of the
//!   connection, and repeats the request where the disk is.
//! * Clients that only read, and queries, open nothing. Opening goes on when its client has left: the other server may be fenced already.
//!
//! # What it does not do
//!
//! An opening stays open when its last client has left: it answers snapshots and the next client, and costs the other server nothing,
//! which fences it. It does not decide which of two servers is the better one: the last client decides.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{Geometry, Node};
use engine::InFlight;
use nbd_proto::Refusal;
use tokio::sync::Mutex;

use super::client_disks::{CannotOpen, ClientFuture};
use super::export_disks::ExportDisks;
use super::served_export::{ServedExport, random};

/// A disk with a storage that fences a server which another one took it over from.
pub trait StandbyDisk: Debug + Send + Sync {
    /// The disk for reading, which fences no server.
    fn reader(&self) -> &Node;

    /// Opens the disk for writing. When it returns, no other server changes the disk, and what one flushed is there.
    fn open(&self) -> ClientFuture<'_, Result<Arc<dyn StandbyOpening>, CannotOpen>>;
}

/// A disk that was opened for writing.
pub trait StandbyOpening: Debug + Send + Sync {
    /// The disk. Requests fail with [`block::Fenced`] once another server has it.
    fn disk(&self) -> &Node;

    /// Whether it is still this server's: no other one had opened it for writing at a moment after the call.
    ///
    /// # Errors
    /// The storage does not answer.
    fn confirm(&self) -> ClientFuture<'_, Result<bool, CannotOpen>>;

    /// Resolves when the disk is out of use, with the reason. It does not keep the disk open.
    fn lost(&self) -> ClientFuture<'static, String>;
}

/// What the clients of one opening share.
#[derive(Debug, Clone)]
pub(super) struct CurrentOpening {
    /// Counts the openings.
    number: u64,
    opening: Arc<dyn StandbyOpening>,
    /// With its last size.
    disk: Node,
    leaving: InFlight,
}

/// The state of a disk in standby. Pure.
#[derive(Debug)]
pub(super) struct Standby {
    turn: Arc<StandbyTurn>,
    reader: Node,
    geometry: Geometry,
    current: Option<CurrentOpening>,
    takeovers: u64,
    /// Of the next opening, or of this one.
    incarnation: u64,
}

/// Opens and confirms, one at a time.
#[derive(Debug)]
pub(super) struct StandbyTurn {
    source: Arc<dyn StandbyDisk>,
    lock: Mutex<()>,
    /// Counts the confirmations and openings that were begun.
    begun: AtomicU64,
    /// The last one that succeeded.
    confirmed: AtomicU64,
}

/// The disk of a client, and the opening that it is of; none for one that reads in standby.
#[derive(Debug, Clone)]
pub(super) struct StandbyHold {
    pub(super) disk: Node,
    pub(super) opening: Option<u64>,
    pub(super) leaving: InFlight,
}

impl Standby {
    pub(super) fn new(source: Arc<dyn StandbyDisk>) -> Self {
        let reader = source.reader().clone();
        Self {
            geometry: writable(&reader),
            reader,
            turn: Arc::new(StandbyTurn {
                source,
                lock: Mutex::new(()),
                begun: AtomicU64::new(0),
                confirmed: AtomicU64::new(0),
            }),
            current: None,
            takeovers: 0,
            incarnation: u64::from_be_bytes(random()),
        }
    }

    /// The disk as it is now: open, or for reading.
    pub(super) fn disk(&self) -> &Node {
        self.current.as_ref().map_or(&self.reader, |one| &one.disk)
    }

    /// What a client that may write gets, whether it is open or not.
    pub(super) const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(super) const fn is_open(&self) -> bool {
        self.current.is_some()
    }

    pub(super) const fn takeovers(&self) -> u64 {
        self.takeovers
    }

    pub(super) const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Whether this is the opening now.
    pub(super) fn is_current(&self, number: u64) -> bool {
        self.current
            .as_ref()
            .is_some_and(|one| one.number == number)
    }

    /// Connections to the opening that are over but for requests that it has not answered.
    pub(super) fn leaving(&self) -> Option<&InFlight> {
        self.current.as_ref().map(|one| &one.leaving)
    }

    /// The disk has another size.
    pub(super) fn resize(&mut self, disk: Node) {
        self.geometry = writable(&disk);
        match &mut self.current {
            Some(current) => current.disk = disk,
            None => self.reader = disk,
        }
    }

    fn hold(&self) -> StandbyHold {
        StandbyHold {
            disk: self.disk().clone(),
            opening: self.current.as_ref().map(|one| one.number),
            leaving: self.leaving().cloned().unwrap_or_default(),
        }
    }

    fn taken_over(&mut self, opening: Arc<dyn StandbyOpening>) -> u64 {
        assert!(self.current.is_none(), "one opening at a time");
        self.takeovers += 1;
        let disk = opening.disk().clone();
        self.geometry = writable(&disk);
        self.current = Some(CurrentOpening {
            number: self.takeovers,
            opening,
            disk,
            leaving: InFlight::new(),
        });
        self.takeovers
    }

    /// The opening is over. False if it was before.
    pub(super) fn lose(&mut self, number: u64) -> bool {
        let lost = self.current.take_if(|one| one.number == number);
        if lost.is_some() {
            self.incarnation = u64::from_be_bytes(random());
        }
        lost.is_some()
    }
}

fn writable(disk: &Node) -> Geometry {
    let mut geometry = disk.geometry().clone();
    geometry.read_only = false;
    geometry
}

impl StandbyTurn {
    /// The number of a confirmation or an opening that begins now.
    fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn succeeded(&self, number: u64) {
        self.confirmed.fetch_max(number, Ordering::SeqCst);
    }
}

impl ServedExport {
    /// The disk for a client, where the export stands by: taken over, if the client may write.
    pub(super) async fn hold_standby(
        self: &Arc<Self>,
        may_write: bool,
    ) -> Result<Option<StandbyHold>, Refusal> {
        let standby = self.with_disks(|disks| {
            let standby = disks.standby()?;
            Some((standby.turn.clone(), standby.hold()))
        });
        let Some((turn, hold)) = standby else {
            return Ok(None);
        };
        if !may_write {
            return Ok(Some(hold));
        }
        let begun = turn.begun.load(Ordering::SeqCst);
        let own = self.clone();
        let taking = engine::spawn(async move { own.take_over(&turn, begun).await });
        let taken = engine::join(taking).await;
        taken.map(Some).map_err(|e| {
            tracing::warn!(export = self.name(), "its disk is not opened: {e}");
            Refusal::Unavailable(e.client_message)
        })
    }

    /// Looks whether the disk is still this server's, if it is open.
    pub(super) async fn confirm_standby(self: &Arc<Self>) {
        let open = self.with_disks(|disks| {
            let standby = disks.standby()?;
            Some((standby.turn.clone(), standby.current.clone()?))
        });
        if let Some((turn, current)) = open {
            // An error is that of the client's next request.
            drop(self.confirm(&turn, &current).await);
        }
    }

    /// Whether `current` is still this server's; if not, it is lost.
    async fn confirm(
        &self,
        turn: &StandbyTurn,
        current: &CurrentOpening,
    ) -> Result<bool, CannotOpen> {
        let number = turn.begin();
        let is_ours = current.opening.confirm().await?;
        match is_ours {
            true => turn.succeeded(number),
            false => self.lose_standby(current.number, "another server has it"),
        }
        Ok(is_ours)
    }

    /// Opens the disk, or confirms that it is open: by what began after the number `begun`.
    async fn take_over(
        self: Arc<Self>,
        turn: &StandbyTurn,
        begun: u64,
    ) -> Result<StandbyHold, CannotOpen> {
        let _one_at_a_time = turn.lock.lock().await;
        let (current, hold) =
            self.with_standby(|standby| (standby.current.clone(), standby.hold()));
        if let Some(current) = current {
            let is_confirmed = turn.confirmed.load(Ordering::SeqCst) > begun;
            if is_confirmed || self.confirm(turn, &current).await? {
                return Ok(hold);
            }
        }
        let number = turn.begin();
        let since = engine::clock::now();
        let opening = turn.source.open().await?;
        let after = engine::clock::now().saturating_duration_since(since);
        let lost = opening.lost();
        let (opened, hold) = self.with_standby(|standby| {
            let opened = standby.taken_over(opening);
            (opened, standby.hold())
        });
        turn.succeeded(number);
        tracing::info!(
            export = self.name(),
            takeover = opened,
            ?after,
            "took the disk over"
        );
        let own = Arc::downgrade(&self);
        drop(engine::spawn(async move {
            let why = lost.await;
            if let Some(own) = own.upgrade() {
                own.lose_standby(opened, &why);
            }
        }));
        Ok(hold)
    }

    fn with_standby<T>(&self, work: impl FnOnce(&mut Standby) -> T) -> T {
        self.with_disks(|disks| match disks {
            ExportDisks::Standby(standby) => work(standby),
            _ => unreachable!("an export that stands by does so to its end"),
        })
    }
}
