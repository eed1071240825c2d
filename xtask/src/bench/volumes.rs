//! Rows of logical volumes: what a volume costs next to a plain file, what a snapshot costs its origin, and how long
//! a change of a large group takes.
//!
//! Groups and snapshots are made by our own `volume` commands; their disks are in the page cache. Each 4 KiB block of an
//! origin is a chunk of its snapshot, and each of QEMU's overlay a cluster: all first writes are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::figures::Sample;
use super::fio::Until;
use super::graph::{AgainstPlain, all_of_it};
use super::work::{Load, VolumeKind};
use super::{Args, DISK_SIZE, Measured, disk, one, ready, rounds};
use crate::servers::{Launcher, Server};
use crate::{clock, data, shell};

/// Disks of a group that is served. One holds half of a volume, and all of them the volume twice and the metadata.
const DISKS: usize = 4;
const DISK_LEN: u64 = DISK_SIZE / 2 + (32 << 20);

/// A large group.
const MANY_DISKS: usize = 20;
const MANY_DISK_LEN: u64 = 256 << 20;
const MANY_VOLUMES: usize = 1_000;

/// A group, and its disks.
struct Group<'a> {
    binary: &'a Path,
    folder: &'a Path,
    disks: Vec<PathBuf>,
}

impl<'a> Group<'a> {
    /// Disks in the page cache, and a volume of [`DISK_SIZE`] on them.
    fn with_volume(binary: &'a Path, folder: &'a Path, kind: VolumeKind) -> Result<Self> {
        let group = Self::on(binary, folder, DISKS);
        for (disk, seed) in group.disks.iter().zip(20..) {
            data::fill(disk, DISK_LEN, seed)?;
        }
        let stripes = match kind {
            VolumeKind::Striped => "4",
            _ => "1",
        };
        let size = DISK_SIZE.to_string();
        let words = [
            "create",
            "bench/data",
            "--size",
            &size,
            "--stripes",
            stripes,
        ];
        group.change(&[&words[..], &["--force", "--disks"]].concat())?;
        if matches!(kind, VolumeKind::OriginRead | VolumeKind::OriginWritten) {
            group.snapshot()?;
        }
        Ok(group)
    }

    fn on(binary: &'a Path, folder: &'a Path, count: usize) -> Self {
        let disk = |number| folder.join(format!("volume-{number}.img"));
        Self {
            binary,
            folder,
            disks: (0..count).map(disk).collect(),
        }
    }

    /// A snapshot that has preserved nothing yet.
    fn snapshot(&self) -> Result<()> {
        let words = ["snapshot", "create", "--extents", "100%ORIGIN"];
        self.change(&[&words[..], &["bench/data", "before"]].concat())
    }

    /// `outboard volume` with these words and all disks.
    fn change(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new(self.binary);
        command.arg("volume").args(words).args(&self.disks);
        command.env("XDG_DATA_HOME", self.folder.join("volume-backups"));
        shell::output(&mut command).map(drop)
    }

    fn expression(&self) -> String {
        let disks: Vec<_> = self
            .disks
            .iter()
            .map(|disk| disk.to_string_lossy())
            .collect();
        format!("volume({},name=bench/data)", disks.join(","))
    }

    fn ready(&self) -> Result<()> {
        self.disks.iter().try_for_each(|disk| ready(disk))
    }

    fn remove(&self) {
        super::remove(&self.disks);
        std::fs::remove_dir_all(self.folder.join("volume-backups")).ok();
    }
}

/// A volume and a plain file, both served by us.
pub(super) fn load(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    kind: VolumeKind,
    load: &Load,
) -> Result<Vec<Measured>> {
    let plain = disk(&launcher.folder)?;
    let group = Group::with_volume(binary, &launcher.folder, kind)?;
    let pair = AgainstPlain {
        ours: &group.expression(),
        plain: &plain.to_string_lossy(),
        files: group.disks.iter().chain([&plain]).collect(),
        first: (kind == VolumeKind::OriginWritten).then_some(Load { jobs: 1, ..*load }),
    };
    let measured = pair.measure(launcher, args, load);
    group.remove();
    measured
}

/// First writes to an origin with a snapshot, to a plain file, and to QEMU's overlay.
pub(super) fn origin_first(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    load: &Load,
) -> Result<Vec<Measured>> {
    let plain = disk(&launcher.folder)?;
    let overlay = launcher.folder.join("overlay.qcow2");
    let group = Group::with_volume(binary, &launcher.folder, VolumeKind::OriginRead)?;
    let names = ["outboard", "plain file", "qemu-nbd qcow2"];
    let names = names.map(str::to_owned).to_vec();
    let measured = rounds(args, names, |which| {
        ready(&plain)?;
        let serving = match which {
            0 => {
                group.change(&["snapshot", "remove", "bench/before"])?;
                group.snapshot()?;
                group.ready()?;
                launcher.start(Server::Ours, &group.expression())?
            }
            1 => launcher.start(Server::Ours, &plain.to_string_lossy())?,
            _ => {
                std::fs::remove_file(&overlay).ok();
                let mut create = Command::new("qemu-img");
                create.args([
                    "create",
                    "-q",
                    "-f",
                    "qcow2",
                    "-o",
                    "cluster_size=4k",
                    "-F",
                    "raw",
                    "-b",
                ]);
                shell::output(create.args([&plain, &overlay]))?;
                launcher.start(Server::QemuOverlay, &overlay.to_string_lossy())?
            }
        };
        one(&serving, load, all_of_it())
    });
    std::fs::remove_file(&overlay).ok();
    group.remove();
    measured
}

