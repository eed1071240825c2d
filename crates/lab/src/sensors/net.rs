//! `/proc/net/dev`: what each interface carried. Pure. Source: proc_pid_net(5).

use super::Counter;

/// Interfaces that are followed: those that carried most. Machines with many containers have hundreds.
const INTERFACES_MAX: usize = 16;

/// One direction of an interface since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that were broken.
    pub errors: u64,
    /// Packets that there was no room for.
    pub drops: u64,
}

/// An interface since boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetCounters {
    /// `eth0`
    pub name: String,
    /// What came in.
    pub received: LinkCounters,
    /// What went out.
    pub sent: LinkCounters,
}

impl NetCounters {
    /// As counters: `eth0/rx-bytes`, `eth0/tx-drops`.
    pub(super) fn counters(&self) -> impl Iterator<Item = Counter> {
        let of = |direction: &str, link: LinkCounters| {
            [
                ("bytes", link.bytes),
                ("packets", link.packets),
                ("errors", link.errors),
                ("drops", link.drops),
            ]
            .map(|(what, count)| {
                Counter::new("net", format!("{}/{direction}-{what}", self.name), count)
            })
        };
        of("rx", self.received)
            .into_iter()
            .chain(of("tx", self.sent))
    }
}

/// The interfaces that ever carried something, in the kernel's order. Lines that are none are left out.
#[must_use]
pub fn parse(text: &str) -> Vec<NetCounters> {
    let mut found: Vec<NetCounters> = text.lines().filter_map(interface).collect();
    found.retain(|one| one.received.bytes > 0 || one.sent.bytes > 0);
    if found.len() > INTERFACES_MAX {
        found.sort_by_key(|one| {
            std::cmp::Reverse(one.received.bytes.saturating_add(one.sent.bytes))
        });
        found.truncate(INTERFACES_MAX);
    }
    found
}

/// `name: bytes packets errs drop fifo frame compressed multicast` and as many for what was sent.
fn interface(line: &str) -> Option<NetCounters> {
    let (name, rest) = line.rsplit_once(':')?;
    let counts: Vec<u64> = rest
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let link = |first: usize| {
        let counts = counts.get(first..first + 4)?;
        Some(LinkCounters {
            bytes: counts[0],
            packets: counts[1],
            errors: counts[2],
            drops: counts[3],
        })
    };
    Some(NetCounters {
        name: name.trim().to_owned(),
        received: link(0)?,
        sent: link(8)?,
    })
}
