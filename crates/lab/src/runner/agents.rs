//! The agents of a run: watched during measurements, requests in between.
//!
//! Invariants: an agent that cannot be reached at the start stops the run before anything is measured;
//! one that is lost later is a remark of the measurements that it missed, and costs them no time. While
//! something is measured an agent gets no request: it only sends samples.

use std::net::IpAddr;
use std::time::Instant;

use crate::LabError;
use crate::agent::{About, AgentAddress, AgentError, Counters, Offset, Samples, Side};
use crate::checks::cache::{DroppedThere, Server};
use crate::checks::{self, Finding, MachineWatch};
use crate::host::TargetFacts;
use crate::sensors::{ProcessCpu, SAMPLES_MAX, Sample};
use crate::store::{AgentEvidence, AgentRecord, Evidence};
use crate::units::{Nanos, SECOND};

/// A clock that jumped by more than this is another clock: the agent was restarted.
const JUMP: u64 = SECOND;

/// An agent of a run.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    /// How it is reached.
    pub address: AgentAddress,
    /// The TCP port that the measured server listens on there, for its CPU time and its open files.
    pub server_port: Option<u16>,
}

/// All agents of a run. The machine of the first one is number 1: ours is 0.
pub(super) struct Agents {
    each: Vec<Followed>,
    clock: OurClock,
    /// Samples handed over.
    taken: usize,
}

struct Followed {
    spec: AgentSpec,
    about: About,
    ip: IpAddr,
    offset: Offset,
    samples: Samples,
    /// Of its samples, those that were put on our clock.
    collected: Vec<Sample>,
    /// Findings on the measurement that runs.
    missed: Option<String>,
}

/// What the agents' machines had spent before a measurement.
pub(super) struct CountersBefore(Vec<Option<Counters>>);

impl Agents {
    /// Reaches all of them, and begins to take in their samples.
    pub(super) fn connect(
        specs: &[AgentSpec],
        start: Instant,
        before: Nanos,
    ) -> Result<Self, LabError> {
        let clock = OurClock { start, before };
        let now = || clock.now();
        let each = specs.iter().map(|spec| {
            Followed::connect(spec, &now).map_err(|error| LabError::Agent {
                place: spec.address.dial.place(),
                reason: error.to_string(),
            })
        });
        Ok(Self {
            each: each.collect::<Result<_, _>>()?,
            clock,
            taken: 0,
        })
    }

    /// For the run's manifest.
    pub(super) fn records(&self) -> Vec<AgentRecord> {
        self.each
            .iter()
            .map(|one| AgentRecord {
                address: one.place(),
                machine: one.about.machine.clone(),
                outboard: one.about.outboard.clone(),
                clock_offset_ns: one.offset.ahead_ns,
                clock_error: one.offset.uncertainty,
            })
            .collect()
    }

    /// Findings on them before anything is measured.
    pub(super) fn remarks(&self) -> Vec<Finding> {
        self.each
            .iter()
            .filter(|one| one.about.is_here())
            .map(|one| {
                let text = format!("the agent {} runs on this machine", one.place());
                Finding::of_run(text)
            })
            .collect()
    }

    /// The agent of the machine that serves a target: the one at its address, or the only one if that is
    /// not known.
    fn beside(&self, target: &TargetFacts) -> Option<usize> {
        if target.server == Server::None {
            return None;
        }
        match (target.peer, self.each.as_slice()) {
            (Some(peer), each) => each.iter().position(|one| one.ip == peer),
            (None, [_]) => Some(0),
            (None, _) => None,
        }
    }

    /// Drops the caches of every machine that allows it. What became of that of the target's server.
    pub(super) fn drop_caches(&mut self, target: &TargetFacts) -> Option<DroppedThere> {
        let servers = self.beside(target);
        let mut found = None;
        for (index, one) in self.each.iter_mut().enumerate() {
            let dropped = one.drop_caches();
            if Some(index) == servers {
                found = dropped;
            }
        }
        found
    }

