//! What cannot be read any more of rows that a reshape moves: the rest of them is moved, and members note in their logs of bad blocks,
//! at the new place, what is lost.
//!
//! ```text
//! old row   │ D0   │ D1 ×× │ P    │        ×× cannot be read, of the member with P neither
//! new row   │ D0   │ D1 ×× │ D2   │ P ×× │   noted: the data, and all parity of the same columns
//! ```
//!
//! A reshape that stops there keeps an array between two forms, and its spares idle, for a few sectors. Parity is noted, too: it is
//! computed with zeroes for what is lost, and would give these as data.
//!
//! # Invariants
//!
//! * Members have noted what is lost, durably, before any of them knows of a position behind it. A read of it is an error, before the reshape has
//!   ended and after that; a write makes it good.
//! * Only what no member has is lost: not what a member did not give in time, nor what parity may have that is not known to fit, nor what
//!   a missing member has in the same columns. There, and where a member can note nothing (it has no log, or a full one), no row is moved.
//!
//! # What it does not do
//!
//! Logs count from the beginning of a disk, as those of Linux. In the midst of a reshape Linux itself looks for bad blocks of new rows where the
//! data began before (`is_badblock` of its `md`): one that goes on with such a reshape reads zeroes there until it has ended.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use block::{Errno, IoBufs, IoError, Operation, Range};

use super::super::super::parity::layout::Layout;
use super::super::super::parity::member_reads::{SpanReader, SpanSource};
use super::super::super::parity::plan::{Bytes, footprint, run, single};
use super::super::super::parity::unreadable::Ranges;
use super::super::super::{ArrayEvent, ReshapeLosses};
use super::super::RedundantArray;
use super::super::members::is_unreadable;
use super::super::row_section::RowSection;
use super::Rows;
use super::columns::Columns;
use super::sync::{RowStop, halves};
use crate::zeroes::zeroes;

/// Places of one window that may be lost: a log has no room for more.
const LOST_MAX: usize = 512;

/// Old rows as they were read.
#[derive(Debug, Default)]
pub(super) struct OldRows {
    /// Zeroes where they are lost.
    pub(super) data: IoBufs,
    /// Bytes of the array, in order.
    pub(super) lost: Vec<Range>,
}

/// What reshapes found lost since the array was opened.
#[derive(Debug, Default)]
pub(super) struct FoundLosses {
    moved: ReshapeLosses,
    /// Of the window that is being moved, or that cannot be.
    of_window: ReshapeLosses,
}

impl FoundLosses {
    /// A window is read, for the first time or again.
    const fn begin_window(&mut self) {
        self.of_window = ReshapeLosses {
            places: 0,
            bytes: 0,
        };
    }

    fn found(&mut self, lost: &[Range]) {
        let mut places = Ranges::default();
        lost.iter().for_each(|range| places.add(*range));
        self.of_window = ReshapeLosses {
            places: places.len() as u64,
            bytes: lost.iter().map(|range| range.len).sum(),
        };
    }

    const fn noted(&mut self) {
        self.moved = self.all();
        self.begin_window();
    }

    const fn all(&self) -> ReshapeLosses {
        ReshapeLosses {
            places: self.moved.places + self.of_window.places,
            bytes: self.moved.bytes + self.of_window.bytes,
        }
    }
}

impl Rows {
    fn losses(&self) -> MutexGuard<'_, FoundLosses> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What reshapes found that no member can read.
    pub(in super::super) fn reshape_losses(&self) -> ReshapeLosses {
        self.losses().all()
    }
}

impl RedundantArray {
    /// Reads what lies as it did before, in a window.
    pub(super) async fn read_old_rows(
        &self,
        section: RowSection,
        range: Range,
    ) -> Result<OldRows, RowStop> {
        let mut old = OldRows::default();
        self.rows.losses().begin_window();
        if range.is_empty() {
            return Ok(old);
        }
        let all = footprint(&section.layout, range);
        let columns = Columns::of(self, section, all);
        let is_complete = !columns.lost.touches_any(all);
        let mut open = halves(&columns, range);
        while let Some(range) = open.next() {
            let error = match SpanReader(&columns).read(range, is_complete).await {
                Ok(data) => {
                    old.data.extend(data);
                    continue;
                }
                Err(error) => error,
            };
            if open.halve(range) {
                continue;
            }
            if old.lost.len() >= LOST_MAX || !self.is_lost(&columns, range).await {
                return Err(RowStop::Lost(error));
            }
            let name = self.name();
            tracing::warn!("{name}: {range} is lost, and moved as bad blocks: {error}");
            old.data.extend(zeroes(range.len_usize()));
            old.lost.push(range);
        }
        self.repair_reads(&columns).await;
        Ok(old)
    }

