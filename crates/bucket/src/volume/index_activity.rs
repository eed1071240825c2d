//! [`IndexActivity`]: whether a volume is used, and with it how often its index polls: each poll is two requests that cost money.
//!
//! # Invariants
//!
//! * A volume that is used polls at its intervals, and one that is used again at once.
//! * One that is not used polls less often, but it does: it finds that another writer has it, and what commands request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use engine::clock;
use slatedb_common::clock::{SystemClock, SystemClockTicker};
use tokio::sync::Notify;

/// A volume without a request to its store for this time is idle.
const IDLE_AFTER: Duration = Duration::from_secs(60);

/// When a volume was used last.
#[derive(Debug, Clone)]
pub(super) struct IndexActivity(Arc<LastUse>);

#[derive(Debug)]
struct LastUse {
    begin: Instant,
    /// Milliseconds after `begin`.
    at: AtomicU64,
    used: Notify,
}

impl IndexActivity {
    /// One that is used now.
    pub(super) fn new() -> Self {
        Self(Arc::new(LastUse {
            begin: clock::now(),
            at: AtomicU64::new(0),
            used: Notify::new(),
        }))
    }

    fn elapsed(&self) -> Duration {
        clock::now().saturating_duration_since(self.0.begin)
    }

    /// The volume is used: a commit, or a read of the store.
    pub(super) fn mark(&self) {
        let now = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.at.store(now, Ordering::Relaxed);
        self.0.used.notify_waiters();
    }

    fn is_idle(&self) -> bool {
        let last = Duration::from_millis(self.0.at.load(Ordering::Relaxed));
        self.elapsed().saturating_sub(last) >= IDLE_AFTER
    }

    /// Waits for `duration`, and `more` while the volume is idle.
    async fn pause(&self, duration: Duration, more: Duration) {
        clock::sleep(duration).await;
        let used = self.0.used.notified();
        if self.is_idle() {
            // Used meanwhile, or not.
            clock::timeout(more, used).await.ok();
        }
    }
}

/// The clock of the polls of one kind.
#[derive(Debug, Clone)]
pub(super) struct PollClock<C> {
    /// What the time is.
    pub(super) time: C,
    pub(super) activity: IndexActivity,
    /// What a poll of an idle volume waits for, besides its interval.
    pub(super) more: Duration,
}

impl<C: SystemClock> SystemClock for PollClock<C> {
    fn now(&self) -> DateTime<Utc> {
        self.time.now()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.activity.pause(duration, self.more))
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(15);
    const MORE: Duration = Duration::from_secs(45);

    /// Runs with a clock that is stopped: it is set forward when everything waits for it.
    fn with_stopped_clock(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn an_idle_volume_polls_less_often_and_at_once_when_it_is_used_again() {
        with_stopped_clock(async {
            let activity = IndexActivity::new();
            let pause = async || {
                let begin = clock::now();
                activity.pause(INTERVAL, MORE).await;
                clock::now().duration_since(begin).as_secs()
            };
            // Opened just now.
            assert_eq!([pause().await, pause().await, pause().await], [15, 15, 15]);
            assert_eq!(pause().await, 60);
            assert_eq!(pause().await, 60);
            let use_again = async {
                clock::sleep(Duration::from_secs(20)).await;
                activity.mark();
            };
            assert_eq!(tokio::join!(pause(), use_again).0, 20);
            assert_eq!(pause().await, 15);
        });
    }
}
