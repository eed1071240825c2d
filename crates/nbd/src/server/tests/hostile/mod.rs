//! Clients that lie, cut, overflow and vanish. What other servers fell for, by kind; after each the
//! server must be alive, in step with other clients, and have no state of the client.

mod extended;
mod handshake;
mod transmission;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use block::Range;
use testkit::{MemDisk, pattern};

use super::{Limits, RawClient, serving};

const SIZE: u64 = 1 << 20;
const CAP: u32 = 256 << 10;
const LONG: Duration = Duration::from_secs(20);

/// Runs `attack` on a server that has few places, and asserts that it is well afterwards.
fn surviving<F: Future<Output = ()>>(attack: impl FnOnce(SocketAddr) -> F) {
    let limits = Limits {
        connections_max: 40,
        payload_max: CAP,
        ..Limits::default()
    };
    let disk = MemDisk::from_bytes(pattern(1, Range::new(0, SIZE)));
    serving(Arc::new(disk), limits, |address| async move {
        let mut bystander = RawClient::simple(address).await;
        let attack = engine::clock::timeout(LONG, attack(address)).await;
        assert!(attack.is_ok(), "the attack takes too long");
        bystander.assert_in_step().await;
        // Every place but the bystander's is free again, before long.
        let mut others = Vec::new();
        let refill = async {
            while others.len() < 39 {
                let mut raw = RawClient::connect(address).await;
                if !raw.is_closed_at_once().await {
                    others.push(raw);
                }
            }
        };
        let refill = engine::clock::timeout(LONG, refill).await;
        assert!(refill.is_ok(), "connections of the attack are still there");
        bystander.assert_in_step().await;
    });
}
