//! [`Map`]: which parts of a disk are data, holes and zeroes.

use std::fmt::Write;

use block::{Extent, ExtentKind, Node, Range, merge_extents};
use indicatif::HumanBytes;
use serde::Serialize;

use crate::failure::Failure;

/// Bytes per request: bounds the memory of one answer.
const WINDOW: u64 = 64 << 30;

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum MapKind {
    /// Allocated, or not known to be anything else.
    Data,
    /// Not allocated; reads as zeroes.
    Hole,
    /// Allocated; reads as zeroes.
    Zero,
}

/// One part.
#[derive(Debug, Clone, Copy, Serialize)]
struct MapExtent {
    offset: u64,
    length: u64,
    kind: MapKind,
}

/// Bytes of each kind.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Totals {
    data: u64,
    hole: u64,
    zero: u64,
}

/// All parts of a disk, in order.
#[derive(Debug, Serialize)]
pub(super) struct Map {
    /// Whether the disk reports extents; if not, all of it counts as data.
    known: bool,
    extents: Vec<MapExtent>,
    totals: Totals,
}

/// Reads the map of a disk; `tells` is whether the disk reports extents.
pub(super) async fn of(disk: &Node, tells: bool) -> Result<Map, Failure> {
    let size = disk.geometry().size;
    let mut extents: Vec<Extent> = Vec::new();
    for start in (0..size.div_ceil(WINDOW)).map(|n| n * WINDOW) {
        let range = Range::new(start, WINDOW.min(size - start));
        let found = disk.extents(range).await;
        let found = found.map_err(|error| Failure::because("cannot read the map", &error))?;
        extents.extend(found);
        // A disk of holes is one extent, however many windows it has.
        if extents.len() > 1 && extents.len() < 4096 {
            extents = merge_extents(extents);
        }
    }
    Ok(Map::new(&merge_extents(extents), tells))
}

impl Map {
    fn new(extents: &[Extent], tells: bool) -> Self {
        let mut totals = Totals::default();
        let parts = extents.iter().map(|extent| {
            let (kind, total) = match extent.kind {
                ExtentKind::Data => (MapKind::Data, &mut totals.data),
                ExtentKind::Hole => (MapKind::Hole, &mut totals.hole),
                ExtentKind::Zero => (MapKind::Zero, &mut totals.zero),
            };
            let Range { offset, len } = extent.range;
            *total += len;
            MapExtent {
                offset,
                length: len,
                kind,
            }
        });
        let parts: Vec<MapExtent> = parts.collect();
        Self {
            known: tells || totals.hole + totals.zero > 0,
            extents: parts,
            totals,
        }
    }

    /// A line for each part, and the totals.
    pub(super) fn text(&self) -> String {
        let last = self.extents.last().map_or(0, |part| part.offset);
        let longest = self.extents.iter().map(|part| part.length).max();
        let digits = |number: u64| number.to_string().len();
        let left = digits(last).max("OFFSET".len());
        let right = digits(longest.unwrap_or(0)).max("LENGTH".len());
        let mut text = format!("{:>left$}  {:>right$}  KIND\n", "OFFSET", "LENGTH");
        for part in &self.extents {
            let kind = match part.kind {
                MapKind::Data => "data",
                MapKind::Hole => "hole",
                MapKind::Zero => "zero",
            };
            // Writing to a text cannot fail.
            let _done = writeln!(
                text,
                "{:>left$}  {:>right$}  {kind}",
                part.offset, part.length
            );
        }
        let Totals { data, hole, zero } = self.totals;
        let [data, hole, zero] = [data, hole, zero].map(HumanBytes);
        let _done = write!(text, "{data} of data, {hole} of holes, {zero} of zeroes");
        if !self.known {
            text.push_str("; this disk does not report extents, so all of it counts as data");
        }
        text
    }
}
