//! [`Watch`]: shows how far a copy is, and looks for the signal that ends it.

use std::pin::pin;
use std::time::Duration;

use engine::clock;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use nodes::copy::{CopyProgress, CopyStage};

use crate::interrupt::Interrupt;

/// Time between two looks.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// Looks at a copy.
pub(super) struct Watch<'a> {
    bar: ProgressBar,
    /// Bytes that an interrupted copy has moved.
    resumed: u64,
    progress: &'a CopyProgress,
    interrupt: &'a Interrupt,
}

impl<'a> Watch<'a> {
    /// A bar on standard error for `size` bytes, of which `resumed` are copied, where that is a terminal.
    pub(super) fn new(
        size: u64,
        resumed: u64,
        progress: &'a CopyProgress,
        interrupt: &'a Interrupt,
    ) -> Self {
        let template = "{prefix} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        let bar = ProgressBar::new(size).with_finish(ProgressFinish::AndClear);
        let bar = match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        let bar = bar.with_prefix("copying").with_position(resumed);
        // What was copied before says nothing about the rate.
        bar.reset_eta();
        Self {
            bar,
            resumed,
            progress,
            interrupt,
        }
    }

    /// Runs `work`; `None` if a signal came first, and the work is dropped.
    pub(super) async fn until<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        let mut stage = CopyStage::Copying;
        loop {
            if let Ok(done) = clock::timeout(TICK, work.as_mut()).await {
                self.bar.finish_and_clear();
                return Some(done);
            }
            if self.interrupt.came() {
                self.bar.finish_and_clear();
                return None;
            }
            self.show(&mut stage);
        }
    }

    fn show(&self, shown: &mut CopyStage) {
        let stage = self.progress.stage();
        let counts = self.progress.counts();
        if stage != *shown {
            *shown = stage;
            let (prefix, starts_again) = match stage {
                CopyStage::Copying => ("copying", true),
                CopyStage::Flushing => ("flushing", false),
                CopyStage::Verifying => ("comparing", true),
            };
            self.bar.set_prefix(prefix);
            if starts_again {
                // Another rate, another time left.
                self.bar.reset();
            }
        }
        self.bar.set_position(match stage {
            CopyStage::Copying | CopyStage::Flushing => self.resumed + counts.done(),
            CopyStage::Verifying => counts.verified,
        });
    }
}
