//! Rows of arrays with parity: what they cost against the disk with the same data and no redundancy.
//!
//! Members are files in the page cache, made by our own `array create` and resynced before anything is measured. The peer is
//! served by our server too: a stripe over as many files as the array has data members, or one plain file.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::fio::Until;
use super::work::{Load, ParityArray, ParityPeer};
use super::{Args, DISK_SIZE, Measured, one, ready, rounds};
use crate::servers::{Launcher, Server};
use crate::{data, shell};

/// Besides its data a member has superblock, bitmap or log, and room for more.
const HEAD: u64 = 64 << 20;

/// Chunk of arrays and of stripes.
const CHUNK: u64 = 512 << 10;

/// fio's load on the array and on its peer.
pub(super) fn load(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    (array, load): (ParityArray, &Load),
) -> Result<Vec<Measured>> {
    let folder = &launcher.folder;
    let named = |name: &str, n: usize| folder.join(format!("{name}-{n}.img"));
    let members: Vec<PathBuf> = (0..array.members).map(|n| named("parity", n)).collect();
    let (peer, peers) = match array.peer {
        ParityPeer::Stripe => {
            let files: Vec<PathBuf> = (0..array.data()).map(|n| named("stripe", n)).collect();
            (format!("stripe({},chunk={CHUNK})", list(&files)), files)
        }
        ParityPeer::File => {
            let file = named("plain", 0);
            (file.display().to_string(), vec![file])
        }
    };
    let size = DISK_SIZE / array.data() as u64 / CHUNK * CHUNK;
    for file in &members {
        data::fill(file, size + HEAD, 7)?;
    }
    for file in &peers {
        data::fill(file, size * array.data() as u64 / peers.len() as u64, 7)?;
    }
    create(binary, &members, (array, size))?;
    let (gone, here) = members.split_at(array.missing);
    for file in gone {
        std::fs::remove_file(file)?;
    }
    let run = if gone.is_empty() { "" } else { ",run=true" };
    let ours = launcher.start(Server::Ours, &format!("array({}{run})", list(here)))?;
    let serving = [ours, launcher.start(Server::Ours, &peer)?];
    let names = vec![array.to_string(), array.peer.to_string()];
    let measured = rounds(args, names, |which| {
        for file in here.iter().chain(&peers) {
            ready(file)?;
        }
        one(&serving[which], load, Until::Seconds(args.seconds))
    });
    drop(serving);
    for file in here.iter().chain(&peers) {
        std::fs::remove_file(file).ok();
    }
    measured
}

/// Makes the array, and waits until its parity fits.
fn create(binary: &Path, members: &[PathBuf], (array, size): (ParityArray, u64)) -> Result<()> {
    let mut create = Command::new(binary);
    create.args(["array", "create", "--force", "--name", "bench"]);
    create.args(["--level", &array.level.to_string()]);
    create.args(["--consistency-policy", array.policy]);
    create.args(["--size", &size.to_string(), "--chunk", &CHUNK.to_string()]);
    shell::output(create.args(members))?;
    let mut wait = Command::new(binary);
    shell::output(wait.args(["array", "wait"]).args(members)).map(drop)
}

fn list(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
    names.join(",")
}
