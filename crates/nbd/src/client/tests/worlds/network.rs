//! [`Network`]: the simulated network between the client and the addresses of its servers, and its connections.
//!
//! A world installs its network for its thread; `Stream::connect` then makes [`Socket`]s on it.
//!
//! # Fault model
//!
//! * Each connection delays its bytes on its own: bytes keep their order on one connection and none
//!   across connections.
//! * A cut resets a connection. A severed link loses every packet in both directions, until it is
//!   mended; neither side gets an error. A client that gives a severed connection up does not reach the
//!   server with that: the server goes on with what it had received.
//! * A server that is killed closes its connections; a machine without power says nothing, and resets
//!   them when it is back, or never.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BufMut;
use engine::clock;

use super::pipe::{Ending, Pipe, Taken};
use super::record::{Record, lock};
use super::server::Process;
use crate::client::Address;

thread_local! {
    static NETWORK: RefCell<Option<Arc<Network>>> = const { RefCell::new(None) };
}

/// The network of this thread's world, if it is in one.
pub(in crate::client) fn installed() -> Option<Arc<Network>> {
    NETWORK.with_borrow(Clone::clone)
}

/// Uninstalls the network of a world when it is dropped.
pub(super) struct Installed;

impl Drop for Installed {
    fn drop(&mut self) {
        NETWORK.with_borrow_mut(|network| *network = None);
    }
}

/// What becomes of attempts to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// They reach the server that listens, if one does.
    Open,
    /// They get no answer.
    Lost,
}

/// Hosts of servers. Most worlds use the first alone.
pub(super) const HOSTS: [&str; 2] = ["disk.example", "other.example"];

/// The network to the addresses of the servers, which are numbered as [`HOSTS`] are.
#[derive(Debug)]
pub(in crate::client) struct Network {
    record: Arc<Record>,
    state: Mutex<NetworkState>,
}

#[derive(Debug)]
struct NetworkState {
    rng: fastrand::Rng,
    /// Milliseconds that bytes need, at most.
    latency_max: u64,
    reach: [Reach; HOSTS.len()],
    listeners: [Option<Arc<Process>>; HOSTS.len()],
    links: Vec<Arc<Link>>,
}

impl Network {
    pub(super) fn install(
        record: Arc<Record>,
        seed: u64,
        latency_max: u64,
    ) -> (Arc<Self>, Installed) {
        let network = Arc::new(Self {
            record,
            state: Mutex::new(NetworkState {
                rng: fastrand::Rng::with_seed(seed),
                latency_max,
                reach: [Reach::Open; HOSTS.len()],
                listeners: [const { None }; HOSTS.len()],
                links: Vec::new(),
            }),
        });
        NETWORK.with_borrow_mut(|installed| *installed = Some(Arc::clone(&network)));
        (network, Installed)
    }

    /// Connects to the server that listens there.
    pub(in crate::client) async fn connect(&self, address: &Address) -> io::Result<Socket> {
        let Address::Tcp { host, .. } = address else {
            panic!("a world has hosts only");
        };
        let place = HOSTS.iter().position(|known| known == host);
        let place = place.expect("a world knows its hosts");
        let latency = {
            let mut state = lock(&self.state);
            let max = state.latency_max;
            Duration::from_millis(state.rng.u64(0..=max))
        };
        clock::sleep(latency).await;
        let Some((link, process)) = self.link(place)? else {
            return std::future::pending().await;
        };
        self.record.log(format_args!(
            "connection {} to {}",
            link.number,
            process.name()
        ));
        process.accept(Arc::clone(&link));
        Ok(Socket(link))
    }

    /// A link to the server that listens; `None`: no answer ever comes.
    fn link(&self, place: usize) -> io::Result<Option<(Arc<Link>, Arc<Process>)>> {
        let mut state = lock(&self.state);
        if state.reach[place] == Reach::Lost {
            return Ok(None);
        }
        let Some(process) = state.listeners[place].clone() else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let number = state.links.len() as u64 + 1;
        let seed = state.rng.u64(..);
        let mut link = Link::new(number, seed, state.latency_max, Arc::clone(&self.record));
        link.place = place;
        let link = Arc::new(link);
        state.links.push(Arc::clone(&link));
        Ok(Some((link, process)))
    }

    pub(super) fn listen(&self, process: Option<Arc<Process>>) {
        self.listen_at(0, process);
    }

    pub(super) fn listen_at(&self, place: usize, process: Option<Arc<Process>>) {
        lock(&self.state).listeners[place] = process;
    }

