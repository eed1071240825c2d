//! What is counted around one measurement: read before and after it, and what passed in between.

use super::prepare::ReadyTarget;
use crate::checks::noise::Carried;
use crate::host::Role;
use crate::plan::Direction;
use crate::sensors::others::Programs;
use crate::sensors::{CoreTimes, DiskCounters, NetCounters, ProcessCpu, read};
use crate::store::Evidence;
use crate::units::{Bytes, Nanos};

/// All processes of one role, in the order of the target's facts; none where one is not there.
type Together = Option<Vec<ProcessCpu>>;

/// Counters at one moment.
pub(super) struct Counters {
    /// Since the run began.
    pub(super) at: Nanos,
    cores: Vec<(u32, CoreTimes)>,
    device: Option<DiskCounters>,
    link: Option<NetCounters>,
    servers: Together,
    clients: Together,
    lab: Option<ProcessCpu>,
    tool: Option<ProcessCpu>,
    others: Programs,
}

impl Counters {
    /// Reads all of them. `ours` are the processes that take part.
    pub(super) fn now(at: Nanos, target: &ReadyTarget, ours: &[u32]) -> Self {
        let facts = &target.facts;
        let together = |role| -> Together { facts.pids(role).map(read::process_tree).collect() };
        let link = |name: &String| {
            let mut links = read::interfaces().into_iter();
            links.find(|link| link.name == *name)
        };
        let lab = read::one_process(std::process::id());
        Self {
            at,
            cores: read::cores(),
            device: facts.device.as_deref().and_then(read::device),
            link: facts.interface.as_ref().and_then(link),
            servers: together(Role::Server),
            clients: together(Role::Client),
            // Without its children: fio is measured by itself.
            lab: lab.map(|cpu| ProcessCpu {
                ticks: cpu.own,
                ..cpu
            }),
            tool: lab.map(|cpu| ProcessCpu {
                ticks: cpu.ticks.saturating_sub(cpu.own),
                ..cpu
            }),
            others: Programs::now(ours),
        }
    }

    /// What passed since `before`; of devices and links, in `direction`.
    pub(super) fn since(&self, before: &Self, direction: Option<Direction>) -> Evidence {
        let cores = self.cores.iter().filter_map(|(number, times)| {
            let (_, earlier) = before.cores.iter().find(|(same, _)| same == number)?;
            Some((*number, times.since(earlier)))
        });
        let of_device = |(earlier, later): (&DiskCounters, &DiskCounters)| {
            Some(later.since(earlier, direction?))
        };
        let of_link =
            |(earlier, later): (&NetCounters, &NetCounters)| carried(earlier, later, direction?);
        Evidence {
            server_cpu: spent_together(&before.servers, &self.servers),
            client_cpu: spent_together(&before.clients, &self.clients),
            lab_cpu: spent(before.lab, self.lab),
            tool_cpu: spent(before.tool, self.tool),
            cores: cores.collect(),
            traffic: before
                .device
                .as_ref()
                .zip(self.device.as_ref())
                .and_then(of_device),
            carried: before
                .link
                .as_ref()
                .zip(self.link.as_ref())
                .and_then(of_link),
            others: Some(self.others.since(&before.others)),
            ..Evidence::default()
        }
    }
}

fn spent(earlier: Option<ProcessCpu>, later: Option<ProcessCpu>) -> Option<Nanos> {
    let (earlier, later) = (earlier?, later?);
    // Another process under the same id has done none of this work.
    (earlier.started == later.started)
        .then(|| read::ticks_to_time(later.ticks.saturating_sub(earlier.ticks)))
}

/// CPU time of all processes of a role; none where there is none, or one ended meanwhile.
fn spent_together(earlier: &Together, later: &Together) -> Option<Nanos> {
    let (earlier, later) = (earlier.as_ref()?, later.as_ref()?);
    let each = earlier.iter().zip(later).map(|(earlier, later)| {
        let cpu = spent(Some(*earlier), Some(*later))?;
        Some(cpu.0)
    });
    let all: u64 = each.sum::<Option<u64>>()?;
    (!later.is_empty()).then_some(Nanos(all))
}

/// A read comes in and a write goes out. None where a counter went back: the interface is another one.
fn carried(earlier: &NetCounters, later: &NetCounters, direction: Direction) -> Option<Carried> {
    let bytes = |link: &NetCounters| match direction {
        Direction::Read => link.received.bytes,
        Direction::Write => link.sent.bytes,
    };
    Some(Carried {
        interface: later.name.clone(),
        bytes: Bytes(bytes(later).checked_sub(bytes(earlier))?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn process(started: u64, ticks: u64) -> ProcessCpu {
        ProcessCpu {
            ticks,
            own: ticks,
            started,
        }
    }

    /// Of sshfs and its ssh only the first was counted, and ssh was reported as background load.
    #[test]
    fn all_processes_of_a_role_are_counted_and_none_where_one_went() {
        let earlier = Some(vec![process(1, 10), process(2, 100)]);
        let later = Some(vec![process(1, 15), process(2, 130)]);
        assert_eq!(
            spent_together(&earlier, &later),
            Some(read::ticks_to_time(35))
        );
        let replaced = Some(vec![process(1, 15), process(9, 130)]);
        assert_eq!(spent_together(&earlier, &replaced), None);
        assert_eq!(spent_together(&earlier, &None), None);
        let nobody = Some(Vec::new());
        assert_eq!(spent_together(&nobody, &nobody), None);
    }
}
