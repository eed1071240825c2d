//! `/proc/net/route` and `/proc/net/ipv6_route`: which interface leads to an address ([`interface`], pure), and how
//! fast its link is.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::units::BitRate;

/// Bit of a route's flags: it is up.
const UP: u32 = 1;
/// Bit of a route's flags: it refuses.
const REJECT: u32 = 0x0200;

/// The interface of this machine that leads to `peer`.
#[must_use]
pub(super) fn to(peer: IpAddr) -> Option<String> {
    // Its route is in no table that is read here.
    if peer.is_loopback() {
        return Some("lo".into());
    }
    let table = |name| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    interface(peer, &table("route"), &table("ipv6_route"))
}

/// The interface that leads to `peer` and its speed; none where it gives none, as loopback does.
#[must_use]
pub fn link(peer: IpAddr) -> Option<(String, BitRate)> {
    let interface = to(peer)?;
    let speed = fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    // Interfaces without a link give -1, which is no number here.
    let mbit: u64 = speed.trim().parse().ok()?;
    (mbit > 0).then(|| (interface, BitRate::from_mbit(mbit)))
}

/// The interface of the longest prefix that holds `address`; of equals, the one of the least metric.
#[must_use]
pub fn interface(address: IpAddr, v4: &str, v6: &str) -> Option<String> {
    let routes: Vec<Route> = match address {
        IpAddr::V4(address) => v4
            .lines()
            .filter_map(|line| route_v4(line, address))
            .collect(),
        IpAddr::V6(address) => v6
            .lines()
            .filter_map(|line| route_v6(line, address))
            .collect(),
    };
    let best = routes
        .into_iter()
        .filter(|route| route.flags & UP != 0 && route.flags & REJECT == 0)
        .max_by_key(|route| (route.prefix, std::cmp::Reverse(route.metric)))?;
    Some(best.interface)
}

struct Route {
    prefix: u32,
    metric: u32,
    flags: u32,
    interface: String,
}

/// The route of a line, if `address` is in it. The kernel keeps addresses in network order and prints
/// them as if they were numbers of this machine.
fn route_v4(line: &str, address: Ipv4Addr) -> Option<Route> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let hex = |index: usize| u32::from_str_radix(words.get(index)?, 16).ok();
    let destination = u32::from_be(hex(1)?);
    let mask = u32::from_be(hex(7)?);
    (address.to_bits() & mask == destination & mask).then_some(())?;
    Some(Route {
        prefix: mask.count_ones(),
        metric: words.get(6)?.parse().ok()?,
        flags: hex(3)?,
        interface: (*words.first()?).to_owned(),
    })
}

fn route_v6(line: &str, address: Ipv6Addr) -> Option<Route> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let hex = |index: usize| u32::from_str_radix(words.get(index)?, 16).ok();
    let destination = u128::from_str_radix(words.first()?, 16).ok()?;
    let prefix = hex(1)?;
    let mask = u128::MAX
        .checked_shl(128u32.checked_sub(prefix)?)
        .unwrap_or(0);
    (address.to_bits() & mask == destination & mask).then_some(())?;
    Some(Route {
        prefix,
        metric: hex(5)?,
        flags: hex(8)?,
        interface: (*words.get(9)?).to_owned(),
    })
}