    pub(super) fn listener(&self) -> Option<Arc<Process>> {
        self.listener_at(0)
    }

    pub(super) fn listener_at(&self, place: usize) -> Option<Arc<Process>> {
        lock(&self.state).listeners[place].clone()
    }

    pub(super) fn set_reach(&self, reach: Reach) {
        self.set_reach_of(0, reach);
    }

    pub(super) fn set_reach_of(&self, place: usize, reach: Reach) {
        lock(&self.state).reach[place] = reach;
    }

    /// Connections that both sides may still use.
    pub(super) fn open_links(&self) -> Vec<Arc<Link>> {
        let links = lock(&self.state).links.clone();
        links.into_iter().filter(|link| link.is_open()).collect()
    }

    /// Every connection there ever was to a host.
    pub(super) fn links_to(&self, place: usize) -> Vec<Arc<Link>> {
        let mut links = self.links();
        links.retain(|link| link.place == place);
        links
    }

    /// Every connection there ever was.
    pub(super) fn links(&self) -> Vec<Arc<Link>> {
        lock(&self.state).links.clone()
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) number: u64,
    /// The number of the host.
    pub(super) place: usize,
    record: Arc<Record>,
    state: Mutex<LinkState>,
}

#[derive(Debug)]
struct LinkState {
    rng: fastrand::Rng,
    latency_max: u64,
    to_server: Pipe,
    to_client: Pipe,
    severed_since: Option<Instant>,
    client_open: bool,
    server_open: bool,
    /// The server carries out nothing of it any more.
    fenced: bool,
}

impl LinkState {
    fn latency(&mut self) -> Duration {
        let max = match self.rng.u8(0..4) {
            0 => self.latency_max,
            1 => self.latency_max / 4,
            _ => 0,
        };
        Duration::from_millis(self.rng.u64(0..=max))
    }
}

impl Link {
    fn new(number: u64, seed: u64, latency_max: u64, record: Arc<Record>) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let capacity = 1 << rng.u32(9..17);
        Self {
            number,
            place: 0,
            record,
            state: Mutex::new(LinkState {
                rng,
                latency_max,
                to_server: Pipe::new(capacity),
                to_client: Pipe::new(usize::MAX),
                severed_since: None,
                client_open: true,
                server_open: true,
                fenced: false,
            }),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        let state = lock(&self.state);
        state.client_open && state.server_open
    }

    /// Whether the client has given it up: what is carried out from now on is beyond its control.
    pub(super) fn is_abandoned(&self) -> bool {
        !lock(&self.state).client_open
    }

    /// The server cuts it, and carries out nothing of it any more.
    pub(super) fn fence(&self) {
        lock(&self.state).fenced = true;
        self.cut();
    }

    pub(super) fn is_fenced(&self) -> bool {
        lock(&self.state).fenced
    }

    /// Resets it for both sides.
    pub(super) fn cut(&self) {
        let mut state = lock(&self.state);
        let latency = state.latency();
        state.to_client.reset(latency);
        let latency = state.latency();
        state.to_server.reset(latency);
    }

    /// From now on no packet arrives.
    pub(super) fn sever(&self) {
        let mut state = lock(&self.state);
        state.severed_since.get_or_insert_with(clock::now);
        state.to_client.sever();
        state.to_server.sever();
    }

    /// Packets arrive again.
    pub(super) fn mend(&self) {
        let mut state = lock(&self.state);
        if !state.server_open || state.severed_since.take().is_none() {
            return;
        }
        let latency = state.latency();
        state.to_client.mend(latency);
        let latency = state.latency();
        state.to_server.mend(latency);
    }

    /// The server's process is gone: its kernel closes or resets the connection.
    pub(super) fn server_killed(&self) {
        let mut state = lock(&self.state);
        if !std::mem::replace(&mut state.server_open, false) {
            return;
        }
        state.to_server.clear();
        let latency = state.latency();
        if state.rng.bool() {
            state.to_client.reset(latency);
        } else {
            state.to_client.close(latency);
        }
    }

    /// The server's machine is without power: nothing is heard of it.
    pub(super) fn server_lost_power(&self) {
        let mut state = lock(&self.state);
        state.server_open = false;
        state.severed_since.get_or_insert_with(clock::now);
        state.to_client.sever();
        state.to_client.clear();
        state.to_server.clear();
    }

