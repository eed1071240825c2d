//! The I/O path from the disk to the application: its stages, what each can carry, and which one
//! holds them back. Pure.
//!
//! Invariants: a ceiling that was not measured is unknown, never guessed; nothing is called the limiter
//! unless it is used to [`NEAR`] or more of what it has; of several the fullest is it.

use serde::Serialize;

use super::short;
use super::summary::{Row, Summary};
use crate::checks::cache::Server;
use crate::checks::ceiling::{Ceiling, CeilingSource};
use crate::host::TargetFacts;
use crate::store::RunRecord;
use crate::units::Rate;

/// A part that is used to this part of what it has is called the bottleneck.
pub(super) const NEAR: f64 = 0.9;

/// What the bytes of one test pass, from the disk on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct IoPath {
    /// The test.
    pub(super) test: String,
    /// What is passed; between two of them is an edge.
    pub(super) stops: Vec<PathStop>,
    /// One fewer than there are stops.
    pub(super) edges: Vec<Edge>,
    pub(super) limiter: Option<Limiter>,
}

/// One thing that is passed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PathStop {
    /// `disk`, `server`, `client`, `filesystem`, `application`.
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// More about it.
    pub(super) detail: Option<String>,
    /// CPU time as a part of one core.
    pub(super) of_core: Option<f64>,
}

/// What is between two stops.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Edge {
    /// What goes through.
    pub(super) measured: Option<Rate>,
    /// What could.
    pub(super) ceiling: Option<Rate>,
    /// What the ceiling is, or why there is none.
    pub(super) what: String,
}

/// What holds the rest back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Limiter {
    /// By index.
    Stop(usize),
    /// By index.
    Edge(usize),
}

impl Edge {
    /// How full it is.
    pub(super) fn part(&self) -> Option<f64> {
        Some(self.measured?.0 / self.ceiling.filter(|rate| rate.0 > 0.0)?.0)
    }
}

impl IoPath {
    /// The I/O path to the first target that is compared with another one, by the test that moves most bytes
    /// there; none without a valid one.
    pub(super) fn of(run: &RunRecord, summary: &Summary) -> Option<Self> {
        let baseline = run.manifest.baseline;
        let target = (0..run.manifest.targets.len()).find(|target| Some(*target) != baseline)?;
        let row = summary
            .rows
            .iter()
            .filter(|row| row.target == target && row.validity.is_usable())
            .filter(|row| row.rate.is_some())
            .max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        Some(Self::through(
            run.manifest.targets.get(target)?,
            row,
            run.manifest.fio.as_deref().unwrap_or("fio"),
        ))
    }

    fn through(target: &TargetFacts, row: &Row, fio: &str) -> Self {
        let measured = row.rate.map(|rate| Rate(rate.median));
        let edge = |ceiling: Option<&Ceiling>, unknown: &str| Edge {
            measured,
            ceiling: ceiling.map(|found| found.rate),
            what: ceiling.map_or_else(|| unknown.to_owned(), Ceiling::describe),
        };
        let is_wire = |found: &&Ceiling| {
            matches!(
                found.source,
                CeilingSource::Link { .. } | CeilingSource::LoopbackSocket
            )
        };
        let wire = target.ceilings.iter().find(is_wire);
        let memory = target
            .ceilings
            .iter()
            .find(|found| found.source == CeilingSource::MemoryCopy);
        let is_remote = target.server != Server::None;
        let mut way = Self {
            test: row.title.clone(),
            stops: vec![disk(target)],
            edges: vec![edge(None, "the disk by itself was not measured")],
            limiter: None,
        };
        if is_remote {
            way.stops.push(stop(
                "server",
                server(target),
                row.server_cpu.map(|cpu| cpu.of_core),
            ));
            way.edges.push(edge(wire, "the wire's speed is not known"));
            let client = (target.source.clone(), None);
            way.stops.push(stop(
                "client",
                client,
                row.client_cpu.map(|cpu| cpu.of_core),
            ));
            way.edges.push(edge(None, "not measured"));
        }
        let filesystem = (target.filesystem.clone(), Some(short(&target.label, 40)));
        way.stops.push(stop("filesystem", filesystem, None));
        way.edges.push(edge(memory, "not measured"));
        let busy = (row.generator_cpu > 0.0).then_some(row.generator_cpu);
        way.stops
            .push(stop("application", (fio.to_owned(), None), busy));
        way.limiter = limiter(&way.stops, &way.edges);
        way
    }

