//! Carries out a [`plan`]: the same for the process that owns an attachment and for `detach` when that
//! process is dead.
//!
//! Calls that may not return (umount(2), fsync(2) of a device without a server) are made by processes of
//! their own ([`crate::worker`]) and are given up after the time allowed; cutting the device off lets them return.

mod device;
mod plan;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::worker::WorkerCall;
pub(crate) use device::{DeviceTeardown, LoopTeardown};
pub use plan::TeardownRefusal;
pub(crate) use plan::{Teardown, TeardownAction, TeardownFacts, TeardownOutcome, TeardownReport};

/// How often a device that a program still has open is checked again.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// How long programs that look at every device (udev, blkid) are waited for.
const OPENERS_FOR: Duration = Duration::from_secs(5);
/// How long a busy mount is tried again: programs that just ended let go of it a moment later.
const BUSY_FOR: Duration = Duration::from_millis(500);

/// Takes an attachment down.
///
/// # Errors
/// [`TeardownRefusal`]: it is as it was.
pub(crate) async fn take_down(
    facts: TeardownFacts,
    device_teardown: &mut DeviceTeardown,
    timeout: Duration,
) -> Result<TeardownReport, TeardownRefusal> {
    let mut teardown = Teardown::new(facts)?;
    while let Some(action) = teardown.next() {
        let outcome = carry_out(&action, device_teardown, timeout).await;
        tracing::info!(?action, ?outcome, "detaching");
        teardown.apply(action, outcome)?;
    }
    Ok(teardown.finish())
}

async fn carry_out(
    action: &TeardownAction,
    device_teardown: &mut DeviceTeardown,
    timeout: Duration,
) -> TeardownOutcome {
    match action {
        TeardownAction::Unmount(dir) => unmount(dir, timeout).await,
        TeardownAction::UnmountLazily(dir) => {
            WorkerCall::UnmountLazily(dir.clone())
                .execute(timeout)
                .await
        }
        TeardownAction::Sync(dir) => WorkerCall::Sync(dir.clone()).execute(timeout).await,
        TeardownAction::Flush => match device_teardown.device() {
            Some(device) => WorkerCall::Flush(device).execute(timeout).await,
            None => TeardownOutcome::Done,
        },
        TeardownAction::Cut => device_teardown.cut().await,
        TeardownAction::Clear => device_teardown.clear(OPENERS_FOR).await,
        TeardownAction::RemoveDir(dir) => WorkerCall::RemoveDir(dir.clone()).execute(timeout).await,
    }
}

async fn unmount(dir: &Path, timeout: Duration) -> TeardownOutcome {
    let started = engine::clock::now();
    loop {
        let outcome = WorkerCall::Unmount(dir.to_owned()).execute(timeout).await;
        let waited = engine::clock::now().duration_since(started);
        if !matches!(outcome, TeardownOutcome::Busy(_)) || waited >= BUSY_FOR {
            return outcome;
        }
        engine::clock::sleep(RETRY_AFTER).await;
    }
}

/// Runs what waits for a worker. The thread is left to itself when the time is over.
pub(crate) async fn on_thread(
    timeout: Duration,
    work: impl FnOnce() -> TeardownOutcome + Send + 'static,
) -> TeardownOutcome {
    let (sender, receiver) = oneshot::channel();
    let started = engine::thread("teardown", move || drop(sender.send(work())));
    if let Err(e) = started {
        return TeardownOutcome::Failed(e.to_string());
    }
    match engine::clock::timeout(timeout, receiver).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => TeardownOutcome::Failed("its thread ended".to_owned()),
        Err(_) => TeardownOutcome::NoEnd,
    }
}
