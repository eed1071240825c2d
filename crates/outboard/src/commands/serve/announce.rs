//! What `serve` says once it listens: one line for each place, with the URIs to use.

use std::net::IpAddr;

use nbd::VsockAddress;
use nbd::client::{Address, Target, UriTls};
use nbd::server::ListenAddress;
use nbd::tls::Demand;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Format};

/// The machine that virtual machines are on, as they call it (vsock(7), `VMADDR_CID_HOST`).
const HOST_CID: u32 = 2;

#[derive(Debug, Serialize)]
struct Listening<'a> {
    address: String,
    port: Option<u16>,
    exports: Vec<AnnouncedExport<'a>>,
}

#[derive(Debug, Serialize)]
struct AnnouncedExport<'a> {
    name: &'a str,
    uri: String,
}

/// Says where to connect.
pub(super) fn announce(
    places: &[ListenAddress],
    names: &[String],
    tls: Option<&AnnouncedTls>,
    format: Format,
) -> Result<(), Failure> {
    let host = own_name();
    for place in places {
        let tls = tls.filter(|tls| is_demanded(tls.demand, place));
        let uris = || {
            let targets = names.iter().map(|name| uri(place, name, &host));
            targets.map(|target| match tls {
                Some(tls) => under_tls(target, place, &tls.hosts, &host).to_string(),
                None => target.to_string(),
            })
        };
        match format {
            Format::Text => output::print(&uris().collect::<Vec<_>>().join("  "))?,
            Format::Json => {
                let exports = names.iter().zip(uris());
                let line = Listening {
                    address: place.to_string(),
                    port: place.port(),
                    exports: exports
                        .map(|(name, uri)| AnnouncedExport { name, uri })
                        .collect(),
                };
                format.print(&line, String::new)?;
            }
        }
    }
    Ok(())
}

/// What of TLS is in URIs.
#[derive(Debug)]
pub(super) struct AnnouncedTls {
    /// Which clients must use it.
    pub(super) demand: Demand,
    /// What the server's certificate is for.
    pub(super) hosts: Vec<String>,
}

/// Whether clients of `place` must use TLS.
const fn is_demanded(tls: Demand, place: &ListenAddress) -> bool {
    match tls {
        Demand::Optional => false,
        Demand::Network => matches!(place, ListenAddress::Tcp(_)),
        Demand::All => true,
    }
}

/// The target under TLS, by a name that the certificate has: clients refuse any other. `own` is what this machine is
/// called.
pub(super) fn under_tls(
    target: Target,
    place: &ListenAddress,
    hosts: &[String],
    own: &str,
) -> Target {
    let mut tls = UriTls::default();
    let is_there = |name: &str| hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
    let own = [own.to_owned(), format!("{own}.local")];
    let own = own.into_iter().find(|name| is_there(name));
    // A wildcard is no name of a host, and a loopback name is valid on this machine only.
    let is_far = |host: &&String| !host.contains('*') && !is_loopback(host);
    let far = own.or_else(|| hosts.iter().find(is_far).cloned());
    let near = hosts.iter().find(|host| is_loopback(host)).cloned();
    let address = match (target.address, place) {
        (Address::Tcp { host, port }, ListenAddress::Tcp(listens)) if !is_there(&host) => {
            let ip = listens.ip();
            let named = match ip.is_loopback() {
                true => near.or(far),
                false => far.or(near.filter(|_| ip.is_unspecified())),
            };
            let host = named.unwrap_or(host);
            Address::Tcp { host, port }
        }
        (tcp @ Address::Tcp { .. }, _) => tcp,
        (other, _) => {
            tls.hostname = far.or(near);
            other
        }
    };
    Target {
        tls: Some(tls),
        ..Target::new(address, target.export)
    }
}

fn is_loopback(host: &str) -> bool {
    let ip = host.parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// What other machines call this one.
fn own_name() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}

/// The URI of an export; `host` stands for an address that means all of them.
pub(super) fn uri(place: &ListenAddress, name: &str, host: &str) -> Target {
    let address = match place {
        ListenAddress::Tcp(address) => {
            let ip = address.ip();
            let all = ip.is_unspecified();
            Address::Tcp {
                host: if all { host.to_owned() } else { ip.to_string() },
                port: address.port(),
            }
        }
        ListenAddress::Unix(path) => Address::Unix(path.clone().unwrap_or_default()),
        // What a virtual machine writes, wherever this listens.
        ListenAddress::Vsock(address) => Address::Vsock(VsockAddress {
            cid: HOST_CID,
            ..*address
        }),
    };
    Target::new(address, name.to_owned())
}
