//! [`World`]: the client, its callers, servers, disks and network of one seed.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use block::Range;
use engine::clock;
use testkit::SECTOR;

use super::Kind;
use super::callers::{Caller, CallerRequest};
use super::checker::{Checker, Tally};
use super::disk::{SIGNATURE, Sector, ServerDisk, index, signature, zeroes};
use super::fence::Fence;
use super::network::{HOSTS, Installed, Network};
use super::record::{Invariant, Record};
use super::server::Process;
use super::shape::{Identity, Shape};
use crate::client::session::mutation;
use crate::client::{Address, Client, Target};

/// Longest time for the requests of all callers, by the world's clock.
const REQUESTS_MAX: Duration = Duration::from_secs(1800);
/// After so long, a host that the client waits for, because its last server may still write, gets a server again.
const DOUBT_MAX: Duration = Duration::from_secs(600);

/// Attempts to connect. The slowest servers answer one in two in time.
const CONNECTS_MAX: u32 = 100;

/// One seed's world.
pub(super) struct World {
    pub(super) rng: fastrand::Rng,
    pub(super) shape: Shape,
    pub(super) record: Arc<Record>,
    pub(super) checker: Arc<Checker>,
    pub(super) network: Arc<Network>,
    pub(super) client: Arc<Client>,
    /// The disk that is attached.
    pub(super) disk: Arc<ServerDisk>,
    /// Servers that were started and not ended.
    pub(super) running: Vec<Arc<Process>>,
    /// Servers on machines without power.
    pub(super) without_power: Vec<Arc<Process>>,
    /// Servers that ended in a world of two hosts.
    pub(super) ended: Vec<Arc<Process>>,
    disks: u32,
    servers: u64,
    _installed: Installed,
}

fn target(shape: &Shape) -> Target {
    let address = |host: &str| Address::Tcp {
        host: host.to_owned(),
        port: 10809,
    };
    let others = &HOSTS[1..];
    let others = others.iter().filter(|_| shape.has_two_hosts);
    Target {
        others: others.map(|host| address(host)).collect(),
        ..Target::new(address(HOSTS[0]), String::new())
    }
}

/// What the attached disk holds in the beginning.
fn content(shape: &Shape) -> Vec<Sector> {
    let mut content = vec![zeroes(); index(shape.sectors)];
    if shape.identity == Identity::Signature {
        content.splice(..index(SIGNATURE), signature(1));
    }
    content
}

/// Connects, while connections may be cut. One that fails is tried again, as a user does.
async fn connect(
    shape: &Shape,
    network: &Arc<Network>,
    rng: &mut fastrand::Rng,
    record: &Record,
) -> Arc<Client> {
    for _ in 0..CONNECTS_MAX {
        let connecting = engine::spawn(Client::connect(target(shape), shape.config.clone()));
        if rng.u8(0..4) == 0 {
            let pause = rng.u64(0..=20 + 12 * shape.latency_max);
            clock::sleep(Duration::from_millis(pause)).await;
            network.open_links().iter().for_each(|link| link.cut());
        }
        match connecting.await.expect("connecting does not panic") {
            Ok(client) => return client,
            Err(error) => record.log(error),
        }
    }
    panic!("the server listens, and no client connects");
}

