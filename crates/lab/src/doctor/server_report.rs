//! What one of our own servers reports of itself: its clients, and the members of its arrays. Pure.
//!
//! # Invariants
//!
//! * A client counts as another one only if it was connected before the measurement and after it: the doctor's own
//!   connections are not.
//! * The target's own connections are not other clients. Where none of them is found among the clients without a process,
//!   any of these may be one, and none of them is another client.
//! * A client limits the target only where it takes bytes of the same disk, and a part of them that matters.
//! * The slow member is the one that most of the waiting was for, of an array with several.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{StoreReading, StoreUse};
use crate::plan::Direction;
use crate::units::{Nanos, Rate, SECOND};

/// Other clients that take less than this part of what the disk carries are no limit.
const OTHERS_MIN: f64 = 0.2;
/// A client that moves less than this part of what all others move is not named.
const CLIENT_MIN: f64 = 0.1;
/// A member that this part of all waiting was for is the slow one.
const WAITED_FOR: f64 = 0.7;
/// And that had this many requests in flight on average.
const IN_FLIGHT_MIN: f64 = 0.5;
/// Where a request takes so many times what it takes alone, and so many are in flight, requests queue.
const QUEUED_TIMES: f64 = 1.5;
/// A member of a stripe is the slow one if the next slowest carries so many times as much.
const SLOWER_TIMES: f64 = 1.3;
/// A target and other clients that move more together did not share what was measured by itself.
pub(super) const TOGETHER_MAX: f64 = 1.1;
/// Clients of one export that are reported.
const CLIENTS_MAX: usize = 256;

/// What a server reports at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServedReading {
    /// Its exports, the default one first.
    pub exports: Vec<ExportReading>,
}

/// One export.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExportReading {
    /// Its name.
    pub name: String,
    /// The files that its disk is in.
    pub files: Vec<PathBuf>,
    /// Whether its disk is one of them as it is, with nothing in between.
    #[serde(default)]
    pub is_plain: bool,
    /// Its clients.
    pub clients: Vec<ClientReading>,
    /// The members of its array, where it is one.
    pub members: Vec<MemberReading>,
    /// The stores of the volumes that its disk is made of.
    #[serde(default)]
    pub stores: Vec<StoreReading>,
}

/// A client, and the bytes that it moved since it connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientReading {
    /// Its number, which no other client of the server ever has.
    pub id: u64,
    /// `192.0.2.7:50112`, `process 4711 (fio)`
    pub name: String,
    /// Its process, where it is on the server's machine and came over a Unix socket.
    pub process: Option<u32>,
    /// Bytes that it read.
    pub read: u64,
    /// Bytes that it wrote.
    pub written: u64,
}

/// A member of an array that is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberReading {
    /// Its name.
    pub name: String,
    /// Whether it is on another machine.
    pub is_remote: bool,
    /// Reads that it answered.
    pub read: AnsweredRequests,
    /// Writes that it answered.
    pub written: AnsweredRequests,
}

/// Requests of one kind since a disk was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AnsweredRequests {
    /// How many.
    pub requests: u64,
    /// Their time, all of them together.
    pub time: Nanos,
}

/// The clients through which the target itself uses its export, as a mount does; none where the doctor reads the export.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnClients {
    /// Their processes.
    pub processes: Vec<u32>,
    /// Their ends of TCP connections: over TCP, a server knows no process.
    pub addresses: Vec<SocketAddr>,
}

/// Another client of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientUse {
    /// Its name.
    pub name: String,
    /// The export that it uses.
    pub export: String,
    /// What it moved a second, both ways.
    pub rate: Rate,
}

/// What a member of an array did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberUse {
    /// Its name.
    pub name: String,
    /// Whether it is on another machine.
    pub is_remote: bool,
    /// Requests that were in flight on average.
    pub in_flight: f64,
    /// How long one took.
    pub latency: Option<Nanos>,
    /// How long one took while the target got one request at a time.
    #[serde(default)]
    pub alone: Option<Nanos>,
}

/// A disk of a stripe, by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StripeMember {
    /// Its expression.
    pub name: String,
    /// What it carries.
    pub rate: Rate,
}

/// What the server did while the target was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServedUse {
    /// Other clients that moved bytes of the same disk, the busiest first.
    pub others: Vec<ClientUse>,
    /// The members of the export's array that are in use.
    pub members: Vec<MemberUse>,
    /// The disks of a stripe, each by itself.
    #[serde(default)]
    pub stripe: Vec<StripeMember>,
    /// The stores of the volumes that its disk is made of.
    #[serde(default)]
    pub stores: Vec<StoreUse>,
    /// Whether the disk is in files: what is measured of it next to other clients is what they leave.
    #[serde(default)]
    pub has_files: bool,
}

