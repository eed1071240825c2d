//! The sampler: called often, it takes a reading once a second and gives what changed since the last.

use std::path::Path;

use super::interrupts::{SOURCE, SOURCES_MAX};
use super::sysfs::Places;
use super::{
    CoreTimes, Counter, DiskCounters, Gauge, NetCounters, ProcessCpu, Sample, counter, read,
};
use crate::units::{Nanos, SECOND};

/// Between two readings.
pub const INTERVAL: Nanos = Nanos(SECOND);
/// The most samples one run keeps; later ones are dropped and the run says so.
pub const SAMPLES_MAX: usize = 500_000;

/// One look at every sensor.
#[derive(Debug, Clone, Default)]
pub(super) struct SensorReading {
    pub(super) at: Nanos,
    pub(super) cores: Vec<(u32, CoreTimes)>,
    pub(super) processes: Vec<(String, ProcessCpu)>,
    pub(super) counters: Vec<Counter>,
    pub(super) gauges: Vec<Gauge>,
}

/// Which devices are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disks {
    /// These.
    Named(Vec<String>),
    /// All that were ever used.
    Used,
}

impl Disks {
    fn has(&self, disk: &DiskCounters) -> bool {
        match self {
            Self::Named(names) => names.contains(&disk.name),
            Self::Used => disk.is_used(),
        }
    }
}

/// Takes readings and keeps the samples until they are collected.
#[derive(Debug)]
pub struct Sampler {
    /// What is followed: a role and a process.
    processes: Vec<(String, u32)>,
    disks: Disks,
    places: Places,
    last: Option<SensorReading>,
    samples: Vec<Sample>,
    taken: usize,
}

impl Sampler {
    /// Follows these processes (role, id) and devices, and everything that is the machine's.
    #[must_use]
    pub fn new(processes: Vec<(String, u32)>, disks: Disks) -> Self {
        Self {
            processes,
            disks,
            places: Places::find(Path::new("/")),
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
    pub(crate) const fn is_full(&self) -> bool {
        self.taken >= SAMPLES_MAX
    }

    fn read(&mut self, at: Nanos) -> SensorReading {
        let (mut gauges, slowed) = self.places.read();
        gauges.extend(read::load());
        gauges.extend(read::memory());
        let disks = read::devices();
        let disks = disks.iter().filter(|disk| self.disks.has(disk));
        let links = read::interfaces();
        let counters = disks
            .flat_map(DiskCounters::counters)
            .chain(links.iter().flat_map(NetCounters::counters))
            .chain(read::interrupts().counters())
            .chain(read::pressure())
            .chain(slowed)
            .collect();
        SensorReading {
            at,
            cores: read::cores(),
            processes: self
                .processes
                .iter()
                .filter_map(|(role, pid)| Some((role.clone(), read::process_tree(*pid)?)))
                .collect(),
            counters,
            gauges,
        }
    }
}

/// What happened between two readings, and what is at the later one.
pub(super) fn difference(earlier: &SensorReading, later: &SensorReading) -> Vec<Sample> {
    let elapsed = Nanos(later.at.0.saturating_sub(earlier.at.0));
    if elapsed.0 == 0 {
        return Vec::new();
    }
    let mut samples = cores(earlier, later);
    samples.extend(processes(earlier, later, elapsed));
    samples.extend(rates(earlier, later, elapsed));
    let gauges = later.gauges.iter();
    samples.extend(
        gauges.map(|gauge| Sample::new(later.at, gauge.sensor, gauge.item.as_str(), gauge.value)),
    );
    samples
}

fn cores(earlier: &SensorReading, later: &SensorReading) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (number, times) in &later.cores {
        let Some((_, before)) = earlier.cores.iter().find(|(same, _)| same == number) else {
            continue;
        };
        let spent = times.since(before);
        let total = spent.total().max(1) as f64;
        for (kind, ticks) in spent.kinds() {
            let part = ticks as f64 / total;
            samples.push(Sample::new(
                later.at,
                "cpu",
                format!("{number}/{kind}"),
                part,
            ));
        }
    }
    samples
}

fn processes(earlier: &SensorReading, later: &SensorReading, elapsed: Nanos) -> Vec<Sample> {
    let of = |(role, cpu): &(String, ProcessCpu)| {
        let (_, before) = earlier
            .processes
            .iter()
            .find(|(same, old)| same == role && old.started == cpu.started)?;
        let busy = read::ticks_to_time(cpu.ticks.saturating_sub(before.ticks));
        let cores = busy.seconds() / elapsed.seconds();
        Some(Sample::new(later.at, "process", role.clone(), cores))
    };
    later.processes.iter().filter_map(of).collect()
}

/// Of the sources of interrupts only the busiest are kept.
fn rates(earlier: &SensorReading, later: &SensorReading, elapsed: Nanos) -> Vec<Sample> {
    let seconds = elapsed.seconds();
    let numbered = later.counters.iter().enumerate();
    let (mut sources, mut others): (Vec<Sample>, Vec<Sample>) = numbered
        .filter_map(|(index, now)| {
            let before = counter::same(&earlier.counters, now, index)?;
            let rate = now.per_second(before, seconds);
            Some(Sample::new(later.at, now.sensor, now.item.clone(), rate))
        })
        .partition(|one| one.sensor == "interrupts" && one.item.starts_with(SOURCE));
    sources.retain(|one| one.value > 0.0);
    sources.sort_by(|a, b| b.value.total_cmp(&a.value));
    sources.truncate(SOURCES_MAX);
    others.extend(sources);
    others
}
