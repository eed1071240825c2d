//! [`Gate`]: one [`Bucket`], and the line of requests before it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::clock;

use super::plan::{Cost, RatePair};
use super::state::Bucket;

/// Where requests wait for their turn; a gate without rates lets every request pass.
#[derive(Debug)]
pub(super) struct Gate(Option<GateLine>);

#[derive(Debug)]
struct GateLine {
    bucket: Mutex<Bucket>,
    /// Held by the first in line: this mutex lets them in as they came.
    turn: tokio::sync::Mutex<()>,
}

impl GateLine {
    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A charge. Dropped, it is taken back.
#[must_use]
pub(super) struct Charge<'a> {
    line: Option<&'a GateLine>,
    cost: Cost,
}

impl Charge<'_> {
    /// The request is carried out.
    pub(super) fn keep(mut self) {
        self.line = None;
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.line {
            line.bucket().refund(self.cost);
        }
    }
}

impl Gate {
    pub(super) fn new(pair: RatePair) -> Self {
        Self(Bucket::new(pair).map(|bucket| GateLine {
            bucket: Mutex::new(bucket),
            turn: tokio::sync::Mutex::default(),
        }))
    }

    /// Waits until a request that arrived at `arrived` is paid for. `now` is the node's clock.
    ///
    /// No request is charged before its turn, so that one that is cancelled gives up a place and
    /// nothing else.
    pub(super) async fn pass(
        &self,
        arrived: Duration,
        cost: Cost,
        now: impl Fn() -> Duration,
    ) -> Charge<'_> {
        let Some(line) = &self.0 else {
            return Charge { line: None, cost };
        };
        let _turn = line.turn.lock().await;
        let ready = line.bucket().charge(arrived, cost);
        let charge = Charge {
            line: Some(line),
            cost,
        };
        let wait = ready.saturating_sub(now());
        if !wait.is_zero() {
            clock::sleep(wait).await;
        }
        charge
    }

    /// The charge of a request at `now` that is paid for already and is the first in line.
    pub(super) fn try_pass(&self, now: Duration, cost: Cost) -> Option<Charge<'_>> {
        let Some(line) = &self.0 else {
            return Some(Charge { line: None, cost });
        };
        let _turn = line.turn.try_lock().ok()?;
        let ready = line.bucket().charge(now, cost);
        let charge = Charge {
            line: Some(line),
            cost,
        };
        (ready <= now).then_some(charge)
    }
}
