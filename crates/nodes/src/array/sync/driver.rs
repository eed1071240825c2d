//! The driver: does the background work of a redundant array by the clock.
//!
//! ```text
//! every 200 ms after a write           clean, if there was none since the last look
//! every daemon_sleep / 2               bits that no write needs are cleared
//! at once                              resync, recovery, scrub
//! by and by                            members that are away
//! ```
//!
//! # Invariants
//!
//! * It holds the array only while it does something: when all others have left, it ends.
//! * No timer is armed while nothing is written and no member is away.

use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::clock;
use tokio::sync::Notify;

use super::manager::SyncManager;

/// How long nothing was written before the array is marked clean: md's own time.
const IDLE: Duration = Duration::from_millis(200);
/// How long the driver sleeps while nothing is to be done by the clock.
const LONG: Duration = Duration::from_secs(3600);

/// What the driver knows from one look to the next.
#[derive(Debug, Default)]
struct Looks {
    /// Changes that users had made by the last look, and when there were more of them than before.
    changes: u64,
    since: Duration,
    /// When bits are looked at next.
    sweep: Duration,
    /// Whether there are bits to clear.
    bits: bool,
}

/// Starts the driver of an array, on this core. It ends by itself.
pub(super) fn start(manager: &Arc<SyncManager>) {
    drop(engine::spawn(by_the_clock(
        Arc::downgrade(manager),
        manager.wanted.clone(),
    )));
    drop(engine::spawn(as_it_comes(
        Arc::downgrade(manager),
        manager.wanted.clone(),
    )));
}

/// Does jobs as they come.
async fn as_it_comes(manager: Weak<SyncManager>, wanted: Arc<Notify>) {
    loop {
        let again = wanted.notified();
        let mut again = std::pin::pin!(again);
        again.as_mut().enable();
        let Some(manager) = manager.upgrade().filter(|manager| !manager.is_left()) else {
            return;
        };
        if manager.has_work() || manager.must_restore_logs() {
            // What could not be done was logged.
            drop(manager.work().await);
            continue;
        }
        drop(manager);
        again.await;
    }
}

/// Does what is due by the clock.
async fn by_the_clock(manager: Weak<SyncManager>, wanted: Arc<Notify>) {
    let mut looks = Looks::default();
    loop {
        let again = wanted.notified();
        let mut again = std::pin::pin!(again);
        again.as_mut().enable();
        let Some(manager) = manager.upgrade().filter(|manager| !manager.is_left()) else {
            return;
        };
        let wait = manager.look(&mut looks).await;
        drop(manager);
        tokio::select! {
            () = again => {}
            () = clock::sleep(wait) => {}
        }
    }
}

impl SyncManager {
    /// One look: what is due now is done. How long until the next one.
    async fn look(&self, looks: &mut Looks) -> Duration {
        let name = self.array.name();
        let (now, changes) = (self.now(), self.array.changes());
        if changes != looks.changes {
            looks.changes = changes;
            looks.since = now;
            looks.bits = true;
        }
        let quiet = now.saturating_sub(looks.since) >= IDLE;
        let mut clean = self.array.is_clean();
        if quiet && !clean {
            clean = self.array.mark_clean().await.unwrap_or_else(|error| {
                tracing::error!("{name}: {error}");
                false
            });
        }
        if looks.bits && now >= looks.sweep {
            looks.sweep = now + self.array.daemon_sleep() / 2;
            looks.bits = self.array.sweep().await.unwrap_or_else(|error| {
                tracing::error!("{name}: {error}");
                true
            });
        }
        if self.probe(false).await {
            self.wanted.notify_waiters();
        }
        self.next_look(looks, clean)
    }

    fn next_look(&self, looks: &Looks, clean: bool) -> Duration {
        let now = self.now();
        let bits = looks.bits.then(|| looks.sweep.saturating_sub(now));
        let away = self.absences().next();
        let away = away.map(|next| next.saturating_sub(now));
        let idle = (!clean).then_some(IDLE);
        let all = [bits, away, idle].into_iter().flatten();
        all.min().unwrap_or(LONG).max(Duration::from_millis(10))
    }
}
