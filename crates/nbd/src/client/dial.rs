//! [`dial`]: one connection, from the address to the first byte of transmission.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use engine::clock;
use nbd_proto::{
    ClientEvent, ClientHandshake, ClientHandshakeConfig, DiskIdentity, ExportInfo, Framing,
    HandshakeFailure, Negotiated, WriterAccess, WriterRefusal,
};

use crate::client::first_answer::{Greeting, OPENING_WAIT, first_answer};
use crate::client::stream::Stream;
use crate::client::{ClientError, Target};
use crate::tls::{ClientTls, Handshake, HandshakeStep, TlsFailure};

/// Bytes received at once in the handshake.
const RECEIVE: usize = 4096;

/// A connection in transmission on which no request was sent yet.
#[derive(Debug)]
pub struct Dialed {
    server: Target,
    stream: Stream,
    negotiated: Negotiated,
}

impl Dialed {
    /// The server that answered, alone.
    #[must_use]
    pub const fn server(&self) -> &Target {
        &self.server
    }

    /// The export.
    #[must_use]
    pub fn export(&self) -> &ExportInfo {
        &self.negotiated.export
    }

    /// Which disk the server says that it is; nothing is known where it is not outboard's.
    #[must_use]
    pub fn disk(&self) -> &DiskIdentity {
        &self.negotiated.disk
    }

    /// Whether replies are structured.
    #[must_use]
    pub fn structured(&self) -> bool {
        self.negotiated.framing.is_chunked()
    }

    /// Whether lengths have 64 bits.
    pub(super) fn extended(&self) -> bool {
        self.negotiated.framing.is_extended()
    }

    /// The socket, blocking and (TCP) without delay, for the caller to go on with the transmission. No
    /// byte of it was received before.
    ///
    /// # Errors
    /// If the socket cannot be made blocking.
    pub fn into_std_fd(self) -> io::Result<OwnedFd> {
        self.stream.into_blocking()
    }

    pub(super) fn into_parts(self) -> (Stream, Negotiated) {
        (self.stream, self.negotiated)
    }
}

/// Connects to `target` and negotiates its export, as `writer` where the connections of one client must
/// be known as such; `timeout` limits both together (a server that sent its greeting has ten seconds more, to open the disk), and what
/// TCP waits for a machine that vanished later. Of several servers the first that answers is used. Only inside [`engine::run`].
///
/// # Errors
/// [`ClientError`], which names the target.
pub async fn dial(
    target: &Target,
    structured: bool,
    writer: Option<WriterAccess>,
    timeout: Duration,
) -> Result<Dialed, ClientError> {
    let framing = match structured {
        true => Framing::Structured,
        false => Framing::Simple,
    };
    let config = ClientHandshakeConfig {
        framing,
        identify: true,
        writer,
        ..ClientHandshakeConfig::new(target.export.clone())
    };
    dial_as(target, config, timeout).await
}

/// The same with all that a handshake may request; its goal is [`Goal::Go`](nbd_proto::Goal::Go).
pub(super) async fn dial_as(
    target: &Target,
    config: ClientHandshakeConfig,
    timeout: Duration,
) -> Result<Dialed, ClientError> {
    let (server, shaken) = shake(target, config, timeout).await?;
    finished(shaken).ok_or(ClientError::Closed { target: server })
}

/// The same for the server at [`Target::address`] alone.
pub(super) async fn dial_one(
    server: &Target,
    config: ClientHandshakeConfig,
    (timeout, greeting): (Duration, Greeting),
) -> Result<Dialed, ClientError> {
    let shaken = shake_one(server, config, timeout, greeting).await?;
    finished(shaken).ok_or_else(|| ClientError::Closed {
        target: server.clone(),
    })
}

/// The connection that a handshake with the goal GO led to, which neither describes nor lists.
fn finished(shaken: Shaken) -> Option<Dialed> {
    match shaken {
        Shaken::Finished(dialed) => Some(*dialed),
        Shaken::Described(_) | Shaken::Listed(_) => None,
    }
}

/// What a handshake led to. All but the first have closed the connection.
#[derive(Debug)]
pub(super) enum Shaken {
    /// [`nbd_proto::Goal::Go`]
    Finished(Box<Dialed>),
    /// [`nbd_proto::Goal::Info`]
    Described(Box<Negotiated>),
    /// [`nbd_proto::Goal::List`]: names and descriptions.
    Listed(Vec<(String, String)>),
}

/// Connects to the first server of `target` that answers, and negotiates what `config` says; `timeout` limits both together, for
/// each server, with [`OPENING_WAIT`] more for one that sent its greeting. Returns which one it was. The one way to a server: what is negotiated before the options (TLS) is negotiated here.
pub(super) async fn shake(
    target: &Target,
    config: ClientHandshakeConfig,
    timeout: Duration,
) -> Result<(Target, Shaken), ClientError> {
    let shake = |server: Target, greeting: Greeting| {
        let config = config.clone();
        Box::pin(async move {
            let shaken = shake_one(&server, config, timeout, greeting).await?;
            Ok((server, shaken))
        })
    };
    first_answer(target.servers(), shake).await
}

