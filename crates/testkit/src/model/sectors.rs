//! [`Sectors`]: what each sector of a disk may hold after a power cut. Pure.
//!
//! # Invariants
//!
//! * The last version of a sector is what it holds if nothing is lost.
//! * The first is the one a flush or a FUA write made certain; a cut leaves any from there on.

use block::{Range, WriteFlags};

use super::{Model, Op};
use crate::image::{SECTOR, sectors_of, span, to_usize};

/// One thing a sector may hold.
type SectorVersion = Model;

/// A [`Model`] with a memory of what is not yet durable.
pub(crate) struct Sectors {
    now: Model,
    versions: Vec<Vec<SectorVersion>>,
}

impl Sectors {
    pub(crate) fn new(durable: Vec<u8>) -> Self {
        let now = Model::from_bytes(durable);
        let sectors = sectors_of(Range::new(0, now.size()));
        let versions = sectors.map(|sector| vec![version(&now, sector)]).collect();
        Self { now, versions }
    }

    /// `op` was sent: from now on it may have happened.
    pub(crate) fn begin(&mut self, op: &Op) {
        self.now.apply(op);
        for sector in touched(op) {
            self.versions[to_usize(sector)].push(version(&self.now, sector));
        }
    }

    /// `op`, the latest, was reported done: what it promises is certain.
    pub(crate) fn finish(&mut self, op: &Op) {
        let certain = match *op {
            Op::Flush => 0..self.versions.len() as u64,
            Op::Write { flags, .. } | Op::WriteZeroes { flags, .. }
                if flags.contains(WriteFlags::FUA) =>
            {
                touched(op)
            }
            _ => 0..0,
        };
        for sector in certain {
            let versions = &mut self.versions[to_usize(sector)];
            versions.drain(..versions.len() - 1);
        }
    }

    /// The first sector that holds what it may not.
    pub(crate) fn first_lost(&self, found: &[u8]) -> Option<u64> {
        (0..).zip(&self.versions).find_map(|(sector, versions)| {
            let bytes = &found[span(self.sector_range(sector))];
            let whole = Range::new(0, bytes.len() as u64);
            let allowed = versions.iter().any(|version| version.agrees(whole, bytes));
            (!allowed).then_some(sector)
        })
    }

    fn sector_range(&self, sector: u64) -> Range {
        sector_range(&self.now, sector)
    }
}

fn touched(op: &Op) -> std::ops::Range<u64> {
    match op.range() {
        Some(range) if op.changes() => sectors_of(range),
        _ => 0..0,
    }
}

fn sector_range(model: &Model, sector: u64) -> Range {
    let start = sector * SECTOR;
    Range::new(start, SECTOR.min(model.size() - start))
}

/// The part of `model` that is `sector`.
fn version(model: &Model, sector: u64) -> SectorVersion {
    let span = span(sector_range(model, sector));
    Model {
        bytes: model.bytes[span.clone()].to_vec(),
        known: model.known[span].to_vec(),
    }
}
