//! Rows in which a whole program is timed, from its start to its end: our tools against those of others.
//!
//! All do the same work on the same data, each with the number of connections and requests that it takes by
//! itself, and all of them flush what they wrote before they end.

use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::figures::Sample;
use super::work::Direction;
use super::{Args, DISK_MB, Measured, disk, open, ready, rounds};
use crate::servers::{Launcher, Server};
use crate::{clock, data, process, shell};

/// Bytes of a request over TLS.
const TLS_REQUEST: u32 = 1 << 20;

/// Size of the disk that is copied.
const SPARSE_SIZE: u64 = 10 << 30;

/// Its data: this many pieces, each as far from the next as fills the disk.
const SPARSE_PIECES: u64 = 1024;
const SPARSE_PIECE: u64 = 1 << 20;

/// Memory that a copy is going to fill, its target in the page cache most of all.
const MEMORY_NEEDED: u64 = 3 << 30;

/// Extents of the file that is mapped: one block of data, one block of a hole, and so on.
const EXTENTS: u64 = 100_000;
const EXTENT_LEN: u64 = 4 << 10;

/// nbdcopy reads a whole disk over TLS, from ours and from nbdkit with GnuTLS.
pub(super) fn tls(launcher: &Launcher, args: &Args, binary: &Path) -> Result<Vec<Measured>> {
    let disk = disk(&launcher.folder)?;
    let certificates = launcher.folder.join("certificates");
    if certificates.exists() {
        std::fs::remove_dir_all(&certificates)?;
    }
    let mut init = command(binary, &["tls", "init"]);
    shell::output(init.arg(&certificates))?;
    let serving = launcher.start_tls(&disk.to_string_lossy(), &certificates)?;
    let names = [Server::Ours, Server::Nbdkit].map(|server| server.to_string());
    rounds(args, names.to_vec(), |which| {
        let server = &serving[which];
        let uri = format!(
            "nbds://localhost:{}/?tls-certificates={}",
            server.port(),
            certificates.display()
        );
        let size = format!("--request-size={TLS_REQUEST}");
        ready(&disk)?;
        let before = process::cpu_seconds(server.id())?;
        let sample = timed(&mut command("nbdcopy", &[&size, &uri, "null:"]))?;
        let spent = process::cpu_seconds(server.id())? - before;
        Ok(Sample {
            mb_per_cpu_s: Some(DISK_MB / spent),
            mb_per_s: sample.seconds.map(|seconds| DISK_MB / seconds),
            ..sample
        })
    })
}

/// Copies a sparse disk with each of the tools, to or from our server.
pub(super) fn copy(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    direction: Direction,
) -> Result<Vec<Measured>> {
    let source = launcher.folder.join("sparse.img");
    let target = launcher.folder.join("copy.img");
    pieces(
        &source,
        Pieces {
            size: SPARSE_SIZE,
            count: SPARSE_PIECES,
            len: SPARSE_PIECE,
        },
    )?;
    let names = ["outboard copy", "nbdcopy", "qemu-img convert"];
    let outcome = rounds(args, names.map(str::to_owned).to_vec(), |which| {
        std::fs::remove_file(&target).ok();
        ready(&source)?;
        let served = match direction {
            Direction::Up => {
                make_empty(&target)?;
                &target
            }
            Direction::Down => &source,
        };
        let serving = launcher.start(Server::Ours, &served.to_string_lossy())?;
        let uri = serving.uri();
        let (from, to) = match direction {
            Direction::Up => (source.to_string_lossy().into_owned(), uri),
            Direction::Down => (uri, target.to_string_lossy().into_owned()),
        };
        let mut command = match which {
            0 => command(binary, &["copy", &from, &to]),
            1 => command("nbdcopy", &["--flush", &from, &to]),
            _ => qemu_img_convert(direction, &from, &to),
        };
        data::warm(&source)?;
        touch_memory(MEMORY_NEEDED)?;
        let sample = timed(&mut command)?;
        drop(serving);
        compare(&source, &target)?;
        Ok(sample)
    });
    std::fs::remove_file(&target).ok();
    std::fs::remove_file(&source).ok();
    outcome
}

