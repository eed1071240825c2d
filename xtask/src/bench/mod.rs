//! `cargo xtask bench`: our server and the peers in turns in one run, with the marks.
//!
//! Rounds are interleaved: each round measures every contender once, the first of them another one each
//! time, so that a drift of the machine affects all equally. Figures are medians over rounds. The servers of
//! a row all run during the row; those without requests only sleep.

mod arrays;
mod attach;
pub(crate) mod bare;
mod bucket_rows;
mod buckets;
mod busy;
mod caches;
pub(crate) mod figures;
mod fio;
mod flood;
mod generator;
mod graph;
mod guest_array;
mod idle;
mod lab_cost;
mod live_page;
mod parity;
mod parity_arrays;
mod parity_rows;
mod rbd;
mod rbd_rows;
mod rebuild;
mod report;
mod resyncs;
mod rows;
#[cfg(test)]
mod tests;
mod thin;
mod tools;
mod volume_rows;
mod volumes;
mod work;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::servers::{Launcher, Server, Serving};
use crate::{data, packages, process, shell};
use figures::Sample;
use fio::{Outcome, Target, Until};
use rows::Row;
use work::{Load, Work};

/// Size of the disk that is served.
const DISK_SIZE: u64 = 1 << 30;

/// The same in 10^6 bytes.
const DISK_MB: f64 = 1_073.741_824;

/// Most jobs that are tried on nbd-server: with 64 of them fio waits for ever for some of its processes.
const REFERENCE_JOBS_MAX: u32 = 16;

/// What the ceiling of the client that measures is called.
const NULL_DISK: &str = "outboard, null disk";

/// What to measure, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rows to measure; all when none is named.
    rows: Vec<String>,
    /// Length of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Measurements of each contender.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Only nbdkit as the peer, not nbd-server and qemu-nbd.
    #[arg(long)]
    quick: bool,
    /// Our server's command, with {disk} and {port} or {port_file}; built in release mode when not given.
    #[arg(long)]
    ours: Option<String>,
    /// An earlier binary of ours, measured in the same rounds where a row serves a file or a mirror, or attaches.
    #[arg(long)]
    before: Option<PathBuf>,
    /// Bytes that volume-move moves, in MiB.
    #[arg(long, default_value_t = 4096)]
    move_mib: u64,
    /// Data of each member that the rows rebuild and rebuild-reads rebuild, in MiB.
    #[arg(long, default_value_t = 4096)]
    member_mib: u64,
    /// Folder of the disks that are served; it should not be in memory.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// One contender of a row with what was measured of it.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Its name in the table.
    pub(crate) name: String,
    /// One for each round.
    pub(crate) samples: Vec<Sample>,
}

/// A row with all its contenders: ours first, the peer of the marks second.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) row: Row,
    pub(crate) contenders: Vec<Measured>,
}

/// Runs the rows that were selected, prints them and writes the JSON.
pub(crate) fn run(args: &Args) -> Result<()> {
    let rows = chosen(&args.rows)?;
    packages::ensure(&[packages::BENCH])?;
    let folder = args
        .folder
        .clone()
        .unwrap_or_else(|| shell::target().join("bench"));
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let needs_bucket = rows.iter().any(|row| matches!(row.work, Work::Bucket(_)));
    let binary = match &args.ours {
        Some(_) => shell::target().join("release/outboard"),
        None if needs_bucket => shell::build_release_with_bucket()?,
        None => shell::build_release()?,
    };
    let ours = args.ours.as_ref();
    let launcher = Launcher {
        ours: ours.map_or_else(|| serve_command(&binary), |text| words(text)),
        before: args.before.as_deref().map(serve_command),
        folder,
    };
    println!("{}", report::machine(args.seconds, args.rounds));
    let mut all = Vec::new();
    for row in rows {
        if let Some(lack) = lack(row) {
            println!("\n{} ({})\n  skipped: {lack}", row.title, row.name);
            continue;
        }
        let contenders = measure(&launcher, args, &binary, row)?;
        let results = Results {
            row: *row,
            contenders,
        };
        print!("{}", report::table(&results));
        std::io::stdout().flush()?;
        all.push(results);
    }
    let path = report::write_json(&launcher.folder, args.seconds, args.rounds, &all)?;
    println!("\n{}\nwritten to {}", report::summary(&all), path.display());
    Ok(())
}

/// Why a row cannot be measured on this machine.
fn lack(row: &Row) -> Option<String> {
    let needs = match row.work {
        Work::Rbd(_) | Work::RbdGuest(_) => &[packages::CEPH, packages::BENCH_CEPH],
        _ => return None,
    };
    let lack = packages::ensure(needs).err()?;
    Some(format!("{lack:#}"))
}