    /// Whether no member has `range`, which could not be read.
    async fn is_lost(&self, columns: &Columns<'_>, range: Range) -> bool {
        let columns_of = footprint(columns.layout(), range);
        if columns.lost.is_unsynced(columns_of) || self.fence.is_closed() {
            return false;
        }
        for part in 0..columns.layout().parts {
            if columns.lost.touches(part, columns_of) {
                continue;
            }
            let bytes = Bytes {
                part,
                range: columns_of,
            };
            let Err(error) = columns.ask(bytes).await else {
                continue;
            };
            if !is_unreadable(&error) {
                return false;
            }
        }
        true
    }

    /// Has the members of new rows note what is lost of them, durably.
    pub(super) async fn note_lost(
        &self,
        section: RowSection,
        lost: &[Range],
    ) -> Result<(), RowStop> {
        if lost.is_empty() {
            return Ok(());
        }
        self.rows.losses().found(lost);
        self.must_lose_no_more(&section, lost)?;
        for (part, places) in lost_places(&section, lost) {
            let state = &mut self.lock().state;
            let Some(slot) = state.members.parts[part] else {
                continue;
            };
            if state.log_bad(slot, &places) {
                continue;
            }
            let name = &state.members.slots[slot.0].target.name;
            let why = format!(
                "no member has it, and {name} has no log of bad blocks to note that, or a full one"
            );
            let error = IoError::new(Errno::Io, Operation::Read, lost.first().copied());
            return Err(RowStop::Lost(error.because(why)));
        }
        self.record_at_last().await.map_err(RowStop::Failed)?;
        self.rows.losses().noted();
        for place in lost {
            self.send_event(ArrayEvent::BadBlocks { place: *place });
        }
        Ok(())
    }
}

impl RedundantArray {
    /// Refuses new rows in which a member is missing that has data in columns of which something is lost: with all parity of these noted as bad
    /// they would be lost, too.
    fn must_lose_no_more(&self, section: &RowSection, lost: &[Range]) -> Result<(), RowStop> {
        let layout = &section.layout;
        let mut all = Ranges::default();
        lost.iter().for_each(|range| all.add(*range));
        let members = &self.lock().state.members;
        for (bytes, number) in pieces(layout, lost) {
            let row = layout.row(number);
            for index in 0..layout.data() {
                let part = row.part(index);
                let within = bytes.range.offset - number * layout.chunk;
                let at = number * layout.row_len() + index as u64 * layout.chunk + within;
                let is_lost = all.outside(Range::new(at, bytes.range.len)).is_empty();
                if is_lost || members.part_is_in_sync(part) {
                    continue;
                }
                let why = format!(
                    "no member has it, and what part {part}, which is missing, holds next to it would be lost with it: add a disk"
                );
                let error = IoError::new(Errno::Io, Operation::Read, lost.first().copied());
                return Err(RowStop::Lost(error.because(why)));
            }
        }
        Ok(())
    }
}

/// `lost` of the array by members, each with its row.
fn pieces(layout: &Layout, lost: &[Range]) -> Vec<(Bytes, u64)> {
    let mut pieces = Vec::new();
    for range in lost {
        let mut rest = *range;
        while !rest.is_empty() {
            let len = rest.len.min(run(layout, rest.offset));
            let bytes = single(layout, Range::new(rest.offset, len));
            let bytes = bytes.expect("a run lies on one part");
            pieces.push((bytes, rest.offset / layout.row_len()));
            rest = Range::new(rest.offset + len, rest.len - len);
        }
    }
    pieces
}

/// By part, the places of members that are bad where `lost` is, bytes of the array: its own, and parity of the same columns.
fn lost_places(section: &RowSection, lost: &[Range]) -> BTreeMap<usize, Vec<Range>> {
    let layout = &section.layout;
    let mut places: BTreeMap<usize, Vec<Range>> = BTreeMap::new();
    for (bytes, number) in pieces(layout, lost) {
        let row = layout.row(number);
        let parts = [Some(bytes.part), Some(row.p), row.q];
        for part in parts.into_iter().flatten() {
            let of_part = places.entry(part).or_default();
            of_part.push(section.place(bytes.range));
        }
    }
    places
}
