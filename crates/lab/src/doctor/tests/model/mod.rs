//! Hundreds of rigged systems, each an analytic model that the doctor's drivers could have measured: one limiter, and a second
//! one that carries a little more, in both orders.
//!
//! # What it does not do
//!
//! It measures nothing: the rigs that do are in `tests/tests/doctor`.

mod system;

use self::system::{Access, Limiter, System};
use super::*;

/// What a verdict is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    /// The limiter is named, and nothing else.
    Right,
    /// It is named with one other part.
    Undecided,
    /// It is named with more.
    Vague,
    /// It is not named.
    Wrong,
}

fn grade(truth: Stage, verdict: &Verdict) -> Grade {
    match verdict.limiter.as_slice() {
        [only] if *only == truth => Grade::Right,
        named if !named.contains(&truth) => Grade::Wrong,
        [_, _] => Grade::Undecided,
        _ => Grade::Vague,
    }
}

const HERE: Access = Access {
    is_here: true,
    agent: false,
    iperf3: false,
    null_export: false,
    caches: true,
    link: false,
    is_own: false,
    is_mounted: false,
};
const FAR: Access = Access {
    is_here: false,
    link: true,
    ..HERE
};
const AGENT: Access = Access {
    agent: true,
    iperf3: true,
    ..FAR
};

/// What may be seen of a system, with a name.
const ACCESSES: [(&str, Access); 10] = [
    ("on this machine", HERE),
    (
        "on this machine, mounted",
        Access {
            is_mounted: true,
            ..HERE
        },
    ),
    ("agent", AGENT),
    (
        "agent, mounted",
        Access {
            is_mounted: true,
            ..AGENT
        },
    ),
    (
        "agent, null export",
        Access {
            null_export: true,
            ..AGENT
        },
    ),
    (
        "agent without iperf3",
        Access {
            iperf3: false,
            ..AGENT
        },
    ),
    ("nothing but the link", FAR),
    (
        "null export, no agent",
        Access {
            null_export: true,
            ..FAR
        },
    ),
    (
        "our server, null export, no agent",
        Access {
            null_export: true,
            is_own: true,
            ..FAR
        },
    ),
    (
        "our server, null export, agent, nothing cached",
        Access {
            null_export: true,
            caches: false,
            is_own: true,
            ..AGENT
        },
    ),
];

const RATIOS: [f64; 6] = [0.6, 0.7, 0.75, 0.8, 0.9, 0.95];
const SEEDS: u64 = 4;

/// All pairs of limiters of all kinds, for one way of looking at them.
fn pairs(access: Access) -> Vec<System> {
    let mut all = Vec::new();
    for first in Limiter::ALL {
        for second in Limiter::ALL {
            // One stage has one limiter; and a server on this machine has no wire.
            let has_wire = [first, second].contains(&Limiter::Wire);
            let waits = [Limiter::Waits, Limiter::ExportWaits];
            let has_waits = waits.contains(&first) || waits.contains(&second);
            if first.stage() == second.stage()
                || access.is_here && has_wire
                || access.is_own && has_waits
            {
                continue;
            }
            all.extend(RATIOS.iter().map(|ratio| System {
                rates: vec![(first, 40.0), (second, 40.0 / ratio)],
                access,
                noise: 0.01,
            }));
        }
    }
    all
}

/// Another one for each system.
fn seed_of(system: &System, name: &str, number: u64) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    format!("{system:?} {name} {number}").hash(&mut hasher);
    hasher.finish()
}

/// A system, what limits it, and the verdict.
fn judged(name: &str, access: Access) -> Vec<(System, Limiter, Verdict)> {
    let mut all = Vec::new();
    for system in pairs(access) {
        for number in 0..SEEDS {
            let (truth, _) = system.limiter();
            let examination = system.examine(seed_of(&system, name, number));
            all.push((system.clone(), truth, diagnose(&examination)));
        }
    }
    all
}

