//! The machine and the directories a run is made on: what is recorded in its manifest.
//!
//! Invariants: parsing is pure ([`mounts`], [`network_mount`], [`route`]); anything that cannot be found out is absent, never
//! guessed. [`ceilings`] measures what sockets and memory of this machine can carry; [`safety`] says what
//! may be written raw.

pub mod alignment;
pub mod ceilings;
pub mod data;
mod facts;
pub mod identity;
mod machine;
pub mod mounts;
pub mod network_mount;
pub mod residency;
pub mod route;
pub mod safety;
pub mod sockets;

pub(crate) use facts::target_facts;
pub use facts::{KnownTarget, MeasuredCeilings, Process, Role, TargetFacts, TargetPlace};
pub use machine::{Machine, boot_id, machine};
pub use route::link;

#[cfg(test)]
mod tests;
