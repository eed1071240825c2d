//! Replay of a journal: what it has is written to members when an array is opened for writing.
//!
//! # Invariants
//!
//! * Nothing is written before all of the journal was read, and judged.
//! * Data and parity of a column are written page by page, as far as members do not have them; members are flushed, and only then
//!   the journal is emptied. What it says is done once or more often with the same result: a cut while it is done does no harm.
//! * Superblocks say, durably, which members are missing before it is emptied: one that comes back lacks what it was not written.
//! * Data without parity (left by Linux in write-back mode) are written with a parity that is computed from all data: only in
//!   an array that lacks no member, where another cut does no harm.
//! * A journal without a beginning is one that was damaged: parity counts as right nowhere after that, and an array that lacks a
//!   member is refused.
//!
//! # What it does not do
//!
//! An array that is only read is not repaired: where members lack what the journal has it is refused
//! ([`refuse_stale_members`]).

use std::collections::BTreeMap;

use block::{Errno, IoBufs, IoError, Operation, Range, WriteFlags};

use super::super::super::ArrayError;
use super::super::super::assembly::Assembly;
use super::super::super::format::r5l::{JournalSpace, PAGE, PAGE_USIZE};
use super::super::super::member::Member;
use super::super::super::parity::journal_columns::FoundColumn;
use super::super::super::parity::stripe_compute::parities_of;
use super::super::RedundantArray;
use super::super::members::Target;
use super::super::state::State;
use super::journal::journal_failed;
use super::journal_scan::{FoundLog, scan};
use crate::read_within;

impl RedundantArray {
    /// Writes what the journal has to members.
    ///
    /// # Errors
    /// Members cannot be read or written: it was replayed in part, and can be again. Or what it has cannot be written without
    /// members that are missing.
    pub(in crate::array) async fn replay_journal(&self) -> Result<(), ArrayError> {
        let Some(journal) = &self.rows.journal else {
            return Ok(());
        };
        let Some(found) = journal.take_found() else {
            return Ok(());
        };
        self.judge_journal(&found)?;
        if found.is_damaged {
            {
                let state = &mut self.lock().state;
                let size = state.members.layout.sync_size();
                state.need(Range::new(0, size));
                state.change(true);
            }
            // Durable before the journal looks whole again.
            let recorded = self.record(State::is_recorded).await;
            recorded.map_err(|error| unreplayed(self.name(), &error))?;
        }
        if found.columns.is_empty() {
            return Ok(());
        }
        let replayed = self.replay_columns(&found).await;
        let written = replayed.map_err(|error| unreplayed(self.name(), &error))?;
        let emptied = async {
            self.on_all(|target| Box::pin(target.flush())).await?;
            self.record_missing().await?;
            let mut head = journal.head.lock().await;
            self.empty_journal(journal, &mut head).await
        };
        let emptied = emptied.await;
        emptied.map_err(|error| unreplayed(self.name(), &error))?;
        tracing::info!(
            "{}: the journal was replayed: {} pages of {} columns were not on members",
            self.name(),
            written,
            found.columns.iter().count()
        );
        Ok(())
    }

    /// Refuses what cannot be replayed without a member that is missing.
    fn judge_journal(&self, found: &FoundLog) -> Result<(), ArrayError> {
        let is_degraded = self.lock().state.is_degraded();
        let why = match (found.is_damaged, found.has_cached()) {
            _ if !is_degraded => return Ok(()),
            (true, _) => "is damaged: what was being written is not known",
            (_, true) => "has data without parity (write-back)",
            _ => return Ok(()),
        };
        let name = self.name();
        Err(ArrayError::refused(
            format!("members of array {name} are missing, and its journal {why}"),
            "name all members, or add force-dirty-degraded=true to read what there is without the journal",
        ))
    }

    /// How many pages were written.
    async fn replay_columns(&self, found: &FoundLog) -> Result<u64, IoError> {
        let mut written = 0;
        for (at, column) in found.columns.iter() {
            let range = Range::new(at, PAGE);
            for (part, place) in &column.whole {
                let page = self.journal_page(*place).await?;
                written += self.replay_page(*part, range, page).await?;
            }
            if !column.cached.is_empty() {
                for (part, page) in self.with_parity(range, column).await? {
                    written += self.replay_page(part, range, page).await?;
                }
            }
        }
        Ok(written)
    }

