//! The machine under outboard: per-core runtimes, file I/O, buffers and the clock.
//!
//! [`run`] starts one current-thread tokio runtime per core. Each has its own io_uring ring on the
//! same thread, so that a request never hops between threads on its way to a file; where io_uring
//! is missing or forbidden a small pool of blocking threads stands behind the same interface.
//! Which one runs is chosen at start ([`Backend`]) and logged.
//!
//! # Invariants
//!
//! * All `unsafe` of the workspace is in this crate.
//! * An operation owns its buffers and its file until the kernel is done with them, whether or not
//!   its future is still there. [`InFlight`] reports when that is.
//! * Time, threads and tasks come from here ([`clock`], [`spawn`], [`thread`]).
//! * Every vector kernel of parity has a scalar twin, and gives the same bytes.
//!
//! # What this crate does not do
//!
//! It knows nothing of block devices or protocols; [`rbd`] is the door to Ceph's library. Sockets are tokio's.
#![allow(unsafe_code)]

mod buffer;
pub mod clock;
mod driver;
mod file;
mod file_handle;
mod in_flight;
mod long_work;
pub mod loopdev;
pub mod page_cache;
pub mod parity;
pub mod rbd;
mod runtime;
pub mod tcp;
pub mod whole_file;

pub use buffer::Buffer;
pub use driver::Backend;
pub use file::{DiskFile, OpenMode, WriteBufs};
pub use in_flight::{InFlight, Ticket};
pub use long_work::long_work;
pub use runtime::{
    BackendChoice, CORES_MAX, Config, Handle, StartError, blocking, join, run, spawn, thread,
};

#[cfg(test)]
mod tests;