/// The command of a binary of ours that serves a disk on a port of its choice.
fn serve_command(binary: &Path) -> Vec<String> {
    let binary = binary.display();
    words(&format!(
        "{binary} serve {{disk}} --listen 127.0.0.1:0 --port-file {{port_file}}"
    ))
}

fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

fn chosen(names: &[String]) -> Result<Vec<&'static Row>> {
    if names.is_empty() {
        return Ok(rows::all().collect());
    }
    names
        .iter()
        .map(|name| {
            rows::all().find(|row| row.name == name).with_context(|| {
                let known: Vec<&str> = rows::all().map(|row| row.name).collect();
                format!("no row is called {name}; there are {}", known.join(", "))
            })
        })
        .collect()
}

fn measure(launcher: &Launcher, args: &Args, binary: &Path, row: &Row) -> Result<Vec<Measured>> {
    let servers: &[Server] = if args.quick {
        &[Server::Ours, Server::Nbdkit, Server::Bare]
    } else {
        &[
            Server::Ours,
            Server::Nbdkit,
            Server::Reference,
            Server::Qemu,
            Server::Bare,
        ]
    };
    match &row.work {
        Work::Wire(load) => wire(launcher, args, servers, load, false),
        Work::WireAndNull(load) => wire(launcher, args, servers, load, true),
        Work::Busy(crowd) => busy::measure(launcher, args, *crowd),
        Work::Tls => tools::tls(launcher, args, binary),
        Work::Copy(direction) => tools::copy(launcher, args, binary, *direction),
        Work::Map => tools::map(launcher, args, binary),
        Work::Flood(probe) => flood::measure(launcher, args, *probe),
        Work::Replies(crowd) => busy::replies(launcher, args, *crowd),
        Work::Direct(load) => direct(launcher, args, load),
        Work::Attached(load) => attach::measure(launcher, args, binary, load),
        Work::Composed(shape, load) => graph::composed(launcher, args, *shape, load),
        Work::OverlayFirst(load) => graph::overlay_first(launcher, args, load),
        Work::OverlayOpen => graph::overlay_open(launcher, args),
        Work::Mirror(load) => arrays::load(launcher, args, binary, load),
        Work::Resync => arrays::resync(launcher, args, binary),
        Work::ResyncOnOneDisk => arrays::resync_on_one_disk(launcher, args, binary),
        Work::Foreground(load) => arrays::foreground(launcher, args, binary, load),
        Work::ReAdd => arrays::re_add(launcher, args, binary),
        Work::ArrayOpen => arrays::open(launcher, args, binary),
        Work::ParityArray(array, load) => {
            parity_arrays::load(launcher, args, binary, (*array, load))
        }
        Work::GuestArray => guest_array::measure(args, binary),
        Work::Rebuild => rebuild::rate(launcher, args, binary),
        Work::RebuildForeground(load) => rebuild::foreground(launcher, args, binary, load),
        Work::Parity => parity::measure(args),
        Work::ParityKernel(what) => parity::kernel(args, what),
        Work::LivePage(load) => live_page::measure(launcher, args, load),
        Work::CacheWarm(load) => caches::warm(launcher, args, load),
        Work::CacheStart(load) => caches::start(launcher, args, load),
        Work::Bucket(work) => buckets::measure(launcher, args, binary, *work),
        Work::Rbd(load) => rbd::measure(launcher, args, load),
        Work::RbdGuest(load) => rbd::guest::measure(launcher, args, binary, load),
        Work::LabCost => lab_cost::measure(args, binary, &launcher.folder),
        Work::Volume(kind, load) => volumes::load(launcher, args, binary, *kind, load),
        Work::OriginFirst(load) => volumes::origin_first(launcher, args, binary, load),
        Work::VolumeMove(load) => volumes::move_extents(launcher, args, binary, load),
        Work::ThinRead(load) => thin::load(launcher, args, binary, load),
        Work::ThinOpen(load) => thin::open(launcher, args, binary, load),
        Work::VolumeUpdate => volumes::update(launcher, args, binary),
        Work::Reserved(load) => graph::reserved(launcher, args, servers, load),
        Work::Idle { connections } => idle::measure(launcher, args, *connections),
    }
}

