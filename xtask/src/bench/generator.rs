//! A load of our own for what fio is too heavy for: any number of connections from one thread, each with a
//! fixed number of reads in flight, at random places.
//!
//! Data is counted and not looked at. Anything but a good answer ends the measurement with an error.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use super::figures::Sample;
use super::fio::Outcome;
use super::work::Crowd;
use crate::clock;
use crate::servers::Serving;
use crate::wire::{self, Follows, Replies, Request};

/// How long a server may take to accept all connections.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// Longest silence of all connections together.
const SILENCE_LIMIT: rustix::event::Timespec = rustix::event::Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// Bytes taken from a socket at once.
pub(super) const PIECE: usize = 256 << 10;

/// Sockets looked at in one go.
pub(super) const EVENTS_MAX: usize = 256;

/// Digits of a latency that are kept.
pub(super) const DIGITS: u8 = 3;

/// Bytes before the data of a chunk: where it belongs.
const CHUNK_OFFSET_LEN: usize = 8;

/// Bytes of a chunk that describes a hole.
const HOLE_LEN: usize = 12;

/// Connections that are all negotiated, without a request so far.
#[derive(Debug)]
pub(super) struct Generator {
    crowd: Crowd,
    blocks: u64,
    connections: Vec<Connection>,
    epoll: OwnedFd,
    dice: fastrand::Rng,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    parser: Parser,
    /// When each request in flight was sent, by its cookie.
    sent: Vec<Instant>,
}

/// Finds the ends of answers in a stream that is cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Parser {
    head: [u8; wire::CHUNK_LEN],
    have: usize,
    /// Bytes of the present answer's data that are still to come.
    data_left: usize,
    /// The request that is answered when they are there.
    ends: Option<u64>,
}

/// Counts of one run.
#[derive(Debug)]
struct Counts {
    requests: u64,
    latencies: Histogram<u64>,
}

impl Generator {
    /// Connects and negotiates.
    pub(super) fn connect(serving: &Serving, crowd: Crowd, replies: Replies) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::new();
        let mut size = 0;
        for number in 0..crowd.connections {
            let what = || format!("connection {number}");
            let mut stream =
                TcpStream::connect((Ipv4Addr::LOCALHOST, serving.port())).with_context(what)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(CONNECT_LIMIT))?;
            size = wire::negotiate(&mut stream, serving.export(), replies).with_context(what)?;
            stream.set_nonblocking(true)?;
            let which = epoll::EventData::new_u64(u64::from(number));
            epoll::add(&epoll, &stream, which, epoll::EventFlags::IN)?;
            connections.push(Connection {
                stream,
                parser: Parser::default(),
                sent: vec![clock::now(); crowd.depth as usize],
            });
        }
        let blocks = size / u64::from(crowd.block_size);
        ensure!(blocks > 0, "the disk is smaller than a request");
        Ok(Self {
            crowd,
            blocks,
            connections,
            epoll,
            dice: fastrand::Rng::with_seed(1),
        })
    }

    /// Keeps every connection busy for `seconds`, once: answers are under way afterwards.
    pub(super) fn run(&mut self, seconds: u32) -> Result<Outcome> {
        let mut counts = Counts {
            requests: 0,
            latencies: Histogram::new(DIGITS)?,
        };
        let start = clock::now();
        let end = start + Duration::from_secs(seconds.into());
        let all: Vec<u64> = (0..u64::from(self.crowd.depth)).collect();
        for connection in &mut self.connections {
            connection.ask(&all, self.crowd, self.blocks, &mut self.dice)?;
        }
        let mut room = vec![0; PIECE];
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS_MAX];
        while clock::now() < end {
            let (ready, _) = epoll::wait(&self.epoll, &mut events[..], Some(&SILENCE_LIMIT))?;
            ensure!(!ready.is_empty(), "no connection gets an answer");
            for event in ready {
                let which = usize::try_from(event.data.u64())?;
                let connection = &mut self.connections[which];
                let done = connection.take(&mut room, self.crowd, &mut counts)?;
                connection.ask(&done, self.crowd, self.blocks, &mut self.dice)?;
            }
        }
        Ok(counts.outcome(start.elapsed().as_secs_f64(), self.crowd))
    }
}

