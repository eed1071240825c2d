//! Closing the disk of a member that was forgotten.

use std::sync::Arc;
use std::time::Duration;

use engine::clock;
use tokio::sync::Notify;

use super::RedundantArray;
use super::members::SlotId;

/// How long a removal waits for requests to the member that began before.
const RELEASE: Duration = Duration::from_secs(5);

/// Notifies the waiting task when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Released(Arc<Notify>);

impl Drop for Released {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl RedundantArray {
    /// Closes the disk of a member that was removed, so that others can open it, once no request to
    /// it can land any more, and no request that began before uses it: then it is closed when this resolves. One of another
    /// machine is severed by its [`Reopen`](crate::array::Reopen).
    pub(super) async fn close(&self, slot: SlotId) {
        let target = self.target(slot);
        if !target.remote
            && let Err(error) = target.settle().await
        {
            tracing::warn!("{} stays open: {error}", target.name);
            return;
        }
        let closed = Arc::new(target.closed());
        let (name, remote) = (target.name.clone(), target.remote);
        let released = target.released.0.clone();
        let before = std::mem::replace(&mut self.lock().state.members.slots[slot.0].target, closed);
        drop((before, target));
        // A read that began before it failed may still be under way, and hold it open.
        let mut released = std::pin::pin!(released.notified());
        if remote || released.as_mut().enable() {
            return;
        }
        if clock::timeout(RELEASE, released).await.is_err() {
            tracing::warn!("{name} stays open until requests of before have ended");
        }
    }
}