    /// The server's machine is back and does not know the connection.
    pub(super) fn machine_is_back(&self) {
        let mut state = lock(&self.state);
        if state.server_open || state.severed_since.is_none() {
            return;
        }
        state.severed_since = None;
        let latency = state.latency();
        state.to_client.mend(latency);
        state.to_client.reset(latency);
    }

    /// Receives exactly `len` bytes.
    pub(super) async fn receive(&self, len: usize) -> Result<(Vec<u8>, Taken), Ending> {
        let mut bytes = vec![0; len];
        let mut all = Taken::default();
        while all.count < len {
            std::future::poll_fn(|cx| lock(&self.state).to_server.poll_arrived(cx)).await;
            let mut state = lock(&self.state);
            match state.to_server.take(&mut bytes[all.count..]) {
                Some(taken) => {
                    all.count += taken.count;
                    all.stamp = taken.stamp;
                    all.is_stale |= taken.is_stale;
                }
                None => {
                    if let Some(ending) = state.to_server.ended() {
                        return Err(ending);
                    }
                }
            }
        }
        Ok((bytes, all))
    }

    /// Receives what has arrived, at least one byte.
    pub(super) async fn receive_some(&self) -> Result<Vec<u8>, Ending> {
        let (mut bytes, _) = self.receive(1).await?;
        let mut more = vec![0; 4096];
        let taken = lock(&self.state)
            .to_server
            .take(&mut more)
            .unwrap_or_default();
        bytes.extend_from_slice(&more[..taken.count]);
        Ok(bytes)
    }

    /// Sends to the client, whether or not it is still there.
    pub(super) fn reply(&self, bytes: Vec<u8>) {
        let stamp = self.record.stamp();
        let mut state = lock(&self.state);
        if state.server_open && state.client_open {
            let latency = state.latency();
            state.to_client.send(bytes.into(), stamp, latency);
        }
    }

    /// The server closes it.
    pub(super) fn hang_up(&self) {
        let mut state = lock(&self.state);
        let latency = state.latency();
        state.to_client.close(latency);
        state.to_server.clear();
        state.server_open = false;
    }
}

/// The client's end of a connection.
#[derive(Debug)]
pub(in crate::client) struct Socket(Arc<Link>);

impl Socket {
    pub(in crate::client) fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut state = lock(&self.0.state);
        if let Some(taken) = state.to_client.take(into) {
            return Ok(taken.count);
        }
        match state.to_client.ended() {
            Some(Ending::Closed) => Ok(0),
            Some(Ending::Reset) => Err(io::ErrorKind::ConnectionReset.into()),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(in crate::client) fn try_read_buf<B: BufMut>(&self, into: &mut B) -> io::Result<usize> {
        let mut bytes = vec![0; into.remaining_mut().min(16 << 10)];
        let count = self.try_read(&mut bytes)?;
        into.put_slice(&bytes[..count]);
        Ok(count)
    }

    pub(in crate::client) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    pub(in crate::client) fn try_write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let stamp = self.0.record.stamp();
        let mut state = lock(&self.0.state);
        if state.to_client.ended() == Some(Ending::Reset) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut room = state.to_server.room();
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if state.rng.u8(0..8) == 0 {
            room = state.rng.usize(1..=room.min(2048));
        }
        let all = parts.iter().flat_map(|part| part.iter().copied());
        let taken: VecDeque<u8> = all.take(room).collect();
        let count = taken.len();
        if state.server_open {
            let latency = state.latency();
            state.to_server.send(taken, stamp, latency);
        }
        Ok(count)
    }

    pub(in crate::client) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0.state).to_client.poll_arrived(cx).map(Ok)
    }

    pub(in crate::client) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0.state).to_server.poll_room(cx).map(Ok)
    }

    /// How long the server's machine has acknowledged nothing.
    pub(in crate::client) fn unheard_for(&self) -> Option<Duration> {
        let since = lock(&self.0.state).severed_since?;
        Some(clock::now().duration_since(since))
    }

    /// What was not sent yet is not sent.
    pub(in crate::client) fn reset(&self) {
        let mut state = lock(&self.0.state);
        state.client_open = false;
        let latency = state.latency();
        state.to_server.reset(latency);
        if state.rng.u8(0..4) == 0 && state.severed_since.is_none() {
            // The server sees the reset before it has taken what arrived.
            state.to_server.forget_arrived();
        }
        state.to_client.clear();
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        if std::mem::replace(&mut state.client_open, false) {
            let latency = state.latency();
            state.to_server.close(latency);
        }
    }
}
