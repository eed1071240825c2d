//! The few bytes of NBD that these tests speak, so that they need no other program
//! (proto.md, "Newstyle negotiation" and "Transmission phase").

use std::io::{Read, Write};

const CLIENT_FLAGS: u32 = 3; // fixed newstyle, no zeroes
const EXPORT_NAME: u32 = 1;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
#[cfg(feature = "bucket")]
const FLUSH: u16 = 3;

/// The size that a server reports for the export `name`; `None` if it closes the connection.
pub(super) fn size_of_export(mut stream: impl Read + Write, name: &str) -> Option<u64> {
    handshake(&mut stream, name)
}

/// Chooses the default export and sends a write of 4096 bytes without its data.
pub(super) fn start_a_write<S: Read + Write>(mut stream: S) -> S {
    handshake(&mut stream, "").expect("there is a default export");
    stream
        .write_all(&request(WRITE, 4096))
        .expect("the server reads");
    stream
}

/// Chooses the default export and requests 32 MiB, without reading the reply.
pub(super) fn start_a_read<S: Read + Write>(mut stream: S) -> S {
    handshake(&mut stream, "").expect("there is a default export");
    stream
        .write_all(&request(READ, 32 << 20))
        .expect("the server reads");
    stream
}

/// A request for the first `len` bytes.
fn request(command: u16, len: u32) -> Vec<u8> {
    let mut request = Vec::new();
    request.extend(0x2560_9513_u32.to_be_bytes());
    request.extend(0_u16.to_be_bytes());
    request.extend(command.to_be_bytes());
    request.extend(1_u64.to_be_bytes());
    request.extend(0_u64.to_be_bytes());
    request.extend(len.to_be_bytes());
    request
}

fn handshake(stream: &mut (impl Read + Write), name: &str) -> Option<u64> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    let mut option = CLIENT_FLAGS.to_be_bytes().to_vec();
    option.extend(b"IHAVEOPT");
    option.extend(EXPORT_NAME.to_be_bytes());
    let len = u32::try_from(name.len()).expect("names are short");
    option.extend(len.to_be_bytes());
    option.extend(name.as_bytes());
    stream.write_all(&option).expect("the server reads");
    let mut size = [0; 8];
    stream.read_exact(&mut size).ok()?;
    let mut flags = [0; 2];
    stream
        .read_exact(&mut flags)
        .expect("flags behind the size");
    Some(u64::from_be_bytes(size))
}

/// A client with one request in flight.
pub(super) struct NbdSession<S>(S);

impl<S: Read + Write> NbdSession<S> {
    /// Chooses an export; `None` if the server closes the connection.
    pub(super) fn open(mut stream: S, name: &str) -> Option<Self> {
        handshake(&mut stream, name)?;
        // Without NO_ZEROES there would be 124 bytes here.
        Some(Self(stream))
    }

    /// The first `len` bytes; `None` if the server has closed the connection.
    pub(super) fn read(&mut self, len: u32) -> Option<Vec<u8>> {
        self.0.write_all(&request(READ, len)).ok()?;
        self.reply()?;
        let mut data = vec![0; len as usize];
        self.0.read_exact(&mut data).ok()?;
        Some(data)
    }

    /// Writes `data` to the front.
    pub(super) fn write(&mut self, data: &[u8]) -> Option<()> {
        let len = u32::try_from(data.len()).expect("short");
        // In one piece: a server that ends the export does not wait for the rest of a request.
        let request = [request(WRITE, len).as_slice(), data].concat();
        self.0.write_all(&request).ok()?;
        self.reply()
    }

    /// Makes everything durable; `None` if the server has closed the connection.
    #[cfg(feature = "bucket")]
    pub(super) fn flush(&mut self) -> Option<()> {
        self.0.write_all(&request(FLUSH, 0)).ok()?;
        self.reply()
    }

    /// Says goodbye, and waits until the server has heard it.
    pub(super) fn say_goodbye(&mut self) {
        self.0
            .write_all(&request(DISCONNECT, 0))
            .expect("the server reads");
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).expect("an end");
    }

    fn reply(&mut self) -> Option<()> {
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).ok()?;
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
        Some(())
    }
}
