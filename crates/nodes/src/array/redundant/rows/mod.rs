//! Rows: how arrays with parity are written, read where something must be computed, and resynced.
//!
//! ```text
//! write ─► gather: what arrives together ─► turn of the row ─► dirty, bits: durable ─► plan ─► reads ─► parity
//!            ─► data and parity at once (`row_send`) ─► failures: durable ─► acknowledged
//! ```
//!
//! The pure half is in [`parity`](super::super::parity): where rows lie, what is read, what is computed.
//!
//! # Invariants
//!
//! * A row is changed by one task at a time, under the lock of its columns; nothing is computed from it meanwhile.
//! * All that changes a row runs in a task of the array: a caller that leaves never leaves parity half written, and
//!   [`settle`](block::BlockDevice::settle) waits for these tasks.
//! * Data that stay are never written: a cut leaves parity that does not fit at worst, which the bits of the rows record.
//! * A batch that waits to become a full stripe holds nothing, and waits only for batches that began before it.
//! * Parity is used only where it is known to fit: where it is in sync, or was written whole since the open (`fitting_columns`).
//!   Elsewhere it is written whole, and what would be computed of it is an error.
//! * Where a member that cannot be failed did not take its bytes the row's parity is not trusted any more.
//! * With partial parity logs (`ppl_log`) nothing of a row is sent before the log has, durably, what repairs its parity; with a
//!   journal (`journal`) not before that has, durably, all that is sent.
//!
//! # What it does not do
//!
//! It closes no write hole of a degraded array without such a log: a cut while that is written makes it one that is refused. A resync leaves
//! out rows of which data cannot be read: what parity has of these is not trusted, and nothing else has them, so the array
//! stays dirty there. Nothing that was read is kept for later writes.

mod backup_file;
mod backup_place;
mod columns;
mod critical_section;
mod forced_read;
mod in_place;
mod journal;
mod journal_replay;
mod journal_rows;
mod journal_scan;
mod noted_blocks;
mod ppl_log;
mod ppl_mode;
mod ppl_replay;
mod read;
mod reshape;
mod reshape_losses;
mod row_answers;
mod row_outcome;
mod row_send;
mod sync;
mod write;
mod zero;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, Semaphore};

use self::backup_file::OpenBackup;
pub(super) use self::backup_place::NEXT_IN_PLACE;
pub(super) use self::critical_section::CriticalSection;
use self::in_place::NamedWindow;
pub(super) use self::journal::Journal;
pub(in crate::array) use self::journal_replay::refuse_stale_members;
pub(super) use self::ppl_log::PartialParityLogs;
pub(super) use self::ppl_mode::LogMode;
use self::reshape_losses::FoundLosses;
pub(in crate::array) use self::sync::{
    RowStop, RowsChecked, check_rows, recover_rows, replace_rows,
};
use super::super::parity::member_reads;
use super::super::parity::stripe_gather::{BatchNumber, BatchWait, RowKey, StripeGather};
use super::super::parity::stripe_plan::ParityTrust;
use super::super::{ArrayOptions, UntrustedPlaces};
use super::RedundantArray;

/// Rows that are changed at once, or wait for their turns with what they need in memory; more of them wait for these, and take
/// what arrives meanwhile.
const STRIPES_MAX: usize = 128;

/// How often a batch that may become a full stripe yields to connections without getting more.
const YIELDS_MAX: u32 = 64;

/// What an array with parity has next to one that keeps copies.
#[derive(Debug)]
pub(super) struct Rows {
    gather: Mutex<StripeGather>,
    stripes: Semaphore,
    /// Bytes of members that may be read at once to compute from.
    room: Semaphore,
    tasks: Mutex<Tasks>,
    /// A task or a batch ended, or a batch is a full stripe.
    progress: Notify,
    /// What parity is worth that is in sync.
    trust: ParityTrust,
    /// Parity is used also where it may not fit: the array is read by force.
    is_forced: bool,
    /// Where it may be wrong then.
    untrusted: OnceLock<UntrustedPlaces>,
    /// Where its members keep partial parity logs.
    logs: PartialParityLogs,
    /// Whether they do.
    keeps_logs: AtomicBool,
    /// Held by reads that take no turn: what they read stays where it is.
    in_place: tokio::sync::RwLock<()>,
    /// No regions of files are handed out: a reshape is to begin.
    lends_nothing: AtomicBool,
    /// What reshapes found that no member can read.
    losses: Mutex<FoundLosses>,
    /// The backup file of a reshape in place.
    backup: tokio::sync::Mutex<Option<OpenBackup>>,
    /// What it names, and is locked.
    named_window: Mutex<Option<NamedWindow>>,
    /// Its journal.
    pub(super) journal: Option<Journal>,
}

/// Tasks that change rows, by the order in which they began.
#[derive(Debug, Default)]
struct Tasks {
    under_way: BTreeSet<u64>,
    next: u64,
}

/// A task that changes rows, until this is dropped.
struct RowTask {
    array: Arc<RedundantArray>,
    number: u64,
}