    /// What holds the rest back, in a sentence.
    pub(super) fn verdict(&self) -> String {
        match self.limiter {
            Some(Limiter::Edge(index)) => {
                let edge = &self.edges[index];
                format!(
                    "What holds it back is {}: {} of its {} are used ({:.0} %).",
                    edge.what,
                    edge.measured
                        .map_or_else(String::new, |rate| rate.to_string()),
                    edge.ceiling
                        .map_or_else(String::new, |rate| rate.to_string()),
                    edge.part().unwrap_or(0.0) * 100.0
                )
            }
            Some(Limiter::Stop(index)) => {
                let stop = &self.stops[index];
                format!(
                    "What holds it back is the CPU of the {}: {:.0} % of one core.",
                    stop.kind,
                    stop.of_core.unwrap_or(0.0) * 100.0
                )
            }
            None => self.nothing_near(),
        }
    }

    fn nothing_near(&self) -> String {
        let fullest = self
            .edges
            .iter()
            .filter_map(|edge| Some((edge.part()?, edge)))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let known = fullest.map_or_else(String::new, |(part, edge)| {
            format!("; the nearest is {} at {:.0} %", edge.what, part * 100.0)
        });
        format!(
            "Nothing that was measured on the way is near its ceiling{known}: outboard doctor measures the rest."
        )
    }
}

fn rate(row: &Row) -> f64 {
    row.rate.map_or(0.0, |rate| rate.median)
}

fn stop(
    kind: &'static str,
    (name, detail): (String, Option<String>),
    of_core: Option<f64>,
) -> PathStop {
    PathStop {
        kind,
        name,
        detail,
        of_core,
    }
}

/// What holds the bytes: our own device, or the server's disk.
fn disk(target: &TargetFacts) -> PathStop {
    let found = match (&target.server, &target.device) {
        (Server::None, Some(device)) => (device.clone(), target.model.clone()),
        (Server::None, None) => (target.source.clone(), None),
        _ => ("the server's".to_owned(), None),
    };
    stop("disk", found, None)
}

fn server(target: &TargetFacts) -> (String, Option<String>) {
    match target.peer {
        Some(peer) => (peer.to_string(), None),
        None => ("on this machine".to_owned(), None),
    }
}

/// The fullest of all that is full.
fn limiter(stops: &[PathStop], edges: &[Edge]) -> Option<Limiter> {
    let stops = stops
        .iter()
        .enumerate()
        .filter_map(|(index, stop)| Some((stop.of_core?, Limiter::Stop(index))));
    let edges = edges
        .iter()
        .enumerate()
        .filter_map(|(index, edge)| Some((edge.part()?, Limiter::Edge(index))));
    stops
        .chain(edges)
        .filter(|(part, _)| *part >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, limiter)| limiter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;
    use crate::units::BitRate;

    fn way(ceiling: f64) -> IoPath {
        let mut run = synthetic::run(5);
        for found in &mut run.manifest.targets[0].ceilings {
            if found.source == CeilingSource::LoopbackSocket {
                *found = Ceiling::of_link("eth0", BitRate::from_mbit(1000));
                found.rate = Rate(ceiling);
            }
        }
        let summary = Summary::of(&run);
        IoPath::of(&run, &summary).unwrap()
    }

    #[test]
    fn a_wire_that_is_nearly_full_is_the_limiter() {
        // The made-up run moves about 210 MB/s through it.
        let way = way(220e6);
        assert_eq!(way.edges.len() + 1, way.stops.len());
        let kinds: Vec<&str> = way.stops.iter().map(|stop| stop.kind).collect();
        assert_eq!(
            kinds,
            ["disk", "server", "client", "filesystem", "application"]
        );
        assert_eq!(way.limiter, Some(Limiter::Edge(1)));
        assert!(way.verdict().contains("TCP over eth0"), "{}", way.verdict());
    }

    #[test]
    fn a_wire_with_room_is_not_and_nothing_is_guessed() {
        let way = way(3e9);
        assert_eq!(way.limiter, None);
        assert_eq!(way.edges[0].ceiling, None);
        let said = way.verdict();
        assert!(
            said.contains("nearest") && said.contains("outboard doctor"),
            "{said}"
        );
    }

    #[test]
    fn a_full_core_beats_a_wire_with_room() {
        let mut run = synthetic::run(5);
        for cell in run.cells.iter_mut().filter(|cell| cell.target == 0) {
            cell.evidence.server_cpu = Some(cell.runtime());
        }
        let way = IoPath::of(&run, &Summary::of(&run)).unwrap();
        assert_eq!(way.limiter, Some(Limiter::Stop(1)));
        assert!(
            way.verdict().contains("CPU of the server: 100 %"),
            "{}",
            way.verdict()
        );
    }

    #[test]
    fn a_local_directory_has_no_wire_and_a_run_of_nothing_no_way() {
        let mut run = synthetic::run(5);
        run.manifest.targets.swap(0, 1);
        let way = IoPath::of(&run, &Summary::of(&run)).unwrap();
        assert_eq!(way.stops.len(), 3);
        let empty = synthetic::run(0);
        assert_eq!(IoPath::of(&empty, &Summary::of(&empty)), None);
    }
}
