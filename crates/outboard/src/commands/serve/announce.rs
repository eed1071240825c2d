//! What `serve` says once it listens: one line for each place, with the URIs to use.

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
    exports: Vec<Served<'a>>,
}

#[derive(Debug, Serialize)]
struct Served<'a> {
    name: &'a str,
    uri: String,
}

/// Says where to connect.
pub(super) fn announce(
    places: &[ListenAddress],
    names: &[String],
    tls: Option<Demand>,
    format: Format,
) -> Result<(), Failure> {
    let host = own_name();
    for place in places {
        let tls = is_demanded(tls, place).then(UriTls::default);
        let uris = || {
            let targets = names.iter().map(|name| uri(place, name, &host));
            targets.map(|target| {
                let tls = tls.clone();
                Target { tls, ..target }.to_string()
            })
        };
        match format {
            Format::Text => output::print(&uris().collect::<Vec<_>>().join("  "))?,
            Format::Json => {
                let exports = names.iter().zip(uris());
                let line = Listening {
                    address: place.to_string(),
                    port: place.port(),
                    exports: exports.map(|(name, uri)| Served { name, uri }).collect(),
                };
                format.print(&line, String::new)?;
            }
        }
    }
    Ok(())
}

/// Whether clients of `place` must use TLS.
const fn is_demanded(tls: Option<Demand>, place: &ListenAddress) -> bool {
    match tls {
        None | Some(Demand::Optional) => false,
        Some(Demand::Network) => matches!(place, ListenAddress::Tcp(_)),
        Some(Demand::All) => true,
    }
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
    Target {
        address,
        export: name.to_owned(),
        tls: None,
    }
}
