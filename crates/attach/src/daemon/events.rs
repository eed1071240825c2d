//! What an attachment's owner waits for beside questions: signals, the end of the device, and the end of
//! whoever waits for the attachment.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::faults::Faults;
use crate::fuse::FuseError;
use crate::health::{Health, Reach};
use crate::local::Keeper;
use crate::remote::Remote;
use crate::teardown::{Hands, LoopHands};

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

/// The process that asked for the attachment and waits for word of it.
pub(super) struct Parent(Option<pipe::Sender>);

impl Parent {
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

/// Resolves when the device was taken down by somebody else.
pub(super) async fn ended(hands: &mut Hands) {
    let result = match hands {
        Hands::Loop(LoopHands {
            serving: Some(serving),
            ..
        }) => match serving.await {
            Ok(result) => result.map_err(|e: FuseError| e.to_string()),
            Err(e) => Err(e.to_string()),
        },
        Hands::Nbd(nbd) if nbd.watching.is_some() => match nbd.watching.as_mut() {
            Some(watching) => watching.await.map_err(|e| e.to_string()),
            None => return std::future::pending().await,
        },
        _ => return std::future::pending().await,
    };
    if let Err(e) = result {
        tracing::error!("{e}");
    }
    match hands {
        Hands::Loop(hands) => hands.serving = None,
        Hands::Nbd(hands) => hands.watching = None,
        Hands::None => {}
    }
}

/// How long the server has been gone, and why.
pub(super) fn unreachable(remote: Option<&Remote>, reach: &Reach) -> Option<(Duration, String)> {
    remote.and_then(Remote::gone).or_else(|| reach.gone())
}

/// All that tells how the attachment is.
pub(super) struct Whole {
    pub(super) remote: Option<Remote>,
    pub(super) reach: Arc<Reach>,
    pub(super) faults: Arc<Faults>,
    pub(super) keeper: Option<Arc<dyn Keeper>>,
}

impl Whole {
    /// How the attachment is: the worst there is to say.
    pub(super) fn health(&self) -> Health {
        let failed = self.remote.as_ref().and_then(Remote::failed);
        if let Some(why) = failed.or_else(|| self.reach.failed()) {
            return Health::Failing { why };
        }
        if let Some((gone, why)) = unreachable(self.remote.as_ref(), &self.reach) {
            let for_s = gone.as_secs();
            return Health::Reconnecting { for_s, why };
        }
        if let Some(why) = self.faults.failing() {
            return Health::Failing { why };
        }
        let trouble = self.keeper.as_ref().and_then(|keeper| keeper.trouble());
        match trouble {
            Some(why) => Health::Degraded { why },
            None => Health::Connected,
        }
    }
}
