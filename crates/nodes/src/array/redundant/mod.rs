//! `redundant`: arrays that are kept in sync, read and written: copies (levels 1 and 10), and parity (4, 5 and 6: `rows`).
//!
//! ```text
//! write ─► turn ─► array dirty, bits set: durable ─► all members at once ─► failures: durable ─► acknowledged
//!           │              └─ one commit for all that wait                        │
//!           └─ overlapping changes, and windows of a resync, in order of arrival ┘
//! ```
//!
//! `layout`, `placement`, `phase`, `ledger`, `member_table`, `bits`, `fitting_columns`, `halves`, `range_locks`, `read_balance`, `read_errors`, `view`, `state` and `plan` are pure: they decide. `commit` writes what members must
//! know; `write`, `answers`, `bad_places`, `read` and `flush` carry out requests; `windows` is the interface of background work.
//!
//! # Invariants
//!
//! * Members know that the array is dirty, and which bits are set, before any of them sees data; they are flushed
//!   before one of these is taken back.
//! * A change is acknowledged once all members have it that have not failed, and the failures are durable.
//! * Changes that overlap are carried out one behind the other, on all members: copies end equal, parity fits.
//! * Once another host took the array over, every request fails, and no member is written any more
//!   ([`super::member_guard`]).
//! * A future that is dropped leaves nothing half known: a commit goes on without it, and what was cancelled in flight
//!   keeps its turn until [`BlockDevice::settle`] resynced its copies.
//! * An array that is open read-only is never written, and one that is open for writing not before the first change.
//!
//! # Objects of their own
//!
//! | object | owns | does not know |
//! |---|---|---|
//! | [`ledger`] | what members know durably, what the next commit owes | any format: `plan` encodes md, other metadata gets a plan of its own |
//! | [`replacements`] | members that are to take the places of others, and how far they are copies | how they are copied |
//! | [`member_table`] | holders of the parts, which members may fail, the view of requests | bitmaps and commits |
//! | [`range_locks`] | the order of overlapping changes, and what was cancelled | members, and what a change does |
//! | [`row_section`] | where rows lie, also while a reshape gives them another form | members |
//! | [`read_balance`] | which of several copies is read | what a copy is |
//!
//! Arrays with parity use the same four, and all of `commit`, `bits`, `status` and `windows`: a row's columns take the place of an
//! array's bytes where bits, locks and windows count ([`layout`]). What is of copies alone is in `write`, `answers`, `read` and
//! `flush`, of parity alone in `rows`.
//!
//! # What it does not do
//!
//! It starts nothing by itself but the tasks of its commits: resync, recovery, clearing of bits and going clean are
//! called for (`super::sync`).

mod answers;
mod bad_places;
mod bits;
mod close;
mod commit;
mod extents;
mod fitting_columns;
mod flush;
mod form;
mod halves;
pub(in crate::array) mod layout;
mod ledger;
mod level;
mod member_io;
mod member_table;
mod members;
mod open;
mod open_checks;
mod phase;
mod placement;
mod plan;
mod policy;
pub(crate) mod range_locks;
mod read;
mod read_balance;
mod read_errors;
mod replacements;
mod reshape;
mod resize;
mod row_section;
mod rows;
mod state;
mod status;
#[cfg(test)]
pub(in crate::array) mod tests;
mod turns;
mod view;
mod windows;
mod write;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use block::{
    BlockDevice, Extent, FileRegion, Geometry, GrowingGeometry, Identity, IoBufs, IoError,
    IoFuture, Operation, Range, TryIo, WriteFlags,
};
use tokio::sync::{Notify, Semaphore, broadcast};

use self::bits::Bits;
use self::commit::Driven;
use self::layout::Layout;
use self::rows::Rows;
use self::state::State;
use self::write::Change;
#[allow(unused_imports, reason = "what `sync` works with")]
pub(in crate::array) use self::{
    member_table::{Failing, SlotState},
    members::{SlotId, Target},
    open::in_blocks,
    open_checks::not_understood,
    reshape::NewForm,
    row_section::size_of,
    rows::{RowStop, RowsChecked, check_rows, recover_rows, refuse_stale_members, replace_rows},
    view::{Holder, View},
    windows::Window,
};
use super::ArrayEvent;
use super::interface::ArrayInterface;
use super::level::may_change;
use super::member_guard::{ArrayFence, Takeover};
use crate::guard::{about, admit, admit_change, assert_checked, assert_len, len_of};

/// What is under the one lock.
#[derive(Debug)]
struct Guarded {
    state: State,
    /// The commit that is under way.
    commit: Option<Driven>,
}

/// An array of level 1 or 10, or with parity.
pub(in crate::array) struct RedundantArray {
    own: Weak<Self>,
    name: String,
    geometry: Arc<GrowingGeometry>,
    guarded: Mutex<Guarded>,
    member_timeout: Duration,
    places: Semaphore,
    /// What it has if it keeps parity.
    rows: Rows,
    /// One settles at a time.
    settling: tokio::sync::Mutex<()>,
    flush_failed: OnceLock<IoError>,
    events: broadcast::Sender<ArrayEvent>,
    work: Arc<Notify>,
    /// The clock that `read_errors` are counted by begins here.
    since: Instant,
    /// Whether it may still be used.
    fence: Arc<ArrayFence>,
    requests: AtomicU64,
    /// Bytes of users' reads under way.
    reading: AtomicU64,
}

/// A user's read under way: bytes that are counted, until this is dropped.
struct UnderWay<'a> {
    all: &'a AtomicU64,
    len: u64,
}

