//! How a row is changed: what is read before, and how its parity is computed. Pure.
//!
//! A row is planned in *segments*: columns in which the same chunks are written and the same parts can be read.
//!
//! ```text
//!             part 0   part 1   part 2   part 3
//! row         | D0   | D1   | D2   | P    |         ██ is written
//! columns a     ████   ····   ····   ████           reconstruct-write: what is not written is read
//! columns b     ████   ████   ████   ████           full stripe: nothing is read
//! ```
//!
//! | method | reads | parity is |
//! |---|---|---|
//! | full stripe | nothing | that of the new data |
//! | read-modify-write | what is replaced, and parity | old parity, less the old data, plus the new |
//! | reconstruct-write | the data that stay | that of the new data and of those |
//! | the same, what is lost computed | all that is left | that of the new data, of what stays, and of what was computed |
//! | data alone | nothing | on no member that is there, or noted as bad there |
//!
//! # Invariants
//!
//! * The method that reads of the fewest parts is taken; of two that read of as many the one that reads no parity.
//! * Parity that is not to be trusted is never read; it is only written whole. Parity that only counts as right
//!   ([`ParityTrust::Assumed`]) is read where data cannot be.
//! * Every parity that has a holder is written in all columns in which data are; but not where it can not be computed, and its
//!   holder has that place in its log of bad blocks: it stays there.
//! * Data of a part without a holder are in a parity that is written, or the row is refused.

use block::Range;

use super::layout::Row;
use super::plan::{Bytes, Gone, Rebuild, Way, join_reads, way};
use super::unreadable::Lost;

/// How the parity of a segment is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) enum Method {
    /// All data are new.
    FullStripe,
    /// From old parity, and old and new data of what is written.
    ReadModifyWrite,
    /// From all data: new ones, and those that stay.
    ReconstructWrite,
    /// No parity has a holder, or all of them have noted as bad what would be written, and it cannot be computed.
    DataAlone,
}

/// Columns of a row in which the same is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct Segment {
    /// Which bytes of each member.
    pub(in crate::array) columns: Range,
    pub(in crate::array) method: Method,
    /// The parts with data that are written, in order.
    pub(in crate::array) written: Vec<usize>,
    /// Data that stay, and are computed because they cannot be read.
    pub(in crate::array) rebuild: Option<Rebuild>,
}

/// What changing a row takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct StripePlan {
    pub(in crate::array) row: Row,
    /// Reads of members, by part and place; none touches another.
    pub(in crate::array) reads: Vec<Bytes>,
    /// In order, without overlaps.
    pub(in crate::array) segments: Vec<Segment>,
    /// Whether P is written.
    pub(in crate::array) p: bool,
    /// Whether Q is written.
    pub(in crate::array) q: bool,
}

/// What the parity of a row is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) enum ParityTrust {
    /// It may not fit the data: it is never read.
    Unsynced,
    /// It may never have been computed: it is read only where data cannot be.
    Assumed,
    /// It fits the data.
    Fits,
}

/// What is known of the members.
#[derive(Debug, Clone, Copy)]
pub(in crate::array) struct StripeMembers<'a> {
    /// What cannot be read, and where parity is not to be trusted.
    pub(in crate::array) lost: &'a Lost,
    /// What their logs of bad blocks have, of that.
    pub(in crate::array) bad: &'a Lost,
    /// By part: whether it has a holder, which is written.
    pub(in crate::array) held: &'a [bool],
    /// What parity is worth where it is not known to be out of sync.
    pub(in crate::array) trust: ParityTrust,
}

