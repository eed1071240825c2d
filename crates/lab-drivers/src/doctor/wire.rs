//! The wire, distinguished from the server by what the server's program has no part in: the time of a connect.
//!
//! A wire that is full makes every packet wait in its queue, also those that a kernel answers by
//! itself; a server that is busy lets its kernel answer at once.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use engine::clock;
use lab::doctor::Stage;
use lab::doctor::{Bound, Sign};
use lab::host::link;
use tokio::net::TcpStream;

use crate::DriverError;
use crate::runtime::on_engine;

/// Between two connections, so that they are no load.
const PAUSE: Duration = Duration::from_millis(60);
/// Connections when nothing else goes over the wire.
const IDLE_TRIES: u32 = 5;
/// So many times the time when idle, and the wire's queue is full.
const FULL_TIMES: u32 = 4;
/// And by this much longer: less is the noise of two kernels.
const FULL_BY: Duration = Duration::from_millis(2);
/// A connection that takes longer is counted as this.
const PATIENCE: Duration = Duration::from_secs(2);

/// The middle of the times that connecting takes until `end`.
pub(super) async fn connect_times(address: SocketAddr, end: Instant) -> Option<Duration> {
    let mut times = Vec::new();
    while clock::now() + PAUSE < end {
        times.push(connect_time(address).await?);
        clock::sleep(PAUSE).await;
    }
    middle(times)
}

async fn connect_time(address: SocketAddr) -> Option<Duration> {
    let start = clock::now();
    match clock::timeout(PATIENCE, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Some(clock::now().saturating_duration_since(start)),
        Ok(Err(_)) => None,
        Err(_) => Some(PATIENCE),
    }
}

fn middle(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

/// The middle of the times that connecting takes when nothing else is in flight.
pub(super) fn idle(address: SocketAddr) -> Result<Option<Duration>, DriverError> {
    on_engine(async || {
        let mut times = Vec::new();
        for _ in 0..IDLE_TRIES {
            times.extend(connect_time(address).await);
            clock::sleep(PAUSE).await;
        }
        Ok(middle(times))
    })
}

/// What the two times say of the wire. `client_is_idle`: this end has time to notice an answer.
pub(super) fn sign(idle: Duration, loaded: Duration, client_is_idle: bool) -> Option<Sign> {
    let full = loaded >= idle * FULL_TIMES && loaded >= idle + FULL_BY;
    (full && client_is_idle).then(|| Sign {
        part: Stage::Wire,
        text: format!(
            "Packets wait in front of the wire: connecting, which the other end's kernel answers \
             by itself, takes {} meanwhile, and {} when nothing else goes over it.",
            shown(loaded),
            shown(idle)
        ),
    })
}

fn shown(time: Duration) -> String {
    lab::units::Nanos::from_duration(time).to_string()
}

/// What the interface towards `peer` says of its speed.
pub(super) fn link_bound(peer: IpAddr) -> Option<Bound> {
    let (interface, speed) = link(peer)?;
    Some(Bound::link(interface, speed))
}
