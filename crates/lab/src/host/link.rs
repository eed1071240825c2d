//! The link that leads to an address, as its interface reports it.

use std::fs;
use std::net::IpAddr;

use super::route;
use crate::units::BitRate;

/// The interface that leads to `peer` and its speed; none where it gives none, as loopback does.
#[must_use]
pub fn link(peer: IpAddr) -> Option<(String, BitRate)> {
    let v4 = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    let interface = route::interface(peer, &v4, &v6)?;
    let speed = fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    // Interfaces without a link give -1, which is no number here.
    let mbit: u64 = speed.trim().parse().ok()?;
    (mbit > 0).then(|| (interface, BitRate::from_mbit(mbit)))
}
