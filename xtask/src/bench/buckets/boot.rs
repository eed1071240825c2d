//! Many diskless machines that boot: each replays what a Debian read of its root over the network (`boot.trace`), one read after another:
//! all at once and as fast as the server answers, which is faster than any machine boots; or at the pace of the trace, each a little later
//! than the one before.
//!
//! Each has an address of its own on the loopback, and so an overlay of its own over the golden image, of which all of these reads are.
//! Data is counted and not looked at. Anything but a good answer ends the measurement with an error.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use rustix::event::{Timespec, epoll};
use rustix::net::{AddressFamily, SocketType};

use crate::bench::figures::Sample;
use crate::bench::generator::{DIGITS, EVENTS_MAX, PIECE, Parser};
use crate::clock;
use crate::servers::Serving;
use crate::wire::{self, Replies, Request};

/// `cargo xtask netboot --record FILE` wrote it.
const TRACE: &str = include_str!("boot.trace");
/// What volumes have.
const BLOCK: u64 = 4096;
/// How long a server may take to accept a machine, and to make its overlay.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Longest silence of all machines together.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);
/// Machines of a part of 127/8.
const PER_NETWORK: u32 = 250;

/// A read of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TracedRead {
    /// Since the first one.
    pub(super) at: Duration,
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

/// The reads of a trace, in order, of whole blocks: the disk that it was recorded of had smaller ones.
pub(super) fn reads(trace: &str) -> Result<Vec<TracedRead>> {
    let lines = trace.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| -> Result<TracedRead> {
        let mut fields = line.split(' ').map(str::parse::<u64>);
        let mut field = || {
            fields
                .next()
                .context("too few fields")?
                .context("no number")
        };
        let at = Duration::from_millis(field()?);
        let (offset, len) = (field()? << 10, field()? << 10);
        let begin = offset / BLOCK * BLOCK;
        let end = (offset + len).next_multiple_of(BLOCK);
        Ok(TracedRead {
            at,
            offset: begin,
            len: u32::try_from(end - begin)?,
        })
    };
    let reads = lines.map(|line| read(line).with_context(|| format!("{line:?} is no read")));
    reads.collect()
}

/// When machines read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// All begin at once, and read as soon as they can.
    AtOnce,
    /// As the trace was, and they begin one after another within this time.
    Recorded {
        /// From the first begin to the last.
        within: Duration,
    },
}

impl Pace {
    /// When machine `nth` of `count` makes a read, from the begin of all.
    fn time(self, (nth, count): (usize, usize), read: TracedRead) -> Duration {
        match self {
            Self::AtOnce => Duration::ZERO,
            Self::Recorded { within } => {
                let [nth, count] = [nth, count].map(|number| u32::try_from(number).unwrap_or(1));
                within / count * nth + read.at
            }
        }
    }
}

/// Boots so many machines.
pub(super) fn replay(serving: &Serving, machines: u32, pace: Pace) -> Result<Sample> {
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
    let count = machines.len();
    let time = |nth: usize, read: TracedRead| start + pace.time((nth, count), read);
    let begins = (0..count).map(|nth| Reverse((time(nth, reads[0]), nth)));
    let mut due: BinaryHeap<Reverse<(Instant, usize)>> = begins.collect();
    let mut booting = count;
    let mut piece = vec![0; PIECE];
    let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS_MAX];
    while booting > 0 {
        let mut wait = SILENCE_LIMIT;
        while let Some(Reverse((at, nth))) = due.peek().copied() {
            wait = at
                .saturating_duration_since(clock::now())
                .min(SILENCE_LIMIT);
            if !wait.is_zero() {
                break;
            }
            due.pop();
            let machine = &mut machines[nth];
            machine.request(reads[machine.done])?;
            wait = SILENCE_LIMIT;
        }
        let timeout = Timespec::try_from(wait)?;
        let (ready, _) = epoll::wait(&epoll, &mut events[..], Some(&timeout))?;
        ensure!(
            !ready.is_empty() || wait < SILENCE_LIMIT,
            "no machine gets an answer"
        );
        for event in ready {
            let nth = usize::try_from(event.data.u64())?;
            let Some(took) = machines[nth].receive(&mut piece, &reads)? else {
                continue;
            };
            latencies.record(u64::try_from(took.as_nanos())?)?;
            match reads.get(machines[nth].done) {
                Some(next) => due.push(Reverse((time(nth, *next), nth))),
                None => booting -= 1,
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let all = sample_of(latencies.len(), f64::from(u32::try_from(count)?), seconds)?;
    Ok(Sample {
        rate: all.rate,
        mb_per_s: all.mb_per_s,
        seconds: all.seconds,
        ..Sample::of_latencies(&latencies)
    })
}

/// What the latencies are not part of.
#[expect(clippy::cast_precision_loss, reason = "a figure has three digits")]
pub(super) fn sample_of(count: u64, machines: f64, seconds: f64) -> Result<Sample> {
    let bytes: u64 = reads(TRACE)?.iter().map(|read| u64::from(read.len)).sum();
    Ok(Sample {
        rate: Some(count as f64 / seconds),
        mb_per_s: Some(bytes as f64 * machines / seconds / 1e6),
        seconds: Some(seconds),
        ..Sample::default()
    })
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
