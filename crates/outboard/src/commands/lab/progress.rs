//! The bar of `lab run`, on standard error where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use lab::Progress;
use lab::runner::CellProgress;

/// A listener that draws.
#[derive(Debug)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// An empty one.
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new(0);
        let template = "{bar:30} {pos} of {len}  {wide_msg}";
        match ProgressStyle::with_template(template) {
            Ok(style) => Self(bar.with_style(style)),
            Err(_) => Self(bar),
        }
    }
}

impl Progress for Bar {
    fn phase(&mut self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    fn cell_started(&mut self, cell: &CellProgress<'_>) {
        self.0.set_length(cell.cells.into());
        self.0.set_position(cell.done.into());
        self.0.set_message(format!(
            "block {} of {}: {}, {:.0} s left",
            cell.block,
            cell.blocks,
            cell.workload,
            cell.left.seconds()
        ));
    }

    fn cell_finished(&mut self, cell: &CellProgress<'_>, figure: &str) {
        self.0.set_position(u64::from(cell.done) + 1);
        self.0.set_message(format!("{}: {figure}", cell.workload));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
