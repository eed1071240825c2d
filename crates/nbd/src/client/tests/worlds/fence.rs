//! A disk with a storage that fences its servers: each one that opens it has a memory of its own, which the next opening does not see.
//!
//! # Fault model
//!
//! * A client that comes to a server has the disk opened there, unless it is that server's already. What the opening before had in
//!   memory is in the storage or not, sector by sector, as after a loss of power.
//! * A server does not know that it was fenced: it answers reads, and takes writes into its memory. A flush, or a durable write, does not
//!   succeed: the connection ends.
//! * A server that opens the disk again knows that, and ends the connections of the opening before.
//! * An opening takes a while, goes on without its client, and may be overtaken by another one.
//! * [`Fence::Unconfirmed`] is a fault of servers which the worlds have to find: a server that was fenced admits a client all the same.

use std::collections::HashMap;
use std::time::Duration;

use block::Range;
use nbd_proto::{Command, CommandFlags};

use super::disk::{Sector, ServerDisk, index, sectors_of};
use super::network::Link;
use super::record::lock;
use super::server::{Process, Received};

/// How servers of the disk fence each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    /// A server confirms that the disk is its own before it admits a client.
    Confirmed,
    /// A server that had the disk once admits clients without a look.
    Unconfirmed,
}

/// The openings of the disk.
#[derive(Debug, Default)]
pub(super) struct FenceState {
    /// Counts the openings; 0: none.
    current: u64,
    /// The last opening of each server.
    servers: HashMap<u64, u64>,
    /// The opening that a connection is of.
    links: HashMap<u64, u64>,
    /// What an opening that was fenced has in memory, and in its index.
    stale: HashMap<u64, Vec<Sector>>,
}

impl FenceState {
    /// The memory that a connection of a fenced opening leads to.
    fn stale_over(&mut self, link: u64) -> Option<&mut Vec<Sector>> {
        self.stale.get_mut(self.links.get(&link)?)
    }
}

impl ServerDisk {
    /// Opens the disk on a server, if it is not that one's already, for a connection. Whether it was opened.
    fn open_on(&self, server: u64, link: u64, fence: Fence, rng: &mut fastrand::Rng) -> bool {
        let state = &mut *lock(&self.fence);
        let last = state.servers.get(&server).copied();
        let is_current = last == Some(state.current) || fence == Fence::Unconfirmed;
        if let Some(opening) = last.filter(|_| is_current) {
            state.links.insert(link, opening);
            return false;
        }
        state.stale.insert(state.current, self.live());
        state.current += 1;
        state.servers.insert(server, state.current);
        state.links.insert(link, state.current);
        self.lose_power(rng);
        true
    }

    /// Whether a connection leads to an opening that was fenced.
    pub(super) fn is_stale(&self, link: u64) -> bool {
        lock(&self.fence).stale_over(link).is_some()
    }

    /// What is read over a connection.
    pub(super) fn read_over(&self, link: u64, range: Range) -> Vec<u8> {
        match lock(&self.fence).stale_over(link) {
            Some(image) => {
                let sectors = sectors_of(range);
                image[index(sectors.start)..index(sectors.end)].concat()
            }
            None => self.read(range),
        }
    }

    /// An opening that was fenced takes a change into its memory.
    pub(super) fn change_stale(&self, link: u64, received: &Received) {
        let mut state = lock(&self.fence);
        let image = state.stale_over(link).expect("it is stale");
        for (sector, content) in sectors_of(received.range()).zip(&received.content) {
            image[index(sector)] = content.clone();
        }
    }
}

impl Process {
    /// Has the disk open for a client, where servers stand by. False if the process died meanwhile.
    pub(super) async fn open_for(&self, link: &Link) -> bool {
        let Some(fence) = self.offer.fence else {
            return true;
        };
        let takes = Duration::from_millis(lock(&self.rng).u64(0..1000));
        if !self.wait(takes).await {
            return false;
        }
        let is_opened = {
            let mut rng = lock(&self.rng);
            self.disk.open_on(self.number, link.number, fence, &mut rng)
        };
        if is_opened {
            let name = self.name();
            self.record.log(format_args!("{name} takes the disk over"));
            // It knows now that the opening before is over.
            let links = lock(&self.links).clone();
            let of_before = links.iter().filter(|link| self.disk.is_stale(link.number));
            of_before.for_each(|link| link.hang_up());
            self.checker.power_lost(&self.disk);
        }
        self.wait(self.delay()).await
    }

    /// Ends the connection of a request that a fenced server cannot make durable.
    pub(super) fn refuses_as_fenced(&self, link: &Link, received: &Received) -> bool {
        let is_durable = received.request.command == Command::Flush
            || received.request.flags.contains(CommandFlags::FUA);
        let is_refused = is_durable && self.disk.is_stale(link.number);
        if is_refused {
            let number = link.number;
            self.record
                .log(format_args!("connection {number}: its server was fenced"));
            link.hang_up();
        }
        is_refused
    }
}
