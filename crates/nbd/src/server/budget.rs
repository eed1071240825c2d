//! [`Budget`]: the memory that all connections' requests and replies may hold together.
//!
//! # Invariants
//!
//! * What must wait takes its charge before it allocates; a charge is freed by its drop.
//! * A charge larger than what is free is granted when nothing else is charged, so no request
//!   within the limits waits for ever.
//! * Waiters are served in turn: while one waits, no other takes free memory past it. A waiter
//!   that is dropped, granted or not, does not block the others.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// What all requests and replies may hold by default, where the machine has memory for it, bytes.
const DEFAULT_MAX: usize = 1 << 30;
/// The share of the machine's memory that is not exceeded by default.
const DEFAULT_SHARE: u128 = 4;

/// The default maximum: a gibibyte, or a quarter of the machine's memory if that is less.
pub(super) fn default_max() -> usize {
    let machine = rustix::system::sysinfo();
    let memory = u128::from(machine.totalram) * u128::from(machine.mem_unit);
    usize::try_from(memory / DEFAULT_SHARE).map_or(DEFAULT_MAX, |share| share.min(DEFAULT_MAX))
}

#[derive(Debug)]
struct BudgetWaiter {
    bytes: usize,
    give: oneshot::Sender<Charge>,
}

#[derive(Debug)]
struct BudgetShared {
    max: usize,
    used: AtomicUsize,
    /// Length of the queue, to be read without its lock.
    waiting: AtomicUsize,
    /// At most one waiter of each connection.
    queue: Mutex<VecDeque<BudgetWaiter>>,
}

/// A shared count of bytes with a maximum.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<BudgetShared>);

/// Bytes taken from a budget until it is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Budget,
    bytes: usize,
}

/// A place in the queue. Resolves to the charge.
#[derive(Debug)]
pub(super) struct BudgetWait {
    budget: Budget,
    granted: oneshot::Receiver<Charge>,
    is_over: bool,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(BudgetShared {
            max,
            used: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            queue: Mutex::default(),
        }))
    }

    /// Takes `bytes` if they are free and the queue is empty.
    pub(super) fn try_take(&self, bytes: usize) -> Option<Charge> {
        if self.is_contended() {
            return None;
        }
        self.take_free(bytes)
    }

    /// Takes `bytes` whether or not they are free: for replies that exist already.
    pub(super) fn take(&self, bytes: usize) -> Charge {
        self.0.used.fetch_add(bytes, Ordering::SeqCst);
        self.charge(bytes)
    }

    /// Waits for `bytes` behind those that wait already.
    pub(super) fn wait_for(&self, bytes: usize) -> BudgetWait {
        let (give, granted) = oneshot::channel();
        let wait = BudgetWait {
            budget: self.clone(),
            granted,
            is_over: false,
        };
        let mut queue = self.queue();
        queue.push_back(BudgetWaiter { bytes, give });
        self.serve(queue);
        wait
    }

    /// Whether everything is taken.
    pub(super) fn is_exhausted(&self) -> bool {
        self.used() >= self.0.max
    }

    /// Whether the queue is not empty.
    pub(super) fn is_contended(&self) -> bool {
        self.0.waiting.load(Ordering::SeqCst) > 0
    }

    /// Bytes that are taken.
    pub(super) fn used(&self) -> usize {
        self.0.used.load(Ordering::SeqCst)
    }

    fn charge(&self, bytes: usize) -> Charge {
        Charge {
            budget: self.clone(),
            bytes,
        }
    }

    fn take_free(&self, bytes: usize) -> Option<Charge> {
        let fits = |used: usize| {
            let after = used.checked_add(bytes)?;
            (after <= self.0.max || used == 0).then_some(after)
        };
        let taken = self
            .0
            .used
            .try_update(Ordering::SeqCst, Ordering::SeqCst, fits);
        taken.ok().map(|_| self.charge(bytes))
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<BudgetWaiter>> {
        let queue = &self.0.queue;
        queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants what is free to those at the front.
    fn serve(&self, mut queue: MutexGuard<'_, VecDeque<BudgetWaiter>>) {
        // Stored before the count is read: a task that frees later looks here, what was freed earlier is counted.
        self.0.waiting.store(queue.len(), Ordering::SeqCst);
        let mut refused = Vec::new();
        while let Some(front) = queue.front()
            && let Some(charge) = self.take_free(front.bytes)
        {
            let Some(waiter) = queue.pop_front() else {
                break;
            };
            // One that went meanwhile. Its charge is dropped when the queue can be locked again.
            refused.extend(waiter.give.send(charge).err());
        }
        self.0.waiting.store(queue.len(), Ordering::SeqCst);
        drop(queue);
    }
}

impl Future for BudgetWait {
    type Output = Charge;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Charge> {
        let granted = std::task::ready!(Pin::new(&mut self.granted).poll(cx));
        self.is_over = true;
        Poll::Ready(granted.expect("a waiter keeps its place until it is served"))
    }
}

impl Drop for BudgetWait {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.granted.close();
        let mut queue = self.budget.queue();
        queue.retain(|waiter| !waiter.give.is_closed());
        self.budget.serve(queue);
    }
}

impl Charge {
    /// Bytes that it holds.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::SeqCst);
        if self.budget.is_contended() {
            self.budget.serve(self.budget.queue());
        }
    }
}
