//! What happens in a world of two hosts that have servers of the disk: client, servers and network fail independently.
//!
//! The servers have the same disk, with one cache, at any time: also while a client that waits for one of them could use the other. So
//! it is the client alone that keeps them apart ([`Invariant::OneServerAtATime`](super::record::Invariant)).

use std::sync::Arc;
use std::time::Duration;

use engine::clock;

use super::disk::{ServerDisk, pattern};
use super::network::{HOSTS, Reach};
use super::server::Process;
use super::shape::Severity;
use super::world::World;

/// A fault of one host, as drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostFault {
    /// Its server is killed.
    Kill,
    /// Its server ends in good order.
    Stop,
    /// Its machine loses power.
    LosePower,
    /// Its machine has power again.
    PowerReturns,
    /// A server of the disk is started there.
    Start,
    /// A server of another disk is started there.
    StartForeign,
    /// A server of a smaller disk is started there.
    StartSmaller,
    /// The network to it loses everything, for a while.
    Sever,
    /// Its server resets its connections. What something between resets is not the server's word, and nothing can be concluded from it.
    Cut,
    /// Its server does nothing for a while.
    Pause,
    /// Some answers of its server are lost.
    LoseAnswers,
    /// Its server fails flushes.
    FailFlush,
}

const FAULTS: &[HostFault] = &[
    HostFault::Kill,
    HostFault::Kill,
    HostFault::Stop,
    HostFault::Stop,
    HostFault::LosePower,
    HostFault::PowerReturns,
    HostFault::Start,
    HostFault::Start,
    HostFault::Start,
    HostFault::StartForeign,
    HostFault::StartSmaller,
    HostFault::Sever,
    HostFault::Sever,
    HostFault::Cut,
    HostFault::Pause,
    HostFault::Pause,
    HostFault::LoseAnswers,
];

impl World {
    /// Draws and plays the faults of both hosts, then everything works again.
    pub(super) async fn play_moves(&mut self) {
        for _ in 0..self.shape.faults {
            let pause = self.rng.u64(0..=self.shape.think_max * 10);
            clock::sleep(Duration::from_millis(pause)).await;
            if self.record.is_violated() {
                break;
            }
            let place = self.rng.usize(0..HOSTS.len());
            let fault = match self.shape.severity {
                Severity::Harsh if self.rng.u8(0..12) == 0 => HostFault::FailFlush,
                _ => FAULTS[self.rng.usize(0..FAULTS.len())],
            };
            self.record
                .log(format_args!("fault: {fault:?} of host {place}"));
            self.play_host_fault(place, fault).await;
        }
        self.heal_hosts();
    }

    async fn play_host_fault(&mut self, place: usize, fault: HostFault) {
        match fault {
            HostFault::Kill => self.end_server_at(place, |server| server.kill()),
            HostFault::Stop => self.end_server_at(place, |server| server.stop()),
            HostFault::LosePower => {
                self.end_server_at(place, |server| server.lose_power());
                // Also one that had not ended yet.
                let at_host = |server: &&Arc<Process>| server.is_at(place);
                let left = self.ended.iter().filter(at_host);
                left.for_each(|server| server.lose_power());
                // What the cache holds came over the host that was written to last.
                let is_fenced = self.shape.offer.fence.is_some();
                if !is_fenced && self.checker.last_writer() == Some(place) {
                    self.disk.lose_power(&mut self.rng);
                    self.checker.power_lost(&self.disk);
                }
                self.network.set_reach_of(place, Reach::Lost);
            }
            HostFault::PowerReturns => self.return_power(place),
            HostFault::Start => self.start_at(place, Arc::clone(&self.disk)),
            HostFault::StartForeign => {
                let number = self.next_disk();
                let sectors = 0..self.disk.sectors();
                let content = sectors.map(|at| pattern(number.into(), at)).collect();
                self.start_at(place, Arc::new(ServerDisk::new(number, content)));
            }
            HostFault::StartSmaller => {
                let smaller = self.smaller_disk();
                self.start_at(place, smaller);
            }
            HostFault::Sever => self.sever_host(place).await,
            HostFault::Cut => {
                let links = self.network.links_to(place);
                let open = links.iter().filter(|link| link.is_open());
                open.for_each(|link| link.fence());
            }
            HostFault::Pause | HostFault::LoseAnswers | HostFault::FailFlush => {
                self.disturb_host(place, fault).await;
            }
        }
    }

    async fn disturb_host(&mut self, place: usize, fault: HostFault) {
        let Some(server) = self.network.listener_at(place) else {
            return;
        };
        let count = self.rng.u32(1..3);
        match fault {
            HostFault::LoseAnswers => server.lose_answers(count),
            HostFault::FailFlush => server.fail_flushes(count),
            _ => {
                server.pause(true);
                self.outage().await;
                server.pause(false);
            }
        }
    }

    async fn sever_host(&mut self, place: usize) {
        let links = self.network.links_to(place);
        links.iter().for_each(|link| link.sever());
        self.network.set_reach_of(place, Reach::Lost);
        self.outage().await;
        self.return_power(place);
        links.iter().for_each(|link| link.mend());
    }

    /// The server of a host ends, one way or the other.
    fn end_server_at(&mut self, place: usize, end: impl Fn(&Process)) {
        let Some(server) = self.network.listener_at(place) else {
            return;
        };
        self.network.listen_at(place, None);
        self.running.retain(|one| one.number != server.number);
        end(&server);
        self.ended.push(server);
    }

    /// The machine can be reached, and knows no connection of servers that have ended.
    fn return_power(&mut self, place: usize) {
        self.network.set_reach_of(place, Reach::Open);
        for server in &self.ended {
            server.machine_is_back_at(place);
        }
    }

    /// A server of `disk` listens there, in place of one that is killed.
    fn start_at(&mut self, place: usize, disk: Arc<ServerDisk>) {
        self.end_server_at(place, |server| server.kill());
        self.return_power(place);
        let server = self.start(disk);
        let name = server.name();
        self.record
            .log(format_args!("{name} listens on host {place}"));
        self.network.listen_at(place, Some(server));
    }

    /// Both machines work, and one of them at least has a server of the disk.
    fn heal_hosts(&mut self) {
        self.record.log("everything works again");
        for place in 0..HOSTS.len() {
            let listener = self.network.listener_at(place);
            if listener.is_some_and(|one| one.disk.number != self.disk.number) {
                self.end_server_at(place, |server| server.kill());
            }
            self.return_power(place);
        }
        self.network.links().iter().for_each(|link| link.mend());
        for server in self.running.iter().chain(&self.ended) {
            server.heal();
        }
        let mut hosts = 0..HOSTS.len();
        if hosts.all(|place| self.network.listener_at(place).is_none()) {
            let place = self.rng.usize(0..HOSTS.len());
            self.start_at(place, Arc::clone(&self.disk));
        }
    }

    /// Each host has a server of the disk.
    pub(super) fn serve_on_all_hosts(&mut self) {
        for place in 0..HOSTS.len() {
            if self.network.listener_at(place).is_none() {
                self.start_at(place, Arc::clone(&self.disk));
            }
        }
    }
}
