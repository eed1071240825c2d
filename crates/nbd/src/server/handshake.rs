//! The handshake on a socket: moves bytes between it and [`ServerHandshake`], and handles its
//! events, TLS among them. The caller sets the timeout, which covers all of it.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nbd_proto::{
    BASE_ALLOCATION, CloseReason, ContextOffer, DiskIdentity, ExportInfo, ExportPurpose, Framing,
    HandshakeEvent, Negotiated, Refusal, ServerHandshake, ServerHandshakeConfig, TlsMode,
    WriterAccess,
};

use super::export_selection::ExportSelection;
use super::exports::Exports;
use super::peer::Peer;
use super::socket::Socket;
use crate::tls::{Demand, Handshake, HandshakeStep, ServerTls, TlsFailure};

/// Bytes received at once; a handshake is short.
const RECEIVE_LEN: usize = 1024;
/// Bytes that a client may still send after its TLS failed, and that are not looked at.
const AFTERMATH_MAX: usize = 64 << 10;

/// Why there is no transmission.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSession {
    #[error("{0}")]
    Closed(CloseReason),
    #[error("the client left in the handshake")]
    Left,
    #[error("TLS failed: {0}")]
    Tls(#[from] TlsFailure),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What the client chose, and the bytes it sent behind the handshake.
#[derive(Debug)]
pub(super) struct NegotiatedSession {
    pub(super) agreed: Negotiated,
    pub(super) received: Vec<u8>,
}

/// What a server offers.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerOffer<'a> {
    pub(super) exports: &'a Exports,
    pub(super) payload_max: u32,
    /// TLS, and which clients must use it.
    pub(super) tls: Option<&'a (ServerTls, Demand)>,
}

impl ServerOffer<'_> {
    fn tls_mode(&self, socket: &Socket) -> TlsMode {
        match self.tls {
            None => TlsMode::Off,
            Some((_, Demand::All)) => TlsMode::Required,
            Some((_, Demand::Network)) if socket.is_network() => TlsMode::Required,
            Some(_) => TlsMode::Optional,
        }
    }

    /// Describes the export `name` to `peer`. Opens a disk only for a client that is going to use it.
    async fn export(
        &self,
        name: &str,
        purpose: ExportPurpose,
        writer: Option<WriterAccess>,
        peer: &Peer,
        selection: &mut ExportSelection,
    ) -> Result<ExportInfo, Refusal> {
        let served = self.exports.find(name, peer).ok_or(Refusal::Unknown)?;
        if purpose == ExportPurpose::Info {
            return served.describe(None, self.payload_max);
        }
        let held = selection.select(&served, peer, writer).await?;
        let described = served.describe(held, self.payload_max)?;
        if let Some(access) = writer {
            selection.claim(&served, peer, access).await?;
        }
        Ok(described)
    }

    /// Which disk the export `name` is. One of a client's own is opened for a client that is going to use it: `is_coming`.
    async fn identity(
        &self,
        name: &str,
        is_coming: bool,
        peer: &Peer,
        selection: &mut ExportSelection,
    ) -> Result<DiskIdentity, Refusal> {
        let served = self.exports.find(name, peer).ok_or(Refusal::Unknown)?;
        // All connections of a client get the incarnation of one opening.
        served.confirm_standby().await;
        let held = match is_coming {
            true => Box::pin(selection.prepare(&served, peer)).await,
            false => None,
        };
        Ok(served.identity(held))
    }
}

