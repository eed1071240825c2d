//! How the bytes of striped arrays lie on their members. Pure.

pub(super) mod linear;
pub(super) mod raid0;

use block::Range;

/// A run of one member's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The part.
    pub(super) part: usize,
    /// Which bytes of its data.
    pub(super) within: Range,
}
