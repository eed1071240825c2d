//! [`View`]: the holders of the parts, and their replacements, at one moment. Pure.
//!
//! # Invariants
//!
//! * A view never changes: a request works with the one that it began with.
//! * Only holders are read; what is written goes to their replacements, too.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::Range;
use smallvec::SmallVec;

use super::layout::{Layout, Piece};
use super::members::Target;

/// The holder of a part.
#[derive(Debug, Clone)]
pub(in crate::array) struct Holder {
    pub(in crate::array) target: Arc<Target>,
    /// `None`: it is in sync. Else it is rebuilt up to this byte of its data.
    pub(in crate::array) rebuilt_to: Option<u64>,
    /// What cannot be read of it; in order.
    pub(super) bad: Arc<[Range]>,
}

impl Holder {
    /// Whether it holds what it should have at `within`, and can be read there.
    pub(in crate::array) fn can_read(&self, within: Range) -> bool {
        let is_there = self.rebuilt_to.is_none_or(|to| within.end() <= to);
        is_there && !self.is_bad(within)
    }

    /// Whether a part of `within` cannot be read of it.
    pub(super) fn is_bad(&self, within: Range) -> bool {
        self.bad.iter().any(|bad| bad.overlaps(&within))
    }
}

/// A member that becomes a copy of the holder of a part, to take its place.
#[derive(Debug, Clone)]
pub(in crate::array) struct Replacement {
    /// The part of both.
    pub(in crate::array) part: usize,
    pub(in crate::array) holder: Holder,
}

/// The holders of the parts, at one moment.
#[derive(Debug)]
pub(in crate::array) struct View {
    /// Where copies are.
    pub(in crate::array) layout: Arc<Layout>,
    /// By part; `None`: no holder.
    pub(in crate::array) parts: SmallVec<[Option<Holder>; 4]>,
    /// Members that get what holders get, and are not read.
    pub(in crate::array) replacements: SmallVec<[Replacement; 1]>,
    /// No member has places that cannot be read.
    pub(super) no_bad: bool,
}

impl View {
    pub(super) fn new(
        layout: Arc<Layout>,
        parts: SmallVec<[Option<Holder>; 4]>,
        replacements: SmallVec<[Replacement; 1]>,
    ) -> Self {
        let replacing = replacements.iter().map(|replacement| &replacement.holder);
        let mut all = parts.iter().flatten().chain(replacing);
        let no_bad = all.all(|holder| holder.bad.is_empty());
        Self {
            layout,
            parts,
            replacements,
            no_bad,
        }
    }

    /// All of `range`, where that is one piece, and no member has places that cannot be read.
    pub(super) fn only_piece(&self, range: Range) -> Option<Piece> {
        let piece = self.no_bad.then(|| self.layout.piece(range))?;
        (piece.range == range).then_some(piece)
    }

    /// `range`, piece by piece; each of them can be read whole of a member, or not at all.
    pub(in crate::array) fn pieces(&self, range: Range) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for piece in self.layout.pieces(range) {
            if self.no_bad {
                pieces.push(piece);
                continue;
            }
            let mut rest = piece.range;
            for edge in self.edges(&piece) {
                pieces.push(
                    self.layout
                        .piece(Range::new(rest.offset, edge - rest.offset)),
                );
                rest = Range::new(edge, rest.end() - edge);
            }
            pieces.push(self.layout.piece(rest));
        }
        pieces
    }

    /// Where bad places of members begin and end within a piece, bytes of the array.
    fn edges(&self, piece: &Piece) -> BTreeSet<u64> {
        let mut edges = BTreeSet::new();
        for copy in &piece.copies {
            let Some(holder) = self.holder(copy.part) else {
                continue;
            };
            let within = piece.within(*copy);
            for bad in holder.bad.iter().filter(|bad| bad.overlaps(&within)) {
                let inside = [bad.offset, bad.end()].into_iter();
                let inside = inside.filter(|at| within.offset < *at && *at < within.end());
                edges.extend(inside.map(|at| at - within.offset + piece.range.offset));
            }
        }
        edges
    }

    /// The holder of `part`.
    pub(in crate::array) fn holder(&self, part: usize) -> Option<&Holder> {
        self.parts.get(part)?.as_ref()
    }

    /// The member that is to take the place of the holder of `part`.
    pub(in crate::array) fn replacement(&self, part: usize) -> Option<&Holder> {
        let mut replacements = self.replacements.iter();
        let found = replacements.find(|replacement| replacement.part == part);
        found.map(|replacement| &replacement.holder)
    }

    /// All members that get what is written: holders, and replacements.
    pub(in crate::array) fn written(&self) -> impl Iterator<Item = &Holder> {
        let replacing = self
            .replacements
            .iter()
            .map(|replacement| &replacement.holder);
        self.holders().chain(replacing)
    }

    /// All holders.
    pub(in crate::array) fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.parts.iter().flatten()
    }
}
