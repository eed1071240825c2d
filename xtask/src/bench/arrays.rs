//! Rows of arrays: what a mirror costs, how fast it resyncs, and how a resync slows its users.
//!
//! Members are made by our own `array create`. Unless noted, their data are in the page cache,
//! and both are on one disk of this machine, which is what the members of a peer have too.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::figures::Sample;
use super::fio::Until;
use super::resyncs::{
    HEAD, NAME, ReadsMeanwhile, ask, command, copied, in_order, seconds_until_idle,
    slowest_at_once, until,
};
use super::work::Load;
use super::{Args, DISK_SIZE, Measured, one, ready, remove, rounds};
use crate::servers::{Launcher, Server, Serving};
use crate::{clock, data, process, shell};

/// Data of a mirror that is resynced.
const LARGE: u64 = 4 << 30;

/// Where files are in memory. Linux 6.6 and later read and write them past the page cache too.
pub(super) const MEMORY: &str = "/dev/shm";

/// Scattered writes while a member is away, and how finely the bitmap records where.
const WRITES: u64 = 1_000;
const WRITE: u32 = 4 << 10;
const BITMAP_CHUNK: &str = "256K";

/// Members of a large array that is opened.
const MANY: usize = 12;
const MANY_SIZE: u64 = 1 << 40;

/// A mirror of two files.
struct Mirror<'a> {
    binary: &'a Path,
    files: [PathBuf; 2],
    /// As our command line has it.
    expression: String,
}

impl<'a> Mirror<'a> {
    /// Two files with data of `size` and a little more, equal ones.
    fn files(binary: &'a Path, folder: &Path, size: u64) -> Result<Self> {
        Self::between(binary, [folder, folder], size)
    }

    /// The same, each in its own folder.
    fn between(binary: &'a Path, folders: [&Path; 2], size: u64) -> Result<Self> {
        let mirror = Self::named(binary, folders);
        for file in &mirror.files {
            data::fill(file, size + HEAD, 7)?;
        }
        Ok(mirror)
    }

    /// Files that are not made yet.
    fn named(binary: &'a Path, folders: [&Path; 2]) -> Self {
        let files = [
            folders[0].join("member-0.img"),
            folders[1].join("member-1.img"),
        ];
        Self {
            binary,
            expression: array(&files, ""),
            files,
        }
    }

    /// The same past the page cache.
    fn direct(mut self) -> Self {
        let file = |path: &PathBuf| format!("file({},direct=true)", path.display());
        self.expression = format!("array({},{})", file(&self.files[0]), file(&self.files[1]));
        self
    }

    /// Writes new superblocks, of an array with so much data. `how`: more of the command line.
    fn create(&self, size: u64, how: &[&str]) -> Result<()> {
        let size = size.to_string();
        let mut command = command(self.binary, "create");
        command.args(&self.files).args(["--level", "1", "--force"]);
        command.args(["--name", NAME, "--size", &size]).args(how);
        shell::output(&mut command).map(drop)
    }

    /// A command about the array that `serving` runs.
    fn ask(&self, serving: &Serving, what: &str, more: &[&str]) -> Result<Value> {
        ask(self.binary, serving, what, more)
    }

    /// How long it takes until both copies are identical.
    fn seconds_until_resynced(&self, serving: &Serving) -> Result<f64> {
        seconds_until_idle(
            self.binary,
            serving,
            "the copies of the mirror are never alike",
        )
    }

    /// Waits until no bit of the bitmap is set. In a new one all are, until something was written and a
    /// while has passed.
    fn sweep(&self, serving: &Serving) -> Result<()> {
        let first = Load {
            pattern: "write",
            block_size: WRITE,
            jobs: 1,
            depth: 1,
            rate: None,
            flushes: false,
        };
        let (size, bytes) = (LARGE, WRITE.into());
        one(serving, &first, Until::Once { size, bytes })?;
        until("the bitmap is never clear", || {
            let status = self.ask(serving, "status", &[])?;
            Ok(status["bitmap"]["dirty"] == 0)
        })
    }

