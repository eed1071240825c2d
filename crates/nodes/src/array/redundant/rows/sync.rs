//! Work in the background on arrays with parity: one window of it.
//!
//! # Invariants
//!
//! * With a journal, nothing that it has is behind parity that is written here: a replay never writes older parity over it.
//! * Parity is only written from data that were read, or computed from parity that fits them.
//! * A window runs in a task of the array: a worker that is dropped leaves nothing half written.
//! * What cannot be read costs the blocks that are lost with it, not the window: parity is not written there, nor taken to
//!   fit, and a member that is rebuilt has them in its log of bad blocks, durably, before it counts as rebuilt so far.

use std::sync::Arc;

use block::{IoBufs, IoError, Operation, Range};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use super::super::super::parity::member_reads::SpanSource;
use super::super::super::parity::plan::Bytes;
use super::super::super::parity::stripe_compute::parities_of;
use super::super::RedundantArray;
use super::super::halves::Halves;
use super::super::members::Target;
use super::super::range_locks::Kind;
use super::super::row_section::RowSection;
use super::super::state::State;
use super::columns::Columns;
use super::noted_blocks::rewrite_noted;

/// Rows of a window that are worked on at once.
const ROWS_AT_ONCE: usize = 8;
/// Sectors are compared one by one, as md counts them.
const SECTOR: usize = 512;
/// Smallest part of a row that is looked at alone to find what is lost, bytes.
const FINEST: u64 = 4096;

/// Parity that does not fit: whether it is written, in one window.
struct Repair {
    is_wanted: bool,
    /// The journal has nothing any more of the rows of the window, which are locked.
    reclaimed: OnceCell<()>,
}

impl Repair {
    /// Resolves once a replay writes no row of the window: what a journal has of it may be parity that does not fit.
    async fn reclaim(&self, array: &RedundantArray) -> Result<(), RowStop> {
        let reclaimed = self.reclaimed.get_or_try_init(|| array.reclaim_journal());
        reclaimed.await.copied().map_err(RowStop::Failed)
    }
}

/// What was found in a window.
#[derive(Debug, Default)]
pub(in crate::array) struct RowsChecked {
    /// Where parity did not fit, bytes of members, sector by sector.
    pub(in crate::array) differ: Vec<Range>,
    /// Where data cannot be read, so that parity is not known to fit.
    pub(in crate::array) lost: Vec<Range>,
    /// Bytes that members noted as bad, and that were written again.
    pub(in crate::array) rewritten: u64,
}

/// Why a window was not carried out.
#[derive(Debug)]
pub(in crate::array) enum RowStop {
    /// A member cannot be written, and cannot be failed.
    Failed(IoError),
    /// Data are there that cannot be read.
    Lost(IoError),
}

/// Compares parity of the columns in `range` with the data, and with `repair` writes it where it differs, and what members note as bad. What
/// cannot be read is logged, and left as it is.
pub(in crate::array) async fn check_rows(
    array: &RedundantArray,
    range: Range,
    repair: bool,
) -> Result<RowsChecked, RowStop> {
    in_window(array, range, move |array| async move {
        let mut checked = RowsChecked::default();
        let layout = array.layout();
        for (section, range) in layout.sections().columns_at(range) {
            check_section(&array, *section, range, repair, &mut checked).await?;
        }
        Ok(checked)
    })
    .await
}

/// The same with columns of one section, in a window.
async fn check_section(
    array: &RedundantArray,
    section: RowSection,
    range: Range,
    repair: bool,
    checked: &mut RowsChecked,
) -> Result<(), RowStop> {
    let mut columns = Columns::of(array, section, range);
    if repair && !columns.view.no_bad {
        checked.rewritten += rewrite_noted(array, &columns, range).await?;
        // Less is noted now.
        columns = Columns::of(array, section, range);
    }
    let rows = columns.rows(range).into_iter();
    let repair = &Repair {
        is_wanted: repair,
        reclaimed: OnceCell::new(),
    };
    let checks = rows.map(|(row, range)| check_blocks(array, &columns, row, range, repair));
    let checks = stream::iter(checks).buffered(ROWS_AT_ONCE);
    let rows: Vec<(Vec<Range>, Vec<LostBlocks>)> = checks.try_collect().await?;
    array.repair_reads(&columns).await;
    for (differ, lost) in rows {
        let differ = differ.into_iter().map(|place| section.place(place));
        checked.differ.extend(differ);
        for LostBlocks { range, error } in lost {
            let (name, range) = (array.name(), section.place(range));
            tracing::warn!("{name}: no parity is known to fit at {range} of members: {error}");
            checked.lost.push(range);
        }
    }
    Ok(())
}

