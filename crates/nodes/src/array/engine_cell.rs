//! [`EngineCell`]: the engine of an array, and the gate that requests pass on their way to it. A change of level holds the gate.
//!
//! ```text
//! request ─► gate ─► engine ─► gate
//! level:     hold ─► requests under way end ─► the engine changes, or another one takes over ─► open
//! ```
//!
//! # Invariants
//!
//! * While the gate is held, no request is in the engine: one on the fast path would block, others wait. Both go on once it is open.
//! * A request uses one engine from its beginning to its end, and an engine is there until its last request has ended.
//! * A gate is open once its holder is dropped, however that happens.
//! * A request on the fast path counts by the lock that it holds on the engine, any other one in the [`RequestGate`]: the holder of the
//!   gate has waited for both.
//!
//! # What it does not do
//!
//! It knows nothing of levels. Changes of members and the status of an array pass no gate: they take the engine as it is
//! ([`EngineCell::engine`]).

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;

use engine::clock;

use crate::request_gate::{ClosedGate, GatePass, RequestGate};

/// An engine that requests reach through a gate.
#[derive(Debug)]
pub(super) struct EngineCell<E> {
    /// Requests on the fast path hold it for reading; the engine is replaced under the lock for writing.
    engine: RwLock<Arc<E>>,
    /// Requests that wait for members are counted here.
    gate: RequestGate,
}

/// The engine for a request on the fast path: the gate is not held before this is dropped.
pub(super) struct EngineNow<'a, E>(RwLockReadGuard<'a, Arc<E>>);

/// The engine for a request that waits for members: it is under way until this is dropped.
#[derive(Debug)]
pub(super) struct EngineInUse<'a, E: Debug> {
    engine: Arc<E>,
    _pass: GatePass<'a>,
}

/// The gate of an array, held until this is dropped.
#[derive(Debug)]
pub(super) struct HeldGate<'a, E: Debug> {
    cell: &'a EngineCell<E>,
    _closed: ClosedGate<'a>,
}

impl<E: Debug> EngineCell<E> {
    pub(super) fn new(engine: Arc<E>) -> Self {
        Self {
            engine: RwLock::new(engine),
            gate: RequestGate::default(),
        }
    }

    fn lock(&self) -> RwLockReadGuard<'_, Arc<E>> {
        // It is replaced in one step.
        self.engine.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for requests on the fast path.
    fn lock_for_writing(&self) -> RwLockWriteGuard<'_, Arc<E>> {
        self.engine.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine as it is.
    pub(super) fn engine(&self) -> Arc<E> {
        self.lock().clone()
    }

    /// The engine for a request on the fast path. `None`: the gate is held, or is about to be.
    #[inline]
    pub(super) fn try_enter(&self) -> Option<EngineNow<'_, E>> {
        let engine = match self.engine.try_read() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        (!self.gate.is_closed()).then_some(EngineNow(engine))
    }

    /// The engine for a request that waits for members; waits while the gate is held.
    pub(super) async fn enter(&self) -> EngineInUse<'_, E> {
        let pass = self.gate.enter().await;
        EngineInUse {
            _pass: pass.expect("this gate is never closed for good"),
            engine: self.engine(),
        }
    }

    /// Holds the gate, and waits until no request is under way. `None`: one was still after `limit`; the gate is open again.
    pub(super) async fn hold(&self, limit: Duration) -> Option<HeldGate<'_, E>> {
        let closed = clock::timeout(limit, self.gate.close()).await.ok()?;
        // One that got the lock before the gate was closed holds it still; one that gets it from here on sees that it is.
        drop(self.lock_for_writing());
        Some(HeldGate {
            cell: self,
            _closed: closed,
        })
    }
}

impl<E: Debug> HeldGate<'_, E> {
    /// Another engine takes over: requests that wait reach that one.
    pub(super) fn replace(&self, engine: Arc<E>) {
        let before = std::mem::replace(&mut *self.cell.lock_for_writing(), engine);
        // Not under the lock: it may be the last one, and close disks.
        drop(before);
    }
}

impl<E> Deref for EngineNow<'_, E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.0
    }
}

