//! A client over a bare socket: batches of requests that never meet, cut anywhere, answered in any order,
//! until it says goodbye or falls silent in the middle of something.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::Tally;
use super::place::{Connection, Place, Way};
use super::region::{Region, content};
use crate::clock;
use crate::wire::{self, Replies, Request};

/// Requests of a batch are in slots of this length, so that no two meet.
const SLOT_LEN: usize = 16 << 10;

/// Most requests of a batch. All of them fit into the buffers of both sockets, since the answers are only
/// read when all is sent.
const DEPTH_MAX: usize = 6;

/// Bytes of one request when a region is read as a whole.
const PIECE: usize = 64 << 10;

/// What a batch is made of, by weight.
const COMMANDS: &[u16] = &[
    wire::READ,
    wire::READ,
    wire::READ,
    wire::READ,
    wire::WRITE,
    wire::WRITE,
    wire::WRITE,
    wire::WRITE,
    wire::WRITE_ZEROES,
    wire::TRIM,
    wire::FLUSH,
];

/// One client, during one life.
#[derive(Debug)]
pub(super) struct Client<'a> {
    pub(super) place: &'a Place,
    pub(super) export: &'a str,
    pub(super) region: &'a mut Region,
    pub(super) dice: &'a mut fastrand::Rng,
    /// Counts writes, so that every one has its own content.
    pub(super) serial: &'a mut u32,
    pub(super) tally: &'a mut Tally,
}

/// A request on its way.
#[derive(Debug)]
struct Asked {
    request: Request,
    at: usize,
    /// What a write carries, or zeroes leave.
    data: Vec<u8>,
    /// What a read got so far.
    found: Vec<u8>,
    got: usize,
}

type Batch = BTreeMap<u64, Asked>;

/// How a batch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Disconnect,
    /// Silence after these thousandths of the bytes.
    FallSilent(usize),
}

