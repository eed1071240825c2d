//! `cargo xtask soak`: hundreds of clients that connect, read, write and are killed at any moment, in
//! rounds, against one server. `cargo xtask soak plans` runs the lab's plans in full instead,
//! `cargo xtask soak worlds` thousands of seeded worlds, `cargo xtask soak doctor` the doctor on rigged systems,
//! `cargo xtask soak lab` the lab against fio by hand, and `cargo xtask soak bucket` kills of the server of a volume on an object store.
//!
//! Each client has a region of a disk for itself and knows what every byte of it may be ([`region`]); each
//! life begins by reading all of it, and at the end the images are read past the server. Between two rounds,
//! when no client is there, the server must have given back every descriptor and its memory. Each round ends with
//! [floods](flood). Decisions come from a seed, which is printed; how the machine interleaves them does not.

mod bucket;
mod doctor;
mod flood;
mod lab;
mod place;
mod plans;
mod programs;
mod raw;
mod region;
#[cfg(test)]
mod tests;
mod watch;
mod worlds;

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{clock, packages, process, shell, wire};
use place::{Image, Place, SHARED};
use raw::Client;
use region::Region;

/// Length of a client's region of the shared disk.
const REGION_LEN: usize = 256 << 10;

/// Most clients: the serials of their writes must not meet.
const CLIENTS_MAX: u32 = 4000;

/// Writes of one client before its serials would meet those of the next.
const SERIALS: u32 = 1 << 20;

/// How long the server may take to let go of the clients of a round.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// What the data of the server without clients may grow in memory by after the first round, in KiB, and as a part
/// of what it was: the allocator keeps what the largest moment needed.
const GROWTH_KIB: f64 = 16.0 * 1024.0;
const GROWTH: f64 = 1.25;

/// What is soaked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Subject {
    /// One server, by hundreds of clients.
    Clients,
    /// Every plan of the lab: each of its tests on each of its targets. The options are those of the clients.
    Plans,
    /// Seeded worlds of arrays, moves and clients: `--count` of each kind, from `--seed` on.
    Worlds,
    /// Rigged systems, with the doctor's verdict on each. The options are those of the clients.
    Doctor,
    /// The server of a volume on an object store, killed under writes and flushes: `--rounds` of them, from `--seed` on.
    Bucket,
    /// The lab held against fio by hand with the same flags, in turns. It takes --quick and --binary.
    Lab,
}

/// How long, and how many.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is soaked.
    #[arg(value_enum, default_value_t = Subject::Clients)]
    subject: Subject,
    /// How long.
    #[arg(long, default_value_t = 5)]
    minutes: u32,
    /// Clients at once.
    #[arg(long, default_value_t = 300)]
    clients: u32,
    /// Rounds, with a look at the idle server after each; of kills, with a check of the volume.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// What the decisions come from; another one each time when not given. Of worlds the first one, and of kills, 0 when not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Worlds of each kind.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=worlds::COUNT_MAX))]
    count: u64,
    /// The server's binary; built in release mode when not given.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Fewer rounds of the lab.
    #[arg(long)]
    quick: bool,
}

/// What clients did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    lives: u64,
    killed: u64,
    requests: u64,
    bytes: u64,
}

/// What a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Raw,
    Nbdsh,
    Copy,
    QemuIo,
}

/// One client, over all its lives.
#[derive(Debug)]
struct Slot {
    kind: Kind,
    export: String,
    region: Region,
    dice: fastrand::Rng,
    serial: u32,
}

/// The idle server after a round.
#[derive(Debug, Clone, Copy)]
struct Idle {
    descriptors: usize,
    memory_kib: f64,
}

