//! What sockets and memory of this machine can carry, measured just before a run.
//!
//! Each is the best of several short tries, since a ceiling taken too low would call good results
//! impossible. Threads live only inside [`std::thread::scope`].

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::fd::AsFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create, sendfile};

use crate::checks::ceiling::{Ceiling, CeilingSource};
use crate::units::{Bytes, Nanos, Rate};

/// How long one try takes.
const TRY: Duration = Duration::from_millis(120);
/// Bytes handed to a socket at a time.
const CHUNK: usize = 256 * 1024;
/// A file that sendfile reads again and again.
const FILE_SIZE: u64 = 16 << 20;
/// Copied at a time: larger than the caches of most processors.
const COPY: usize = 32 << 20;
/// Threads that copy at once.
const COPY_THREADS_MAX: usize = 4;

/// What local sockets carry: the best of TCP by copy, TCP by sendfile and a Unix socket by copy.
#[must_use]
pub fn local_socket() -> Option<Ceiling> {
    let tries = [tcp(send_copies), tcp(send_file), unix()];
    let best = tries
        .into_iter()
        .flatten()
        .map(|rate| rate.0)
        .fold(0.0, f64::max);
    (best > 0.0).then_some(Ceiling {
        source: CeilingSource::LoopbackSocket,
        rate: Rate(best),
    })
}

/// What memory carries: copies on several cores at once, counted twice since each byte copied is
/// read and written, and a transfer from a disk only writes it.
#[must_use]
pub fn memory() -> Ceiling {
    let threads = std::thread::available_parallelism()
        .map_or(1, std::num::NonZero::get)
        .min(COPY_THREADS_MAX);
    let rates = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(copy_rate)).collect();
        started
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .sum::<f64>()
    });
    Ceiling {
        source: CeilingSource::MemoryCopy,
        rate: Rate(rates * 2.0),
    }
}

/// The same ceiling measured once more, the better of the two: a busy moment gives one too low. One
/// that was computed stays.
#[must_use]
pub fn again(ceiling: &Ceiling) -> Ceiling {
    let measured = match ceiling.source {
        CeilingSource::Link { .. } | CeilingSource::Throttle { .. } => None,
        CeilingSource::LoopbackSocket => local_socket(),
        CeilingSource::MemoryCopy => Some(memory()),
    };
    measured
        .filter(|new| new.rate > ceiling.rate)
        .unwrap_or_else(|| ceiling.clone())
}

fn copy_rate() -> f64 {
    let from = vec![1u8; COPY];
    let mut to = vec![0u8; COPY];
    let mut best = 0.0f64;
    for _ in 0..3 {
        let start = engine::clock::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        best = best.max(COPY as f64 / start.elapsed().as_secs_f64().max(1e-9));
    }
    best
}

fn tcp(send: fn(&mut TcpStream, Instant) -> std::io::Result<()>) -> Option<Rate> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let address = listener.local_addr().ok()?;
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || {
            let mut socket = TcpStream::connect(address).ok()?;
            let deadline = engine::clock::now() + TRY;
            send(&mut socket, deadline).ok()
        });
        let (mut socket, _) = listener.accept().ok()?;
        let rate = receive(&mut socket);
        sender.join().ok()??;
        rate
    })
}

fn unix() -> Option<Rate> {
    let (mut here, mut there) = UnixStream::pair().ok()?;
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || {
            let deadline = engine::clock::now() + TRY;
            copies(&mut there, deadline).ok()
        });
        let rate = receive(&mut here);
        sender.join().ok()??;
        rate
    })
}

fn receive(socket: &mut impl Read) -> Option<Rate> {
    let mut buffer = vec![0u8; CHUNK];
    let start = engine::clock::now();
    let mut bytes = 0u64;
    loop {
        match socket.read(&mut buffer).ok()? {
            0 => break,
            got => bytes += got as u64,
        }
    }
    Rate::of(Bytes(bytes), Nanos::from_duration(start.elapsed()))
}

fn send_copies(socket: &mut TcpStream, deadline: Instant) -> std::io::Result<()> {
    copies(socket, deadline)
}

fn copies(socket: &mut impl Write, deadline: Instant) -> std::io::Result<()> {
    let buffer = vec![7u8; CHUNK];
    while engine::clock::now() < deadline {
        socket.write_all(&buffer)?;
    }
    Ok(())
}

fn send_file(socket: &mut TcpStream, deadline: Instant) -> std::io::Result<()> {
    let file = memfd_create("ceiling", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, FILE_SIZE)?;
    let mut offset = 0u64;
    while engine::clock::now() < deadline {
        if offset >= FILE_SIZE {
            offset = 0;
        }
        sendfile(socket.as_fd(), &file, Some(&mut offset), CHUNK)?;
    }
    Ok(())
}
