//! How many connections there are: in all and by address. Counted before anything is read from them.
//!
//! # Invariants
//!
//! * What is counted is given back by a drop.
//! * An address that has no connection takes no memory, so their number is bounded by that of the
//!   connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::limits::Limits;

/// Bits of an IPv6 address that distinguish sites: one host has as many addresses below as it likes.
const V6_PREFIX: u32 = 64;

/// The counts of a server.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<Open>,
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) handshakes_failed: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Why a connection is one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMany {
    #[error("{0} connections are open already")]
    InAll(usize),
    #[error("{0} connections from its address are open already")]
    FromAddress(usize),
}

/// One connection in the counts.
#[derive(Debug)]
pub(super) struct Counted {
    connections: Arc<Connections>,
    key: Option<IpAddr>,
}

impl Connections {
    /// Counts a connection from `address`.
    pub(super) fn count(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        limits: &Limits,
    ) -> Result<Counted, TooMany> {
        let key = address.map(site);
        let counted = self.try_count(key, limits);
        let tally = if counted.is_ok() {
            &self.accepted
        } else {
            &self.refused
        };
        tally.fetch_add(1, Ordering::Relaxed);
        counted
    }

    fn try_count(
        self: &Arc<Self>,
        key: Option<IpAddr>,
        limits: &Limits,
    ) -> Result<Counted, TooMany> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.total >= limits.connections_max {
            return Err(TooMany::InAll(open.total));
        }
        if let Some(key) = key {
            let there = open.by_address.get(&key).copied().unwrap_or(0);
            if there >= limits.connections_per_address_max {
                return Err(TooMany::FromAddress(there));
            }
            open.by_address.insert(key, there + 1);
        }
        open.total += 1;
        let connections = self.clone();
        Ok(Counted { connections, key })
    }

    /// Connections that are open.
    pub(super) fn open(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.total
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self
            .connections
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.total -= 1;
        if let Some(key) = self.key
            && let Some(there) = open.by_address.get_mut(&key)
        {
            *there -= 1;
            if *there == 0 {
                open.by_address.remove(&key);
            }
        }
    }
}

/// What connections are counted under: an IPv4 address, or the network of an IPv6 one.
fn site(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => {
            let mask = u128::MAX << (u128::BITS - V6_PREFIX);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}
