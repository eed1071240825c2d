//! What threads wanted of the cores, and got. Source: the kernel's sched-stats.rst: time on a core and
//! time of waiting for one, in nanoseconds.
//!
//! Thread by thread, because one saturated thread is the limit however many cores are idle.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use super::{CpuUse, Pressure, Quota};
use crate::agent::protocol::Counters;
use crate::sensors::{CoreTimes, PressureCounter, QuotaCounters, cgroup, read};
use crate::units::Nanos;

/// Processes of one end that are followed.
const PROCESSES_MAX: usize = 256;

/// What one thread had since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThreadTimes {
    /// On a core.
    pub running: Nanos,
    /// Ready, and waiting for one.
    pub waiting: Nanos,
}

/// All threads of some processes at one time.
pub type Threads = BTreeMap<(u32, u32), ThreadTimes>;

/// Threads of one end that an agent reports.
const THREADS_MAX: usize = 1024;
/// What some processes had of the processors until now: their threads, and the quotas that they are subject to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProcessorReading {
    /// The name of the first process.
    pub program: String,
    /// Process, thread, times.
    pub threads: Vec<(u32, u32, ThreadTimes)>,
    /// The quotas of the first process.
    pub quotas: Vec<QuotaCounters>,
    /// How long tasks of its cgroup waited for a core, or all tasks of the machine.
    #[serde(default)]
    pub pressure: Option<PressureCounter>,
}

impl ProcessorReading {
    /// Reads the threads of `processes` and of every process below them.
    #[must_use]
    pub fn of(processes: &[u32]) -> Self {
        Self::new(read(processes), processes.first().copied())
    }

    /// Reads the threads of one process, and not of those below it.
    #[must_use]
    pub fn of_one(process: u32) -> Self {
        Self::new(of_process(process), Some(process))
    }

    fn new(threads: Threads, first: Option<u32>) -> Self {
        let threads = threads.into_iter().take(THREADS_MAX);
        Self {
            program: first.map(name).unwrap_or_default(),
            threads: threads
                .map(|((process, thread), times)| (process, thread, times))
                .collect(),
            quotas: first.map(cgroup::quotas).unwrap_or_default(),
            pressure: first.and_then(cgroup::processor_pressure),
        }
    }

    /// Whether there is nothing to follow.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    fn threads(&self) -> Threads {
        let all = self.threads.iter();
        all.map(|(process, thread, times)| ((*process, *thread), *times))
            .collect()
    }

    /// What they took since `before`; none if there was no thread in both readings and no time.
    #[must_use]
    pub fn since(&self, before: &Self, elapsed: Nanos) -> Option<CpuUse> {
        let (mut cpu, _) = busiest(&before.threads(), &self.threads(), elapsed)?;
        let throttled = |later: &QuotaCounters| {
            let earlier = before.quotas.iter().find(|one| one.file == later.file)?;
            let periods = later.periods.checked_sub(earlier.periods)?;
            let throttled = later.throttled.checked_sub(earlier.throttled)?;
            (periods > 0).then(|| Quota {
                file: later.file.clone(),
                cores: later.cores,
                throttled: throttled as f64 / periods as f64,
            })
        };
        let quotas = self.quotas.iter().filter_map(throttled);
        cpu.quota = quotas.max_by(|a, b| a.throttled.total_cmp(&b.throttled));
        cpu.pressure = match (&self.pressure, &before.pressure) {
            (Some(last), Some(first)) if last.file == first.file => Some(Pressure {
                file: last.file.clone(),
                part: Nanos(last.waited.0.saturating_sub(first.waited.0)).seconds()
                    / elapsed.seconds(),
            }),
            _ => None,
        };
        Some(cpu)
    }
}

/// Reads the threads of `processes` and of every process below them.
#[must_use]
pub fn read(processes: &[u32]) -> Threads {
    let with_those_below = |process: &u32| {
        let below = read::below(*process);
        std::iter::once(*process).chain(below).take(PROCESSES_MAX)
    };
    let all = processes.iter().flat_map(with_those_below);
    all.flat_map(of_process).collect()
}

/// Reads the threads of one process alone.
#[must_use]
pub fn of_process(process: u32) -> Threads {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Threads::new();
    };
    let threads = tasks.flatten().filter_map(|task| {
        let thread = task.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some(((process, thread), parse(&text)?))
    });
    threads.collect()
}

/// The name of a process.
#[must_use]
pub fn name(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// `running waiting slices`.
fn parse(text: &str) -> Option<ThreadTimes> {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    Some(ThreadTimes {
        running: Nanos(words.next()??),
        waiting: Nanos(words.next()??),
    })
}

/// The busiest thread between two readings, and all threads together as parts of a core. A thread that
/// began in between counts from its beginning. None if there was no thread in both readings and no time.
#[must_use]
pub fn busiest(before: &Threads, after: &Threads, elapsed: Nanos) -> Option<(CpuUse, f64)> {
    if elapsed.0 == 0 {
        return None;
    }
    let part = |later: Nanos, earlier: Nanos| {
        Nanos(later.0.saturating_sub(earlier.0)).seconds() / elapsed.seconds()
    };
    let mut found: Option<(u32, f64, f64)> = None;
    let mut together = 0.0;
    for (key, later) in after {
        let earlier = before.get(key).copied().unwrap_or_default();
        let running = part(later.running, earlier.running);
        let waiting = part(later.waiting, earlier.waiting);
        together += running;
        if found.is_none_or(|(_, run, wait)| running + waiting > run + wait) {
            found = Some((key.0, running, waiting));
        }
    }
    let (process, running, waiting) = found?;
    let who = format!("{} (process {process})", name(process));
    let cpu = CpuUse {
        who,
        running,
        waiting,
        cipher: None,
        quota: None,
        pressure: None,
    };
    Some((cpu, together))
}

/// What a server on another machine took between two readings of that machine's agent. An agent that is older
/// reports no threads but processes and cores, so the busiest thread is held to be as busy as the busiest core, and
/// no busier than all of the process. None where the agent saw no such process.
#[must_use]
pub fn of_counters(before: &Counters, after: &Counters, who: String) -> Option<CpuUse> {
    let elapsed = Nanos(after.at.0.checked_sub(before.at.0)?);
    let (earlier, later) = (before.server?, after.server?);
    if elapsed.0 == 0 || earlier.started != later.started {
        return None;
    }
    if let (Some(first), Some(last)) = (&before.processor, &after.processor)
        && let Some(cpu) = last.since(first, elapsed)
    {
        return Some(CpuUse { who, ..cpu });
    }
    let ticks = later.ticks.saturating_sub(earlier.ticks);
    let process = ticks as f64 * after.tick.seconds() / elapsed.seconds();
    let core = |number: u32, times: &CoreTimes| {
        let (_, old) = before.cores.iter().find(|(same, _)| *same == number)?;
        let spent = times.since(old);
        (spent.total() > 0).then(|| spent.busy() as f64 / spent.total() as f64)
    };
    let cores = after.cores.iter();
    let busiest = cores.filter_map(|(number, times)| core(*number, times));
    let running = busiest.fold(0.0, f64::max).min(process);
    Some(CpuUse {
        who,
        running,
        waiting: 0.0,
        cipher: None,
        quota: None,
        pressure: None,
    })
}
