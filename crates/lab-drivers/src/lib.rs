//! The drivers of the lab: what it does with disks, servers and attachments of this project.
//!
//! [`lab`] decides what is measured and what the figures mean, and knows no disk of ours. Here are the parts
//! that do: [`build`] makes the targets of a plan, [`agent`] serves the lab on another machine and connects to
//! it, [`doctor`] measures what limits a target, and [`attachment`] finds the processes below a directory.
//!
//! # Invariants
//!
//! * Nothing is printed: results and [`DriverError`]s go to the caller.
//! * Disk expressions are texts here: the program reads and opens them, through the traits of each module.
//!
//! # What it deliberately does not do
//!
//! It parses no command line and computes no statistics.

pub mod agent;
pub mod attachment;
pub mod build;
pub mod doctor;
mod error;
mod last_line;
mod runtime;

pub use error::DriverError;
