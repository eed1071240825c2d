//! The one place that talks to the NBD client: a remote disk as a node, and bare connections for the
//! kernel.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use block::Node;
use nbd::client::{
    Client, ClientConfig, ClientError, ClientHealth, DiskIdentity, Target, WriterAccess,
};

use crate::health::ServerUse;
use crate::request::AttachRequest;
use crate::sysfs::device_size;

/// How long a disconnect may take.
const CLOSE_FOR: Duration = Duration::from_secs(2);

/// A negotiated connection, before its first request.
#[derive(Debug)]
pub(crate) struct NegotiatedConnection {
    /// Size of the export, bytes.
    pub(crate) export_size: u64,
    /// Smallest block, bytes.
    pub(crate) block_size: u32,
    /// Transmission flags.
    pub(crate) flags: u16,
    /// Which disk the server says that it is.
    pub(crate) disk: DiskIdentity,
    /// The server, as the URI of it alone.
    pub(crate) server: String,
    /// The connection, blocking.
    pub(crate) socket: OwnedFd,
}

impl NegotiatedConnection {
    /// Size of a device for the export, bytes.
    pub(crate) const fn size(&self) -> u64 {
        device_size(self.export_size)
    }
}

/// Why a connection was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// Another client has taken over writing: no later connection of this one will be admitted.
    #[error("{0}")]
    Fenced(String),
    /// Anything else, which may pass.
    #[error("{0}")]
    Failed(String),
}

/// Negotiates one connection as the kernel's client understands it, without structured replies: with the first of `servers` (each a
/// URI, all of one export) that answers. Each has a head start over the next one; `timeout` limits each of them. `writer` is the
/// identity that the connections of one device have in common.
///
/// # Errors
/// One line that names the server, or each of them.
pub(crate) async fn dial(
    servers: &[String],
    writer: WriterAccess,
    timeout: Duration,
) -> Result<NegotiatedConnection, DialError> {
    let target = target_of(servers).map_err(DialError::Failed)?;
    let dialed = nbd::client::dial(&target, false, Some(writer), timeout).await;
    let dialed = dialed.map_err(|error| match error {
        ClientError::Fenced { .. } => DialError::Fenced(error.to_string()),
        _ => DialError::Failed(error.to_string()),
    })?;
    let export = dialed.export();
    let (export_size, block_size) = (export.size, export.block_size_min);
    let flags = export.flags.bits();
    let disk = dialed.disk().clone();
    let server = dialed.server().to_string();
    let socket = dialed.into_std_fd();
    let socket = socket.map_err(|e| DialError::Failed(format!("{server}: {e}")))?;
    Ok(NegotiatedConnection {
        export_size,
        block_size,
        flags,
        disk,
        server,
        socket,
    })
}

/// The size that a device for the export has just now, bytes, without a connection to it.
///
/// # Errors
/// One line that names the server.
pub(crate) async fn size(uri: &str, timeout: Duration) -> Result<u64, String> {
    let described = nbd::client::describe(&target(uri)?, timeout).await;
    Ok(device_size(
        described.map_err(|e| e.to_string())?.export.size,
    ))
}

/// The servers of `uri` that have its export, each as a URI of its own, from `first` on.
///
/// # Errors
/// One line that names the URI.
pub(crate) fn servers(uri: &str, first: &str) -> Result<Vec<String>, String> {
    let servers = target(uri)?.servers().into_iter();
    let mut servers: Vec<String> = servers.map(|server| server.to_string()).collect();
    let at = servers.iter().position(|server| server == first);
    servers.rotate_left(at.unwrap_or(0));
    Ok(servers)
}

/// One target for all of `servers`, in their order.
fn target_of(servers: &[String]) -> Result<Target, String> {
    let Some((first, others)) = servers.split_first() else {
        return Err("the disk has no server".to_owned());
    };
    let mut all = target(first)?;
    for other in others {
        all.others.push(target(other)?.address);
    }
    Ok(all)
}

