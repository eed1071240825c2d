//! The work of the rows of volumes on object stores.
//!
//! Each measurement starts the server of its contender and ends it, so that no other one compacts or collects meanwhile. What is counted
//! of the store is what its proxy counted.

mod boot;
mod contender;
mod libnbd;
mod ninep;
pub(super) mod probe;
// The one of the tests: built in here, since a dependency on their crate would make every command of this one wait for a runtime.
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the tests need more of it, from another crate"
)]
#[path = "../../../../crates/testkit/src/s3/proxy.rs"]
mod proxy;
mod store;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use self::boot::Pace;
use self::contender::{Contender, Site};
use self::probe::{BLOCK, Probe};
use self::proxy::RequestCounts;
use self::store::ObjectStore;
use super::figures::Sample;
use super::fio::Until;
use super::rows::load;
use super::work::{BootClient, BucketWork, Load};
use super::{Args, DISK_SIZE, Measured, one, outcome, rounds};
use crate::servers::{Launcher, Serving};
use crate::{clock, process, s3_servers};

/// When a server that ends counts as stuck.
const END_LIMIT: Duration = Duration::from_secs(300);
/// Data of the rows of space.
const SPACE_DATA: u64 = 512 << 20;
/// What an idle volume has before it counts as idle: time for what it does behind its last change.
const SETTLE: Duration = Duration::from_secs(60);
/// When a server that was started counts as settled: fewer bytes to and from the store in one step.
const SETTLE_STEP: Duration = Duration::from_secs(1);
const SETTLED_BYTES: u64 = 1 << 20;
/// It is measured after this time all the same.
const SETTLE_MAX: Duration = Duration::from_secs(180);
/// How long its requests are counted: a multiple of every interval that it polls at.
const IDLE: Duration = Duration::from_secs(120);
/// Behind what the second collection deletes, in case clocks differ.
const COLLECTION_MARGIN: Duration = Duration::from_secs(5);

/// Measures one row.
pub(super) fn measure(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    work: BucketWork,
) -> Result<Vec<Measured>> {
    let programs = s3_servers::install_for_bench()?;
    let folder = tempfile::tempdir_in(&launcher.folder)?;
    let store = ObjectStore::start(&programs.versitygw, folder.path())?;
    let contenders = match work {
        BucketWork::JournalFlush => &[Contender::Journaled, Contender::LocalFile][..],
        // What a disk can do that is nothing but a file.
        BucketWork::Warm(_) => &[Contender::Cached, Contender::ZeroFs, Contender::LocalFile],
        BucketWork::Cold(_) => &[Contender::Uncached, Contender::ZeroFs, Contender::Cached],
        // ZeroFS gives clients no overlays.
        BucketWork::Boot { .. } => &[Contender::Cached],
        _ => &[Contender::Cached, Contender::ZeroFs],
    };
    let mut contenders = contenders.to_vec();
    let has_peer = programs.zerofs.is_some() && !args.quick;
    contenders.retain(|one| *one != Contender::ZeroFs || has_peer);
    let sites: Vec<Site> = contenders
        .iter()
        .map(|one| Site::new(*one, &store, (&programs, binary), folder.path()))
        .collect::<Result<_>>()?;
    let names: Vec<String> = contenders.iter().map(ToString::to_string).collect();
    match work {
        BucketWork::Space { once } => return space(args, names, &sites, once),
        BucketWork::Idle => return idle(names, &sites),
        BucketWork::Boot {
            machines,
            within_seconds,
            client,
        } => {
            let within = within_seconds.map(|seconds| Duration::from_secs(seconds.into()));
            let pace = within.map_or(Pace::AtOnce, |within| Pace::Recorded { within });
            return boots(args, names, &sites[0], (machines, pace, client));
        }
        BucketWork::WriteAll(_) => {}
        _ => sites.iter().try_for_each(|site| site.fill(DISK_SIZE))?,
    }
    rounds(args, names, |which| {
        let site = &sites[which];
        if matches!(work, BucketWork::Cold(_)) {
            site.empty_cache();
        }
        let serving = site.start()?;
        settle(site);
        if let BucketWork::Write(load) = work {
            // A block is written into what a cache has, as on a server that has run for a while.
            read_all(&serving)?;
            return write(site, serving, &load, args.seconds);
        }
        let sample = one_round(site, &serving, work, args.seconds)?;
        serving.stop(END_LIMIT)?;
        Ok(sample)
    })
}

