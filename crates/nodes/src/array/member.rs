//! [`Member`]: a disk with a superblock of the array, as it was read.

use std::sync::Arc;

use block::{Node, Range};

use super::format::bitmap::Bitmap;
use super::format::{self, Role, Superblock};
use super::member_guard::{ArrayFence, MemberGuard};
use super::options::{Candidate, Reopen};

/// A disk with a superblock of the array, as it was read when the array was opened.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// What it is called in messages.
    pub(crate) name: String,
    /// The disk.
    pub(crate) disk: Node,
    /// It is on another machine.
    pub(crate) remote: bool,
    /// How it is opened again after it was away.
    pub(crate) reopen: Option<Arc<dyn Reopen>>,
    /// Where its superblock is, byte of the disk.
    pub(crate) at: u64,
    /// What that says.
    pub(crate) superblock: Superblock,
    /// The bytes of it, for what this program does not know and must keep.
    pub(crate) bytes: Vec<u8>,
    /// The header of its bitmap, if it has one that is not damaged.
    pub(crate) bitmap: Option<Bitmap>,
    /// What cannot be read of it, bytes of its data; in order, apart from each other.
    pub(crate) bad: Vec<Range>,
}

impl Member {
    /// It, to be opened again.
    pub(super) fn candidate(&self) -> Candidate {
        Candidate {
            name: self.name.clone(),
            disk: Some(self.disk.clone()),
            remote: self.remote,
            reopen: self.reopen.clone(),
        }
    }

    /// What sees whether it is still ours, for one that has its superblock on its disk.
    pub(super) fn guard(&self, fence: &Arc<ArrayFence>) -> Arc<MemberGuard> {
        let version = self.superblock.version;
        let block = self.disk.geometry().block_size;
        let image = format::written(&self.bytes, version, block);
        let place = (version, self.at);
        MemberGuard::new(&self.name, &self.disk, place, Some(image), fence.clone())
    }

    /// The same, for one that has none of the array yet.
    pub(super) fn new_guard(&self, fence: &Arc<ArrayFence>) -> Arc<MemberGuard> {
        let place = (self.superblock.version, self.at);
        MemberGuard::new(&self.name, &self.disk, place, None, fence.clone())
    }

    /// How much of its data are used, by an array that uses `size` of each holder of a part.
    pub(super) const fn used(&self, size: u64) -> u64 {
        match self.superblock.role {
            Role::Journal => self.superblock.data.len,
            _ => size,
        }
    }

    /// Where bytes of its data are on the disk.
    pub(super) const fn place(&self, within: Range) -> Range {
        Range::new(self.superblock.data.offset + within.offset, within.len)
    }
}