/// Connections of one process, and those from one address, as one client.
fn by_machine(connections: Vec<ClientUse>) -> Vec<ClientUse> {
    let mut clients: Vec<(String, ClientUse, usize)> = Vec::new();
    for connection in connections {
        let machine = machine(&connection.name).to_owned();
        let same = clients
            .iter_mut()
            .find(|(known, one, _)| *known == machine && one.export == connection.export);
        match same {
            Some((_, client, count)) => {
                client.rate = Rate(client.rate.0 + connection.rate.0);
                *count += 1;
            }
            None => clients.push((machine, connection, 1)),
        }
    }
    let clients = clients
        .into_iter()
        .map(|(machine, client, count)| match count {
            1 => client,
            _ => ClientUse {
                name: machine,
                ..client
            },
        });
    clients.collect()
}

/// The address of `192.0.2.7:50112`; any other name as it is.
fn machine(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((address, port)) if port.parse::<u16>().is_ok() => address,
        _ => name,
    }
}

/// An address in the form in which equal ones are equal: a server that listens on `::` reports IPv4 within IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl OwnClients {
    fn contains(&self, client: &ClientReading) -> bool {
        if let Some(process) = client.process {
            return self.processes.contains(&process);
        }
        let address = client.name.parse().ok().map(canonical);
        let mut own = self.addresses.iter().copied().map(canonical);
        address.is_some_and(|address| own.any(|own| own == address))
    }

    /// Whether all clients without a process that are not among these are others, of an export with `clients`.
    fn distinguishes(&self, clients: &[ClientReading]) -> bool {
        let is_found = |client: &ClientReading| client.process.is_none() && self.contains(client);
        *self == Self::default() || clients.iter().any(is_found)
    }
}

impl ExportReading {
    /// The same with at most [`CLIENTS_MAX`] clients.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.clients.truncate(CLIENTS_MAX);
        self
    }

    fn shares_disk(&self, other: &Self) -> bool {
        let is_one_file = || self.files.iter().any(|file| other.files.contains(file));
        // What limits one of two expressions over a file may not limit the other.
        self.name == other.name || (self.is_plain && other.is_plain && is_one_file())
    }
}

impl ServedReading {
    fn export(&self, name: &str) -> Option<&ExportReading> {
        let found = self.exports.iter().find(|export| export.name == name);
        // The first one is also the default export.
        found.or_else(|| self.exports.first().filter(|_| name.is_empty()))
    }

    /// What others did since `before`, and the members of the array of `export`, in one direction. `own` are the
    /// clients that use the export for the target.
    #[must_use]
    pub fn since(
        &self,
        before: &Self,
        export: &str,
        direction: Direction,
        own: &OwnClients,
        elapsed: Nanos,
    ) -> Option<ServedUse> {
        let target = self.export(export)?;
        let nanos = (elapsed.0 > 0).then_some(elapsed.0 as f64)?;
        let is_distinguished = own.distinguishes(&target.clients);
        let mut others = Vec::new();
        for later in self
            .exports
            .iter()
            .filter(|other| other.shares_disk(target))
        {
            let earlier = before.export(&later.name)?;
            let clients = later.clients.iter().filter(|client| {
                let is_known = client.process.is_some() || is_distinguished;
                is_known && !own.contains(client)
            });
            others.extend(clients.filter_map(|client| {
                let first = earlier.clients.iter().find(|first| first.id == client.id)?;
                let bytes = client.read.saturating_sub(first.read)
                    + client.written.saturating_sub(first.written);
                let rate = Rate(bytes as f64 / nanos * SECOND as f64);
                (bytes > 0).then(|| ClientUse {
                    name: client.name.clone(),
                    export: later.name.clone(),
                    rate,
                })
            }));
        }
        let mut others = by_machine(others);
        others.sort_by(|a, b| b.rate.0.total_cmp(&a.rate.0));
        let earlier = before.export(export)?;
        let members = target.members.iter().filter_map(|later| {
            let first = earlier
                .members
                .iter()
                .find(|first| first.name == later.name)?;
            let (first, last) = match direction {
                Direction::Read => (first.read, later.read),
                Direction::Write => (first.written, later.written),
            };
            let time = last.time.0.saturating_sub(first.time.0);
            let requests = last.requests.saturating_sub(first.requests);
            Some(MemberUse {
                name: later.name.clone(),
                is_remote: later.is_remote,
                in_flight: time as f64 / nanos,
                latency: time.checked_div(requests).map(Nanos),
                alone: None,
            })
        });
        Some(ServedUse {
            others,
            members: members.collect(),
            stripe: Vec::new(),
            stores: StoreUse::between(&earlier.stores, &target.stores, elapsed),
            has_files: !target.files.is_empty(),
        })
    }
}

