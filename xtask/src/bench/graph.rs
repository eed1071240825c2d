//! Rows of the disk graph: what composing costs, what an overlay costs, and a remote disk served again.
//!
//! A composed disk is held against a plain file, both served by us at once; an overlay that is written to for
//! the first time is made again for each measurement, and every write goes to a block that has none yet.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::figures::Sample;
use super::fio::Until;
use super::work::{Load, Shape};
use super::{Args, DISK_SIZE, Measured, disk, one, ready, rounds};
use crate::servers::{Launcher, Server, Serving};
use crate::{clock, data, process, shell};

/// Files that are put together.
const PARTS: u64 = 4;

/// Size of a large disk with an overlay.
const LARGE_SIZE: u64 = 1 << 40;

/// What is written to it, each exception this long.
const LARGE_WRITTEN: u64 = 1 << 30;
const EXCEPTION: u32 = 4 << 10;

/// Where the partition begins, and the unit of its table, bytes.
const PARTITION_START: u64 = 1 << 20;
const SECTOR: u64 = 512;

/// A composed disk: its expression, and the files that its data is in.
#[derive(Debug)]
struct Composed {
    expression: String,
    files: Vec<PathBuf>,
}

/// A composed disk and a plain file, both served by us.
pub(super) fn composed(
    launcher: &Launcher,
    args: &Args,
    shape: Shape,
    load: &Load,
) -> Result<Vec<Measured>> {
    let plain = disk(&launcher.folder)?;
    let composed = Composed::new(&launcher.folder, shape)?;
    let pair = AgainstPlain {
        ours: &composed.expression,
        plain: &plain.to_string_lossy(),
        files: composed.files.iter().chain([&plain]).collect(),
        first: (shape == Shape::OverlayTop).then_some(Load { jobs: 1, ..*load }),
    };
    let measured = pair.measure(launcher, args, load);
    composed.remove();
    measured
}

/// A disk of ours and a plain file, both served by us at once.
pub(super) struct AgainstPlain<'a> {
    pub(super) ours: &'a str,
    pub(super) plain: &'a str,
    /// Readied for each measurement.
    pub(super) files: Vec<&'a PathBuf>,
    /// Done once to every byte of ours, before anything is measured.
    pub(super) first: Option<Load>,
}

impl AgainstPlain<'_> {
    pub(super) fn measure(
        &self,
        launcher: &Launcher,
        args: &Args,
        load: &Load,
    ) -> Result<Vec<Measured>> {
        let serving = [
            launcher.start(Server::Ours, self.ours)?,
            launcher.start(Server::Ours, self.plain)?,
        ];
        if let Some(first) = &self.first {
            one(&serving[0], first, all_of_it())?;
        }
        let names = ["outboard", "plain file"].map(str::to_owned).to_vec();
        rounds(args, names, |which| {
            for file in &self.files {
                ready(file)?;
            }
            one(&serving[which], load, Until::Seconds(args.seconds))
        })
    }
}

/// Writes of what an overlay does not have: ours and nbdkit's, with its blocks and with ours.
pub(super) fn overlay_first(
    launcher: &Launcher,
    args: &Args,
    load: &Load,
) -> Result<Vec<Measured>> {
    let overlay = Composed::new(&launcher.folder, Shape::OverlayBase)?;
    let [base, top] = &overlay.files[..] else {
        anyhow::bail!("an overlay is made of a base and a store");
    };
    let peers = [None, Some(EXCEPTION)].map(Server::NbdkitCow);
    let servers: Vec<Server> = std::iter::once(Server::Ours).chain(peers).collect();
    let names = servers.iter().map(ToString::to_string).collect();
    let measured = rounds(args, names, |which| {
        std::fs::remove_file(top).ok();
        ready(base)?;
        let disk = match servers[which] {
            Server::Ours => overlay.expression.clone(),
            _ => base.to_string_lossy().into_owned(),
        };
        let serving = launcher.start(servers[which], &disk)?;
        one(&serving, load, all_of_it())
    });
    overlay.remove();
    measured
}