impl<'a> UnderWay<'a> {
    fn new(all: &'a AtomicU64, len: u64) -> Self {
        all.fetch_add(len, Ordering::Relaxed);
        Self { all, len }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.len, Ordering::Relaxed);
    }
}

impl RedundantArray {
    fn lock(&self) -> MutexGuard<'_, Guarded> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where copies are.
    pub(in crate::array) fn layout(&self) -> Arc<Layout> {
        self.lock().state.members.layout.clone()
    }

    /// What the array is called.
    pub(in crate::array) fn name(&self) -> &str {
        &self.name
    }

    /// What happens to it from now on.
    pub(in crate::array) fn events(&self) -> broadcast::Receiver<ArrayEvent> {
        self.events.subscribe()
    }

    /// What callers see of it, if its level may change while it is open.
    pub(in crate::array) fn interface(&self) -> Option<ArrayInterface> {
        let guarded = self.lock();
        let facts = &guarded.state.facts;
        let may_change = !self.read_only() && may_change(facts.level, facts.version);
        may_change.then(|| ArrayInterface {
            geometry: self.geometry.clone(),
            events: self.events.clone(),
        })
    }

    fn target(&self, slot: SlotId) -> Arc<Target> {
        self.lock().state.members.slots[slot.0].target.clone()
    }

    fn read_only(&self) -> bool {
        self.geometry().read_only
    }

    /// The host that took it over; nothing is done any more then.
    pub(in crate::array) fn takeover(&self) -> Option<&Takeover> {
        self.fence.takeover()
    }

    /// Another host took it over, as the server of a member reports.
    pub(in crate::array) fn fenced_by(&self, member: &str, why: String) {
        self.fence.close(Takeover::by_server(member, why));
    }

    /// Counts a request of a user.
    fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends changes for good: settles, flushes and marks the array clean.
    ///
    /// # Errors
    /// Members could not be written: the array is dirty then, not lost.
    pub(in crate::array) async fn stop(&self) -> Result<(), IoError> {
        if self.read_only() {
            return Ok(());
        }
        self.lock().state.stopped = true;
        self.end_window().await;
        self.fence.check(Operation::Flush, None)?;
        // Those that came before.
        let all = u32::try_from(write::CHANGES_MAX).expect("few");
        let _all = self.places.acquire_many(all).await;
        self.come_to_rest().await
    }

    /// Settles, flushes and marks the array clean. No change may begin meanwhile.
    ///
    /// # Errors
    /// Members could not be written: the array is dirty then, not lost.
    pub(in crate::array) async fn come_to_rest(&self) -> Result<(), IoError> {
        self.rows.settled().await;
        self.settle_all().await?;
        self.flush_all().await?;
        // Nothing is under way: bits need not grow old to be cleared. md does so too when it stops.
        for _ in 0..bits::SWEEPS {
            self.sweep().await?;
        }
        self.reclaim_journal().await?;
        self.lock().state.let_go();
        self.record_all().await
    }

    async fn change_whole(
        &self,
        range: Range,
        what: Change,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        if range.is_empty() {
            return Ok(());
        }
        let operation = what.operation();
        about(
            Some(range),
            operation,
            match self.layout().parity() {
                Some(_) => self.change_rows(range, what, flags).await,
                None => self.change(range, what, flags).await,
            },
        )
    }
}

impl BlockDevice for RedundantArray {
    fn geometry(&self) -> &Geometry {
        self.geometry.now()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        assert_checked(self.geometry(), range);
        self.count_request();
        Box::pin(async move {
            if range.is_empty() {
                return Ok(IoBufs::new());
            }
            let _under_way = UnderWay::new(&self.reading, range.len);
            about(Some(range), Operation::Read, self.read_all(range).await)
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.count_request();
            admit(self.geometry(), Operation::Write, range)?;
            assert_len(range, len_of(&data));
            self.change_whole(range, Change::Data(data), flags).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.count_request();
            if self.read_only() {
                return Ok(());
            }
            about(None, Operation::Flush, self.flush_all().await)
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.count_request();
            admit_change(self.geometry(), Operation::WriteZeroes, range, flags)?;
            self.change_whole(range, Change::Zeroes, flags).await
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.count_request();
            admit_change(self.geometry(), Operation::Trim, range, WriteFlags::empty())?;
            self.change_whole(range, Change::Trim, WriteFlags::empty())
                .await
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            self.fence.check(Operation::Extents, Some(range))?;
            admit(self.geometry(), Operation::Extents, range)?;
            if range.is_empty() {
                return Ok(Vec::new());
            }
            about(
                Some(range),
                Operation::Extents,
                self.all_extents(range).await,
            )
        })
    }

    fn identity(&self) -> Option<Identity> {
        self.lock().state.facts.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.rows.settled().await;
            self.settle_all().await
        })
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(self.geometry(), range);
        assert_len(range, into.len());
        self.count_request();
        if range.is_empty() {
            return TryIo::Done;
        }
        self.try_read_copies(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(self.geometry(), range);
        assert_len(range, data.len());
        if self.read_only() || range.is_empty() {
            return TryIo::WouldBlock;
        }
        self.count_request();
        self.try_change(range, data)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        let (region, len) = self.file_region_start(range)?;
        (len == range.len).then_some(region)
    }

    fn file_region_start(&self, range: Range) -> Option<(FileRegion, u64)> {
        assert_checked(self.geometry(), range);
        self.count_request();
        self.region_start(range)
    }
}

impl fmt::Debug for RedundantArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror")
            .field("name", &self.name)
            .field("geometry", self.geometry())
            .finish_non_exhaustive()
    }
}
