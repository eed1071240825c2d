//! Quotas of processor time of a process's cgroups. Source: the kernel's cgroup-v2.rst (`cpu.max`, `cpu.stat`) and
//! sched-bwc.rst (`cpu.cfs_quota_us`, version 1).
//!
//! # Invariants
//!
//! * Every cgroup from that of the process to the root is read, because the least quota of them counts.
//! * Counters are as the kernel gives them; a cgroup without a quota is left out.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Where the hierarchies are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// Cgroups above a process that are read.
const DEPTH_MAX: usize = 16;

/// A quota, and how often it stopped its processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuotaCounters {
    /// The file that sets it.
    pub file: String,
    /// Cores at most.
    pub cores: f64,
    /// Periods in which something ran.
    pub periods: u64,
    /// Periods in which the quota was used up before their end.
    pub throttled: u64,
}

/// How long tasks waited for a core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureCounter {
    /// The file: `cpu.pressure` of a cgroup, or `/proc/pressure/cpu`.
    pub file: String,
    /// The time for which some task waited.
    pub waited: Nanos,
}

/// The pressure on the processors in the cgroup of process `pid`, or on the machine's.
#[must_use]
pub fn processor_pressure(pid: u32) -> Option<PressureCounter> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let own = directories(&text, Path::new(ROOT));
    let own = own
        .into_iter()
        .map(|directory| directory.join("cpu.pressure"));
    own.chain([PathBuf::from("/proc/pressure/cpu")])
        .find_map(|path| {
            let text = fs::read_to_string(&path).ok()?;
            Some(PressureCounter {
                file: path.to_string_lossy().into_owned(),
                waited: parse_pressure(&text)?,
            })
        })
}

/// The total of `some avg10=… total=MICROSECONDS`.
fn parse_pressure(text: &str) -> Option<Nanos> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let micros: u64 = line.rsplit_once("total=")?.1.trim().parse().ok()?;
    Some(Nanos(micros.saturating_mul(1000)))
}

/// The quotas that process `pid` is subject to.
#[must_use]
pub fn quotas(pid: u32) -> Vec<QuotaCounters> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let all = directories(&text, Path::new(ROOT));
    all.iter()
        .filter_map(|directory| quota(directory))
        .collect()
}

/// The directories of the cgroups in the text of `/proc/PID/cgroup`, `ID:CONTROLLERS:PATH` a line, up to the root.
fn directories(text: &str, root: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let bases: &[&str] = match controllers {
            // Version 2; with version 1 next to it, it is one level below.
            "" => &["", "unified"],
            some if some.split(',').any(|one| one == "cpu") => &["cpu"],
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        for base in bases {
            let levels = path.ancestors().take(DEPTH_MAX);
            all.extend(levels.map(|level| root.join(base).join(level)));
        }
    }
    all
}

fn quota(directory: &Path) -> Option<QuotaCounters> {
    let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let (name, cores) = match read("cpu.max") {
        Some(text) => ("cpu.max", parse_max(&text)?),
        None => {
            let quota: f64 = read("cpu.cfs_quota_us")?.trim().parse().ok()?;
            let period: f64 = read("cpu.cfs_period_us")?.trim().parse().ok()?;
            ("cpu.cfs_quota_us", (quota > 0.0).then(|| quota / period)?)
        }
    };
    let stat = read("cpu.stat")?;
    Some(QuotaCounters {
        file: directory.join(name).to_string_lossy().into_owned(),
        cores,
        periods: field(&stat, "nr_periods")?,
        throttled: field(&stat, "nr_throttled")?,
    })
}

/// `QUOTA PERIOD` in microseconds, as cores; none for `max`.
fn parse_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

fn field(stat: &str, name: &str) -> Option<u64> {
    let value = stat.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pressure_on_processors_is_that_of_some_tasks() {
        let text =
            "some avg10=56.93 avg60=46.34 avg300=65.86 total=2427\nfull avg10=0.00 total=9\n";
        assert_eq!(parse_pressure(text), Some(Nanos(2_427_000)));
        assert_eq!(parse_pressure("full avg10=0.00 total=9\n"), None);
    }

    #[test]
    fn a_quota_is_parsed_and_max_is_none() {
        assert_eq!(parse_max("50000 100000\n"), Some(0.5));
        assert_eq!(parse_max("max 100000\n"), None);
        let stat = "usage_usec 9\nnr_periods 120\nnr_throttled 118\nthrottled_usec 77\n";
        assert_eq!(field(stat, "nr_periods"), Some(120));
        assert_eq!(field(stat, "nr_throttled"), Some(118));
    }

    #[test]
    fn every_cgroup_up_to_the_root_is_read() {
        let text = "4:memory:/other\n2:cpu,cpuacct:/a\n0::/b/c\n";
        let all = directories(text, Path::new("/cgroups"));
        let expected = [
            "/cgroups/cpu/a",
            "/cgroups/cpu/",
            "/cgroups/b/c",
            "/cgroups/b",
            "/cgroups/",
            "/cgroups/unified/b/c",
            "/cgroups/unified/b",
            "/cgroups/unified/",
        ];
        assert_eq!(all, expected.map(PathBuf::from));
    }

    #[test]
    fn the_quota_of_a_directory_is_read_in_both_versions() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).expect("a file that is written");
        };
        write(
            "cpu.stat",
            "nr_periods 10\nnr_throttled 4\nthrottled_time 7\n",
        );
        write("cpu.cfs_quota_us", "-1\n");
        write("cpu.cfs_period_us", "100000\n");
        assert_eq!(quota(folder.path()), None);
        write("cpu.cfs_quota_us", "20000\n");
        let found = quota(folder.path()).expect("a quota");
        assert!((found.cores - 0.2).abs() < 1e-9 && found.file.ends_with("cpu.cfs_quota_us"));
        write("cpu.max", "150000 100000\n");
        let found = quota(folder.path()).expect("a quota");
        assert!((found.cores - 1.5).abs() < 1e-9 && found.throttled == 4);
    }
}
