//! *noise*: something else used the device, the processors or the wire while it was measured.
//!
//! Caught in: study A, whose Pi shared its network interface with other traffic.

use serde::{Deserialize, Serialize};

use super::direct::{Residency, Traffic};
use super::phase::{FioMeasurement, Measurement};
use super::{Check, Finding};
use crate::sensors::{CoreTimes, read};
use crate::units::{Bytes, Nanos};

/// More than this many times the bytes counted, and someone else moved some of them.
const MOVED_MAX: f64 = 1.25;
/// Others may take this part of one core.
const OTHERS_MAX: f64 = 0.15;
/// The host of a virtual machine may take this part of its cores.
const STOLEN_MAX: f64 = 0.02;

pub(super) fn of_fio(seen: &FioMeasurement<'_>) -> Vec<Finding> {
    let (counted, evidence) = (seen.result.bytes, seen.measurement.evidence);
    let device = check(counted, evidence.traffic, evidence.resident_after);
    let carried = evidence.carried.as_ref();
    let wire = carried.and_then(|carried| shared_wire(counted, carried));
    device.into_iter().chain(wire).collect()
}

pub(super) fn of_measurement(seen: &Measurement<'_>) -> Vec<Finding> {
    let programs = seen.evidence.others.as_ref().and_then(|programs| {
        others(programs, seen.elapsed).or_else(|| of_short_lived(seen, programs.cpu))
    });
    let host = stolen(&seen.evidence.cores);
    programs.into_iter().chain(host).collect()
}

/// Programs that were started and ended during the measurement; `others` is the CPU time of those that were
/// there before and after it.
fn of_short_lived(seen: &Measurement<'_>, others: Nanos) -> Option<Finding> {
    let evidence = seen.evidence;
    let user: u64 = evidence.cores.iter().map(|(_, core)| core.user).sum();
    let known = [
        Some(seen.load_cpu?),
        evidence.server_cpu,
        evidence.client_cpu,
        evidence.lab_cpu,
        Some(others),
    ];
    let known = known.into_iter().flatten().map(|cpu| cpu.0).sum();
    unaccounted(read::ticks_to_time(user), Nanos(known), seen.elapsed)
}

/// Holds what the device moved against what fio counted. Without a look into the page cache the
/// excess might be readahead, which is for [`super::direct`] to say.
fn check(
    counted: Bytes,
    traffic: Option<Traffic>,
    residency: Option<Residency>,
) -> Option<Finding> {
    let (traffic, _) = (traffic?, residency?);
    let part = traffic.bytes.0 as f64 / counted.0.max(1) as f64;
    if part <= MOVED_MAX {
        return None;
    }
    Some(Finding::remark(
        Check::Noise,
        format!("the device moved {part:.1} times the bytes counted: something else was using it"),
    ))
}

/// What programs did that take no part in a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Others {
    /// CPU time of all of them.
    pub cpu: Nanos,
    /// Name and number of the one that took most.
    pub busiest: String,
    /// CPU time of that one.
    pub busiest_cpu: Nanos,
}

/// Whether other programs were at work. Also the gate before a run: it begins when this is silent.
pub(super) fn others(seen: &Others, elapsed: Nanos) -> Option<Finding> {
    let part = |cpu: Nanos| cpu.0 as f64 / elapsed.0.max(1) as f64;
    if part(seen.cpu) <= OTHERS_MAX {
        return None;
    }
    Some(Finding::remark(
        Check::Noise,
        format!(
            "the machine was under load: other programs took {:.2} cores, {} alone {:.2}",
            part(seen.cpu),
            seen.busiest,
            part(seen.busiest_cpu)
        ),
    ))
}

/// Whether programs came and went that were not seen: time of programs on all cores (`user`) that
/// no known process accounts for. `known` is that of fio, server, client, the lab and [`Others`], their time in the
/// kernel among it, so that rather too little is found than too much.
fn unaccounted(user: Nanos, known: Nanos, elapsed: Nanos) -> Option<Finding> {
    let part = user.0.saturating_sub(known.0) as f64 / elapsed.0.max(1) as f64;
    (part > OTHERS_MAX).then(|| {
        Finding::remark(
            Check::Noise,
            format!("the machine was under load: programs that came and went took {part:.2} cores"),
        )
    })
}