/// Runs the soak.
pub(crate) fn run(args: &Args) -> Result<()> {
    match args.subject {
        Subject::Clients => {}
        Subject::Plans => return plans::run(),
        Subject::Worlds => return worlds::run(args.count, args.seed.unwrap_or(0)),
        Subject::Doctor => return doctor::run(),
        Subject::Bucket => return bucket::run(args.rounds, args.seed.unwrap_or(0)),
        Subject::Lab => return lab::run(args.binary.as_deref(), args.quick),
    }
    packages::ensure(&[packages::SOAK])?;
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => shell::build_release()?,
    };
    let length = Duration::from_secs(60 * u64::from(args.minutes)) / args.rounds.max(1);
    soak(args, &binary, length)
}

/// A short one of `binary`, for every change.
pub(crate) fn brief(binary: &Path) -> Result<()> {
    const ROUNDS: u32 = 4;
    let args = Args {
        subject: Subject::Clients,
        minutes: 0,
        clients: 100,
        rounds: ROUNDS,
        seed: None,
        count: 0,
        binary: None,
        quick: false,
    };
    soak(&args, binary, Duration::from_secs(20) / ROUNDS)
}

fn soak(args: &Args, binary: &Path, length: Duration) -> Result<()> {
    ensure!(
        (1..=CLIENTS_MAX).contains(&args.clients),
        "from 1 to {CLIENTS_MAX} clients"
    );
    ensure!(args.rounds >= 2, "growth shows between two rounds at least");
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("soak --seed {seed} --clients {}", args.clients);
    process::allow_files(4 * args.clients)?;
    let folder = shell::target().join("soak");
    std::fs::create_dir_all(&folder).context("no folder for the soak")?;
    let (mut slots, images) = slots(args.clients, seed);
    let place = Place::start(binary, &folder, &images)?;
    let mut after = Vec::new();
    println!("before round 1: {}", flood::all(&place)?);
    for number in 1..=args.rounds {
        let (tally, peak_kib) = round(&place, &mut slots, length)?;
        let longest = flood::round(&place, number)?;
        let idle = idle(&place, after.first())?;
        println!(
            "round {number}: {} lives, {} of them killed, {} requests, {} MiB; at most {:.0} MiB, idle {:.1} MiB and {} descriptors; {}",
            tally.lives,
            tally.killed,
            tally.requests,
            tally.bytes >> 20,
            peak_kib / 1024.0,
            idle.memory_kib / 1024.0,
            idle.descriptors,
            longest
        );
        after.push(idle);
    }
    for slot in &mut slots {
        let mut tally = Tally::default();
        slot.client(&place, &mut tally).check()?;
    }
    let floods = flood::begin(&place, wire::BLOCK_STATUS)?;
    place.stop(flood::STOP_LIMIT)?;
    drop(floods);
    check_growth(&after)?;
    check_images(&folder, &mut slots)?;
    println!("nothing lost, nothing leaked");
    Ok(())
}

/// The clients and the images they work on.
fn slots(count: u32, seed: u64) -> (Vec<Slot>, Vec<Image>) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut slots = Vec::new();
    let mut shared = 0;
    let mut images = Vec::new();
    for number in 0..count {
        let kind = match number % 16 {
            1 => Kind::Nbdsh,
            2 => Kind::Copy,
            3 => Kind::QemuIo,
            _ => Kind::Raw,
        };
        let (export, start) = if kind == Kind::Copy {
            let export = place::own_export(slots.len());
            images.push(Image {
                export: export.clone(),
                size: REGION_LEN as u64,
            });
            (export, 0)
        } else {
            shared += REGION_LEN as u64;
            (SHARED.to_owned(), shared - REGION_LEN as u64)
        };
        slots.push(Slot {
            kind,
            export,
            region: Region::new(start, REGION_LEN),
            dice: dice.fork(),
            serial: number * SERIALS,
        });
    }
    images.insert(
        0,
        Image {
            export: SHARED.to_owned(),
            size: shared.max(REGION_LEN as u64),
        },
    );
    images.push(flood::image());
    (slots, images)
}

