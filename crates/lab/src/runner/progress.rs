//! [`Progress`]: events of a run, so that a terminal can show them.

use crate::units::Nanos;

/// A listener. It must return quickly.
pub trait Progress {
    /// Something before the first block: one phrase, as `writing 512 MiB to /mnt/media`.
    fn phase(&mut self, what: &str);
    /// What the user has to know before anything is written: a sentence. Ignored unless it is shown.
    fn remark(&mut self, _: &str) {}
    /// A measurement begins.
    fn cell_started(&mut self, cell: &CellProgress<'_>);
    /// It ended with this figure: `81.2 MB/s (77.4 MiB/s)`.
    fn cell_finished(&mut self, cell: &CellProgress<'_>, figure: &str);
}

/// Where a run is.
#[derive(Debug, Clone, Copy)]
pub struct CellProgress<'a> {
    /// The test, for people.
    pub workload: &'a str,
    /// What the target is called.
    pub on: &'a str,
    /// Its index.
    pub target: usize,
    /// Counted from 1.
    pub block: u32,
    /// How many there will be: an estimate.
    pub blocks: u32,
    /// Measurements made before this one.
    pub done: u32,
    /// Measurements there will be: an estimate.
    pub cells: u32,
    /// Time left: an estimate.
    pub left: Nanos,
}

/// Ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&mut self, _: &str) {}
    fn cell_started(&mut self, _: &CellProgress<'_>) {}
    fn cell_finished(&mut self, _: &CellProgress<'_>, _: &str) {}
}
