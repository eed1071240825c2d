//! The wire, distinguished from the server by what the server's program has no part in: the time of a connect. The server's
//! program, distinguished from its disk by what the disk has no part in: the time until its first bytes.
//!
//! What the times mean is in [`lab::doctor::ConnectTimes`] and in `first_bytes.rs` next to it.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use engine::clock;
use lab::doctor::Bound;
use lab::host::link;
use lab::units::Nanos;
use tokio::net::TcpStream;

use crate::DriverError;
use crate::runtime::on_engine;

/// Between two connections, so that they are no load.
const PAUSE: Duration = Duration::from_millis(30);
/// Connections when nothing else goes over the wire.
const IDLE_TRIES: u32 = 5;
/// A connection that takes longer is counted as this.
const PATIENCE: Duration = Duration::from_secs(2);

/// What new connections took.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbeTimes {
    /// Until each was connected.
    pub(super) connect: Vec<Nanos>,
    /// From there until the server's first bytes, where it is a server that speaks first.
    pub(super) greeting: Vec<Nanos>,
}

impl ProbeTimes {
    /// Connects once. None where that fails.
    async fn add(&mut self, address: SocketAddr, greets: bool) -> Option<()> {
        let start = clock::now();
        let Ok(connected) = clock::timeout(PATIENCE, TcpStream::connect(address)).await else {
            self.connect.push(Nanos::from_duration(PATIENCE));
            return Some(());
        };
        let stream = connected.ok()?;
        let connected = clock::now();
        let took = |from, to: Instant| Nanos::from_duration(to.saturating_duration_since(from));
        self.connect.push(took(start, connected));
        if greets {
            let greeted = clock::timeout(PATIENCE, stream.readable()).await;
            self.greeting.push(match greeted {
                Ok(_) => took(connected, clock::now()),
                Err(_) => Nanos::from_duration(PATIENCE),
            });
        }
        Some(())
    }
}

/// What connections take until `end`; nothing where one fails.
pub(super) async fn probe_until(address: SocketAddr, greets: bool, end: Instant) -> ProbeTimes {
    let mut times = ProbeTimes::default();
    while clock::now() + PAUSE < end {
        if times.add(address, greets).await.is_none() {
            return ProbeTimes::default();
        }
        clock::sleep(PAUSE).await;
    }
    times
}

/// What connecting takes when nothing else is in flight.
pub(super) fn idle(address: SocketAddr) -> Result<Vec<Nanos>, DriverError> {
    on_engine(async || {
        let mut times = ProbeTimes::default();
        for _ in 0..IDLE_TRIES {
            times.add(address, false).await;
            clock::sleep(PAUSE).await;
        }
        Ok(times.connect)
    })
}

/// Runs `measured`, which takes about `time`, and connects to `address` again and again meanwhile. Returns the times that
/// connecting took from a quarter of the time on.
pub(super) fn connects_during<T>(
    address: SocketAddr,
    time: Duration,
    measured: impl FnOnce() -> T,
) -> Result<(T, Vec<Nanos>), DriverError> {
    std::thread::scope(|scope| {
        let probe = scope.spawn(|| {
            on_engine(async || {
                let end = clock::now() + time;
                clock::sleep(time / 4).await;
                Ok(probe_until(address, false, end).await.connect)
            })
        });
        let measured = measured();
        let times = probe.join();
        let times = times.map_err(|_| DriverError::new("the thread that connects panicked"))?;
        Ok((measured, times?))
    })
}

/// What the interface towards `peer` says of its speed.
pub(super) fn link_bound(peer: IpAddr) -> Option<Bound> {
    let (interface, speed) = link(peer)?;
    Some(Bound::link(interface, speed))
}
