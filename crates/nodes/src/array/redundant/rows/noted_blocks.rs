//! Blocks that members of an array with parity note as bad: a repair writes them again, as far as they are computed from the others.
//!
//! # Invariants
//!
//! * A block is written while its record says that it is bad: a cut leaves it to be computed. The record is cleared behind a flush of what
//!   was written (`State::made_good`).
//! * What cannot be computed, or cannot be written and read again, stays noted. No member fails for that.

use block::Range;

use super::super::super::parity::plan::Bytes;
use super::super::RedundantArray;
use super::columns::Columns;
use super::sync::{RowStop, halves};

/// Writes again what members note as bad within `span`, which is locked against changes; bytes that can be read again, durably.
pub(super) async fn rewrite_noted(
    array: &RedundantArray,
    columns: &Columns<'_>,
    span: Range,
) -> Result<u64, RowStop> {
    let noted = columns.noted(span);
    if noted.is_empty() {
        return Ok(0);
    }
    // A replay writes nothing older over it.
    array.reclaim_journal().await.map_err(RowStop::Failed)?;
    let mut rewritten = 0;
    for Bytes { part, range } in noted {
        for (row, range) in columns.rows(range) {
            let place = Bytes { part, range };
            rewritten += rewrite_blocks(array, columns, row, place).await?;
        }
    }
    if rewritten > 0 {
        let recorded = array.record_rewritten().await;
        recorded.map_err(RowStop::Failed)?;
    }
    Ok(rewritten)
}

/// Writes what can be computed of a place in a row.
async fn rewrite_blocks(
    array: &RedundantArray,
    columns: &Columns<'_>,
    row: u64,
    place: Bytes,
) -> Result<u64, RowStop> {
    let Some(target) = columns.target(place.part) else {
        return Ok(0);
    };
    let mut blocks = halves(columns, place.range);
    let mut rewritten = 0;
    while let Some(range) = blocks.next() {
        let Ok(data) = columns.compute(row, range, place.part).await else {
            // The smallest part stays as it is.
            blocks.halve(range);
            continue;
        };
        let written = array.rewrite_noted(target, columns.place(range), data);
        if written.await.map_err(RowStop::Failed)? {
            rewritten += range.len;
        }
    }
    Ok(rewritten)
}

impl Columns<'_> {
    /// What members in sync note as bad within `span`, in whole blocks.
    fn noted(&self, span: Range) -> Vec<Bytes> {
        let mut noted = Vec::new();
        if self.view.no_bad {
            return noted;
        }
        let parts = self.view.parts.iter().take(self.layout().parts);
        for (part, holder) in parts.enumerate() {
            let is_in_sync = holder.as_ref().is_some_and(|h| h.rebuilt_to.is_none());
            if is_in_sync {
                let ranges = self.bad.lost_within(part, span);
                noted.extend(ranges.map(|range| Bytes { part, range }));
            }
        }
        noted
    }
}
