//! Simulated noise: what makes two measurements of the same differ, with neighbours in time that share it; and what runs on
//! equal targets make of it.

use lab::report::Summary;
use lab::stats::{Rng, Verdict, median};
use lab::store::RunRecord;

/// The noise of a machine and its targets; parts of the rate.
#[derive(Clone, Copy)]
pub(crate) struct Noise {
    pub(crate) name: &'static str,
    /// Of the machine, which all measurements share: its size, and how much of it is left at the next one.
    pub(crate) machine: (f64, f64),
    /// Of one test on one target, from block to block.
    pub(crate) target: (f64, f64),
    /// Of a measurement alone.
    pub(crate) own: f64,
    /// How often a measurement stalls, and by how much.
    pub(crate) stalls: (f64, f64),
}

pub(crate) const STATIONARY: Noise = Noise {
    name: "stationary",
    machine: (0.01, 0.9),
    target: (0.0, 0.0),
    own: 0.03,
    stalls: (0.0, 0.0),
};
pub(crate) const NOISY: Noise = Noise {
    name: "noisy",
    machine: (0.08, 0.95),
    target: (0.02, 0.5),
    own: 0.04,
    stalls: (0.08, 0.4),
};

/// A machine with noise that continues from run to run.
pub(crate) struct NoisyMachine {
    noise: Noise,
    rng: Rng,
    machine: f64,
    targets: Vec<f64>,
}

impl NoisyMachine {
    /// A machine on which so many `pairs` of tests and targets are measured.
    pub(crate) fn new(noise: Noise, pairs: usize, seed: u64) -> Self {
        let mut machine = Self {
            noise,
            rng: Rng::new(seed),
            machine: 0.0,
            targets: vec![0.0; pairs],
        };
        machine.machine = machine.normal() * noise.machine.0;
        for pair in 0..pairs {
            machine.targets[pair] = machine.normal() * noise.target.0;
        }
        machine
    }

    fn uniform(&mut self) -> f64 {
        self.rng.below(1 << 30) as f64 / f64::from(1 << 30)
    }

    /// The sum of twelve: normal but for tails beyond six deviations.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// What is left of a noise, with what is new.
    fn next(&mut self, before: f64, (size, left): (f64, f64)) -> f64 {
        left * before + (1.0 - left * left).sqrt() * size * self.normal()
    }

    /// A measurement's rate as a factor.
    pub(crate) fn measure(&mut self, pair: usize) -> f64 {
        let noise = self.noise;
        self.machine = self.next(self.machine, noise.machine);
        self.targets[pair] = self.next(self.targets[pair], noise.target);
        let mut log = self.machine + self.targets[pair] + noise.own * self.normal();
        if self.uniform() < noise.stalls.0 {
            log -= noise.stalls.1 * (0.5 + self.uniform());
        }
        log.exp()
    }
}

/// The verdicts of a run: of each test, and of all together.
pub(crate) fn verdicts(summary: &Summary) -> Vec<Verdict> {
    let tests = summary.comparisons.iter();
    let tests = tests.filter_map(|test| test.comparison);
    let all = tests.chain(summary.overall.iter().map(|found| found.comparison));
    all.map(|found| found.verdict).collect()
}

/// Of equal targets.
pub(crate) fn is_wrong(found: Verdict) -> bool {
    matches!(found, Verdict::Faster | Verdict::Slower)
}

/// How many intervals a run has, and how many of them hold the median of the run after it.
pub(crate) fn intervals_held(summary: &Summary, next: &RunRecord) -> (u32, u32) {
    let (mut figures, mut held) = (0, 0);
    for row in &summary.rows {
        let cells = next.cells_of(row.workload, row.target);
        let next: Vec<f64> = cells
            .filter_map(|cell| Some(cell.headline()?.value))
            .collect();
        let interval = row.headline.expect("each test has a figure");
        figures += 1;
        held += u32::from(interval.contains(median(&next).expect("it was measured")));
    }
    (figures, held)
}
