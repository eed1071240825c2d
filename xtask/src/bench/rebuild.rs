//! Rows of a rebuild: how fast a member of a RAID 5 of four is rebuilt, and how that slows its users.
//!
//! Arrays are made by our own `array create`, which leaves the last member to be rebuilt, as mdadm does. The files are on one disk of
//! this machine. The peer of the rate does the same work without an array: three files are read and one is written at once, and
//! the slowest of them counts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::arrays::until;
use super::figures::Sample;
use super::fio::{self, Target, Until};
use super::work::Load;
use super::{Args, Measured, one, rounds};
use crate::servers::{Launcher, Server, Serving};
use crate::{clock, data, shell};

const NAME: &str = "bench";
const MEMBERS: usize = 4;
/// Besides its data a member has superblock, bitmap and room for more.
const HEAD: u64 = 64 << 20;

/// Members of an array, as files.
struct Members<'a> {
    binary: &'a Path,
    files: Vec<PathBuf>,
    /// Bytes of each that are data.
    size: u64,
}

impl<'a> Members<'a> {
    fn fill(launcher: &Launcher, args: &Args, binary: &'a Path) -> Result<Self> {
        let named = |n| launcher.folder.join(format!("rebuild-{n}.img"));
        let members = Self {
            binary,
            files: (0..MEMBERS).map(named).collect(),
            size: args.member_mib << 20,
        };
        for file in &members.files {
            data::fill(file, members.size + HEAD, 7)?;
        }
        Ok(members)
    }

    /// Writes new superblocks. The last member is to be rebuilt, unless the array counts as in sync.
    fn create(&self, is_clean: bool) -> Result<()> {
        let mut create = Command::new(self.binary);
        create.args(["array", "create", "--force", "--name", NAME, "--level", "5"]);
        create.args(["--size", &self.size.to_string()]);
        create.args(["--consistency-policy", "bitmap"]);
        create.args(is_clean.then_some("--assume-clean"));
        shell::output(create.args(&self.files)).map(drop)
    }

    fn serve(&self, launcher: &Launcher, how: &str) -> Result<Serving> {
        let file = |path: &PathBuf| format!("file({}{how})", path.display());
        let files: Vec<String> = self.files.iter().map(file).collect();
        launcher.start(Server::Ours, &format!("array({})", files.join(",")))
    }

    /// Whether a member is being rebuilt.
    fn is_busy(&self, serving: &Serving) -> Result<bool> {
        let mut status = Command::new(self.binary);
        status.args(["array", "status", NAME, "--json"]);
        let printed = shell::output(status.args(["--server", &serving.id().to_string()]))?;
        let status: Value = serde_json::from_str(&printed)
            .with_context(|| format!("`array status` printed {printed}"))?;
        let members = status["members"].as_array().context("no members")?;
        let behind = |member: &Value| member["state"] != "in_sync";
        Ok(!status["sync"].is_null() || members.iter().any(behind))
    }

    /// Rebuilds the last member.
    fn rebuild(&self, launcher: &Launcher) -> Result<Sample> {
        self.create(false)?;
        let serving = self.serve(launcher, ",direct=true")?;
        let start = clock::now();
        until("the member is never rebuilt", || {
            Ok(!self.is_busy(&serving)?)
        })?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Sample {
            mb_per_s: Some(self.size as f64 / 1e6 / seconds),
            seconds: Some(seconds),
            ..Sample::default()
        })
    }

    /// Reads three of them and writes the last, in order and past the page cache: the slowest.
    fn at_once(&self) -> Result<Sample> {
        let size = self.size;
        let work = |number: usize| {
            let pattern = if number == MEMBERS - 1 {
                "write"
            } else {
                "read"
            };
            let load = Load {
                pattern,
                block_size: 1 << 20,
                jobs: 1,
                depth: 8,
                rate: None,
            };
            let until = Until::Once { size, bytes: size };
            fio::run(&load, Target::Scratch(&self.files[number]), until)
        };
        let outcomes: Vec<Result<fio::Outcome>> = std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..MEMBERS)
                .map(|number| scope.spawn(move || work(number)))
                .collect();
            let ended = threads.into_iter();
            ended
                .map(|thread| thread.join().expect("fio does not panic"))
                .collect()
        });
        let mut slowest = f64::MAX;
        for outcome in outcomes {
            let rate = outcome?.sample.mb_per_s.context("fio has no rate")?;
            slowest = slowest.min(rate);
        }
        Ok(Sample {
            mb_per_s: Some(slowest),
            ..Sample::default()
        })
    }

    fn remove(&self) {
        for file in &self.files {
            std::fs::remove_file(file).ok();
        }
    }
}

/// How fast a member is rebuilt, past the page cache.
pub(super) fn rate(launcher: &Launcher, args: &Args, binary: &Path) -> Result<Vec<Measured>> {
    let members = Members::fill(launcher, args, binary)?;
    let names = ["outboard rebuild", "slowest member, all busy"];
    let measured = rounds(
        args,
        names.map(str::to_owned).to_vec(),
        |which| match which {
            0 => members.rebuild(launcher),
            _ => members.at_once(),
        },
    );
    members.remove();
    measured
}

/// Reads of users during a rebuild, against the same without.
pub(super) fn foreground(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    load: &Load,
) -> Result<Vec<Measured>> {
    let members = Members::fill(launcher, args, binary)?;
    let names = ["during a rebuild", "without"].map(str::to_owned);
    let measured = rounds(args, names.to_vec(), |which| {
        members.create(which == 1)?;
        let serving = members.serve(launcher, "")?;
        let sample = one(&serving, load, Until::Seconds(args.seconds))?;
        ensure!(
            members.is_busy(&serving)? == (which == 0),
            "the rebuild was over before the reads: measure for fewer --seconds, or with more --member-mib"
        );
        Ok(sample)
    });
    members.remove();
    measured
}
