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
//! [`Table::needs`] says which disks it wants, [`assemble()`] makes the table's disk of them.
//!
//! # Invariants
//!
//! * A table that the kernel refuses for its text is refused here, at a line and a column.
//! * A target that would keep its own metadata up to date is refused by name, not approximated.
//! * An origin of snapshots is read-only: a write to it would change the snapshots that the kernel
//!   keeps of it, and nobody here would know.
//!
//! # What it does not do
//!
//! It opens nothing and looks up no device. It reads no `/dev` directory but for devices that are
//! given by number ([`Device::path`]).

mod assemble;
mod error;
mod parse;
mod refused;
mod remarks;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;
mod words;

pub use self::assemble::assemble;
pub use self::error::{Problem, TableError};
pub use self::parse::parse;
pub use self::remarks::{Remark, remarks};
pub use self::table::{Device, DeviceName, Line, Need, Place, Table, Target};

/// Bytes of a sector, the unit of all numbers of a table.
pub(crate) const SECTOR: u64 = 512;
