//! [`PartialParityLogs`]: the partial parity logs of the members, as rows are written into them.
//!
//! ```text
//! rows ─► wait at the log of the member with their parity
//!           │
//! round:    members that the rows of the round before changed are flushed: one flush of each, for all logs
//!           ─► a header for all that waits, in each log: durable ─► data and parity of these rows ─► all of them ended
//! ```
//!
//! # Invariants
//!
//! * Data and parity of a row are sent to members once the log of the member with its parity has, durably, what they are
//!   to replace ([`ppl_passes`](super::super::super::parity::ppl_passes)).
//! * A log has one header that counts. The next one is written when the rows of the one before are on all members that have not
//!   failed, durably, and the failures are. Headers of all logs are written in rounds, so that they share flushes.
//! * No header is written while parity is not known to fit: the rows begin again, and logs are paused before they do
//!   ([`ppl_mode`](super::ppl_mode)).
//! * A task writes one round of headers, and leaves the next one to another task: a caller that waits for tasks that began before
//!   it ends under any load.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Errno, IoBufs, IoError, Operation, Range, WriteFlags};
use bytes::Bytes;
use tokio::sync::{RwLock, mpsc, oneshot};

use super::super::super::ArrayError;
use super::super::super::format::ppl::{self, ENTRIES_MAX, HEADER_LEN, PplHeader, PplSpace};
use super::super::super::member::Member;
use super::super::super::parity::ppl_passes::PplRecord;
use super::super::RedundantArray;
use super::super::member_table::Failing;
use super::super::members::{SlotId, Target};
use super::super::state::State;
use super::ppl_mode::{LogMode, invalid_header};
use crate::join::join_all;

/// The logs of an array.
#[derive(Debug)]
pub(in crate::array::redundant) struct PartialParityLogs {
    pub(super) signature: u32,
    /// Bytes of partial parity that one header of any member can have; 0: none was ever kept.
    parity_max: AtomicU64,
    /// Rows hold it while they are written; a change of it waits for them.
    pub(in crate::array::redundant) mode: RwLock<LogMode>,
    generation: AtomicU64,
    members: Mutex<MemberLogs>,
}

/// The logs of all members.
#[derive(Debug, Default)]
struct MemberLogs {
    by_slot: BTreeMap<SlotId, MemberLog>,
    /// A task writes a round of headers, or will.
    is_driven: bool,
    /// Parts that rows of headers before changed, which were not flushed since.
    unflushed: BTreeSet<usize>,
}

/// The log of one member.
#[derive(Debug)]
struct MemberLog {
    space: PplSpace,
    /// Where the header before ended, byte of the space.
    next: u64,
    waiting: VecDeque<WaitingRow>,
}

/// A row that is to be written.
#[derive(Debug)]
struct WaitingRow {
    record: PplRecord,
    answer: oneshot::Sender<Logged>,
}

/// Keeps the header that a row is in, until the row is written and this is dropped.
#[derive(Debug)]
pub(super) struct LogTicket {
    _open: mpsc::Sender<()>,
}

/// What became of a record.
#[derive(Debug)]
pub(super) enum Logged {
    /// It is durable.
    Durable(LogTicket),
    /// It is not: what is known of members has changed, and the row is to be planned again.
    PlanAgain,
    /// It cannot be, and the member cannot be failed.
    Failed(IoError),
}

impl MemberLog {
    /// What waits and fits one header.
    fn take(&mut self) -> Vec<WaitingRow> {
        let (mut entries, mut room) = (ENTRIES_MAX, self.space.parity_max());
        let mut taken = Vec::new();
        while let Some(row) = self.waiting.front() {
            let len = parity_len(&row.record);
            let fits = row.record.entries.len() <= entries && len <= room;
            if !fits && !taken.is_empty() {
                break;
            }
            assert!(fits, "a pass fits the log");
            entries -= row.record.entries.len();
            room -= len;
            taken.extend(self.waiting.pop_front());
        }
        taken
    }

    /// Where a header of these rows goes, byte of the disk, and its bytes; and whether it is the first one of another turn
    /// around the space.
    fn image(&mut self, rows: &[WaitingRow], mut header: PplHeader) -> (Range, IoBufs, bool) {
        let entries = rows.iter().flat_map(|row| &row.record.entries);
        header.entries = entries.copied().collect();
        let mut data: IoBufs = std::iter::once(Bytes::from(header.encode())).collect();
        data.extend(rows.iter().flat_map(|row| row.record.parity.clone()));
        let len = header.footprint();
        let at = self.space.place_for(self.next, len);
        self.next = at + len;
        let turns = self.space.is_ring && at == 0;
        (Range::new(self.space.place.offset + at, len), data, turns)
    }
}