/// Whether the host of this virtual machine took its cores away.
fn stolen(cores: &[(u32, CoreTimes)]) -> Option<Finding> {
    let sum = |ticks: fn(&CoreTimes) -> u64| cores.iter().map(|(_, core)| ticks(core)).sum::<u64>();
    let part = sum(|core| core.steal) as f64 / sum(CoreTimes::total).max(1) as f64;
    (part > STOLEN_MAX).then(|| {
        Finding::remark(
            Check::Noise,
            format!(
                "the host of this virtual machine took {:.0} % of its cores away",
                part * 100.0
            ),
        )
    })
}

/// Bytes that an interface carried in the direction of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Its name.
    pub interface: String,
    /// With the headers of all packets.
    pub bytes: Bytes,
}

/// Whether others used the interface that leads to the server.
fn shared_wire(counted: Bytes, carried: &Carried) -> Option<Finding> {
    let part = carried.bytes.0 as f64 / counted.0.max(1) as f64;
    (part > MOVED_MAX).then(|| {
        Finding::remark(
            Check::Noise,
            format!(
                "{} carried {part:.1} times the bytes counted: something else was using it",
                carried.interface
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MIB;

    #[test]
    fn a_device_that_moved_more_than_was_counted_was_shared() {
        let traffic = |mib| {
            Some(Traffic {
                bytes: Bytes(mib * MIB),
                requests: mib,
            })
        };
        let looked = Some(Residency {
            sampled: 256,
            resident: 0,
        });
        assert_eq!(check(Bytes(100 * MIB), traffic(110), looked), None);
        let finding = check(Bytes(100 * MIB), traffic(300), looked).unwrap();
        assert!(finding.text.contains("3.0 times"), "{}", finding.text);
        assert_eq!(check(Bytes(100 * MIB), traffic(300), None), None);
        assert_eq!(check(Bytes(100 * MIB), None, looked), None);
    }

    const SECOND: Nanos = Nanos(crate::units::SECOND);

    #[test]
    fn study_a_shared_its_interface_with_other_traffic() {
        let carried = |mib| Carried {
            interface: "eth0".into(),
            bytes: Bytes(mib * MIB),
        };
        assert_eq!(
            shared_wire(Bytes(256 * MIB), &carried(600)).unwrap().text,
            "eth0 carried 2.3 times the bytes counted: something else was using it"
        );
        // Headers are 6 % in full packets.
        assert_eq!(shared_wire(Bytes(256 * MIB), &carried(272)), None);
    }

    #[test]
    fn a_program_that_computes_beside_a_measurement_is_named() {
        let hog = Others {
            cpu: Nanos(970_000_000),
            busiest: "cc1 4242".into(),
            busiest_cpu: Nanos(950_000_000),
        };
        assert_eq!(
            others(&hog, SECOND).unwrap().text,
            "the machine was under load: other programs took 0.97 cores, cc1 4242 alone 0.95"
        );
        assert_eq!(others(&Others::default(), SECOND), None);
        assert_eq!(
            others(&hog, Nanos(60 * SECOND.0)),
            None,
            "a second of a minute is little"
        );
    }

    #[test]
    fn programs_that_came_and_went_are_found_by_the_time_that_no_other_took() {
        let (user, known) = (Nanos(900_000_000), Nanos(300_000_000));
        assert!(
            unaccounted(user, known, SECOND)
                .unwrap()
                .text
                .ends_with("0.60 cores")
        );
        assert_eq!(unaccounted(known, user, SECOND), None);
    }

    #[test]
    fn what_the_host_takes_away_is_reported() {
        let core = |steal| CoreTimes {
            steal,
            user: 50,
            idle: 50 - steal,
            ..CoreTimes::default()
        };
        assert!(
            stolen(&[(0, core(10)), (1, core(0))])
                .unwrap()
                .text
                .contains("5 %")
        );
        assert_eq!(stolen(&[(0, core(1)), (1, core(0))]), None);
        assert_eq!(stolen(&[]), None);
    }
}