    /// Its second member leaves, a little is written, and it is there again: known, or as a disk that holds nothing.
    fn come_back(&self, serving: &Serving, is_known: bool) -> Result<Sample> {
        let member = self.files[1].to_string_lossy().into_owned();
        let scattered = Load {
            pattern: "randwrite",
            block_size: WRITE,
            jobs: 1,
            depth: 32,
            rate: None,
            flushes: false,
        };
        let (size, bytes) = (LARGE, WRITES * u64::from(WRITE));
        self.ask(serving, "fail", &["--member", &member])?;
        one(serving, &scattered, Until::Once { size, bytes })?;
        self.ask(serving, "remove", &["--member", &member])?;
        let mut how = vec!["--disk", &member, "--no-wait"];
        if !is_known {
            data::hollow(&self.files[1], LARGE + HEAD)?;
            how.push("--force");
        }
        for file in &self.files {
            ready(file)?;
        }
        let before = process::bytes_written(serving.id())?;
        let start = clock::now();
        self.ask(serving, if is_known { "re-add" } else { "add" }, &how)?;
        self.seconds_until_resynced(serving)?;
        let seconds = start.elapsed().as_secs_f64();
        let copied = process::bytes_written(serving.id())? - before;
        Ok(Sample {
            seconds: Some(seconds),
            copied_mib: Some(copied / f64::from(1 << 20)),
            ..Sample::default()
        })
    }

    /// Resyncs all of it.
    fn resync(&self, launcher: &Launcher) -> Result<Sample> {
        self.create(LARGE, &[])?;
        let serving = launcher.start(Server::Ours, &self.expression)?;
        Ok(copied(LARGE, self.seconds_until_resynced(&serving)?))
    }
}

/// `array(…)` of these files.
fn array(files: &[PathBuf], more: &str) -> String {
    let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
    format!("array({}{more})", names.join(","))
}

/// A mirror in the page cache, a plain file, QEMU's mirror of two files, and the mirror of an earlier binary.
pub(super) fn load(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    load: &Load,
) -> Result<Vec<Measured>> {
    let mirror = Mirror::files(binary, &launcher.folder, DISK_SIZE)?;
    mirror.create(DISK_SIZE, &["--assume-clean"])?;
    let others = ["plain.img", "quorum-0.img", "quorum-1.img"];
    let others = others.map(|name| launcher.folder.join(name));
    for file in &others {
        data::fill(file, DISK_SIZE, 7)?;
    }
    let child = |n: usize| {
        format!(
            "children.{n}.driver=raw,children.{n}.file.driver=file,children.{n}.file.filename={}",
            others[1 + n].display()
        )
    };
    let quorum = format!(
        "driver=quorum,vote-threshold=1,read-pattern=fifo,{},{}",
        child(0),
        child(1)
    );
    let mut serving = vec![
        launcher.start(Server::Ours, &mirror.expression)?,
        launcher.start(Server::Ours, &others[0].to_string_lossy())?,
        launcher.start(Server::QemuQuorum, &quorum)?,
    ];
    let mut names = vec!["outboard mirror", "plain file", "qemu quorum"];
    let earlier = match &args.before {
        Some(binary) => Some(earlier_mirror(binary, &launcher.folder)?),
        None => None,
    };
    if let Some(earlier) = &earlier {
        serving.push(launcher.start(Server::Before, &earlier.expression)?);
        names.push("mirror before");
    }
    let earlier_files = earlier.iter().flat_map(|mirror| &mirror.files);
    let files: Vec<&PathBuf> = mirror
        .files
        .iter()
        .chain(&others)
        .chain(earlier_files)
        .collect();
    let names = names.into_iter().map(str::to_owned).collect();
    let measured = rounds(args, names, |which| {
        for file in &files {
            ready(file)?;
        }
        one(&serving[which], load, Until::Seconds(args.seconds))
    });
    drop(serving);
    remove(&mirror.files);
    if let Some(earlier) = earlier {
        remove(&earlier.files);
    }
    remove(&others);
    measured
}

/// The same mirror of an earlier binary, in a folder of its own.
fn earlier_mirror<'a>(binary: &'a Path, folder: &Path) -> Result<Mirror<'a>> {
    let folder = folder.join("before");
    std::fs::create_dir_all(&folder)?;
    let mirror = Mirror::files(binary, &folder, DISK_SIZE)?;
    mirror.create(DISK_SIZE, &["--assume-clean"])?;
    Ok(mirror)
}

