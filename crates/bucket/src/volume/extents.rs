//! What of a range is allocated: by the index, and by the changes in memory.

use std::sync::Arc;

use block::{Extent, ExtentKind, IoError, Operation, Range};

use super::VolumeShared;
use crate::dirty::RunPart;
use crate::format::{BLOCK, RUN, RUN_BLOCKS};
use crate::run_map::RunMap;

impl VolumeShared {
    /// The extents of `range`: data, and holes for all that is zeroes.
    pub(super) async fn extents(self: &Arc<Self>, range: Range) -> Result<Vec<Extent>, IoError> {
        self.refuse_lost(Operation::Extents, Some(range))?;
        self.in_task(|shared| async move { shared.find_extents(range).await })
            .await
    }

    async fn find_extents(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        let failed = |error| self.scan_error(error, Operation::Extents, range);
        let runs = range.offset / RUN..range.end().div_ceil(RUN);
        // Before the index: what leaves the memory meanwhile is in the index then.
        let changed = self.memory().changed_kinds(runs.clone());
        let mut changed = changed.into_iter().peekable();
        let scan = self.index.scan(runs).await;
        let mut scan = scan.map_err(|error| failed(error.into()))?;
        let mut next = scan.next().await.map_err(failed)?;
        let mut extents = ExtentList::new(range);
        loop {
            let stored = next.as_ref().map(|(run, _)| *run);
            let run = match (changed.peek().map(|(run, _)| *run), stored) {
                (None, None) => return Ok(extents.finish()),
                (Some(one), Some(other)) => one.min(other),
                (Some(one), None) | (None, Some(one)) => one,
            };
            let kinds = changed.next_if(|(changed, _)| *changed == run);
            let kinds = kinds.map_or([None; RUN_BLOCKS], |(_, kinds)| kinds);
            let map = match next.take_if(|(stored, _)| *stored == run) {
                Some((_, map)) => {
                    next = scan.next().await.map_err(failed)?;
                    map
                }
                None => RunMap::default(),
            };
            extents.push(run, &kinds, &map);
        }
    }
}

/// Extents in order, with holes between the runs that have something.
struct ExtentList {
    range: Range,
    extents: Vec<Extent>,
    at: u64,
}

impl ExtentList {
    const fn new(range: Range) -> Self {
        Self {
            range,
            extents: Vec::new(),
            at: range.offset,
        }
    }

    /// Adds a run, behind those before it.
    fn push(&mut self, run: u64, kinds: &[Option<ExtentKind>; RUN_BLOCKS], map: &RunMap) {
        let begin = (run * RUN).max(self.range.offset);
        let end = (run * RUN + RUN).min(self.range.end());
        let part = Range::new(begin, end - begin);
        self.add(begin, ExtentKind::Hole);
        for block in RunPart::all(part).flat_map(RunPart::blocks) {
            let kind = kinds[block].unwrap_or_else(|| match map.block(block).is_data() {
                true => ExtentKind::Data,
                false => ExtentKind::Hole,
            });
            self.add(self.at + BLOCK, kind);
        }
    }

    /// Adds what ends at `end`, to the last extent if it is of the same kind.
    fn add(&mut self, end: u64, kind: ExtentKind) {
        let len = end - self.at;
        match self.extents.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.kind == kind => last.range.len += len,
            _ => self.extents.push(Extent {
                range: Range::new(self.at, len),
                kind,
            }),
        }
        self.at = end;
    }

    fn finish(mut self) -> Vec<Extent> {
        self.add(self.range.end(), ExtentKind::Hole);
        self.extents
    }
}
