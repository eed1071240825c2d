//! [`Probe`]: a client with one connection and at most two requests in flight, for what fio does not measure: a write with its flush, and reads
//! while a flush of their own connection is under way.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use super::super::figures::Sample;
use crate::clock;
use crate::servers::Serving;
use crate::wire::{self, Replies, Request};

/// Bytes of a read and of a write.
pub(super) const BLOCK: usize = 4 << 10;
/// When a server counts as stuck.
const REPLY_LIMIT: Duration = Duration::from_secs(300);
/// Digits of a latency that are kept.
const DIGITS: u8 = 3;

/// Such a client. The command of a request is its cookie.
#[derive(Debug)]
pub(in crate::bench) struct Probe {
    stream: TcpStream,
    blocks: u64,
    rng: fastrand::Rng,
    content: Vec<u8>,
}

impl Probe {
    pub(in crate::bench) fn connect(serving: &Serving) -> Result<Self> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, serving.port()))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_LIMIT))?;
        let size = wire::negotiate(&mut stream, serving.export(), Replies::Simple)?;
        ensure!(size >= BLOCK as u64, "a disk of {size} bytes");
        Ok(Self {
            stream,
            blocks: size / BLOCK as u64,
            rng: fastrand::Rng::with_seed(1),
            content: Vec::new(),
        })
    }

    fn send(&mut self, command: u16, payload: &[u8]) -> Result<()> {
        let is_flush = command == wire::FLUSH;
        let request = Request {
            command,
            cookie: command.into(),
            offset: match is_flush {
                true => 0,
                false => self.rng.u64(..self.blocks) * BLOCK as u64,
            },
            len: match is_flush {
                true => 0,
                false => u32::try_from(BLOCK)?,
            },
            ..Request::default()
        };
        let bytes = [&request.bytes()[..], payload].concat();
        self.stream.write_all(&bytes).context("a request")
    }

    /// The command of the request whose reply is next.
    fn reply(&mut self) -> Result<u16> {
        let len = |cookie| match cookie == u64::from(wire::READ) {
            true => Ok((0, BLOCK)),
            false => Ok((0, 0)),
        };
        let taken = wire::take_answer(&mut self.stream, len, &mut self.content)?;
        Ok(u16::try_from(taken.cookie)?)
    }

    fn expect(&mut self, command: u16) -> Result<()> {
        let replied = self.reply()?;
        ensure!(
            replied == command,
            "the reply to request {replied} instead of {command}"
        );
        Ok(())
    }

    /// Writes a block somewhere.
    pub(in crate::bench) fn write(&mut self) -> Result<()> {
        let mut block = [0; BLOCK];
        self.rng.fill(&mut block);
        self.send(wire::WRITE, &block)?;
        self.expect(wire::WRITE)
    }

    /// Makes everything durable; how long that took.
    pub(in crate::bench) fn flush(&mut self) -> Result<Duration> {
        let start = clock::now();
        self.send(wire::FLUSH, &[])?;
        self.expect(wire::FLUSH)?;
        Ok(start.elapsed())
    }

    /// Writes and flushes, one at a time, for so long; how many of both, and their latency.
    pub(super) fn write_and_flush(&mut self, time: Duration) -> Result<(f64, Sample)> {
        let mut latencies = Latencies::new()?;
        let begin = clock::now();
        while begin.elapsed() < time {
            let start = clock::now();
            self.write()?;
            self.flush()?;
            latencies.add(start.elapsed())?;
        }
        Ok((latencies.count(), latencies.sample(begin.elapsed())))
    }

    /// Latencies of reads, one at a time, of which each began while a flush of this connection was under way.
    pub(super) fn read_in_flushes(&mut self, time: Duration) -> Result<(f64, Sample)> {
        let mut latencies = Latencies::new()?;
        let begin = clock::now();
        while begin.elapsed() < time {
            self.write()?;
            self.send(wire::FLUSH, &[])?;
            let mut is_flushed = false;
            while !is_flushed {
                let start = clock::now();
                self.send(wire::READ, &[])?;
                while self.reply()? == wire::FLUSH {
                    is_flushed = true;
                }
                latencies.add(start.elapsed())?;
            }
        }
        Ok((latencies.count(), latencies.sample(begin.elapsed())))
    }
}

/// What requests took.
#[derive(Debug)]
struct Latencies(Histogram<u64>);

#[expect(clippy::cast_precision_loss, reason = "a figure has three digits")]
impl Latencies {
    fn new() -> Result<Self> {
        Ok(Self(Histogram::new(DIGITS)?))
    }

    fn add(&mut self, took: Duration) -> Result<()> {
        Ok(self.0.record(u64::try_from(took.as_nanos())?)?)
    }

    fn count(&self) -> f64 {
        self.0.len() as f64
    }

    fn sample(&self, time: Duration) -> Sample {
        Sample {
            rate: Some(self.count() / time.as_secs_f64()),
            ..Sample::of_latencies(&self.0)
        }
    }
}
