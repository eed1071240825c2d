//! What is counted around one measurement: read before and after it, and what passed in between.

use super::prepare::ReadyTarget;
use crate::checks::noise::Carried;
use crate::host::Role;
use crate::plan::Direction;
use crate::sensors::others::Programs;
use crate::sensors::{CoreTimes, DiskCounters, NetCounters, ProcessCpu, read};
use crate::store::Evidence;
use crate::units::{Bytes, Nanos};

/// Counters at one moment.
pub(super) struct Counters {
    /// Since the run began.
    pub(super) at: Nanos,
    cores: Vec<(u32, CoreTimes)>,
    device: Option<DiskCounters>,
    link: Option<NetCounters>,
    server: Option<ProcessCpu>,
    client: Option<ProcessCpu>,
    lab: Option<ProcessCpu>,
    tool: Option<ProcessCpu>,
    others: Programs,
}

impl Counters {
    /// Reads all of them. `ours` are the processes that take part.
    pub(super) fn now(at: Nanos, target: &ReadyTarget, ours: &[u32]) -> Self {
        let facts = &target.facts;
        let process = |role| facts.process(role).and_then(read::process_tree);
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
            server: process(Role::Server),
            client: process(Role::Client),
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
            server_cpu: spent(before.server, self.server),
            client_cpu: spent(before.client, self.client),
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