fn answer_rows(rows: Vec<WaitingRow>, answer: impl Fn() -> Logged) {
    for row in rows {
        // A row that has gone wants no answer.
        drop(row.answer.send(answer()));
    }
}

fn parity_len(record: &PplRecord) -> u64 {
    record.parity.iter().map(|piece| piece.len() as u64).sum()
}

impl PartialParityLogs {
    /// None are kept, of the array with this UUID.
    pub(in crate::array::redundant) fn none(uuid: &[u8; 16]) -> Self {
        Self {
            signature: ppl::signature(uuid),
            parity_max: AtomicU64::new(0),
            mode: RwLock::new(LogMode::Unprepared),
            generation: AtomicU64::new(0),
            members: Mutex::default(),
        }
    }

    /// Those of the members that hold a part, of the array with this UUID.
    ///
    /// # Errors
    /// Some do, and some do not.
    pub(in crate::array::redundant) fn open<'a>(
        members: impl Iterator<Item = &'a Member> + Clone,
        uuid: &[u8; 16],
    ) -> Result<Self, ArrayError> {
        let logs = Self::none(uuid);
        if !members.clone().any(|member| member.superblock.keeps_ppl()) {
            return Ok(logs);
        }
        let mut parity_max = u64::MAX;
        for member in members {
            let space = PplSpace::of(&member.superblock).ok_or_else(|| {
                let name = &member.name;
                let what = format!("{name} has no partial parity log, other members have one");
                ArrayError::refused(what, "open the array read-only")
            })?;
            parity_max = parity_max.min(space.parity_max());
        }
        logs.parity_max.store(parity_max, Ordering::Relaxed);
        Ok(logs)
    }

    /// Whether members had them when the array was opened.
    pub(super) fn are_found(&self) -> bool {
        self.parity_max() > 0
    }

    /// Bytes of partial parity that one header of any member can have.
    pub(super) fn parity_max(&self) -> u64 {
        self.parity_max.load(Ordering::Relaxed)
    }

    /// Members have space for so much partial parity. No log may be kept, and each is reset before one is.
    pub(in crate::array::redundant) fn restart(&self, parity_max: u64) {
        self.parity_max.store(parity_max, Ordering::Relaxed);
    }

    fn members(&self) -> MutexGuard<'_, MemberLogs> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the log of a member, or changes it.
    fn with<T>(&self, slot: SlotId, work: impl FnOnce(&mut MemberLog) -> T) -> T {
        work(self.members().by_slot.get_mut(&slot).expect("logs stay"))
    }

    /// The log of a member was reset: it has an empty header at the beginning of its space, or none.
    pub(super) fn begin(&self, slot: SlotId, space: PplSpace) {
        let mut members = self.members();
        let log = members.by_slot.entry(slot).or_insert_with(|| MemberLog {
            space,
            next: 0,
            waiting: VecDeque::new(),
        });
        log.space = space;
        log.next = HEADER_LEN;
    }

    /// The logs that rows wait at.
    fn awaited(&self) -> Vec<SlotId> {
        let members = self.members();
        let awaited = members.by_slot.iter();
        let awaited = awaited.filter(|(_, log)| !log.waiting.is_empty());
        awaited.map(|(slot, _)| *slot).collect()
    }

    /// A round has ended. Whether another one is to begin.
    fn end_round(&self) -> bool {
        let mut members = self.members();
        let mut logs = members.by_slot.values();
        let is_awaited = logs.any(|log| !log.waiting.is_empty());
        members.is_driven = is_awaited;
        is_awaited
    }

    /// Answers all rows that wait. `unflushed`: is to be flushed still.
    fn answer_all(&self, unflushed: BTreeSet<usize>, answer: impl Fn() -> Logged) {
        let rows: Vec<WaitingRow> = {
            let mut members = self.members();
            members.unflushed.extend(unflushed);
            let logs = members.by_slot.values_mut();
            logs.flat_map(|log| std::mem::take(&mut log.waiting))
                .collect()
        };
        answer_rows(rows, answer);
    }

    fn next_header(&self) -> PplHeader {
        PplHeader {
            generation: self.generation.fetch_add(1, Ordering::Relaxed) + 1,
            ..PplHeader::empty(self.signature)
        }
    }
}

