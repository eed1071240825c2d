//! Rows of arrays with parity: what they cost against the disk with the same data and no redundancy.
//!
//! Members are files in the page cache, made by our own `array create` and resynced before anything is measured. The peer is
//! served by our server too: a stripe over as many files as the array has data members, or one plain file. An array with a
//! log flushes its members while it is written, which a plain file does not: what logs cost themselves is measured with
//! files in memory, and what the disk's flushes add with files on the disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::arrays::MEMORY;
use super::fio::Until;
use super::resyncs::{HEAD, NAME};
use super::work::{Load, ParityArray, ParityPeer};
use super::{Args, DISK_SIZE, Measured, one, ready, remove, rounds};
use crate::servers::{Launcher, Server};
use crate::{data, shell};

/// Chunk of arrays and of stripes.
const CHUNK: u64 = 512 << 10;

/// A complete array or a degraded one, as files.
struct ArrayFiles {
    members: Vec<PathBuf>,
    journal: Option<PathBuf>,
    expression: String,
}

impl ArrayFiles {
    /// Makes them in a folder with a binary of ours, and waits until parity fits.
    fn make(binary: &Path, folder: &Path, (array, size): (ParityArray, u64)) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let named = |n: usize| folder.join(format!("parity-{n}.img"));
        let members: Vec<PathBuf> = (0..array.members).map(named).collect();
        let journal = (array.policy == "journal").then(|| folder.join("journal.img"));
        for file in members.iter().chain(&journal) {
            data::fill(file, size + HEAD, 7)?;
        }
        create(binary, (&members, journal.as_deref()), (array, size))?;
        let (gone, here) = members.split_at(array.missing);
        for file in gone {
            std::fs::remove_file(file)?;
        }
        let run = if gone.is_empty() { "" } else { ",run=true" };
        let all: Vec<PathBuf> = here.iter().chain(&journal).cloned().collect();
        Ok(Self {
            expression: format!("array({}{run})", list(&all)),
            members: here.to_vec(),
            journal,
        })
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.members.iter().chain(&self.journal)
    }
}

/// fio's load on the array, on its peer, and on the same array of an earlier binary.
pub(super) fn load(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    (array, load): (ParityArray, &Load),
) -> Result<Vec<Measured>> {
    let memory = match array.in_memory {
        true => Some(tempfile::tempdir_in(MEMORY).context("cannot put members in memory")?),
        false => None,
    };
    let folder = memory
        .as_ref()
        .map_or(launcher.folder.as_path(), |memory| memory.path());
    let (peer, peers) = match array.peer {
        ParityPeer::Stripe => {
            let named = |n: usize| folder.join(format!("stripe-{n}.img"));
            let files: Vec<PathBuf> = (0..array.data()).map(named).collect();
            (format!("stripe({},chunk={CHUNK})", list(&files)), files)
        }
        ParityPeer::File => {
            let file = folder.join("plain-0.img");
            (file.display().to_string(), vec![file])
        }
    };
    let size = DISK_SIZE / array.data() as u64 / CHUNK * CHUNK;
    for file in &peers {
        data::fill(file, size * array.data() as u64 / peers.len() as u64, 7)?;
    }
    let mut arrays = vec![ArrayFiles::make(binary, folder, (array, size))?];
    let mut serving = vec![
        launcher.start(Server::Ours, &arrays[0].expression)?,
        launcher.start(Server::Ours, &peer)?,
    ];
    let mut names = vec![array.to_string(), array.peer.to_string()];
    if let Some(earlier) = &args.before {
        let files = ArrayFiles::make(earlier, &folder.join("before"), (array, size))?;
        serving.push(launcher.start(Server::Before, &files.expression)?);
        names.push(format!("{array} before"));
        arrays.push(files);
    }
    let files: Vec<&PathBuf> = arrays
        .iter()
        .flat_map(ArrayFiles::all)
        .chain(&peers)
        .collect();
    let measured = rounds(args, names, |which| {
        for file in &files {
            ready(file)?;
        }
        one(&serving[which], load, Until::Seconds(args.seconds))
    });
    drop(serving);
    remove(files);
    measured
}

/// Makes the array, and waits until its parity fits.
fn create(
    binary: &Path,
    (members, journal): (&[PathBuf], Option<&Path>),
    (array, size): (ParityArray, u64),
) -> Result<()> {
    let mut create = Command::new(binary);
    create.args(["array", "create", "--force", "--name", NAME]);
    create.args(["--level", &array.level.to_string()]);
    create.args(["--consistency-policy", array.policy]);
    create.args(["--size", &size.to_string(), "--chunk", &CHUNK.to_string()]);
    if let Some(journal) = journal {
        create.arg("--journal").arg(journal);
    }
    shell::output(create.args(members))?;
    let mut wait = Command::new(binary);
    shell::output(wait.args(["array", "wait"]).args(members).args(journal)).map(drop)
}

fn list(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
    names.join(",")
}
