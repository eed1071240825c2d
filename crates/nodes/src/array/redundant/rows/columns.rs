//! [`Columns`]: the members of an array with parity as some of their columns are read, at one moment.

use std::sync::{Arc, Mutex, PoisonError};

use block::{BlockDevice, Errno, IoBufs, IoError, Operation, Range};
use smallvec::SmallVec;
use tokio::sync::Semaphore;

use super::super::super::format::Level;
use super::super::super::parity::layout::{Layout, Row};
use super::super::super::parity::member_reads::{FailedRead, SpanReader, SpanSource};
use super::super::super::parity::plan::{Bytes, single};
use super::super::super::parity::stripe_compute::{Parities, parities_of};
use super::super::super::parity::unreadable::Lost;
use super::super::RedundantArray;
use super::super::members::Target;
use super::super::row_section::RowSection;
use super::super::view::{Holder, View};

/// What is read on the fast path of a member, bytes: more of it may be in the page cache in part, and would be read twice.
const TRY_READ_MAX: u64 = 64 << 10;

/// Some columns of the members that a section has, and what is known of these.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    array: &'a RedundantArray,
    pub(super) section: RowSection,
    pub(super) view: Arc<View>,
    pub(super) lost: Lost,
    /// What members have in their logs of bad blocks, of that.
    pub(super) bad: Lost,
    level: Level,
    /// What could not be read, and was computed.
    failed: Mutex<Vec<FailedRead>>,
}

impl<'a> Columns<'a> {
    /// Those of `span` in a section, as they are now.
    pub(super) fn of(array: &'a RedundantArray, section: RowSection, span: Range) -> Self {
        let guarded = array.lock();
        let state = &guarded.state;
        let view = state.members.view.clone();
        let parts = section.layout.parts;
        let mut lost = Lost::nothing(parts, array.geometry().block_size.into());
        let place = section.place(span);
        let mut bad = match view.no_bad {
            // No part is there, and no memory is taken for them.
            true => Lost::nothing(0, 1),
            false => lost.clone(),
        };
        for (part, holder) in view.parts.iter().take(parts).enumerate() {
            let Some(holder) = holder else {
                lost.add(part, span);
                continue;
            };
            if let Some(to) = holder.rebuilt_to {
                let rest = Range::new(to, place.end().saturating_sub(to));
                if let Some(rest) = section.columns_in(rest, span) {
                    lost.add(part, rest);
                }
            }
            let noted = holder.bad.iter();
            for columns in noted.filter_map(|place| section.columns_in(*place, span)) {
                lost.add(part, columns);
                bad.add(part, columns);
            }
        }
        if view.layout.is_reshaping() {
            // Bits do not know two forms.
            if state.is_unsynced() && !array.rows.is_forced {
                lost.add_unsynced(span);
            }
        } else {
            let unfit = state.unfit(span).into_iter();
            unfit.for_each(|unfit| lost.add_unsynced(unfit));
        }
        let level = state.facts.level;
        drop(guarded);
        Self {
            array,
            section,
            view,
            lost,
            bad,
            level,
            failed: Mutex::default(),
        }
    }

    /// Whether all parity of these columns of a row is noted as bad, or on no member.
    pub(super) fn has_noted_parity(&self, row: u64, columns: Range) -> bool {
        let of = self.layout().row(row);
        let mut parities = [Some(of.p), of.q].into_iter().flatten();
        parities.all(|part| self.view.holder(part).is_none() || self.bad.covers(part, columns))
    }

    /// Parity that members have noted as bad is written all the same, or the row is not.
    pub(super) fn forget_noted(&mut self) {
        self.bad = Lost::nothing(0, 1);
    }

    pub(super) const fn layout(&self) -> &Layout {
        &self.section.layout
    }

    /// Where columns are on each member.
    pub(super) const fn place(&self, columns: Range) -> Range {
        self.section.place(columns)
    }