/// Resync of a mirror, past the page cache, against writing its slower member in order. That
/// is a file on the real disk; the one that is read is in memory, which is as good as a second disk.
pub(super) fn resync(launcher: &Launcher, args: &Args, binary: &Path) -> Result<Vec<Measured>> {
    let memory = tempfile::tempdir_in(MEMORY).context("cannot put a member in memory")?;
    let mirror = Mirror::between(binary, [memory.path(), &launcher.folder], LARGE)?.direct();
    let plain = plain(launcher)?;
    let names = ["outboard resync", "slower member"];
    let measured = rounds(args, names.map(str::to_owned).to_vec(), |which| {
        if which == 1 {
            return in_order("write", &plain, LARGE);
        }
        mirror.resync(launcher)
    });
    std::fs::remove_file(&plain).ok();
    remove(&mirror.files);
    measured
}

/// The same where both members are on one disk, which then reads and writes at once: against the slower one of
/// doing so without an array.
pub(super) fn resync_on_one_disk(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
) -> Result<Vec<Measured>> {
    let mirror = Mirror::files(binary, &launcher.folder, LARGE)?.direct();
    let plain = plain(launcher)?;
    let names = ["outboard resync", "slower member, both busy"];
    let measured = rounds(args, names.map(str::to_owned).to_vec(), |which| {
        if which == 0 {
            return mirror.resync(launcher);
        }
        slowest_at_once(&[("read", &mirror.files[0]), ("write", &plain)], LARGE)
    });
    std::fs::remove_file(&plain).ok();
    remove(&mirror.files);
    measured
}

/// A file as large as a member, on the real disk.
fn plain(launcher: &Launcher) -> Result<PathBuf> {
    let plain = launcher.folder.join("plain.img");
    data::fill(&plain, LARGE, 8)?;
    Ok(plain)
}

/// Reads of users during a resync of a mirror, against the same without.
pub(super) fn foreground(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    load: &Load,
) -> Result<Vec<Measured>> {
    let mirror = Mirror::files(binary, &launcher.folder, LARGE)?;
    let reads = ReadsMeanwhile {
        binary,
        files: &mirror.files,
        during: "during a resync",
        was_over: "the resync was over before the reads: measure for fewer --seconds",
    };
    let measured = reads.measure(args, load, |is_clean| {
        let clean: &[&str] = if is_clean { &["--assume-clean"] } else { &[] };
        mirror.create(LARGE, clean)?;
        launcher.start(Server::Ours, &mirror.expression)
    });
    remove(&mirror.files);
    measured
}

/// A member that was away while a little was written: what the bitmap says is copied, against all of it.
///
/// Members are new files in each round, which hold nothing: both ways copy what they are to copy all the same, and
/// the bench does not wait until a disk has taken 13 GiB that no figure is about.
pub(super) fn re_add(launcher: &Launcher, args: &Args, binary: &Path) -> Result<Vec<Measured>> {
    let mirror = Mirror::named(binary, [&launcher.folder; 2]);
    let names = ["outboard re-add", "all of it"].map(str::to_owned);
    let measured = rounds(args, names.to_vec(), |which| {
        for file in &mirror.files {
            data::hollow(file, LARGE + HEAD)?;
        }
        mirror.create(LARGE, &["--assume-clean", "--bitmap", BITMAP_CHUNK])?;
        let serving = launcher.start(Server::Ours, &mirror.expression)?;
        mirror.sweep(&serving)?;
        mirror.come_back(&serving, which == 0)
    });
    remove(&mirror.files);
    measured
}

/// Opening an array of many large members that hold nothing.
pub(super) fn open(launcher: &Launcher, args: &Args, binary: &Path) -> Result<Vec<Measured>> {
    let files: Vec<PathBuf> = (0..MANY)
        .map(|number| launcher.folder.join(format!("large-{number}.img")))
        .collect();
    for file in &files {
        let made = std::fs::File::create(file);
        let made = made.with_context(|| format!("cannot make {}", file.display()))?;
        made.set_len(MANY_SIZE)?;
    }
    let mut create = Command::new(binary);
    create.args(["array", "create", "--level", "10", "--assume-clean"]);
    shell::output(create.args(["--name", NAME, "--force"]).args(&files))?;
    let expression = array(&files, "");
    let measured = rounds(args, vec!["outboard".to_owned()], |_| {
        let start = clock::now();
        let serving = launcher.start(Server::Ours, &expression)?;
        let seconds = Some(start.elapsed().as_secs_f64());
        drop(serving);
        Ok(Sample {
            seconds,
            ..Sample::default()
        })
    });
    remove(&files);
    measured
}
