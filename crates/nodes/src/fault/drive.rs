//! [`Drive`]: what all requests and handles of one faulty disk share; and [`FaultHandle`].

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::{BlockDevice, IoError};
use engine::clock;
use tokio::sync::watch;

use super::cache::Cache;
use super::plan::{FaultPlan, FaultRule};
use super::state::{FaultState, Puller};

/// How often requests in flight look whether the file that pulls the drive has come.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// State and cache change together: a pull empties the cache.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) state: FaultState,
    pub(super) cache: Option<Cache>,
}

/// What all requests to one disk share.
#[derive(Debug)]
pub(super) struct Drive {
    inside: Mutex<Inside>,
    /// How often the drive was pulled.
    pulls: watch::Sender<u64>,
    pulled_while: Option<PathBuf>,
    started: Instant,
    /// Changes abandoned in flight, which may land late…
    abandoned: AtomicU64,
    /// …and how many of them the disk below has settled.
    settled: AtomicU64,
    /// Held while the cache is written back, or bypassed.
    pub(super) writing: tokio::sync::Mutex<()>,
}

/// Gives up what it stands for when it is dropped.
struct UnderWay<'a>(Option<&'a Drive>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(drive) = self.0 {
            drive.give_up();
        }
    }
}

impl Drive {
    pub(super) fn new(plan: FaultPlan) -> Self {
        Self {
            inside: Mutex::new(Inside {
                state: FaultState::new(&plan),
                cache: plan.cache.map(Cache::new),
            }),
            pulls: watch::Sender::new(0),
            pulled_while: plan.pulled_while,
            started: clock::now(),
            abandoned: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            writing: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        clock::now().saturating_duration_since(self.started)
    }

    /// Pulls the drive or plugs it in again.
    pub(super) fn set_pulled(&self, puller: Puller, pulled: bool) {
        let mut inside = self.inside();
        if inside.state.set_pulled(puller, pulled) {
            if inside.cache.as_mut().is_some_and(Cache::lose) {
                inside.state.lose();
            }
            drop(inside);
            self.pulls.send_modify(|pulls| *pulls += 1);
        }
    }

    /// Looks for the file that pulls the drive. A look at a directory entry waits for no disk worth
    /// the name.
    fn look(&self) {
        if let Some(path) = &self.pulled_while {
            self.set_pulled(Puller::Flag, std::fs::symlink_metadata(path).is_ok());
        }
    }

    /// The number of pulls so far, if the drive is there.
    pub(super) fn enter(&self) -> Option<u64> {
        self.look();
        // In this order: a pull between the two is seen as one that came while the request ran.
        let pulls = *self.pulls.borrow();
        (!self.inside().state.is_pulled()).then_some(pulls)
    }

    /// Resolves when the drive has been pulled more than `pulls` times.
    pub(super) async fn pulled_after(&self, pulls: u64) {
        let mut seen = self.pulls.subscribe();
        while *seen.borrow_and_update() <= pulls {
            if self.pulled_while.is_none() {
                // The sender is this drive's own and outlives the wait.
                drop(seen.changed().await);
            } else {
                drop(clock::timeout(LOOK_EVERY, seen.changed()).await);
                self.look();
            }
        }
    }

    /// A change was abandoned while it was in flight below: it may land late.
    pub(super) fn give_up(&self) {
        self.abandoned.fetch_add(1, Ordering::SeqCst);
    }

    /// Runs a change below that others must not come behind if it is dropped.
    pub(super) async fn in_order<T>(&self, change: impl Future<Output = T>) -> T {
        let mut guard = UnderWay(Some(self));
        let result = change.await;
        guard.0 = None;
        result
    }

    /// Waits until nothing can land late any more.
    pub(super) async fn recover(&self, child: &dyn BlockDevice) -> Result<(), IoError> {
        loop {
            let abandoned = self.abandoned.load(Ordering::SeqCst);
            if self.settled.load(Ordering::SeqCst) >= abandoned {
                return Ok(());
            }
            child.settle().await?;
            self.settled.fetch_max(abandoned, Ordering::SeqCst);
        }
    }
}

/// Pulls a faulty disk, plugs it in again, and changes what goes wrong, while it is used.
#[derive(Debug, Clone)]
pub struct FaultHandle(Arc<Drive>);

impl FaultHandle {
    pub(super) const fn new(drive: Arc<Drive>) -> Self {
        Self(drive)
    }

    /// Takes the drive away: every request fails at once, also those in flight. Its cache is lost.
    pub fn pull(&self) {
        self.0.set_pulled(Puller::Hand, true);
    }

    /// Plugs it in again, unless a file keeps it pulled.
    pub fn plug(&self) {
        self.0.set_pulled(Puller::Hand, false);
    }

    /// Whether it is pulled.
    #[must_use]
    pub fn is_pulled(&self) -> bool {
        self.0.enter().is_none()
    }

    /// Adds a rule behind those there are, up to 1024.
    pub fn add(&self, rule: FaultRule) {
        self.0.inside().state.add(rule);
    }

    /// Removes all rules. A flush that failed stays failed.
    pub fn heal(&self) {
        self.0.inside().state.clear();
    }

    /// Requests that reached the drive while it was there.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.0.inside().state.counts().0
    }

    /// How many of them went wrong by a rule.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.0.inside().state.counts().1
    }

    /// Bytes that were acknowledged and would be lost if the drive were pulled now.
    #[must_use]
    pub fn cached(&self) -> u64 {
        self.0.inside().cache.as_ref().map_or(0, Cache::used)
    }
}