impl ServedUse {
    /// What all other clients of the same disk moved together.
    #[must_use]
    pub fn of_others(&self) -> Rate {
        Rate(self.others.iter().map(|other| other.rate.0).sum())
    }

    /// What a disk that carries `alone` by itself leaves to a target of `rate`. None where it leaves all of it, or where
    /// `alone` was measured next to the same clients.
    #[must_use]
    pub fn left_by_others(&self, alone: Rate, rate: Rate) -> Option<Rate> {
        let others = self.of_others();
        let together = rate.0 + others.0;
        let is_sum = others.0 > 0.0 && together <= alone.0 * TOGETHER_MAX;
        is_sum.then(|| Rate((alone.0 - others.0).max(rate.0)))
    }

    /// The other clients that take a part of the disk that matters, next to a target of `rate`.
    pub(super) fn rivals(&self, rate: Rate) -> Vec<ClientUse> {
        let all = self.of_others();
        if all.0 < (rate.0 + all.0) * OTHERS_MIN {
            return Vec::new();
        }
        let named = self
            .others
            .iter()
            .filter(|other| other.rate.0 >= all.0 * CLIENT_MIN);
        named.cloned().collect()
    }

    /// The member that most of the waiting was for. A local member that is read in place of a remote one is the array's
    /// disk, and no slow half of it.
    pub(super) fn slow_member(&self, direction: Direction) -> Option<&MemberUse> {
        let all: f64 = self.members.iter().map(|member| member.in_flight).sum();
        let slow = self.members.iter().find(|member| {
            member.in_flight >= IN_FLIGHT_MIN && member.in_flight >= all * WAITED_FOR
        })?;
        let is_one_of_several = self.members.len() > 1;
        let is_slow = match direction {
            Direction::Write => is_one_of_several,
            // Equal members are read in turns, one for megabytes: only a longer latency is a sign.
            Direction::Read if !self.is_slower(slow) => false,
            Direction::Read if slow.is_remote => true,
            Direction::Read => is_one_of_several && !self.members.iter().any(|one| one.is_remote),
        };
        is_slow.then_some(slow)
    }

    /// Whether each other member that answered took far less time for a request.
    fn is_slower(&self, slow: &MemberUse) -> bool {
        let others = self.members.iter().filter(|one| one.name != slow.name);
        let mut latencies = others.filter_map(|one| one.latency);
        slow.latency.is_some_and(|slow| {
            latencies.all(|other| slow.0 as f64 >= other.0 as f64 * SLOWER_TIMES)
        })
    }

    /// Takes the latencies of a measurement with one request at a time.
    pub fn compare_alone(&mut self, alone: &Self) {
        for member in &mut self.members {
            let same = alone.members.iter().find(|one| one.name == member.name);
            member.alone = same.and_then(|same| same.latency);
        }
    }

    /// The slow member, if requests queue at it: one takes far longer than alone, so that it works all the time.
    pub(super) fn full_member(&self, direction: Direction) -> Option<&MemberUse> {
        let slow = self.slow_member(direction)?;
        let (loaded, alone) = (slow.latency?, slow.alone?);
        let queues = loaded.0 as f64 >= alone.0 as f64 * QUEUED_TIMES;
        (queues && slow.in_flight >= QUEUED_TIMES).then_some(slow)
    }

    /// The disk of the stripe that is slower than all others, and what the next slowest carries.
    pub(super) fn slow_disk(&self) -> Option<(&StripeMember, Rate)> {
        let mut all: Vec<&StripeMember> = self.stripe.iter().collect();
        all.sort_by(|a, b| a.rate.0.total_cmp(&b.rate.0));
        match all.as_slice() {
            [slowest, next, ..] if next.rate.0 >= slowest.rate.0 * SLOWER_TIMES => {
                Some((*slowest, next.rate))
            }
            _ => None,
        }
    }

    /// What the stripe carries: each disk gets the same part of a large request or of many.
    #[must_use]
    pub fn stripe_rate(&self) -> Option<Rate> {
        let rates = self.stripe.iter().map(|disk| disk.rate.0);
        let least = rates.min_by(f64::total_cmp)?;
        Some(Rate(least * self.stripe.len() as f64))
    }
}