    /// Looks at all of them before a measurement.
    pub(super) fn before(&mut self) -> CountersBefore {
        let clock = self.clock;
        let looked = self.each.iter_mut().map(|one| {
            one.missed = None;
            one.look(Side::Before, &|| clock.now())
        });
        CountersBefore(looked.collect())
    }

    /// Looks at all of them after it: what they spent meanwhile. Only the machine of the target's server
    /// has one.
    pub(super) fn after(
        &mut self,
        before: &CountersBefore,
        target: &TargetFacts,
    ) -> Vec<AgentEvidence> {
        let servers = self.beside(target);
        let clock = self.clock;
        let mut evidence = Vec::new();
        for (index, (one, earlier)) in self.each.iter_mut().zip(&before.0).enumerate() {
            let later = one.look(Side::After, &|| clock.now());
            let (Some(earlier), Some(later)) = (earlier, later) else {
                continue;
            };
            let spent = difference(machine(index), earlier, &later);
            evidence.push(AgentEvidence {
                server_cpu: spent.server_cpu.filter(|_| Some(index) == servers),
                ..spent
            });
        }
        evidence
    }

    /// The samples that came since the last call, on our clock, and the findings on the machines.
    pub(super) fn collect(&mut self, seen: &Evidence) -> (Vec<Sample>, Vec<Finding>) {
        let (mut samples, mut findings) = (Vec::new(), Vec::new());
        for (index, one) in self.each.iter_mut().enumerate() {
            one.take_in();
            let machine = machine(index);
            let collected = one.collected.drain(..);
            let here: Vec<Sample> = collected.map(|one| Sample { machine, ..one }).collect();
            let spent = seen.agents.iter().find(|one| one.machine == machine);
            let watch = MachineWatch {
                samples: &here,
                lab: spent.and_then(|one| Some((one.agent_cpu?, one.elapsed))),
            };
            let place = one.place();
            let found = checks::machine(&watch).into_iter();
            findings.extend(found.map(|finding| finding.at(&format!("at the agent {place}"))));
            findings.extend(one.missed.as_ref().map(|reason| {
                let text =
                    format!("the agent {place} was lost, so its machine was not watched: {reason}");
                Finding::of_run(text)
            }));
            samples.extend(here);
        }
        if self.taken >= SAMPLES_MAX {
            samples.clear();
        }
        self.taken += samples.len();
        (samples, findings)
    }
}