/// A batch that was not written yet, until this is dropped.
struct UnfinishedBatch<'a> {
    rows: &'a Rows,
    number: BatchNumber,
}

impl Rows {
    pub(super) fn new(
        options: &ArrayOptions,
        (logs, journal): (PartialParityLogs, Option<Journal>),
    ) -> Self {
        Self {
            gather: Mutex::default(),
            stripes: Semaphore::new(STRIPES_MAX),
            room: Semaphore::new(member_reads::room()),
            tasks: Mutex::default(),
            progress: Notify::new(),
            trust: match options.reconstruct_writes {
                true => ParityTrust::Assumed,
                false => ParityTrust::Fits,
            },
            is_forced: options.force_dirty_degraded,
            untrusted: OnceLock::new(),
            keeps_logs: AtomicBool::new(logs.are_found()),
            logs,
            in_place: tokio::sync::RwLock::default(),
            lends_nothing: AtomicBool::new(false),
            losses: Mutex::default(),
            backup: tokio::sync::Mutex::default(),
            named_window: Mutex::default(),
            journal,
        }
    }

    /// What a read holds that takes no turn, on the fast path. `None`: a reshape is about to begin.
    pub(super) fn try_in_place(&self) -> Option<tokio::sync::RwLockReadGuard<'_, ()>> {
        self.in_place.try_read().ok()
    }

    /// The same, waiting for it.
    pub(super) async fn in_place(&self) -> tokio::sync::RwLockReadGuard<'_, ()> {
        self.in_place.read().await
    }

    /// Whether regions of files may be handed out.
    pub(super) fn may_lend(&self) -> bool {
        !self.lends_nothing.load(Ordering::Acquire)
    }

    /// Where its members keep partial parity logs.
    pub(super) fn logs(&self) -> Option<&PartialParityLogs> {
        let is_kept = self.keeps_logs.load(Ordering::Acquire);
        is_kept.then_some(&self.logs)
    }

    /// Where they would, while they do not.
    pub(super) const fn dropped_logs(&self) -> &PartialParityLogs {
        &self.logs
    }

    /// Members keep no partial parity logs any more.
    pub(super) fn drop_logs(&self) {
        self.keeps_logs.store(false, Ordering::Release);
    }

    /// Members keep partial parity logs from now on, which are empty.
    pub(super) fn keep_logs(&self) {
        self.keeps_logs.store(true, Ordering::Release);
    }

    fn gather(&self) -> MutexGuard<'_, StripeGather> {
        self.gather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves once all tasks have ended that are under way now.
    pub(super) async fn settled(&self) {
        let behind = self.tasks().next;
        let is_under_way = |rows: &Self| {
            let first = rows.tasks().under_way.first().copied();
            first.is_some_and(|first| first < behind)
        };
        self.wait_while(is_under_way).await;
    }

    /// Resolves once the batch of a row is a full stripe, or not to wait for that any longer.
    async fn gathered(&self, row: RowKey) {
        let (mut known, mut yields) = (0, 0);
        loop {
            let is_behind = |rows: &Self| rows.gather().wait(row) == BatchWait::Batches;
            self.wait_while(is_behind).await;
            let BatchWait::More { len } = self.gather().wait(row) else {
                return;
            };
            yields = if len == known { yields + 1 } else { 0 };
            if yields == YIELDS_MAX {
                return;
            }
            known = len;
            // Connections read what has arrived meanwhile. A clock would make a writer wait that sends nothing before its answer.
            tokio::task::yield_now().await;
        }
    }

    async fn wait_while(&self, waits: impl Fn(&Self) -> bool) {
        loop {
            let mut progress = std::pin::pin!(self.progress.notified());
            progress.as_mut().enable();
            if !waits(self) {
                return;
            }
            progress.await;
        }
    }
}

impl Drop for UnfinishedBatch<'_> {
    fn drop(&mut self) {
        self.rows.gather().finish(self.number);
        self.rows.progress.notify_waiters();
    }
}

impl Drop for RowTask {
    fn drop(&mut self) {
        self.array.rows.tasks().under_way.remove(&self.number);
        self.array.rows.progress.notify_waiters();
    }
}

impl RedundantArray {
    /// Begins a task that goes on whether or not its caller stays.
    fn spawn<F>(
        &self,
        run: impl FnOnce(Arc<Self>) -> F + Send + 'static,
    ) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let array = self.own.upgrade().expect("an array that is used is there");
        let number = {
            let mut tasks = self.rows.tasks();
            let number = tasks.next;
            tasks.next += 1;
            tasks.under_way.insert(number);
            number
        };
        let task = RowTask {
            array: array.clone(),
            number,
        };
        let run = run(array);
        engine::spawn(async move {
            let answer = run.await;
            drop(task);
            answer
        })
    }

    /// The same, and waits for what it ends with.
    pub(super) async fn in_task<F>(
        &self,
        run: impl FnOnce(Arc<Self>) -> F + Send + 'static,
    ) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let ended = self.spawn(run).await;
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}
