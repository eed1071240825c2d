//! What no single measurement shows: a tool that failed now and then, a layer that is faster than what it
//! is on (marked at its own result), a sweep some sizes of which were not direct, and where the
//! temperature leads.

use std::collections::BTreeMap;

use super::comparisons;
use crate::checks::order::{Layer, LayerComparison};
use crate::checks::sweep::Sweep;
use crate::checks::{self, Check, Finding, Level};
use crate::plan::Varies;
use crate::stats::compare;
use crate::store::{RunRecord, Status};
use crate::units::Bytes;

pub(super) fn findings(run: &RunRecord) -> Vec<Finding> {
    let mut findings = failures(run);
    findings.extend(sweeps(run));
    findings.extend(checks::run(run));
    findings
}

/// Tools that gave no figure, by test and target, in their own words.
fn failures(run: &RunRecord) -> Vec<Finding> {
    let targets = run.manifest.targets.iter().enumerate();
    let pairs = targets.flat_map(|(target, facts)| {
        let tests = run.plan.workloads.iter().enumerate();
        tests.map(move |(workload, test)| {
            let all: Vec<_> = run.cells_of(workload, target).collect();
            (all, test, facts)
        })
    });
    let failed = pairs.filter_map(|(all, test, facts)| {
        let failed: Vec<_> = all.iter().filter(|cell| cell.has_failed()).collect();
        let said = failed.iter().find_map(|cell| cell.findings.first())?;
        let text = format!(
            "{} on {} failed in {} of {} blocks: {}",
            test.title,
            facts.label,
            failed.len(),
            all.len(),
            said.text
        );
        Some(Finding::of_run(text))
    });
    failed.collect()
}

/// Findings on one result, and only the others show it.
pub(super) struct RowFinding {
    pub(super) workload: usize,
    pub(super) target: usize,
    pub(super) finding: Finding,
}

/// Each target compared with the one below it, in each test that both have.
pub(super) fn layers(run: &RunRecord) -> Vec<RowFinding> {
    let targets = &run.manifest.targets;
    let index = |name: &str| targets.iter().position(|facts| facts.name == name);
    let again = blocks_again(run);
    let mut marked = Vec::new();
    for target in &run.plan.targets {
        let (Some(upper), Some(lower)) = (index(&target.name), target.on().and_then(index)) else {
            continue;
        };
        let layer = Layer {
            name: &targets[upper].label,
            below: &targets[lower].label,
        };
        for workload in 0..run.plan.workloads.len() {
            let ratios = comparisons::of_two(run, workload, upper, lower);
            let of = |wanted: &dyn Fn(u32) -> bool| {
                let ratios = ratios.iter().filter(|(block, _)| wanted(*block));
                let ratios: Vec<f64> = ratios.map(|(_, ratio)| *ratio).collect();
                compare(&ratios)
            };
            let Some(first) = of(&|block| !again.contains(&block)) else {
                continue;
            };
            let found = checks::layer(&LayerComparison {
                layer,
                first: &first,
                again: of(&|block| again.contains(&block)),
                because: explained(run, workload, upper),
            });
            marked.extend(found.into_iter().map(|finding| RowFinding {
                workload,
                target: upper,
                finding,
            }));
        }
    }
    marked
}

/// Blocks that were made of some pairs alone, to look at them again: those of a run that ended by itself and
/// that lack others.
pub(in crate::report) fn blocks_again(run: &RunRecord) -> Vec<u32> {
    if !matches!(
        run.status,
        Status::Precise | Status::AllBlocks | Status::OutOfTime | Status::OutOfBytes
    ) {
        return Vec::new();
    }
    let tests = 0..run.plan.workloads.len();
    let pairs = tests.flat_map(|test| (0..run.manifest.targets.len()).map(move |on| (test, on)));
    let whole = pairs.filter(|(test, on)| run.manifest.measures(*test, *on));
    let whole = whole.count();
    let mut made: BTreeMap<u32, usize> = BTreeMap::new();
    for cell in &run.cells {
        *made.entry(cell.block).or_default() += 1;
    }
    let lacking = made.into_iter().filter(|(_, count)| *count < whole);
    lacking.map(|(block, _)| block).collect()
}

/// What a check says of a target that would make it fast.
fn explained(run: &RunRecord, workload: usize, target: usize) -> Option<&str> {
    const FAST: [Check; 4] = [Check::Cache, Check::Direct, Check::Data, Check::Ceiling];
    let cells = run.cells_of(workload, target);
    let mut findings = cells.flat_map(|cell| &cell.findings);
    let found = findings.find(|finding| FAST.contains(&finding.check))?;
    Some(&found.text)
}

/// Each series over block sizes on each target: which sizes were direct, and what they share.
fn sweeps(run: &RunRecord) -> Vec<Finding> {
    let mut series: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, workload) in run.plan.workloads.iter().enumerate() {
        if let Some(of) = &workload.series
            && of.varies == Varies::BlockSize
        {
            series.entry(&of.name).or_default().push(index);
        }
    }
    let targets = || run.manifest.targets.iter().enumerate();
    series
        .values()
        .flat_map(|points| targets().map(move |(target, facts)| (points, target, facts)))
        .flat_map(|(points, target, facts)| {
            let sizes: Vec<(Bytes, bool)> = points
                .iter()
                .filter_map(|workload| Some((*workload, run.plan.workloads[*workload].fio()?)))
                .filter_map(|(workload, job)| {
                    Some((job.block_size, was_direct(run, workload, target)?))
                })
                .collect();
            let found = checks::block_sizes(&Sweep {
                sizes: &sizes,
                align: facts.dio_align,
            });
            found.into_iter().map(|finding| finding.at(&facts.label))
        })
        .collect()
}

