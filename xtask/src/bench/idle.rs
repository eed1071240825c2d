//! What a connection costs a server that is not asked for anything.
//!
//! Each connection does the whole handshake of fixed newstyle and then keeps silent. The server's
//! memory is its own share of resident pages; what the kernel keeps for a socket is not in it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::figures::Sample;
use super::{Args, Measured, disk, process};
use crate::servers::{Launcher, Server, Serving};

/// Connections to a peer: nbdkit has sixteen threads for each.
const PEER_CONNECTIONS: u32 = 200;

/// Files that this process has open besides the connections.
const OTHER_FILES: u64 = 64;

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
        allow_files(count)?;
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
fn connect(serving: &Serving) -> Result<TcpStream> {
    const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
    const FIXED_NEWSTYLE_NO_ZEROES: u32 = 3;
    const EXPORT_NAME: u32 = 1;
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, serving.port()))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut greeting = [0_u8; 18];
    stream.read_exact(&mut greeting).context("no greeting")?;
    ensure!(greeting[8..16] == *OPTION_MAGIC, "not a newstyle server");
    let name = serving.export().as_bytes();
    let mut answer = FIXED_NEWSTYLE_NO_ZEROES.to_be_bytes().to_vec();
    answer.extend(OPTION_MAGIC);
    answer.extend(EXPORT_NAME.to_be_bytes());
    answer.extend(u32::try_from(name.len())?.to_be_bytes());
    answer.extend(name);
    stream.write_all(&answer)?;
    let mut size_and_flags = [0_u8; 10];
    stream
        .read_exact(&mut size_and_flags)
        .context("no export")?;
    Ok(stream)
}

/// Raises this process's limit of open files; the server keeps the one it was started with.
fn allow_files(count: u32) -> Result<()> {
    let wanted = u64::from(count) + OTHER_FILES;
    let mut limit = getrlimit(Resource::Nofile);
    ensure!(
        limit.maximum.is_none_or(|most| most >= wanted),
        "the limit of open files here is {:?}, {wanted} are needed: raise it with ulimit -Hn",
        limit.maximum
    );
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(())
}