    /// The page at byte `at` of the journal.
    async fn journal_page(&self, at: u64) -> Result<IoBufs, IoError> {
        let target = self.journal_target().ok_or_else(journal_failed)?;
        target.read(Range::new(at, PAGE)).await
    }

    /// Writes a page to the members of a part that do not have it. How many did not.
    async fn replay_page(&self, part: usize, range: Range, page: IoBufs) -> Result<u64, IoError> {
        let view = self.view();
        let mut written = 0;
        let holders = [view.holder(part), view.replacement(part)];
        for holder in holders.into_iter().flatten() {
            let target = &holder.target;
            if holder.can_read(range) && has_page(target, range, &page).await {
                continue;
            }
            let empty = WriteFlags::empty();
            target.write(range, page.clone(), empty).await?;
            written += 1;
        }
        Ok(written)
    }

    /// Data that were acknowledged without parity, and the parity of the row with them.
    async fn with_parity(
        &self,
        range: Range,
        column: &FoundColumn,
    ) -> Result<BTreeMap<usize, IoBufs>, IoError> {
        let layout = self.layout();
        let layout = &layout.sections().after().layout;
        let row = layout.row(range.offset / layout.chunk);
        let view = self.view();
        let mut writes = BTreeMap::new();
        let mut data = Vec::new();
        for part in (0..layout.data()).map(|index| row.part(index)) {
            let page = match column.cached.get(&part) {
                Some(place) => {
                    let page = self.journal_page(*place).await?;
                    writes.insert(part, page.clone());
                    page
                }
                None => {
                    let holder = view.holder(part).expect("no member is missing");
                    if !holder.can_read(range) {
                        let error = IoError::new(Errno::Io, Operation::Read, Some(range));
                        return Err(error.because("a member noted it as bad"));
                    }
                    holder.target.read(range).await?
                }
            };
            data.push((part, page));
        }
        let parities = parities_of(&row, &data, PAGE_USIZE, (true, row.q.is_some()));
        for (part, parity) in [(Some(row.p), parities.p), (row.q, parities.q)] {
            if let (Some(part), Some(parity)) = (part, parity) {
                writes.insert(part, std::iter::once(parity.freeze()).collect());
            }
        }
        Ok(writes)
    }
}

/// Whether a member has a page already.
async fn has_page(target: &Target, range: Range, page: &IoBufs) -> bool {
    let read = target.read(range).await;
    read.is_ok_and(|read| read.concat() == page.concat())
}

fn unreplayed(name: &str, source: &IoError) -> ArrayError {
    ArrayError::refused(
        format!("the journal of array {name} cannot be replayed: {source}"),
        "see that its members work, or leave one out",
    )
}

/// Refuses an array that is only read where members lack what its journal has.
///
/// # Errors
/// They do; or one of them, or the journal, cannot be read.
pub(in crate::array) async fn refuse_stale_members(assembly: &Assembly) -> Result<(), ArrayError> {
    let Some(found) = scan(assembly).await? else {
        return Ok(());
    };
    let journal = assembly.journal().expect("it was read");
    let is_stale = found.has_cached() || found.is_damaged || {
        let failed = |source| ArrayError::Read {
            member: journal.name.clone(),
            source,
        };
        let stale = lacks_a_page(assembly, journal, &found).await;
        stale.map_err(failed)?
    };
    if !is_stale {
        return Ok(());
    }
    let (name, journal) = (&assembly.facts.name, &journal.name);
    Err(ArrayError::refused(
        format!(
            "array {name} was being written when it stopped: its journal {journal} has what members lack"
        ),
        "open it for writing once, which replays the journal, or add force-dirty-degraded=true to read it all the same",
    ))
}

/// Whether a member lacks a page that the journal has.
async fn lacks_a_page(
    assembly: &Assembly,
    journal: &Member,
    found: &FoundLog,
) -> Result<bool, IoError> {
    let space = JournalSpace::of(&journal.superblock);
    for (part, range, at) in found.pages() {
        let holder = &assembly.parts[part];
        let is_here = holder.rebuilt_to.is_none_or(|to| range.end() <= to);
        let Some(member) = holder.member.as_ref().filter(|_| is_here) else {
            continue;
        };
        let place = Range::new(space.place.offset + at, PAGE);
        let page = read_within(&journal.disk, place).await?;
        let own = read_within(&member.disk, member.place(range)).await?;
        if page != own {
            return Ok(true);
        }
    }
    Ok(false)
}