/// Waits until a server that was started makes few requests: an LSM merges then what the last measurement wrote, and its writes wait for that.
fn settle(site: &Site) {
    let start = clock::now();
    let mut before = site.proxy.counts();
    while start.elapsed() < SETTLE_MAX {
        std::thread::sleep(SETTLE_STEP);
        let counts = site.proxy.counts();
        if counts.since(&before).bytes() < SETTLED_BYTES {
            return;
        }
        before = counts;
    }
}

fn one_round(site: &Site, serving: &Serving, work: BucketWork, seconds: u32) -> Result<Sample> {
    let time = Duration::from_secs(seconds.into());
    match work {
        BucketWork::Warm(load) => {
            read_all(serving)?;
            one(serving, &load, Until::Seconds(seconds))
        }
        BucketWork::Cold(load) => one(serving, &load, Until::Seconds(seconds)),
        BucketWork::WriteAll(load) => write_all(serving, &load),
        BucketWork::Flush | BucketWork::JournalFlush => flushes(site, serving, time),
        BucketWork::ReadInFlush => {
            read_all(serving)?;
            let mut probe = Probe::connect(serving)?;
            Ok(probe.read_in_flushes(time)?.1)
        }
        BucketWork::Write(_)
        | BucketWork::Space { .. }
        | BucketWork::Idle
        | BucketWork::Boot { .. } => {
            unreachable!("measured elsewhere")
        }
    }
}

/// Has each cache have all of the disk, and the kernel all of a cache's file.
fn read_all(serving: &Serving) -> Result<()> {
    one(serving, &load("read", 1 << 20, 1, 16), all(DISK_SIZE)).map(drop)
}

const fn all(bytes: u64) -> Until {
    Until::Once { size: bytes, bytes }
}

/// Writes at random places. The server has ended when the bytes are counted: all that it uploads for them is.
fn write(site: &Site, serving: Serving, load: &Load, seconds: u32) -> Result<Sample> {
    let before = site.proxy.counts();
    let outcome = outcome(&serving, load, Until::Seconds(seconds))?;
    let flush = Probe::connect(&serving)?.flush()?;
    let peak = process::peak_memory_kib(serving.id())?;
    serving.stop(END_LIMIT)?;
    let counts = site.proxy.counts().since(&before);
    Ok(Sample {
        seconds: Some(flush.as_secs_f64()),
        server_mib: Some(peak / 1024.0),
        uploaded_ratio: Some(uploaded(&counts, outcome.requests)),
        ..outcome.sample
    })
}

/// Bytes uploaded for each byte of so many writes of a block.
#[expect(clippy::cast_precision_loss, reason = "a figure has three digits")]
fn uploaded(counts: &RequestCounts, writes: f64) -> f64 {
    counts.bytes_up as f64 / (writes * BLOCK as f64)
}

/// Writes the whole disk, and flushes that.
fn write_all(serving: &Serving, load: &Load) -> Result<Sample> {
    let outcome = outcome(serving, load, all(DISK_SIZE))?;
    let flush = Probe::connect(serving)?.flush()?.as_secs_f64();
    let rate = outcome.sample.rate.unwrap_or(f64::INFINITY);
    let seconds = outcome.requests / rate + flush;
    Ok(Sample {
        rate: Some(outcome.requests / seconds),
        mb_per_s: Some(super::DISK_MB / seconds),
        seconds: Some(seconds),
        ..outcome.sample
    })
}

/// A write and its flush, one at a time.
#[expect(clippy::cast_precision_loss, reason = "a figure has three digits")]
fn flushes(site: &Site, serving: &Serving, time: Duration) -> Result<Sample> {
    let mut probe = Probe::connect(serving)?;
    // What the start left to be written.
    probe.write()?;
    probe.flush()?;
    let (before, spent) = (site.proxy.counts(), process::cpu_seconds(serving.id())?);
    let (count, sample) = probe.write_and_flush(time)?;
    let counts = site.proxy.counts().since(&before);
    let spent = process::cpu_seconds(serving.id())? - spent;
    Ok(Sample {
        server_cpu_us: Some(spent * 1e6 / count),
        puts_per_request: Some((counts.put + counts.post) as f64 / count),
        ..sample
    })
}

