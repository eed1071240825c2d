//! [`RequestGate`]: requests pass together; a change of how they are carried out waits until all of them have left.
//!
//! # Invariants
//!
//! * While a [`ClosedGate`] lives no request is inside, and none enters: one that comes waits.
//! * Dropping any of the futures or guards leaves the gate as it would be without them.
//! * A gate that is closed for good refuses every request.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{MutexGuard, Notify};

/// The gate is closed for a while.
const CLOSED: u64 = 1 << 63;
/// The gate is closed for good.
const SEALED: u64 = 1 << 62;
/// The bits that count requests.
const REQUESTS: u64 = SEALED - 1;

/// Counts requests, and keeps them out.
#[derive(Debug, Default)]
pub(crate) struct RequestGate {
    /// How many requests are inside, and [`CLOSED`] or [`SEALED`].
    state: AtomicU64,
    /// The last request left a gate that is closed.
    drained: Notify,
    /// The gate was opened or sealed.
    opened: Notify,
    /// Held while the gate is closed.
    closing: tokio::sync::Mutex<()>,
}

/// A request that is inside.
#[derive(Debug)]
pub(crate) struct GatePass<'a>(&'a RequestGate);

impl Drop for GatePass<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The gate is closed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sealed;

impl RequestGate {
    /// Enters without waiting; `None` where the gate is closed.
    pub(crate) fn try_enter(&self) -> Option<GatePass<'_>> {
        let before = self.state.fetch_add(1, Ordering::SeqCst);
        let pass = GatePass(self);
        (before & !REQUESTS == 0).then_some(pass)
    }

    /// Enters, and waits while the gate is closed.
    pub(crate) async fn enter(&self) -> Result<GatePass<'_>, Sealed> {
        loop {
            if let Some(pass) = self.try_enter() {
                return Ok(pass);
            }
            let opened = self.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            let state = self.state.load(Ordering::SeqCst);
            if state & SEALED != 0 {
                return Err(Sealed);
            }
            if state & CLOSED != 0 {
                opened.await;
            }
        }
    }

    fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::SeqCst);
        if before & !REQUESTS != 0 {
            self.drained.notify_waiters();
        }
    }

    /// Whether it is closed, for a while or for good.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::SeqCst) & !REQUESTS != 0
    }

    /// Whether it is closed for good.
    pub(crate) fn is_sealed(&self) -> bool {
        self.state.load(Ordering::SeqCst) & SEALED != 0
    }

    /// Keeps new requests out and waits for those inside.
    pub(crate) async fn close(&self) -> ClosedGate<'_> {
        let turn = self.closing.lock().await;
        self.state.fetch_or(CLOSED, Ordering::SeqCst);
        let closed = ClosedGate {
            gate: self,
            _turn: turn,
        };
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if self.state.load(Ordering::SeqCst) & REQUESTS == 0 {
                return closed;
            }
            drained.await;
        }
    }
}

/// A gate that is closed until this is dropped.
#[derive(Debug)]
pub(crate) struct ClosedGate<'a> {
    gate: &'a RequestGate,
    _turn: MutexGuard<'a, ()>,
}

impl ClosedGate<'_> {
    /// Keeps it closed for good.
    pub(crate) fn seal(self) {
        self.gate.state.fetch_or(SEALED, Ordering::SeqCst);
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.gate.state.fetch_and(!CLOSED, Ordering::SeqCst);
        self.gate.opened.notify_waiters();
    }
}
