//! [`Array`]: the disk, and everything that can be asked of a running array.

use std::sync::Arc;

use block::{
    BlockDevice, Extent, FileRegion, Geometry, IoBufs, IoFuture, Node, Now, Range, WriteFlags,
};
use tokio::sync::broadcast;

use super::{ArrayError, ArrayEvent, ArrayOptions, ArrayStatus, Candidate, SyncKind};

/// An array that is open.
#[derive(Debug)]
pub struct Array {
    kind: Kind,
}

/// What carries out its requests, by level.
#[derive(Debug)]
enum Kind {}

/// How a member is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddOptions {
    /// Reads prefer others.
    pub write_mostly: bool,
    /// Errors fail it at once.
    pub fail_fast: bool,
}

/// Opens the array that `candidates` are members of.
///
/// # Errors
/// [`ArrayError`]: why not, and what to do next; nothing was written.
pub async fn open(
    _candidates: Vec<Candidate>,
    _options: ArrayOptions,
) -> Result<Arc<Array>, ArrayError> {
    Err(ArrayError::refused("arrays are not opened yet", None))
}

impl Array {
    /// How it is now.
    #[must_use]
    pub fn status(&self) -> ArrayStatus {
        match self.kind {}
    }

    /// What happens to it from now on. Who is too slow misses the oldest.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<ArrayEvent> {
        match self.kind {}
    }

    /// Makes a disk a spare; recovery begins at once where a part is missing. Whatever the disk held is
    /// lost, unless it is a member that can come back by the bitmap.
    ///
    /// # Errors
    /// Why it cannot be a member.
    pub async fn add(&self, _disk: Candidate, _options: AddOptions) -> Result<(), ArrayError> {
        match self.kind {}
    }

    /// Takes a member back that was away: only what the bitmap says is copied.
    ///
    /// # Errors
    /// Why that is not enough for it; [`add`](Self::add) copies all.
    pub async fn re_add(&self, _disk: Candidate) -> Result<(), ArrayError> {
        match self.kind {}
    }

    /// Declares a member failed, by its name.
    ///
    /// # Errors
    /// There is none of that name, or it is the last one that holds its part.
    pub async fn fail(&self, _member: &str) -> Result<(), ArrayError> {
        match self.kind {}
    }

    /// Forgets a spare or a failed member, by its name.
    ///
    /// # Errors
    /// There is none of that name, or it works.
    pub async fn remove(&self, _member: &str) -> Result<(), ArrayError> {
        match self.kind {}
    }

    /// Changes how many parts a mirror has.
    ///
    /// # Errors
    /// It is no mirror, or working members would be left over.
    pub async fn grow(&self, _parts: u32) -> Result<(), ArrayError> {
        match self.kind {}
    }

    /// Begins a scrub ([`SyncKind::Check`] or [`SyncKind::Repair`]) in the background.
    ///
    /// # Errors
    /// There are no copies to compare, or it resyncs already.
    pub fn scrub(&self, _kind: SyncKind) -> Result<(), ArrayError> {
        match self.kind {}
    }

    /// Ends a scrub early.
    pub fn stop_scrub(&self) {
        match self.kind {}
    }

    /// Resolves once nothing is being done in the background.
    ///
    /// # Errors
    /// What it ended with, if not well.
    pub async fn synced(&self) -> Result<(), ArrayError> {
        match self.kind {}
    }

    /// Waits for writes, marks the array clean and ends the work in the background; later changes
    /// fail.
    ///
    /// # Errors
    /// A member could not be told: the array is dirty then, not lost.
    pub async fn stop(&self) -> Result<(), ArrayError> {
        match self.kind {}
    }
}

impl BlockDevice for Array {
    fn geometry(&self) -> &Geometry {
        match self.kind {}
    }

    fn read(&self, _range: Range) -> IoFuture<'_, IoBufs> {
        match self.kind {}
    }

    fn write(&self, _range: Range, _data: IoBufs, _flags: WriteFlags) -> IoFuture<'_, ()> {
        match self.kind {}
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        match self.kind {}
    }

    fn write_zeroes(&self, _range: Range, _flags: WriteFlags) -> IoFuture<'_, ()> {
        match self.kind {}
    }

    fn trim(&self, _range: Range) -> IoFuture<'_, ()> {
        match self.kind {}
    }

    fn extents(&self, _range: Range) -> IoFuture<'_, Vec<Extent>> {
        match self.kind {}
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        match self.kind {}
    }

    fn remap(&self, _range: Range) -> Option<(&Node, Range)> {
        match self.kind {}
    }

    fn remap_start(&self, _range: Range) -> Option<(&Node, Range)> {
        match self.kind {}
    }

    fn read_now(&self, _range: Range, _into: &mut [u8]) -> Now {
        match self.kind {}
    }

    fn write_now(&self, _range: Range, _data: &[u8]) -> Now {
        match self.kind {}
    }

    fn file_region(&self, _range: Range) -> Option<FileRegion> {
        match self.kind {}
    }
}
