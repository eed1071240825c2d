//! `outboard agent`: sensors, counters and the time of this machine for a lab that runs on another one.
//!
//! The options, and where it may listen; the server is [`AgentServer`].

mod listen;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lab::agent::local::{AgentService, Rights};
use lab_drivers::agent::{AgentServer, ServerToken, random};
use nbd::tls::{ClientCertificates, ServerTls, ServerTlsFiles};
use serde::Serialize;

use crate::commands::serve::port_file::PortFile;
use crate::control;
use crate::failure::Failure;
use crate::output::Format;
use listen::ListenAddress;

/// Arguments of `agent`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(
        long,
        value_name = "ADDRESS[:PORT]",
        help = "Where to listen [default: 127.0.0.1:10811]"
    )]
    listen: Option<ListenAddress>,

    /// The file with the token that the lab must show; made if it is not there [default: one is made and
    /// printed]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Speak TLS with the certificates in this folder (`outboard tls init DIR` makes one)
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,

    /// Let other machines in without TLS: the token can be read on the network
    #[arg(long)]
    insecure: bool,

    /// Let the lab have this machine's page cache dropped before it reads
    #[arg(long)]
    allow_drop_caches: bool,

    /// Let the lab have fio started here as a server: a client that reaches it can run what this user can
    #[arg(long)]
    allow_fio: bool,

    /// Let the lab have iperf3 started here as a server, for what the wire carries: a client that reaches it can
    /// send it bytes
    #[arg(long)]
    allow_iperf3: bool,

    /// Write the TCP port to this file once it is open
    #[arg(long, value_name = "PATH")]
    port_file: Option<PathBuf>,
}

/// What is printed once it listens.
#[derive(Debug, Serialize)]
struct AgentStarted {
    address: SocketAddr,
    port: u16,
    tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<PathBuf>,
    drops_caches: bool,
    runs_fio: bool,
    runs_iperf3: bool,
}

/// Serves until a signal stops it.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let tls = args.tls.as_deref().map(load).transpose()?;
    if args.allow_drop_caches {
        AgentService::can_drop_caches().map_err(|error| {
            Failure::because("the page cache cannot be dropped here", &error)
                .next("start the agent as root, or leave --allow-drop-caches away")
        })?;
    }
    let place = args.listen.clone().unwrap_or_default();
    let (listener, address) = place.open()?;
    listen::check(address, tls.is_some(), args.insecure, args.allow_fio)?;
    let token = ServerToken::of(args.token_file.as_deref())?;
    let session = random()?;
    let rights = Rights {
        drop_caches: args.allow_drop_caches,
        fio: args.allow_fio,
        iperf3: args.allow_iperf3,
    };
    let service = AgentService::new(session, rights).with_reports(control::server_report::read);
    let host = Arc::new(service);
    let _port_file = args
        .port_file
        .as_deref()
        .map(|path| PortFile::write(path, address.port()))
        .transpose()?;
    let told = AgentStarted {
        address,
        port: address.port(),
        tls: tls.is_some(),
        token: token.made().map(str::to_owned),
        token_file: args.token_file.clone(),
        drops_caches: args.allow_drop_caches,
        runs_fio: args.allow_fio,
        runs_iperf3: args.allow_iperf3,
    };
    let server = AgentServer {
        host,
        token: Arc::new(token),
        tls,
        address: address.ip(),
    };
    let config = engine::Config {
        // One core is enough, and files are read by the blocking threads.
        backend: engine::BackendChoice::Threads,
        cores: 1,
    };
    let ran = engine::run(&config, async |_| {
        format.print(&told, || told.text())?;
        Ok(server.until_stopped(listener).await?)
    });
    ran.map_err(|error| Failure::because("cannot start", &error))?
}

/// The certificate. Clients show the token instead of one of their own.
fn load(folder: &Path) -> Result<ServerTls, Failure> {
    let mut files = ServerTlsFiles::in_folder(folder);
    files.clients = ClientCertificates::Ignored;
    ServerTls::load(files).map_err(|error| {
        let next = format!(
            "`outboard tls init {}` makes what is needed",
            folder.display()
        );
        Failure::from_error(&error).next(next)
    })
}

impl AgentStarted {
    fn text(&self) -> String {
        let under = if self.tls { " under TLS" } else { "" };
        let mut may = Vec::new();
        if self.drops_caches {
            may.push("drop caches");
        }
        if self.runs_fio {
            may.push("run fio");
        }
        if self.runs_iperf3 {
            may.push("run iperf3");
        }
        let may = match may.is_empty() {
            true => "It only reads.".to_owned(),
            false => format!("It may {}.", may.join(" and ")),
        };
        let token = match (&self.token_file, &self.token) {
            (Some(file), _) => format!("The token is in {}.", file.display()),
            (None, token) => format!("Token: {}", token.as_deref().unwrap_or_default()),
        };
        format!("Listening on {}{under}. {may}\n{token}", self.address)
    }
}
