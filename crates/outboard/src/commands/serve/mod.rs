//! `outboard serve`: disks over NBD.
//!
//! # Invariants
//!
//! * Disks are opened before the first socket listens, so that every connection can be served. With `user` it is the
//!   other way round, since only root may open some sockets, and disks are opened by the user: connections wait in
//!   the backlog until then.
//! * Other machines are served without TLS only with `--insecure` or `insecure = true`.
//! * A stop finishes what is in flight and flushes before the process ends; a second signal does not
//!   wait for that.
//! * At every end but by SIGKILL, its Unix sockets and its port file are removed.

mod announce;
pub(crate) mod arrays;
mod auto;
mod export_changes;
pub(crate) mod exports;
pub(crate) mod listen;
pub(crate) mod live;
mod notify;
mod open_export;
mod overlays;
mod page;
mod per_client;
mod places;
pub(crate) mod port_file;
mod snapshot_merge;
mod snapshots;
mod sockets;
#[cfg(feature = "bucket")]
mod standby;
mod stop;
mod tls;
mod user;
mod volume_moves;

use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{FromArgMatches as _, ValueEnum};
use nbd::server::{Limits, ListenAddress, Server};
use rustix::fs::FileType;
use tokio::sync::oneshot;

use crate::arrays::Arrays;
use crate::arrays::hook::Hook;
use crate::config::{self, NO_QUOTA, OverlayPlace, OverlayPlan, ServerPlan};
use crate::control::{self, place};
use crate::event_log::EventLog;
use crate::failure::Failure;
use crate::live_page::PagePlan;
use crate::metrics;
use crate::metrics::MetricSources;
use crate::output::Format;
use crate::snapshots::Snapshots;
use exports::WriteArgs;
use listen::ListenPlace;
use live::{About, ActiveConfig, Live, offer};
use open_export::{OpenExport, Opening};
use page::PageArgs;
use places::ListenPlaces;
use sockets::{SocketOptions, Sockets};
use stop::StopSignals;
use tls::{Guard, TlsArgs};

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A disk to serve: a path, memory(SIZE), nbd://HOST/EXPORT…; the first is also the default
    #[arg(required_unless_present = "config", value_name = "[NAME=]DISK")]
    disks: Vec<String>,

    /// Serve what this file says; SIGHUP or `outboard reload` reads it again
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "disks", "listen", "read_only", "stdin", "writers", "single_writer", "connections_max", "tls", "insecure", "metrics", "http", "tls_optional", "tls_any_client", "tls_minimum",
    ])]
    config: Option<PathBuf>,

    /// Serve what is found on the disks, read-only, by stable names: part/1, whole
    #[arg(long, conflicts_with = "config")]
    auto: bool,

    /// With --auto: let clients write
    #[arg(long, requires = "auto", conflicts_with = "read_only")]
    writable: bool,

    /// Only check the configuration or the disks
    #[arg(long)]
    check: bool,

    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(
        long,
        value_name = "WHERE",
        help = "Where to listen: ADDRESS[:PORT] or unix:PATH[,mode=660] [default: 127.0.0.1:10809]"
    )]
    listen: Vec<ListenPlace>,

    #[command(flatten)]
    tls: TlsArgs,

    #[command(flatten)]
    access: WriteArgs,

    /// Open a volume when a client is going to write to it: another server may have it until then
    #[arg(long, conflicts_with_all = ["config", "read_only", "overlay_per_client", "auto"])]
    standby: bool,

    /// Give each client an overlay of its own in this folder, or a clone of the volume that is served at this URI; the disks are never written
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "read_only", "stdin"])]
    overlay_per_client: Option<PathBuf>,

    /// Quota of each overlay [default: 2G]
    #[arg(long, value_name = "SIZE", value_parser = config::quota, requires = "overlay_per_client")]
    overlay_quota: Option<u64>,

    /// Serve one client on standard input, a connected socket
    #[arg(long, conflicts_with_all = ["listen", "port_file"])]
    stdin: bool,

    /// Write the TCP port to this file once it is open
    #[arg(long, value_name = "PATH")]
    port_file: Option<PathBuf>,

    /// Serve Prometheus metrics over HTTP at this address
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "stdin")]
    metrics: Option<SocketAddr>,

    #[command(flatten)]
    page: PageArgs,

    /// Estimate what volumes on object stores cost by the section store_prices of this file
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    store_prices: Option<PathBuf>,

    /// Where the control socket is, instead of in the runtime directory
    #[arg(long, value_name = "PATH", conflicts_with = "stdin")]
    control: Option<PathBuf>,

    /// Run this program when something happens to an array: PROGRAM EVENT ARRAY MEMBER
    #[arg(long, value_name = "PROGRAM", conflicts_with = "config")]
    on_event: Option<String>,

    /// Stop when the process that started this one ends
    #[arg(long)]
    exit_with_parent: bool,

    /// Limit of connections
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections_max)]
    connections_max: usize,

    #[command(flatten)]
    engine: EngineArgs,
}