/// Works on the columns of `range` in a task of the array, while no change of them is under way.
async fn in_window<T, F>(
    array: &RedundantArray,
    range: Range,
    work: impl FnOnce(Arc<RedundantArray>) -> F + Send + 'static,
) -> Result<T, RowStop>
where
    T: Send + 'static,
    F: Future<Output = Result<T, RowStop>> + Send + 'static,
{
    array
        .in_task(move |array| async move {
            let turn = array.turn(Operation::Write, range, Kind::Window).await;
            let _turn = turn.map_err(RowStop::Failed)?;
            work(array.clone()).await
        })
        .await
}

/// Blocks of a row that cannot be had, and why.
struct LostBlocks {
    range: Range,
    error: IoError,
}

/// All of `range` of a row, in halves where data are lost, down to the blocks that are.
pub(super) fn halves(columns: &Columns<'_>, range: Range) -> Halves {
    Halves::new(range, FINEST.max(columns.block_size().into()))
}

/// What of a row is still to be worked on, and what is lost.
struct Narrowing {
    halves: Halves,
    lost: Vec<LostBlocks>,
}

impl Narrowing {
    fn new(columns: &Columns<'_>, range: Range) -> Self {
        Self {
            halves: halves(columns, range),
            lost: Vec::new(),
        }
    }

    /// `range` was not worked on. Where a whole member is lost, and parity too, that is all: halves are no better.
    fn refuse(
        &mut self,
        columns: &Columns<'_>,
        range: Range,
        stop: RowStop,
    ) -> Result<(), RowStop> {
        let RowStop::Lost(error) = stop else {
            return Err(stop);
        };
        if columns.lost.is_unsynced(range) && columns.lacks_member(range) {
            return Err(RowStop::Lost(error));
        }
        if !self.halves.halve(range) {
            self.lost.push(LostBlocks { range, error });
        }
        Ok(())
    }
}

/// Checks what can be read of a row: where parity differs, and what is lost.
async fn check_blocks(
    array: &RedundantArray,
    columns: &Columns<'_>,
    row: u64,
    range: Range,
    repair: &Repair,
) -> Result<(Vec<Range>, Vec<LostBlocks>), RowStop> {
    let mut blocks = Narrowing::new(columns, range);
    let mut differ = Vec::new();
    while let Some(range) = blocks.halves.next() {
        match check_row(array, columns, row, range, repair).await {
            Ok(found) => differ.extend(found),
            // Nothing would be computed from it.
            Err(RowStop::Lost(_)) if columns.has_noted_parity(row, range) => {}
            Err(stop) => blocks.refuse(columns, range, stop)?,
        }
    }
    Ok((differ, blocks.lost))
}

async fn check_row(
    array: &RedundantArray,
    columns: &Columns<'_>,
    row: u64,
    range: Range,
    repair: &Repair,
) -> Result<Vec<Range>, RowStop> {
    let of = columns.layout().row(row);
    let wanted = [Some(of.p), of.q].map(|part| {
        // What was not rebuilt yet will be.
        let part = part?;
        let holder = columns.view.holder(part)?;
        let is_there = holder.rebuilt_to.is_none_or(|to| range.offset < to);
        is_there.then(|| (part, holder.target.clone()))
    });
    if wanted.iter().all(Option::is_none) {
        return Ok(Vec::new());
    }
    let data = columns.read_data(row, range).await.map_err(RowStop::Lost)?;
    let which = (wanted[0].is_some(), wanted[1].is_some());
    let parities = parities_of(&of, &data, range.len_usize(), which);
    let mut differ = vec![false; range.len_usize().div_ceil(SECTOR)];
    for (wanted, parity) in wanted.into_iter().zip([parities.p, parities.q]) {
        let (Some((part, target)), Some(parity)) = (wanted, parity) else {
            continue;
        };
        let bytes = Bytes { part, range };
        let known = match columns.lost.touches(part, range) {
            true => None,
            false => columns.ask(bytes).await.ok(),
        };
        let differs = match &known {
            Some(known) => mark(&parity, known, &mut differ),
            None => true,
        };
        if differs && (repair.is_wanted || known.is_none()) {
            repair.reclaim(array).await?;
            let data: IoBufs = std::iter::once(parity.freeze()).collect();
            let written = array.write_copy(&target, columns.place(range), data).await;
            written.map_err(RowStop::Failed)?;
        }
    }
    let places = differ.iter().zip((range.offset..).step_by(SECTOR));
    let places = places.filter(|(differs, _)| **differs);
    Ok(places
        .map(|(_, at)| Range::new(at, SECTOR as u64))
        .collect())
}

/// Marks sectors that differ; whether there are any.
fn mark(parity: &[u8], known: &IoBufs, differ: &mut [bool]) -> bool {
    let known = known.concat();
    if *parity == known[..] {
        return false;
    }
    let sectors = parity.chunks(SECTOR).zip(known.chunks(SECTOR));
    for (mark, (one, other)) in differ.iter_mut().zip(sectors) {
        *mark |= one != other;
    }
    true
}

