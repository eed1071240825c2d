//! `partition`: a part of a disk, as its partition table says. GPT and MBR with logical partitions,
//! in blocks of 512 and of 4096 bytes.
//!
//! ```text
//! GPT   │MBR│header│entries │ ░░ partitions ░░                    │entries│header│
//!         └ protects          first_usable … last_usable          └── backup ──┘
//! MBR   │MBR│ partitions 1…3 │ extended: EBR│5 │ EBR│6 │ …        │
//! ```
//!
//! # Invariants
//!
//! * What is opened is a window onto the disk: requests, places of bytes and answers on the fast path are
//!   passed on as they are.
//! * A partition that overlaps another, or ends behind the disk, is refused by name.
//! * A table that only its backup, or only we, can read is opened read-only, with a
//!   [`Remark`] that says why.
//! * What is read is bounded: entries, logical partitions, their chain.
//!
//! # What it does not do
//!
//! It reads no other tables (BSD, Sun, Apple, …) and follows no table within a partition.

mod encode;
mod error;
mod gpt;
mod grow;
mod kind;
mod layout;
mod mbr;
mod read;
mod remark;
mod table;
#[cfg(test)]
mod tests;

use block::{
    BlockDevice, Extent, Geometry, Identity, IoBufs, IoFuture, Node, Operation, Range, TryIo,
    WriteFlags,
};
pub use gpt_disk_types::Guid;

pub use self::encode::{TableStep, carry_out, steps};
pub use self::error::{PartitionError, TableError};
pub use self::gpt::GptFault;
pub use self::grow::{GrowError, Growth, grow};
pub use self::kind::{KindError, PartitionKind};
pub use self::layout::{LayoutError, NewPartition, NewTable, lay_out};
pub use self::remark::Remark;
pub use self::table::{DiskId, EntryFault, PartitionEntry, PartitionId, PartitionTable, Scheme};
use crate::guard::admit;
use crate::linear::Linear;
use crate::parts::Segment;

/// Opens partition `number` of `disk`.
///
/// # Errors
/// [`PartitionError`]: nothing was changed.
pub async fn open(disk: Node, number: u32) -> Result<Partition, PartitionError> {
    let table = PartitionTable::read(&disk)
        .await?
        .ok_or(PartitionError::NoTable)?;
    Partition::of(disk, &table, number)
}

/// A partition of a disk.
#[derive(Debug)]
pub struct Partition {
    window: Linear,
    geometry: Geometry,
    entry: PartitionEntry,
}

impl Partition {
    /// Partition `number` of `disk`, by a table that was read before.
    ///
    /// # Errors
    /// [`PartitionError`].
    pub fn of(disk: Node, table: &PartitionTable, number: u32) -> Result<Self, PartitionError> {
        let entry = table
            .partition(number)
            .ok_or_else(|| PartitionError::NoSuch {
                number,
                scheme: table.scheme,
                present: table.partitions.iter().map(|entry| entry.number).collect(),
            })?;
        if entry.kind.is_extended() {
            return Err(PartitionError::Extended { number });
        }
        if let Some(fault) = entry.fault {
            return Err(PartitionError::Unusable { number, fault });
        }
        let range = entry.range;
        let window = Linear::new(vec![Segment { disk, range }]);
        let window = window.map_err(|source| PartitionError::Window { number, source })?;
        let mut geometry = window.geometry().clone();
        geometry.read_only |= table.is_read_only();
        Ok(Self {
            window,
            geometry,
            entry: entry.clone(),
        })
    }

    /// Where it lies on its disk.
    #[must_use]
    pub const fn range(&self) -> Range {
        self.entry.range
    }

    /// What its table says of it.
    #[must_use]
    pub const fn entry(&self) -> &PartitionEntry {
        &self.entry
    }

    /// Refuses a change where the table is not to be trusted with one.
    fn refused<T>(&self, operation: Operation, range: Range) -> Option<IoFuture<'_, T>>
    where
        T: Send + 'static,
    {
        let refused = admit(&self.geometry, operation, range).err()?;
        Some(Box::pin(std::future::ready(Err(refused))))
    }
}

impl BlockDevice for Partition {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.window.read(range)
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        match self.refused(Operation::Write, range) {
            Some(refused) => refused,
            None => self.window.write(range, data, flags),
        }
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.window.flush()
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        match self.refused(Operation::WriteZeroes, range) {
            Some(refused) => refused,
            None => self.window.write_zeroes(range, flags),
        }
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        match self.refused(Operation::Trim, range) {
            Some(refused) => refused,
            None => self.window.trim(range),
        }
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.window.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        // With where it begins.
        self.window.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.window.settle()
    }

    fn connection_epoch(&self) -> u64 {
        self.window.connection_epoch()
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        self.window.remap(range)
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        self.window.try_read(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        if self.geometry.read_only {
            return TryIo::WouldBlock;
        }
        self.window.try_write(range, data)
    }
}
