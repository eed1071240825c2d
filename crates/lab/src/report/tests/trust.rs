//! Whether a run's figures may be believed, and what they cost: repeats, and bytes that wear a disk.

use super::invalidate;
use crate::plan::builtin;
use crate::report::sentences::{headline, verdict};
use crate::report::{Summary, html, markdown, table};
use crate::store::{Cell, Outcome};
use crate::synthetic;
use crate::tools::{ToolResult, Writes};
use crate::units::{Bytes, Nanos};

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
        let sentences = verdict(&run, &summary, None);
        assert!(sentences[0].starts_with(&first), "{sentences:?}");
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

/// Only fio was counted, and a run of `programs` had no line on what wears a card most.
#[test]
fn what_tools_write_is_in_the_bytes_of_a_run() {
    let mut run = synthetic::run(2);
    run.plan = builtin("programs").unwrap();
    let tools = run.plan.workloads.len();
    let model = run.cells[0].clone();
    let cell = |block, workload| {
        let outcome = Outcome::Tool(ToolResult::failed("tool", "1", Nanos(1)));
        Cell {
            block,
            workload,
            target: 0,
            outcome,
            ..model.clone()
        }
    };
    run.cells = (0..2)
        .flat_map(|block| (0..tools).map(move |tool| (block, tool)))
        .map(|(block, tool)| cell(block, tool))
        .collect();
    let bounded = run.plan.workloads.iter().filter_map(|test| test.tool());
    let bounded: u64 = bounded
        .map(|tool| match tool.kind().writes() {
            Writes::AtMost(bytes) => tool.kind().laid_out().0 + 2 * bytes.0,
            _ => tool.kind().laid_out().0,
        })
        .sum();
    assert!(bounded > 1 << 30);
    let line = format!("The run wrote at most {} to its targets", Bytes(bounded));
    assert!(table(&run).contains(&line), "{line}: {}", table(&run));
    assert!(table(&run).contains("dbench"), "{}", table(&run));
    assert!(
        table(&run).contains("which is not counted"),
        "{}",
        table(&run)
    );
}

/// The overall sentence of several targets and captions of figures spoke of a 95 % interval that they did not show.
#[test]
fn nothing_speaks_of_an_interval_of_fewer_blocks_than_it_takes() {
    const PHRASES: [&str; 3] = [
        "(95 % interval)",
        "and its 95 % interval",
        "In brackets the 95 % interval",
    ];
    for count in [1, 4, 5] {
        let mut run = synthetic::run(count);
        let mut facts = run.manifest.targets[0].clone();
        facts.label = "/mnt/third".to_owned();
        run.manifest.targets.push(facts);
        let of_second = run.cells.iter().filter(|cell| cell.target == 1);
        let third: Vec<_> = of_second
            .cloned()
            .map(|mut cell| {
                cell.target = 2;
                cell
            })
            .collect();
        run.cells.extend(third);
        let whole = table(&run) + &markdown(&run) + &html(&run);
        for phrase in PHRASES {
            assert_eq!(
                whole.contains(phrase),
                count == 5,
                "{phrase:?}, {count} blocks"
            );
        }
    }
}
