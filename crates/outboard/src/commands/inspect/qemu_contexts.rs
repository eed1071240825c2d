//! [`QemuContexts`]: what an export's dirty bitmaps and its allocation depth add up to, in QEMU's metadata contexts.
//!
//! # Invariants
//!
//! * Work and text are bounded for any report of a server: [`BITMAPS_MAX`] bitmaps are read, depths from [`DEPTH_MAX`] on
//!   are one, all of it within one timeout, and `nbd::client::limits` bounds the extents.
//! * A context that cannot be read is reported with the reason; the rest is still read.

use std::time::Duration;

use engine::clock;
use indicatif::HumanBytes;
use nbd::client::{
    ClientConfig, ContextMap, QEMU_ALLOCATION_DEPTH, QEMU_DIRTY_BITMAP, Target, read_context,
};
use serde::Serialize;

use super::visible;

/// Most bitmaps that are read.
const BITMAPS_MAX: usize = 16;
/// Images this deep in a chain, and deeper ones, are counted together.
const DEPTH_MAX: usize = 15;

/// What there is in the contexts of QEMU's server.
#[derive(Debug, Default, Serialize)]
pub(super) struct QemuContexts {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dirty_bitmaps: Vec<BitmapTotals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation_depth: Option<DepthTotals>,
}

/// One dirty bitmap.
#[derive(Debug, Serialize)]
struct BitmapTotals {
    name: String,
    /// Bytes; none if nothing is known.
    dirty: Option<u64>,
    /// Why nothing, or not all, is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The depths at which there is something, from the least on.
#[derive(Debug, Serialize)]
struct DepthTotals {
    depths: Vec<DepthRow>,
    /// Why nothing, or not all, is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Bytes that lie at one depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct DepthRow {
    /// 0: nowhere; 1: the image itself; 2: its backing file, and so on; [`DEPTH_MAX`]: that or deeper.
    depth: usize,
    bytes: u64,
}

impl QemuContexts {
    /// Reads those of `contexts` that QEMU's server has.
    pub(super) async fn read(target: &Target, contexts: &[String]) -> Self {
        let timeout = ClientConfig::default().request_timeout;
        let end = clock::now() + timeout;
        let left = || end.saturating_duration_since(clock::now());
        let mut found = Self::default();
        if contexts.iter().any(|name| name == QEMU_ALLOCATION_DEPTH) {
            let map = read(target, QEMU_ALLOCATION_DEPTH, left()).await;
            found.allocation_depth = Some(DepthTotals {
                depths: map.as_ref().map_or_else(|_| Vec::new(), depths),
                problem: problem(map),
            });
        }
        let bitmaps = contexts.iter().filter_map(|context| {
            let name = context.strip_prefix(QEMU_DIRTY_BITMAP)?;
            Some((context, name))
        });
        for (context, name) in bitmaps.take(BITMAPS_MAX) {
            let map = read(target, context, left()).await;
            found.dirty_bitmaps.push(BitmapTotals {
                name: name.to_owned(),
                dirty: map.as_ref().ok().map(dirty),
                problem: problem(map),
            });
        }
        found
    }

    /// Lines of names and values.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        for bitmap in &self.dirty_bitmaps {
            let mut value = format!("`{}`", visible(&bitmap.name));
            if let Some(dirty) = bitmap.dirty {
                value.push_str(&format!(": {} dirty", HumanBytes(dirty)));
            }
            if let Some(problem) = &bitmap.problem {
                value.push_str(&format!(": {}", visible(problem)));
            }
            lines.push(("bitmap", value));
        }
        if let Some(depth) = &self.allocation_depth {
            let rows = depth.depths.iter().map(DepthRow::text);
            let problem = depth.problem.iter().map(|problem| visible(problem));
            lines.extend(rows.chain(problem).map(|text| ("depth", text)));
        }
        lines
    }
}

impl DepthRow {
    fn text(&self) -> String {
        let Self { depth, bytes } = *self;
        let place = match depth {
            0 => "not allocated".to_owned(),
            1 => "in the image itself".to_owned(),
            2 => "in its backing file".to_owned(),
            DEPTH_MAX => format!("in its backing file {} or further down", depth - 1),
            _ => format!("in its backing file {}", depth - 1),
        };
        format!("{depth}: {} {place}", HumanBytes(bytes))
    }
}

async fn read(target: &Target, context: &str, limit: Duration) -> Result<ContextMap, String> {
    match clock::timeout(limit, Box::pin(read_context(target, context, limit))).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(clock::Elapsed) => Err("the server takes too long".to_owned()),
    }
}

/// Why nothing, or not all, is known.
fn problem(map: Result<ContextMap, String>) -> Option<String> {
    match map {
        Ok(map) if map.reported() < map.size => Some(format!(
            "too many extents, only the first {} are counted",
            HumanBytes(map.reported())
        )),
        Ok(_) => None,
        Err(problem) => Some(problem),
    }
}

/// Bytes that are known to be dirty.
fn dirty(map: &ContextMap) -> u64 {
    let dirty: u64 = map.dirty().iter().map(|range| range.len).sum();
    dirty - (map.size - map.reported())
}

fn depths(map: &ContextMap) -> Vec<DepthRow> {
    let mut totals = [0; DEPTH_MAX + 1];
    for extent in &map.extents {
        let depth = usize::try_from(extent.status).unwrap_or(DEPTH_MAX);
        totals[depth.min(DEPTH_MAX)] += extent.range.len;
    }
    let rows = totals.into_iter().enumerate();
    let rows = rows.map(|(depth, bytes)| DepthRow { depth, bytes });
    rows.filter(|row| row.bytes > 0).collect()
}

#[cfg(test)]
mod tests {
    use block::Range;
    use nbd::client::{ContextExtent, ContextMap};

    use super::{DEPTH_MAX, DepthRow, depths, dirty, problem};

    fn map(size: u64, statuses: &[u64]) -> ContextMap {
        let extents = (0..).zip(statuses).map(|(nth, status)| ContextExtent {
            range: Range::new(nth * 512, 512),
            status: *status,
        });
        ContextMap {
            size,
            extents: extents.collect(),
        }
    }

    #[test]
    fn any_number_of_depths_is_few_rows() {
        let statuses: Vec<u64> = (0..1000).chain([u64::MAX, 1]).collect();
        let rows = depths(&map(1002 * 512, &statuses));
        assert_eq!(rows.len(), DEPTH_MAX + 1);
        let one = DepthRow {
            depth: 1,
            bytes: 1024,
        };
        assert_eq!(rows[1], one);
        assert_eq!(rows[DEPTH_MAX].bytes, 986 * 512);
        assert_eq!(
            rows[DEPTH_MAX].text(),
            "15: 493.00 KiB in its backing file 14 or further down"
        );
    }

    #[test]
    fn what_was_not_reported_is_not_counted_and_that_is_said() {
        let whole = map(1536, &[1, 0, 3]);
        assert_eq!((dirty(&whole), problem(Ok(whole))), (1024, None));
        let part = map(1 << 20, &[1, 0, 3]);
        assert_eq!(dirty(&part), 1024);
        let problem = problem(Ok(part)).expect("a problem");
        assert!(
            problem.ends_with("only the first 1.50 KiB are counted"),
            "{problem}"
        );
    }
}
