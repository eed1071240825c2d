//! [`Journal`]: the journal of an array, as rows are written into it (md's r5l, write-through).
//!
//! ```text
//! rows ─► waiting ─► meta blocks and pages of all that wait: durable ─► data and parity of these rows ─► acknowledged
//!                        │
//!                        └── little space is left, or nothing was written for a while: rows that are logged end, members are
//!                            flushed; an empty meta block: durable; the superblocks name that as the tail
//! ```
//!
//! # Invariants
//!
//! * Data and parity of a row are sent to members once the journal has all of them, durably, and all that was logged before.
//! * The tail is a meta block that is durable. It moves once everything before it is on all members that have not failed,
//!   durably, and the failures are; space before it is used again once the superblock with the new tail is durable.
//! * What is written after an open begins with an empty block, far behind the last sequence: what a cut left behind the end is
//!   never found.
//! * Nothing is written to members without it: once it failed, changes are refused.
//! * A task writes one batch, and leaves the next one to another task: a caller that waits for tasks that began before it
//!   ends under any load.
//!
//! # What it does not do
//!
//! It acknowledges nothing that is only in the journal (write-back): reads never look into it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Errno, IoBufs, IoError, Operation, WriteFlags};
use tokio::sync::{OwnedRwLockReadGuard, RwLock, RwLockReadGuard, oneshot};

use super::super::super::format::r5l::{BATCHES, JournalKey, JournalSpace, MetaBlock, PAGE};
use super::super::super::parity::journal_columns::{JournalImage, LoggedColumn};
use super::super::RedundantArray;
use super::super::members::Target;
use super::super::state::State;
use super::journal_scan::FoundLog;
use super::ppl_mode::{LogMode, given};
use crate::blocks::slice;
use crate::join::join_all;

/// Bytes that are logged before members are flushed and the space is used again, at most: a replay reads no more.
const LOGGED_MAX: u64 = 256 << 20;

/// The journal of an array.
pub(in crate::array::redundant) struct Journal {
    pub(super) key: JournalKey,
    pub(super) space: JournalSpace,
    /// Rows hold it while they are written; a member that gets a part waits for them.
    pub(super) mode: RwLock<LogMode>,
    /// One task writes at a time.
    pub(super) head: tokio::sync::Mutex<Head>,
    /// Rows hold it from when they are durable in the journal until they are on members.
    logged: Arc<RwLock<()>>,
    waiting: Mutex<WaitingRows>,
    /// What was found when the array was opened, until it is replayed.
    pub(super) found: Mutex<Option<FoundLog>>,
}

/// Where the journal is written next. Bytes of it.
#[derive(Debug)]
pub(super) struct Head {
    tail: u64,
    at: u64,
    sequence: u64,
}

/// Rows that are to be logged.
#[derive(Debug, Default)]
struct WaitingRows {
    rows: VecDeque<WaitingRow>,
    /// A task writes a batch, or will.
    is_driven: bool,
}

#[derive(Debug)]
struct WaitingRow {
    columns: Vec<LoggedColumn>,
    answer: oneshot::Sender<Result<JournalTicket, IoError>>,
}

/// Keeps what was logged of a row, until the row is on members and this is dropped.
#[derive(Debug)]
pub(super) struct JournalTicket {
    _logged: OwnedRwLockReadGuard<()>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Journal");
        shown.field("space", &self.space).finish_non_exhaustive()
    }
}

impl WaitingRow {
    fn len_max(&self) -> u64 {
        self.columns.iter().map(LoggedColumn::len_max).sum()
    }
}

impl Journal {
    /// One that is written behind what was found in it.
    pub(super) fn new(key: JournalKey, space: JournalSpace, found: FoundLog) -> Self {
        Self {
            key,
            space,
            mode: RwLock::new(LogMode::Unprepared),
            head: tokio::sync::Mutex::new(Head {
                tail: found.end,
                at: found.end,
                sequence: found.next_sequence,
            }),
            logged: Arc::default(),
            waiting: Mutex::default(),
            found: Mutex::new(Some(found)),
        }
    }

    /// Bytes that may be logged before the space is used again.
    fn capacity(&self) -> u64 {
        self.space.len().min(LOGGED_MAX)
    }

