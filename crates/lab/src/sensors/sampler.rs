//! The sampler: called often, it takes a reading once a second and gives what changed since the last.

use super::{CoreTimes, DiskCounters, ProcessCpu, Sample, read};
use crate::units::{Nanos, SECOND};

/// Between two readings.
const INTERVAL: Nanos = Nanos(SECOND);
/// The most samples one run keeps; later ones are dropped and the run says so.
pub const SAMPLES_MAX: usize = 500_000;

/// One look at every sensor.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    pub(super) at: Nanos,
    pub(super) cores: Vec<(u32, CoreTimes)>,
    pub(super) processes: Vec<(String, ProcessCpu)>,
    pub(super) disks: Vec<DiskCounters>,
}

/// Takes readings and keeps the samples until they are collected.
#[derive(Debug)]
pub struct Sampler {
    /// What is followed: a role and a process.
    processes: Vec<(String, u32)>,
    /// Which devices are followed.
    disks: Vec<String>,
    last: Option<Reading>,
    samples: Vec<Sample>,
    taken: usize,
}

impl Sampler {
    /// Follows these processes (role, id) and devices, and every core.
    #[must_use]
    pub const fn new(processes: Vec<(String, u32)>, disks: Vec<String>) -> Self {
        Self {
            processes,
            disks,
            last: None,
            samples: Vec::new(),
            taken: 0,
        }
    }

    /// Takes a reading if one is due at `at`, counted from the start of the run.
    pub fn tick(&mut self, at: Nanos) {
        let due = self
            .last
            .as_ref()
            .map_or(Nanos(0), |last| Nanos(last.at.0 + INTERVAL.0));
        if at < due || self.is_full() {
            return;
        }
        let reading = self.read(at);
        if let Some(last) = &self.last {
            let samples = difference(last, &reading);
            self.taken += samples.len();
            self.samples.extend(samples);
        }
        self.last = Some(reading);
    }

    /// Hands over the samples taken since the last call.
    pub fn collect(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.samples)
    }

    /// Whether samples are being dropped.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.taken >= SAMPLES_MAX
    }

    fn read(&self, at: Nanos) -> Reading {
        let mut disks = read::devices();
        disks.retain(|disk| self.disks.contains(&disk.name));
        Reading {
            at,
            cores: read::cores(),
            processes: self
                .processes
                .iter()
                .filter_map(|(role, pid)| Some((role.clone(), read::process_tree(*pid)?)))
                .collect(),
            disks,
        }
    }
}

/// What happened between two readings, as parts of a core and bytes per second.
pub(super) fn difference(earlier: &Reading, later: &Reading) -> Vec<Sample> {
    let at = later.at;
    let elapsed = Nanos(later.at.0.saturating_sub(earlier.at.0));
    if elapsed.0 == 0 {
        return Vec::new();
    }
    let sample = |sensor: &str, item: String, value: f64| Sample {
        at,
        sensor: sensor.into(),
        item,
        value,
    };
    let mut samples = Vec::new();
    for (number, times) in &later.cores {
        let Some((_, before)) = earlier.cores.iter().find(|(same, _)| same == number) else {
            continue;
        };
        let spent = times.since(before);
        let total = spent.total().max(1) as f64;
        for (kind, ticks) in spent.kinds() {
            samples.push(sample(
                "cpu",
                format!("{number}/{kind}"),
                ticks as f64 / total,
            ));
        }
    }
    for (role, cpu) in &later.processes {
        let before = earlier
            .processes
            .iter()
            .find(|(same, old)| same == role && old.started == cpu.started);
        if let Some((_, before)) = before {
            let busy = read::ticks_to_time(cpu.ticks.saturating_sub(before.ticks));
            samples.push(sample(
                "process",
                role.clone(),
                busy.seconds() / elapsed.seconds(),
            ));
        }
    }
    for disk in &later.disks {
        if let Some(before) = earlier.disks.iter().find(|old| old.name == disk.name) {
            for direction in [crate::plan::Direction::Read, crate::plan::Direction::Write] {
                let moved = disk.since(before, direction).bytes.0 as f64 / elapsed.seconds();
                samples.push(sample(
                    "disk",
                    format!("{}/{}", disk.name, direction.as_str()),
                    moved,
                ));
            }
        }
    }
    samples
}
