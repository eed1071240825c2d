//! The wire, distinguished from the server by what the server's program has no part in: the time of a connect.
//!
//! What the times mean is in [`lab::doctor::ConnectTimes`].

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

/// The times that connecting takes until `end`; none where it fails.
pub(super) async fn connect_times(address: SocketAddr, end: Instant) -> Vec<Nanos> {
    let mut times = Vec::new();
    while clock::now() + PAUSE < end {
        let Some(time) = connect_time(address).await else {
            return Vec::new();
        };
        times.push(Nanos::from_duration(time));
        clock::sleep(PAUSE).await;
    }
    times
}

async fn connect_time(address: SocketAddr) -> Option<Duration> {
    let start = clock::now();
    match clock::timeout(PATIENCE, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Some(clock::now().saturating_duration_since(start)),
        Ok(Err(_)) => None,
        Err(_) => Some(PATIENCE),
    }
}

/// The times that connecting takes when nothing else is in flight.
pub(super) fn idle(address: SocketAddr) -> Result<Vec<Nanos>, DriverError> {
    on_engine(async || {
        let mut times = Vec::new();
        for _ in 0..IDLE_TRIES {
            times.extend(connect_time(address).await.map(Nanos::from_duration));
            clock::sleep(PAUSE).await;
        }
        Ok(times)
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
                Ok(connect_times(address, end).await)
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