/// Machines are numbered in the order of the agents, behind ours.
fn machine(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

/// The run's own time, which goes on where a run that was stopped ended.
#[derive(Debug, Clone, Copy)]
struct OurClock {
    start: Instant,
    before: Nanos,
}

impl OurClock {
    fn now(self) -> Nanos {
        let since = engine::clock::now().duration_since(self.start);
        Nanos(self.before.0.saturating_add(Nanos::from_duration(since).0))
    }
}

impl Followed {
    fn connect(spec: &AgentSpec, now: &dyn Fn() -> Nanos) -> Result<Self, AgentError> {
        let about = spec.address.about()?;
        let (offset, _) = spec.address.look(spec.server_port, Side::Before, now)?;
        Ok(Self {
            ip: spec.address.ip()?,
            samples: spec.address.samples(spec.server_port)?,
            spec: spec.clone(),
            about,
            offset,
            collected: Vec::new(),
            missed: None,
        })
    }

    fn place(&self) -> String {
        self.spec.address.dial.place()
    }

    /// Whether it is there; one that is not is not waited for.
    fn is_there(&mut self) -> bool {
        let lost = self.samples.lost();
        let is_there = lost.is_none();
        if let Some(reason) = lost {
            self.missed = Some(reason);
        }
        is_there
    }

    fn drop_caches(&mut self) -> Option<DroppedThere> {
        if !self.about.drops_caches || !self.is_there() {
            return None;
        }
        match self.spec.address.drop_caches(self.spec.server_port) {
            Ok(dropped) => Some(dropped),
            Err(error) => {
                tracing::warn!("the caches of {} were not dropped: {error}", self.place());
                None
            }
        }
    }

    fn look(&mut self, side: Side, now: &dyn Fn() -> Nanos) -> Option<Counters> {
        // What came until now belongs to the clock as it was.
        self.take_in();
        if !self.is_there() {
            return None;
        }
        match self.spec.address.look(self.spec.server_port, side, now) {
            Ok((offset, counters)) => {
                if offset.ahead_ns.abs_diff(self.offset.ahead_ns) > JUMP {
                    self.missed = Some("it was restarted".into());
                    self.collected.clear();
                }
                self.offset = offset;
                self.note_offset(now());
                Some(counters)
            }
            Err(error) => {
                self.missed = Some(error.to_string());
                None
            }
        }
    }

    fn note_offset(&mut self, at: Nanos) {
        let values = [
            ("ahead", self.offset.ahead_ns as f64),
            ("uncertainty", self.offset.uncertainty.0 as f64),
        ];
        let samples = values.map(|(item, value)| Sample::new(at, "offset", item, value));
        self.collected.extend(samples);
    }

    /// Puts what came on our clock.
    fn take_in(&mut self) {
        for line in self.samples.collect() {
            let at = self.offset.to_ours(line.at);
            let samples = line.samples.into_iter();
            self.collected
                .extend(samples.map(|(sensor, item, value)| Sample::new(at, sensor, item, value)));
        }
    }
}

/// What a machine spent between two looks.
fn difference(machine: u32, earlier: &Counters, later: &Counters) -> AgentEvidence {
    let time = |ticks: u64| Nanos(ticks.saturating_mul(later.tick.0));
    let spent = |earlier: Option<ProcessCpu>, later: Option<ProcessCpu>, own: bool| {
        let (earlier, later) = (earlier?, later?);
        // Another process under the same id has done none of this work.
        (earlier.started == later.started).then(|| match own {
            true => time(later.own.saturating_sub(earlier.own)),
            false => time(later.ticks.saturating_sub(earlier.ticks)),
        })
    };
    let cores = later.cores.iter().filter_map(|(number, times)| {
        let (_, before) = earlier.cores.iter().find(|(same, _)| same == number)?;
        Some((*number, times.since(before)))
    });
    AgentEvidence {
        machine,
        elapsed: Nanos(later.at.0.saturating_sub(earlier.at.0)),
        cores: cores.collect(),
        server_cpu: spent(earlier.server, later.server, false),
        // Without fio, if it runs there: that is the load.
        agent_cpu: spent(earlier.agent, later.agent, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensors::CoreTimes;

    fn counters(second: u64, server_started: u64) -> Counters {
        let cpu = |ticks, own, started| {
            Some(ProcessCpu {
                ticks,
                own,
                started,
            })
        };
        let core = CoreTimes {
            softirq: second * 60,
            idle: second * 40,
            ..CoreTimes::default()
        };
        Counters {
            at: Nanos(second * SECOND),
            cores: vec![(0, core), (1, core)],
            // Kernels that count in steps of 4 ms.
            tick: Nanos(4_000_000),
            server: cpu(second * 100, second, server_started),
            agent: cpu(second * 100, second, 1),
            processor: None,
            disks: Vec::new(),
            served: None,
        }
    }

    #[test]
    fn time_there_is_counted_in_ticks_of_there() {
        let spent = difference(1, &counters(10, 5), &counters(12, 5));
        assert_eq!(spent.elapsed, Nanos(2 * SECOND));
        assert_eq!(spent.server_cpu, Some(Nanos(800_000_000)));
        assert_eq!(spent.agent_cpu, Some(Nanos(8_000_000)), "without its fio");
        assert_eq!(spent.cores.len(), 2);
        assert_eq!((spent.cores[1].1.softirq, spent.cores[1].1.idle), (120, 80));
    }

    #[test]
    fn a_server_that_was_restarted_has_spent_nothing_of_it() {
        let spent = difference(1, &counters(10, 5), &counters(12, 6));
        assert_eq!(spent.server_cpu, None);
    }
}