    /// Bytes of one batch, and of one row in it, at most.
    pub(super) fn batch_max(&self) -> u64 {
        self.capacity() / BATCHES
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingRows> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits and fits a batch.
    fn take(&self) -> Vec<WaitingRow> {
        let mut waiting = self.waiting();
        let mut room = self.batch_max();
        let mut taken = Vec::new();
        while let Some(row) = waiting.rows.front() {
            let len = row.len_max();
            if len > room && !taken.is_empty() {
                break;
            }
            assert!(len <= room, "a row is cut so that it fits a batch");
            room -= len;
            taken.extend(waiting.rows.pop_front());
        }
        taken
    }
}

impl RedundantArray {
    /// The member with the journal, while it works.
    pub(super) fn journal_target(&self) -> Option<Arc<Target>> {
        let guarded = self.lock();
        let slot = guarded.state.members.journal()?;
        Some(slot.target.clone())
    }

    /// Resolves once a row may be written; no member gets a part until what it gives is dropped.
    ///
    /// # Errors
    /// The journal has failed.
    pub(super) async fn admit_journaled_row<'a>(
        &self,
        journal: &'a Journal,
    ) -> Result<RwLockReadGuard<'a, LogMode>, IoError> {
        loop {
            if self.journal_target().is_none() {
                return Err(journal_failed());
            }
            let mode = journal.mode.read().await;
            if *mode == LogMode::Kept {
                return Ok(mode);
            }
            drop(mode);
            let mut mode = journal.mode.write().await;
            if *mode != LogMode::Kept {
                let mut head = journal.head.lock().await;
                self.empty_journal(journal, &mut head).await?;
                *mode = LogMode::Kept;
            }
        }
    }

    /// Logs columns of a row: they are durable when it resolves.
    ///
    /// # Errors
    /// The journal has failed, or members cannot be flushed for room in it. Nothing may be sent to members.
    pub(super) async fn log_columns(
        &self,
        journal: &Journal,
        columns: Vec<LoggedColumn>,
    ) -> Result<JournalTicket, IoError> {
        let (answer, logged) = oneshot::channel();
        let begins = {
            let mut waiting = journal.waiting();
            waiting.rows.push_back(WaitingRow { columns, answer });
            !std::mem::replace(&mut waiting.is_driven, true)
        };
        if begins {
            self.spawn_batch();
        }
        logged.await.unwrap_or_else(|_| {
            let error = IoError::new(Errno::Io, Operation::Write, None);
            Err(error.because("the task that wrote the journal panicked"))
        })
    }

    fn spawn_batch(&self) {
        drop(self.spawn(move |array| async move {
            let journal = array.rows.journal.as_ref().expect("it keeps a journal");
            let rows = journal.take();
            let columns = rows.iter().flat_map(|row| row.columns.clone()).collect();
            let len_max = rows.iter().map(WaitingRow::len_max).sum();
            let mut head = journal.head.lock().await;
            let logged = array.log_batch(journal, &mut head, (columns, len_max));
            let logged = logged.await;
            for row in rows {
                let answer = match &logged {
                    Ok(()) => Ok(JournalTicket {
                        // Only a task with the head waits for all of them.
                        _logged: journal.logged.clone().read_owned().await,
                    }),
                    Err(error) => Err(error.clone()),
                };
                // A row that has gone wants no answer.
                drop(row.answer.send(answer));
            }
            drop(head);
            let more = {
                let mut waiting = journal.waiting();
                waiting.is_driven = !waiting.rows.is_empty();
                waiting.is_driven
            };
            if more {
                array.spawn_batch();
            }
        }));
    }

    /// Writes a batch, and makes room for it before where there is little.
    async fn log_batch(
        &self,
        journal: &Journal,
        head: &mut Head,
        (columns, len_max): (Vec<LoggedColumn>, u64),
    ) -> Result<(), IoError> {
        let used = journal.space.distance(head.tail, head.at);
        // The empty block of the next time has room, too, and the ring is never full.
        if used + len_max + 2 * PAGE > journal.capacity() {
            self.reclaim(journal, head).await?;
        }
        let known = (journal.key, journal.space);
        let image = JournalImage::of(&columns, known, (head.at, head.sequence));
        self.write_journal(journal, head.at, &image.data, image.len)
            .await?;
        head.at = journal.space.advance(head.at, image.len);
        head.sequence = head.sequence.wrapping_add(image.blocks);
        Ok(())
    }

    /// Writes bytes into the journal, from byte `at` of it on: durable when it resolves. A journal that cannot take them has
    /// failed.
    async fn write_journal(
        &self,
        journal: &Journal,
        at: u64,
        data: &IoBufs,
        len: u64,
    ) -> Result<(), IoError> {
        let target = self.journal_target().ok_or_else(journal_failed)?;
        let mut from = 0;
        let pieces = journal.space.pieces(at, len).into_iter().map(|place| {
            let piece = slice(data, from, place.len_usize());
            from += place.len_usize();
            target.write_at(place, piece, WriteFlags::FUA)
        });
        let written = join_all(pieces).await.into_iter().collect();
        let written: Result<(), IoError> = written;
        if let Err(error) = &written {
            self.fail_slot(target.slot, &error.to_string());
            // That it failed is durable before anything else is.
            self.record(State::is_recorded).await?;
        }
        written
    }

    /// Forgets what is in the journal, of which everything is on members: an empty block follows it, which is the tail.
    pub(super) async fn empty_journal(
        &self,
        journal: &Journal,
        head: &mut Head,
    ) -> Result<(), IoError> {
        let block = MetaBlock::empty(head.sequence, head.at).encode(journal.key);
        let block = std::iter::once(block.into()).collect();
        self.write_journal(journal, head.at, &block, PAGE).await?;
        {
            let state = &mut self.lock().state;
            state.journal_tail = Some(head.at);
            state.change(true);
        }
        self.record(State::is_recorded).await?;
        if self.journal_target().is_none() {
            return Err(journal_failed());
        }
        head.tail = head.at;
        head.at = journal.space.advance(head.at, PAGE);
        head.sequence = head.sequence.wrapping_add(1);
        Ok(())
    }

    /// Makes room: what is logged is on members, durably, before it is forgotten.
    async fn reclaim(&self, journal: &Journal, head: &mut Head) -> Result<(), IoError> {
        let _all = journal.logged.write().await;
        if journal.space.distance(head.tail, head.at) <= PAGE {
            return Ok(());
        }
        self.on_all(|target| Box::pin(target.flush())).await?;
        self.record(State::is_recorded).await?;
        self.empty_journal(journal, head).await
    }

    /// Empties the journal, if anything was logged and it works.
    ///
    /// # Errors
    /// Members cannot be flushed. A journal that fails at it is noted.
    pub(in crate::array::redundant) async fn reclaim_journal(&self) -> Result<(), IoError> {
        let Some(journal) = &self.rows.journal else {
            return Ok(());
        };
        let mode = journal.mode.read().await;
        if *mode != LogMode::Kept || self.journal_target().is_none() {
            return Ok(());
        }
        let mut head = journal.head.lock().await;
        let reclaimed = self.reclaim(journal, &mut head).await;
        match self.journal_target() {
            Some(_) => reclaimed,
            None => Ok(()),
        }
    }

    /// Gives a member a part, while nothing is logged: what the journal has of rows that lacked that part is never written to
    /// it.
    pub(super) async fn give_part_without_log(
        &self,
        journal: &Journal,
        give: impl FnOnce() -> bool,
    ) -> Result<(), IoError> {
        let mode = journal.mode.write().await;
        if *mode == LogMode::Kept && self.journal_target().is_some() {
            let mut head = journal.head.lock().await;
            let reclaimed = self.reclaim(journal, &mut head).await;
            if self.journal_target().is_some() {
                reclaimed?;
            }
        }
        let given = given(give());
        let recorded = self.record(State::is_recorded).await;
        drop(mode);
        recorded.and(given)
    }
}

/// Why nothing is written any more.
pub(super) fn journal_failed() -> IoError {
    let error = IoError::new(Errno::Io, Operation::Write, None);
    error.because("the array's journal has failed: the array is only read until it has one again")
}
