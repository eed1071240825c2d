//! The machine and the directories a run is made on: what is recorded in its manifest.
//!
//! Invariants: parsing is pure ([`mounts`], [`route`]); whatever cannot be found out is absent, never
//! guessed. [`ceilings`] measures what sockets and memory of this machine can carry.

pub mod ceilings;
mod facts;
mod machine;
pub mod mounts;
pub mod residency;
pub mod route;

pub use facts::{Measured, ServerHint, TargetFacts, target_facts};
pub use machine::{Machine, machine};

#[cfg(test)]
mod tests;
