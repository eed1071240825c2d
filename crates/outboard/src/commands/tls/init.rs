//! `outboard tls init`: an authority with certificates for a server and its clients, in one go; and
//! `outboard tls client`, one more client.
//!
//! ```text
//! DIR/ca-cert.pem ca-key.pem server-cert.pem server-key.pem     the server's
//! DIR/client-NAME/ca-cert.pem client-cert.pem client-key.pem    to be copied to that client
//! ```
//!
//! One client that was given no name has its files in DIR itself, where libnbd, nbdkit and qemu
//! look for them.
//!
//! Root makes them for the service, which runs as a user of its own: the server's key is readable for the service's group,
//! where that exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nbd::tls::is_server_name;
use serde::Serialize;

use super::authority::Authority;
use super::folder::{AUTHORITY, AUTHORITY_KEY, CertificateFolder};
use crate::failure::Failure;
use crate::output::Format;

/// Longest name of a client; that of DNS is 253.
const NAME_LEN_MAX: usize = 64;
/// The group of the service that the package brings (packaging/outboard.service).
const SERVICE_GROUP: &str = "outboard";
/// What a client without a name is called.
const ANY_CLIENT: &str = "client";

/// Arguments of `tls init`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder for the files; created if it does not exist
    dir: PathBuf,

    /// A name or address of the server as its clients write it; may be given several times
    #[arg(long, value_name = "HOST", value_parser = host_name)]
    name: Vec<String>,

    /// A client, which gets a folder of its own; may be given several times
    #[arg(long, value_name = "NAME", value_parser = client_name)]
    client: Vec<String>,
}

/// Arguments of `tls client`.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// The folder that `tls init` made
    dir: PathBuf,

    /// The name of the client
    #[arg(value_parser = client_name)]
    name: String,
}

/// What was made.
#[derive(Debug, Serialize)]
struct InitReport {
    folder: PathBuf,
    hosts: Vec<String>,
    /// The group that may read the server's key.
    key_group: Option<&'static str>,
    clients: Vec<ClientFolder>,
}

#[derive(Debug, Serialize)]
struct ClientFolder {
    name: String,
    folder: PathBuf,
}

/// A name that can also be a folder's.
fn client_name(text: &str) -> Result<String, String> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > NAME_LEN_MAX || !text.chars().all(is_fine) {
        return Err("a client's name is made of letters, digits, dots, - and _".to_owned());
    }
    Ok(text.to_owned())
}

/// A name that clients can find a server by.
fn host_name(text: &str) -> Result<String, String> {
    match is_server_name(text) {
        true => Ok(text.to_owned()),
        false => Err("it is no name of a host, and no address".to_owned()),
    }
}

/// Makes everything.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    // Only root may give a file to a group that it is not in.
    let is_root = rustix::process::geteuid().is_root();
    let groups = match is_root {
        true => std::fs::read_to_string("/etc/group").unwrap_or_default(),
        false => String::new(),
    };
    make(args, format, group_id(SERVICE_GROUP, &groups))
}

/// The number of a group in the text of group(5).
fn group_id(name: &str, groups: &str) -> Option<u32> {
    let mut lines = groups.lines().map(|line| line.split(':'));
    let mut fields = lines.find_map(|mut fields| (fields.next()? == name).then_some(fields))?;
    fields.nth(1)?.parse().ok()
}

