//! What is known of the allocation of a redundant array: what the copies say that are read where they may differ.
//!
//! # Invariants
//!
//! * Each member gets one query, for all of it that a request needs.
//! * Where copies may differ, or a member does not answer, there is data.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{Extent, ExtentKind, IoError, Range, merge_extents};

use super::RedundantArray;
use super::members::{SlotId, Target};
use super::read::Reading;
use crate::join::join_all;

/// Pieces that are looked up for one request; what is behind them counts as data.
const PIECES_MAX: usize = 16_384;

/// What is queried of one member: all bytes between the first and the last.
struct MemberExtents {
    target: Arc<Target>,
    start: u64,
    end: u64,
    /// Its answer, bytes of its data.
    reported: Vec<Extent>,
}

const fn data(range: Range) -> Extent {
    Extent {
        range,
        kind: ExtentKind::Data,
    }
}

impl RedundantArray {
    /// What is known of the allocation of `range`.
    pub(super) async fn all_extents(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        let _in_place = self.rows.in_place().await;
        if self.layout().is_reshaping() {
            return Ok(vec![data(range)]);
        }
        let mut asked: BTreeMap<SlotId, MemberExtents> = BTreeMap::new();
        let mut pieces = Vec::new();
        let reading = Reading {
            view: self.view(),
            unsynced: true,
        };
        for piece in reading.view.layout.pieces(range).take(PIECES_MAX) {
            let from = reading.pick(&piece, |_| true);
            let from = from.filter(|_| !self.lock().state.is_needed_at(piece.range));
            let from = from.map(|(holder, within)| {
                let target = &holder.target;
                let known = asked.entry(target.slot).or_insert_with(|| MemberExtents {
                    target: target.clone(),
                    start: within.offset,
                    end: within.end(),
                    reported: Vec::new(),
                });
                known.start = known.start.min(within.offset);
                known.end = known.end.max(within.end());
                (target.slot, within.offset)
            });
            pieces.push((piece.range, from));
        }
        let questions = asked.values().map(MemberExtents::ask);
        let answers = join_all(questions).await;
        for (known, answer) in asked.values_mut().zip(answers) {
            known.reported = answer;
        }
        let mut extents = Vec::new();
        let mut end = range.offset;
        for (piece, from) in pieces {
            end = piece.end();
            match from {
                Some((slot, at)) => asked[&slot].append_to(piece, at, &mut extents),
                None => extents.push(data(piece)),
            }
        }
        if end < range.end() {
            extents.push(data(Range::new(end, range.end() - end)));
        }
        Ok(merge_extents(extents))
    }
}

impl MemberExtents {
    async fn ask(&self) -> Vec<Extent> {
        let within = Range::new(self.start, self.end - self.start);
        let below = self.target.place(within);
        let Ok(reported) = self.target.disk.extents(below).await else {
            return vec![data(within)];
        };
        let moved = |extent: Extent| Extent {
            range: Range::new(
                extent.range.offset - below.offset + within.offset,
                extent.range.len,
            ),
            ..extent
        };
        reported.into_iter().map(moved).collect()
    }

    /// Its answer for a piece, which it has from byte `at` on.
    fn append_to(&self, piece: Range, at: u64, into: &mut Vec<Extent>) {
        let end = at + piece.len;
        let first = self
            .reported
            .partition_point(|extent| extent.range.end() <= at);
        let within = self.reported[first..].iter();
        for extent in within.take_while(|extent| extent.range.offset < end) {
            let from = extent.range.offset.max(at);
            let to = extent.range.end().min(end);
            into.push(Extent {
                range: Range::new(from - at + piece.offset, to - from),
                kind: extent.kind,
            });
        }
    }
}
