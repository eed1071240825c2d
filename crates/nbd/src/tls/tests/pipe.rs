//! Two ends of a connection in memory, which take and give as few bytes as a test wants.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use crate::tls::handshake::SecuredConnection;
use crate::tls::{Handshake, HandshakeStep, RawSocket, TlsFailure};

type Queue = Rc<RefCell<VecDeque<u8>>>;

/// One end.
pub(super) struct End {
    inbox: Queue,
    outbox: Queue,
    /// Bytes that a call moves at most, and that may wait unread.
    chunk: Cell<usize>,
    room: Cell<usize>,
    closed: Rc<Cell<bool>>,
}

/// Two ends without limits.
pub(super) fn pipe() -> (End, End) {
    let (a, b) = (Queue::default(), Queue::default());
    let closed = Rc::new(Cell::new(false));
    let end = |inbox: &Queue, outbox: &Queue| End {
        inbox: inbox.clone(),
        outbox: outbox.clone(),
        chunk: Cell::new(usize::MAX),
        room: Cell::new(usize::MAX),
        closed: closed.clone(),
    };
    (end(&a, &b), end(&b, &a))
}

impl End {
    pub(super) fn limit(&self, chunk: usize, room: usize) {
        self.chunk.set(chunk);
        self.room.set(room);
    }

    /// Ends both directions, as a process that dies does.
    pub(super) fn cut(&self) {
        self.closed.set(true);
    }

    /// Bytes that the other end has sent and this one has not received.
    pub(super) fn waiting(&self) -> usize {
        self.inbox.borrow().len()
    }

    /// Changes what is on its way to this end.
    pub(super) fn tamper(&self, change: impl FnOnce(&mut VecDeque<u8>)) {
        change(&mut self.inbox.borrow_mut());
    }
}

impl RawSocket for End {
    fn receive(&self, into: &mut [u8], _eagerly: bool) -> io::Result<usize> {
        let mut inbox = self.inbox.borrow_mut();
        let count = inbox.len().min(into.len()).min(self.chunk.get());
        if count == 0 && !self.closed.get() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for (place, byte) in into.iter_mut().zip(inbox.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }

    fn send(&self, bytes: &[u8], _more: bool) -> io::Result<usize> {
        let mut outbox = self.outbox.borrow_mut();
        let free = self.room.get().saturating_sub(outbox.len());
        let count = bytes.len().min(free).min(self.chunk.get());
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        outbox.extend(&bytes[..count]);
        Ok(count)
    }
}

/// Carries a handshake through, `chunk` bytes at a time. The client's failure, then the server's.
pub(super) fn shake(
    mut client: Handshake,
    mut server: Handshake,
    chunk: usize,
) -> (
    Result<SecuredConnection, TlsFailure>,
    Result<SecuredConnection, TlsFailure>,
) {
    let mut client_step = client.advance(&[]);
    let mut server_step = Ok(HandshakeStep::Receive);
    loop {
        let there = client.take_outgoing();
        let back = server.take_outgoing();
        if there.is_empty() && back.is_empty() {
            break;
        }
        for piece in there.chunks(chunk) {
            if server_step.is_ok() {
                server_step = server.advance(piece);
            }
        }
        for piece in back.chunks(chunk) {
            if client_step.is_ok() {
                client_step = client.advance(piece);
            }
        }
    }
    let end = |step: Result<HandshakeStep, TlsFailure>, side: Handshake| match step {
        Ok(HandshakeStep::Finished) => side.finish(),
        Ok(HandshakeStep::Receive) => Err(TlsFailure::Left),
        Err(failure) => Err(failure),
    };
    (end(client_step, client), end(server_step, server))
}
