//! `outboard serve`: disks over NBD.
//!
//! # Invariants
//!
//! * Disks are opened before the first socket listens: who can connect can use them.
//! * A stop finishes what is in flight and flushes before the process ends; a second signal does not
//!   wait for that.
//! * Whatever way it ends, but by SIGKILL, its Unix sockets and its port file are removed.

mod announce;
mod exports;
mod listen;
mod places;
mod port_file;
mod stop;

use std::future::Future;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use clap::ValueEnum;
use nbd::server::{Export, Limits, Server};
use rustix::fs::FileType;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::graph::NamedDisk;
use crate::graph::builder::Builder;
use crate::output::Format;
use listen::Place;
use places::Places;
use stop::Stop;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A disk to serve: a path, memory(SIZE), nbd://HOST/EXPORT…; the first is also the default
    #[arg(required = true, value_name = "[NAME=]DISK")]
    disks: Vec<String>,

    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(
        long,
        value_name = "WHERE",
        help = "Where to listen: ADDRESS[:PORT] or unix:PATH [default: 127.0.0.1:10809]"
    )]
    listen: Vec<Place>,

    /// Refuse writes
    #[arg(long)]
    read_only: bool,

    /// Serve one client on standard input, a connected socket
    #[arg(long, conflicts_with_all = ["listen", "port_file"])]
    stdin: bool,

    /// Write the TCP port to this file once it is open
    #[arg(long, value_name = "PATH")]
    port_file: Option<PathBuf>,

    /// Stop when the process that started this one ends
    #[arg(long)]
    exit_with_parent: bool,

    /// Most clients at once
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections_max)]
    connections_max: usize,

    #[command(flatten)]
    engine: EngineArgs,
}

/// How the engine is started.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct EngineArgs {
    /// How files are read and written; auto takes io_uring where it works
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Engine::Auto)]
    engine: Engine,

    /// Processor cores to use; 0 takes all
    #[arg(long, value_name = "N", default_value_t = 0)]
    cores: usize,
}

/// `--engine`: io_uring where it works and else threads, io_uring or nothing, blocking threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    Auto,
    Uring,
    Threads,
}

impl EngineArgs {
    /// Runs `main` on the engine.
    pub(crate) fn run<F, T>(self, main: impl FnOnce(engine::Handle) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let backend = match self.engine {
            Engine::Auto => engine::BackendChoice::Auto,
            Engine::Uring => engine::BackendChoice::Uring,
            Engine::Threads => engine::BackendChoice::Threads,
        };
        let config = engine::Config {
            backend,
            cores: self.cores,
        };
        engine::run(&config, main).map_err(|error| Failure::because("cannot start", &error))?
    }
}

/// Serves until told to stop.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    let disks = exports::plan(&args.disks, args.read_only)?;
    let clients = if args.stdin {
        Clients::One(standard_input()?)
    } else {
        Clients::Listen(Places::find(&args.listen, args.port_file.as_deref())?)
    };
    args.engine
        .run(async |handle| serve(handle, &args, disks, clients, format).await)
}

/// Where clients come from.
#[derive(Debug)]
enum Clients {
    /// There is one, connected already.
    One(OwnedFd),
    /// They connect.
    Listen(Places),
}

fn standard_input() -> Result<OwnedFd, Failure> {
    let stdin = std::io::stdin();
    let is_socket = rustix::fs::fstat(&stdin)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket);
    if !is_socket {
        let failure = Failure::new("the standard input is no socket");
        return Err(failure.next("--stdin is for programs that hand over a connected socket"));
    }
    let fd = stdin.as_fd().try_clone_to_owned();
    fd.map_err(|error| Failure::because("cannot use the standard input", &error))
}

async fn serve(
    handle: engine::Handle,
    args: &Args,
    disks: Vec<NamedDisk>,
    clients: Clients,
    format: Format,
) -> Result<(), Failure> {
    let mut stop = Stop::watch(args.exit_with_parent)?;
    let exports = stop.before(open(disks, args.read_only)).await?;
    let names: Vec<String> = exports.iter().map(|export| export.name.clone()).collect();
    let limits = Limits {
        connections_max: args.connections_max,
        ..Limits::default()
    };
    let server = Server::new(exports, limits).map_err(Failure::new)?;
    let (tell, told) = oneshot::channel();
    let told = async {
        // A sender that went away without a word means the same.
        drop(told.await);
    };
    match clients {
        Clients::One(socket) => {
            let serving = server.serve_connection(&handle, socket, told);
            stop.during(tell, serving, || ()).await
        }
        Clients::Listen(places) => {
            let places::Open { listeners, traces } = places.open()?;
            let addresses: Vec<_> = listeners
                .iter()
                .map(|open| open.address().clone())
                .collect();
            announce::announce(&addresses, &names, format)?;
            let serving = server.serve(&handle, listeners, told);
            stop.during(tell, serving, || traces.remove()).await
        }
    }
}

async fn open(disks: Vec<NamedDisk>, read_only: bool) -> Result<Vec<Export>, Failure> {
    let mut builder = Builder::new(read_only);
    let mut exports = Vec::new();
    for disk in disks {
        exports.push(Export {
            name: disk.name.clone().unwrap_or_default(),
            // The expression would tell every client the server's paths.
            description: String::new(),
            disk: builder.build(&disk).await?,
        });
    }
    Ok(exports)
}

#[cfg(test)]
mod tests;
