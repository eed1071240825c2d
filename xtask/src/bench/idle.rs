//! What a connection costs a server without a request.
//!
//! Each connection does the whole handshake of fixed newstyle and then keeps silent. The server's
//! memory is its own share of resident pages; what the kernel keeps for a socket is not in it.

use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

use super::figures::Sample;
use super::{Args, Measured, disk};
use crate::process;
use crate::servers::{Launcher, Server, Serving};
use crate::wire::{self, Replies};

/// Connections to a peer: nbdkit has sixteen threads for each.
const PEER_CONNECTIONS: u32 = 200;

/// Measures our server with `connections`, and nbdkit and qemu-nbd with fewer.
pub(super) fn measure(launcher: &Launcher, args: &Args, connections: u32) -> Result<Vec<Measured>> {
    let disk = disk(&launcher.folder)?;
    let disk = disk.to_string_lossy();
    let peers = [Server::Nbdkit, Server::Qemu];
    let counts = std::iter::once((Server::Ours, connections))
        .chain(peers.map(|peer| (peer, PEER_CONNECTIONS)))
        .filter(|(server, _)| !args.quick || *server == Server::Ours);
    let mut measured = Vec::new();
    for (server, count) in counts {
        let serving = launcher.start(server, &disk)?;
        process::allow_files(count)?;
        let kib = per_connection(&serving, count)
            .with_context(|| format!("with {count} connections to {server}"))?;
        measured.push(Measured {
            name: format!("{server} ({count})"),
            samples: vec![Sample {
                memory_kib: Some(kib),
                ..Sample::default()
            }],
        });
    }
    Ok(measured)
}

fn per_connection(serving: &Serving, count: u32) -> Result<f64> {
    // The first connection pays for what all share.
    let first = connect(serving)?;
    std::thread::sleep(Duration::from_millis(300));
    let before = process::memory_kib(serving.id())?;
    let idle: Vec<TcpStream> = (0..count)
        .map(|number| connect(serving).with_context(|| format!("connection {number}")))
        .collect::<Result<_>>()?;
    std::thread::sleep(Duration::from_millis(500));
    let after = process::memory_kib(serving.id())?;
    drop((first, idle));
    Ok((after - before) / f64::from(count))
}

/// Connects and negotiates up to the transmission phase.
pub(super) fn connect(serving: &Serving) -> Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, serving.port()))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    wire::negotiate(&mut stream, serving.export(), Replies::Simple)?;
    Ok(stream)
}
