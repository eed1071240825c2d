//! How often a run says what is not so when it ends by its own rule: the runner's loop over blocks, with simulated
//! measurements of equal targets, through the functions that make a report. Each test prints the rates that it measured
//! (`cargo test -p lab stopping_rule -- --nocapture`).
//!
//! A run that ends once its intervals are narrow ends more often where chance made them so: a fixed number of blocks
//! (`report/tests/error_rates.rs`) does not show that.

use std::collections::BTreeMap;

use super::scheduling::{course, kept, pairs, placed};
use crate::plan::{Direction, Plan, builtin};
use crate::report::Summary;
use crate::runner::Silent;
use crate::runner::blocks::{BlockPlan, CellResult, Executor, StopReason, run_blocks};
use crate::runner::schedule::CellSlot;
use crate::store::{Cell, RunRecord, Status};
use crate::synthetic::{
    self, NOISY, Noise, NoisyMachine, STATIONARY, intervals_held, is_wrong, verdicts,
};
use crate::units::{Nanos, SECOND, round};

/// Simulated runs of each line.
const RUNS: u32 = 400;

/// What each measurement takes.
const TAKES: Nanos = Nanos(SECOND * 9 / 10);

/// As little noise as lets most runs end by their precision.
const QUIET: Noise = Noise {
    name: "quiet",
    own: 0.012,
    machine: (0.004, 0.9),
    ..STATIONARY
};

/// Measures by simulation.
struct Simulation<'a> {
    now: Nanos,
    machine: &'a mut NoisyMachine,
    template: &'a Cell,
}

impl Executor for Simulation<'_> {
    fn elapsed(&mut self) -> Nanos {
        self.now
    }

    fn measure(&mut self, slot: CellSlot) -> Result<CellResult, StopReason> {
        let mut cell = placed(self.template.clone(), slot);
        let rate = self.machine.measure(slot.workload * 2 + slot.target);
        self.now.0 += TAKES.0;
        let result = cell.fio_mut().unwrap();
        result.bytes.0 = round(rate * 1e9);
        result.runtime = Nanos(SECOND);
        result.direction = Direction::Read;
        Ok(kept(cell))
    }
}

/// The first tests of `quick`, which may take so many times its time.
fn plan(tests: usize, times: u64) -> Plan {
    let mut plan = builtin("quick").unwrap();
    plan.workloads.truncate(tests);
    plan.budget.time_ms *= times;
    plan.budget.limit_ms *= times;
    plan
}

/// A run of `plan`, made by the runner's loop.
fn simulate(record: &mut RunRecord, template: &Cell, machine: &mut NoisyMachine, seed: u64) {
    let plan = record.plan.clone();
    let pairs = pairs(&plan, 2);
    let mut kept = Vec::new();
    let mut keep = |one: &CellResult| {
        kept.push(one.cell.clone());
        Ok(())
    };
    let course = BlockPlan {
        seed,
        ..course(&plan, &pairs)
    };
    let mut simulation = Simulation {
        now: Nanos(0),
        machine,
        template,
    };
    let ended = run_blocks(&course, &mut simulation, &mut Silent, &mut keep);
    (record.seed, record.status, record.cells) = (seed, ended.status, kept);
}

/// Counted over all simulated runs.
#[derive(Default)]
struct Rates {
    /// Runs with a verdict of faster or slower; there is no difference.
    runs_wrong: u32,
    figures: u32,
    /// Intervals that hold the next run's median.
    held: u32,
    /// How many runs ended after how many blocks.
    blocks: BTreeMap<usize, u32>,
    /// How many ended because their intervals were narrow.
    precise: u32,
}

fn simulated(noise: Noise, plan: &Plan) -> Rates {
    let mut rates = Rates::default();
    let tests = plan.workloads.len();
    let mut first = synthetic::run(1);
    let mut template = first.cells[0].clone();
    template.fio_mut().unwrap().latencies = crate::fio::Histogram::default();
    first.plan = plan.clone();
    let mut second = first.clone();
    for seed in 0..u64::from(RUNS) {
        let mut machine = NoisyMachine::new(noise, tests * 2, seed * 7919 + 23);
        simulate(&mut first, &template, &mut machine, seed);
        simulate(&mut second, &template, &mut machine, seed + 1_000_000);
        let summary = Summary::of(&first);
        let all = verdicts(&summary);
        assert_eq!(all.len(), tests + 1);
        rates.runs_wrong += u32::from(all.into_iter().any(is_wrong));
        rates.precise += u32::from(first.status == Status::Precise);
        *rates
            .blocks
            .entry(first.cells.len() / (tests * 2))
            .or_default() += 1;
        let (figures, held) = intervals_held(&summary, &second);
        rates.figures += figures;
        rates.held += held;
    }
    rates
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "a test that measures rates prints them"
)]
fn a_run_that_ends_by_its_rule_calls_equal_targets_different_in_one_of_twenty_and_its_intervals_hold()
 {
    for (noise, held_min) in [(QUIET, 0.95), (STATIONARY, 0.95), (NOISY, 0.90)] {
        for (tests, times) in [(2, 1), (4, 4)] {
            let rates = simulated(noise, &plan(tests, times));
            let wrong = f64::from(rates.runs_wrong) / f64::from(RUNS);
            let held = f64::from(rates.held) / f64::from(rates.figures);
            let precise = f64::from(rates.precise) / f64::from(RUNS);
            println!(
                "{}, {tests} tests, {times} times the time: wrong verdicts in {:.1} % of runs; intervals hold {:.1} % of the \
                 next medians; {:.0} % ended by precision; runs by blocks: {:?}",
                noise.name,
                wrong * 100.0,
                held * 100.0,
                precise * 100.0,
                rates.blocks
            );
            let what = format!("{}, {tests} tests, {times}", noise.name);
            assert!(wrong <= 0.05, "{what}: {wrong}");
            assert!(held >= held_min, "{what}: {held}");
            // The rule is what ends quiet runs, or this shows nothing of it.
            assert!(noise.name != "quiet" || precise > 0.5, "{what}: {precise}");
        }
    }
}
