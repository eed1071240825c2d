//! A made-up run for tests of the store and the report. Its figures were not measured: tests assert how
//! they are computed and shown, never what they are.

mod full_run;
mod layers;
mod long;
#[cfg(test)]
mod noise;

pub(crate) use full_run::full_run;
pub(crate) use layers::layered;
pub(crate) use long::long;
#[cfg(test)]
pub(crate) use noise::{
    NOISY, Noise, NoisyMachine, STATIONARY, intervals_held, is_wrong, verdicts,
};

use lab::checks::cache::{Dropped, Server};
use lab::checks::ceiling::{Ceiling, CeilingSource};
use lab::checks::direct::{DioAlign, Residency, Traffic};
use lab::fio::{Engine, Histogram, JobResult};
use lab::host::{Machine, Process, Role, TargetFacts, TargetPlace};
use lab::plan::{Direction, builtin};
use lab::sensors::{CoreTimes, Sample};
use lab::stats::Rng;
use lab::store::{Cell, CommandLine, Evidence, Manifest, Outcome, RunId, RunRecord, Status};
use lab::units::{Bytes, MIB, Nanos, Rate, SECOND, round};

/// A run of the four tests of `quick` that have a throughput, with so many blocks; the first target has half the
/// speed of the second.
pub(crate) fn run(blocks: u32) -> RunRecord {
    let mut plan = builtin("quick").expect("a plan of ours");
    plan.workloads.truncate(4);
    let mut rng = Rng::new(11);
    let mut cells = Vec::new();
    for block in 0..blocks {
        for workload in 0..plan.workloads.len() {
            for target in 0..2 {
                cells.push(cell(&plan, block, workload, target, &mut rng));
            }
        }
    }
    RunRecord {
        id: RunId(7),
        seed: u64::MAX,
        started_unix_ms: 1_700_000_000_000,
        elapsed: Some(Nanos(90 * SECOND)),
        status: Status::OutOfTime,
        manifest: manifest(),
        commands: vec![CommandLine {
            purpose: "seq-read".into(),
            line: "fio --name=seq-read '--filename=/mnt/<media>/data'".into(),
        }],
        cells,
        samples: samples(),
        findings: Vec::new(),
        plan,
    }
}

fn cell(plan: &lab::plan::Plan, block: u32, workload: usize, target: usize, rng: &mut Rng) -> Cell {
    let job = plan.workloads[workload]
        .fio()
        .expect("quick is measured with fio");
    let speed = if target == 0 { 200.0 } else { 400.0 } * (1.0 + rng.below(40) as f64 / 1000.0);
    let bytes = Bytes(round(speed) * MIB / job.block_size.0 * job.block_size.0);
    let ios = bytes.0 / job.block_size.0;
    let mut latencies = Histogram::default();
    for step in 0..64u64 {
        latencies.add(Nanos(65_536 + step * 1024 + 512), ios / 64);
    }
    latencies.add(Nanos(4_227_072), ios - ios / 64 * 64);
    let core = CoreTimes {
        user: 30,
        system: 50,
        softirq: 10,
        idle: 10,
        ..CoreTimes::default()
    };
    Cell {
        block,
        position: u32::try_from(workload * 2 + target).expect("few tests"),
        workload,
        target,
        started: Nanos(
            u64::from(block) * 16 * SECOND + (workload * 2 + target) as u64 * 2 * SECOND,
        ),
        elapsed: Nanos(SECOND + SECOND / 5),
        outcome: Outcome::Fio(JobResult {
            direction: job.direction,
            bytes,
            ios,
            runtime: Nanos(SECOND),
            printed_rate: Rate(bytes.0 as f64),
            engine: "io_uring".into(),
            block_size: job.block_size.0.to_string(),
            depth: job.depth,
            direct: true,
            generator_cpu: 0.3,
            fsync: false,
            latencies,
        }),
        evidence: Evidence {
            server_cpu: (target == 0).then_some(Nanos(SECOND / 4)),
            client_cpu: (target == 0).then_some(Nanos(SECOND / 5)),
            lab_cpu: Some(Nanos(SECOND / 500)),
            cores: vec![(0, core), (1, core)],
            traffic: Some(Traffic {
                bytes,
                requests: ios,
            }),
            dropped: (job.direction == Direction::Read).then_some(Dropped::All),
            resident_before: Some(Residency {
                sampled: 256,
                resident: 0,
            }),
            resident_after: Some(Residency {
                sampled: 256,
                resident: 0,
            }),
            ..Evidence::default()
        },
        findings: Vec::new(),
    }
}

fn manifest() -> Manifest {
    let ceiling = |source, rate| Ceiling {
        source,
        rate: Rate(rate),
    };
    let target = |name: &str, directory: &str, server, ceilings| TargetFacts {
        name: name.into(),
        label: directory.into(),
        place: TargetPlace::Directory(directory.into()),
        filesystem: "ext4".into(),
        source: "/dev/loop0".into(),
        options: "rw".into(),
        device: Some("loop0".into()),
        model: None,
        rotational: Some(false),
        dio_align: Some(DioAlign {
            memory: 512,
            offset: 512,
        }),
        processes: match server {
            Server::Here => [(Role::Server, 1), (Role::Client, 2)]
                .map(|(role, pid)| Process { role, pid })
                .to_vec(),
            _ => Vec::new(),
        },
        server,
        peer: None,
        ceilings,
        interface: None,
        identity: None,
        data: None,
    };
    let memory = ceiling(CeilingSource::MemoryCopy, 8e9);
    Manifest {
        machine: Machine {
            hostname: "pi<script>alert(1)</script>".into(),
            kernel: "Linux 6.1".into(),
            architecture: "aarch64".into(),
            system: "Debian".into(),
            processor: "Raspberry & Co".into(),
            cores: 2,
            memory: Bytes(1 << 30),
            load: 0.1,
        },
        outboard: "0.1.0".into(),
        agents: Vec::new(),
        fio: Some("fio-3.33".into()),
        engine: Some(Engine::IoUring),
        direct: true,
        size: Bytes(512 * MIB),
        base: None,
        baseline: Some(1),
        left_out: Vec::new(),
        skipped: Vec::new(),
        targets: vec![
            target(
                "target",
                "/mnt/<media>",
                Server::Here,
                vec![memory.clone(), ceiling(CeilingSource::LoopbackSocket, 3e9)],
            ),
            target("against", "/home/me", Server::None, vec![memory]),
        ],
    }
}

fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for second in 1..=90u64 {
        for core in 0..2 {
            for (kind, value) in [
                ("user", 0.2),
                ("system", 0.3),
                ("irq", 0.0),
                ("softirq", 0.1),
                ("steal", 0.0),
            ] {
                samples.push(Sample {
                    machine: 0,
                    at: Nanos(second * SECOND),
                    sensor: "cpu".into(),
                    item: format!("{core}/{kind}"),
                    value: value * (second % 7) as f64 / 6.0,
                });
            }
        }
        samples.push(Sample {
            machine: 0,
            at: Nanos(second * SECOND),
            sensor: "process".into(),
            item: "server".into(),
            value: 0.4,
        });
    }
    samples
}
