//! A thin client: a raw connection from an address of its own, of which the loopback has millions.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Duration;

use outboard_tests::raw::{FUA, READ, Request, WRITE, reply};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// `NBD_CMD_DISC`
const DISCONNECT: u16 = 2;
/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The address of client `number`.
pub(crate) fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 9, 0, number)
}

/// A connection of a client.
pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    /// Connects, and requests the default export without waiting for the reply.
    pub(crate) fn ask(port: u16, number: u8) -> Self {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
        let socket = socket.expect("a socket");
        let from = SocketAddrV4::new(address(number), 0);
        rustix::net::bind(&socket, &from).expect("an address of the loopback");
        let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        rustix::net::connect(&socket, &server).expect("a server to connect to");
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        // Fixed newstyle without zeroes; then the option that names the export: the empty name.
        let choice = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0";
        stream.write_all(choice).expect("a handshake to be taken");
        Self { stream }
    }

    /// The size that the server reported; `None` if the server closed the connection.
    pub(crate) fn size(&mut self) -> Option<u64> {
        self.stream.read_exact(&mut [0; 18]).expect("a greeting");
        let mut size = [0; 8];
        self.stream.read_exact(&mut size).ok()?;
        self.stream.read_exact(&mut [0; 2]).expect("flags");
        Some(u64::from_be_bytes(size))
    }

    /// Connects and waits until it is served.
    pub(crate) fn connect(port: u16, number: u8) -> Self {
        let mut client = Self::ask(port, number);
        client.size().expect("it is served");
        client
    }

    /// Sends a write that is durable when it is answered.
    pub(crate) fn send_write(&mut self, offset: u64, data: &[u8]) {
        let mut bytes = self.request(WRITE, FUA, offset, data.len()).bytes();
        bytes.extend(data);
        self.stream.write_all(&bytes).expect("the server reads");
    }

    /// The error of the next answer without data.
    pub(crate) fn answer(&mut self) -> u32 {
        reply(&mut self.stream).expect("an answer").0
    }

    /// Writes; the error.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.send_write(offset, data);
        self.answer()
    }

    /// Reads what is there.
    pub(crate) fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        let bytes = self.request(READ, 0, offset, len).bytes();
        self.stream.write_all(&bytes).expect("the server reads");
        assert_eq!(self.answer(), 0);
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data).expect("data");
        data
    }

    /// Says goodbye, and waits until the server has heard it.
    pub(crate) fn say_goodbye(mut self) {
        let bytes = self.request(DISCONNECT, 0, 0, 0).bytes();
        self.stream.write_all(&bytes).expect("the server reads");
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).expect("an end");
    }

    #[expect(
        clippy::unused_self,
        reason = "it reads as what it is: a request of this client"
    )]
    fn request(&self, command: u16, flags: u16, offset: u64, len: usize) -> Request {
        Request {
            command,
            flags,
            cookie: offset,
            offset,
            len: u32::try_from(len).expect("short"),
        }
    }
}
