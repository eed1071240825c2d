//! `snapshot ORIGIN STORE P|PO|N CHUNK [COUNT FEATURE…]`: a device seen through a persistent store of
//! what was changed. Pure.

use super::{DmTarget, LineLength, device, only};
use crate::Segment;
use crate::dm::SECTOR;
use crate::dm::error::{DmProblem, TableError};
use crate::dm::table::{Device, DeviceUse, Need, TableLine};
use crate::dm::words::Words;

/// The largest chunk of a snapshot, sectors: 128 MiB, far above any that is of use.
const CHUNK_MAX: u64 = 1 << 18;

#[derive(Debug)]
struct SnapshotTarget {
    /// The device as it was.
    origin: Device,
    /// What was changed.
    store: Device,
    /// Sectors that are changed together; a power of two.
    chunk: u64,
}

pub(super) fn parse(
    words: &mut Words<'_>,
    _: &LineLength,
) -> Result<Box<dyn DmTarget>, TableError> {
    let origin = device(words, "the origin's device")?;
    let store = device(words, "the store's device")?;
    let persistence = words.argument("P or PO")?;
    // PO only adds the word "Overflow" to the status of a store that is full.
    match persistence.text.as_str() {
        "P" | "p" | "PO" | "po" => {}
        "N" | "n" => {
            let problem = format!(
                "N is a snapshot whose changes are lost at the end, written over what {store} holds: \
                 write P for one that is kept, or use overlay(BASE, TOP) with a new TOP"
            );
            return Err(DmProblem::Arguments(problem).at(persistence.place));
        }
        found => {
            let problem = format!("a snapshot is P, PO (both kept) or N, not {found:?}");
            return Err(DmProblem::Arguments(problem).at(persistence.place));
        }
    }
    let (chunk, place) = words.number("the chunk in sectors")?;
    if !chunk.is_power_of_two() || chunk > CHUNK_MAX {
        let problem = format!(
            "a snapshot's chunk is a power of two of sectors, at most {CHUNK_MAX}, {chunk} is none"
        );
        return Err(DmProblem::Arguments(problem).at(place));
    }
    if !words.is_empty() {
        let (count, _) = words.number("the number of features")?;
        if count > 0 {
            let feature = words.argument("a feature")?;
            let problem = format!(
                "features of snapshots ({}) are not served: leave them out",
                feature.text
            );
            return Err(DmProblem::Arguments(problem).at(feature.place));
        }
    }
    Ok(Box::new(SnapshotTarget {
        origin,
        store,
        chunk,
    }))
}

impl DmTarget for SnapshotTarget {
    fn uses(&self, len: u64) -> Vec<DeviceUse<'_>> {
        let need = Need::Overlay {
            origin: &self.origin,
            store: &self.store,
            chunk: self.chunk * SECTOR,
        };
        vec![DeviceUse::in_order(need, 0, len)]
    }

    fn build(&self, _: &TableLine, parts: Vec<Segment>) -> Result<Segment, TableError> {
        Ok(only(parts))
    }
}
