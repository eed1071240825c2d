//! fio: its command lines, its results, and the process that runs it.
//!
//! Invariants: everything that decides is pure ([`command`] makes argument lists, [`mod@parse`] reads
//! JSON, [`Histogram`] adds and counts); [`process`] alone starts fio, and ends what it started by
//! its id. Direction, sizes and engine of a result are those in fio's JSON, never the requested ones.

pub mod command;
mod histogram;
pub mod parse;
pub mod process;

pub use command::{Engine, FioCommand, Subject};
pub use histogram::{Histogram, Quantile};
pub use parse::{JobResult, ParseError, parse};

#[cfg(test)]
mod tests;
