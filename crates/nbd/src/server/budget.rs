//! [`Budget`]: the memory that all connections' requests and replies may hold together.
//!
//! # Invariants
//!
//! * What must wait takes its charge before it allocates; a charge is freed by its drop.
//! * A charge larger than what is free is granted when nothing else is charged, so no request
//!   within the limits waits for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

#[derive(Debug)]
struct Shared {
    max: usize,
    used: AtomicUsize,
    freed: Notify,
}

/// A shared count of bytes with a maximum.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Shared>);

/// Bytes taken from a budget until it is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(Shared {
            max,
            used: AtomicUsize::new(0),
            freed: Notify::new(),
        }))
    }

    /// Takes `bytes` if they are free.
    pub(super) fn try_take(&self, bytes: usize) -> Option<Charge> {
        let fits = |used: usize| {
            let after = used.checked_add(bytes)?;
            (after <= self.0.max || used == 0).then_some(after)
        };
        self.0
            .used
            .try_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .ok()?;
        Some(Charge {
            budget: self.clone(),
            bytes,
        })
    }

    /// Takes `bytes` whether or not they are free: for replies that exist already.
    pub(super) fn take(&self, bytes: usize) -> Charge {
        self.0.used.fetch_add(bytes, Ordering::AcqRel);
        Charge {
            budget: self.clone(),
            bytes,
        }
    }

    /// Whether everything is taken.
    pub(super) fn is_exhausted(&self) -> bool {
        self.0.used.load(Ordering::Acquire) >= self.0.max
    }

    /// Resolves once something was freed after this call, or at once if `bytes` are free now.
    pub(super) fn wait_for(&self, bytes: usize) -> impl Future<Output = ()> + Send + 'static {
        let shared = self.0.clone();
        async move {
            let freed = shared.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let used = shared.used.load(Ordering::Acquire);
            if used == 0 || used.saturating_add(bytes) <= shared.max {
                return;
            }
            freed.await;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let shared = &self.budget.0;
        shared.used.fetch_sub(self.bytes, Ordering::AcqRel);
        shared.freed.notify_waiters();
    }
}
