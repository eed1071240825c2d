//! The little of NBD that these commands speak themselves, over any stream that blocks.
//!
//! Source of the numbers: NBD's `doc/proto.md`. They are written out here, so that what is measured and
//! soaked is not checked by its own code. A reply that does not match its request is an error.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context, Result, bail, ensure};

/// `NBD_CMD_READ`
pub(crate) const READ: u16 = 0;
/// `NBD_CMD_WRITE`
pub(crate) const WRITE: u16 = 1;
/// `NBD_CMD_DISC`
pub(crate) const DISCONNECT: u16 = 2;
/// `NBD_CMD_FLUSH`
pub(crate) const FLUSH: u16 = 3;
/// `NBD_CMD_TRIM`
pub(crate) const TRIM: u16 = 4;
/// `NBD_CMD_CACHE`
pub(crate) const CACHE: u16 = 5;
/// `NBD_CMD_WRITE_ZEROES`
pub(crate) const WRITE_ZEROES: u16 = 6;
/// `NBD_CMD_BLOCK_STATUS`
pub(crate) const BLOCK_STATUS: u16 = 7;
/// `NBD_CMD_FLAG_FUA`
pub(crate) const FUA: u16 = 1;

/// Length of a request without its payload.
pub(crate) const REQUEST_LEN: usize = 28;
/// Length of what a head begins with.
pub(crate) const MAGIC_LEN: usize = 4;
/// Length of a simple reply without its data.
pub(crate) const SIMPLE_LEN: usize = 16;
/// Length of a chunk's header.
pub(crate) const CHUNK_LEN: usize = 20;

pub(crate) const SIMPLE_MAGIC: u32 = 0x6744_6698;
pub(crate) const CHUNK_MAGIC: u32 = 0x668e_33ef;
pub(crate) const CHUNK_DONE: u16 = 1;
pub(crate) const CHUNK_NONE: u16 = 0;
pub(crate) const CHUNK_DATA: u16 = 1;
const CHUNK_HOLE: u16 = 2;
const CHUNK_STATUS: u16 = 5;

const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
pub(crate) const OPTION_EXPORT_NAME: u32 = 1;
pub(crate) const OPTION_STRUCTURED_REPLY: u32 = 8;
const OPTION_GO: u32 = 7;
const OPTION_SET_META_CONTEXT: u32 = 10;
const OPTION_REPLY_LEN: usize = 20;
const FIXED_NEWSTYLE_NO_ZEROES: u32 = 3;
pub(crate) const ACK: u32 = 1;

/// How a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    Simple,
    Structured,
}

/// One request's header.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Request {
    pub(crate) command: u16,
    pub(crate) flags: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Request {
    /// As it is sent.
    pub(crate) fn bytes(self) -> [u8; REQUEST_LEN] {
        let mut bytes = [0; REQUEST_LEN];
        bytes[..4].copy_from_slice(&0x2560_9513_u32.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
}

/// The head of an answer: what follows it on the wire, and whether more heads do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) cookie: u64,
    pub(crate) follows: Follows,
    /// The last head of this request.
    pub(crate) done: bool,
}

/// What follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follows {
    /// The result: all of a read's data, or nothing.
    All,
    /// Nothing.
    Nothing,
    /// An offset and this many bytes of data.
    Data(u32),
    /// An offset and the length of a hole.
    Hole,
}

/// How long the head is that begins with `magic`; none if nothing begins so. A server with structured
/// replies may still answer simply what is no read.
pub(crate) fn head_len(magic: [u8; MAGIC_LEN]) -> Result<usize> {
    match u32::from_be_bytes(magic) {
        SIMPLE_MAGIC => Ok(SIMPLE_LEN),
        CHUNK_MAGIC => Ok(CHUNK_LEN),
        other => bail!("a reply begins with {other:#x}"),
    }
}

/// Understands a whole head; an answer of error is an error.
pub(crate) fn head(bytes: &[u8]) -> Result<Head> {
    if bytes.len() == SIMPLE_LEN {
        simple_head(bytes)
    } else {
        chunk_head(bytes)
    }
}

fn simple_head(bytes: &[u8]) -> Result<Head> {
    let mut fields = Fields(bytes);
    fields.u32()?;
    let error = fields.u32()?;
    ensure!(error == 0, "the server answered with error {error}");
    Ok(Head {
        cookie: fields.u64()?,
        follows: Follows::All,
        done: true,
    })
}

fn chunk_head(bytes: &[u8]) -> Result<Head> {
    let mut fields = Fields(bytes);
    fields.u32()?;
    let flags = fields.u16()?;
    let kind = fields.u16()?;
    let cookie = fields.u64()?;
    let len = fields.u32()?;
    let follows = match (kind, len) {
        (CHUNK_NONE, 0) => Follows::Nothing,
        (CHUNK_DATA, 9..) => Follows::Data(len - 8),
        (CHUNK_HOLE, 12) => Follows::Hole,
        _ => bail!("the server answered with a chunk of type {kind:#x} and {len} bytes"),
    };
    Ok(Head {
        cookie,
        follows,
        done: flags & CHUNK_DONE != 0,
    })
}

/// Integers one after the other.
#[derive(Debug)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().context("it is cut short")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

