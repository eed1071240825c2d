//! [`Handshake`]: TLS up to the first byte of data. Bytes in, bytes out; no socket, no clock.
//!
//! # Invariants
//!
//! * At most [`INCOMING_MAX`] bytes are kept while a message is incomplete.
//! * What the peer sends behind its handshake is not lost: it goes into the [`Link`].

use nbd_proto::TlsVersion;
use rustls::ProtocolVersion;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};

use super::certificate_name::certificate_name;
use super::channel::{Channel, Endpoint, REKEY_AFTER};
use super::client::ClientTls;
use super::error::TlsFailure;
use super::link::Link;
use super::record::{RecordOpener, RecordSealer};
use super::server::ServerTls;

/// Bytes of incomplete messages. A chain of certificates is the longest.
const INCOMING_MAX: usize = 128 << 10;
/// Room for a flight of messages, to begin with.
const OUTGOING_LEN: usize = 4 << 10;

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeStep {
    /// Send what is outgoing, then receive more.
    Receive,
    /// Send what is outgoing; then the handshake is over.
    Finished,
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct SecuredConnection {
    pub(crate) link: Link,
    /// The name in the certificate that the peer showed.
    pub(crate) peer_name: Option<String>,
}

enum RustlsConnection {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// One handshake.
pub(crate) struct Handshake {
    machine: RustlsConnection,
    rekey_after: u64,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Data that came right behind the peer's last message.
    opened: Vec<u8>,
}

/// What one state of rustls' machine came to.
enum Progress {
    Advanced,
    Blocked,
    Finished,
}

impl Handshake {
    /// A server's.
    pub(crate) fn server(tls: &ServerTls) -> Result<Self, TlsFailure> {
        let connection = UnbufferedServerConnection::new(tls.config())?;
        Ok(Self::new(
            RustlsConnection::Server(Box::new(connection)),
            tls.rekey_after(),
        ))
    }

    /// A client's. It speaks first.
    pub(crate) fn client(tls: &ClientTls) -> Result<Self, TlsFailure> {
        let (config, name) = tls.parts();
        let connection = UnbufferedClientConnection::new(config, name)?;
        Ok(Self::new(
            RustlsConnection::Client(Box::new(connection)),
            REKEY_AFTER,
        ))
    }

    const fn new(machine: RustlsConnection, rekey_after: u64) -> Self {
        Self {
            machine,
            rekey_after,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            opened: Vec::new(),
        }
    }

    /// What is to be sent. After a failure this is the alert for the peer.
    pub(crate) fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Takes what was received, which may be nothing.
    pub(crate) fn advance(&mut self, received: &[u8]) -> Result<HandshakeStep, TlsFailure> {
        self.incoming.extend_from_slice(received);
        loop {
            match self.turn() {
                Ok(Progress::Advanced) => {}
                Ok(Progress::Blocked) if self.incoming.len() > INCOMING_MAX => {
                    return Err(TlsFailure::TooMuch);
                }
                Ok(Progress::Blocked) => return Ok(HandshakeStep::Receive),
                Ok(Progress::Finished) => return Ok(HandshakeStep::Finished),
                Err(failure) => {
                    // Encodes the alert, if there is one; else returns the failure again.
                    drop(self.turn());
                    return Err(failure);
                }
            }
        }
    }

    fn turn(&mut self) -> Result<Progress, TlsFailure> {
        let Self {
            incoming,
            outgoing,
            opened,
            ..
        } = self;
        let (discard, moved) = match &mut self.machine {
            RustlsConnection::Server(server) => {
                let status = server.process_tls_records(incoming);
                turned(status, outgoing, opened)
            }
            RustlsConnection::Client(client) => {
                let status = client.process_tls_records(incoming);
                turned(status, outgoing, opened)
            }
        };
        incoming.drain(..discard);
        moved
    }

    /// The connection behind the handshake, once that is finished.
    pub(crate) fn finish(self) -> Result<SecuredConnection, TlsFailure> {
        let (certificate, side) = match &self.machine {
            RustlsConnection::Server(server) => (server.peer_certificates(), Endpoint::Server),
            RustlsConnection::Client(client) => (client.peer_certificates(), Endpoint::Client),
        };
        let version = match &self.machine {
            RustlsConnection::Server(server) => server.protocol_version(),
            RustlsConnection::Client(client) => client.protocol_version(),
        };
        let peer_name = certificate
            .and_then(|chain| chain.first())
            .and_then(certificate_name);
        let (secrets, keys): (_, Box<dyn super::channel::TrafficKeys>) = match self.machine {
            RustlsConnection::Server(server) => {
                let (secrets, keys) = server.dangerous_into_kernel_connection()?;
                (secrets, Box::new(keys))
            }
            RustlsConnection::Client(client) => {
                let (secrets, keys) = client.dangerous_into_kernel_connection()?;
                (secrets, Box::new(keys))
            }
        };
        let version = match version {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
            _ => TlsVersion::Tls13,
        };
        let unknown = || rustls::Error::General("a cipher that is not known here".to_owned());
        let sealer = RecordSealer::new(version, secrets.tx.0, &secrets.tx.1).ok_or_else(unknown)?;
        let opener = RecordOpener::new(version, secrets.rx.0, &secrets.rx.1).ok_or_else(unknown)?;
        let channel = Channel::new(side, sealer, opener, keys, self.rekey_after);
        Ok(SecuredConnection {
            link: Link::new(channel, self.opened, self.incoming),
            peer_name,
        })
    }
}

/// Handles a state of rustls' machine. Returns how many received bytes were used, and the result.
fn turned<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
    opened: &mut Vec<u8>,
) -> (usize, Result<Progress, TlsFailure>) {
    let UnbufferedStatus { mut discard, state } = status;
    let moved = match state {
        Err(error) => Err(error.into()),
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let begin = outgoing.len();
            outgoing.resize(begin + OUTGOING_LEN, 0);
            let mut encoded = data.encode(&mut outgoing[begin..]);
            if let Err(EncodeError::InsufficientSize(wanted)) = &encoded {
                outgoing.resize(begin + wanted.required_size, 0);
                encoded = data.encode(&mut outgoing[begin..]);
            }
            outgoing.truncate(begin + encoded.as_ref().copied().unwrap_or(0));
            match encoded {
                Ok(_) => Ok(Progress::Advanced),
                Err(e) => Err(rustls::Error::General(e.to_string()).into()),
            }
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Progress::Advanced)
        }
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            let mut result = Ok(Progress::Advanced);
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        opened.extend_from_slice(record.payload);
                    }
                    Err(e) => result = Err(e.into()),
                }
            }
            result
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Progress::Blocked),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Progress::Finished),
        // Early data is not offered, and a peer that closes in a handshake has left.
        Ok(_) => Err(TlsFailure::Left),
    };
    (discard, moved)
}
