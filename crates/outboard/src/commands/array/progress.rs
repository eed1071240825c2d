//! [`Bar`]: how far the work in the background of an array is, on standard error where that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use crate::arrays::report::ArrayReport;

/// Time between two looks.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Shows it; gone when it is dropped.
#[derive(Debug)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        let template = "{prefix} {wide_bar} {bytes} of {total_bytes}{msg}";
        let bar = ProgressBar::new(0).with_finish(ProgressFinish::AndClear);
        Self(match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    /// Shows how the array is now.
    pub(super) fn show(&self, report: &ArrayReport) {
        let Some(sync) = &report.sync else {
            return;
        };
        self.0.set_prefix(sync.kind.name());
        self.0.set_length(sync.of);
        self.0.set_position(sync.done);
        let speed = match sync.speed {
            0 => String::new(),
            speed => format!(", {}/s", indicatif::HumanBytes(speed)),
        };
        let left = sync
            .seconds_left
            .map_or_else(String::new, |left| format!(", {left} s left"));
        self.0.set_message(format!("{speed}{left}"));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