/// Whether the measurements of a test were direct; none where there are none.
fn was_direct(run: &RunRecord, workload: usize, target: usize) -> Option<bool> {
    let all: Vec<_> = run.cells_of(workload, target).collect();
    let buffered =
        |finding: &Finding| (finding.check, finding.level) == (Check::Direct, Level::Invalid);
    let count = all
        .iter()
        .filter(|cell| cell.findings.iter().any(buffered))
        .count();
    (!all.is_empty()).then_some(count * 2 < all.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Validity;
    use crate::plan::Series;
    use crate::report::Summary;
    use crate::sensors::Sample;
    use crate::stats::thermal::ThermalFit;
    use crate::store::Cell;
    use crate::synthetic;
    use crate::units::{Nanos, SECOND};

    /// The first target's measurements are twice as fast as the second's when turned round.
    fn stacked(upper: &str, lower: &str) -> RunRecord {
        let mut run = synthetic::run(6);
        let text = format!(
            "[[target]]\nname = \"{lower}\"\nkind = \"disk\"\ndisk = \"null(1G)\"\nfilesystem = \"ext4\"\n\
             [[target]]\nname = \"{upper}\"\nkind = \"disk\"\ndisk = \"null(1G)\"\nfilesystem = \"ext4\"\non = \"{lower}\"\n"
        );
        let table: toml::Table = toml::from_str(&text).unwrap();
        run.plan.targets = table["target"].clone().try_into().unwrap();
        run
    }

    #[test]
    fn study_b_s_layer_that_is_faster_than_its_disk_is_found_and_one_that_is_slower_is_not() {
        // `against` has twice the speed of `target`.
        let reversed = Summary::of(&stacked("against", "target"));
        for row in &reversed.rows {
            let order = row.findings.iter().find(|one| one.check == Check::Order);
            assert_eq!(order.is_some(), row.target == 1, "{row:?}");
            let Some(order) = order else { continue };
            assert!(
                order.text.contains("there was no time to measure it again"),
                "{order:?}"
            );
            assert!(
                matches!(&row.validity, Validity::Remarks { texts } if texts.contains(&order.text)),
                "{row:?}"
            );
        }
        assert_eq!(layers(&stacked("target", "against")).len(), 0);
    }

    /// Blocks that were made of the two of one test alone.
    #[test]
    fn a_layer_that_was_measured_again_says_what_came_of_it() {
        let mut run = stacked("against", "target");
        let model: Vec<_> = run
            .cells
            .iter()
            .filter(|cell| cell.block == 0)
            .cloned()
            .collect();
        for block in 6..11 {
            let again = model.iter().filter(|cell| cell.workload == 0);
            run.cells.extend(again.map(|cell| Cell {
                block,
                ..cell.clone()
            }));
        }
        assert_eq!(blocks_again(&run), [6, 7, 8, 9, 10]);
        let said = |run: &RunRecord| layers(run)[0].finding.text.clone();
        assert!(
            said(&run).contains("and was again in 5 more blocks"),
            "{}",
            said(&run)
        );
        // The other way round this time.
        for cell in run.cells.iter_mut().filter(|cell| cell.block > 5) {
            cell.target = 1 - cell.target;
        }
        assert!(
            said(&run).contains("so it was the moment"),
            "{}",
            said(&run)
        );
        // Of a run that was stopped, the last block is just not whole.
        run.status = Status::Cancelled;
        assert!(blocks_again(&run).is_empty());
    }

    #[test]
    fn a_pi_that_will_throttle_is_reported_and_another_machine_is_not() {
        let curve = ThermalFit {
            start: 45.0,
            end: 92.0,
            time_constant: 300.0,
            error: 0.0,
            seen: 1.0,
        };
        let mut run = synthetic::run(1);
        run.samples = (0..1000u64)
            .step_by(5)
            .map(|second| Sample {
                machine: 0,
                at: Nanos(second * SECOND),
                sensor: "temperature".into(),
                item: "cpu-thermal".into(),
                value: curve.at(second as f64),
            })
            .collect();
        assert_eq!(findings(&run), []);
        run.manifest.machine.processor = "Raspberry Pi 4 Model B Rev 1.4".into();
        let found = Summary::of(&run).findings;
        assert!(
            found[0]
                .text
                .contains("it reaches 80 degrees and throttles"),
            "{found:?}"
        );
    }

    #[test]
    fn a_sweep_with_sizes_that_were_not_direct_says_which_alignment_they_lack() {
        let mut run = synthetic::run(1);
        let sizes = [4096u64, 6656, 12_288, 12_800];
        for (workload, size) in run.plan.workloads.iter_mut().zip(sizes) {
            workload.fio_mut().unwrap().block_size = Bytes(size);
            workload.series = Some(Series {
                name: "sizes".into(),
                title: "Sizes".into(),
                varies: Varies::BlockSize,
                point: size,
            });
        }
        for facts in &mut run.manifest.targets {
            facts.dio_align = None;
        }
        for cell in run.cells.iter_mut().filter(|cell| cell.workload % 2 == 1) {
            cell.findings
                .push(Finding::invalid(Check::Direct, "it was buffered"));
        }
        let found = findings(&run);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0]
                .text
                .contains("only 2 of the 4 sizes are multiples of the 4096 B")
                && found[0].text.ends_with("powers of two or not"),
            "{found:?}"
        );
    }
}
