//! [`ServeError`]: why serving did not begin, or how it ended badly. [`ChangeError`]: why a change
//! of exports failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failure of the server as a whole. Failures of one client end that client only.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is nothing to serve.
    #[error("no disk to serve")]
    NoExports,
    /// Two exports of one name.
    #[error("export name {0:?} is given twice; give each disk its own NAME=DISK")]
    NameTwice(String),
    /// A name that the protocol cannot carry.
    #[error("export name of {} bytes; at most 4096", .0.len())]
    NameTooLong(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {}", listen_hint(.source))]
    Listen {
        /// Which.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Another server listens on the socket's path.
    #[error("cannot listen on unix:{}: another server answers there", .0.display())]
    PathInUse(PathBuf),
    /// The path holds something that is no socket.
    #[error("cannot listen on unix:{}: the path exists and is no socket", .0.display())]
    NoSocket(PathBuf),
    /// A descriptor that was handed over cannot be served.
    #[error("descriptor handed over cannot be used: {0}")]
    Descriptor(#[source] io::Error),
    /// At the stop a disk could not be flushed.
    #[error("export {name:?} could not be flushed at the stop: {source}")]
    Flush {
        /// Which.
        name: String,
        /// Why.
        source: block::IoError,
    },
    /// At the stop a disk did not answer.
    #[error(
        "export {name:?} could not be flushed at the stop: its disk did not answer within {limit:?}; \
         what was written since the last flush may be lost"
    )]
    FlushTimeout {
        /// Which.
        name: String,
        /// The limit.
        limit: Duration,
    },
}

/// Why an export could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is none of that name.
    #[error("there is no export {0:?}")]
    Unknown(String),
    /// There is one of that name.
    #[error("there is an export {0:?} already")]
    NameTwice(String),
    /// A name that the protocol cannot carry.
    #[error("export name of {} bytes; at most 4096", .0.len())]
    NameTooLong(String),
    /// The size of its disk could not be read.
    #[error("the size of export {name:?} could not be found out: {source}")]
    Measure {
        /// Which.
        name: String,
        /// Why.
        source: block::IoError,
    },
    /// Clients would lose what they believe to have.
    #[error(
        "export {name:?} shrank from {from} to {to} bytes under {clients} clients: they keep the old \
         size and get errors behind the new end; disconnect them first"
    )]
    Shrinks {
        /// Which.
        name: String,
        /// Old size, bytes.
        from: u64,
        /// New size, bytes.
        to: u64,
        /// Clients that are connected.
        clients: usize,
    },
    /// Its clients or its disk did not end in time.
    #[error(
        "export {name:?} did not end within {limit:?}: {clients} clients are left, or its disk does \
         not answer; the disk stays open"
    )]
    Busy {
        /// Which.
        name: String,
        /// Clients that are left.
        clients: usize,
        /// The limit.
        limit: Duration,
    },
    /// The last flush failed.
    #[error("{0}")]
    Flush(#[source] ServeError),
    /// The change concerns disks of clients.
    #[error("the clients of export {0:?} share one disk")]
    Shared(String),
    /// The change concerns a shared disk.
    #[error(
        "each client of export {0:?} has a disk of its own, which is as large as the image: replace \
         the image and reload"
    )]
    PerClient(String),
    /// The disk of a client is in use.
    #[error("client {client} is connected; --force disconnects it first")]
    ClientConnected {
        /// The name of the client.
        client: String,
        /// How many connections it has.
        connections: usize,
    },
    /// The connections of a client did not end in time.
    #[error("client {client} did not end within {limit:?}; its disk is as it was")]
    ClientBusy {
        /// The name of the client.
        client: String,
        /// The limit.
        limit: Duration,
    },
    /// The writers before cannot be kept out.
    #[error("export {name:?}: its writers before cannot be kept out: {why}")]
    NotFenced {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
    /// The disk of a client could not be removed.
    #[error("the disk of client {client} could not be removed: {why}")]
    NotRemoved {
        /// The name of the client.
        client: String,
        /// Why.
        why: String,
    },
}

fn listen_hint(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is in use; stop the other server or choose another port".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        io::ErrorKind::PermissionDenied => "no permission for this address".to_owned(),
        _ => error.to_string(),
    }
}
