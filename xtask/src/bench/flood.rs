//! One client while others flood the server with queries of the allocation of a fragmented file.
//!
//! Each of the flooding clients keeps its queries in flight and takes all replies. The other one does one request at a
//! time, with a pause between two, and only its latencies are in the row. A server has a process of its own for
//! each measurement: some peers do not survive the end of the flood. What ours still does when the flood is over is
//! the figure of a core, and it must stop within [`STOP_LIMIT`].

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use rustix::fs::{Advice, fadvise};

use super::figures::Sample;
use super::work::Probe;
use super::{Args, Measured, rounds};
use crate::servers::{Launcher, Server, Serving};
use crate::wire::{self, Request};
use crate::{clock, data, process};

/// Clients that flood, and queries of each in flight.
const FLOODS: usize = 16;
const DEPTH: u64 = 64;
/// The file: a hole behind each page of data.
const SIZE: u32 = 1 << 30;
const PAGE: usize = 4096;
/// Bytes of which the other client requests the status.
const STATUS_LEN: u32 = 1 << 20;
/// Between two requests of the other client.
const PAUSE: Duration = Duration::from_millis(2);
/// Before the first of them, and after the flood.
const SETTLE: Duration = Duration::from_secs(1);
/// The longest that a reply takes: nbdkit took 16 s.
const REPLY_LIMIT: Duration = Duration::from_secs(120);
/// How long a server of ours may take to stop while the flood goes on.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// Digits of a latency that are kept.
const DIGITS: u8 = 3;

/// Ours on both engines, and nbdkit.
pub(super) fn measure(launcher: &Launcher, args: &Args, probe: Probe) -> Result<Vec<Measured>> {
    let disk = fragmented(&launcher.folder)?;
    let mut servers = vec![Server::Ours, Server::Nbdkit, Server::OursThreads];
    servers.extend(launcher.before.as_ref().map(|_| Server::Before));
    let names = servers.iter().map(ToString::to_string).collect();
    rounds(args, names, |which| {
        let server = servers[which];
        let serving = launcher.start(server, &disk.to_string_lossy())?;
        let is_ours = matches!(server, Server::Ours | Server::OursThreads);
        let mut sample = probe_in_flood(&serving, &disk, probe, args.seconds)?;
        if !is_ours {
            serving.kill();
            return Ok(sample);
        }
        std::thread::sleep(SETTLE);
        let before = process::cpu_seconds(serving.id())?;
        std::thread::sleep(Duration::from_secs(1));
        let spent = process::cpu_seconds(serving.id())? - before;
        sample.core_percent = Some(spent * 100.0);
        stop_in_flood(serving)?;
        Ok(sample)
    })
}

/// A file of 1 GiB with 131,072 holes. It stays for the next time.
fn fragmented(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("fragmented.img");
    if path
        .metadata()
        .is_ok_and(|there| there.len() == u64::from(SIZE))
    {
        return Ok(path);
    }
    let part = path.with_extension("part");
    let file = File::create(&part)?;
    file.set_len(SIZE.into())?;
    data::fragment(&file, 0, SIZE.into())?;
    file.sync_all()?;
    std::fs::rename(part, &path)?;
    Ok(path)
}

/// Latencies of the other client.
fn probe_in_flood(serving: &Serving, disk: &Path, probe: Probe, seconds: u32) -> Result<Sample> {
    let over = AtomicBool::new(false);
    let mut stream = connect(serving)?;
    let disk = File::open(disk)?;
    // All before the first query: a server may be too busy to accept.
    let floods: Vec<TcpStream> = (0..FLOODS)
        .map(|_| connect(serving))
        .collect::<Result<_>>()?;
    let mut latencies = Histogram::<u64>::new(DIGITS)?;
    std::thread::scope(|scope| -> Result<()> {
        // Ended however this function is left, so that the scope ends.
        let _ends = Ends(&over);
        for flood in floods {
            let over = &over;
            scope.spawn(move || flood_until(flood, over));
        }
        std::thread::sleep(SETTLE);
        let mut dice = fastrand::Rng::with_seed(1);
        let end = clock::now() + Duration::from_secs(seconds.into());
        while clock::now() < end {
            let bytes = request(probe, &disk, &mut dice)?;
            let start = clock::now();
            stream.write_all(&bytes)?;
            wire::take_any(&mut stream)?;
            latencies.record(u64::try_from(start.elapsed().as_nanos())?)?;
            std::thread::sleep(PAUSE);
        }
        Ok(())
    })?;
    Ok(Sample::of_latencies(&latencies))
}

