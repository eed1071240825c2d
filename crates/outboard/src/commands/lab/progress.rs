//! What `lab run` draws while it measures, on standard error where that is a terminal: what runs, which
//! block of how many, the last figure of the same test on the same target, and the time left.

use std::collections::BTreeMap;

use indicatif::{ProgressBar, ProgressStyle};
use lab::Progress;
use lab::runner::CellProgress;

use crate::output::{self, Format};

/// The longest target name that is drawn.
const NAME_MAX: usize = 28;

/// A listener that draws.
#[derive(Debug)]
pub(super) struct Bar {
    bar: ProgressBar,
    /// The last figure of each test on each target.
    figures: BTreeMap<(String, usize), String>,
    /// Programs get no remarks.
    format: Format,
}

impl Bar {
    /// An empty one.
    pub(super) fn new(format: Format) -> Self {
        let bar = ProgressBar::new(0);
        let template = "{bar:24} {pos} of {len}  {wide_msg}";
        let bar = match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        Self {
            bar,
            figures: BTreeMap::new(),
            format,
        }
    }
}

impl Progress for Bar {
    fn phase(&mut self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    fn remark(&mut self, what: &str) {
        if matches!(self.format, Format::Text) {
            self.bar.suspend(|| output::note(what));
        }
    }

    fn cell_started(&mut self, cell: &CellProgress<'_>) {
        self.bar.set_length(cell.cells.into());
        self.bar.set_position(cell.done.into());
        let key = (cell.workload.to_owned(), cell.target);
        let last = self.figures.get(&key).map(String::as_str);
        self.bar.set_message(message(cell, last));
    }

    fn cell_finished(&mut self, cell: &CellProgress<'_>, figure: &str) {
        let key = (cell.workload.to_owned(), cell.target);
        self.figures.insert(key, figure.to_owned());
        self.bar.set_position(u64::from(cell.done) + 1);
        self.bar.set_message(message(cell, Some(figure)));
    }
}

/// `block 2 of 5, 40 s left: Sequential read on /mnt/media, 81.2 MB/s (77.4 MiB/s)`.
fn message(cell: &CellProgress<'_>, figure: Option<&str>) -> String {
    let count = cell.on.chars().count();
    let name: String = match count > NAME_MAX {
        true => std::iter::once('…')
            .chain(cell.on.chars().skip(count - NAME_MAX + 1))
            .collect(),
        false => cell.on.to_owned(),
    };
    let figure = figure
        .map(|figure| format!(", {figure}"))
        .unwrap_or_default();
    format!(
        "block {} of {}, {} left: {} on {name}{figure}",
        cell.block,
        cell.blocks,
        time(cell.left.seconds()),
        cell.workload,
    )
}

/// Seconds, or minutes where there are many.
fn time(seconds: f64) -> String {
    match seconds < 120.0 {
        true => format!("{seconds:.0} s"),
        false => format!("{:.0} min", seconds / 60.0),
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use lab::units::Nanos;

    use super::*;

    #[test]
    fn what_runs_where_in_which_block_the_last_figure_and_the_time_left_are_drawn() {
        let cell = CellProgress {
            workload: "Sequential read",
            on: "/a/long/way/to/the/directory/at/its/end",
            target: 0,
            block: 2,
            blocks: 5,
            done: 9,
            cells: 40,
            left: Nanos(40_000_000_000),
        };
        assert_eq!(
            message(&cell, None),
            "block 2 of 5, 40 s left: Sequential read on …to/the/directory/at/its/end"
        );
        assert!(message(&cell, Some("81.2 MB/s")).ends_with("end, 81.2 MB/s"));
        let long = CellProgress {
            left: Nanos(600_000_000_000),
            ..cell
        };
        assert!(message(&long, None).contains("10 min left"));
    }
}