fn qemu_img_convert(direction: Direction, from: &str, to: &str) -> Command {
    let mut args = vec!["convert", "-W", "-t", "writeback", "-f", "raw", "-O", "raw"];
    if direction == Direction::Up {
        args.push("-n");
    }
    args.extend([from, to]);
    command("qemu-img", &args)
}

/// Reports which parts of a disk hold data: each client with its own server, and theirs with ours. The file
/// stays for the next time: a filesystem may take minutes to free so many extents.
pub(super) fn map(launcher: &Launcher, args: &Args, binary: &Path) -> Result<Vec<Measured>> {
    let disk = launcher.folder.join("extents.img");
    let wanted = Pieces {
        size: EXTENTS * EXTENT_LEN,
        count: EXTENTS / 2,
        len: EXTENT_LEN,
    };
    if !is_there(&disk, wanted) {
        pieces(&disk, wanted)?;
    }
    let text = disk.to_string_lossy();
    let ours = launcher.start(Server::Ours, &text)?;
    let nbdkit = launcher.start(Server::Nbdkit, &text)?;
    let names = ["outboard inspect", "nbdinfo, nbdkit", "nbdinfo, outboard"];
    let outcome = rounds(args, names.map(str::to_owned).to_vec(), |which| {
        let nbdinfo = |uri: &str| command("nbdinfo", &["--map", "--json", uri]);
        let mut command = match which {
            0 => command(binary, &["inspect", "--map", "--json", &ours.uri()]),
            1 => nbdinfo(&nbdkit.uri()),
            _ => nbdinfo(&ours.uri()),
        };
        timed(&mut command)
    });
    drop((ours, nbdkit));
    outcome
}

fn command(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// Runs a program to its end, which must be a good one.
fn timed(command: &mut Command) -> Result<Sample> {
    let start = clock::now();
    shell::output(command)?;
    Ok(Sample {
        seconds: Some(start.elapsed().as_secs_f64()),
        ..Sample::default()
    })
}

/// Equal pieces of data at equal distances, and holes between them.
#[derive(Debug, Clone, Copy)]
struct Pieces {
    size: u64,
    count: u64,
    len: u64,
}

/// Whether an earlier run wrote all of them.
fn is_there(path: &Path, pieces: Pieces) -> bool {
    std::fs::metadata(path).is_ok_and(|found| {
        let data = found.blocks() * 512;
        found.len() == pieces.size && (pieces.count * pieces.len..pieces.size).contains(&data)
    })
}

fn pieces(path: &Path, pieces: Pieces) -> Result<()> {
    let content = path.with_extension("content");
    data::fill(&content, pieces.len, 3)?;
    let mut piece = std::fs::read(&content)?;
    std::fs::remove_file(&content)?;
    let what = || format!("cannot write {}", path.display());
    let file = std::fs::File::create(path).with_context(what)?;
    file.set_len(pieces.size).with_context(what)?;
    let distance = pieces.size / pieces.count;
    for number in 0..pieces.count {
        // No two pieces are the same, so that none can stand for another.
        piece[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all_at(&piece, number * distance)
            .with_context(what)?;
    }
    file.sync_all().with_context(what)
}

/// Writes into so much free memory, or half of what there is, and lets it go. A virtual machine may have
/// given memory that was freed back to its host, and to get a page of it again takes longer than to copy
/// one: the second one measured would find cached what the first one had to request.
fn touch_memory(bytes: u64) -> Result<()> {
    let half = process::available_memory()? / 2;
    let bytes = usize::try_from(bytes.min(half))?;
    std::hint::black_box(vec![1_u8; bytes]);
    Ok(())
}

fn make_empty(path: &Path) -> Result<()> {
    let file = open(
        path,
        std::fs::OpenOptions::new().write(true).create_new(true),
    )?;
    file.set_len(SPARSE_SIZE)
        .with_context(|| format!("cannot size {}", path.display()))
}

/// A copy that is not the same is no measurement.
fn compare(source: &Path, target: &Path) -> Result<()> {
    let mut command = command("qemu-img", &["compare", "-f", "raw", "-F", "raw"]);
    shell::output(command.arg(source).arg(target))
        .context("a copy differs from what was copied")
        .map(drop)
}