impl World {
    /// A world whose client has connected.
    pub(super) async fn new(seed: u64, kind: Kind, record: Arc<Record>) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let shape = match kind {
            Kind::OneHost => Shape::new(&mut rng),
            Kind::TwoHosts => Shape::of_two_hosts(&mut rng),
            Kind::TwoStandbys => Shape::of_two_standbys(&mut rng, Fence::Confirmed),
            Kind::Unconfirmed => Shape::of_two_standbys(&mut rng, Fence::Unconfirmed),
        };
        record.log(format_args!("{shape:?}"));
        let disk = Arc::new(ServerDisk::new(1, content(&shape)));
        let checker = Checker::new(Arc::clone(&record), Arc::clone(&disk), &shape);
        mutation::set_journal_max(shape.journal_max);
        let (network, installed) =
            Network::install(Arc::clone(&record), rng.u64(..), shape.latency_max);
        // The second host may have a server from the beginning.
        let hosts = if shape.has_two_hosts && rng.bool() {
            2
        } else {
            1
        };
        let running: Vec<_> = (1..=hosts)
            .map(|number| {
                let (disk, offer) = (Arc::clone(&disk), shape.offer.clone());
                Process::start(number, disk, offer, Arc::clone(&checker), rng.u64(..))
            })
            .collect();
        for (place, server) in running.iter().enumerate() {
            network.listen_at(place, Some(Arc::clone(server)));
        }
        let client = connect(&shape, &network, &mut rng, &record).await;
        Self {
            client,
            rng,
            shape,
            record,
            checker,
            network,
            disk,
            running,
            without_power: Vec::new(),
            ended: Vec::new(),
            disks: 1,
            servers: hosts,
            _installed: installed,
        }
    }

    pub(super) fn next_disk(&mut self) -> u32 {
        self.disks += 1;
        self.disks
    }

    /// Starts a server that does not listen yet.
    pub(super) fn start(&mut self, disk: Arc<ServerDisk>) -> Arc<Process> {
        self.servers += 1;
        let checker = Arc::clone(&self.checker);
        let offer = self.shape.offer.clone();
        let server = Process::start(self.servers, disk, offer, checker, self.rng.u64(..));
        self.running.push(Arc::clone(&server));
        server
    }

    /// Plays the world to its end.
    pub(super) async fn run(mut self) -> Tally {
        let callers: Vec<_> = (0..self.shape.callers)
            .map(|nth| engine::spawn(self.caller(nth).run(self.shape.clone())))
            .collect();
        match self.shape.has_two_hosts {
            true => self.play_moves().await,
            false => self.play_faults().await,
        }
        let all = async {
            for caller in callers {
                caller.await.expect("a caller does not panic");
            }
        };
        if self.ends(all).await.is_none() {
            let detail = format!("{:?}", self.client.health());
            self.record.violate(Invariant::EveryRequestEnds, detail);
            return self.checker.tally();
        }
        self.end().await;
        self.checker.tally()
    }

    /// Waits for requests. `None`: they do not end, although the client has a server that it may use.
    async fn ends<T>(&mut self, requests: impl Future<Output = T>) -> Option<T> {
        let mut requests = pin!(requests);
        if let Ok(done) = clock::timeout(DOUBT_MAX, &mut requests).await {
            return Some(done);
        }
        let error = self.client.health().last_error;
        if error.is_some_and(|text| text.contains("no other server is used before")) {
            self.checker.waited_for_host();
            self.serve_on_all_hosts();
        }
        clock::timeout(REQUESTS_MAX, requests).await.ok()
    }

    /// Callers have parts of the disk of their own, or share all of it.
    fn caller(&mut self, nth: usize) -> Caller {
        // The signature is left alone.
        let free = match self.shape.identity {
            Identity::Signature => SIGNATURE,
            Identity::Named | Identity::Blank => 0,
        };
        let own = (self.shape.sectors - free) / self.shape.callers as u64;
        let first = free + own * nth as u64;
        let sectors = match self.rng.u8(0..3) {
            0 => free..self.shape.sectors,
            _ => first..first + own,
        };
        let (client, checker) = (Arc::clone(&self.client), Arc::clone(&self.checker));
        Caller::new(client, checker, self.rng.u64(..), sectors)
    }

    /// In the end everything is read, flushed, and read from the medium.
    async fn end(&mut self) {
        let caller = self.caller(0);
        let whole = Range::new(0, self.shape.sectors * SECTOR);
        for request in [
            CallerRequest::Read(whole),
            CallerRequest::Flush,
            CallerRequest::Read(whole),
        ] {
            let (number, task) = caller.start(request);
            if self.ends(task).await.is_none() {
                let detail = format!("{number}, the server is back");
                self.record.violate(Invariant::EveryRequestEnds, detail);
                return;
            }
        }
        self.disk.lose_power(&mut self.rng);
        self.checker.power_lost(&self.disk);
        if clock::timeout(REQUESTS_MAX, self.client.close())
            .await
            .is_err()
        {
            self.record.violate(Invariant::EveryRequestEnds, "closing");
        }
    }
}