impl RedundantArray {
    /// Writes a record into the log of a member.
    pub(super) async fn log_record(
        &self,
        logs: &PartialParityLogs,
        slot: SlotId,
        record: PplRecord,
    ) -> Logged {
        let (answer, logged) = oneshot::channel();
        let begins = {
            let mut members = logs.members();
            let Some(log) = members.by_slot.get_mut(&slot) else {
                return Logged::PlanAgain;
            };
            log.waiting.push_back(WaitingRow { record, answer });
            !std::mem::replace(&mut members.is_driven, true)
        };
        if begins {
            self.spawn_round();
        }
        logged.await.unwrap_or_else(|_| {
            let error = IoError::new(Errno::Io, Operation::Write, None);
            Logged::Failed(error.because("the task that wrote the partial parity log panicked"))
        })
    }

    fn spawn_round(&self) {
        drop(self.spawn(move |array| async move {
            let logs = array.rows.logs().expect("it keeps logs");
            array.write_round(logs).await;
            if logs.end_round() {
                array.spawn_round();
            }
        }));
    }

    /// Writes headers for rows that wait, and waits until they were written.
    async fn write_round(&self, logs: &PartialParityLogs) {
        let unflushed = std::mem::take(&mut logs.members().unflushed);
        // What headers before have must not be forgotten: a change of one of their rows may have failed.
        if self.lock().state.is_unsynced() {
            return logs.answer_all(unflushed, || Logged::PlanAgain);
        }
        if let Err(error) = self.flush_parts(&unflushed).await {
            return logs.answer_all(unflushed, || Logged::Failed(error.clone()));
        }
        // What arrived during the flush is in this round, too.
        let headers = logs.awaited().into_iter();
        join_all(headers.map(|slot| self.write_header(logs, slot))).await;
    }

    /// Writes a header into one log, and waits until its rows were written.
    async fn write_header(&self, logs: &PartialParityLogs, slot: SlotId) {
        let rows = logs.with(slot, MemberLog::take);
        // A member that has failed may be closed already.
        let Some(target) = self.holder_in(slot) else {
            return answer_rows(rows, || Logged::PlanAgain);
        };
        let (place, data, turns) = logs.with(slot, |log| log.image(&rows, logs.next_header()));
        let written = async {
            if turns {
                // Where a cut leaves the old header, but not what was behind it, an old one would count.
                let first = Range::new(place.offset, HEADER_LEN);
                let none = invalid_header();
                target.write_at(first, none, WriteFlags::FUA).await?;
            }
            target.write_at(place, data, WriteFlags::FUA).await
        };
        if let Err(error) = written.await {
            let failing = self.fail_slot(slot, &error.to_string());
            return answer_rows(rows, || match failing {
                Failing::Last => Logged::Failed(error.clone()),
                _ => Logged::PlanAgain,
            });
        }
        let (open, mut ended) = mpsc::channel(1);
        let parts: Vec<usize> = rows
            .iter()
            .flat_map(|row| row.record.parts.clone())
            .collect();
        // Before any of them is written: they are flushed also where this task panics.
        logs.members().unflushed.extend(parts);
        answer_rows(rows, || {
            Logged::Durable(LogTicket {
                _open: open.clone(),
            })
        });
        drop(open);
        // No ticket sends anything: this resolves once all were dropped.
        assert_eq!(ended.recv().await, None, "a ticket is only held");
    }

    /// The member of a slot, if it holds a part.
    fn holder_in(&self, slot: SlotId) -> Option<Arc<Target>> {
        let view = self.view();
        let mut holders = view.holders().map(|holder| &holder.target);
        holders.find(|target| target.slot == slot).cloned()
    }

    /// Flushes the holders of parts, and makes durable which of them failed at that.
    async fn flush_parts(&self, parts: &BTreeSet<usize>) -> Result<(), IoError> {
        let view = self.view();
        let holders = parts.iter().filter_map(|part| view.holder(*part));
        let flushes = holders.map(|holder| {
            let target = holder.target.clone();
            async move { (target.slot, target.flush().await) }
        });
        for (slot, flushed) in join_all(flushes).await {
            if let Err(error) = flushed
                && self.fail_slot(slot, &error.to_string()) == Failing::Last
            {
                return Err(error);
            }
        }
        self.record(State::is_recorded).await
    }
}