impl<E: Debug> Deref for EngineInUse<'_, E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.engine
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use futures_util::FutureExt;
    use testkit::block_on;

    use super::EngineCell;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_held_gate_waits_for_requests_under_way_and_keeps_others_waiting() {
        let cell = EngineCell::new(Arc::new(1));
        block_on(async {
            let under_way = cell.enter().await;
            let mut holding = Box::pin(cell.hold(LONG));
            assert!(holding.as_mut().now_or_never().is_none());
            assert!(cell.try_enter().is_none(), "the fast path would block");
            let mut waiting = Box::pin(cell.enter());
            assert!(waiting.as_mut().now_or_never().is_none());
            drop(under_way);
            let held = holding.await.unwrap();
            assert!(waiting.as_mut().now_or_never().is_none());
            held.replace(Arc::new(2));
            drop(held);
            assert_eq!(*waiting.await, 2);
            assert_eq!(*cell.try_enter().unwrap(), 2);
        });
    }

    #[test]
    fn a_gate_that_cannot_be_held_is_open_again() {
        let cell = EngineCell::new(Arc::new(1));
        block_on(async {
            let under_way = cell.enter().await;
            let held = cell.hold(Duration::from_millis(1)).await;
            assert!(held.is_none());
            assert!(cell.try_enter().is_some());
            let other = cell.enter().await;
            drop((under_way, other));
            assert!(cell.hold(Duration::from_millis(1)).await.is_some());
            assert!(cell.try_enter().is_some());
        });
    }

    #[test]
    fn an_engine_is_there_until_its_last_request_has_ended() {
        let first = Arc::new(1);
        let is_there = Arc::downgrade(&first);
        let cell = EngineCell::new(first);
        block_on(async {
            let status = cell.engine();
            cell.hold(LONG).await.unwrap().replace(Arc::new(2));
            assert_eq!((*status, *cell.engine()), (1, 2));
            drop(status);
            assert!(is_there.upgrade().is_none());
        });
    }

    /// A runtime with a clock that does not run ahead while other threads work: no hold ends by its limit.
    fn block_on_in_real_time<F: Future>(future: F) -> F::Output {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime");
        runtime.block_on(future)
    }

    /// The gate is held again and again while threads make requests of both kinds.
    ///
    /// What was wrong: the clock was paused, so that holding the gate ended by its limit at once where a request was under way.
    #[test]
    fn no_request_is_in_the_engine_while_the_gate_is_held() {
        let cell = EngineCell::new(Arc::new(AtomicUsize::new(0)));
        let (is_over, begun) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; 2]);
        let requests = async || {
            while !is_over.load(Ordering::SeqCst) {
                if let Some(engine) = cell.try_enter() {
                    engine.fetch_add(1, Ordering::SeqCst);
                    begun[0].fetch_add(1, Ordering::SeqCst);
                    std::thread::yield_now();
                    engine.fetch_sub(1, Ordering::SeqCst);
                }
                let engine = cell.enter().await;
                engine.fetch_add(1, Ordering::SeqCst);
                begun[1].fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
                tokio::task::yield_now().await;
                engine.fetch_sub(1, Ordering::SeqCst);
            }
        };
        let holds = async || {
            for _ in 0..200 {
                let before = begun.each_ref().map(|count| count.load(Ordering::SeqCst));
                // Requests of both kinds begin between two holds.
                while (0..2).any(|kind| begun[kind].load(Ordering::SeqCst) == before[kind]) {
                    std::thread::yield_now();
                }
                let held = cell.hold(LONG).await.expect("every request ends");
                for _ in 0..10 {
                    assert_eq!(cell.engine().load(Ordering::SeqCst), 0);
                    std::thread::yield_now();
                }
                drop(held);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| block_on_in_real_time(requests()));
            scope.spawn(|| block_on_in_real_time(requests()));
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                block_on_in_real_time(holds());
            }));
            is_over.store(true, Ordering::SeqCst);
            held.expect("no request is in the engine while the gate is held");
        });
        assert!(cell.try_enter().is_some());
    }
}
