//! Every virtual disk: files, memory and what is composed of them.
//!
//! One folder per node, each of the same shape: `mod.rs` is the asynchronous shell, `plan.rs`
//! turns a request into steps, `state.rs` decides on events, `format.rs` is bytes and structs,
//! `tests.rs` tests; all but the shell are pure. A node that needs fewer files has fewer.
//!
//! # Invariants
//!
//! * Each node keeps the contract of [`block`], and is driven through the same checks for it
//!   (`testkit::check_against_model` and its siblings).
//! * A request that reaches a node was checked at the export; a node asserts and does not repair.
//! * A request that lies within one part is forwarded unchanged. Another one sends one request to each part,
//!   copies nothing, and completes only when nothing of it can land any more (`parts`).
//! * `remap` never leads past a node that orders changes, nor to bytes that may not be written: its caller
//!   may write there.
//! * A delay, a rate or a fault cannot be bypassed: these nodes offer neither `remap` nor a file region. A
//!   drive that is plugged in again starts nothing before the requests that the pull cut off have settled.
//! * A copy of a partition table is written only when the other one is valid and durable; a table that Linux
//!   would not use is opened read-only.
//! * Read-ahead keeps no data of a range with a change in flight, or with a dropped change that has not
//!   settled.
//! * A cache writes through: nothing that a flush acknowledged is in the cache file alone, and no block of it is older than
//!   the disk's.
//! * A change of part of a block never runs concurrently with another change of it, and waits until dropped
//!   ones have settled (`blocks`).
//!
//! # What this crate does not do
//!
//! It reads no command line and no configuration: the builder of a graph calls the constructors.

#![cfg_attr(not(test), deny(clippy::disallowed_types))]

pub mod array;
mod blocks;
pub mod cache;
mod chance;
pub mod copy;
mod delay;
pub mod dm;
mod error_disk;
mod fault;
mod fields;
mod file;
mod guard;
mod join;
mod lent_files;
mod linear;
mod memory;
mod null;
mod overlay;
pub mod partition;
mod parts;
mod rbd;
mod read;
mod read_ahead;
mod request_gate;
mod stripe;
#[cfg(test)]
mod test_runtime;
mod throttle;
pub mod volume;
mod zeroes;

pub use blocks::{BlockSizeError, Blocks};
pub use cache::{BootProfile, BootProfileError, Cache, CacheError, CacheOptions, CacheStatus};
pub use delay::{Delay, DelayTimes};
pub use error_disk::ErrorDisk;
pub use fault::{Fault, FaultEffect, FaultHandle, FaultPlan, FaultRule};
pub use file::{File, FileHolder, FileOptions, OpenError, lock_exclusive};
pub use linear::{Linear, LinearError};
pub use memory::Memory;
pub use null::Null;
pub use overlay::{
    Committing, FormatError, Overlay, OverlayError, OverlayOptions, StoreStatus, Usage, Validity,
};
pub use partition::Partition;
pub use parts::{PartError, Segment};
pub use rbd::Rbd;
pub use read::read_within;
pub use read_ahead::{ReadAhead, WindowError};
pub use stripe::{LeftOut, Stripe, StripeError};
pub use throttle::{Rates, Throttle};

/// The `zero` of device-mapper tables: what is written is discarded, what is read is zeroes.
pub type Zero = Null;

#[cfg(test)]
mod tests;
