//! Events of an attachment's owner other than control requests: signals, the end of the device, and the end of the
//! parent process.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::message::OwnerReport;
use crate::faults::Faults;
use crate::fuse::FuseError;
use crate::health::{Health, Reachability};
use crate::local::DiskSupervisor;
use crate::remote::Remote;
use crate::teardown::{DeviceTeardown, LoopTeardown};

/// SIGTERM and SIGINT. Where they cannot be caught they end the process as ever.
pub(super) struct Signals(Vec<Signal>);

/// Begins to catch them.
pub(super) fn signals() -> Signals {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
    Signals(kinds.into_iter().filter_map(|k| signal(k).ok()).collect())
}

impl Signals {
    /// Resolves at the first of them.
    pub(super) async fn recv(&mut self) {
        std::future::poll_fn(|context| {
            for signal in &mut self.0 {
                if let std::task::Poll::Ready(Some(())) = signal.poll_recv(context) {
                    return std::task::Poll::Ready(());
                }
            }
            std::task::Poll::Pending
        })
        .await;
    }
}

/// The `attach` process that started this one and waits until the disk is attached.
pub(super) struct ParentWatch(Option<pipe::Sender>);

impl ParentWatch {
    /// Begins to watch it: it has the other end of our standard output.
    pub(super) fn watch() -> Self {
        let output = std::io::stdout().as_fd().try_clone_to_owned();
        Self(output.and_then(pipe::Sender::from_owned_fd).ok())
    }

    /// Resolves when it has ended.
    pub(super) async fn gone(&self) {
        let Some(output) = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            match output.ready(Interest::ERROR).await {
                Ok(ready) if !ready.is_error() => {}
                _ => return,
            }
        }
    }
}

/// Resolves when another process has taken the device down.
pub(super) async fn wait_for_device_end(device_teardown: &mut DeviceTeardown) {
    let result = match device_teardown {
        DeviceTeardown::Loop(LoopTeardown {
            serving: Some(serving),
            ..
        }) => match serving.await {
            Ok(result) => result.map_err(|e: FuseError| e.to_string()),
            Err(e) => Err(e.to_string()),
        },
        DeviceTeardown::Nbd(nbd) if nbd.watching.is_some() => match nbd.watching.as_mut() {
            Some(watching) => watching.await.map_err(|e| e.to_string()),
            None => return std::future::pending().await,
        },
        _ => return std::future::pending().await,
    };
    if let Err(e) = result {
        tracing::error!("{e}");
    }
    match device_teardown {
        DeviceTeardown::Loop(loop_device) => loop_device.serving = None,
        DeviceTeardown::Nbd(nbd_device) => nbd_device.watching = None,
        DeviceTeardown::None => {}
    }
}

/// How long the server has been gone, and why.
pub(super) fn unreachable(
    remote: Option<&Remote>,
    reachability: &Reachability,
) -> Option<(Duration, String)> {
    remote
        .and_then(Remote::gone)
        .or_else(|| reachability.gone())
}

/// The sources of the attachment's health.
pub(super) struct HealthSources {
    pub(super) remote: Option<Remote>,
    pub(super) reachability: Arc<Reachability>,
    pub(super) faults: Arc<Faults>,
    pub(super) supervisor: Option<Arc<dyn DiskSupervisor>>,
}

impl HealthSources {
    /// The report of the attachment to `status`.
    pub(super) fn report(&self) -> OwnerReport {
        let used = self.remote.as_ref().map(Remote::server_use);
        OwnerReport {
            health: self.health(),
            used: used.or_else(|| self.reachability.server_use()),
            caches: self
                .supervisor
                .as_ref()
                .map_or_else(Vec::new, |supervisor| supervisor.caches()),
        }
    }

    /// The attachment's health: the worst that any source reports.
    fn health(&self) -> Health {
        let failed = self.remote.as_ref().and_then(Remote::failed);
        if let Some(why) = failed.or_else(|| self.reachability.failed()) {
            return Health::Failing { why };
        }
        if let Some((gone, why)) = unreachable(self.remote.as_ref(), &self.reachability) {
            let for_s = gone.as_secs();
            return Health::Reconnecting { for_s, why };
        }
        if let Some(why) = self.faults.failing() {
            return Health::Failing { why };
        }
        let problem = self
            .supervisor
            .as_ref()
            .and_then(|supervisor| supervisor.problem());
        match problem {
            Some(why) => Health::Degraded { why },
            None => Health::Connected,
        }
    }
}