/// A volume that is moved from disk to disk while users write it, against a plain copy of as much and the same users alone.
/// Nothing that is copied is in memory before: disks are larger than that.
///
/// Users write in runs of `--seconds`; their latencies are those of the run in the middle of those that ended before the move did,
/// as those of the users alone are of one run.
pub(super) fn move_extents(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    load: &Load,
) -> Result<Vec<Measured>> {
    let size = args.move_mib << 20;
    let group = Group::on(binary, &launcher.folder, 2);
    for (disk, seed) in group.disks.iter().zip(40..) {
        data::fill(disk, size + (32 << 20), seed)?;
    }
    let bytes = size.to_string();
    group.change(&[
        "create",
        "bench/data",
        "--size",
        &bytes,
        "--force",
        "--disks",
    ])?;
    let (copy, mut from) = (launcher.folder.join("volume-copy.img"), 0);
    let names = ["outboard", "plain copy, users alone"].map(str::to_owned);
    let measured = rounds(args, names.to_vec(), |which| {
        // What is copied to as well: pages that are in memory cost a copy less than new ones.
        let copies = group.disks.iter().chain(copy.exists().then_some(&copy));
        copies.into_iter().try_for_each(|disk| evict(disk))?;
        let serving = launcher.start(Server::Ours, &group.expression())?;
        if which == 1 {
            let mb_per_s = plain_copy(&group.disks[from], &copy, args.move_mib)?;
            let users = one(&serving, load, Until::Seconds(args.seconds))?;
            return Ok(Sample { mb_per_s, ..users });
        }
        let mut command = Command::new(binary);
        command.args([
            "volume",
            "move",
            "bench",
            "--server",
            &serving.id().to_string(),
        ]);
        command.arg("--from").arg(&group.disks[from]);
        command.env("XDG_DATA_HOME", group.folder.join("volume-backups"));
        let start = clock::now();
        let mut moving = command.stdout(Stdio::null()).spawn()?;
        let wait = move || moving.wait().map(|ended| (ended, clock::now()));
        let watcher = std::thread::Builder::new().spawn(wait)?;
        let mut runs: Vec<Sample> = Vec::new();
        loop {
            let users = one(&serving, load, Until::Seconds(args.seconds))?;
            if watcher.is_finished() {
                break;
            }
            runs.push(users);
        }
        let (ended, at) = watcher.join().expect("it does not panic")?;
        ensure!(ended.success(), "the move failed");
        let mb_per_s = megabytes_per_second(size, (at - start).as_secs_f64());
        let slowness = |run: &Sample| run.p99_us.unwrap_or_default();
        runs.sort_by(|one, other| slowness(one).total_cmp(&slowness(other)));
        let users = runs.get(runs.len() / 2);
        let users = *users.context("the move was over too soon: measure for fewer --seconds")?;
        from = 1 - from;
        Ok(Sample { mb_per_s, ..users })
    });
    std::fs::remove_file(&copy).ok();
    group.remove();
    measured
}

/// Copies so many MiB of a file, and returns how fast.
fn plain_copy(from: &Path, to: &Path, mib: u64) -> Result<Option<f64>> {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", from.display()));
    dd.arg(format!("of={}", to.display()));
    dd.args(["bs=1M", "conv=fsync,notrunc", "status=none"]);
    let start = clock::now();
    shell::output(dd.arg(format!("count={mib}")))?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(megabytes_per_second(mib << 20, seconds))
}

/// Leaves nothing of a disk in the page cache.
fn evict(disk: &Path) -> Result<()> {
    let file = std::fs::File::open(disk)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

fn megabytes_per_second(bytes: u64, seconds: f64) -> Option<f64> {
    let megabytes = u32::try_from(bytes / 1_000_000).ok()?;
    Some(f64::from(megabytes) / seconds)
}

/// One change of the metadata of a group with many volumes on many disks.
pub(super) fn update(launcher: &Launcher, args: &Args, binary: &Path) -> Result<Vec<Measured>> {
    let group = Group::on(binary, &launcher.folder, MANY_DISKS);
    for disk in &group.disks {
        std::fs::remove_file(disk).ok();
        super::open(
            disk,
            std::fs::OpenOptions::new().write(true).create_new(true),
        )?
        .set_len(MANY_DISK_LEN)?;
    }
    group.change(&[
        "create",
        "bench/v0",
        "--extents",
        "1",
        "--extent-size",
        "1M",
        "--disks",
    ])?;
    for number in 1..MANY_VOLUMES {
        let name = format!("bench/v{number}");
        group.change(&["create", &name, "--extents", "1"])?;
    }
    let mut names = ["v0", "renamed"];
    let measured = rounds(args, vec!["outboard".to_owned()], |_| {
        let [from, to] = names;
        let start = clock::now();
        group.change(&["rename", &format!("bench/{from}"), to])?;
        names = [to, from];
        Ok(Sample {
            seconds: Some(start.elapsed().as_secs_f64()),
            ..Sample::default()
        })
    });
    group.remove();
    measured
}