/// fio's nbd engine against each server on the same file in the page cache; next to them, if requested, ours
/// on a disk that takes no time.
fn wire(
    launcher: &Launcher,
    args: &Args,
    servers: &[Server],
    load: &Load,
    and_null: bool,
) -> Result<Vec<Measured>> {
    let disk = disk(&launcher.folder)?;
    let text = disk.to_string_lossy();
    let servers: Vec<Server> = servers
        .iter()
        .copied()
        .filter(|server| *server != Server::Reference || load.jobs <= REFERENCE_JOBS_MAX)
        .chain(launcher.before.as_ref().map(|_| Server::Before))
        .collect();
    // Two servers of ours do not open one file for writing.
    let earlier_disk = launcher.folder.join("disk-before.img");
    if launcher.before.is_some() {
        data::fill(&earlier_disk, DISK_SIZE, 1)?;
    }
    let mut serving: Vec<Serving> = servers
        .iter()
        .map(|server| match server {
            Server::Before => launcher.start(*server, &earlier_disk.to_string_lossy()),
            _ => launcher.start(*server, &text),
        })
        .collect::<Result<_>>()?;
    let mut names: Vec<String> = servers.iter().map(ToString::to_string).collect();
    if and_null {
        serving.push(null_disk(launcher)?);
        names.push(NULL_DISK.to_owned());
    }
    rounds(args, names, |which| {
        let file = match servers.get(which) {
            Some(Server::Before) => &earlier_disk,
            _ => &disk,
        };
        ready(file)?;
        one(&serving[which], load, Until::Seconds(args.seconds))
    })
}

/// Our server on the file without the page cache, against fio on the file itself. Next to them what
/// another server makes of the same file, and ours on a disk that takes no time: the ceiling of the
/// client that measures.
fn direct(launcher: &Launcher, args: &Args, load: &Load) -> Result<Vec<Measured>> {
    let disk = disk(&launcher.folder)?;
    let path = disk.to_string_lossy();
    let ours = launcher.start(Server::Ours, &format!("file({path},direct=true)"))?;
    let peer = launcher.start(Server::QemuDirect, &path)?;
    let nothing = null_disk(launcher)?;
    let names = ["outboard", "fio io_uring", "qemu-nbd direct", NULL_DISK];
    let names = names.map(str::to_owned).to_vec();
    let until = Until::Seconds(args.seconds);
    rounds(args, names, |which| match which {
        0 => one(&ours, load, until),
        1 => Ok(fio::run(load, Target::File(&disk), until)?.sample),
        2 => one(&peer, load, until),
        _ => one(&nothing, load, until),
    })
}

/// Ours on a disk that takes no time.
fn null_disk(launcher: &Launcher) -> Result<Serving> {
    launcher.start(Server::Ours, &format!("null({DISK_SIZE})"))
}

/// Removes what a row has made.
fn remove(files: impl IntoIterator<Item = impl AsRef<Path>>) {
    for file in files {
        std::fs::remove_file(file).ok();
    }
}

/// One measurement of one server.
fn one(serving: &Serving, load: &Load, until: Until) -> Result<Sample> {
    Ok(outcome(serving, load, until)?.sample)
}

/// The same, with the number of requests.
fn outcome(serving: &Serving, load: &Load, until: Until) -> Result<Outcome> {
    let before = process::cpu_seconds(serving.id())?;
    let outcome = fio::run(load, Target::Export(&serving.uri()), until)?;
    // A server that forks has to wait for its children before their time counts.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let spent = process::cpu_seconds(serving.id())? - before;
    Ok(Outcome {
        sample: Sample {
            server_cpu_us: Some(spent * 1e6 / outcome.requests),
            ..outcome.sample
        },
        ..outcome
    })
}

/// Measures every contender once a round, each round beginning with another one.
fn rounds(
    args: &Args,
    names: Vec<String>,
    mut one: impl FnMut(usize) -> Result<Sample>,
) -> Result<Vec<Measured>> {
    let count = names.len();
    let mut measured: Vec<Measured> = names
        .into_iter()
        .map(|name| Measured {
            name,
            samples: Vec::new(),
        })
        .collect();
    for round in 0..args.rounds as usize {
        for step in 0..count {
            let which = (round + step) % count;
            let name = measured[which].name.clone();
            let sample = one(which).with_context(|| format!("while measuring {name}"))?;
            measured[which].samples.push(sample);
        }
    }
    Ok(measured)
}

/// The disk that is served: a file of pseudo-random bytes, written again so that all of it is in the
/// page cache, and in small folios.
fn disk(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("disk.img");
    data::fill(&path, DISK_SIZE, 1)?;
    Ok(path)
}

/// Readies a file for the next measurement: what an earlier one dirtied is not written back during it, and
/// what the kernel took out of the page cache since is there again.
fn ready(path: &Path) -> Result<()> {
    open(path, std::fs::OpenOptions::new().write(true))?.sync_data()?;
    data::warm(path)
}

fn open(path: &Path, options: &std::fs::OpenOptions) -> Result<std::fs::File> {
    match options.open(path) {
        Ok(file) => Ok(file),
        Err(error) => bail!("cannot open {}: {error}", path.display()),
    }
}