impl Args {
    /// `serve --config FILE`, for another command.
    pub(crate) fn of_config(path: &Path) -> Result<Self, Failure> {
        let command = <Self as clap::Args>::augment_args(clap::Command::new("serve"));
        let words = ["serve".as_ref(), "--config".as_ref(), path.as_os_str()];
        let matches = command.try_get_matches_from(words);
        let args = matches.and_then(|matches| Self::from_arg_matches(&matches));
        args.map_err(|error| crate::cli::failure(&error))
    }
}

/// How the engine is started.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct EngineArgs {
    /// How files are read and written; auto takes io_uring where it works
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Engine::Auto)]
    engine: Engine,

    /// Processor cores to use; 0 takes all
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = cores)]
    cores: usize,
}

/// `--cores`
fn cores(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|_| "it is no number".to_owned())?;
    match count <= engine::CORES_MAX {
        true => Ok(count),
        false => Err(format!("at most {} are used", engine::CORES_MAX)),
    }
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

/// Serves until a signal stops it.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    let plan = plan(&args, format)?;
    if args.check {
        return checked(&args, &plan, format);
    }
    let clients = if args.stdin {
        Clients::One(standard_input()?)
    } else {
        let places = ListenPlaces::find(&plan.listen, args.port_file.as_deref())?;
        let wanted = SocketOptions {
            places,
            guard: Guard::of(&plan),
            control: plan.control.clone(),
            metrics: plan.metrics,
            page: plan.http.clone(),
        };
        match &plan.user {
            None => Clients::Listen(wanted),
            Some(user) => {
                let identity = user::named(user)?;
                let sockets = wanted.open()?;
                identity.assume()?;
                Clients::Wait(sockets)
            }
        }
    };
    crate::buckets::set_prices(plan.store_prices.clone());
    args.engine
        .run(async |handle| Box::pin(serve(handle, &args, plan, clients, format)).await)
}

/// The overlays of the command line.
fn overlay_plan(args: &Args) -> Result<Option<OverlayPlan>, Failure> {
    let Some(place) = &args.overlay_per_client else {
        return Ok(None);
    };
    let place = OverlayPlace::parse(place).map_err(Failure::usage)?;
    if args.overlay_quota.is_some() && !place.has_quota() {
        return Err(Failure::usage(NO_QUOTA).next("omit --overlay-quota"));
    }
    let plan = OverlayPlan::at(place);
    let quota = args.overlay_quota.unwrap_or(plan.quota);
    Ok(Some(OverlayPlan { quota, ..plan }))
}