fn target(uri: &str) -> Result<Target, String> {
    uri.parse().map_err(|e| format!("{uri}: {e}"))
}

/// A remote disk.
#[derive(Debug, Clone)]
pub(crate) struct Remote(Arc<Client>);

impl Remote {
    /// Connects to the export at `uri`.
    ///
    /// # Errors
    /// One line that names the server.
    pub(crate) async fn connect(
        uri: &str,
        request: &AttachRequest,
    ) -> Result<(Self, Node), String> {
        let config = ClientConfig {
            connections: request.connections,
            request_timeout: request.silent_for(),
            reconnect_for: request.timeout,
            read_only: request.read_only,
            ..ClientConfig::default()
        };
        let client = Client::connect(target(uri)?, config).await;
        let client = client.map_err(|e| e.to_string())?;
        Ok((Self(client.clone()), client))
    }

    /// Why no request succeeds any more until the disk is attached again.
    pub(crate) fn failed(&self) -> Option<String> {
        self.0.health().failed
    }

    /// The server that is used, or was last.
    pub(crate) fn server_use(&self) -> ServerUse {
        let health = self.0.health();
        ServerUse {
            server: health.server,
            server_changes: health.server_changes,
            unreachable_s: health.gone_in_all.as_secs(),
        }
    }

    /// How long the server has been gone, and why.
    pub(crate) fn gone(&self) -> Option<(Duration, String)> {
        gone(self.0.health())
    }

    /// Fetches the size from the server; a larger one is the disk's from then on.
    ///
    /// # Errors
    /// One line that names the server.
    pub(crate) async fn refresh_size(&self) -> Result<(), String> {
        let asked = self.0.refresh_size().await;
        asked.map(drop).map_err(|e| e.to_string())
    }

    /// Says goodbye.
    pub(crate) async fn close(&self) {
        if engine::clock::timeout(CLOSE_FOR, self.0.close())
            .await
            .is_err()
        {
            tracing::info!("the server did not take the goodbye");
        }
    }
}

fn gone(health: ClientHealth) -> Option<(Duration, String)> {
    if health.connected && !health.flush_failed {
        return None;
    }
    let mut whys: Vec<String> = health.last_error.into_iter().collect();
    if health.flush_failed {
        whys.push("a flush failed: written data may be lost".to_owned());
    }
    if whys.is_empty() {
        whys.push("the server does not answer".to_owned());
    }
    let why = whys.join("; ");
    Some((health.gone_for.unwrap_or_default(), why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_tried_from_the_one_that_was_used() {
        let uri = "nbd://a,b:7,[::1]/root";
        let servers = |first| servers(uri, first).unwrap();
        let [a, b, c] = ["nbd://a/root", "nbd://b:7/root", "nbd://[::1]/root"];
        assert_eq!(servers(a), [a, b, c]);
        assert_eq!(servers(b), [b, c, a]);
        assert_eq!(servers("nbd://else/root"), [a, b, c]);
    }

    #[test]
    fn servers_that_are_left_are_one_target_in_their_order() {
        let left = ["nbd://b:7/root", "nbd://a/root"].map(str::to_owned);
        let target = target_of(&left).unwrap();
        let servers: Vec<String> = target.servers().iter().map(Target::to_string).collect();
        assert_eq!(servers, left);
        assert!(target_of(&[]).is_err());
    }

    #[test]
    fn an_unreachable_client_reports_for_how_long_and_why() {
        let well = ClientHealth {
            connected: true,
            ..ClientHealth::default()
        };
        assert_eq!(gone(well.clone()), None);
        let away = ClientHealth {
            connected: false,
            gone_for: Some(Duration::from_secs(7)),
            last_error: Some("refused".into()),
            ..well.clone()
        };
        assert_eq!(gone(away), Some((Duration::from_secs(7), "refused".into())));
        let poisoned = ClientHealth {
            flush_failed: true,
            ..well
        };
        assert!(gone(poisoned).unwrap().1.contains("flush failed"));
    }
}
