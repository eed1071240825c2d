//! *denominators*: a percentage of CPU says of what: one core or all of them. And a machine that seems
//! idle may have one core that is full.
//!
//! Caught in: study A, where "100 % = 100 % of all cores": its 45 to 55 % of four cores are two whole ones,
//! and "a decent part of this was IRQ load which is harder to balance".

use super::phase::Measurement;
use super::{Check, Finding};
use crate::sensors::CoreTimes;
use crate::units::{Bytes, MIB, Nanos, round};

/// A core that is busy for more than this has nothing left.
const CORE_FULL: f64 = 0.95;
/// A machine below this looks as if it had.
const MACHINE_IDLE: f64 = 0.75;

/// How busy a machine was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Busy {
    /// The busiest core's number.
    pub core: u32,
    /// The busiest core, as a part of one core.
    pub of_core: f64,
    /// What it mostly did.
    pub kind: &'static str,
    /// All of them, as a part of all of them.
    pub of_machine: f64,
    /// All of them, in cores.
    pub cores: f64,
}

impl Busy {
    /// Computes it from the times of each core; none without any.
    #[must_use]
    pub fn of(cores: &[(u32, CoreTimes)]) -> Option<Self> {
        let part = |times: &CoreTimes| times.busy() as f64 / times.total().max(1) as f64;
        let (core, busiest) = cores
            .iter()
            .max_by(|(_, a), (_, b)| part(a).total_cmp(&part(b)))?;
        let (kind, _) = busiest
            .kinds()
            .into_iter()
            .max_by_key(|(_, ticks)| *ticks)?;
        let all: f64 = cores.iter().map(|(_, times)| part(times)).sum();
        Some(Self {
            core: *core,
            of_core: part(busiest),
            kind,
            of_machine: all / cores.len() as f64,
            cores: all,
        })
    }
}

/// CPU time for each MiB that was moved; none where nothing was.
#[must_use]
pub(crate) fn per_mib(cpu: Nanos, moved: Bytes) -> Option<Nanos> {
    (moved.0 > 0).then(|| Nanos(round(cpu.0 as f64 * MIB as f64 / moved.0 as f64)))
}

pub(super) fn of_measurement(seen: &Measurement<'_>) -> Vec<Finding> {
    check(&seen.evidence.cores).into_iter().collect()
}

/// Whether one core is full on a machine that seems to have time.
fn check(cores: &[(u32, CoreTimes)]) -> Option<Finding> {
    let busy = Busy::of(cores)?;
    if busy.of_core < CORE_FULL || busy.of_machine > MACHINE_IDLE {
        return None;
    }
    Some(Finding::remark(
        Check::Denominators,
        format!(
            "core {} was {:.0} % busy, mostly with {}, while all {} cores together were {:.0} %",
            busy.core,
            busy.of_core * 100.0,
            busy.kind,
            cores.len(),
            busy.of_machine * 100.0
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(user: u64, softirq: u64) -> CoreTimes {
        CoreTimes {
            user,
            softirq,
            idle: 100 - user - softirq,
            ..CoreTimes::default()
        }
    }

    #[test]
    fn study_a_with_50_percent_of_four_cores_used_two_whole_ones() {
        let cores = [
            (0, core(0, 98)),
            (1, core(45, 0)),
            (2, core(30, 0)),
            (3, core(27, 0)),
        ];
        let busy = Busy::of(&cores).unwrap();
        assert!((busy.of_machine - 0.5).abs() < 1e-12 && (busy.cores - 2.0).abs() < 1e-12);
        assert_eq!(
            check(&cores).unwrap().text,
            "core 0 was 98 % busy, mostly with softirq, while all 4 cores together were 50 %"
        );
    }

    #[test]
    fn a_machine_with_every_core_full_or_none_needs_no_remark() {
        assert_eq!(check(&[(0, core(98, 0)), (1, core(97, 0))]), None);
        assert_eq!(check(&[(0, core(50, 0)), (1, core(10, 0))]), None);
        assert_eq!(check(&[]), None);
    }

    #[test]
    fn cpu_time_is_reported_for_each_mebibyte() {
        assert_eq!(
            per_mib(Nanos(2_000_000), Bytes(4 * MIB)),
            Some(Nanos(500_000))
        );
        assert_eq!(per_mib(Nanos(1), Bytes(0)), None);
    }
}
