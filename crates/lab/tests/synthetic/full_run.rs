//! A made-up run with everything that a report can show: a machine that gets hot, a wire that is full,
//! results that are none, slow operations.

use lab::checks::ceiling::{Ceiling, CeilingSource};
use lab::checks::{Check, Finding};
use lab::fio::Histogram;
use lab::sensors::Sample;
use lab::stats::Rng;
use lab::store::{RunRecord, Status};
use lab::units::{BitRate, Nanos, Rate, SECOND, round};

/// Blocks of the run.
const BLOCKS: u32 = 12;

/// The run.
pub(crate) fn full_run() -> RunRecord {
    let mut run = super::run(BLOCKS);
    run.status = Status::AllBlocks;
    run.elapsed = Some(Nanos(u64::from(BLOCKS) * 16 * SECOND));
    let mut rng = Rng::new(3);
    for cell in &mut run.cells {
        let (target, block) = (cell.target, cell.block);
        if let Some(result) = cell.fio_mut() {
            result.latencies = latencies(result.ios, target, block, &mut rng);
        }
        if cell.target == 0 && cell.workload == 1 {
            let text = "19.6 MB/s are 167 % of what TCP over eth0 can carry";
            cell.findings.push(Finding::invalid(Check::Ceiling, text));
        }
        if cell.block == 4 && cell.workload == 2 {
            cell.findings.push(Finding::invalid(
                Check::Noise,
                "another program used the disk meanwhile",
            ));
        }
        if cell.target == 1 {
            let text = "the server's page cache was not dropped: that needs root";
            cell.findings.push(Finding::remark(Check::Cache, text));
        }
    }
    for found in &mut run.manifest.targets[0].ceilings {
        if found.source == CeilingSource::LoopbackSocket {
            *found = Ceiling::of_link("eth0", BitRate::from_mbit(2000));
            found.rate = Rate(235e6);
        }
    }
    run.findings.push(Finding::remark(
        Check::Run,
        "the target “raid” was left out: this kernel has no md",
    ));
    run.samples = samples(&mut rng);
    run
}

/// Most operations near 100 us, a few that wait for something; the second half of the run is slower.
fn latencies(operations: u64, target: usize, block: u32, rng: &mut Rng) -> Histogram {
    let mut found = Histogram::default();
    let base = if target == 0 { 110.0 } else { 60.0 };
    let base = base * if block >= BLOCKS / 2 { 1.5 } else { 1.0 };
    let parts = 400;
    for _ in 0..parts {
        let spread = 1.0 + rng.below(1000) as f64 / 1000.0 * rng.below(1000) as f64 / 1000.0;
        let slow = match rng.below(100) {
            0 => 40.0,
            1..=3 => 6.0,
            _ => 1.0,
        };
        let us = base * spread * slow;
        // On fio's lattice: the middle of the bucket that the value is in.
        let ns = round(us * 1000.0);
        let width = 1u64 << (ns.ilog2() - 6);
        found.add(Nanos(ns / width * width + width / 2), operations / parts);
    }
    found
}

/// A machine that warms up and slows itself down after 120 s.
fn samples(rng: &mut Rng) -> Vec<Sample> {
    let mut samples = Vec::new();
    for second in 1..=u64::from(BLOCKS) * 16 {
        let mut add = |sensor: &str, item: &str, value: f64| {
            samples.push(Sample {
                machine: 0,
                at: Nanos(second * SECOND),
                sensor: sensor.into(),
                item: item.into(),
                value,
            });
        };
        let mut noise = || 0.9 + rng.below(200) as f64 / 1000.0;
        let is_hot = second >= 120;
        let is_network = second / 2 % 2 == 0;
        for core in 0..4 {
            let busy = if core == 1 { 0.9 } else { 0.3 };
            for (kind, part) in [
                ("user", 0.3),
                ("system", 0.5),
                ("irq", 0.02),
                ("softirq", 0.15),
                ("steal", 0.01),
            ] {
                add("cpu", &format!("{core}/{kind}"), part * busy * noise());
            }
            add(
                "clock",
                &core.to_string(),
                if is_hot { 1.2e9 } else { 1.8e9 },
            );
        }
        let warmth = 1.0 - (-(second as f64) / 60.0).exp();
        add(
            "temperature",
            "cpu-thermal",
            45.0 + 37.0 * warmth * noise().sqrt(),
        );
        add("temperature", "nvme/Composite", 38.0 + 12.0 * warmth);
        add(
            "throttle",
            "soft-temperature-limit",
            f64::from(u8::from(is_hot)),
        );
        add("throttle", "under-voltage-since-boot", 1.0);
        let flow = if is_network { 205e6 } else { 2e3 };
        add("net", "eth0/rx-bytes", flow * noise());
        add("net", "eth0/tx-bytes", flow * 0.02 * noise());
        add(
            "net",
            "eth0/rx-drops",
            if second == 90 { 14.0 } else { 0.0 },
        );
        add("net", "lo/rx-bytes", 100.0);
        let disk = if is_network { 0.0 } else { 410e6 };
        add("disk", "vda/read", disk * noise());
        add("disk", "vda/write", disk * 0.4 * noise());
        add("disk", "vda/busy", if is_network { 0.02 } else { 0.97 });
        add(
            "disk",
            "vda/queue",
            if is_network { 0.1 } else { 14.0 * noise() },
        );
        add("pressure", "cpu/some", 0.2 * noise());
        add("pressure", "io/some", 0.6 * noise());
        add("pressure", "memory/some", 0.01);
    }
    samples
}