/// What the arguments ask for.
fn plan(args: &Args, format: Format) -> Result<ServerPlan, Failure> {
    if let Some(path) = &args.config {
        let plan = config::read(path).map_err(Failure::new)?;
        return Ok(plan.with_socket(args.control.clone()));
    }
    let exports = if args.auto {
        auto::plan(&args.disks, args.writable, format)?
    } else {
        let read_only = args.access.read_only;
        exports::free(exports::plan(&args.disks, read_only)?, read_only)
    };
    let overlay = overlay_plan(args)?;
    let writers = args.access.writers();
    if writers.record.is_some() && exports.len() > 1 {
        let what = "--writer-file with several disks: each needs one of its own";
        return Err(Failure::usage(what).next("write a configuration file, with writer_file"));
    }
    Ok(ServerPlan {
        listen: args.listen.clone(),
        insecure: args.tls.insecure,
        exports: exports
            .into_iter()
            .map(|export| {
                let export = exports::with_overlays(export, overlay.as_ref())?;
                let export = exports::with_writers(export, &writers)?;
                exports::with_standby(export, args.standby)
            })
            .collect::<Result<_, Failure>>()?,
        limits: Limits {
            connections_max: args.connections_max,
            ..Limits::default()
        },
        tls: args.tls.plan(),
        control: args.control.clone(),
        metrics: args.metrics,
        http: args.page.plan(),
        user: None,
        on_event: args.on_event.clone().map(|program| vec![program]),
        store_prices: config::store_prices(args.store_prices.as_deref())?,
    })
}

/// `--check`: validates all that can be validated without opening anything.
fn checked(args: &Args, plan: &ServerPlan, format: Format) -> Result<(), Failure> {
    tls::load(plan)?;
    plan.http.as_ref().map(PagePlan::check).transpose()?;
    if let Some(user) = &plan.user {
        user::named(user)?;
    }
    let names: Vec<&str> = plan.exports.iter().map(|e| e.name.as_str()).collect();
    let exports = serde_json::json!({ "exports": names });
    format.print(&exports, || {
        let path = args.config.as_ref().map(|path| path.display().to_string());
        let exports = match names.len() {
            1 => "1 export".to_owned(),
            count => format!("{count} exports"),
        };
        format!("{}: {exports}", path.as_deref().unwrap_or("command line"))
    })
}

/// Where clients come from.
#[derive(Debug)]
enum Clients {
    /// There is one, connected already.
    One(OwnedFd),
    /// They will connect.
    Listen(SocketOptions),
    /// They may be connecting already.
    Wait(Sockets),
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
    plan: ServerPlan,
    clients: Clients,
    format: Format,
) -> Result<(), Failure> {
    let mut stop = StopSignals::watch(args.exit_with_parent, args.config.is_some())?;
    let token = plan.http.as_ref().map(PagePlan::token).transpose()?;
    let (exports, mut open) = stop.before(open(&plan)).await?;
    tracing::info!(backend = %handle.backend(), cores = handle.cores(), "engine started");
    let events = EventLog::default();
    let sources = watched(&plan, &mut open, &events);
    let mut server = Server::with_rules(exports, plan.limits.clone()).map_err(Failure::new)?;
    let tls = tls::load(&plan)?;
    if let Some((tls, demand)) = &tls {
        server = server.with_tls(tls.clone(), *demand);
    }
    let controls = server.control();
    let (stop_sender, stop_receiver) = oneshot::channel();
    let stopped = async {
        // A sender that went away without a word means the same.
        drop(stop_receiver.await);
        notify::send("STOPPING=1");
    };
    let sockets = match clients {
        Clients::One(socket) => {
            let serving = server.serve_connection(&handle, socket, stopped);
            let serving = and_stop(serving, &sources, controls);
            return Box::pin(stop.during(stop_sender, serving, || ())).await;
        }
        Clients::Listen(wanted) => wanted.open()?,
        Clients::Wait(sockets) => sockets,
    };
    let (control, metrics) = (sockets.control, sockets.metrics);
    let (listeners, traces) = (sockets.places.listeners, sockets.places.traces);
    let addresses: Vec<_> = listeners.iter().map(|l| l.address().clone()).collect();
    let announced = (!sockets.places.is_activated).then_some(format);
    if let Some(format) = announced {
        announce_exports(&plan, &addresses, format)?;
    }
    let about = About {
        name: called(control.as_ref()),
        config: args.config.clone(),
        socket: args.control.clone(),
        listen: addresses.iter().map(ToString::to_string).collect(),
        metrics: metrics.as_ref().and_then(sockets::address),
        since: engine::clock::now(),
    };
    let running = ActiveConfig { plan, open };
    let tls = tls.map(|(tls, _)| tls);
    let live = Live::new(about, controls.clone(), tls, sources.clone(), running);
    if let Some(control) = &control {
        control::server::start(control, live.clone())?;
    }
    let _page = page::start(sockets.page, token.flatten(), &live, events, announced)?;
    if args.config.is_some() {
        reload_at_hangup(live)?;
    }
    let start = |listener| metrics::start(listener, controls.clone(), sources.clone());
    let _metrics = metrics.map(start).transpose()?;
    notify::ready(&handle);
    let serving = server.serve(&handle, listeners, stopped);
    let serving = and_stop(serving, &sources, controls);
    let clean_up = || {
        traces.remove();
        control.iter().for_each(place::ControlSocket::remove);
    };
    stop.during(stop_sender, serving, clean_up).await
}

