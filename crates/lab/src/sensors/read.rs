//! Reading the sensors. Nothing here decides; a file that cannot be read is an absent sensor.

use std::fs;
use std::path::{Path, PathBuf};

use super::{
    CoreTimes, Counter, DiskCounters, Gauge, Interrupts, NetCounters, ProcessCpu, disks,
    interrupts as interrupts_of, load as load_of, net, pressure as pressure_of, process, stat,
};
use crate::units::{Nanos, SECOND};

/// Processes of one tree that are followed: a server that forks for each client has as many.
const TREE_MAX: usize = 1024;

/// Every core's times.
#[must_use]
pub fn cores() -> Vec<(u32, CoreTimes)> {
    text("/proc/stat").map_or_else(Vec::new, |text| stat::parse(&text))
}

/// Every device's counters.
#[must_use]
pub fn devices() -> Vec<DiskCounters> {
    text("/proc/diskstats").map_or_else(Vec::new, |text| disks::parse(&text))
}

/// The counters of the device called `name`.
#[must_use]
pub fn device(name: &str) -> Option<DiskCounters> {
    devices().into_iter().find(|device| device.name == name)
}

/// The flushes of the device called `name`, and the milliseconds that they took.
#[must_use]
pub fn flushes(name: &str) -> Option<(u64, u64)> {
    disks::flushes(&text("/proc/diskstats")?, name)
}

/// Every core's interrupts, and their sources.
#[must_use]
pub fn interrupts() -> Interrupts {
    text("/proc/interrupts").map_or_else(Interrupts::default, |text| interrupts_of::parse(&text))
}

/// Every interface that carried something.
#[must_use]
pub fn interfaces() -> Vec<NetCounters> {
    text("/proc/net/dev").map_or_else(Vec::new, |text| net::parse(&text))
}

/// How long was waited for what. Kernels that keep no such figures have no such files.
#[must_use]
pub(crate) fn pressure() -> Vec<Counter> {
    pressure_of::RESOURCES
        .iter()
        .filter_map(|resource| {
            let text = text(&format!("/proc/pressure/{resource}"))?;
            Some(pressure_of::parse(resource, &text))
        })
        .flatten()
        .collect()
}

/// How many processes want to run.
#[must_use]
pub fn load() -> Vec<Gauge> {
    text("/proc/loadavg").map_or_else(Vec::new, |text| load_of::parse(&text))
}

/// What memory is used for.
#[must_use]
pub fn memory() -> Vec<Gauge> {
    text("/proc/meminfo").map_or_else(Vec::new, |text| load_of::parse_memory(&text))
}

/// The one value that a file of `/sys` holds; none where it cannot be read or is empty.
pub(crate) fn attribute(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The CPU time of process `pid` and of every process below it; none when it is not there. `started`
/// is that of `pid` itself.
#[must_use]
pub(crate) fn process_tree(pid: u32) -> Option<ProcessCpu> {
    let mut sum = one_process(pid)?;
    for child in below(pid) {
        if let Some(cpu) = one_process(child) {
            sum.ticks = sum.ticks.saturating_add(cpu.ticks);
        }
    }
    Some(sum)
}

/// The processes below `pid`.
pub(crate) fn below(pid: u32) -> Vec<u32> {
    let mut waiting = children(pid);
    let mut found = Vec::new();
    while let Some(child) = waiting.pop() {
        if found.len() == TREE_MAX {
            break;
        }
        found.push(child);
        waiting.extend(children(child));
    }
    found
}

/// The ids of all processes.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The descriptors of process `pid` below `/proc`, each with what it is open on. Only the links are read: looking
/// at the files could wait for a server that does not answer.
pub fn descriptors(pid: u32) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let descriptor = entry.path();
        let file = fs::read_link(&descriptor).ok()?;
        Some((descriptor, file))
    })
}

/// The CPU time of process `pid` alone.
pub(crate) fn one_process(pid: u32) -> Option<ProcessCpu> {
    process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The processes that `pid` started and that still are.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|id| id.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// Kernel ticks as time.
#[must_use]
pub(crate) fn ticks_to_time(ticks: u64) -> Nanos {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Nanos(ticks.saturating_mul(SECOND / per_second))
}
