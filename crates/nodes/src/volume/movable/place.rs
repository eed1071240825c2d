//! [`Place`]: where a run of bytes lies on a physical volume, and the reads that still go there.
//!
//! # Invariants
//!
//! * Each read in flight keeps its place, and so does each file region that was handed out: a place that nothing reads is
//!   known ([`OldPlace::is_unused`]), and its extents may be given to another volume then.

use std::sync::{Arc, Weak};

use block::{FileRegion, Node, Range};

use crate::lent_files::LentFiles;

/// A run of bytes of a physical volume.
#[derive(Debug)]
pub(in crate::volume) struct Place {
    /// The physical volume's disk.
    pub(super) disk: Node,
    /// The physical volume: index in the group's members.
    pub(super) member: usize,
    /// First byte on its disk.
    pub(super) offset: u64,
    lent: Arc<LentFiles>,
}

impl Place {
    /// Bytes from `offset` on of the disk of a member.
    pub(in crate::volume) fn new(disk: Node, member: usize, offset: u64) -> Arc<Self> {
        Arc::new(Self {
            disk,
            member,
            offset,
            lent: Arc::default(),
        })
    }

    /// The same disk from `by` bytes further on.
    pub(super) fn advanced(&self, by: u64) -> Arc<Self> {
        Self::new(self.disk.clone(), self.member, self.offset + by)
    }

    /// The region of a file that holds `below` of the disk.
    pub(super) fn file_region(&self, below: Range) -> Option<FileRegion> {
        let (leaf, at) = block::resolve(&*self.disk, below);
        let region = leaf.file_region(at)?;
        self.lent.lend(region)
    }

    /// The place as it is waited for once nothing leads there any more.
    pub(super) fn retire(self: &Arc<Self>) -> OldPlace {
        OldPlace {
            place: Arc::downgrade(self),
            lent: self.lent.clone(),
        }
    }
}

/// A place that nothing leads to any more.
#[derive(Debug)]
pub(in crate::volume) struct OldPlace {
    place: Weak<Place>,
    lent: Arc<LentFiles>,
}

impl OldPlace {
    /// Whether no request that went there is in flight.
    pub(in crate::volume) fn is_unused(&self) -> bool {
        self.place.strong_count() == 0 && self.lent.are_returned()
    }
}
