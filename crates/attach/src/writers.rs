//! One writer per disk on this machine: a second attachment of an export is refused.
//!
//! Our server refuses a second writing client by itself, on any machine. Other servers do not, so the
//! records of this machine's attachments are compared here: same server, same export, both writing. Names of
//! servers are compared as they are written and by the addresses that they resolve to.
//!
//! # What it does not do
//!
//! It knows nothing of other machines, and nothing of programs that connect by themselves.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs as _};

use engine::clock::Calendar;
use nbd::client::{Address, Target};

use crate::error::AttachError;
use crate::request::{AttachRequest, Source};
use crate::state::{self, DeviceDriver, Folder, Record, RuntimeDir};
use crate::sysfs;

/// Refuses a request for a disk that another attachment writes to.
///
/// # Errors
/// [`AttachError::AlreadyAttached`], and what keeps the runtime directory from being read.
pub(crate) fn refuse_second(
    runtime: &RuntimeDir,
    own: &Folder,
    request: &AttachRequest,
) -> Result<(), AttachError> {
    let uri = match (&request.source, &request.cached) {
        (Source::Remote(uri), _) | (Source::Local(_), Some(uri)) => uri,
        // The writer of a local disk locks its files.
        (Source::Local(_), None) => return Ok(()),
    };
    if request.read_only || request.shared {
        return Ok(());
    }
    let export = Export::of(uri);
    for folder in runtime.list()? {
        // A folder without a record holds nothing yet, and what is made later gives way.
        let Ok(Some(record)) = folder.read() else {
            continue;
        };
        let is_first = record.ready || folder.number() < own.number();
        if folder == *own || !is_first || record.read_only || !is_attached(&record) {
            continue;
        }
        let attached = record.cached.as_ref().unwrap_or(&record.source);
        if Export::of(attached).is_same(&export) {
            return Err(AttachError::AlreadyAttached {
                source_text: uri.clone(),
                process: record.process.pid,
                device: record.device,
                since: Calendar::of(record.since).to_the_minute(),
            });
        }
    }
    Ok(())
}

/// Whether the attachment can still write: a device of the kernel's nbd does without its process.
fn is_attached(record: &Record) -> bool {
    let device = record.device.as_deref();
    let outlives = |device| {
        let label = sysfs::nbd_backend(device);
        sysfs::nbd_connected(device) && label.is_none_or(|label| label == record.label())
    };
    state::is_alive(record.process)
        || (record.driver == DeviceDriver::Kernel && device.is_some_and(outlives))
}

/// An export, as it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Export {
    uri: String,
    target: Option<Target>,
}

impl Export {
    fn of(uri: &str) -> Self {
        Self {
            uri: uri.to_owned(),
            target: uri.parse().ok(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        if self.uri == other.uri {
            return true;
        }
        let (Some(own), Some(other)) = (&self.target, &other.target) else {
            return false;
        };
        // Another certificate is another client, which may have a disk of its own there.
        let is_other_client = match (&own.tls, &other.tls) {
            (Some(own), Some(other)) => own != other,
            _ => false,
        };
        !is_other_client
            && own.export == other.export
            && own.addresses().any(|address| {
                let mut others = other.addresses();
                others.any(|other| is_same_server(address, other))
            })
    }
}

fn is_same_server(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (
            Address::Tcp { host, port },
            Address::Tcp {
                host: other_host,
                port: other_port,
            },
        ) => {
            let is_same_host = || !addresses(host).is_disjoint(&addresses(other_host));
            port == other_port && (host == other_host || is_same_host())
        }
        _ => one == other,
    }
}

/// The addresses that a name resolves to; none where it does not.
fn addresses(host: &str) -> BTreeSet<IpAddr> {
    let found = (host, 0).to_socket_addrs();
    found
        .into_iter()
        .flatten()
        .map(|found| found.ip())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_same(one: &str, other: &str) -> bool {
        Export::of(one).is_same(&Export::of(other))
    }

    #[test]
    fn an_export_is_known_by_another_spelling_of_its_server() {
        assert!(is_same("nbd://127.0.0.1/a", "nbd://127.0.0.1:10809/a"));
        assert!(is_same("nbd://127.0.0.1/a", "nbd://localhost/a"));
        assert!(is_same("nbds://127.0.0.1/a", "nbd://127.0.0.1/a"));
        assert!(!is_same("nbd://127.0.0.1/a", "nbd://127.0.0.1/b"));
        let of = |name: &str| format!("nbds://127.0.0.1/a?tls-certificates=/{name}");
        assert!(is_same(&of("one"), &of("one")));
        assert!(!is_same(&of("one"), &of("two")), "each has its own overlay");
        assert!(!is_same("nbd://127.0.0.1/a", "nbd://127.0.0.1:10810/a"));
        assert!(!is_same("nbd://127.0.0.1/a", "nbd://127.0.0.2/a"));
        assert!(is_same("nbd://127.0.0.3,127.0.0.1/a", "nbd://localhost/a"));
        assert!(!is_same("nbd://127.0.0.3,127.0.0.4/a", "nbd://127.0.0.1/a"));
        assert!(is_same(
            "nbd+unix:///a?socket=/run/x",
            "nbd+unix:///a?socket=/run/x"
        ));
    }
}
