//! The bare loop: an NBD server that does nothing but the least, as a floor for the bench.
//!
//! One thread for each connection receives what is there, answers every complete request of it at once
//! from the page cache, and sends the replies together; long reads by `sendfile`. Replies are structured
//! where the client requests that, since they cost it more, and nothing is paced, as with our server. It has
//! no limits, no counters, no timeouts, no TLS, no check of a range, and one kind of disk. What a mark demands
//! beyond the bare loop's figure in the same run, this machine does not give to a server on the same
//! processors as its client. It is never linked into the product and listens on the loopback only.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use rustix::net::{SendFlags, sockopt};

use crate::wire;

/// Bytes received with one call, and sent with one.
const BUFFER_LEN: usize = 256 << 10;
/// Reads from here on are sent from the file.
const SENDFILE_MIN: usize = 64 << 10;

const FLAGS_NEWSTYLE_NO_ZEROES: u16 = 3;
/// `HAS_FLAGS`, `SEND_FLUSH` and `CAN_MULTI_CONN`.
const FLAGS_EXPORT: u16 = 1 | 1 << 2 | 1 << 8;
const OPTION_INFO: u32 = 6;
const OPTION_GO: u32 = 7;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 1 << 31 | 1;

/// What to serve, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file.
    disk: PathBuf,
    /// The port on the loopback.
    port: u16,
}

/// Serves until it is killed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let disk = OpenOptions::new().read(true).write(true).open(&args.disk)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))?;
    std::thread::scope(|scope| {
        loop {
            let (stream, _) = listener.accept()?;
            let disk = &disk;
            scope.spawn(move || {
                // A client that leaves is no news.
                drop(serve(&stream, disk));
            });
        }
    })
}

fn serve(stream: &TcpStream, disk: &File) -> Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_tcp_congestion(stream, "reno")?;
    let mut session = Session {
        structured: handshake(stream, disk.metadata()?.len())?,
        stream,
        disk,
        out: Vec::with_capacity(BUFFER_LEN * 2),
    };
    let mut buffer = vec![0; BUFFER_LEN];
    let mut kept = 0;
    loop {
        let received = (&mut &*stream).read(&mut buffer[kept..])?;
        ensure!(received > 0, "the client left");
        let end = kept + received;
        let used = session.consume(&mut buffer, end)?;
        session.send()?;
        buffer.copy_within(used..end, 0);
        kept = end - used;
    }
}

/// Whether the client requested structured replies.
fn handshake(mut stream: &TcpStream, size: u64) -> Result<bool> {
    let mut greeting = b"NBDMAGICIHAVEOPT".to_vec();
    greeting.extend(FLAGS_NEWSTYLE_NO_ZEROES.to_be_bytes());
    stream.write_all(&greeting)?;
    stream.read_exact(&mut [0; 4])?;
    let mut structured = false;
    loop {
        let mut head = [0; 16];
        stream.read_exact(&mut head)?;
        let option = u32::from_be_bytes(head[8..12].try_into()?);
        let len = u32::from_be_bytes(head[12..].try_into()?);
        let mut data = vec![0; usize::try_from(len.min(4096))?];
        stream.read_exact(&mut data)?;
        let mut export = size.to_be_bytes().to_vec();
        export.extend(FLAGS_EXPORT.to_be_bytes());
        match option {
            wire::OPTION_EXPORT_NAME => {
                stream.write_all(&export)?;
                return Ok(structured);
            }
            wire::OPTION_STRUCTURED_REPLY => {
                structured = true;
                stream.write_all(&option_reply(option, wire::ACK, &[]))?;
            }
            OPTION_INFO | OPTION_GO => {
                let info = [&[0, 0][..], &export].concat();
                stream.write_all(&option_reply(option, REPLY_INFO, &info))?;
                stream.write_all(&option_reply(option, wire::ACK, &[]))?;
                if option == OPTION_GO {
                    return Ok(structured);
                }
            }
            _ => stream.write_all(&option_reply(option, REPLY_UNSUPPORTED, &[]))?,
        }
    }
}

fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut reply = REPLY_MAGIC.to_be_bytes().to_vec();
    reply.extend(option.to_be_bytes());
    reply.extend(kind.to_be_bytes());
    reply.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    reply.extend(data);
    reply
}

struct Session<'a> {
    structured: bool,
    stream: &'a TcpStream,
    disk: &'a File,
    /// Replies that were not sent yet.
    out: Vec<u8>,
}

impl Session<'_> {
    /// Answers the requests in the first `end` bytes. Returns how many bytes they took.
    fn consume(&mut self, buffer: &mut [u8], end: usize) -> Result<usize> {
        let mut at = 0;
        while end - at >= wire::REQUEST_LEN {
            let head = &buffer[at..][..wire::REQUEST_LEN];
            let command = u16::from_be_bytes(head[6..8].try_into()?);
            let cookie: [u8; 8] = head[8..16].try_into()?;
            let offset = u64::from_be_bytes(head[16..24].try_into()?);
            let len = usize::try_from(u32::from_be_bytes(head[24..].try_into()?))?;
            at += wire::REQUEST_LEN;
            match command {
                wire::READ => self.read(cookie, offset, len)?,
                wire::WRITE => {
                    let here = len.min(end - at);
                    self.disk.write_all_at(&buffer[at..at + here], offset)?;
                    at += here;
                    if here < len {
                        self.rest(buffer, offset + here as u64, len - here)?;
                        self.reply(cookie);
                        return Ok(end);
                    }
                    self.reply(cookie);
                }
                wire::FLUSH => {
                    self.disk.sync_data()?;
                    self.reply(cookie);
                }
                other => bail!("command {other}"),
            }
        }
        Ok(at)
    }

    /// Receives and writes what is left of a payload; nothing behind it.
    fn rest(&mut self, buffer: &mut [u8], mut offset: u64, mut left: usize) -> Result<()> {
        self.send()?;
        while left > 0 {
            let room = left.min(buffer.len());
            let received = (&mut &*self.stream).read(&mut buffer[..room])?;
            ensure!(received > 0, "the client left");
            self.disk.write_all_at(&buffer[..received], offset)?;
            offset += received as u64;
            left -= received;
        }
        Ok(())
    }

    fn read(&mut self, cookie: [u8; 8], offset: u64, len: usize) -> Result<()> {
        self.head(wire::CHUNK_DATA, cookie, len + 8);
        if self.structured {
            self.out.extend(offset.to_be_bytes());
        }
        if len < SENDFILE_MIN {
            let from = self.out.len();
            self.out.resize(from + len, 0);
            self.disk.read_exact_at(&mut self.out[from..], offset)?;
            return Ok(());
        }
        self.flush(SendFlags::MORE)?;
        let (mut offset, mut left) = (offset, len);
        while left > 0 {
            let sent = rustix::fs::sendfile(self.stream, self.disk, Some(&mut offset), left)?;
            ensure!(sent > 0, "the file ends");
            left -= sent;
        }
        Ok(())
    }

    fn reply(&mut self, cookie: [u8; 8]) {
        self.head(wire::CHUNK_NONE, cookie, 0);
    }

    /// A simple reply's head, or that of the only chunk of a structured one, which has `len` bytes.
    fn head(&mut self, kind: u16, cookie: [u8; 8], len: usize) {
        if !self.structured {
            self.out.extend(wire::SIMPLE_MAGIC.to_be_bytes());
            self.out.extend([0; 4]);
            self.out.extend(cookie);
            return;
        }
        self.out.extend(wire::CHUNK_MAGIC.to_be_bytes());
        self.out.extend(wire::CHUNK_DONE.to_be_bytes());
        self.out.extend(kind.to_be_bytes());
        self.out.extend(cookie);
        let len = u32::try_from(len).expect("no longer than was asked for");
        self.out.extend(len.to_be_bytes());
    }

    fn send(&mut self) -> Result<()> {
        self.flush(SendFlags::empty())
    }

    fn flush(&mut self, flags: SendFlags) -> Result<()> {
        let mut sent = 0;
        while sent < self.out.len() {
            let rest = &self.out[sent..];
            sent += rustix::net::send(self.stream, rest, flags).context("a reply")?;
        }
        self.out.clear();
        Ok(())
    }
}