/// The whole handshake of fixed newstyle, up to the transmission phase; the export's size.
pub(crate) fn negotiate(
    stream: &mut (impl Read + Write),
    export: &str,
    replies: Replies,
) -> Result<u64> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).context("no greeting")?;
    ensure!(greeting[8..16] == *OPTION_MAGIC, "not a newstyle server");
    stream.write_all(&FIXED_NEWSTYLE_NO_ZEROES.to_be_bytes())?;
    if replies == Replies::Structured {
        stream.write_all(&option(OPTION_STRUCTURED_REPLY, b"")?)?;
        let mut answer = [0; OPTION_REPLY_LEN];
        stream
            .read_exact(&mut answer)
            .context("no answer to an option")?;
        let mut fields = Fields(&answer[12..]);
        ensure!(
            (fields.u32()?, fields.u32()?) == (ACK, 0),
            "no structured replies"
        );
    }
    stream.write_all(&option(OPTION_EXPORT_NAME, export.as_bytes())?)?;
    let mut size_and_flags = [0; 10];
    stream
        .read_exact(&mut size_and_flags)
        .context("no export")?;
    Fields(&size_and_flags).u64()
}

/// The handshake of a client that requests structured replies and `base:allocation`.
fn negotiate_status(stream: &mut (impl Read + Write), export: &str) -> Result<()> {
    const CONTEXT: &[u8] = b"base:allocation";
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).context("no greeting")?;
    stream.write_all(&FIXED_NEWSTYLE_NO_ZEROES.to_be_bytes())?;
    let word = |len: usize| u32::try_from(len).map(u32::to_be_bytes);
    let name = [&word(export.len())?[..], export.as_bytes()].concat();
    let one_query = [&word(1)?[..], &word(CONTEXT.len())?, CONTEXT].concat();
    let options = [
        (OPTION_STRUCTURED_REPLY, Vec::new()),
        (OPTION_SET_META_CONTEXT, [&name[..], &one_query].concat()),
        (OPTION_GO, [&name[..], &[0, 0]].concat()),
    ];
    for (number, data) in options {
        stream.write_all(&option(number, &data)?)?;
        loop {
            let mut head = [0; OPTION_REPLY_LEN];
            stream
                .read_exact(&mut head)
                .context("no answer to an option")?;
            let mut fields = Fields(&head[12..]);
            let (kind, len) = (fields.u32()?, fields.u32()?);
            stream.read_exact(&mut vec![0; usize::try_from(len)?])?;
            ensure!(kind >> 31 == 0, "option {number} was refused: {kind:#x}");
            if kind == ACK {
                break;
            }
        }
    }
    Ok(())
}

/// Connects to `export` of a server of this machine, and negotiates the status.
pub(crate) fn connect_status(port: u16, export: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    negotiate_status(&mut stream, export).context("the handshake")?;
    Ok(stream)
}

/// Takes one whole reply of a client that has negotiated the status, whatever it was about; its cookie.
pub(crate) fn take_any(stream: &mut impl Read) -> Result<u64> {
    loop {
        let mut bytes = [0; CHUNK_LEN];
        let (magic, rest) = bytes.split_at_mut(MAGIC_LEN);
        stream.read_exact(magic).context("no reply")?;
        let len = head_len(magic.try_into()?)?;
        stream.read_exact(&mut rest[..len - MAGIC_LEN])?;
        if len == SIMPLE_LEN {
            return Ok(head(&bytes[..len])?.cookie);
        }
        let mut fields = Fields(&bytes[MAGIC_LEN..]);
        let (flags, kind) = (fields.u16()?, fields.u16()?);
        let (cookie, payload) = (fields.u64()?, fields.u32()?);
        stream.read_exact(&mut vec![0; usize::try_from(payload)?])?;
        let known = [CHUNK_NONE, CHUNK_DATA, CHUNK_HOLE, CHUNK_STATUS];
        ensure!(
            known.contains(&kind),
            "the server answered with a chunk of type {kind:#x}"
        );
        if flags & CHUNK_DONE != 0 {
            return Ok(cookie);
        }
    }
}

fn option(number: u32, data: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = OPTION_MAGIC.to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(u32::try_from(data.len())?.to_be_bytes());
    bytes.extend(data);
    Ok(bytes)
}

/// Takes a head and what follows it into `content`. `find` says of a cookie where its request began and how
/// many bytes it reads: none for what is no read.
pub(crate) fn take_answer(
    stream: &mut impl Read,
    find: impl FnOnce(u64) -> Result<(u64, usize)>,
    content: &mut Vec<u8>,
) -> Result<Taken> {
    let mut bytes = [0; CHUNK_LEN];
    let (magic, rest) = bytes.split_at_mut(MAGIC_LEN);
    stream.read_exact(magic).context("no reply")?;
    let len = head_len(magic.try_into()?)?;
    stream.read_exact(&mut rest[..len - MAGIC_LEN])?;
    let head = head(&bytes[..len])?;
    let (asked, asked_len) = find(head.cookie)?;
    content.clear();
    let offset = match head.follows {
        Follows::Nothing => asked,
        Follows::All => {
            content.resize(asked_len, 0);
            asked
        }
        Follows::Data(len) => {
            let offset = take_u64(stream)?;
            content.resize(usize::try_from(len)?, 0);
            offset
        }
        Follows::Hole => {
            let offset = take_u64(stream)?;
            let mut len = [0; 4];
            stream.read_exact(&mut len)?;
            content.resize(usize::try_from(u32::from_be_bytes(len))?, 0);
            offset
        }
    };
    let end = offset.checked_add(content.len() as u64);
    ensure!(
        offset >= asked && end.is_some_and(|end| end <= asked + asked_len as u64),
        "an answer with bytes that were not asked for"
    );
    if head.follows != Follows::Hole {
        stream.read_exact(content).context("data cut short")?;
    }
    Ok(Taken {
        cookie: head.cookie,
        offset,
        done: head.done,
    })
}

/// A part of an answer that was taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) cookie: u64,
    /// Where its content belongs.
    pub(crate) offset: u64,
    /// The answer's last part.
    pub(crate) done: bool,
}

fn take_u64(stream: &mut impl Read) -> Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes).context("a chunk cut short")?;
    Ok(u64::from_be_bytes(bytes))
}
