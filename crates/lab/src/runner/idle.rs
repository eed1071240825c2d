//! The gate before a run: it begins when the machine is idle, and does not wait for ever.

use std::time::Duration;

use crate::checks::{self, Finding};
use crate::sensors::others::Programs;
use crate::units::Nanos;

/// Time of one look.
const LOOK: Duration = Duration::from_millis(300);
/// Looks at a machine that is busy, before it is measured all the same.
const LOOKS_MAX: u32 = 5;

/// Waits until programs other than `ours` are quiet; what is still at work then is a remark on the run.
pub(super) fn wait(ours: &[u32]) -> Vec<Finding> {
    let mut loud = Vec::new();
    for _ in 0..LOOKS_MAX {
        let (before, start) = (Programs::now(ours), engine::clock::now());
        std::thread::sleep(LOOK);
        let others = Programs::now(ours).since(&before);
        let elapsed = engine::clock::now().duration_since(start);
        loud = checks::idle(&others, Nanos::from_duration(elapsed));
        if loud.is_empty() {
            break;
        }
    }
    for finding in &mut loud {
        finding.text = format!("before the first block, {}", finding.text);
    }
    loud
}
