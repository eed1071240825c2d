//! Replay of partial parity logs: parity is repaired where rows were being written when the array stopped.
//!
//! # Invariants
//!
//! * Nothing is written before the logs of all members were read, and judged.
//! * Parity is written where all data are there that an entry names; it is their sum and that of its partial parity. What
//!   an entry says is done once or more often with the same result: a cut while it is done does no harm.
//! * Parity counts as right everywhere after that only as far as the logs vouch for it: of a complete array if there were
//!   entries, and all logs could be read; else all of it is resynced, as Linux does. Of one that lacks a member if no log
//!   was paused.
//!
//! # What it does not do
//!
//! Of data that were being written on a member that is missing now nothing is known: there PPL makes no promise.

use block::{IoBufs, IoError, Range, WriteFlags};
use engine::Buffer;
use engine::parity::Kernel;

use super::super::super::ArrayError;
use super::super::super::format::SECTOR;
use super::super::super::format::ppl::{self, HEADER_LEN, PplEntry, PplHeader, PplProblem};
use super::super::super::parity::ppl_strips::{PplStrip, strips};
use super::super::RedundantArray;
use super::super::members::SlotId;
use super::super::state::State;
use super::super::view::Holder;
use super::ppl_log::PartialParityLogs;
use crate::read_within;

/// Bytes that are computed together.
const PIECE: u64 = 1 << 20;

/// What the logs of all members say.
#[derive(Debug, Default)]
pub(in crate::array) struct ReadLogs {
    /// Headers with entries, by part, and where their partial parity begins, byte of the disk.
    found: Vec<(usize, PplHeader, u64)>,
    /// Logs of members in sync that could not be read, or are paused.
    unknown: usize,
    /// Members that are being rebuilt, and have no log that could be read: they are rebuilt from the beginning.
    unlogged: Vec<SlotId>,
}

/// What was done.
#[derive(Debug, Default)]
struct Replayed {
    entries: usize,
    /// Entries that were not written whole, cannot be, or of which data are missing.
    skipped: usize,
}

impl RedundantArray {
    /// Reads what is to be replayed. `None`: nothing is.
    ///
    /// # Errors
    /// A member cannot be read, or members are missing and the logs of others do not say what was being written.
    pub(in crate::array) async fn read_logs(&self) -> Result<Option<ReadLogs>, ArrayError> {
        let Some(logs) = self.rows.logs() else {
            return Ok(None);
        };
        if !self.lock().state.is_unsynced() {
            return Ok(None);
        }
        let view = self.view();
        let mut read = ReadLogs::default();
        let mut paused = None;
        for (part, holder) in view.parts.iter().enumerate() {
            let Some(holder) = holder else { continue };
            let in_sync = holder.rebuilt_to.is_none();
            match self.read_log(logs, holder).await? {
                Ok((header, at)) => read.found.push((part, header, at)),
                Err(_) if !in_sync => read.unlogged.push(holder.target.slot),
                Err(problem) => {
                    let name = &holder.target.name;
                    read.unknown += 1;
                    if problem == PplProblem::Blank {
                        // As of a new array: the resync of all parity that follows says enough.
                        tracing::debug!("{name}: its partial parity log is paused");
                        paused = Some(name.clone());
                    } else {
                        tracing::warn!("{name}: its partial parity log: {problem}");
                    }
                }
            }
        }
        match paused {
            Some(name) if self.lock().state.is_degraded() => Err(ArrayError::refused(
                format!(
                    "array {} was being written when it stopped, and members are missing: {name} kept no partial parity \
                     log then, since parity was being resynced",
                    self.name()
                ),
                "name all members, or add force-dirty-degraded=true to read it all the same",
            )),
            _ => Ok(Some(read)),
        }
    }

    /// The header of a member that counts, and where its partial parity begins, byte of the disk.
    async fn read_log(
        &self,
        logs: &PartialParityLogs,
        holder: &Holder,
    ) -> Result<Result<(PplHeader, u64), PplProblem>, ArrayError> {
        let target = &holder.target;
        let space = self.log_space(target.slot).expect("it was checked");
        let mut newest: Option<(PplHeader, u64)> = None;
        let mut at = Some(0);
        while let Some(offset) = at {
            let place = Range::new(space.place.offset + offset, HEADER_LEN);
            let bytes = read_within(&target.disk, place).await;
            let bytes = bytes.map_err(|error| unreadable(&target.name, error))?;
            let header = match (PplHeader::decode(&bytes, logs.signature), &newest) {
                (Err(problem), None) => return Ok(Err(problem)),
                // Those behind are older, or were never written whole: nothing that they name was sent.
                (Err(_), Some(_)) => break,
                (Ok(header), Some((newest, _))) if header.generation < newest.generation => break,
                (Ok(header), _) => header,
            };
            at = space.next(offset, &header);
            newest = Some((header, place.end()));
        }
        Ok(Ok(newest.expect("the first one was read")))
    }