/// Rebuilds what the member of `part` holds at `within`.
pub(in crate::array) async fn recover_rows(
    array: &RedundantArray,
    part: u16,
    within: Range,
) -> Result<(), RowStop> {
    in_window(array, within, move |array| async move {
        let layout = array.layout();
        for (section, range) in layout.sections().columns_at(within) {
            recover_section(&array, *section, usize::from(part), range).await?;
        }
        Ok(())
    })
    .await
}

/// The same with columns of one section, in a window.
async fn recover_section(
    array: &RedundantArray,
    section: RowSection,
    part: usize,
    within: Range,
) -> Result<(), RowStop> {
    let mut columns = Columns::of(array, section, within);
    // Another member may hold it by now.
    let holder = columns.view.holder(part).cloned();
    let Some(holder) = holder.filter(|holder| holder.rebuilt_to.is_some()) else {
        return Ok(());
    };
    if part >= section.layout.parts {
        // It holds a part that was not there before the reshape.
        return Ok(());
    }
    columns.lost.add(part, within);
    let rows = columns.rows(within).into_iter();
    let target = &holder.target;
    let rebuilt = rows.map(|(row, range)| {
        let place = Bytes { part, range };
        rebuild_blocks(array, &columns, row, place, target)
    });
    let rebuilt = stream::iter(rebuilt).buffer_unordered(ROWS_AT_ONCE);
    let lost: Vec<Vec<LostBlocks>> = rebuilt.try_collect().await?;
    let lost = lost.into_iter().flatten().collect();
    array.log_lost(&columns, target, lost).await?;
    array.repair_reads(&columns).await;
    Ok(())
}

/// Makes the replacement of the member of `part` a copy of it at `within`. What cannot be read of the member is computed.
pub(in crate::array) async fn replace_rows(
    array: &RedundantArray,
    part: u16,
    within: Range,
) -> Result<(), RowStop> {
    in_window(array, within, move |array| async move {
        // Another member may hold it by now.
        let Some((_, replacement)) = array.pair(part) else {
            return Ok(());
        };
        let (target, part) = (&replacement.target, usize::from(part));
        let mut columns = Columns::of(&array, array.one_section(), within);
        let whole = Bytes {
            part,
            range: within,
        };
        if let Some(data) = read_member(&columns, whole).await {
            let written = array.write_copy(target, within, data).await;
            return written.map_err(RowStop::Failed);
        }
        let mut lost = Vec::new();
        for (row, range) in columns.rows(within) {
            let place = Bytes { part, range };
            if let Some(data) = read_member(&columns, place).await {
                let written = array.write_copy(target, range, data).await;
                written.map_err(RowStop::Failed)?;
                continue;
            }
            columns.lost.add(part, range);
            lost.extend(rebuild_blocks(&array, &columns, row, place, target).await?);
        }
        array.log_lost(&columns, target, lost).await?;
        array.repair_reads(&columns).await;
        Ok(())
    })
    .await
}

/// What a member holds, if it can be read.
async fn read_member(columns: &Columns<'_>, place: Bytes) -> Option<IoBufs> {
    match columns.lost.touches(place.part, place.range) {
        true => None,
        false => columns.ask(place).await.ok(),
    }
}

/// Rebuilds what can be computed of a place in a row; what is lost.
async fn rebuild_blocks(
    array: &RedundantArray,
    columns: &Columns<'_>,
    row: u64,
    place: Bytes,
    target: &Target,
) -> Result<Vec<LostBlocks>, RowStop> {
    let mut blocks = Narrowing::new(columns, place.range);
    while let Some(range) = blocks.halves.next() {
        match columns.compute(row, range, place.part).await {
            Ok(data) => {
                let written = array.write_copy(target, columns.place(range), data);
                written.await.map_err(RowStop::Failed)?;
            }
            Err(error) => blocks.refuse(columns, range, RowStop::Lost(error))?,
        }
    }
    Ok(blocks.lost)
}

impl RedundantArray {
    /// The section of an array that is not being reshaped: no member is rebuilt meanwhile.
    fn one_section(&self) -> RowSection {
        *self.layout().sections().after()
    }

    /// Has the member that is rebuilt keep, durably, that it lacks some blocks.
    async fn log_lost(
        &self,
        columns: &Columns<'_>,
        target: &Target,
        lost: Vec<LostBlocks>,
    ) -> Result<(), RowStop> {
        let places = lost.iter().map(|blocks| columns.place(blocks.range));
        let places: Vec<Range> = places.collect();
        if places.is_empty() {
            return Ok(());
        }
        let is_logged = self.lock().state.log_bad(target.slot, &places);
        for LostBlocks { range, error } in lost {
            if !is_logged {
                return Err(RowStop::Lost(error));
            }
            let (array, name) = (self.name(), &target.name);
            tracing::warn!(
                "{array}: {name} is rebuilt without {range}, which it notes as bad: {error}"
            );
        }
        self.record(State::is_recorded)
            .await
            .map_err(RowStop::Failed)
    }
}
