//! [`InFlight`]: counts operations that the kernel still owes, also those that no future waits for.
//!
//! A [`Ticket`] moves into an operation and is dropped with its buffers, when the kernel is done
//! with them. That is later than the drop of the future that submitted it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Counter {
    tickets: AtomicUsize,
    none_left: Notify,
}

/// Hands out tickets and waits for all of them to come back.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<Counter>);

/// One operation in flight.
#[derive(Debug)]
pub struct Ticket(Option<Arc<Counter>>);

impl InFlight {
    /// A counter with no tickets out.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one more operation until the ticket is dropped.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.0.tickets.fetch_add(1, Ordering::AcqRel);
        Ticket(Some(self.0.clone()))
    }

    /// Tickets that are out.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.tickets.load(Ordering::Acquire)
    }

    /// Resolves when no ticket is out.
    pub async fn settled(&self) {
        loop {
            // Registered before the count is read, so that the last drop is not missed.
            let none_left = self.0.none_left.notified();
            tokio::pin!(none_left);
            none_left.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            none_left.await;
        }
    }
}

impl Ticket {
    /// A ticket that is not counted, for reads.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(counter) = self.0.take()
            && counter.tickets.fetch_sub(1, Ordering::AcqRel) == 1
        {
            counter.none_left.notify_waiters();
        }
    }
}
