//! An image of Ceph as a disk of the kernel, which needs the guest: this machine's kernel has no nbd. The script `tests/guest/lab/rbd.sh`
//! attaches and measures ours and rbd-nbd in turns. The processor is emulated for both; the cluster runs on this machine.

use std::path::Path;

use anyhow::{Context, Result};

use super::super::{Args, Load, Measured, Sample, fio};
use super::{IMAGE, POOL, Site};
use crate::guest::lab::{self, LabScript};
use crate::guest::stripped;
use crate::process;
use crate::servers::Launcher;
use crate::shell;

/// Bytes of the image: what an emulated processor writes in seconds.
const SIZE: u64 = 128 << 20;

/// The contenders by their names in the script: ours as a server of the kernel's nbd, as rbd-nbd is one, rbd-nbd, and an attachment of
/// the image itself, which takes FUSE and a loop device.
const CONTENDERS: [(&str, &str); 3] = [
    ("kernel", "outboard, kernel nbd"),
    ("rbd-nbd", "rbd-nbd"),
    ("fuse", "outboard attach rbd:"),
];

/// Seconds that the guest takes before and after what is measured, at most.
const AROUND_S: u32 = 600;

/// Measures them all in one guest.
pub(in crate::bench) fn measure(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    load: &Load,
) -> Result<Vec<Measured>> {
    let folder = shell::target().join("guest");
    let guest = lab::build(&folder, &stripped(binary, &folder)?)?;
    let site = Site::new(launcher, SIZE)?;
    let settings = format!(
        "MONITOR={} IMAGE={POOL}/{IMAGE} ROUNDS={} FIO='{}'",
        site.cluster.monitor(),
        args.rounds,
        words(load, args.seconds),
    );
    let script = LabScript {
        name: "rbd",
        settings: &settings,
        programs: &["rbd-nbd"],
    };
    let contenders = u32::try_from(CONTENDERS.len())?;
    let limit_s = AROUND_S + 3 * args.seconds * args.rounds * contenders;
    let place = folder.join("run/rbd");
    let mut measured = Vec::new();
    lab::script(&guest, script, &place, limit_s, |out| {
        for (file, name) in CONTENDERS {
            let samples = (1..=args.rounds)
                .map(|round| sample(out, &format!("{file}-{round}")))
                .collect::<Result<_>>()
                .with_context(|| format!("of {name}"))?;
            measured.push(Measured {
                name: name.to_owned(),
                samples,
            });
        }
        Ok(())
    })?;
    Ok(measured)
}

/// The load as options of fio.
fn words(load: &Load, seconds: u32) -> String {
    let flushes = u32::from(load.flushes);
    format!(
        "--rw={} --bs={} --iodepth={} --numjobs={} --runtime={seconds} --fsync={flushes}",
        load.pattern, load.block_size, load.depth, load.jobs
    )
}

/// What one measurement left: fio's report, and the ticks of its server.
fn sample(out: &Path, name: &str) -> Result<Sample> {
    let read = |kind: &str| {
        let path = out.join(format!("{name}.{kind}"));
        std::fs::read_to_string(&path).with_context(|| format!("there is no {name}.{kind}"))
    };
    let outcome = fio::parse(&read("json")?)?;
    let ticks: f64 = read("ticks")?
        .trim()
        .parse()
        .context("ticks are a number")?;
    let seconds = ticks / process::TICKS_PER_SECOND;
    Ok(Sample {
        server_cpu_us: Some(seconds * 1e6 / outcome.requests),
        ..outcome.sample
    })
}
