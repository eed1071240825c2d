//! The lab: how fast is a way to a disk, against another one, in figures that can be trusted.
//!
//! A [`plan`] says what is measured; the [`runner`] makes it in interleaved blocks with [`fio`] and
//! [`sensors`]; [`checks`] say whether a figure may be believed and [`stats`] what may be concluded from
//! two of them; everything is kept in a [`store`], and a report is a pure function of what is in it.
//!
//! # Invariants
//!
//! * Nothing but directories is written to, in one subdirectory with a name of its own, which is
//!   removed on every way out.
//! * Quantities are typed ([`units`]): bytes and nanoseconds inside, MB/s and MiB/s only in print.
//! * A measurement is stored as soon as it is made; medians, percentiles and verdicts are computed
//!   from the store each time and never stored.
//! * Histograms are merged by addition. Percentiles are never averaged.
//! * Invalid results are shown, and are in no median and no verdict.
//!
//! # What this crate does not do
//!
//! It draws no progress bar and parses no command line (the binary does), and needs no runtime: fio
//! is waited for by polling, and sensors are read while waiting.

pub mod agent;
pub mod checks;
pub mod doctor;
mod error;
pub mod fio;
pub mod host;
pub mod import;
pub mod plan;
pub mod report;
pub mod runner;
pub mod sensors;
pub mod stats;
pub mod store;
pub mod supervisor;
pub mod tools;
pub mod units;

pub use error::LabError;
pub use runner::{Cancel, Progress, RunRequest, TargetSpec, resume, run};
pub use store::{RunId, Store};

// What is made up for tests is made up for the example that writes a store, too.
#[cfg(test)]
extern crate self as lab;
#[cfg(test)]
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;
