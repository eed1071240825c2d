//! The handshake on a socket: moves bytes between it and [`ServerHandshake`], and answers what that
//! asks. The time limit is the caller's.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nbd_proto::{CloseReason, HandshakeEvent, Negotiated, ServerHandshake, ServerHandshakeConfig};

use super::exports::{Exports, describe};
use super::peer::Peer;
use super::socket::Socket;

/// Bytes received at once; a handshake is short.
const RECEIVE_LEN: usize = 1024;

/// Why there is no transmission.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSession {
    #[error("{0}")]
    Closed(CloseReason),
    #[error("the client left in the handshake")]
    Left,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What the client chose, and the bytes it sent behind the handshake.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) agreed: Negotiated,
    pub(super) received: Vec<u8>,
}

/// Runs the handshake.
pub(super) async fn negotiate(
    socket: &Socket,
    exports: &Exports,
    peer: &Peer,
    payload_max: u32,
) -> Result<Session, NoSession> {
    let mut machine = ServerHandshake::new(ServerHandshakeConfig::default());
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
            HandshakeEvent::FindExport { name, .. } => {
                machine.answer_export(describe(exports.find(&name, peer).as_deref(), payload_max));
            }
            HandshakeEvent::FindContexts { .. } => machine.answer_contexts(Ok(&[])),
            // TLS is off.
            HandshakeEvent::StartTls => return Err(NoSession::Left),
            HandshakeEvent::List => machine.answer_list(&exports.list(peer)),
            HandshakeEvent::Finished(agreed) => {
                return Ok(Session {
                    agreed: *agreed,
                    received: pending,
                });
            }
            HandshakeEvent::Close(reason) => return Err(NoSession::Closed(reason)),
        }
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
