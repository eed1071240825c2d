//! A made-up run of layers that stand on each other, with sweeps and a tool: several targets, one of them
//! left out.

use lab::checks::{Check, Finding};
use lab::host::{TargetFacts, TargetPlace};
use lab::plan::{Job, Plan, Varies};
use lab::stats::Rng;
use lab::store::{Cell, LeftOutTarget, Outcome, RunRecord, Status};
use lab::tools::{ToolFigure, ToolResult, Unit};
use lab::units::{Bytes, MIB, Nanos, Rate, SECOND, round};

/// Blocks of the run.
const BLOCKS: u32 = 6;

/// As a user would write it.
const PLAN: &str = r#"
name = "layered"
summary = "Loops on loops, with sweeps."
baseline = "disk"

[data]
size = "512M"
layout_ms = 8000

[budget]
blocks_min = 5
blocks_max = 20
time_ms = 90000
limit_ms = 170000
precision = 0.03

[[target]]
name = "disk"
kind = "directory"
path = "."

[[target]]
name = "loop"
title = "Loop on the disk"
kind = "disk"
disk = "{image}"
images = [{ name = "image", size = "600M" }]
filesystem = "ext4"

[[target]]
name = "loop-loop"
title = "Loop on the loop"
kind = "disk"
disk = "{image}"
images = [{ name = "image", size = "550M" }]
filesystem = "ext4"
on = "loop"

[[target]]
name = "odd"
title = "Too fast to be true"
kind = "disk"
disk = "{image}"
images = [{ name = "image", size = "600M" }]
filesystem = "ext4"
on = "loop"

[[workload]]
name = "seq-read"
title = "Sequential read"
pattern = "sequential"
direction = "read"
block_size = "128K"
depth = 8
jobs = 1
runtime_ms = 1500

[[workload]]
name = "clients"
title = "dbench"
tool = "dbench"
clients = 4
runtime_ms = 5000

[[workload]]
name = "sizes"
title = "Reads"
sweep = { block_size = ["512", "1K", "2K", "4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M"] }
pattern = "random"
direction = "read"
depth = 1
jobs = 1
runtime_ms = 500

[[workload]]
name = "depths"
title = "Random reads"
sweep = { depth = [1, 2, 4, 8, 16, 32, 64] }
pattern = "random"
direction = "read"
block_size = "4K"
jobs = 1
runtime_ms = 500
"#;

/// The run.
pub(crate) fn layered() -> RunRecord {
    let mut run = super::run(1);
    let model = run.cells[0].clone();
    run.plan = Plan::parse(PLAN).expect("a plan of ours");
    run.status = Status::Precise;
    run.elapsed = Some(Nanos(u64::from(BLOCKS) * 90 * SECOND));
    let first = run.manifest.targets[1].clone();
    run.manifest.targets = run
        .plan
        .targets
        .iter()
        .map(|target| TargetFacts {
            name: target.name.clone(),
            label: target.shown().to_owned(),
            place: TargetPlace::Directory(format!("/srv/lab/{}", target.name).into()),
            ..first.clone()
        })
        .collect();
    run.manifest.baseline = Some(0);
    run.manifest.left_out = vec![LeftOutTarget {
        name: "raid".into(),
        title: "RAID 1".into(),
        reason: "this kernel has no md".into(),
    }];
    let mut rng = Rng::new(5);
    run.cells.clear();
    for block in 0..BLOCKS {
        for workload in 0..run.plan.workloads.len() {
            for target in 0..run.manifest.targets.len() {
                let position = run.cells.len();
                let mut cell = cell(&model, &run.plan, (workload, target), &mut rng);
                cell.block = block;
                cell.position = u32::try_from(position).expect("few cells");
                cell.started = Nanos(position as u64 * SECOND);
                run.cells.push(cell);
            }
        }
    }
    run
}

/// How much slower a target is than the disk.
const SLOWER: [f64; 4] = [1.0, 1.25, 1.7, 1.1];

fn cell(model: &Cell, plan: &Plan, (workload, target): (usize, usize), rng: &mut Rng) -> Cell {
    let planned = &plan.workloads[workload];
    let noise = (1.0 + rng.below(30) as f64 / 1000.0) * SLOWER[target];
    let mut cell = Cell {
        workload,
        target,
        ..model.clone()
    };
    let Job::Fio(job) = &planned.job else {
        cell.outcome = Outcome::Tool(dbench(210e6 / noise, noise));
        return cell;
    };
    // 40 us for each request, bytes at 500 MB/s, and at most 12 requests at once.
    let at_once = f64::from(job.depth).min(12.0);
    let time = (40e-6 + job.block_size.0 as f64 / 500e6) * noise / at_once;
    let result = cell.fio_mut().expect("quick is measured with fio");
    result.runtime = Nanos(SECOND / 2);
    result.ios = round(0.5 / time);
    result.bytes = Bytes(result.ios * job.block_size.0);
    result.printed_rate = Rate(result.bytes.0 as f64 * 2.0);
    result.block_size = job.block_size.0.to_string();
    result.depth = job.depth;
    let mut latencies = lab::fio::Histogram::default();
    for step in 0..50u64 {
        let ns = round(time * at_once * 1e9 * (1.0 + step as f64 / 25.0));
        latencies.add(Nanos(ns), result.ios / 50);
    }
    result.latencies = latencies;
    let is_small = matches!(&planned.series, Some(series) if series.varies == Varies::BlockSize && series.point == 1024);
    if is_small && target == 1 {
        let text = "the device was asked for 4 KiB where 1 KiB was wanted: it was not direct";
        cell.findings.push(Finding::invalid(Check::Direct, text));
    }
    cell
}

fn dbench(rate: f64, noise: f64) -> ToolResult {
    ToolResult {
        tool: "dbench".into(),
        version: "4.00".into(),
        figures: vec![
            ToolFigure::higher("throughput", rate, Unit::BytesPerSecond),
            ToolFigure::lower("latest answer", 12e6 * noise, Unit::Nanoseconds),
        ],
        elapsed: Nanos(5 * SECOND),
        bytes: Some(Bytes(1000 * MIB)),
        subject: None,
    }
}
