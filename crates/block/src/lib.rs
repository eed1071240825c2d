//! The block contract: what every virtual disk promises to its callers.
//!
//! A virtual disk is a graph of nodes. Each node implements [`BlockDevice`]; a node without
//! children is a leaf (a file, memory), the others compose or change what is below them.
//!
//! # Invariants
//!
//! * **Ranges are checked once**, at the export ([`Range::check`]). Nodes assert.
//! * **Visibility**: a write that was acknowledged (its future resolved) is seen by every later read.
//! * **Durability**: a write is durable after a flush that *started after* the write resolved, or at
//!   once with [`WriteFlags::FUA`]. After a flush failed the node stays failed: no later flush
//!   reports success.
//! * **Dropping a read** future is harmless. **Dropping a write** future leaves its range undefined
//!   until [`BlockDevice::settle`] resolves: until then the old write may still land.
//! * **Short I/O does not exist**: a read returns exactly `range.len` bytes or an error.
//! * **Concurrency**: any number of requests may be in flight; overlapping writes in flight leave
//!   either one's bytes, block by block.
//! * The producer allocates; data moves by value and is shared, never copied on the way.
//! * **Identity**: every node reports which disk it is, or that it does not know; there is no default.
//! * Futures are boxed by hand, without `async_trait`: a node that only forwards returns the future of its
//!   child.
//!
//! # What this crate does not do
//!
//! No I/O, no runtime, no wire values (the table from [`Errno`] to NBD's values is in `nbd`).

#![cfg_attr(not(test), deny(clippy::disallowed_types))]

mod device;
mod error;
mod extent;
mod geometry;
mod growing_geometry;
mod identity;
mod range;

pub use device::{
    BlockDevice, FileRegion, IoBufs, IoFuture, Node, TryIo, WriteFlags, resolve, resolve_start,
};
pub use error::{Errno, Fenced, IoError, Operation};
pub use extent::{Extent, ExtentKind, merge_extents};
pub use geometry::{Geometry, Support};
pub use growing_geometry::{GROWTHS_MAX, GrowingGeometry, whole_blocks};
pub use identity::Identity;
pub use range::{Range, RangeError};

#[cfg(test)]
mod tests;
