//! What an attachment's owner waits for beside questions: signals, and the end of the device.
use std::sync::Arc;
use std::time::Duration;

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
