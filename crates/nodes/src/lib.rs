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
//!
//! # What this crate does not do
//!
//! It reads no command line and no configuration: whoever builds a graph calls the constructors.

mod blocks;
pub mod copy;
mod file;
mod guard;
mod memory;
mod null;
mod zeroes;

pub use blocks::{BlockSizeError, Blocks};
pub use file::{File, FileOptions, Holder, OpenError};
pub use memory::Memory;
pub use null::Null;
