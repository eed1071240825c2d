//! What a [`CrashDisk`](super::CrashDisk) knows: the live image, the durable one, and the writes
//! between them. Pure.
//!
//! # Invariants
//!
//! * `live` is `durable` with every pending write applied in order.
//! * A pending write holds whole sectors, as they were in `live` right after it.
//! * When a write becomes durable, older pending writes lose the sectors it holds: durable content
//!   never goes back.

use std::collections::{BTreeMap, BTreeSet};

use block::{Extent, ExtentKind, IoBufs, Range};

use crate::image::{SECTOR, SectorImage, TrimLeaves, sectors_of, span};

/// Writes that may be pending; with more, the oldest becomes durable, as in a cache that is full.
const PENDING_MAX: usize = 4096;

/// What a change leaves in its range.
pub(super) enum SectorContent<'a> {
    Data(&'a IoBufs),
    Zeroes(ExtentKind),
    Trimmed(TrimLeaves),
}

/// Name of one write, rising.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteId(u64);

struct Pending {
    id: WriteId,
    resolved: bool,
    sectors: BTreeMap<u64, Vec<u8>>,
}

pub(super) struct CrashState {
    live: SectorImage,
    durable: Vec<u8>,
    pending: Vec<Pending>,
    next: u64,
}

impl CrashState {
    pub(super) fn new(durable: Vec<u8>) -> Self {
        Self {
            live: SectorImage::from_bytes(durable.clone()),
            durable,
            pending: Vec::new(),
            next: 0,
        }
    }

    pub(super) fn live(&self) -> &[u8] {
        self.live.bytes()
    }

    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    pub(super) fn read(&self, range: Range) -> Vec<u8> {
        self.live.read(range).to_vec()
    }

    pub(super) fn extents(&self, range: Range) -> Vec<Extent> {
        self.live.extents(range)
    }

    /// Changes the live image; what it changed may be lost from now on.
    pub(super) fn apply(&mut self, range: Range, content: SectorContent<'_>) -> WriteId {
        match content {
            SectorContent::Data(bufs) => self.live.write(range, bufs),
            SectorContent::Zeroes(kind) => self.live.zero(range, kind),
            SectorContent::Trimmed(leaves) => self.live.trim(range, leaves),
        }
        let id = WriteId(self.next);
        self.next += 1;
        let sectors = sectors_of(range)
            .map(|sector| (sector, self.live.read(sector_range(sector)).to_vec()))
            .collect();
        self.pending.push(Pending {
            id,
            resolved: false,
            sectors,
        });
        if self.pending.len() > PENDING_MAX {
            let oldest = self.pending[0].id;
            self.make_durable(&[oldest]);
        }
        id
    }

    pub(super) fn resolve(&mut self, id: WriteId) {
        if let Some(pending) = self.pending.iter_mut().find(|p| p.id == id) {
            pending.resolved = true;
        }
    }

    /// The writes that a flush which starts now must make durable.
    pub(super) fn resolved(&self) -> Vec<WriteId> {
        let resolved = self.pending.iter().filter(|p| p.resolved);
        resolved.map(|p| p.id).collect()
    }

    pub(super) fn make_durable(&mut self, ids: &[WriteId]) {
        // From the newest on, so that each sector is taken from the last write that holds it.
        let mut settled = BTreeSet::new();
        for pending in self.pending.iter_mut().rev() {
            pending
                .sectors
                .retain(|sector, _| !settled.contains(sector));
            if ids.contains(&pending.id) {
                for (sector, bytes) in std::mem::take(&mut pending.sectors) {
                    self.durable[span(sector_range(sector))].copy_from_slice(&bytes);
                    settled.insert(sector);
                }
            }
        }
        self.pending.retain(|p| !p.sectors.is_empty());
    }

    /// One image a cut may leave. Seeds cover: nothing survives, all survives, any subset, a
    /// prefix in order; writes whole or torn.
    pub(super) fn image_by_seed(&self, seed: u64) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let survival = [0.0, 1.0, rng.f64(), rng.f64()][rng.usize(0..4)];
        let tearing = [0.0, rng.f64()][rng.usize(0..2)];
        let cut_behind = if rng.bool() {
            self.pending.len()
        } else {
            rng.usize(0..=self.pending.len())
        };
        let mut image = self.durable.clone();
        for (index, pending) in self.pending.iter().enumerate() {
            let survives = index < cut_behind && rng.f64() < survival;
            let torn = rng.f64() < tearing;
            for (&sector, bytes) in &pending.sectors {
                let kept = if torn { rng.bool() } else { survives };
                if kept {
                    image[span(sector_range(sector))].copy_from_slice(bytes);
                }
            }
        }
        image
    }

    /// Every image a cut may leave, or nothing if they are more than `max`. Because writes tear at
    /// sectors, each sector chooses on its own among its versions.
    pub(super) fn all_images(&self, max: usize) -> Option<Vec<Vec<u8>>> {
        let mut versions: BTreeMap<u64, BTreeSet<&[u8]>> = BTreeMap::new();
        for pending in &self.pending {
            for (&sector, bytes) in &pending.sectors {
                let durable = &self.durable[span(sector_range(sector))];
                versions
                    .entry(sector)
                    .or_insert_with(|| BTreeSet::from([durable]))
                    .insert(bytes);
            }
        }
        let count = versions
            .values()
            .try_fold(1_usize, |count, choices| count.checked_mul(choices.len()))?;
        if count > max {
            return None;
        }
        let mut images = vec![self.durable.clone()];
        for (sector, choices) in versions {
            images = images
                .iter()
                .flat_map(|image| {
                    choices.iter().map(move |choice| {
                        let mut image = image.clone();
                        image[span(sector_range(sector))].copy_from_slice(choice);
                        image
                    })
                })
                .collect();
        }
        Some(images)
    }
}

const fn sector_range(sector: u64) -> Range {
    Range::new(sector * SECTOR, SECTOR)
}
