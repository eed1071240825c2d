//! Disks that fail, crash and hold still, and what tests of outboard share.
//!
//! * [`MemDisk`] is a plain disk in memory, [`FaultDisk`] fails as planned, [`CrashDisk`] loses
//!   what was not flushed, [`HeldDisk`] holds every request until the test lets it go.
//! * [`forward!`](crate::forward!) hands the methods of a disk to the one below it.
//! * [`Model`] is what a disk should hold after a list of [`Op`]s. [`check_against_model`],
//!   [`check_in_batches`], [`check_crashes`] and [`check_dropped_futures`] drive any node against
//!   it; [`ops`] makes the lists for proptest.
//! * [`requires`] skips a test that needs something the machine lacks, and prints why; [`proc`](mod@proc)
//!   starts programs and ends them; [`LoopDevice`] and [`TmpfsMount`] are real storage for tests; [`s3`] has servers
//!   of object stores, [`ceph`] a cluster.
//!
//! # Invariants
//!
//! * One seed is one world: everything random here comes from a seed that the caller gives.
//! * The disks need no particular runtime: any executor may poll their futures.
//!
//! # What this crate does not do
//!
//! It is a dev-dependency only; nothing of it reaches a user.

pub mod ceph;
mod check;
mod crash_disk;
mod data;
mod fault_disk;
mod forward;
mod held_disk;
mod image;
mod mem_disk;
mod model;
mod mounts;
pub mod proc;
pub mod requires;
pub mod s3;
mod world_seeds;

pub use check::{
    Mismatch, check_against_model, check_crashes, check_dropped_futures, check_in_batches,
};
pub use crash_disk::{CrashDisk, Lies, TooManyImages};
pub use data::{block_on, first_difference, gather, moments, pattern, single};
pub use fault_disk::{Effect, Fault, FaultDisk};
pub use held_disk::{Held, HeldDisk};
pub use image::{SECTOR, TrimLeaves};
pub use mem_disk::MemDisk;
pub use model::{Model, Op, OpSpace, one_of_each, ops};
pub use mounts::{LoopDevice, TmpfsMount, UNMOUNT_OTHERS};
pub use world_seeds::WorldSeeds;

#[cfg(test)]
mod tests;
