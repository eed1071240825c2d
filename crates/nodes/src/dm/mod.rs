//! `dm`: a disk by a table of the kernel's device-mapper, as `dmsetup create` reads and
//! `dmsetup table` prints it.
//!
//! ```text
//! # start   length     target   arguments              all in sectors of 512 bytes
//! 0         121077760  linear   /dev/sda 0
//! 121077760 121077760  linear   8:16 0                 a device by its number
//! 242155520 2097152    striped  2 128 /dev/sdc 0 /dev/sdd 0
//! 244252672 8          zero
//! ```
//!
//! Three steps, of which only the middle one, the caller's, waits: [`parse()`] reads the text,
//! [`DmTable::needs`] lists the disks it is made of, [`assemble()`] builds the table's disk from them.
//! A new target is a file of `target/` and a line of its table.
//!
//! # Invariants
//!
//! * A table that the kernel refuses for its text is refused here, at a line and a column.
//! * A target that would keep its own metadata up to date is refused by name, not approximated.
//! * An origin of snapshots is read-only: a write to it would change the snapshots that the kernel
//!   keeps of it, and outboard does not copy to their stores.
//!
//! # What it does not do
//!
//! It opens nothing and looks up no device. It reads no `/dev` directory but for devices that are
//! given by number ([`Device::path`]).

mod assemble;
mod error;
mod parse;
mod remarks;
mod table;
mod target;
#[cfg(test)]
mod tests;
mod words;

pub use self::assemble::assemble;
use self::assemble::part_number;
pub use self::error::{DmProblem, TableError};
pub use self::parse::parse;
pub use self::remarks::{Remark, remarks};
pub use self::table::{Device, DeviceName, DeviceUse, DmTable, Need, TableLine, TextPosition};

/// Bytes of a sector, the unit of all numbers of a table.
pub(crate) const SECTOR: u64 = 512;
