//! Rows of a rebuild: how fast a member of a RAID 5 of four is rebuilt, and how that slows its users.
//!
//! Arrays are made by our own `array create`, which leaves the last member to be rebuilt, as mdadm does. The files are on one disk of
//! this machine. The peer of the rate does the same work without an array: three files are read and one is written at once, and
//! the slowest of them counts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::figures::Sample;
use super::resyncs::{HEAD, NAME, ReadsMeanwhile, copied, seconds_until_idle, slowest_at_once};
use super::work::Load;
use super::{Args, Measured, remove, rounds};
use crate::servers::{Launcher, Server, Serving};
use crate::{data, shell};

const MEMBERS: usize = 4;
/// The last one.
const REBUILT: usize = MEMBERS - 1;

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

    /// Rebuilds the last member.
    fn rebuild(&self, launcher: &Launcher) -> Result<Sample> {
        self.create(false)?;
        let serving = self.serve(launcher, ",direct=true")?;
        let never = "the member is never rebuilt";
        let seconds = seconds_until_idle(self.binary, &serving, never)?;
        Ok(copied(self.size, seconds))
    }

    /// Reads three of them and writes the last, in order and past the page cache: the slowest.
    fn at_once(&self) -> Result<Sample> {
        let pattern = |number| match number {
            REBUILT => "write",
            _ => "read",
        };
        let numbered = self.files.iter().enumerate();
        let work: Vec<_> = numbered.map(|(n, file)| (pattern(n), file)).collect();
        slowest_at_once(&work, self.size)
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
    remove(&members.files);
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
    let reads = ReadsMeanwhile {
        binary,
        files: &members.files,
        during: "during a rebuild",
        was_over: "the rebuild was over before the reads: measure for fewer --seconds, or with more --member-mib",
    };
    let measured = reads.measure(args, load, |is_clean| {
        members.create(is_clean)?;
        members.serve(launcher, "")
    });
    remove(&members.files);
    measured
}