fn announce_exports(
    plan: &ServerPlan,
    addresses: &[ListenAddress],
    format: Format,
) -> Result<(), Failure> {
    let names: Vec<String> = plan.exports.iter().map(|e| e.name.clone()).collect();
    announce::announce(addresses, &names, tls::announced(plan).as_ref(), format)
}

/// What this server is called: by its control socket, else by its process.
fn called(control: Option<&place::ControlSocket>) -> String {
    control.map_or_else(
        || std::process::id().to_string(),
        |socket| place::name(socket.path()),
    )
}

/// The arrays below the disks, and their snapshots, which are watched from here on.
fn watched(plan: &ServerPlan, open: &mut [OpenExport], events: &EventLog) -> MetricSources {
    let hook = match plan.http {
        None => plan.on_event.clone().map(Hook::start),
        Some(_) => Some(Hook::with_log(plan.on_event.clone(), events.clone())),
    };
    let snapshots = Snapshots::watched(hook.clone());
    let arrays = Arc::new(Arrays::new(hook));
    live::watch(&arrays, &snapshots, open);
    MetricSources { arrays, snapshots }
}

/// Serves, interrupts moves of extents and merges, and marks the arrays clean, and closes caches, when all is flushed.
/// `open` keeps the disks open until their caches are closed.
async fn and_stop<E>(
    serving: impl Future<Output = Result<(), E>>,
    sources: &MetricSources,
    open: nbd::server::Control,
) -> Result<(), E> {
    let served = serving.await;
    sources.snapshots.stop_moves().await;
    sources.snapshots.stop_merges().await;
    // What could not be done is in the log; the data is there in any case.
    // Before the arrays below caches stop, and once more behind those that caches are members of.
    crate::caches::close_all().await;
    drop(sources.arrays.stop_all().await);
    crate::caches::close_all().await;
    crate::buckets::close_all().await;
    drop(open);
    served
}

/// Reads the configuration again at each SIGHUP.
fn reload_at_hangup(live: Arc<Live>) -> Result<(), Failure> {
    let mut hangup = stop::hangup()?;
    drop(engine::spawn(async move {
        while hangup.recv().await.is_some() {
            // What came of it is in the log.
            drop(live.reload().await);
        }
    }));
    Ok(())
}

/// What is served, and what is known of its disks.
type Offers = (
    Vec<(nbd::server::Export, nbd::server::Rules)>,
    Vec<OpenExport>,
);

async fn open(plan: &ServerPlan) -> Result<Offers, Failure> {
    let mut opening = Opening::default();
    for export in &plan.exports {
        opening.open(export).await?;
    }
    let mut open = opening.done();
    let disks = open.iter_mut().filter_map(OpenExport::take);
    let exports = plan.exports.iter().zip(disks);
    let exports = exports.map(|(export, disk)| offer(export, disk)).collect();
    Ok((exports, open))
}

#[cfg(test)]
mod tests;