fn line((system, truth, verdict): &(System, Limiter, Verdict)) -> String {
    format!(
        "{truth:?} in {:?}: {:?} {:?}",
        system.rates, verdict.limiter, verdict.ground
    )
}

#[test]
fn no_rigged_system_gets_a_wrong_verdict() {
    for (name, access) in ACCESSES {
        let all = judged(name, access);
        let of_grade = |wanted: Grade| {
            let found = all.iter();
            let found = found.filter(|one| grade(one.1.stage(), &one.2) == wanted);
            found.collect::<Vec<_>>()
        };
        let wrong = of_grade(Grade::Wrong);
        // Two limits that are 5 % apart are closer than some measurements are precise.
        let is_close = |system: &System| system.rates[1].1 < system.rates[0].1 / 0.94;
        assert!(
            wrong.len() * 500 <= all.len() && wrong.iter().all(|one| is_close(&one.0)),
            "{name}: {:#?}",
            wrong.into_iter().map(line).collect::<Vec<_>>()
        );
        let right = of_grade(Grade::Right).len() as f64 / all.len() as f64;
        let vague = of_grade(Grade::Vague).len() as f64 / all.len() as f64;
        // The server's processor and disk are not seen without an agent on its machine: then a null export separates most.
        let (right_min, vague_max) = match (access.is_here || access.agent, access.null_export) {
            (true, _) => (0.9, 0.02),
            (false, true) => (0.78, 0.015),
            (false, false) => (0.55, 0.07),
        };
        assert!(
            right >= right_min && vague <= vague_max,
            "{name}: {right} {vague}"
        );
    }
}

#[test]
fn a_server_is_named_with_its_cause() {
    for (name, access) in ACCESSES {
        if !access.is_here && !access.agent {
            continue;
        }
        for one in judged(name, access) {
            let (_, truth, verdict) = &one;
            if verdict.limiter != [Stage::Server] || truth.stage() != Stage::Server {
                continue;
            }
            let is_right = match (truth, &verdict.cause) {
                (Limiter::Server, Some(Cause::Computes))
                | (Limiter::Starved, Some(Cause::Starved))
                | (Limiter::Waits | Limiter::ExportWaits, Some(Cause::WaitsByItself)) => true,
                (Limiter::Quota, Some(Cause::Quota(quota))) => {
                    verdict.advice.contains(&quota.file) && quota.file.ends_with("cpu.max")
                }
                _ => false,
            };
            assert!(is_right, "{name}: {} {:?}", line(&one), verdict.cause);
        }
    }
}

/// What is advised is applied: the limiter is removed, or as many requests as advised are in flight. Where a part was not
/// measured, what is predicted is an upper limit.
#[test]
fn the_next_bottleneck_is_the_one_that_is_met_and_at_its_rate() {
    for (name, access) in ACCESSES {
        let (mut right, mut wrong) = (0, Vec::new());
        for one in judged(name, access) {
            let (system, truth, verdict) = &one;
            let Some(next) = verdict.next.as_ref() else {
                continue;
            };
            // Of a server's own limits nothing is known before they are met.
            let (second, carries) = match truth {
                Limiter::Queue => system.limiter_with(next.times),
                _ => system.without(*truth).limiter(),
            };
            let is_hidden = matches!(second, Limiter::Waits | Limiter::ExportWaits);
            if verdict.limiter != [truth.stage()] || is_hidden {
                continue;
            }
            let reached = rate(carries).0 / next.rate.0;
            let is_right = match next.unknown.is_empty() {
                true => {
                    (reached - 1.0).abs() <= 0.15
                        && next.part.is_none_or(|part| part == second.stage())
                }
                false => reached <= 1.15,
            };
            match is_right {
                true => right += 1,
                false => wrong.push(format!("{} {next:?}", line(&one))),
            }
        }
        assert!(right > 500, "{name}: only {right} predictions");
        assert!(
            wrong.len() * 200 <= right,
            "{name}: {right} right, but {wrong:#?}"
        );
    }
}