async fn shake_one(
    target: &Target,
    config: ClientHandshakeConfig,
    timeout: Duration,
    greeting: Greeting,
) -> Result<Shaken, ClientError> {
    let mut negotiation = Box::pin(negotiate(target, config, timeout, greeting.clone()));
    let mut result = clock::timeout(timeout, &mut negotiation).await;
    let mut after = timeout;
    if result.is_err() && greeting.has_arrived() {
        after += OPENING_WAIT;
        result = clock::timeout(OPENING_WAIT, negotiation).await;
    }
    match result {
        Ok(shaken) => shaken,
        Err(clock::Elapsed) => Err(ClientError::HandshakeTimeout {
            target: target.clone(),
            after,
        }),
    }
}

async fn negotiate(
    target: &Target,
    config: ClientHandshakeConfig,
    timeout: Duration,
    greeting: Greeting,
) -> Result<Shaken, ClientError> {
    let cannot_connect = |source| ClientError::Connect {
        target: target.clone(),
        source: Arc::new(source),
    };
    let lost = |source| ClientError::Lost {
        target: target.clone(),
        source: Arc::new(source),
    };
    let failed = |failure| handshake_error(target, failure);
    let refused = |failure: TlsFailure| ClientError::Tls {
        target: target.clone(),
        why: failure.to_string(),
    };
    let tls = certificates(target).await?;
    let config = ClientHandshakeConfig {
        tls: tls.is_some(),
        ..config
    };
    let mut stream = Stream::connect(&target.address, timeout)
        .await
        .map_err(cannot_connect)?;
    let mut handshake = ClientHandshake::new(config);
    let mut buffer = [0; RECEIVE];
    loop {
        let count = stream.receive(&mut buffer).await.map_err(lost)?;
        if count == 0 {
            return Err(failed(handshake.end_of_stream()));
        }
        greeting.arrived();
        let mut rest = &buffer[..count];
        loop {
            let taken = handshake.receive(rest);
            rest = &rest[taken..];
            match step(&mut handshake, &stream).await.map_err(lost)? {
                Step::Waits => break,
                Step::Again => {}
                Step::StartTls => {
                    // Requested only with certificates at hand.
                    let tls = tls.as_ref().ok_or(TlsFailure::Left).map_err(refused)?;
                    start_tls(&mut stream, tls).await.map_err(refused)?;
                    handshake.tls_started();
                }
                Step::Failed(failure) => return Err(failed(failure)),
                Step::Described(negotiated) => return Ok(Shaken::Described(negotiated)),
                Step::Listed(exports) => return Ok(Shaken::Listed(exports)),
                Step::Finished(negotiated) if rest.is_empty() => {
                    let dialed = Dialed {
                        server: target.clone(),
                        stream,
                        negotiated: *negotiated,
                    };
                    return Ok(Shaken::Finished(Box::new(dialed)));
                }
                Step::Finished(_) => {
                    return Err(ClientError::Chatter {
                        target: target.clone(),
                        count: rest.len(),
                    });
                }
            }
        }
    }
}

fn handshake_error(target: &Target, failure: HandshakeFailure) -> ClientError {
    let target = target.clone();
    match (failure.writer_refusal(), failure) {
        (Some(WriterRefusal::Busy), HandshakeFailure::Refused { text, .. }) => {
            ClientError::Busy { target, text }
        }
        (Some(WriterRefusal::Fenced), HandshakeFailure::Refused { text, .. }) => {
            ClientError::Fenced { target, text }
        }
        (_, failure) => ClientError::Handshake { target, failure },
    }
}

/// The certificates of the target, read again for each connection: they are replaced now and
/// then.
async fn certificates(target: &Target) -> Result<Option<ClientTls>, ClientError> {
    let Some(tls) = target.tls.clone() else {
        return Ok(None);
    };
    let reader = target.clone();
    let loaded = engine::blocking(move || reader.load_tls(&tls)).await;
    loaded.map(Some).map_err(|e| ClientError::Tls {
        target: target.clone(),
        why: e.to_string(),
    })
}

/// Puts the stream under TLS.
async fn start_tls(stream: &mut Stream, tls: &ClientTls) -> Result<(), TlsFailure> {
    let mut handshake = Handshake::client(tls)?;
    let mut buffer = [0; RECEIVE];
    let mut count = 0;
    loop {
        let step = handshake.advance(&buffer[..count]);
        let said = stream.send_all(&handshake.take_outgoing()).await;
        let is_over = step? == HandshakeStep::Finished;
        said?;
        if is_over {
            stream.secure(handshake.finish()?.link);
            return Ok(());
        }
        count = stream.receive(&mut buffer).await?;
        if count == 0 {
            return Err(TlsFailure::Left);
        }
    }
}

enum Step {
    Waits,
    StartTls,
    Again,
    Finished(Box<Negotiated>),
    Described(Box<Negotiated>),
    Listed(Vec<(String, String)>),
    Failed(HandshakeFailure),
}

async fn step(handshake: &mut ClientHandshake, stream: &Stream) -> io::Result<Step> {
    match handshake.next_event() {
        None => Ok(Step::Waits),
        Some(ClientEvent::Send(bytes)) => {
            stream.send_all(&bytes).await?;
            Ok(Step::Again)
        }
        Some(ClientEvent::StartTls) => Ok(Step::StartTls),
        Some(ClientEvent::Finished(negotiated)) => Ok(Step::Finished(negotiated)),
        Some(ClientEvent::Failed(failure)) => Ok(Step::Failed(failure)),
        Some(ClientEvent::Described(negotiated)) => Ok(Step::Described(negotiated)),
        Some(ClientEvent::Listed(exports)) => Ok(Step::Listed(exports)),
    }
}