/// How long our server takes until it serves a large overlay, and what memory each exception takes.
pub(super) fn overlay_open(launcher: &Launcher, args: &Args) -> Result<Vec<Measured>> {
    let base = launcher.folder.join("large.img");
    let top = launcher.folder.join("large.cow");
    std::fs::remove_file(&top).ok();
    let file =
        std::fs::File::create(&base).with_context(|| format!("cannot make {}", base.display()))?;
    file.set_len(LARGE_SIZE)?;
    let overlay = overlay(&base, &top);
    let load = Load {
        pattern: "randwrite",
        block_size: EXCEPTION,
        jobs: 1,
        depth: 32,
        rate: None,
        flushes: false,
    };
    let until = Until::Once {
        size: LARGE_SIZE,
        bytes: LARGE_WRITTEN,
    };
    let filled = launcher.start(Server::Ours, &overlay)?;
    one(&filled, &load, until)?;
    let mut flush = Command::new("qemu-io");
    flush.args(["-f", "raw", "-c", "flush", &filled.uri()]);
    shell::output(&mut flush)?;
    drop(filled);
    let plain = format!("file({},read-only=true)", base.display());
    let names = ["outboard", "plain file"].map(str::to_owned).to_vec();
    let measured = rounds(args, names, |which| {
        data::warm(&top)?;
        let (seconds, bare_kib) = started(launcher, &plain)?;
        if which == 1 {
            return Ok(Sample {
                seconds: Some(seconds),
                ..Sample::default()
            });
        }
        let (seconds, kib) = started(launcher, &overlay)?;
        let exceptions = f64::from(u32::try_from(LARGE_WRITTEN / u64::from(EXCEPTION))?);
        Ok(Sample {
            seconds: Some(seconds),
            exception_bytes: Some((kib - bare_kib) * 1024.0 / exceptions),
            ..Sample::default()
        })
    });
    std::fs::remove_file(&top).ok();
    std::fs::remove_file(&base).ok();
    measured
}

/// Seconds until our server serves a disk, and its memory then in KiB.
fn started(launcher: &Launcher, disk: &str) -> Result<(f64, f64)> {
    let start = clock::now();
    let serving = launcher.start(Server::Ours, disk)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((seconds, process::memory_kib(serving.id())?))
}

/// A remote disk served again, by ours and by others; the first server is ours for all.
pub(super) fn reserved(
    launcher: &Launcher,
    args: &Args,
    servers: &[Server],
    load: &Load,
) -> Result<Vec<Measured>> {
    let disk = disk(&launcher.folder)?;
    let first = launcher.start(Server::Ours, &disk.to_string_lossy())?;
    let again: Vec<Server> = servers
        .iter()
        .filter_map(|server| match server {
            Server::Nbdkit => Some(Server::NbdkitNbd),
            Server::Ours | Server::Qemu => Some(*server),
            _ => None,
        })
        .collect();
    let serving: Vec<Serving> = again
        .iter()
        .map(|server| launcher.start(*server, &first.uri()))
        .collect::<Result<_>>()?;
    let names = again.iter().map(ToString::to_string).collect();
    rounds(args, names, |which| {
        ready(&disk)?;
        one(&serving[which], load, Until::Seconds(args.seconds))
    })
}

/// Every byte of the disk, once.
pub(super) fn all_of_it() -> Until {
    Until::Once {
        size: DISK_SIZE,
        bytes: DISK_SIZE,
    }
}

fn overlay(base: &Path, top: &Path) -> String {
    format!("overlay({},{},chunk=4K)", base.display(), top.display())
}

impl Composed {
    /// Makes the files of a disk of [`DISK_SIZE`], and how it is written.
    fn new(folder: &Path, shape: Shape) -> Result<Self> {
        if let Shape::OverlayTop | Shape::OverlayBase = shape {
            let [base, top] = ["base.img", "base.cow"].map(|name| folder.join(name));
            data::fill(&base, DISK_SIZE, 4)?;
            std::fs::remove_file(&top).ok();
            return Ok(Self {
                expression: overlay(&base, &top),
                files: vec![base, top],
            });
        }
        let files: Vec<PathBuf> = (0..PARTS)
            .map(|number| folder.join(format!("part-{number}.img")))
            .collect();
        for (file, seed) in files.iter().zip(5..) {
            data::fill(file, DISK_SIZE / PARTS, seed)?;
        }
        let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
        let names = names.join(",");
        let linear = format!("linear({names})");
        let expression = match shape {
            Shape::Stripe => format!("stripe({names})"),
            Shape::Partition => {
                write_partition_table(&files[0])?;
                format!("partition({linear},1)")
            }
            Shape::Deep => {
                let once_more = |below: &str| format!("linear(blocks({below},size=512))");
                let six = (0..3).fold(linear, |below, _| once_more(&below));
                format!("blocks({six},size=512)")
            }
            _ => linear,
        };
        Ok(Self { expression, files })
    }

    fn remove(&self) {
        super::remove(&self.files);
    }
}

/// One partition over all of the disk but its beginning, in a table of the oldest kind.
fn write_partition_table(first: &Path) -> Result<()> {
    /// Where the first entry is in the sector, and what it is of: any of Linux's filesystems.
    const ENTRY: usize = 446;
    const LINUX: u8 = 0x83;
    let mut sector = [0; 512];
    let entry = &mut sector[ENTRY..ENTRY + 16];
    entry[4] = LINUX;
    let start = u32::try_from(PARTITION_START / SECTOR)?;
    let count = u32::try_from((DISK_SIZE - PARTITION_START) / SECTOR)?;
    entry[8..12].copy_from_slice(&start.to_le_bytes());
    entry[12..].copy_from_slice(&count.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    let file = super::open(first, std::fs::OpenOptions::new().write(true))?;
    file.write_all_at(&sector, 0)
        .with_context(|| format!("cannot write {}", first.display()))
}
