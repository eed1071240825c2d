//! Many diskless machines that boot at once: each replays what a Debian read of its root over the network (`boot.trace`), one read after
//! another and as fast as the server answers, which is faster than any machine boots.
//!
//! Each has an address of its own on the loopback, and so an overlay of its own over the golden image, of which all of these reads are.
//! Data is counted and not looked at. Anything but a good answer ends the measurement with an error.

use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use rustix::event::{Timespec, epoll};
use rustix::net::{AddressFamily, SocketType};

use crate::bench::figures::Sample;
use crate::bench::generator::Parser;
use crate::clock;
use crate::servers::Serving;
use crate::wire::{self, Replies, Request};

/// `cargo xtask netboot --record FILE` wrote it.
const TRACE: &str = include_str!("boot.trace");
/// How long a server may take to accept a machine, and to make its overlay.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Longest silence of all machines together.
const SILENCE_LIMIT: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};
/// Bytes taken from a socket at once.
const PIECE: usize = 256 << 10;
/// Sockets looked at in one go.
const EVENTS_MAX: usize = 256;
/// Digits of a latency that are kept.
const DIGITS: u8 = 3;
/// Machines of a part of 127/8.
const PER_NETWORK: u32 = 250;

/// A read of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TracedRead {
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// A machine that boots.
struct Machine {
    stream: TcpStream,
    parser: Parser,
    /// Reads that were answered.
    done: usize,
    sent: Instant,
}

/// The reads of a trace, in order.
pub(super) fn reads(trace: &str) -> Result<Vec<TracedRead>> {
    let lines = trace.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| -> Result<TracedRead> {
        let mut fields = line.split(' ').skip(1).map(str::parse::<u64>);
        let mut field = || {
            fields
                .next()
                .context("too few fields")?
                .context("no number")
        };
        let (offset, len) = (field()? << 10, field()? << 10);
        Ok(TracedRead {
            offset,
            len: u32::try_from(len)?,
        })
    };
    let reads = lines.map(|line| read(line).with_context(|| format!("{line:?} is no read")));
    reads.collect()
}

/// Boots so many machines at once.
pub(super) fn replay(serving: &Serving, machines: u32) -> Result<Sample> {
    let reads = reads(TRACE)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let machines = (0..machines).map(|number| {
        let what = || format!("machine {number}");
        let machine = Machine::connect(serving, number, &reads).with_context(what)?;
        let which = epoll::EventData::new_u64(number.into());
        epoll::add(&epoll, &machine.stream, which, epoll::EventFlags::IN)?;
        Ok(machine)
    });
    let mut machines = machines.collect::<Result<Vec<Machine>>>()?;
    let mut latencies = Histogram::new(DIGITS)?;
    let start = clock::now();
    for machine in &mut machines {
        machine.request(reads[0])?;
    }
    let mut booting = machines.len();
    let mut piece = vec![0; PIECE];
    let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS_MAX];
    while booting > 0 {
        let (ready, _) = epoll::wait(&epoll, &mut events[..], Some(&SILENCE_LIMIT))?;
        ensure!(!ready.is_empty(), "no machine gets an answer");
        for event in ready {
            let machine = &mut machines[usize::try_from(event.data.u64())?];
            let Some(took) = machine.receive(&mut piece, &reads)? else {
                continue;
            };
            latencies.record(u64::try_from(took.as_nanos())?)?;
            match reads.get(machine.done) {
                Some(next) => machine.request(*next)?,
                None => booting -= 1,
            }
        }
    }
    Ok(sample(&latencies, &reads, machines.len(), start.elapsed()))
}

#[expect(clippy::cast_precision_loss, reason = "a figure has three digits")]
fn sample(
    latencies: &Histogram<u64>,
    reads: &[TracedRead],
    machines: usize,
    elapsed: Duration,
) -> Sample {
    let seconds = elapsed.as_secs_f64();
    let bytes: u64 = reads.iter().map(|read| u64::from(read.len)).sum();
    Sample {
        rate: Some(latencies.len() as f64 / seconds),
        mb_per_s: Some(bytes as f64 * machines as f64 / seconds / 1e6),
        seconds: Some(seconds),
        ..Sample::of_latencies(latencies)
    }
}

impl Machine {
    fn connect(serving: &Serving, number: u32, reads: &[TracedRead]) -> Result<Self> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        let [network, host] = [number / PER_NETWORK + 1, number % PER_NETWORK + 1];
        let own = Ipv4Addr::new(127, 1, u8::try_from(network)?, u8::try_from(host)?);
        rustix::net::bind(&socket, &SocketAddr::from((own, 0)))?;
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, serving.port()));
        rustix::net::connect(&socket, &server)?;
        let mut stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CONNECT_LIMIT))?;
        let size = wire::negotiate(&mut stream, serving.export(), Replies::Structured)?;
        let end = reads
            .iter()
            .map(|read| read.offset + u64::from(read.len))
            .max();
        ensure!(end.unwrap_or(0) <= size, "the trace is of a larger disk");
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            parser: Parser::default(),
            done: 0,
            sent: clock::now(),
        })
    }

    /// Sends a read. So few bytes always fit into the socket's buffer.
    fn request(&mut self, read: TracedRead) -> Result<()> {
        let request = Request {
            command: wire::READ,
            flags: 0,
            cookie: u64::try_from(self.done)?,
            offset: read.offset,
            len: read.len,
        };
        self.sent = clock::now();
        let sent = self.stream.write_all(&request.bytes());
        sent.context("while a read is sent")
    }

    /// Takes what is there; how long the read took, if that was its end.
    fn receive(&mut self, piece: &mut [u8], reads: &[TracedRead]) -> Result<Option<Duration>> {
        let count = self.stream.read(piece).context("while an answer comes")?;
        ensure!(count > 0, "the server closed a connection");
        let read = reads.get(self.done).context("an answer without a read")?;
        let mut answered = None;
        self.parser
            .take(&piece[..count], read.len, |cookie| answered = Some(cookie))?;
        let Some(cookie) = answered else {
            return Ok(None);
        };
        ensure!(cookie == self.done as u64, "an answer to another read");
        self.done += 1;
        Ok(Some(self.sent.elapsed()))
    }
}