    /// Repairs parity by what the logs say.
    ///
    /// # Errors
    /// Members cannot be read or written: it was repaired in part, and can be again.
    pub(in crate::array) async fn replay(&self, read: ReadLogs) -> Result<(), ArrayError> {
        let view = self.view();
        let mut replayed = Replayed::default();
        for (part, header, at) in &read.found {
            let holder = view.holder(*part).expect("it was there");
            let done = self.replay_header(holder, header, *at).await;
            let done = done.map_err(|error| unreadable(&holder.target.name, error))?;
            replayed.entries += done.entries;
            replayed.skipped += done.skipped;
        }
        let flushed = self.on_all(|target| Box::pin(target.flush())).await;
        flushed.map_err(|error| unreadable("a member", error))?;
        self.conclude_replay(&read, &replayed);
        let recorded = self.record(State::is_recorded).await;
        recorded.map_err(|error| unreadable("a member", error))?;
        tracing::info!(
            "{}: {} entries of partial parity logs were replayed, {} were not: written in part, or of data that are missing",
            self.name(),
            replayed.entries,
            replayed.skipped
        );
        Ok(())
    }

    /// Decides whether parity fits now.
    fn conclude_replay(&self, read: &ReadLogs, replayed: &Replayed) {
        let mut guarded = self.lock();
        let state = &mut guarded.state;
        for slot in &read.unlogged {
            state.members.restart_rebuild(*slot);
        }
        if !read.unlogged.is_empty() {
            // Before their logs are reset.
            state.change(true);
        }
        let is_dirty_alone = state.synced_to() == Some(0);
        let vouch = match state.is_degraded() {
            true => true,
            false => replayed.entries > 0 && replayed.skipped == 0 && read.unknown == 0,
        };
        let size = state.members.layout.sync_size();
        if is_dirty_alone && vouch {
            state.resynced(Range::new(0, size));
        }
    }

    async fn replay_header(
        &self,
        holder: &Holder,
        header: &PplHeader,
        mut at: u64,
    ) -> Result<Replayed, IoError> {
        let mut replayed = Replayed::default();
        let space = self.log_space(holder.target.slot).expect("it was checked");
        for entry in &header.entries {
            let own = Range::new(at, entry.parity_len.into());
            at += own.len / SECTOR * SECTOR;
            let is_there = own.end() <= space.place.end();
            let done = is_there && self.replay_entry(holder, entry, own).await?;
            replayed.entries += usize::from(done);
            replayed.skipped += usize::from(!done);
        }
        Ok(replayed)
    }

    /// Repairs what an entry says. False: it was not written whole, cannot be, or data are missing.
    async fn replay_entry(
        &self,
        holder: &Holder,
        entry: &PplEntry,
        own: Range,
    ) -> Result<bool, IoError> {
        let layout = self.layout();
        let of = &layout.sections().after().layout;
        let Ok(strips) = strips(of, layout.size(), entry) else {
            return Ok(false);
        };
        let parity = read_within(&holder.target.disk, own).await?;
        if ppl::checksum([&parity[..]]) != entry.checksum {
            return Ok(false);
        }
        let mut is_whole = true;
        for strip in &strips {
            if strip.p != self.part_of(holder.target.slot) {
                return Ok(false);
            }
            is_whole &= self.replay_strip(strip, &parity).await?;
        }
        Ok(is_whole)
    }

    fn part_of(&self, slot: SlotId) -> usize {
        let view = self.view();
        let is_it =
            |holder: &Option<Holder>| holder.as_ref().is_some_and(|h| h.target.slot == slot);
        let part = view.parts.iter().position(is_it);
        part.expect("it holds a part")
    }

    /// Repairs the parity of a strip. False: data are not there.
    async fn replay_strip(&self, strip: &PplStrip, parity: &[u8]) -> Result<bool, IoError> {
        let view = self.view();
        let mut is_whole = true;
        let mut done = 0;
        while done < strip.columns.len {
            let len = PIECE.min(strip.columns.len - done);
            let columns = Range::new(strip.columns.offset + done, len);
            let can_read = |part: &usize| view.holder(*part).is_some_and(|h| h.can_read(columns));
            let is_there = strip.written.iter().all(can_read);
            is_whole &= is_there;
            if is_there {
                let mut sum = Buffer::take(columns.len_usize());
                match strip.parity_at {
                    Some(at) => {
                        let from = Range::new(0, at + done).len_usize();
                        sum.copy_from_slice(&parity[from..from + columns.len_usize()]);
                    }
                    None => sum.fill(0),
                }
                for part in &strip.written {
                    let holder = view.holder(*part).expect("it can be read");
                    add(&holder.target.read(columns).await?, &mut sum);
                }
                let holder = view.holder(strip.p).expect("its log was read");
                let data: IoBufs = std::iter::once(sum.freeze()).collect();
                let target = &holder.target;
                target.write(columns, data, WriteFlags::empty()).await?;
            }
            done += len;
        }
        Ok(is_whole)
    }
}

fn add(bufs: &IoBufs, sum: &mut [u8]) {
    let mut at = 0;
    for piece in bufs {
        let end = at + piece.len();
        Kernel::best().multiply_add(1, piece, &mut sum[at..end]);
        at = end;
    }
}

fn unreadable(name: &str, source: IoError) -> ArrayError {
    ArrayError::refused(
        format!("{name}: its partial parity log cannot be replayed: {source}"),
        "see that the member works, or leave it out",
    )
}