/// Ends a flood when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The other client's next request, with its payload.
fn request(probe: Probe, disk: &File, dice: &mut fastrand::Rng) -> Result<Vec<u8>> {
    let pages = u64::from(SIZE) / PAGE as u64;
    let mut request = Request {
        offset: dice.u64(..pages) * PAGE as u64,
        len: u32::try_from(PAGE)?,
        ..Request::default()
    };
    Ok(match probe {
        Probe::Read => {
            request.command = wire::READ;
            let page = std::num::NonZeroU64::new(PAGE as u64);
            fadvise(disk, request.offset, page, Advice::DontNeed)?;
            request.bytes().to_vec()
        }
        Probe::Write => {
            // Where there is data already: the holes stay.
            request.offset = request.offset / (2 * PAGE as u64) * (2 * PAGE as u64);
            request.command = wire::WRITE;
            request.flags = wire::FUA;
            [&request.bytes()[..], &[b'd'; PAGE]].concat()
        }
        Probe::Status => {
            request.command = wire::BLOCK_STATUS;
            request.len = STATUS_LEN;
            request.offset = request.offset.min(u64::from(SIZE - STATUS_LEN));
            request.bytes().to_vec()
        }
    })
}

fn query(cookie: u64) -> [u8; wire::REQUEST_LEN] {
    let whole = Request {
        command: wire::BLOCK_STATUS,
        cookie,
        len: SIZE,
        ..Request::default()
    };
    whole.bytes()
}

/// Keeps [`DEPTH`] queries in flight until `over`, then leaves without taking the replies.
fn flood_until(mut stream: TcpStream, over: &AtomicBool) {
    for cookie in 0..DEPTH {
        if stream.write_all(&query(cookie)).is_err() {
            return;
        }
    }
    // Short, so that the end is noticed: a reply that is cut by it is never taken.
    drop(stream.set_read_timeout(Some(Duration::from_millis(200))));
    while !over.load(Ordering::Relaxed) {
        if stream.peek(&mut [0]).is_err() {
            continue;
        }
        drop(stream.set_read_timeout(Some(REPLY_LIMIT)));
        let answered =
            wire::take_any(&mut stream).and_then(|cookie| Ok(stream.write_all(&query(cookie))?));
        if answered.is_err() {
            return;
        }
        drop(stream.set_read_timeout(Some(Duration::from_millis(200))));
    }
}

/// Stops a server that is flooded.
fn stop_in_flood(serving: Serving) -> Result<()> {
    let mut floods: Vec<TcpStream> = (0..FLOODS)
        .map(|_| connect(&serving))
        .collect::<Result<_>>()?;
    for stream in &mut floods {
        for cookie in 0..DEPTH {
            stream.write_all(&query(cookie))?;
        }
    }
    std::thread::sleep(SETTLE);
    let start = clock::now();
    // Terminates it and waits.
    drop(serving);
    let took = start.elapsed();
    ensure!(took <= STOP_LIMIT, "the stop took {took:?}");
    Ok(())
}

fn connect(serving: &Serving) -> Result<TcpStream> {
    let stream = wire::connect_status(serving.port(), serving.export())?;
    stream.set_read_timeout(Some(REPLY_LIMIT))?;
    Ok(stream)
}
