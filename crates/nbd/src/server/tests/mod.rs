//! Tests of the server: a raw client that says exactly the bytes a test wants, on a real socket.

mod access;
mod bounds;
mod broken;
mod budget;
mod control;
mod durability;
mod extended;
mod faults;
mod floods;
pub(crate) mod harness;
mod hostile;
mod listeners;
mod per_client;
mod plan;
mod soak;
mod standby;
mod stop;
mod transmission;
mod wide;
mod writers;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use nbd_proto::{Command, CommandFlags, Request};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use harness::{export, local, serving, serving_on};

use super::{Export, Limits, ListenAddress, Listener, ServeError, Server};

/// A client of bytes.
struct RawClient<S = TcpStream> {
    stream: S,
}

impl RawClient {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address)
            .await
            .expect("a listening server");
        stream.set_nodelay(true).expect("a TCP socket");
        Self { stream }
    }

    /// Through the handshake to `disk`, with simple replies.
    async fn simple(address: SocketAddr) -> Self {
        let mut raw = Self::connect(address).await;
        raw.choose().await;
        raw
    }

    /// The same with structured replies.
    async fn structured(address: SocketAddr) -> Self {
        let mut raw = Self::connect(address).await;
        raw.choose_structured().await;
        raw
    }

    /// Ends with a reset rather than a goodbye.
    fn reset(self) {
        let stream = self.stream.into_std().expect("a socket");
        let at_once = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&stream, at_once).expect("an option");
    }
}

impl RawClient<UnixStream> {
    /// Through the handshake to `disk`, with simple replies. A Unix socket holds little.
    async fn simple_at(path: &Path) -> Self {
        let stream = UnixStream::connect(path).await.expect("a listening server");
        let mut raw = Self { stream };
        raw.choose().await;
        raw
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawClient<S> {
    /// Chooses `disk` by `EXPORT_NAME`.
    async fn choose(&mut self) {
        self.greet().await;
        self.option(1, b"disk").await;
        self.take(10).await;
    }

    /// Chooses `disk` by `GO` after `STRUCTURED_REPLY`.
    async fn choose_structured(&mut self) {
        let raw = self;
        raw.greet().await;
        raw.option(8, b"").await;
        raw.take(20).await;
        raw.option(7, b"\0\0\0\x04disk\0\0").await;
        loop {
            let head = raw.take(20).await;
            let len = u32::from_be_bytes(head[16..].try_into().expect("four bytes"));
            raw.take(len as usize).await;
            if head[12..16] == [0, 0, 0, 1] {
                return;
            }
        }
    }

    async fn greet(&mut self) {
        let greeting = self.take(18).await;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        self.say(&3u32.to_be_bytes()).await;
    }

    async fn option(&mut self, option: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend_from_slice(&option.to_be_bytes());
        bytes.extend_from_slice(&u32::try_from(data.len()).expect("short").to_be_bytes());
        bytes.extend_from_slice(data);
        self.say(&bytes).await;
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .await
            .expect("the server listens");
    }

    async fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream
            .read_exact(&mut bytes)
            .await
            .expect("the server answers");
        bytes
    }

    /// Sends a request and takes a simple reply: its error and its data.
    async fn ask(&mut self, request: Request, payload: &[u8]) -> (u32, Vec<u8>) {
        let mut bytes = request.encode().to_vec();
        bytes.extend_from_slice(payload);
        self.say(&bytes).await;
        self.simple_reply(&request).await
    }

    async fn simple_reply(&mut self, request: &Request) -> (u32, Vec<u8>) {
        let head = self.take(16).await;
        assert_eq!(head[..4], [0x67, 0x44, 0x66, 0x98]);
        assert_eq!(head[8..], request.cookie.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().expect("four bytes"));
        let is_read = error == 0 && request.command == Command::Read;
        let len = if is_read { request.len } else { 0 };
        (error, self.take(usize::try_from(len).expect("short")).await)
    }

    /// Whether the server has closed the connection, with nothing more to say.
    async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        // A reset is an end too.
        match self.stream.read_to_end(&mut rest).await {
            Ok(_) => rest.is_empty(),
            Err(_) => true,
        }
    }

    /// Whether the server closed the connection instead of greeting.
    async fn is_closed_at_once(&mut self) -> bool {
        !matches!(self.stream.read(&mut [0; 18]).await, Ok(count) if count > 0)
    }

    /// Reads a byte, to show that the connection is alive and in step.
    async fn assert_in_step(&mut self) {
        let (error, data) = self.ask(request(Command::Read, 0, 1), &[]).await;
        assert_eq!((error, data.len()), (0, 1));
    }
}

/// Numbers from a seed (a linear congruential generator).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, max: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % max
    }
}

fn request(command: Command, offset: u64, len: u64) -> Request {
    Request {
        cookie: offset ^ (len << 20) ^ 0x5eed,
        command,
        flags: CommandFlags::empty(),
        offset,
        len,
    }
}

const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
