//! What the kernel says of processes: processor time and memory; and how many files this one may have.

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Files that this process has open besides its connections.
const OTHER_FILES: u64 = 64;

/// Ticks a second of the times in `/proc`: fixed by the kernel's interface.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time in seconds of all threads of a process, ended ones and children waited for included.
pub(crate) fn cpu_seconds(id: u32) -> Result<f64> {
    let path = format!("/proc/{id}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    ticks(&stat)
        .map(|ticks| ticks / TICKS_PER_SECOND)
        .with_context(|| format!("{path} is not what proc(5) says"))
}

/// utime, stime, cutime and cstime: fields 14 to 17, counted after the name in brackets.
pub(crate) fn ticks(stat: &str) -> Option<f64> {
    let after_name = stat.get(stat.rfind(')')? + 2..)?;
    let times: Vec<f64> = after_name
        .split(' ')
        .skip(11)
        .take(4)
        .map_while(|field| field.parse().ok())
        .collect();
    (times.len() == 4).then(|| times.iter().sum())
}

/// Memory that is resident for this process alone, shared pages counted by their share, in KiB.
pub(crate) fn memory_kib(id: u32) -> Result<f64> {
    of_rollup("Pss", &rollup(id)?)
}

/// Memory that a process took for its data, in KiB: without pages of its binary and of other files, of which it has a larger share
/// once another process that has them mapped ends.
pub(crate) fn data_kib(id: u32) -> Result<f64> {
    let text = rollup(id)?;
    Ok(of_rollup("Pss_Anon", &text)? + of_rollup("Pss_Shmem", &text)?)
}

fn rollup(id: u32) -> Result<String> {
    let path = format!("/proc/{id}/smaps_rollup");
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

/// A line of `smaps_rollup` of proc(5), in KiB.
fn of_rollup(name: &str, text: &str) -> Result<f64> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    rest.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse().ok())
        .with_context(|| format!("smaps_rollup has no line {name}"))
}

/// The most memory that was ever resident for a process, in KiB.
pub(crate) fn peak_memory_kib(id: u32) -> Result<f64> {
    let path = format!("/proc/{id}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    peak_kib(&text).with_context(|| format!("{path} has no VmHWM line"))
}

/// `VmHWM` of proc(5).
pub(crate) fn peak_kib(status: &str) -> Option<f64> {
    let mut lines = status.lines();
    let peak = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix(" kB")?.parse().ok()
}

/// Bytes that all threads of a process made dirty in the page cache, or wrote past it.
pub(crate) fn bytes_written(id: u32) -> Result<f64> {
    let path = format!("/proc/{id}/io");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok())
        .with_context(|| format!("{path} has no write_bytes line"))
}

/// Memory that could be had without swapping, bytes.
pub(crate) fn available_memory() -> Result<u64> {
    let path = "/proc/meminfo";
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .map(|kib| kib << 10)
        .with_context(|| format!("{path} has no MemAvailable line"))
}

/// Raises this process's limit of open files, and that of what it starts from now on.
pub(crate) fn allow_files(count: u32) -> Result<()> {
    let wanted = u64::from(count) + OTHER_FILES;
    let mut limit = getrlimit(Resource::Nofile);
    ensure!(
        limit.maximum.is_none_or(|most| most >= wanted),
        "the limit of open files here is {:?}, {wanted} are needed: raise it with ulimit -Hn",
        limit.maximum
    );
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(())
}