/// All clients at once until the time is over; what they did, and the most memory the server had.
fn round(place: &Place, slots: &mut [Slot], length: Duration) -> Result<(Tally, f64)> {
    let until = clock::now() + length;
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lives: Vec<_> = slots
            .iter_mut()
            .map(|slot| {
                let failed = &failed;
                scope.spawn(move || {
                    let lived = slot.live(place, until, failed);
                    failed.fetch_or(lived.is_err(), Ordering::Relaxed);
                    lived
                })
            })
            .collect();
        let mut peak = 0.0_f64;
        while lives.iter().any(|life| !life.is_finished()) {
            peak = peak.max(process::data_kib(place.server())?);
            std::thread::sleep(Duration::from_millis(200));
        }
        let mut total = Tally::default();
        for life in lives {
            let Ok(lived) = life.join() else {
                bail!("a client panicked");
            };
            total.add(lived?);
        }
        Ok((total, peak))
    })
}

/// Waits until the server has let go of everything, if it ever does.
fn idle(place: &Place, first: Option<&Idle>) -> Result<Idle> {
    let mut last = 0;
    let mut looks = 0;
    // After the first round nothing is known to compare with: it is enough that nothing changes any more.
    clock::poll(IDLE_LIMIT, || {
        let now = watch::descriptors(place.server()).unwrap_or_default();
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
        let enough = first.is_none_or(|first| now <= first.descriptors);
        (enough && looks >= 50).then_some(())
    });
    if let Some(first) = first {
        ensure!(
            last <= first.descriptors,
            "the idle server has {last} descriptors and had {} after the first round",
            first.descriptors
        );
    }
    Ok(Idle {
        descriptors: last,
        memory_kib: process::data_kib(place.server())?,
    })
}

fn check_growth(after: &[Idle]) -> Result<()> {
    let (Some(first), Some(last)) = (after.first(), after.last()) else {
        bail!("no round was run");
    };
    let most = (first.memory_kib * GROWTH).max(first.memory_kib + GROWTH_KIB);
    ensure!(
        last.memory_kib <= most,
        "the idle server has {:.0} KiB and had {:.0} KiB after the first round",
        last.memory_kib,
        first.memory_kib
    );
    Ok(())
}

/// What is in the images now that the server is gone.
fn check_images(folder: &Path, slots: &mut [Slot]) -> Result<()> {
    for (number, slot) in slots.iter_mut().enumerate() {
        let path = folder.join(&slot.export);
        let file = std::fs::OpenOptions::new().read(true).open(&path)?;
        let mut found = vec![0; slot.region.len()];
        file.read_exact_at(&mut found, slot.region.start())?;
        let what = || format!("{} as client {number} left it", path.display());
        slot.region.read(0, &found).with_context(what)?;
    }
    Ok(())
}

impl Slot {
    fn client<'a>(&'a mut self, place: &'a Place, tally: &'a mut Tally) -> Client<'a> {
        Client {
            place,
            export: &self.export,
            region: &mut self.region,
            dice: &mut self.dice,
            serial: &mut self.serial,
            tally,
        }
    }

    /// One life after the other until the time is over or another client found something wrong.
    fn live(&mut self, place: &Place, until: Instant, failed: &AtomicBool) -> Result<Tally> {
        let mut tally = Tally::default();
        while clock::now() < until && !failed.load(Ordering::Relaxed) {
            let kind = self.kind;
            let what = format!("{kind:?} at {} of {}", self.region.start(), self.export);
            let mut client = self.client(place, &mut tally);
            let lived = match kind {
                Kind::Raw => client.live(until),
                Kind::Nbdsh => client.check().and_then(|()| client.nbdsh()),
                Kind::Copy => client.check().and_then(|()| client.copy()),
                Kind::QemuIo => client.check().and_then(|()| client.qemu_io()),
            };
            lived.context(what)?;
            tally.lives += 1;
        }
        Ok(tally)
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.lives += other.lives;
        self.killed += other.killed;
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}
