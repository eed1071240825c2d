//! A client that sends the bytes that a test gives it: for what no well-behaved client sends.
//!
//! Source of the numbers: NBD's `doc/proto.md`. They are written out here so that a mistake of our own
//! protocol crate is not made twice.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// `NBD_CMD_READ`
pub const READ: u16 = 0;
/// `NBD_CMD_WRITE`
pub const WRITE: u16 = 1;
/// `NBD_CMD_FLUSH`
pub const FLUSH: u16 = 3;
/// `NBD_CMD_FLAG_FUA`
pub const FUA: u16 = 1;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(20);

/// One request's header, but for its magic.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request {
    /// What.
    pub command: u16,
    /// How.
    pub flags: u16,
    /// Which.
    pub cookie: u64,
    /// Where.
    pub offset: u64,
    /// How many bytes.
    pub len: u32,
}

impl Request {
    /// As it is sent.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend(self.command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend(self.len.to_be_bytes());
        bytes
    }
}

/// Connects and takes the greeting, no more.
///
/// # Panics
/// If nothing listens.
#[must_use]
#[track_caller]
pub fn greeted(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server to connect to");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    stream
}

/// Connects to the default export, with simple replies.
///
/// # Panics
/// If the server refuses.
#[must_use]
#[track_caller]
pub fn connected(port: u16) -> TcpStream {
    let mut stream = greeted(port);
    // Fixed newstyle without zeroes; then the option that names the export: the empty name.
    let choice = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0";
    stream.write_all(choice).expect("a handshake to be taken");
    stream.read_exact(&mut [0; 10]).expect("an export");
    stream
}

/// The next simple reply: error and cookie.
///
/// # Errors
/// If the connection ends before it.
///
/// # Panics
/// If it is no simple reply.
pub fn reply(stream: &mut TcpStream) -> io::Result<(u32, u64)> {
    let mut bytes = [0; 16];
    stream.read_exact(&mut bytes)?;
    let [m0, m1, m2, m3, e0, e1, e2, e3, cookie @ ..] = bytes;
    assert_eq!([m0, m1, m2, m3], 0x6744_6698_u32.to_be_bytes());
    let error = u32::from_be_bytes([e0, e1, e2, e3]);
    Ok((error, u64::from_be_bytes(cookie)))
}

/// Waits until the server closes the connection; what it still sends is dropped.
///
/// # Panics
/// If it does not close it in time.
#[track_caller]
pub fn assert_closed(mut stream: TcpStream) {
    let mut rest = [0; 4096];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return,
            Err(e) => panic!("the server keeps the connection: {e}"),
        }
    }
}

/// A write and its answer.
///
/// # Errors
/// If the connection ends.
pub fn write(stream: &mut TcpStream, request: Request, data: &[u8]) -> io::Result<(u32, u64)> {
    let mut bytes = request.bytes();
    bytes.extend(data);
    stream.write_all(&bytes)?;
    reply(stream)
}

/// A flush and its answer.
///
/// # Errors
/// If the connection ends.
pub fn flush(stream: &mut TcpStream, cookie: u64) -> io::Result<(u32, u64)> {
    let request = Request {
        command: FLUSH,
        cookie,
        ..Request::default()
    };
    stream.write_all(&request.bytes())?;
    reply(stream)
}

/// A read of `len` bytes and what it brought.
///
/// # Errors
/// If the connection ends.
///
/// # Panics
/// If the server answers with an error, or to another request.
#[track_caller]
pub fn read(stream: &mut TcpStream, cookie: u64, offset: u64, len: u32) -> io::Result<Vec<u8>> {
    let request = Request {
        command: READ,
        cookie,
        offset,
        len,
        ..Request::default()
    };
    stream.write_all(&request.bytes())?;
    let answer = reply(stream)?;
    assert_eq!(answer, (0, cookie), "a read of {len} bytes at {offset}");
    let mut bytes = vec![0; usize::try_from(len).expect("a length fits usize")];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
