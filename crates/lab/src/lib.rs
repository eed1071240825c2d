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
//! * A raw device is claimed by `host::safety` before it is written; no option overrides a mount, a holder or
//!   a signature.
//! * The failure of a tool belongs to its own measurement; only a target that is gone, full or silent ends a
//!   run.
//! * A run on an emulated processor is marked as such, with the processor's own name.
//! * A measurement that a machine cannot make is left out of a run, with the reason in every report of it.
//! * Statistics are made of `Cell::headline()` alone: one number with its unit and its better direction. An
//!   imported run has only what its file counts; the rest is a remark, never a guess.
//! * The doctor never names a part if replacing it did not change the result, and names parts together that
//!   it cannot distinguish. It only reads, unless writing was requested, and then a file of its own.
//! * An agent is queried only between measurements. Its times are on our clock with a bound on their error; a
//!   lost agent never ends a run. It gets no path and no command, and only reads but for what it was started
//!   with.
//! * A report is built once (`report/contents`): the page, Markdown and JSON show the same sections and
//!   figures.
//! * A store is written only after it was found intact; reading one needs no right to write.
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