impl Connection {
    /// Sends the next requests under these cookies. So few bytes always fit into the socket's buffer.
    fn ask(
        &mut self,
        cookies: &[u64],
        crowd: Crowd,
        blocks: u64,
        dice: &mut fastrand::Rng,
    ) -> Result<()> {
        let now = clock::now();
        let mut bytes = Vec::with_capacity(cookies.len() * wire::REQUEST_LEN);
        for cookie in cookies {
            let request = Request {
                command: wire::READ,
                flags: 0,
                cookie: *cookie,
                offset: dice.u64(..blocks) * u64::from(crowd.block_size),
                len: crowd.block_size,
            };
            bytes.extend(request.bytes());
            self.sent[usize::try_from(*cookie)?] = now;
        }
        self.stream.write_all(&bytes).context("while asking")
    }

    /// Takes what is there; the cookies of what was answered.
    fn take(&mut self, room: &mut [u8], crowd: Crowd, counts: &mut Counts) -> Result<Vec<u64>> {
        let count = self.stream.read(room).context("while listening")?;
        ensure!(count > 0, "the server closed a connection");
        let mut done = Vec::new();
        self.parser
            .take(&room[..count], crowd.block_size, |cookie| done.push(cookie))?;
        let now = clock::now();
        for cookie in &done {
            let sent = self.sent.get(usize::try_from(*cookie)?);
            let sent = sent.context("a reply without a request")?;
            let took = now.duration_since(*sent).as_nanos();
            counts.latencies.record(u64::try_from(took)?)?;
            counts.requests += 1;
        }
        Ok(done)
    }
}

impl Parser {
    /// Goes on with `bytes`; `done` gets the cookie of every complete reply.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        asked: u32,
        mut done: impl FnMut(u64),
    ) -> Result<()> {
        loop {
            let count = self.data_left.min(bytes.len());
            self.data_left -= count;
            bytes = &bytes[count..];
            if self.data_left > 0 {
                return Ok(());
            }
            if let Some(cookie) = self.ends.take() {
                done(cookie);
            }
            if bytes.is_empty() {
                return Ok(());
            }
            bytes = self.take_head(bytes, asked)?;
        }
    }

    /// Takes as much of a head as there is; what is behind it.
    fn take_head<'a>(&mut self, bytes: &'a [u8], asked: u32) -> Result<&'a [u8]> {
        let len = match self.head.first_chunk::<{ wire::MAGIC_LEN }>() {
            Some(magic) if self.have >= wire::MAGIC_LEN => wire::head_len(*magic)?,
            _ => wire::MAGIC_LEN,
        };
        let count = (len - self.have).min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        self.head[self.have..self.have + count].copy_from_slice(taken);
        self.have += count;
        if self.have < wire::SIMPLE_LEN || self.have < len {
            return Ok(rest);
        }
        self.have = 0;
        let head = wire::head(&self.head[..len])?;
        self.data_left = match head.follows {
            Follows::Nothing => 0,
            Follows::All => usize::try_from(asked)?,
            Follows::Data(len) if len <= asked => CHUNK_OFFSET_LEN + usize::try_from(len)?,
            Follows::Data(_) => bail!("an answer with more than was asked for"),
            Follows::Hole => HOLE_LEN,
        };
        self.ends = head.done.then_some(head.cookie);
        Ok(rest)
    }
}

impl Counts {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts are far below 2^52, and a figure has three digits"
    )]
    fn outcome(&self, seconds: f64, crowd: Crowd) -> Outcome {
        let requests = self.requests as f64;
        Outcome {
            requests,
            sample: Sample {
                rate: Some(requests / seconds),
                mb_per_s: Some(requests * f64::from(crowd.block_size) / seconds / 1e6),
                ..Sample::of_latencies(&self.latencies)
            },
        }
    }
}