/// Fills a part of the disk, overwrites as much at random, relocates what is left of objects unless each block was overwritten, and
/// collects. With `--quick` what the first collection found counts as
/// deleted; the second one deletes it, a quarter of an hour later.
#[expect(clippy::cast_precision_loss, reason = "a figure has three digits")]
fn space(args: &Args, names: Vec<String>, sites: &[Site], once: bool) -> Result<Vec<Measured>> {
    let mut wait = Duration::ZERO;
    for site in sites {
        site.fill(SPACE_DATA)?;
        let serving = site.start()?;
        let (size, bytes) = (SPACE_DATA, SPACE_DATA);
        let overwrite = match once {
            true => all(SPACE_DATA),
            false => Until::AtRandom { size, bytes },
        };
        one(&serving, &load("randwrite", 4 << 10, 1, 32), overwrite)?;
        Probe::connect(&serving)?.flush()?;
        if !once {
            site.relocate()?;
        }
        serving.stop(END_LIMIT)?;
        wait = wait.max(site.collect()?.1);
    }
    // All run meanwhile: what one of them compacts or collects by itself is not left out.
    let running: Vec<Serving> = sites.iter().map(Site::start).collect::<Result<_>>()?;
    std::thread::sleep(match args.quick {
        true => SETTLE,
        false => wait.max(SETTLE) + COLLECTION_MARGIN,
    });
    for serving in running {
        serving.stop(END_LIMIT)?;
    }
    let stored = |site: &Site| {
        Ok(Sample {
            stored_ratio: Some(site.stored()? as f64 / SPACE_DATA as f64),
            ..Sample::default()
        })
    };
    measured(names, sites, stored)
}

/// Machines that boot from a snapshot that one of them has booted from before.
fn boots(
    args: &Args,
    names: Vec<String>,
    site: &Site,
    (machines, pace, client): (u32, Pace, BootClient),
) -> Result<Vec<Measured>> {
    process::allow_files(machines)?;
    site.fill(DISK_SIZE)?;
    site.snapshot()?;
    rounds(args, names, |_| {
        let overlays = tempfile::tempdir_in(site.folder())?;
        let serving = site.start_golden(overlays.path())?;
        let replay = match client {
            BootClient::Own => boot::replay,
            BootClient::Libnbd => libnbd::replay,
        };
        replay(&serving, 1, Pace::AtOnce)?;
        let before = process::cpu_seconds(serving.id())?;
        let sample = replay(&serving, machines, pace)?;
        let spent = process::cpu_seconds(serving.id())? - before;
        let requests = sample.rate.zip(sample.seconds);
        let peak = process::peak_memory_kib(serving.id())?;
        serving.stop(END_LIMIT)?;
        Ok(Sample {
            server_cpu_us: requests.map(|(rate, seconds)| spent * 1e6 / (rate * seconds)),
            server_mib: Some(peak / 1024.0),
            ..sample
        })
    })
}

/// Requests of servers without a client, all at the same time.
#[expect(clippy::cast_precision_loss, reason = "a figure has three digits")]
fn idle(names: Vec<String>, sites: &[Site]) -> Result<Vec<Measured>> {
    let running: Vec<Serving> = sites.iter().map(Site::start).collect::<Result<_>>()?;
    for serving in &running {
        let mut probe = Probe::connect(serving)?;
        probe.write()?;
        probe.flush()?;
    }
    std::thread::sleep(SETTLE);
    let before: Vec<RequestCounts> = sites.iter().map(|site| site.proxy.counts()).collect();
    let start = clock::now();
    std::thread::sleep(IDLE);
    let seconds = start.elapsed().as_secs_f64();
    let after: Vec<RequestCounts> = sites.iter().map(|site| site.proxy.counts()).collect();
    let mut counted = before.iter().zip(&after);
    let rate = |_: &Site| {
        let requests = counted
            .next()
            .map_or(0, |(before, after)| after.since(before).requests());
        Ok(Sample {
            store_rate: Some(requests as f64 / seconds),
            ..Sample::default()
        })
    };
    let measured = measured(names, sites, rate)?;
    for serving in running {
        serving.stop(END_LIMIT)?;
    }
    Ok(measured)
}

/// What is measured of each contender only once.
fn measured(
    names: Vec<String>,
    sites: &[Site],
    mut sample: impl FnMut(&Site) -> Result<Sample>,
) -> Result<Vec<Measured>> {
    let pairs = names.into_iter().zip(sites);
    let one = |(name, site)| {
        Ok(Measured {
            name,
            samples: vec![sample(site)?],
        })
    };
    pairs.map(one).collect()
}
