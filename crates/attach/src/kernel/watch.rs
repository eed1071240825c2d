//! Brings a kernel device's connections back when their server has returned.
//!
//! The kernel shuts a connection down when its server ends or a request takes too long; that shows on our
//! own descriptor of the socket. Requests wait in the kernel meanwhile (`dead_conn_timeout`), and
//! those under way are sent again over a fresh connection when their own time is over.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use super::netlink::Index;
use super::{KernelError, Setup, alive, dial, same_size};
use crate::health::Reach;

/// How often connections are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest wait between two tries to reach the server.
const RETRY_MAX: Duration = Duration::from_secs(4);
/// A connection shows its end a moment before the kernel counts it as dead.
const SETTLE_FOR: Duration = Duration::from_millis(100);

/// A device's connections, as we hold them.
#[derive(Debug)]
pub(crate) struct Link {
    setup: Setup,
    index: Index,
    size: u64,
    sockets: Vec<OwnedFd>,
}

impl Link {
    pub(super) const fn new(setup: Setup, index: Index, size: u64, sockets: Vec<OwnedFd>) -> Self {
        Self {
            setup,
            index,
            size,
            sockets,
        }
    }

    /// Dials once for every dead connection and hands the new ones over.
    async fn revive(&mut self) -> Result<(), KernelError> {
        let live = alive(&self.sockets);
        let mut fresh = Vec::new();
        for _ in live.iter().filter(|live| !**live) {
            let dialed = dial(&self.setup).await?;
            same_size(self.size, &dialed)?;
            fresh.push(dialed.socket);
        }
        let (index, backend) = (self.index, self.setup.backend.clone());
        let fresh = engine::blocking(move || {
            let numbers: Vec<i32> = fresh.iter().map(AsRawFd::as_raw_fd).collect();
            let handed = Control::open()?.reconnect(index, &backend, &numbers);
            handed.map(|()| fresh)
        })
        .await?;
        let mut live = live.into_iter();
        self.sockets.retain(|_| live.next().unwrap_or(true));
        self.sockets.extend(fresh);
        Ok(())
    }
}

/// Keeps the connections alive until the device is disconnected, by us or by somebody else.
pub(crate) async fn watch(mut link: Link, reach: Arc<Reach>) {
    let mut wait = LOOK_EVERY;
    loop {
        engine::clock::sleep(wait).await;
        if alive(&link.sockets).iter().all(|live| *live) {
            wait = LOOK_EVERY;
            continue;
        }
        engine::clock::sleep(SETTLE_FOR).await;
        match link.revive().await {
            Ok(()) => {
                reach.connected();
                wait = LOOK_EVERY;
            }
            Err(e) if !is_connected(link.index).await => {
                tracing::info!("the device was disconnected ({e})");
                return;
            }
            Err(e) => {
                reach.lost(&e.to_string());
                wait = (wait * 2).min(RETRY_MAX);
            }
        }
    }
}

/// A status that cannot be had counts as connected: it is asked for again at the next try.
async fn is_connected(index: Index) -> bool {
    engine::blocking(move || {
        Control::open()
            .and_then(|control| control.connected(index))
            .unwrap_or(true)
    })
    .await
}
