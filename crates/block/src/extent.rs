//! [`Extent`]: what is known of the allocation of a run of bytes.

use crate::Range;

/// What a run of bytes is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExtentKind {
    /// Allocated; content unknown.
    Data,
    /// Not allocated; reads as zeroes.
    Hole,
    /// Allocated and known to read as zeroes.
    Zero,
}

/// A run of bytes of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Where.
    pub range: Range,
    /// What.
    pub kind: ExtentKind,
}

/// Joins neighbours of one kind and drops empty extents; order is kept.
#[must_use]
pub fn merge_extents(extents: Vec<Extent>) -> Vec<Extent> {
    let mut merged: Vec<Extent> = Vec::with_capacity(extents.len());
    for extent in extents.into_iter().filter(|e| !e.range.is_empty()) {
        match merged.last_mut() {
            Some(last) if last.kind == extent.kind && last.range.end() == extent.range.offset => {
                last.range.len += extent.range.len;
            }
            _ => merged.push(extent),
        }
    }
    merged
}