impl Client<'_> {
    /// Reads the whole region and compares.
    pub(super) fn check(&mut self) -> Result<()> {
        let replies = [Replies::Simple, Replies::Structured][self.dice.usize(..2)];
        let mut connection = self.place.connect(Way::Tcp, self.export, replies)?;
        self.read_all(&mut connection)?;
        self.goodbye(&mut connection)
    }

    /// A life: to its own end, or to the end of the round.
    pub(super) fn live(&mut self, until: Instant) -> Result<()> {
        let replies = [Replies::Simple, Replies::Structured][self.dice.usize(..2)];
        let way = if self.dice.u8(..4) == 0 {
            Way::Unix
        } else {
            Way::Tcp
        };
        let mut connection = self.place.connect(way, self.export, replies)?;
        self.read_all(&mut connection)?;
        loop {
            let then = self.next(until);
            let silent = matches!(then, Then::FallSilent(_));
            // Whether the server still has a Unix socket cannot be known, so no write is left in one.
            let batch = self.batch(silent && way == Way::Unix);
            let bytes = bytes(&batch);
            match then {
                Then::FallSilent(thousandths) => {
                    let sent = bytes.len() * thousandths / 1000;
                    return self.fall_silent(connection, batch, &bytes[..sent]);
                }
                Then::Disconnect => {
                    self.exchange(&mut connection, batch, &bytes)?;
                    return self.goodbye(&mut connection);
                }
                Then::GoOn => self.exchange(&mut connection, batch, &bytes)?,
            }
        }
    }

    fn next(&mut self, until: Instant) -> Then {
        if clock::now() >= until {
            return Then::Disconnect;
        }
        match self.dice.u8(..60) {
            0 => Then::Disconnect,
            1 => Then::FallSilent(1000),
            2 => Then::FallSilent(self.dice.usize(..1000)),
            _ => Then::GoOn,
        }
    }

    fn batch(&mut self, only_reads: bool) -> Batch {
        let mut slots: Vec<usize> = (0..self.region.len() / SLOT_LEN).collect();
        self.dice.shuffle(&mut slots);
        let count = self.dice.usize(1..=DEPTH_MAX);
        if self.dice.u8(..8) == 0 {
            let at = self.dice.usize(..self.region.len());
            let len = self.dice.usize(1..=self.region.len() - at);
            let asked = self.asked(only_reads, 0, at, len);
            return Batch::from([(0, asked)]);
        }
        let chosen = slots.into_iter().take(count).zip(0_u64..);
        let mut batch = Batch::new();
        for (slot, cookie) in chosen {
            let inside = self.dice.usize(..SLOT_LEN);
            let len = self.dice.usize(1..=SLOT_LEN - inside);
            let at = slot * SLOT_LEN + inside;
            batch.insert(cookie, self.asked(only_reads, cookie, at, len));
        }
        batch
    }

    fn asked(&mut self, only_reads: bool, cookie: u64, at: usize, len: usize) -> Asked {
        let command = if only_reads {
            wire::READ
        } else {
            COMMANDS[self.dice.usize(..COMMANDS.len())]
        };
        let data = match command {
            wire::WRITE => {
                *self.serial += 1;
                content(*self.serial, len)
            }
            wire::WRITE_ZEROES | wire::TRIM => vec![0; len],
            _ => Vec::new(),
        };
        let found = vec![0; if command == wire::READ { len } else { 0 }];
        let is_flush = command == wire::FLUSH;
        let asks_fua = !data.is_empty() && self.dice.u8(..8) == 0;
        Asked {
            request: Request {
                command,
                flags: if asks_fua { wire::FUA } else { 0 },
                cookie,
                offset: if is_flush {
                    0
                } else {
                    self.region.start() + at as u64
                },
                len: if is_flush { 0 } else { short(len) },
            },
            at,
            data,
            found,
            got: 0,
        }
    }

    /// Sends a batch in pieces of any length, takes every answer and compares.
    fn exchange(&mut self, connection: &mut Connection, batch: Batch, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let most = [20, 5000, bytes.len()][self.dice.usize(..3)];
            let (piece, after) = rest.split_at(self.dice.usize(1..=most.min(rest.len())));
            connection.write_all(piece).context("while sending")?;
            rest = after;
        }
        self.take_all(connection, batch)
    }

    fn take_all(&mut self, connection: &mut Connection, mut batch: Batch) -> Result<()> {
        let replies = connection.replies;
        let mut content = Vec::new();
        while !batch.is_empty() {
            let find = |cookie| {
                let asked = batch.get(&cookie).context("a reply without a request")?;
                Ok((asked.request.offset, asked.found.len()))
            };
            let taken = wire::take_answer(connection, find, &mut content)
                .with_context(|| waiting(&batch, replies))?;
            let asked = batch.get_mut(&taken.cookie).context("it was there")?;
            let inside = usize::try_from(taken.offset - asked.request.offset)?;
            if !content.is_empty() {
                asked.found[inside..inside + content.len()].copy_from_slice(&content);
                asked.got += content.len();
            }
            if taken.done
                && let Some(asked) = batch.remove(&taken.cookie)
            {
                self.answered(asked)?;
            }
        }
        Ok(())
    }

    fn answered(&mut self, asked: Asked) -> Result<()> {
        self.tally.requests += 1;
        self.tally.bytes += u64::from(asked.request.len);
        match asked.request.command {
            wire::READ => {
                ensure!(
                    asked.got == asked.found.len(),
                    "a read of {} bytes was answered with {}",
                    asked.found.len(),
                    asked.got
                );
                let what = || format!("a read of {} bytes", asked.found.len());
                self.region
                    .read(asked.at, &asked.found)
                    .with_context(what)?;
            }
            // What a trim leaves is known after the next read.
            wire::TRIM => self.region.may_have_written(asked.at, asked.data),
            _ => self.region.wrote(asked.at, &asked.data),
        }
        Ok(())
    }

    /// Sends a part of a batch and is gone.
    fn fall_silent(&mut self, connection: Connection, batch: Batch, sent: &[u8]) -> Result<()> {
        let mut connection = connection;
        connection.write_all(sent).context("while sending")?;
        let end = self.place.end_of(&connection)?;
        let reset = self.dice.bool();
        connection.abandon(reset)?;
        for asked in batch.into_values() {
            if !asked.data.is_empty() {
                self.region.may_have_written(asked.at, asked.data);
            }
        }
        self.tally.killed += 1;
        match end {
            Some(end) => end.wait_until_gone(self.place.server()),
            None => Ok(()),
        }
    }

    fn read_all(&mut self, connection: &mut Connection) -> Result<()> {
        for at in (0..self.region.len()).step_by(PIECE) {
            let len = PIECE.min(self.region.len() - at);
            let request = Request {
                command: wire::READ,
                offset: self.region.start() + at as u64,
                len: short(len),
                ..Request::default()
            };
            connection.write_all(&request.bytes())?;
            let asked = Asked {
                request,
                at,
                data: Vec::new(),
                found: vec![0; len],
                got: 0,
            };
            self.take_all(connection, Batch::from([(0, asked)]))?;
        }
        Ok(())
    }

    fn goodbye(&mut self, connection: &mut Connection) -> Result<()> {
        let request = Request {
            command: wire::DISCONNECT,
            ..Request::default()
        };
        connection.write_all(&request.bytes())?;
        Ok(())
    }
}

/// Requests without a reply so far, for debugging.
fn waiting(batch: &Batch, replies: Replies) -> String {
    let requests = batch.values().map(|asked| {
        let Request {
            command,
            flags,
            cookie,
            offset,
            len,
        } = asked.request;
        format!("{cookie}: command {command} flags {flags} at {offset} of {len} bytes")
    });
    let requests: Vec<String> = requests.collect();
    format!("{replies:?} replies, waiting for {}", requests.join("; "))
}

/// A batch as it is sent.
fn bytes(batch: &Batch) -> Vec<u8> {
    let mut bytes = Vec::new();
    for asked in batch.values() {
        bytes.extend(asked.request.bytes());
        if asked.request.command == wire::WRITE {
            bytes.extend(&asked.data);
        }
    }
    bytes
}

/// A region is smaller than what 32 bits count.
fn short(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