/// Makes everything; this group may read the server's key.
pub(super) fn make(args: &Args, format: Format, group: Option<u32>) -> Result<(), Failure> {
    let hosts = hosts(&args.name);
    let names: BTreeSet<&String> = args.client.iter().collect();
    if names.len() < args.client.len() {
        return Err(Failure::usage("one client is named twice"));
    }
    let (authority, own) = Authority::new()?;
    let server = authority.server(&hosts)?;
    let folder = CertificateFolder::new(&args.dir)?;
    // First: where another authority has been at work, nothing else is touched.
    folder.authority_key(&own.key)?;
    folder.authority(&own.certificate)?;
    folder.server(&server, group)?;
    let mut clients = Vec::new();
    if args.client.is_empty() {
        folder.client(&authority.client(ANY_CLIENT)?)?;
        clients.push(ClientFolder {
            name: ANY_CLIENT.to_owned(),
            folder: args.dir.clone(),
        });
    }
    for name in &args.client {
        clients.push(client(&args.dir, name, &authority, &own.certificate)?);
    }
    let made = InitReport {
        folder: args.dir.clone(),
        hosts,
        key_group: group.map(|_| SERVICE_GROUP),
        clients,
    };
    format.print(&made, || made.text())
}

/// Makes a certificate for one more client.
pub(crate) fn add_client(args: &ClientArgs, format: Format) -> Result<(), Failure> {
    let read = |name: &str| {
        let path = args.dir.join(name);
        let what = format!("cannot read {}", path.display());
        let next = "name the folder that `outboard tls init` made";
        std::fs::read_to_string(&path).map_err(|e| Failure::because(what, &e).next(next))
    };
    let authority = Authority::from_key(&read(AUTHORITY_KEY)?)?;
    let made = client(&args.dir, &args.name, &authority, &read(AUTHORITY)?)?;
    format.print(&made, || made.text("HOST"))
}

fn client(
    dir: &Path,
    name: &str,
    authority: &Authority,
    certificate: &str,
) -> Result<ClientFolder, Failure> {
    let path = dir.join(format!("client-{name}"));
    let folder = CertificateFolder::new(&path)?;
    folder.client(&authority.client(name)?)?;
    folder.authority(certificate)?;
    Ok(ClientFolder {
        name: name.to_owned(),
        folder: path,
    })
}

/// The names of the server: those that were given, or what this machine calls itself; and always
/// what it is to itself.
fn hosts(given: &[String]) -> Vec<String> {
    let mut hosts = given.to_vec();
    if hosts.is_empty() {
        let own = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        // Most home networks know it under this name too.
        let local = (!own.contains('.')).then(|| format!("{own}.local"));
        hosts.extend(
            [own]
                .into_iter()
                .chain(local)
                .filter(|name| is_server_name(name)),
        );
    }
    for own in ["localhost", "127.0.0.1", "::1"] {
        if !hosts.iter().any(|host| host == own) {
            hosts.push(own.to_owned());
        }
    }
    hosts
}

impl InitReport {
    fn text(&self) -> String {
        let dir = self.folder.display();
        let mut text = format!(
            "Made in {dir}: an authority, and a certificate for a server that is called {}.\n\
             On the server:  outboard serve NAME=DISK --listen 0.0.0.0 --tls {dir}",
            self.hosts.join(", ")
        );
        let host = self.hosts.first().map_or("HOST", String::as_str);
        for client in &self.clients {
            text.push('\n');
            text.push_str(&client.text(host));
        }
        if let Some(group) = self.key_group {
            text.push_str(&format!(
                "\nThe group {group}, which the service runs as, may read {dir}/server-key.pem."
            ));
        }
        text.push_str(&format!(
            "\nKeep {dir}/{AUTHORITY_KEY} secret: it can sign certificates for any client."
        ));
        text
    }
}

impl ClientFolder {
    fn text(&self, host: &str) -> String {
        let Self { name, folder } = self;
        let folder = folder.display();
        format!(
            "For {name}: copy {AUTHORITY}, client-cert.pem and client-key.pem of {folder} there; then  \
             outboard attach 'nbds://{host}/NAME?tls-certificates=FOLDER'"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::group_id;

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let groups = "root:x:0:\nbroken\noutboarders:x:7:\noutboard:x:110:pi\n";
        assert_eq!(group_id("outboard", groups), Some(110));
        for unknown in ["out", "", "broken", "110"] {
            assert_eq!(group_id(unknown, groups), None, "{unknown}");
        }
    }
}