    /// What was computed because it could not be read.
    pub(super) fn take_failed(&self) -> Vec<FailedRead> {
        std::mem::take(&mut self.failed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn target(&self, part: usize) -> Option<&Arc<Target>> {
        Some(&self.view.holder(part)?.target)
    }

    /// The members that get what is written of a part: its holder, and the replacement of that.
    pub(super) fn written(&self, part: usize) -> impl Iterator<Item = Arc<Target>> + use<> {
        let members = [self.view.holder(part), self.view.replacement(part)];
        let targets = members.map(|holder| holder.map(|holder| holder.target.clone()));
        targets.into_iter().flatten()
    }

    /// Reads of a member on the fast path what is not long; `None`: that would block.
    pub(super) fn try_ask(&self, bytes: Bytes) -> Option<IoBufs> {
        if bytes.range.len > TRY_READ_MAX {
            return None;
        }
        self.target(bytes.part)?.try_read(self.place(bytes.range))
    }

    /// Whether some part has no member at all at these columns, or one that is not rebuilt so far.
    pub(super) fn lacks_member(&self, range: Range) -> bool {
        let has = |holder: &Holder| holder.rebuilt_to.is_none_or(|to| range.end() <= to);
        let mut parts = self.view.parts.iter().take(self.layout().parts);
        parts.any(|holder| !holder.as_ref().is_some_and(has))
    }

    /// Reads all data of columns of one row, in order of their chunks; what cannot be read is computed.
    pub(super) async fn read_data(
        &self,
        row: u64,
        columns: Range,
    ) -> Result<Vec<(usize, IoBufs)>, IoError> {
        let layout = self.layout();
        let of = layout.row(row);
        let request = Range::new(row * layout.row_len(), layout.row_len());
        let found = SpanReader(self).read_span(request, columns).await?;
        let chunks = (0..layout.data()).map(|index| (of.part(index), IoBufs::new()));
        let mut data: Vec<(usize, IoBufs)> = chunks.collect();
        for (at, bufs) in found {
            let index = usize::try_from((at - request.offset) / layout.chunk);
            data[index.expect("a chunk of the row")].1.extend(bufs);
        }
        Ok(data)
    }

    /// Reads or computes what `part` holds at columns of one row.
    pub(super) async fn compute(
        &self,
        row: u64,
        columns: Range,
        part: usize,
    ) -> Result<IoBufs, IoError> {
        let layout = self.layout();
        let of = layout.row(row);
        if of.is_parity(part) {
            let data = self.read_data(row, columns).await?;
            let wanted = (part == of.p, Some(part) == of.q);
            let Parities { p, q } = parities_of(&of, &data, columns.len_usize(), wanted);
            let parity = p.or(q).expect("a part with parity has P or Q");
            return Ok(std::iter::once(parity.freeze()).collect());
        }
        let index = index_of(&of, part, layout.data());
        let within = columns.offset - row * layout.chunk;
        let at = row * layout.row_len() + index as u64 * layout.chunk + within;
        let request = Range::new(at, columns.len);
        debug_assert_eq!(single(layout, request).map(|b| b.part), Some(part));
        let found = SpanReader(self).read_span(request, columns).await?;
        Ok(found.into_iter().flat_map(|(_, bufs)| bufs).collect())
    }

    /// The pieces of `range` that lie in one row each. What lies behind the last row holds nothing.
    pub(super) fn rows(&self, range: Range) -> Vec<(u64, Range)> {
        let layout = self.layout();
        let all = self.section.range.end().div_ceil(layout.row_len()) * layout.chunk;
        let mut rows = Vec::new();
        let mut at = range.offset;
        while at < range.end().min(all) {
            let row = at / layout.chunk;
            let end = ((row + 1) * layout.chunk).min(range.end());
            rows.push((row, Range::new(at, end - at)));
            at = end;
        }
        rows
    }
}

/// Which data chunk of a row `part` has.
fn index_of(row: &Row, part: usize, data: usize) -> usize {
    let index = (0..data).find(|index| row.part(*index) == part);
    index.expect("a part has data or parity")
}

impl SpanSource for Columns<'_> {
    fn layout(&self) -> &Layout {
        Columns::layout(self)
    }

    fn level(&self) -> Level {
        self.level
    }

    fn block_size(&self) -> u32 {
        self.array.geometry().block_size
    }

    fn room(&self) -> &Semaphore {
        &self.array.rows.room
    }

    fn lost(&self) -> &Lost {
        &self.lost
    }

    fn doubted(&self) -> Vec<usize> {
        Vec::new()
    }

    async fn ask(&self, bytes: Bytes) -> Result<IoBufs, IoError> {
        match self.target(bytes.part) {
            Some(target) => target.read(self.place(bytes.range)).await,
            None => Err(IoError::new(Errno::Io, Operation::Read, Some(bytes.range))),
        }
    }

    fn name(&self, part: usize) -> &str {
        self.target(part).map_or("missing", |target| &target.name)
    }

    fn why_lost(&self, part: usize, columns: Range) -> String {
        match self.view.holder(part) {
            None => String::new(),
            Some(holder) => super::super::super::parity::why_lost(holder.rebuilt_to, columns),
        }
    }

    fn finish(&self, _computed: u64, failed: Vec<FailedRead>) {
        let mut all = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(failed);
    }
}

/// By part: whether it has a holder.
pub(super) fn held(view: &View) -> SmallVec<[bool; 16]> {
    view.parts.iter().map(Option::is_some).collect()
}
