//! Floods: clients that send as much as the server takes of one command, take no reply and leave in the middle, and what
//! another client of the same disk gets meanwhile.
//!
//! A flood of each command comes before the first round: it is the largest moment of the server, and its allocator keeps
//! some of what that took. Each round has floods of two commands, one after the other, so that all commands have their
//! turn within four rounds.
//!
//! ```text
//! 0            1 MiB                                   64 MiB
//! the other    a page of data, a page of hole, ...
//! client's     what floods read, write, trim and map
//! ```

use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::place::{Image, Place};
use crate::wire::{self, Request};
use crate::{clock, data};

/// The disk of the floods.
const EXPORT: &str = "flood";
const SIZE: u32 = 64 << 20;
const PAGE: usize = 4096;
/// The part of the other client, which begins the disk.
const OWN: u32 = 1 << 20;

/// Clients that flood, and requests that each tries to send.
const FLOODS: usize = 8;
const DEPTH: u64 = 64;
/// Data of a read or a write.
const PIECE: u32 = 1 << 20;
/// A flood is there when the server has taken nothing for this time.
const TAKES_NO_MORE: Duration = Duration::from_millis(200);
/// Requests of the other client in each flood.
const REQUESTS: u32 = 20;
/// What one of them may take on a machine that has much else to do. It took 17 s when floods starved others.
const LIMIT: Duration = Duration::from_secs(10);
/// What the stop may take in a flood. It took 35 s.
pub(super) const STOP_LIMIT: Duration = Duration::from_secs(10);

const COMMANDS: [u16; 7] = [
    wire::BLOCK_STATUS,
    wire::READ,
    wire::WRITE,
    wire::FLUSH,
    wire::WRITE_ZEROES,
    wire::TRIM,
    wire::CACHE,
];

/// The disk that is flooded.
pub(super) fn image() -> Image {
    Image {
        export: EXPORT.to_owned(),
        size: SIZE.into(),
    }
}

/// The longest time that a request of the other client took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Longest {
    took: Duration,
    command: u16,
    flood: u16,
}

impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            took,
            command,
            flood,
        } = self;
        write!(
            f,
            "a request {command} took {} ms in a flood of {flood}",
            took.as_millis()
        )
    }
}

/// A flood of each command.
pub(super) fn all(place: &Place) -> Result<Longest> {
    of(place, COMMANDS)
}

/// The floods of round `number`, from 1 on.
pub(super) fn round(place: &Place, number: u32) -> Result<Longest> {
    let first = 2 * usize::try_from(number)?;
    of(
        place,
        [first, first + 1].map(|nth| COMMANDS[nth % COMMANDS.len()]),
    )
}

/// Floods of `commands`, one after the other.
fn of(place: &Place, commands: impl IntoIterator<Item = u16>) -> Result<Longest> {
    let mut longest = Longest::default();
    for command in commands {
        fragment(place)?;
        let what = || format!("in a flood of command {command}");
        let floods = begin(place, command).with_context(what)?;
        longest = longest.max(others(place, command).with_context(what)?);
        drop(floods);
    }
    Ok(longest)
}

/// Clients that flood. They leave when they are dropped.
pub(super) fn begin(place: &Place, command: u16) -> Result<Vec<TcpStream>> {
    std::thread::scope(|scope| {
        let floods: Vec<_> = (0..FLOODS)
            .map(|_| scope.spawn(|| flood(place, command)))
            .collect();
        let joined = floods.into_iter().map(|flood| flood.join());
        joined
            .map(|flood| flood.expect("it does not panic"))
            .collect()
    })
}

/// Holes between pages of data: the map of the disk is a long one.
fn fragment(place: &Place) -> Result<()> {
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .open(place.folder().join(EXPORT))
        .context("the disk of the floods")?;
    data::fragment(&file, OWN.into(), SIZE.into())
}

/// Sends requests until the server takes no more of them.
fn flood(place: &Place, command: u16) -> Result<TcpStream> {
    let mut stream = wire::connect_status(place.port(), EXPORT)?;
    stream.set_write_timeout(Some(TAKES_NO_MORE))?;
    let (offset, len) = match command {
        wire::READ | wire::WRITE => (OWN, PIECE),
        wire::FLUSH => (0, 0),
        _ => (OWN, SIZE - OWN),
    };
    for cookie in 0..DEPTH {
        let request = Request {
            command,
            cookie,
            offset: offset.into(),
            len,
            ..Request::default()
        };
        let mut bytes = request.bytes().to_vec();
        if command == wire::WRITE {
            bytes.resize(bytes.len() + usize::try_from(PIECE)?, 9);
        }
        match stream.write_all(&bytes) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) => return Err(e).context("a flood"),
        }
    }
    Ok(stream)
}

/// Writes, reads back and maps in a flood of one command.
fn others(place: &Place, flood: u16) -> Result<Longest> {
    let mut stream = wire::connect_status(place.port(), EXPORT)?;
    stream.set_read_timeout(Some(2 * LIMIT))?;
    let mut longest = Longest::default();
    for number in 0..REQUESTS {
        let offset = u64::from(number) * PAGE as u64;
        let data = [u8::try_from(number)?; PAGE];
        for command in [wire::WRITE, wire::READ, wire::BLOCK_STATUS] {
            let start = clock::now();
            request(&mut stream, command, offset, &data)
                .with_context(|| format!("command {command} of another client"))?;
            let took = start.elapsed();
            ensure!(
                took <= LIMIT,
                "command {command} of another client took {took:?}"
            );
            longest = longest.max(Longest {
                took,
                command,
                flood,
            });
        }
    }
    Ok(longest)
}

/// One request of a page that holds `data`.
fn request(stream: &mut TcpStream, command: u16, offset: u64, data: &[u8; PAGE]) -> Result<()> {
    let len = match command {
        wire::BLOCK_STATUS => OWN,
        _ => u32::try_from(PAGE)?,
    };
    let request = Request {
        command,
        flags: if command == wire::WRITE { wire::FUA } else { 0 },
        cookie: 1,
        offset: if command == wire::BLOCK_STATUS {
            0
        } else {
            offset
        },
        len,
    };
    let mut bytes = request.bytes().to_vec();
    if command == wire::WRITE {
        bytes.extend(data);
    }
    stream.write_all(&bytes)?;
    if command == wire::BLOCK_STATUS {
        return wire::take_any(stream).map(drop);
    }
    let wanted = if command == wire::READ { PAGE } else { 0 };
    let (mut found, mut content) = (vec![0; wanted], Vec::new());
    loop {
        let taken = wire::take_answer(stream, |_| Ok((offset, wanted)), &mut content)?;
        let at = usize::try_from(taken.offset - offset)?;
        found[at..at + content.len()].copy_from_slice(&content);
        if taken.done {
            break;
        }
    }
    ensure!(
        found == data[..wanted],
        "the page at {offset} is not what was written"
    );
    Ok(())
}
