//! When `serve` stops: SIGTERM, SIGINT, SIGHUP, the end of the parent.

use std::error::Error;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getppid, pidfd_open};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::interrupt::hangup_is_ignored;

/// Time between two looks at the parent.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Watches for reasons to stop, from its creation on.
#[derive(Debug)]
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// `None`: it reloads, or the server is to outlive its terminal.
    hangup: Option<Signal>,
    parent: Option<OwnedFd>,
}

/// Why it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Terminate,
    Interrupt,
    Hangup,
    Parent,
}

impl Reason {
    /// The exit status of a process that the reason ended by force.
    const fn status(self) -> i32 {
        match self {
            Self::Hangup => 128 + 1,
            Self::Interrupt => 128 + 2,
            Self::Terminate | Self::Parent => 128 + 15,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Hangup => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::Parent => "the parent process ended",
        }
    }
}

impl StopSignals {
    /// Starts to watch. A hangup that reloads is no reason to stop. Call on the engine.
    pub(super) fn watch(with_parent: bool, hangup_reloads: bool) -> Result<Self, Failure> {
        let outlives_hangup = hangup_reloads || hangup_is_ignored();
        Ok(Self {
            terminate: watch(SignalKind::terminate())?,
            interrupt: watch(SignalKind::interrupt())?,
            hangup: (!outlives_hangup)
                .then(|| watch(SignalKind::hangup()))
                .transpose()?,
            parent: with_parent.then(parent).transpose()?,
        })
    }

    async fn signal(&mut self) -> Reason {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Reason::Terminate,
            _ = self.interrupt.recv() => Reason::Interrupt,
            _ = hangup => Reason::Hangup,
        }
    }

    async fn first(&mut self) -> Reason {
        let Some(parent) = self.parent.take() else {
            return self.signal().await;
        };
        tokio::select! {
            reason = self.signal() => reason,
            () = end_of(&parent) => Reason::Parent,
        }
    }

    /// Does what comes before serving, unless there is a reason to stop.
    pub(super) async fn before<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            done = work => done,
            reason = self.signal() => {
                Err(Failure::new(format!("{}: stopped before anything was served", reason.name())))
            }
        }
    }

    /// Waits for `serving`, stops it at the first signal or other reason, and ends the process at the second one, after
    /// `clean_up`.
    pub(super) async fn during<E: Error>(
        &mut self,
        stop: oneshot::Sender<()>,
        serving: impl Future<Output = Result<(), E>>,
        clean_up: impl FnOnce(),
    ) -> Result<(), Failure> {
        let mut serving = pin!(serving);
        let ended = |done: Result<(), E>| done.map_err(Failure::new);
        tokio::select! {
            done = &mut serving => return ended(done),
            reason = self.first() => {
                tracing::info!("{}: finishing what is in flight", reason.name());
            }
        }
        // The receiver is gone if `serving` ended at this moment.
        stop.send(()).unwrap_or_default();
        tokio::select! {
            done = &mut serving => ended(done),
            reason = self.signal() => {
                clean_up();
                std::process::exit(reason.status())
            }
        }
    }
}

/// A descriptor that becomes readable when the process that started this one ends.
///
/// The kernel's own signal for that (`PR_SET_PDEATHSIG`) comes when the parent's *thread* ends, which
/// is too early in a parent with many.
fn parent() -> Result<OwnedFd, Failure> {
    let what = "cannot watch the parent process";
    let parent = getppid().ok_or_else(|| Failure::new(format!("{what}: it is not to be seen")))?;
    pidfd_open(parent, PidfdFlags::empty())
        .map_err(|error| Failure::because(what, &io::Error::from(error)))
}

fn watch(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::because("cannot watch for signals", &error))
}

/// The stream of SIGHUP, which reloads the configuration.
pub(super) fn hangup() -> Result<Signal, Failure> {
    watch(SignalKind::hangup())
}

/// Waits until the process behind `pidfd` ends.
async fn end_of(pidfd: &OwnedFd) {
    let at_once = Timespec::default();
    loop {
        let mut wanted = [PollFd::new(pidfd, PollFlags::IN)];
        if !matches!(poll(&mut wanted, Some(&at_once)), Ok(0) | Err(Errno::INTR)) {
            return;
        }
        engine::clock::sleep(LOOK_EVERY).await;
    }
}
