//! Whether a run's figures may be believed.

use super::invalidate;
use crate::report::sentences::{headline, verdict};
use crate::report::{Summary, table};
use crate::synthetic;

/// The table began with its figures, and one target, or a run that was stopped within its fifth block, had enough.
#[test]
fn too_few_repeats_are_what_a_run_says_first_also_of_one_target_or_of_a_part_of_a_block() {
    let mut alone = synthetic::run(3);
    alone.manifest.targets.truncate(1);
    alone.manifest.baseline = None;
    alone.cells.retain(|cell| cell.target == 0);
    let mut stopped = synthetic::run(5);
    stopped
        .cells
        .retain(|cell| cell.block < 4 || cell.workload < 2);
    for (run, blocks) in [(alone, 3), (stopped, 4)] {
        let summary = Summary::of(&run);
        let first = format!("Too few repeats: {blocks} blocks, and an interval takes 5.");
        assert!(table(&run).starts_with(&first), "{}", table(&run));
        let said = verdict(&run, &summary, None);
        assert!(said[0].starts_with(&first), "{said:?}");
        let title = headline(&run, &summary);
        assert!(title.starts_with("Too few repeats "), "{title}");
    }
    assert!(!table(&synthetic::run(5)).contains("Too few"));
    // An invalid test has a reason of its own.
    let mut run = synthetic::run(5);
    invalidate(&mut run, 0, 0, "too fast");
    assert!(!table(&run).contains("Too few"), "{}", table(&run));
    for (workload, target) in (0..4).flat_map(|test| [(test, 0), (test, 1)]) {
        invalidate(&mut run, workload, target, "too fast");
    }
    assert!(!table(&run).contains("Too few"), "{}", table(&run));
}