/// Plans a change of `row`, of which `written` is written: bytes of parts with data.
///
/// # Errors
/// [`Gone`]: what stays cannot be had, or what is written would be nowhere.
pub(in crate::array) fn plan_stripe(
    row: Row,
    written: &[Bytes],
    members: StripeMembers<'_>,
) -> Result<StripePlan, Gone> {
    let mut plan = StripePlan {
        row,
        reads: Vec::new(),
        segments: Vec::new(),
        p: members.held[row.p],
        q: row.q.is_some_and(|q| members.held[q]),
    };
    let ranges = || written.iter().map(|bytes| bytes.range);
    let (Some(start), Some(end)) = (
        ranges().map(|range| range.offset).min(),
        ranges().map(|range| range.end()).max(),
    ) else {
        return Ok(plan);
    };
    let mut borders = members.lost.borders(Range::new(start, end - start));
    borders.extend(ranges().flat_map(|range| [range.offset, range.end()]));
    borders.sort_unstable();
    borders.dedup();
    for border in borders.windows(2) {
        let columns = Range::new(border[0], border[1] - border[0]);
        let is_here = |bytes: &&Bytes| bytes.range.overlaps(&columns);
        let mut here: Vec<usize> = written.iter().filter(is_here).map(|b| b.part).collect();
        here.sort_unstable();
        here.dedup();
        if !here.is_empty() {
            plan.add_segment(columns, here, members)?;
        }
    }
    plan.reads = join_reads(std::mem::take(&mut plan.reads));
    Ok(plan)
}

impl StripePlan {
    /// The parts with parity that is written.
    pub(in crate::array) fn parities(&self) -> impl Iterator<Item = usize> {
        let p = self.p.then_some(self.row.p);
        p.into_iter().chain(self.row.q.filter(|_| self.q))
    }

    fn add_segment(
        &mut self,
        columns: Range,
        written: Vec<usize>,
        members: StripeMembers<'_>,
    ) -> Result<(), Gone> {
        let gone = members.lost.lost(columns);
        let refused = |unsynced| Gone {
            columns,
            range: columns,
            parts: gone.clone(),
            unsynced,
        };
        let nowhere = written.iter().filter(|part| !members.held[**part]).count();
        if nowhere > self.parities().count() {
            return Err(refused(false));
        }
        let trust = match members.lost.is_unsynced(columns) {
            true => ParityTrust::Unsynced,
            false => members.trust,
        };
        let choice = self.choose(&written, &gone, trust);
        let choice = choice.or_else(|| {
            let is_bad = |parity| members.bad.covers(parity, columns);
            let stays_bad = nowhere == 0 && self.parities().all(is_bad);
            stays_bad.then(|| (Method::DataAlone, Vec::new(), None))
        });
        let Some((method, reads, way)) = choice else {
            return Err(refused(
                trust == ParityTrust::Unsynced
                    && self.choose(&written, &gone, ParityTrust::Fits).is_some(),
            ));
        };
        let range = columns;
        let reads = reads.into_iter().map(|part| Bytes { part, range });
        self.reads.extend(reads);
        let row = self.row;
        self.segments.push(Segment {
            columns,
            method,
            written,
            rebuild: way.map(|way| Rebuild { row, columns, way }),
        });
        Ok(())
    }

    /// The method, the parts that it reads, and how data are computed that stay and cannot be read.
    fn choose(
        &self,
        written: &[usize],
        gone: &[usize],
        trust: ParityTrust,
    ) -> Option<(Method, Vec<usize>, Option<Way>)> {
        if self.parities().next().is_none() {
            return Some((Method::DataAlone, Vec::new(), None));
        }
        let row = &self.row;
        let data = || (0..row.parts()).filter(|part| !row.is_parity(*part));
        let stays: Vec<usize> = data().filter(|part| !written.contains(part)).collect();
        if stays.is_empty() {
            return Some((Method::FullStripe, Vec::new(), None));
        }
        let can_read = |parts: &[usize]| parts.iter().all(|part| !gone.contains(part));
        let modified: Vec<usize> = written.iter().copied().chain(self.parities()).collect();
        let is_trusted = trust != ParityTrust::Unsynced;
        let modifies = is_trusted && can_read(&modified);
        match (can_read(&stays), modifies) {
            (true, true) if trust == ParityTrust::Fits && modified.len() < stays.len() => {
                Some((Method::ReadModifyWrite, modified, None))
            }
            (true, _) => Some((Method::ReconstructWrite, stays, None)),
            (false, true) => Some((Method::ReadModifyWrite, modified, None)),
            (false, false) => {
                let lost = stays.iter().find(|part| gone.contains(part))?;
                let way = way(row, gone, *lost).filter(|_| is_trusted)?;
                let reads = way.reads(row, gone).collect();
                Some((Method::ReconstructWrite, reads, Some(way)))
            }
        }
    }
}
