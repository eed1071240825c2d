//! What the kernel says of the server: its memory, its descriptors, and whether a connection is gone.
//!
//! A client that was killed leaves bytes in the server's socket, and a write among them may land until the
//! server has closed it. So a region is only looked at again once the server's end of the connection, known
//! by its inode, is among the server's descriptors no more.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::clock;

/// How long a server may keep a connection of a client that is gone.
const GONE_LIMIT: Duration = Duration::from_secs(120);

/// One TCP socket of this machine: the ports of both ends, and which socket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) here: u16,
    pub(super) there: u16,
    pub(super) inode: u64,
}

/// How many descriptors a process has.
pub(super) fn descriptors(id: u32) -> Result<usize> {
    Ok(entries(id)?.len())
}

/// The inodes of the sockets that a process has.
fn inodes(id: u32) -> Result<BTreeSet<u64>> {
    let links = entries(id)?.into_iter();
    Ok(links
        .filter_map(|path| {
            let link = std::fs::read_link(path).ok()?;
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            inode.parse().ok()
        })
        .collect())
}

fn entries(id: u32) -> Result<Vec<PathBuf>> {
    let folder = format!("/proc/{id}/fd");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
    Ok(entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .collect())
}

fn sockets() -> Result<Vec<Socket>> {
    let path = "/proc/net/tcp";
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.lines().skip(1).filter_map(socket).collect())
}

/// A line of `/proc/net/tcp`: number, local and remote address, …, inode as the tenth field.
pub(super) fn socket(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = |field: &str| u16::from_str_radix(field.rsplit_once(':')?.1, 16).ok();
    Some(Socket {
        here: port(fields.get(1)?)?,
        there: port(fields.get(2)?)?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// The server's ends of the connections of some clients.
#[derive(Debug)]
pub(super) struct Ends(BTreeSet<u64>);

impl Ends {
    /// Of the clients with these ports.
    pub(super) fn of_ports(server: u16, clients: &BTreeSet<u16>) -> Result<Self> {
        let all = sockets()?.into_iter();
        let theirs = all.filter(|one| one.here == server && clients.contains(&one.there));
        Ok(Self(theirs.map(|one| one.inode).collect()))
    }

    /// Of a process, which must not make new ones meanwhile.
    pub(super) fn of_process(server: u16, client: u32) -> Result<Self> {
        let own = inodes(client)?;
        let all = sockets()?.into_iter();
        let ports = all.filter(|one| one.there == server && own.contains(&one.inode));
        Self::of_ports(server, &ports.map(|one| one.here).collect())
    }

    /// Waits until the server has closed them all.
    pub(super) fn wait_until_gone(&self, server: u32) -> Result<()> {
        let mut failed = None;
        let gone = clock::poll(GONE_LIMIT, || match inodes(server) {
            Ok(now) => self.0.is_disjoint(&now).then_some(()),
            Err(error) => {
                failed = Some(error);
                Some(())
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if gone.is_none() {
            bail!("the server keeps connections whose clients are gone");
        }
        Ok(())
    }
}