/// Runs the handshake. Under TLS `peer` gets the name that its certificate has; `selection` gets the hold
/// on a disk that is opened for it, however this ends.
pub(super) async fn negotiate(
    socket: &mut Socket,
    peer: &mut Peer,
    selection: &mut ExportSelection,
    offer: ServerOffer<'_>,
) -> Result<NegotiatedSession, NoSession> {
    let mut machine = ServerHandshake::new(ServerHandshakeConfig {
        framing: Framing::Extended,
        tls: offer.tls_mode(socket),
        ..ServerHandshakeConfig::default()
    });
    let exports = offer.exports;
    send_all(socket, &machine.greeting()).await?;
    let mut pending = Vec::new();
    loop {
        let taken = machine.receive(&pending);
        pending.drain(..taken);
        let Some(event) = machine.next_event() else {
            receive_more(socket, &mut pending).await?;
            continue;
        };
        match event {
            HandshakeEvent::Send(bytes) => send_all(socket, &bytes).await?,
            HandshakeEvent::FindExport {
                name,
                purpose,
                writer,
            } => {
                let found = offer.export(&name, purpose, writer, peer, selection).await;
                machine.answer_export(found);
            }
            HandshakeEvent::FindContexts {
                name,
                identify,
                writer,
            } => {
                let is_coming = identify && writer.is_some();
                let found = offer.identity(&name, is_coming, peer, selection).await;
                machine.answer_contexts(found.map(|disk| ContextOffer {
                    contexts: &[BASE_ALLOCATION],
                    disk,
                }));
            }
            HandshakeEvent::StartTls => {
                // The machine offers what is there.
                let (tls, _) = offer.tls.ok_or(NoSession::Left)?;
                peer.certificate_name = start_tls(socket, tls).await?;
                // Under TLS it may be another client.
                selection.leave(true).await;
                machine.tls_started();
            }
            HandshakeEvent::List => machine.answer_list(&exports.list(peer)),
            HandshakeEvent::Finished(agreed) => {
                return Ok(NegotiatedSession {
                    agreed: *agreed,
                    received: pending,
                });
            }
            HandshakeEvent::Close(reason) => return Err(NoSession::Closed(reason)),
        }
    }
}

/// Puts the socket under TLS. The name in the client's certificate.
async fn start_tls(socket: &mut Socket, tls: &ServerTls) -> Result<Option<String>, NoSession> {
    let mut handshake = Handshake::server(tls)?;
    let mut received = Vec::new();
    loop {
        let step = handshake.advance(&received);
        received.clear();
        let said = send_all(socket, &handshake.take_outgoing()).await;
        match step {
            Ok(HandshakeStep::Receive) => {
                said?;
                receive_more(socket, &mut received).await?;
            }
            Ok(HandshakeStep::Finished) => {
                said?;
                let secured = handshake.finish()?;
                socket.secure(secured.link);
                return Ok(secured.peer_name);
            }
            Err(failure) => {
                listen_out(socket).await;
                return Err(failure.into());
            }
        }
    }
}

/// Reads what the client still sends, so that closing the socket does not discard the alert that is on
/// its way: the kernel resets a socket with unread bytes.
async fn listen_out(socket: &Socket) {
    if rustix::net::shutdown(socket, rustix::net::Shutdown::Write).is_err() {
        return;
    }
    let mut rest = Vec::new();
    let mut total = 0;
    while total < AFTERMATH_MAX && receive_more(socket, &mut rest).await.is_ok() {
        total += rest.len();
        rest.clear();
    }
}

async fn receive_more(socket: &Socket, into: &mut Vec<u8>) -> Result<(), NoSession> {
    let mut bytes = [0; RECEIVE_LEN];
    let count = poll_fn(|cx| {
        loop {
            match socket.receive(&mut bytes, false) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other),
            }
            std::task::ready!(socket.poll_readable(cx))?;
        }
    })
    .await?;
    if count == 0 {
        return Err(NoSession::Left);
    }
    into.extend_from_slice(&bytes[..count]);
    Ok(())
}

async fn send_all(socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|cx| {
            loop {
                match socket.send(bytes, false) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    other => return Poll::Ready(other),
                }
                std::task::ready!(socket.poll_writable(cx))?;
            }
        })
        .await?;
        bytes = &bytes[count..];
    }
    Ok(())
}
