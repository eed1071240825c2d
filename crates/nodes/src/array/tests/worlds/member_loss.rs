//! A member that is lost while parity is not known to fit everywhere: what is owed then.
//!
//! # What must hold
//!
//! * What was acknowledged since the array was opened is there, unless a change of its row failed or was dropped since: all parity
//!   of such a row was written from all its data.
//! * Of the rest nothing is owed, and nothing of it after that life: the next one that opens the array does not know these rows.

use block::{BlockDevice, Range};
use testkit::{Op, SECTOR};

use super::disks::Mode;
use super::expected_content::{index, touched};
use super::shape::{CHUNK, Shape};
use super::world::{Life, World, Wrong};
use crate::array::format::Level;

/// What stories have of it.
pub(super) const LOST: &str = "is lost before a resync";

/// Sectors that were written since an array with parity was opened.
#[derive(Debug, Default)]
pub(super) struct WrittenSectors {
    sectors: Vec<bool>,
    /// Changes under way, by row.
    flying: Vec<u32>,
    /// Sectors of a row; 0: the array keeps no parity.
    row: usize,
}

impl WrittenSectors {
    pub(super) fn of(shape: &Shape, size: u64) -> Self {
        let data = u64::from(shape.parts - shape.parities());
        let row = match shape.level {
            Level::Raid4 | Level::Raid5 | Level::Raid6 => index(data * CHUNK / SECTOR),
            _ => 0,
        };
        let sectors = index(size / SECTOR);
        Self {
            sectors: vec![false; sectors],
            flying: vec![0; sectors.div_ceil(row.max(1))],
            row,
        }
    }

    fn rows(&self, range: Range) -> std::ops::Range<usize> {
        let sectors = touched(range);
        sectors.start / self.row..sectors.end.div_ceil(self.row)
    }

    /// A change is sent.
    pub(super) fn begin(&mut self, op: &Op) {
        if let Some(range) = changed(op).filter(|_| self.row > 0) {
            let rows = self.rows(range);
            self.flying[rows].iter_mut().for_each(|flying| *flying += 1);
        }
    }

    /// It was answered, well or not, or it was dropped.
    pub(super) fn end(&mut self, op: &Op, well: bool) {
        let Some(range) = changed(op).filter(|_| self.row > 0) else {
            return;
        };
        let rows = self.rows(range);
        self.flying[rows.clone()]
            .iter_mut()
            .for_each(|flying| *flying -= 1);
        if !well {
            let end = (rows.end * self.row).min(self.sectors.len());
            self.sectors[rows.start * self.row..end].fill(false);
        } else if !matches!(op, Op::Trim { .. }) {
            self.sectors[touched(range)].fill(true);
        }
    }

    /// Whether all of `range` was written, and nothing is under way in its rows.
    fn has(&self, range: Range) -> bool {
        let is_idle = self.flying[self.rows(range)]
            .iter()
            .all(|flying| *flying == 0);
        is_idle && self.sectors[touched(range)].iter().all(|written| *written)
    }

    /// All of it that is owed now, in runs.
    fn runs(&self) -> Vec<Range> {
        let mut runs: Vec<Range> = Vec::new();
        for at in (0..self.sectors.len() as u64).map(|sector| sector * SECTOR) {
            let sector = Range::new(at, SECTOR);
            if self.row == 0 || !self.has(sector) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end() == at => run.len += SECTOR,
                _ => runs.push(sector),
            }
        }
        runs
    }
}

/// What a request changes.
fn changed(op: &Op) -> Option<Range> {
    op.range().filter(|_| op.changes())
}

impl World {
    /// A member is lost although parity does not fit everywhere, if one can be.
    pub(super) fn lose_before_resync(&mut self, life: &mut Life) {
        let is_synced = || life.array.by_hand().array.needed(0).is_none();
        if self.shape.parities() == 0 || life.broken || is_synced() {
            return;
        }
        let Some(name) = self.one_to_spare(life) else {
            return;
        };
        self.log(format!("{name} {LOST}; written: {:?}", life.written.runs()));
        life.broken = true;
        life.lost_before_resync = true;
        self.owed.trust_no_member();
        life.wires[&name].set(Mode::Gone);
    }

    /// Whether a request may fail since a member was lost before a resync.
    pub(super) fn may_lack_parity(&self, life: &Life, op: &Op) -> bool {
        let is_owed = matches!(op, Op::Read { range } if life.written.has(*range));
        life.lost_before_resync && !is_owed
    }

    /// What is owed is there, although a member was lost before a resync.
    pub(super) async fn check_written(&mut self, life: &Life) -> Result<(), Wrong> {
        if !life.lost_before_resync || life.damaged || self.journal_broke {
            return Ok(());
        }
        for range in life.written.runs() {
            let begun = self.owed.begin(Op::Read { range });
            let read = life.array.read(range).await;
            if life.power.is_out() {
                return Ok(());
            }
            let data =
                read.map_err(|error| format!("{range} was written, and is lost: {error}"))?;
            self.owed.check(&begun, &data.concat())?;
        }
        Ok(())
    }
}
